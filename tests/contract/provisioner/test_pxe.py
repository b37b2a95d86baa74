# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Our own boot server, beside what the contract suite asks of every driver."""

from __future__ import annotations

import contextlib
import fcntl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    ConfigError,
    NotOurs,
    Refused,
    WrongMachine,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from calls import await_all, deployed, lead, ready, watch_all
from pxe_files.site import PxeSite
from test_info import look


@pytest.fixture
def pxe(started: Any) -> Iterator[Any]:
    with started(PxeSite).in_good_health() as chosen:
        yield chosen


def test_an_entry_that_a_person_has_written_is_somebodys(pxe: Any) -> None:
    options = deployed(pxe, known_deployed=True, deploy_id="41", known_deploy_ids=["41"])
    pxe.store.entry(options["boot_mac"]).write_text("#!ipxe\nsanboot http://x\n", encoding="utf-8")
    with pytest.raises(NotOurs, match="entry of somebody's"):
        lead({**options, "image": pxe.image("2"), "deploy_id": "42"}, "deployed")
    assert pxe.faults.writes == []


def test_no_address_and_no_word_brings_a_command_of_its_own(pxe: Any) -> None:
    options = ready(pxe)
    for url in ("http://x/a || shell", "http://x/${net0/ip}", "http://x/a\nshell", 'http://x/"a'):
        with pytest.raises(ConfigError, match="no loader fetches url"):
            lead({**options, "image": {**pxe.image(), "url": url}}, "deployed")
    for words in (["a b"], ["quiet;"], ";", "quiet ;", "#x", "|| shell", "&& shell", "||"):
        with pytest.raises(ConfigError, match="no words of a kernel's command line"):
            lead({**options, "driver": {"args": words}}, "enrolled")
    with pytest.raises(ConfigError, match="unknown keys in driver: arg"):
        lead({**options, "driver": {"arg": "quiet"}}, "enrolled")
    for said in ({"owners": "me"}, {"pxe": {"owners": {"me": "x"}}}):
        with pytest.raises(ConfigError, match="no list in driver: owners"):
            lead({**options, "driver": said}, "enrolled")
    assert pxe.faults.writes == []


def test_v9_words_that_boot_another_system_need_a_reason(pxe: Any) -> None:
    options = {**ready(pxe), "image": pxe.image()}
    for word in ("root=live:http://x/other", "nfsroot=10.1.0.9:/srv", "fetch=//x/other"):
        with pytest.raises(ConfigError, match=f"is not what image_verify has verified.*{word}"):
            lead({**options, "driver": {"args": ["quiet", word]}}, "deployed", image_verified=True)
    assert pxe.faults.writes == []


@pytest.mark.parametrize("words", ["quiet root=live:http://x/other", "quiet ; shell", "#"])
def test_words_that_somebody_wrote_into_the_record_are_judged_like_ours(pxe: Any, words: str) -> None:
    options = {**ready(pxe), "image": pxe.image()}
    pxe._changed(options["name"], args=words)
    with pytest.raises(Refused, match="words in the node's record"):
        lead(options, "deployed")
    assert not pxe.store.entry(options["boot_mac"]).exists()
    assert lead({**options, "driver": {"args": ""}}, "enrolled")["changed"]
    assert lead(options, "deployed")["changed"]


def test_what_a_node_is_told(pxe: Any) -> None:
    options = {**ready(pxe), "driver": {"args": "console=ttyS0 quiet", "ip": "10.1.0.17"}}
    assert lead(options, "enrolled")["changed"] and not lead(options, "enrolled")["changed"]
    lead({**options, "image": pxe.image(), "deploy_id": "7f0c"}, "deployed")
    lines = pxe.ask(f"/entries/{pxe.card(options['name'])}.ipxe").decode().splitlines()
    [kernel] = [line for line in lines if line.startswith("kernel ")]
    card = options["boot_mac"].replace(":", "-")
    assert kernel == (
        "kernel --name vmlinuz http://127.0.0.1:9/vmlinuz initrd=image console=ttyS0 quiet"
        f" BOOTIF=01-{card} gpufleet.sha256={'1' * 64} gpufleet.deploy=7f0c || goto kernel"
    )
    assert "initrd --name image http://127.0.0.1:9/gold-1.img || goto image" in lines
    host = (pxe.root / "dhcp-hosts" / options["name"]).read_text(encoding="utf-8")
    assert host == f"{options['boot_mac']},10.1.0.17,{options['name']}\n"


def test_a_write_that_was_killed_between_its_two_files_is_no_order(pxe: Any) -> None:
    """The note stands, and the entry is that of before: it was deployed with that, and is."""
    options = deployed(pxe, deploy_id="41")
    entry = pxe.store.entry(options["boot_mac"])
    kept = entry.read_text(encoding="utf-8")
    record = pxe.store.record(options["name"])
    pxe.store.boot(options["name"], record["version"], {"entry": kept + "#", "note": {"name": "gold", "version": "2"}})
    entry.write_text(kept, encoding="utf-8")
    told = lead(options, "enrolled", check=True)
    assert told["state"] == "deployed" and told["image"]["version"] == "1" and told["image"]["deploy_id"] == "41"
    assert lead({**options, "image": pxe.image("2"), "deploy_id": "42"}, "deployed")["changed"]


def test_an_order_moves_to_no_other_machine(pxe: Any) -> None:
    """The serial of the record is the one that we wrote there: it says nothing of who has that card."""
    options = deployed(pxe, deploy_id="41")
    other = "52:54:ff:fd" + options["boot_mac"][11:]
    for state in ("enrolled", "ready", "released"):
        with pytest.raises(WrongMachine, match="another machine"):
            lead({**options, "boot_mac": other}, state)
    assert pxe.faults.writes == []
    record = pxe.store.record(options["name"])
    with pytest.raises(pxe.program.No, match="was ordered for") as refused:
        pxe.store.put(options["name"], record["version"], {"mac": other})
    assert refused.value.kind == "ordered" and not pxe.store.entry(other).exists()
    assert pxe.store.record(options["name"]) == record
    pxe.store.unboot(options["name"], record["version"])
    pxe.store.put(options["name"], record["version"] + 1, {"mac": other})
    assert pxe.store.record(options["name"])["mac"] == other, "without an order it is a record and no more"


def test_what_anybody_on_the_boot_network_says_fails_no_node(pxe: Any) -> None:
    options = {**ready(pxe), "image": pxe.image(), "deploy_id": "41"}
    lead(options, "deployed")
    pxe.boot(options["name"])
    pxe.says_that_it_failed(options["name"], "kernel")
    told = lead(options, "deployed", check=True)
    assert (told["provision_state"], told["state"], told["step"]) == ("not loaded", "deploying", "boot")
    assert told["last_error"] == "its loader says that it could not load the kernel"
    verdict = watch_all(pxe, "deployed", options, booted=True, timeout=1)["verdicts"][options["name"]]
    assert not verdict["ok"] and verdict["reason"].startswith("still not loaded after 1 s; its loader says"), verdict
    assert await_all(pxe, "deployed", options)["verdicts"][options["name"]]["ok"], "the next boot is a boot"
    pxe.says_that_it_failed(options["name"], "kernel")
    told = lead(options, "deployed", check=True)
    assert (told["provision_state"], told["last_error"]) == ("booted", "")


#: The command as a boot server runs it whose clock differs from the controller's.
_CLOCK = """#!{python}
import json, subprocess, sys
done = subprocess.run([{real!r}, *sys.argv[1:]], stdout=subprocess.PIPE)
told = json.loads(done.stdout)
told["now"] += {ahead}
for node in told["nodes"].values():
    node["seen"] = {{**node["seen"], "at": node["seen"].get("at", 0.0) + {ahead}}}
print(json.dumps(told))
sys.exit(done.returncode)
"""


@pytest.mark.parametrize("ahead", [600.0, -600.0])
def test_that_it_asked_since_its_boot_is_told_by_one_clock(pxe: Any, tmp_path: Path, ahead: float) -> None:
    """The boot server notes by its own clock when a loader asked, and the controller by its own when it was booted."""
    options = {**ready(pxe), "image": pxe.image(), "deploy_id": "41"}
    lead(options, "deployed")
    pxe.boot(options["name"])
    command = tmp_path / "netboot"
    real = pxe.connection()["provisioner_url"]
    command.write_text(_CLOCK.format(python=sys.executable, real=real, ahead=ahead), encoding="utf-8")
    command.chmod(0o755)
    params = {**pxe.connection(), "provisioner_url": str(command)}
    with contextlib.closing(pxe.driver(params, Context(node=options["name"]))) as driver:
        for since, counts in ((-100, True), (100, False)):
            wanted = Wanted(host=options["name"], name=options["name"], booted=True, booted_at=time.time() + since)
            assert driver.facts(driver.find(wanted), wanted)["booted"] is counts, since


def test_a_record_that_is_broken_stops_no_other_node(pxe: Any) -> None:
    options, other = ready(pxe), ready(pxe)
    record = pxe.root / "nodes" / f"{options['name']}.json"
    record.write_text('{"mac": "52:', encoding="utf-8")
    lead({**other, "image": pxe.image()}, "deployed")
    with pytest.raises(Refused, match="record on the boot server is broken"):
        lead(options, "enrolled")
    pxe.store.remove(options["name"])
    assert not (pxe.root / "dhcp-hosts" / options["name"]).exists()
    assert lead(options, "enrolled")["changed"]


ODD: tuple[tuple[str, Any, str], ...] = (
    ("booted", "yesterday", "booted is no number"),
    ("booted", {"at": 1}, "booted is no number"),
    ("note", {"digest": "x", "at": "noon"}, "note.at is no number"),
    ("note", "by hand", "note is no object"),
    ("marks", ["row"], "marks is no object"),
)


@pytest.mark.parametrize(("key", "value", "seen"), ODD)
def test_what_a_hand_has_written_into_a_record_stops_no_other_node(pxe: Any, key: str, value: Any, seen: str) -> None:
    batch = [{**ready(pxe), "image": pxe.image()} for _number in range(2)]
    bad, good = (one["name"] for one in batch)
    pxe._changed(bad, **{key: value})
    verdicts = await_all(pxe, "deployed", *batch, timeout=20)["verdicts"]
    assert verdicts[good]["ok"] and not verdicts[bad]["ok"] and verdicts[bad]["seconds"] < 10, verdicts
    assert seen in verdicts[bad]["reason"] and "record on the boot server is broken" in verdicts[bad]["reason"]
    pxe.faults.forget()
    told = look(pxe, *batch)["verdicts"]
    assert told[good]["ok"] and not told[bad]["ok"] and seen in told[bad]["reason"], told


def test_who_is_slow_to_say_what_to_write_keeps_nobody_waiting(pxe: Any) -> None:
    options = ready(pxe)
    argv = [sys.executable, pxe.program.__file__, "--root", str(pxe.root), "put", options["name"], "1"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as slow:
        assert slow.stdin is not None
        slow.stdin.write(b'{"mac"')
        slow.stdin.flush()
        try:
            assert lead({**options, "driver": {"ip": "10.1.0.18"}}, "enrolled")["changed"]
        finally:
            slow.kill()


def test_a_writer_waits_for_its_turn_and_not_for_ever(pxe: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pxe.program, "PATIENCE", 0.2)
    with open(pxe.root / ".lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(pxe.program.No, match="somebody else has been writing"), pxe.store.alone():
            pytest.fail("somebody else has its turn")
