# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""No password, right or wrong, anywhere: not in output, results, diffs, ledger, logs or on a command line.

A wrong one is tried once, and the message says which one is wrong.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import counts
import lab
import pytest

WRONG = "Wr0ng-battery-17"  # IPMI knows 20 bytes at most
IMAGES_WORD = "Im4ges-staple-23"
MASK = "********"
ECHOED = b"was not understood"
LOUD = ("-vvv", "--diff")
NODES = ("gpu001", "gpu004")  # one Redfish BMC, one IPMI BMC
#: The first stage of day 0.
LOOK = "Look at everything that a run needs, and stop where the site or a service stands in its way"
LIMIT = ("--limit", ",".join(NODES))


@pytest.fixture(scope="module", autouse=True)
def rack() -> None:
    lab.new_rack()


def spellings() -> dict[bytes, str]:
    """Each secret of the rack and the wrong one, as they are and as they travel; by spelling, whose it is."""
    words = {path.name: path.read_text(encoding="utf-8").strip() for path in (lab.RACK / "secrets").iterdir()}
    words["wrong"] = WRONG
    found = {}
    for name, word in words.items():
        found[word.encode()] = name
        found[base64.b64encode(f"admin:{word}".encode())] = f"{name} in base64"
    key = (lab.RACK / "keys" / "passport_ed25519.pem").read_text(encoding="utf-8").splitlines()[1]
    found[key.encode()] = "passport key"
    ssh = (lab.RACK / "keys" / "node_ed25519").read_text(encoding="utf-8").splitlines()[2]
    found[ssh.encode()] = "ssh key"
    assert all(len(word) >= 8 for word in found), "too short to be looked for"
    return found


def told(content: bytes, words: dict[bytes, str]) -> set[str]:
    return {name for word, name in words.items() if word in content}


def command_lines() -> Iterator[bytes]:
    """Of every process there is. Fifty times a second, so without what makes a file of a number."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                handle = os.open(f"/proc/{name}/cmdline", os.O_RDONLY)
                try:
                    yield os.read(handle, 1 << 20)
                finally:
                    os.close(handle)


class CommandLines(threading.Thread):
    """Samples the command lines of every process on the machine, as any user can."""

    def __init__(self, words: dict[bytes, str]) -> None:
        super().__init__(daemon=True)
        self.found: set[str] = set()
        self.programs: set[str] = set()
        self._words = words
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(0.02):
            for line in command_lines():
                self.programs.add(line.partition(b"\0")[0].rpartition(b"/")[2].decode(errors="replace"))
                self.found |= {f"{name}: {line[:60]!r}" for name in told(line, self._words)}

    def __enter__(self) -> CommandLines:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self.join()


def nowhere(run: lab.Run, words: dict[bytes, str]) -> None:
    assert not told(run.output.encode(), words), "in the output"
    assert not told(json.dumps(run.results).encode(), words), "in a result"
    kept = sorted(lab.RACK.glob("ledger.sqlite*"))
    logs = [path for path in (lab.RACK / "log").glob("*") if path.is_file()]
    logs += sorted((lab.RACK / "nodes").glob("*/*.log")) + sorted((lab.RACK / "nodes").glob("*/*.jsonl"))
    mine = sorted((lab.CHECKOUT / "build" / "home-e2e").rglob("*")) + sorted(Path("/tmp").glob("gpufleet-*/*"))
    for path in [*kept, *logs]:
        assert not told(without_echoes(path.read_bytes()), words), path
    for path in filter(Path.is_file, mine):
        # Other runs on this machine have folders of this name, and take them away.
        with contextlib.suppress(FileNotFoundError):
            assert not told(without_echoes(path.read_bytes()), words), path


def without_echoes(content: bytes) -> bytes:
    """What a BMC repeats to Ironic is told by Ironic in its own log; what it tells us has no business anywhere."""
    return b"\n".join(line for line in content.split(b"\n") if not (b" ironic." in line and ECHOED in line))


def refused(node: str) -> int:
    path = lab.RACK / "nodes" / node / "bmc_refused.jsonl"
    return len(path.read_text(encoding="utf-8").splitlines()) if path.exists() else 0


@pytest.fixture(scope="module")
def words() -> dict[bytes, str]:
    return spellings()


@pytest.fixture
def wrong(tmp_path: Path) -> Iterator[Any]:
    """Extra variables with a wrong password, given as a file: on a command line everybody could read them."""

    def given(**variables: str) -> tuple[str, str]:
        path = tmp_path / "wrong.json"
        path.write_text(json.dumps(variables), encoding="utf-8")
        return "-e", f"@{path}"

    yield given


# -- the wrong password --------------------------------------------------------------------------------------------


def test_a_wrong_bmc_password_is_tried_once(wrong: Any, words: dict[bytes, str]) -> None:
    before = refused("gpu001")
    with CommandLines(words) as seen:
        run = lab.play("day0_bringup", *LIMIT, *LOUD, *wrong(gpufleet_bmc_password=WRONG))
    assert run.rc == 2, run.tail()
    assert refused("gpu001") - before == 1
    found = run.of(NODES[0], LOOK)["findings"]
    for node in NODES:
        [cause] = [one for one in found if one["check"] == "bmc" and node in one["hosts"]]
        assert "login" in cause["what"] and "127.77.0.1" in cause["address"], cause
        assert "password" in cause["do"], cause
    nowhere(run, words)
    assert not seen.found


def test_each_verb_tries_a_wrong_bmc_password_once(wrong: Any, words: dict[bytes, str]) -> None:
    """Each was refused, so as many refusals as verbs are one for each."""
    before = refused("gpu001")
    calls: list[tuple[str, dict[str, Any]]] = [("redfish_power", {"state": "on"}), ("pxe_boot", {})]
    calls += [("bmc_info", {}), ("bmc_log", {})]
    with CommandLines(words) as seen:
        results = lab.verbs("gpu001", calls, *LOUD, *wrong(gpufleet_bmc_password=WRONG))
    for result in results:
        assert result["error"]["kind"] == "auth", result
    assert refused("gpu001") - before == len(calls)
    assert not told(json.dumps(results).encode(), words) and not seen.found


def test_a_wrong_provisioner_password_is_tried_once(wrong: Any, words: dict[bytes, str]) -> None:
    before = denials()
    with CommandLines(words) as seen:
        run = lab.play("day0_bringup", "--limit", "gpu001", *LOUD, *wrong(gpufleet_provisioner_password=WRONG))
    assert run.rc == 2, run.tail()
    [cause] = [one for one in run.of("gpu001", LOOK)["findings"] if one["check"] == "provisioner"]
    assert cause["kind"] == "site" and "127.0.0.1:16385" in cause["address"] and "password" in cause["do"], cause
    lab.wait_for(lambda: denials() > before, 5, "Ironic has written its log")
    assert denials() - before == 1
    nowhere(run, words)
    assert not seen.found


def denials() -> int:
    """Logins that Ironic refused, as its log has them."""
    log = (lab.RACK / "log" / "ironic.log").read_text(encoding="utf-8", errors="replace")
    return sum(1 for line in log.splitlines() if " - 401 (" in line)


# -- peers that repeat what they were told -------------------------------------------------------------------------


def test_t1_a_bmc_that_repeats_the_login_tells_nobody(words: dict[bytes, str]) -> None:
    """In messages, results, the ledger's note of what stopped the run, and the report that is made of it."""
    lab.fault("gpu001", "bmc_echoes")
    try:
        run = lab.play("day0_bringup", "--limit", "gpu001", *LOUD)
        power = lab.verbs("gpu001", [("redfish_power", {"state": "on"})], *LOUD)[0]
    finally:
        lab.fault("gpu001", "none")
    assert run.rc == 2, run.tail()
    for text in (run.failure("gpu001"), power["msg"]):
        assert "was not understood" in text and MASK in text, "the BMC has repeated nothing"
    notes = counts.ledger_rows("SELECT data FROM events WHERE kind = 'note' AND name = 'stopped'")
    assert notes and MASK in str(notes[-1]), notes
    assert MASK in run.output.partition("Day 0:")[2], "the report does not say what stopped the node"
    nowhere(run, words)
    assert not told(json.dumps(power).encode(), words)


# -- the right ones ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def day0(words: dict[bytes, str]) -> tuple[lab.Run, CommandLines]:
    with CommandLines(words) as seen:
        run = lab.play("day0_bringup", *LIMIT, *LOUD)
    assert run.rc == 0, run.tail()
    return run, seen


def test_no_secret_is_told_by_a_run_that_works(day0: tuple[lab.Run, CommandLines], words: dict[bytes, str]) -> None:
    run, _seen = day0
    nowhere(run, words)


def test_no_secret_is_on_a_command_line(day0: tuple[lab.Run, CommandLines]) -> None:
    _run, seen = day0
    assert {"ssh"} <= seen.programs, "the samples missed the run"
    assert not seen.found


def test_no_secret_is_told_by_check_mode(day0: tuple[lab.Run, CommandLines], words: dict[bytes, str]) -> None:
    run = lab.play("day2_recycle", "--limit", "gpu001", *LOUD, "--check", "-e", '{"day2_recycle_all": true}')
    nowhere(run, words)


class Echo(BaseHTTPRequestHandler):
    """An image server that refuses, and repeats the login wherever HTTP has room for it."""

    def do_GET(self) -> None:
        header = self.headers.get("Authorization", "")
        login = base64.b64decode(header.partition(" ")[2]).decode()
        body = f"{login} {header}".encode()
        self.send_response(403, f"Forbidden for {login} ({header})")
        self.send_header("ETag", f'"{login}"')
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def echo() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://reader:{IMAGES_WORD}@127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_t1_an_image_server_that_repeats_the_login_tells_nobody(
    day0: tuple[lab.Run, CommandLines], echo: str, wrong: Any, words: dict[bytes, str]
) -> None:
    image = {name: str(value).replace("http://10.77.0.1:8080", echo) for name, value in lab.image("2026.11.1").items()}
    variables = wrong(gpufleet_image=image)
    everything = ("-e", '{"day2_recycle_all": true}')
    run = lab.play("day2_recycle", "--limit", "gpu004", *LOUD, *variables, *everything)
    assert run.rc == 2, run.tail()
    refusal = run.of("gpu004", "Remember why the look ended")
    assert "403" in json.dumps(refusal) and MASK in json.dumps(refusal), refusal
    assert MASK in run.output.partition("Day 2:")[2], "the report does not say what the server said"
    nowhere(run, {**words, IMAGES_WORD.encode(): "images", base64.b64encode(f"reader:{IMAGES_WORD}".encode()): "both"})


def test_what_the_tests_look_for_is_found_where_it_is(words: dict[bytes, str]) -> None:
    """The wrong password on a command line would be seen: the net has no hole."""
    with CommandLines(words) as seen:
        process = lab.subprocess.Popen(["sleep", "1", "0"], executable="/bin/sleep")
        other = lab.subprocess.Popen([f"sleep-{WRONG}", "1"], executable="/bin/sleep")
        time.sleep(0.5)
        other.wait(5)
        process.wait(5)
    assert any(line.startswith("wrong") for line in seen.found)
