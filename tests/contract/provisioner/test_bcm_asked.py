# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How BCM is asked: no word of an inventory becomes a command, and no node is entered that is another one's."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _away as away
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    AuthFailed,
    ConfigError,
    FleetError,
    Unreachable,
    WrongMachine,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import command
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.bcm import cmsh
from calls import await_all, deployed, lead, of_all, ready, watch_all
from test_info import look
from test_xcat_meanwhile import Waits


@pytest.fixture
def site(bcm_site: Any) -> Any:
    return bcm_site


def to_deploy(site: Any, **more: Any) -> dict[str, Any]:
    return {**ready(site), "image": site.image(), **more}


# -- nothing that ends a command ---------------------------------------------------------------------------------------

#: What would end a command, begin one of a shell, or be another node's.
EVIL = ('gold-1"; device; clear x mac; commit; "', "gold-1\n!reboot `id` $(id) > /etc/passwd")


@pytest.mark.parametrize("text", EVIL)
def test_no_word_of_an_inventory_becomes_a_command(site: Any, text: str) -> None:
    """Refused, or written so that it is read back as it was meant; the head of these tests stops at each such sign."""
    options = {**site.new(), "image": site.image()}
    serial = {**options, "serial": text}
    assert lead(serial, "enrolled")["changed"] and not lead(serial, "enrolled")["changed"]
    site.faults.forget()
    ways: tuple[dict[str, Any], ...] = (
        {"name": f"gpu1{text}"},
        {"name": "gpu001..gpu099"},
        {"driver": {**site.extras, "category": text}},
        {"driver": {**site.extras, "interface": text}},
        {"driver": {**site.extras, "ip": f"10.1.0.1{text}"}},
        {"image": {**site.image(), "named": text}},
    )
    for way in ways:
        with pytest.raises(FleetError):
            lead({**site.new(), "image": site.image(), **way}, "ready")
    assert site.faults.writes == []
    lead(serial, "maintenance", why=text)
    lead(serial, "serviceable")


def test_what_people_set_and_cannot_be_written_back_is_refused(site: Any) -> None:
    """By what follows a semicolon in it a session would do anything."""
    options = to_deploy(site, deploy_id="d-1")
    site.record(options["name"])["kernelparameters"] = "mitigations=auto;nosmt"
    site.faults.forget()
    with pytest.raises(ConfigError, match="kernelparameters cannot be written"):
        lead(options, "deployed")
    assert site.faults.writes == []


def test_a_range_is_no_node(site: Any) -> None:
    for name in ("gpu001..gpu009", "gpu[1-4]", "gpu001,gpu002", "^/etc/hosts", "*", "-gpu1"):
        with pytest.raises(ConfigError, match="a list of nodes to BCM"):
            lead({**site.new(), "name": name}, "ready")
    assert site.faults.calls == []


# -- how it is asked ---------------------------------------------------------------------------------------------------


def test_a_node_is_entered_with_its_card_and_category_and_no_login_of_its_bmc(site: Any) -> None:
    options = {**site.new(), "driver": {**site.extras, "ip": "10.141.0.7", "interface": "ens3"}}
    lead(options, "enrolled")
    record = site.record(options["name"])
    assert (record["mac"], record["category"], record["ip"]) == (options["boot_mac"].upper(), "gpu", "10.141.0.7")
    [made] = site.faults.writes
    assert f'add physicalnode {options["name"]} "10.141.0.7" "ens3"' in made.what
    sent = " ".join(call.what for call in site.faults.calls)
    assert not any(secret in sent for secret in site.secrets) and options["bmc_username"] not in sent
    assert " -n -q --color no --disable-events -c " in made.what
    with pytest.raises(ConfigError, match="the option driver says roles"):
        lead({**options, "driver": {"roles": "x"}}, "enrolled")


def test_no_node_is_given_the_card_of_another_one(site: Any) -> None:
    theirs, ours, new = ready(site), site.new(), site.new()
    site.head.enter(ours["name"])
    site.faults.forget()
    for options in (ours, new):
        with pytest.raises(WrongMachine, match=f"MAC belongs to {theirs['name']}"):
            lead({**options, "boot_mac": theirs["boot_mac"], "driver": {}}, "enrolled")
    assert site.faults.writes == []


def test_a_record_is_known_by_the_address_of_its_bmc_where_nothing_else_is_told(site: Any) -> None:
    options = deployed(site)
    site.forget_serial(options["name"])
    site.record(options["name"])["powercontrol"] = "rf0"
    site.head.interfaces[options["name"]] = {"rf0": "10.9.8.7"}
    known = {key: value for key, value in options.items() if key != "boot_mac"}
    assert lead({**known, "bmc_address": "https://10.9.8.7"}, "enrolled", check=True)["agrees"] == ["bmc_address"]


#: As an API may set it, and no person can type it.
BROKEN = "\nrack 7"


def test_a_record_that_cannot_be_read_has_a_verdict_of_its_own(site: Any) -> None:
    batch = [to_deploy(site) for _number in range(6)]
    bad = batch[2]["name"]
    site.record(bad)["userdefined1"] += BROKEN
    site.faults.forget()
    verdicts = await_all(site, "deployed", *batch, timeout=20)["verdicts"]
    assert [one["name"] for one in batch if not verdicts[one["name"]]["ok"]] == [bad] and site.deployments() == 5
    assert f"record of {bad} at BCM cannot be read" in verdicts[bad]["reason"] and verdicts[bad]["seconds"] < 10
    site.faults.forget()
    told = look(site, *batch)["verdicts"]
    assert [host for host, one in told.items() if not one["ok"]] == [bad] and "userdefined1" in told[bad]["reason"]
    for state in ("enrolled", "deployed", "released", "maintenance"):
        with pytest.raises(ConfigError, match="cannot be read"):
            lead(batch[2], state)


def test_who_cannot_be_read_once_leave_was_waited_for_is_out_of_a_commit_alone(site: Any) -> None:
    batch = [to_deploy(site) for _number in range(3)]
    bad = batch[1]["name"]
    line = Waits(1, lambda: site.record(bad).update(userdefined1=site.record(bad)["userdefined1"] + BROKEN))
    verdicts = await_all(site, "deployed", *batch, line=line)["verdicts"]
    assert [verdicts[one["name"]]["ok"] for one in batch] == [True, False, True], verdicts
    assert "cannot be read" in verdicts[bad]["reason"] and site.deployments() == 2


def test_where_cmsh_is_not_it_is_told_where_to_run(site: Any, tmp_path: Any) -> None:
    with pytest.raises(ConfigError, match="cmsh is not on this machine"):
        lead({**site.new(), "provisioner_url": str(tmp_path / "cmsh")}, "enrolled")
    with pytest.raises(ConfigError, match="this is not its path"):
        lead({**site.new(), "provisioner_url": "https://head:8081"}, "enrolled")


def test_a_refused_login_ends_the_batch(site: Any) -> None:
    batch = [to_deploy(site) for _number in range(2)]
    site.faults.refuse_login()
    with pytest.raises(AuthFailed, match="BCM refused us"):
        await_all(site, "deployed", *batch)


@pytest.mark.parametrize(("way", "kind"), [("refuse_login", AuthFailed), ("outage", Unreachable)])
def test_what_concerns_all_hosts_of_a_task_is_met_once(
    site: Any, way: str, kind: type[FleetError], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A login that is tried by each of a thousand hosts is locked; and each would wait for a daemon that is away."""
    monkeypatch.setattr(away, "AWAY_SECONDS", 0.0)
    tried = []
    for batch in ([site.new()], [site.new() for _number in range(6)]):
        site.faults.forget()
        getattr(site.faults, way)()
        told = of_all(batch, "enrolled", check=True)
        assert all(type(one) is kind and one.node == host for host, one in told.items()), told
        tried.append(len(site.faults.calls))
    assert tried[0] == tried[1], tried


def test_a_thousand_nodes_of_ten_letters_are_one_session_that_a_system_takes() -> None:
    names = [f"gpu{number:07d}" for number in range(1001)]
    first, second = cmsh.blocks(names)
    assert first == names[:1000] and second == names[1000:]
    longest = max(cmsh.blocks(f"gpu{number:060d}" for number in range(1000)), key=lambda block: sum(map(len, block)))
    asked = []

    class Asked(cmsh.Cmsh):
        def __init__(self) -> None:
            """Only what it would be asked."""

        def run(self, *commands: str, nodes: int = 1) -> command.Answer:
            asked.append("; ".join(commands))
            return command.Answer(0, "", "")

    for block in (first, longest):
        Asked()._asked(block)
    # What is more than this the kernel refuses: MAX_ARG_STRLEN is 32 pages.
    assert all(subprocess.run(["/bin/true", one], check=False).returncode == 0 for one in asked)
    assert all(len(one) > 100_000 for one in asked), "and little of it is left"


def test_words_of_people_stay_through_a_whole_life(site: Any) -> None:
    options = to_deploy(site, deploy_id="d-1")
    name = options["name"]
    site.record(name)["userdefined1"] = f"ask Anna, x=1 {site.record(name)['userdefined1']}"
    lead(options, "maintenance", run_id="run7", why="reseat")
    assert "gpufleet-hold=gpufleet:run7:reseat" in site.record(name)["userdefined1"]
    lead(options, "serviceable", run_id="run7")
    lead(options, "deployed", annotations={"rack/row": "r 12=a"})
    site.boot(name)
    assert watch_all(site, "deployed", options, booted=True)["verdicts"][name]["ok"]
    said = site.record(name)["userdefined1"]
    assert said.startswith("ask Anna, x=1 ") and "gpufleet-mark.rack/row=r%2012%3Da" in said
    lead(options, "released")
    assert site.record(name)["userdefined1"].startswith("ask Anna, x=1 ")
    assert "gpufleet.deploy" not in str(site.record(name))
