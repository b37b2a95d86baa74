# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands of pair_gate, run by a real shell, and answers of a node that is not what it should be."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.pair import shell
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.together import Call, Heard, Moved
from ansible_collections.gpufleet.baremetal.tests.unit.gate import cables
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made
from hypothesis import given
from hypothesis import strategies as st

PORTS = [cables.RAILS[0], cables.STORE]


def ran(folder: Path, *argv: str, seconds: float = 5, **how: bool) -> Heard:
    text = shell.command(Call("gpu1", argv, seconds, **how), str(folder))
    done = subprocess.run(["/bin/sh", "-c", text], capture_output=True, text=True, timeout=60)
    return shell.heard(done.stdout, "" if done.returncode == 0 else "it failed")


def test_what_a_tool_prints_and_how_it_ends_is_told(tmp_path: Path) -> None:
    tool = made.program(tmp_path / "tool", 'echo "$@"; echo cried >&2; exit 3')
    heard = ran(tmp_path, tool, "a b", "$(id)", "'")
    assert (heard.rc, heard.problem) == (3, "") and heard.text.split() == ["a", "b", "$(id)", "'", "cried"]
    assert heard.ended_badly == "it ended with exit status 3" and ran(tmp_path, "true").ended_badly == ""
    assert ran(tmp_path, "/nonexistent").rc == 127
    assert ran(tmp_path, "sleep", "60", seconds=1).ended_badly == "it did not end in its time"


@pytest.mark.parametrize(
    "body", ["exec yes", "echo gpufleet-pair-status 0; exit 1", "printf 'gpufleet-pair-status 0'; exit 1"]
)
def test_a_tool_that_floods_or_tells_of_another_end_than_its_own_proves_nothing(tmp_path: Path, body: str) -> None:
    assert ran(tmp_path, made.program(tmp_path / "tool", body)).ended_badly


def test_a_client_is_tried_again_until_somebody_listens_and_no_other_is(tmp_path: Path) -> None:
    second = f'echo x >> {tmp_path}/tries; [ "$(wc -l < {tmp_path}/tries)" -ge 2 ]'
    for word in ("unable to connect to server: Connection refused", " Couldn't connect to 10.0.0.1:18515"):
        tool = made.program(tmp_path / "tool", f'{second} || {{ echo "{word}"; exit 1; }}; echo done')
        heard = ran(tmp_path, tool, retried=True)
        assert heard.rc == 0 and "done" in heard.text
        (tmp_path / "tries").unlink()
    assert ran(tmp_path, made.program(tmp_path / "tool", "echo refused; exit 1"), retried=True).rc == 1


def test_a_slow_refusal_takes_no_more_time_than_a_quick_one(tmp_path: Path) -> None:
    tool = made.program(tmp_path / "tool", f"echo x >>{tmp_path}/tries; sleep 0.6; echo Connection refused; exit 1")
    text = shell.command(Call("gpu1", [tool], 5, retried=True), str(tmp_path))
    assert shell.longest(Call("gpu1", [tool], 5, retried=True)) == 5 + 5 + 20 + 5 + 40 and "+40))" in text
    done = subprocess.run(["/bin/sh", "-c", text.replace("+40))", "+2))")], capture_output=True, text=True, timeout=60)
    assert shell.heard(done.stdout, "").rc == 1
    assert 1 <= (tmp_path / "tries").read_text().count("x") <= 4, "a busy machine takes all of them for one"


def test_another_gate_keeps_it_off_and_it_keeps_off_others(tmp_path: Path) -> None:
    holder = subprocess.Popen(["flock", str(tmp_path), "sleep", "60"], start_new_session=True)
    try:
        deadline = time.monotonic() + 60
        while subprocess.run(["flock", "-n", str(tmp_path), "true"]).returncode == 0:
            assert time.monotonic() < deadline
        call = shell.command(Call("gpu1", ["echo", "ran"], 5), str(tmp_path / "not" / "there")).replace("-w 20", "-w 0")
        done = subprocess.run(["/bin/sh", "-c", call], capture_output=True, text=True)
        assert shell.heard(done.stdout, "").ended_badly == "another gate loads that node"
        free = Call("gpu1", ["echo", "ran"], 5, alone=False)
        done = subprocess.run(["/bin/sh", "-c", shell.command(free, str(tmp_path))], capture_output=True, text=True)
        assert "ran" in done.stdout
    finally:
        os.killpg(holder.pid, signal.SIGKILL)
        holder.wait()


def test_what_runs_ends_by_itself_when_whoever_asked_is_gone(tmp_path: Path) -> None:
    tool = made.program(tmp_path / "tool", f"echo $$ > {tmp_path}/own; sleep 120 & echo $! > {tmp_path}/child; wait")
    asked = subprocess.Popen(["/bin/sh", "-c", shell.command(Call("gpu1", [tool], 1), str(tmp_path))])
    places = [tmp_path / "own", tmp_path / "child"]
    deadline = time.monotonic() + 60
    while not all(place.exists() and place.read_text() for place in places):
        assert time.monotonic() < deadline
    asked.kill()
    asked.wait()
    pids = [int(place.read_text()) for place in places]
    while any(_lives(pid) for pid in pids):
        assert time.monotonic() < deadline, "it outlives its time"
        time.sleep(0.05)


@pytest.mark.parametrize("then", ["exit 0", "exec sleep 600"])
def test_a_child_in_a_session_of_its_own_neither_keeps_it_nor_goes_on(tmp_path: Path, then: str) -> None:
    """It held the end of the pipe, and nothing ended any more."""
    tool = made.program(tmp_path / "tool", f"echo begun; setsid sleep 600 & echo $! > {tmp_path}/child; {then}")
    heard = ran(tmp_path, tool, seconds=3)
    assert "begun" in heard.text and heard.rc == (0 if then == "exit 0" else 124)
    deadline = time.monotonic() + 60
    while _lives(int((tmp_path / "child").read_text())):
        assert time.monotonic() < deadline, "it outlives its command"


def test_what_nobody_can_tell_as_its_own_keeps_its_output_open_for_a_while_and_no_more(tmp_path: Path) -> None:
    own = f"env -i setsid sh -c 'echo $$ > {tmp_path}/child; exec sleep 600'"
    # What has not lost its environment yet is known by it.
    begun = f"until test -s {tmp_path}/child; do sleep 0.05; done"
    tool = made.program(tmp_path / "tool", f"{own} & {begun}; exit 0")
    text = shell.command(Call("gpu1", [tool], 5), str(tmp_path))
    assert "timeout -k 1 31 head" in text and shell.longest(Call("gpu1", [tool], 5)) == 35
    text = text.replace("timeout -k 1 31 head", "timeout -k 1 1 head")
    done = subprocess.run(["/bin/sh", "-c", text], capture_output=True, text=True, timeout=60)
    os.kill(int((tmp_path / "child").read_text()), signal.SIGKILL)
    assert shell.heard(done.stdout, "").ended_badly


def _lives(pid: int) -> bool:
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False


# -- looks -------------------------------------------------------------------------------------------------------------


def test_counters_are_read_of_both_kinds_of_ports(tmp_path: Path) -> None:
    cables.rdma(tmp_path, PORTS[0], **{"counters/port_xmit_data": 100, "counters/port_rcv_data": 7})
    cables.netdev(tmp_path, **{"statistics/tx_bytes": 3})
    (tmp_path / "boot_id").write_text("first\n", encoding="ascii")
    ask = shell.look(str(tmp_path / "sys"), str(tmp_path / "boot_id"), PORTS)
    text = subprocess.run(["/bin/sh", "-c", ask], capture_output=True, text=True, check=True).stdout
    assert shell.counted(text, PORTS) == ("first", {PORTS[0]: (400, 28), PORTS[1]: (3, None)})
    assert shell.counted(text, PORTS[:1]) == shell.counted(text[:-4], PORTS) == shell.counted("", PORTS) == ("", {})
    assert shell.moved((400, None), (900, 5)) == Moved(500, None) and shell.moved((9, 9), (8, 9)) == Moved(None, 0)


IP = """gpufleet-pair
3: ens1f0np0    inet 198.18.4.1/30 brd 198.18.4.3 scope global ens1f0np0\\       valid_lft forever preferred_lft forever
gpufleet-pair
4: ens2    inet6 fd00::7/64 scope global \\       valid_lft forever preferred_lft forever
gpufleet-pair
gpufleet-pair
"""


def test_a_port_is_asked_for_its_address() -> None:
    assert shell.addressed(IP, ["a", "b", "c"]) == {"a": "198.18.4.1", "b": "fd00::7"}
    assert shell.addressed(IP, ["a"]) == shell.addressed("", ["a"]) == {}
    assert shell.addressed(IP.replace("198.18.4.1/30", "-oProxyCommand=x"), ["a", "b", "c"]) == {"b": "fd00::7"}


def owned(known: str, resolved: str = "", name: str = "gpu1") -> str:
    return "".join(f"gpufleet-pair\n{part}" for part in ("", known, resolved, f"{name}\n", ""))[
        len("gpufleet-pair\n") :
    ]


HAS = """1: lo    inet 127.0.0.1/8 scope host lo\\       valid_lft forever
2: eth0    inet 10.0.0.7/24 brd 10.0.0.255 scope global eth0\\       valid_lft forever
2: eth0    inet6 fd00::7/64 scope global \\       valid_lft forever
"""
TRIE = """        |-- 10.0.0.7
           /32 host LOCAL
        |-- 127.0.0.1
           /32 host LOCAL
fd000000000000000000000000000007 02 40 00 80     eth0
00000000000000000000000000000001 01 80 10 80       lo
"""


@pytest.mark.parametrize("known", [HAS, TRIE])
def test_an_address_is_its_own_where_the_node_has_it(known: str) -> None:
    for address in ("10.0.0.7", "fd00::7", "fd00:0::7"):
        assert not shell.not_own(owned(known), address), address
    for address in ("10.0.0.8", "10.0.0.255", "127.0.0.1", "::1", "fd00::8", "0.0.0.0"):
        assert shell.not_own(owned(known), address), address
    assert shell.not_own("", "10.0.0.7") and shell.not_own(owned(""), "10.0.0.7")


@pytest.mark.parametrize(
    ("resolved", "address", "own"),
    [
        ("10.0.0.7        STREAM rail.gpu1\n10.0.0.7        DGRAM\n", "rail.gpu1", True),
        ("10.0.0.8        STREAM rail.gpu1\n", "rail.gpu1", False),
        ("10.0.0.7        STREAM x\n10.0.0.8        STREAM x\n", "x", False),
        ("127.0.1.1       STREAM gpu1\n", "gpu1", True),
        ("127.0.1.1       STREAM gpu1\n", "gpu1.example.com", True),
        ("127.0.1.1       STREAM gpu2\n", "gpu2", False),
        ("127.0.1.1       STREAM gpu1\n10.0.0.8        STREAM\n", "gpu1", False),
        ("", "gpu1", False),
    ],
)
def test_a_name_is_its_own_by_what_the_node_resolves_it_to(resolved: str, address: str, own: bool) -> None:
    assert (not shell.not_own(owned(HAS, resolved), address)) is own


def test_a_shell_tells_which_addresses_its_machine_has(tmp_path: Path) -> None:
    tools = {"ip": "exit 127", "getent": "echo 127.0.1.1 STREAM; echo $2 >&2", "uname": "echo gpu1.example.com"}
    for name, body in tools.items():
        made.program(tmp_path / name, body)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["/bin/sh", "-c", shell.own("gpu1")], capture_output=True, text=True, env=env, check=True)
    assert not shell.not_own(done.stdout, "gpu1") and shell.not_own(done.stdout, "gpu2")


@given(st.text(max_size=200))
def test_no_answer_of_a_node_breaks_its_reader(text: str) -> None:
    boot, found = shell.counted(text, PORTS)
    assert not boot or set(found) == set(PORTS)
    assert set(shell.addressed(text, PORTS)) <= set(PORTS)
    assert shell.not_own(text, "10.0.0.7") and shell.not_own(owned(text, text, text), "10.0.0.7")
    assert shell.heard(text, "").rc is None or "gpufleet-pair-status" in text
