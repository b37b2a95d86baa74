# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where one writes at a time: whose the node is while others write, what it has become then, and whose the turn is."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Optional

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    Changed,
    FleetError,
    LeaseHeld,
    NotOurs,
    Unreachable,
    Unsupported,
    WrongMachine,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import command as commands
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import turn as turns
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Lifeline, Turn
from ansible_collections.gpufleet.baremetal.plugins.module_utils._wait import wait_until
from calls import Line, deployed, lead, ready, watch_all
from command_line.driver import CommandLineDriver

HERE = Path(__file__).resolve().parent


@pytest.fixture
def site(imagectl_site: Any) -> Iterator[Any]:
    """The one that is serial."""
    with imagectl_site.in_good_health():
        yield imagectl_site


@pytest.fixture(autouse=True)
def _own_turns(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(turns, "TIMEOUT", 0.3)


class Waiting(Line):
    """Its leases are taken, and then something happens while the turn is waited for."""

    def __init__(self, meanwhile: Callable[[], Any] = lambda: None, theirs: Sequence[str] = ()) -> None:
        super().__init__()
        self.held: list[str] = []
        self._meanwhile: Optional[Callable[[], Any]] = meanwhile
        self._theirs = theirs

    def hold(self, nodes: Sequence[str]) -> None:
        if set(nodes) & set(self._theirs):
            raise LeaseHeld("another run works on this node", node=nodes[0])
        self.held += nodes

    def beat(self) -> None:
        if self.held and self._meanwhile is not None:
            happens, self._meanwhile = self._meanwhile, None
            happens()

    def before_write(self, what: str, *, destructive: bool, nodes: tuple[str, ...] = ()) -> Optional[str]:
        assert set(nodes) <= set(self.held), "a write without the lease that was to be taken first"
        return super().before_write(what, destructive=destructive, nodes=nodes)


def changes(site: Any, name: str) -> dict[str, tuple[Callable[[], Any], type[FleetError]]]:
    """What can become of a node meanwhile, and what is then said."""
    return {
        "held": (lambda: site.hold_by_somebody(name), NotOurs),
        "owned": (lambda: site.owned_by_somebody(name), NotOurs),
        "kept": (lambda: site.keep(name), NotOurs),
        "another machine": (lambda: site.other_serial(name, "S-other"), WrongMachine),
        "gone": (lambda: site.remove(name), Changed),
    }


CHANGES = ("held", "owned", "kept", "another machine", "gone")


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("state", ["deployed", "maintenance"])
def test_what_became_of_a_node_while_others_wrote_is_judged_before_the_first_write(
    site: Any, state: str, change: str
) -> None:
    options = ready(site)
    happens, error = changes(site, options["name"])[change]
    line = Waiting(happens)
    with pytest.raises(error):
        lead({**options, "image": site.image()}, state, line=line)
    assert line.held == [options["name"]] and line.writes == []


@pytest.mark.parametrize("change", ["held", "owned", "kept", "another machine"])
def test_a_record_that_became_somebody_elses_meanwhile_is_left(site: Any, change: str) -> None:
    options = ready(site)
    happens, error = changes(site, options["name"])[change]
    line = Waiting(happens)
    with pytest.raises(error):
        lead({**options, "boot_mac": "52:54:00:99:99:99", "known_runs": ["r1"]}, "enrolled", line=line)
    assert line.held == [options["name"]] and line.writes == []


@pytest.mark.parametrize("change", CHANGES)
def test_a_batch_leaves_a_node_that_was_changed_while_others_wrote(site: Any, change: str) -> None:
    changed, other = ({**ready(site), "image": site.image()} for _n in range(2))
    happens, _error = changes(site, changed["name"])[change]
    line = Waiting(happens)
    verdicts = watch_all(site, "deployed", changed, other, line=line)["verdicts"]
    assert not verdicts[changed["name"]]["ok"] and verdicts[changed["name"]]["step"] == ""
    assert verdicts[other["name"]]["step"] == "boot", verdicts
    assert {host for _what, _hard, hosts in line.writes for host in hosts} == {other["name"]}


def test_a_node_that_a_person_takes_while_the_batch_writes_the_others_is_left(site: Any) -> None:
    batch = [{**ready(site), "image": site.image()} for _n in range(3)]
    last = batch[-1]["name"]

    class Slow(Waiting):
        def before_write(self, what: str, *, destructive: bool, nodes: tuple[str, ...] = ()) -> Optional[str]:
            if not self.writes:
                site.owned_by_somebody(last)
            return super().before_write(what, destructive=destructive, nodes=nodes)

    line = Slow()
    verdicts = watch_all(site, "deployed", *batch, line=line)["verdicts"]
    assert "not ours to touch" in verdicts[last]["reason"] and verdicts[last]["step"] == "", verdicts[last]
    assert last not in {host for _what, _hard, hosts in line.writes for host in hosts}
    assert [verdicts[one["name"]]["step"] for one in batch[:2]] == ["boot", "boot"]


def test_what_somebody_else_began_meanwhile_is_not_begun_again(site: Any) -> None:
    options = {**ready(site), "image": site.image()}
    line = Waiting(lambda: lead(options, "deployed"))
    result = lead(options, "deployed", line=line)
    assert line.writes == [] and result["step"] == "boot" and not result["changed"]
    again = {**ready(site), "image": site.image()}
    line = Waiting(lambda: lead(again, "deployed"))
    assert watch_all(site, "deployed", again, line=line)["verdicts"][again["name"]]["step"] == "boot"
    assert line.held == [again["name"]] and line.writes == []


def test_a_maintenance_that_somebody_lifted_meanwhile_is_not_lifted_again(site: Any) -> None:
    options = deployed(site)
    lead(options, "maintenance", why="a fan")
    line = Waiting(lambda: lead(options, "serviceable"))
    assert not lead(options, "serviceable", line=line)["changed"] and line.writes == []


def test_a_node_of_another_run_is_refused_before_the_turn_and_alone(site: Any) -> None:
    theirs, ours = ({**ready(site), "image": site.image()} for _n in range(2))
    line = Waiting(theirs=[theirs["name"]])
    with pytest.raises(LeaseHeld):
        lead(theirs, "deployed", line=line)
    verdicts = watch_all(site, "deployed", theirs, ours, line=line)["verdicts"]
    assert "another run works on this node" in verdicts[theirs["name"]]["reason"]
    assert verdicts[ours["name"]]["step"] == "boot" and line.held == [ours["name"]]


@pytest.mark.parametrize("state", ["serviceable", "maintenance", "deployed", "released"])
def test_a_persons_keep_is_nobodys_run_s_also_not_of_the_run_that_took_it(site: Any, state: str) -> None:
    options = {**ready(site), "image": site.image()}
    site.keep(options["name"])
    line = Line()
    with pytest.raises(NotOurs, match="keep hold"):
        lead(options, state, line=line, run_id="r1", known_runs=["r1"])
    verdict = watch_all(site, "deployed", options, line=line, run_id="r1")["verdicts"][options["name"]]
    assert not verdict["ok"] and "keep hold" in verdict["reason"] and line.writes == []


# -- who writes ----------------------------------------------------------------------------------------------------

WORKER = """
import sys, tempfile
sys.path[:0] = sys.argv[3:]
tempfile.tempdir = sys.argv[2]
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.turn import turn
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from command_line.driver import CommandLineDriver
driver = CommandLineDriver({"provisioner_url": sys.argv[1]}, Context())
with turn(driver, driver.ctx):
    driver._run("node", "set")
"""
#: Writes in a child of its own, as commands do that hand their work on.
COMMAND = """#!/bin/sh
cd "$(dirname "$0")"
( echo $$ > begun; while [ ! -e end ]; do sleep 0.05; done ) &
wait
"""


def test_a_command_that_outlives_its_worker_keeps_the_turn(tmp_path: Path) -> None:
    """A worker that was killed writes no more, but what it had begun still does."""
    command, begun, end = (tmp_path / name for name in ("command", "begun", "end"))
    command.write_text(COMMAND)
    command.chmod(0o755)
    collections = [path for path in sys.path if (Path(path) / "ansible_collections").is_dir()]
    argv = [sys.executable, "-c", WORKER, str(command), str(tmp_path), str(HERE), *collections]
    with subprocess.Popen(argv) as worker:
        try:
            wait_until(begun.exists, bool, timeout=60, interval=0.05, wanted="the command begun")
            worker.kill()
            worker.wait()
            driver = CommandLineDriver({"provisioner_url": str(command)}, Context())
            with pytest.raises(turns.NoTurn), turns.turn(driver, driver.ctx):
                raise AssertionError("two write at once")
        finally:
            end.touch()
    wait_until(lambda: _turn_is_free(driver), bool, timeout=30, interval=0.05, wanted="the turn freed by its end")


def _turn_is_free(driver: CommandLineDriver) -> bool:
    try:
        with turns.turn(driver, driver.ctx):
            return True
    except turns.NoTurn:
        return False


class Theirs(Lifeline):
    """Of a ledger in which another controller has the turn, and keeps it."""

    class Turn(Turn):
        def taken(self) -> str:
            return "their-run, process 7 on other, renewed 1 s ago"

    @contextmanager
    def turn(self, peer: str) -> Iterator[Turn]:
        yield self.Turn()


def test_another_controller_that_keeps_the_turn_is_waited_for_and_named(tmp_path: Path) -> None:
    driver = CommandLineDriver({"provisioner_url": str(tmp_path / "command")}, Context(lifeline=Theirs()))
    with pytest.raises(turns.NoTurn, match="their-run, process 7 on other") as caught, turns.turn(driver, driver.ctx):
        raise AssertionError("two write at once")
    assert caught.value.address == driver.address and not caught.value.of_peer
    with turns.turn(driver, Context()):
        pass  # who waits for the ledger keeps the lock of this machine from nobody


def test_a_command_has_nothing_of_ours_open_outside_a_turn(tmp_path: Path) -> None:
    command = tmp_path / "command"
    command.write_text("#!/bin/sh\nreadlink /proc/self/fd/*\n")
    command.chmod(0o755)
    driver = CommandLineDriver({"provisioner_url": str(command)}, Context())
    with turns.turn(driver, driver.ctx):
        assert ".lock" in driver._run("node").out
    assert ".lock" not in driver._run("node").out


def test_a_command_that_does_not_end_or_start_is_an_outage(tmp_path: Path) -> None:
    driver = CommandLineDriver({"provisioner_url": str(tmp_path / "none")}, Context())
    with pytest.raises(Unreachable, match="start"):
        driver._run("node")
    with pytest.raises(Unreachable, match="end"):
        commands.run(driver, ["sleep", "30"], timeout=0.2)
    assert commands.run(driver, ["sh", "-c", "echo a; echo b >&2; exit 3"]) == commands.Answer(3, "a\n", "b")


class Turnless(CommandLineDriver):
    """Its author believes that the provisioner takes two writes at once."""

    serial = False


def test_a_command_of_a_driver_without_turns_is_not_sent(tmp_path: Path) -> None:
    """Its worker may be killed while it writes, and the next run would write beside it."""
    command = tmp_path / "command"
    command.write_text(f"#!/bin/sh\ntouch {tmp_path}/written\n")
    command.chmod(0o755)
    driver = Turnless({"provisioner_url": str(command)}, Context())
    with turns.turn(driver, driver.ctx), pytest.raises(Unsupported, match="serial = True in the driver of") as caught:
        driver._run("node", "set")
    assert caught.value.address == str(command) and not (tmp_path / "written").exists()


# -- commands that do not end --------------------------------------------------------------------------------------

#: Writes its name, leaves its session where it is told to, closes what it has open, and writes on until it may end.
LINGERS = """
import os, sys, time
folder, name, how = sys.argv[1:]
with open(folder + "/" + name, "w", encoding="ascii") as begun:
    begun.write(str(os.getpid()))
if how == "away" and os.fork():
    time.sleep(60)
if how == "away":
    os.setsid()
if how == "closed":
    os.closerange(3, 256)
while not os.path.exists(folder + "/end"):
    time.sleep(0.05)
"""


class Lingering(CommandLineDriver):
    """A write of it never ends by itself."""

    how = "away"

    def start(self, step: str, node: Any, wanted: Any) -> None:
        folder = str(Path(self.address).parent)
        commands.run(self, [sys.executable, "-IS", "-c", LINGERS, folder, wanted.host, self.how], timeout=1)


def lingering(folder: Path, how: str) -> Lingering:
    driver = Lingering({"provisioner_url": str(folder / "command")}, Context())
    driver.how = how
    return driver


def test_c9_after_a_command_that_does_not_end_nothing_is_sent_in_its_turn(tmp_path: Path) -> None:
    driver = lingering(tmp_path, "away")
    batch: Any = [(None, Wanted(host=host)) for host in ("n1", "n2")]
    try:
        with turns.turn(driver, driver.ctx):
            failed = dict(driver.start_many("assign", batch))
        assert "does not end" in str(failed["n1"]) and "nothing was sent" in str(failed["n2"])
        assert isinstance(failed["n2"], turns.NoTurn)
        assert (tmp_path / "n1").exists() and not (tmp_path / "n2").exists()
        assert not _turn_is_free(driver), "what the command had begun still writes"
    finally:
        (tmp_path / "end").touch()
    wait_until(lambda: _turn_is_free(driver), bool, timeout=30, interval=0.05, wanted="the turn freed by its end")


def test_c9_a_command_that_does_not_end_is_killed_with_what_it_has_begun(tmp_path: Path) -> None:
    driver = lingering(tmp_path, "")
    with turns.turn(driver, driver.ctx), pytest.raises(Unreachable, match="does not end.*it was killed"):
        commands.run(driver, ["sh", "-c", "sleep 60 & wait"], timeout=0.3)
    wait_until(lambda: _turn_is_free(driver), bool, timeout=30, interval=0.05, wanted="nothing that has the turn")


def test_c9_a_command_that_may_not_be_killed_keeps_the_turn_and_is_no_failed_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with sudo, which also closes what it was given open."""

    def refused(*_told: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    driver = lingering(tmp_path, "closed")
    monkeypatch.setattr(commands, "GRACE", 0.2)
    monkeypatch.setattr("os.kill", refused)
    monkeypatch.setattr("os.killpg", refused)
    try:
        began = time.monotonic()
        with turns.turn(driver, driver.ctx), pytest.raises(Unreachable, match="does not end.*process [0-9]+ cannot"):
            driver.start("assign", None, Wanted(host="n1"))
        assert time.monotonic() - began < 20
        assert not _turn_is_free(driver), "the command still writes"
    finally:
        (tmp_path / "end").touch()
    wait_until(lambda: _turn_is_free(driver), bool, timeout=30, interval=0.05, wanted="the turn freed by its end")
