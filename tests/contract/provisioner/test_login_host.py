# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands of a provisioner on a login host, by a real sshd: whole life cycles, and what can go wrong on the way."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Optional

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _there as there
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _ways as ways
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    BadAnswer,
    ConfigError,
    Refused,
    Unreachable,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import command as commands
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import login_host
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import turn as turns
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.registry import connected
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.plugins.module_utils._wait import wait_until
from bcm_commands.site import BcmSite
from calls import Line, lead, ready
from pxe_files.site import PxeSite
from test_contract import (  # noqa: F401  # asked here of the same systems over another way
    test_a_second_run_writes_nothing,
    test_deployed_with_an_image,
    test_from_nothing_to_ready,
    test_our_own_hold,
    test_released_and_released_again,
)
from test_contract_faults import (  # noqa: F401
    test_a_write_whose_answer_is_lost_is_known_again,
    test_no_secret_leaves_the_driver,
)
from test_turn import COMMAND
from xcat_commands.site import XcatSite

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "jump_host"))

import jump

HERE = Path(__file__).resolve().parent
HOST = "mn1"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def ssh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    yield from jump.served(tmp_path_factory.mktemp("login") / "ssh")


@pytest.fixture(scope="module")
def words(ssh: dict[str, Any]) -> Iterator[list[str]]:
    """What leads to that sshd, by a connection that is kept."""
    common = shlex.split(ssh["ansible_ssh_common_args"])
    key = ["-i", ssh["ansible_ssh_private_key_file"], "-o", "BatchMode=yes", "-p", str(ssh["ansible_port"])]
    argv = ["ssh", "-o", "ControlMaster={}", *common, *key, str(ssh["ansible_host"])]
    plain = [word.format("no") for word in argv]
    quiet: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    with subprocess.Popen([word.format("yes") for word in argv] + ["-N"], **quiet) as master:
        check = [*plain[:-1], "-O", "check", plain[-1]]
        wait_until(
            lambda: subprocess.run(check, **quiet, check=False).returncode,
            lambda code: code == 0,
            timeout=20,
            interval=0.05,
            wanted="a connection",
        )
        yield plain
        master.terminate()


class Way:
    """To the host, by ssh; the controller itself has none of the commands."""

    def __init__(self, argv: list[str]) -> None:
        self.argv = argv
        self.asked: list[tuple[str, str]] = []
        #: So many characters of an answer come through, and then the connection is lost.
        self.most: Optional[int] = None
        #: Which command that befalls, from the first one on, by a word of it.
        self.at = ""
        self.away = ""
        #: Is told each command that has ended, before its answer comes.
        self.then: Callable[[str], None] = lambda command: None
        #: What a shell there does before all else.
        self.before = ""

    def opens(self, host: str) -> Optional[ways.Ask]:
        return self.ask if host == HOST else None

    def ask(self, line: str, reads: str, seconds: float) -> tuple[str, str]:
        self.asked.append((line, reads))
        if self.away:
            return "", self.away
        argv = [*self.argv, f"/bin/sh -c {shlex.quote(self.before + line)}"]
        done = subprocess.run(argv, input=reads, capture_output=True, text=True, timeout=seconds, check=False)
        said = whole(f"{reads}==")  # or as much of it as came
        self.then(said)
        if self.most is not None and self.at in said:
            return done.stdout[: self.most], "Connection to mn1 closed by remote host"
        return f"Welcome\n{done.stdout}", "" if done.returncode == 0 else f"rc {done.returncode}: {done.stderr}"


def whole(reads: str) -> str:
    return there.base64.b64decode(reads).decode()


@pytest.fixture
def way(words: list[str]) -> Iterator[Way]:
    made, before = Way(words), ways._opens
    ways.led_by(made.opens)
    yield made
    ways._opens = before


@pytest.fixture(params=[pytest.param(one, id=one.name) for one in (XcatSite, BcmSite, PxeSite)])
def site(request: pytest.FixtureRequest, started: Any, way: Way, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Each that is asked by commands, over there."""
    with started(request.param).in_good_health() as chosen:
        over_there(chosen, monkeypatch)
        yield chosen


def over_there(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    local = site.connection()
    monkeypatch.setattr(site, "connection", lambda: {**local, login_host.OPTION: HOST})


@pytest.fixture
def xcat(started: Any, way: Way, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    with started(XcatSite).in_good_health() as chosen:
        over_there(chosen, monkeypatch)
        yield chosen


# -- the way -------------------------------------------------------------------------------------------------------


def test_a_host_that_the_inventory_does_not_have_is_a_setting_to_correct(site: Any) -> None:
    with pytest.raises(ConfigError, match="no host nosuch") as caught:
        lead({**site.new(), login_host.OPTION: "nosuch"}, "ready")
    assert login_host.SETTING in caught.value.do and site.faults.calls == []


def test_a_host_that_is_away_is_no_answer_and_nothing_was_sent(site: Any, way: Way) -> None:
    way.away = "ssh: connect to host mn1 port 22: No route to host"
    with pytest.raises(Unreachable, match="cannot be reached") as caught:
        lead(site.new(), "ready")
    assert "No route" in caught.value.seen and login_host.SETTING in caught.value.do and site.faults.calls == []


def test_where_nobody_knows_the_way_there_is_none(site: Any) -> None:
    ways._opens = None
    with pytest.raises(ConfigError, match="delegate_to"):
        lead(site.new(), "ready")


def test_commands_that_are_not_there_are_a_setting_to_correct(site: Any) -> None:
    with pytest.raises(ConfigError, match=f"not on the host {HOST}") as caught:
        lead({**site.new(), "provisioner_url": "/nosuch"}, "ready")
    assert login_host.SETTING in caught.value.do


@pytest.mark.parametrize(("here", "on_host"), [("mn.example.com", ""), ("", "mn.example.com")])
def test_the_resolver_of_the_login_host_is_asked_where_that_is_the_management_node(
    xcat: Any, way: Way, monkeypatch: pytest.MonkeyPatch, here: str, on_host: str
) -> None:
    """A client of xCAT there has a resolver of its own, whatever the controller is."""
    monkeypatch.setenv("XCATHOST", here)
    way.before = f"export PATH={xcat._folder / 'system'}:$PATH XCATHOST={on_host}; "
    monkeypatch.setattr(xcat.management, "has_nmap", True)
    monkeypatch.setattr(xcat.management, "has_domain", False)
    options = {**xcat.new(), "driver": {**xcat.extras, "name_services": ["hosts"], "ip": f"10.8.4.{18 + bool(here)}"}}
    if on_host and lead(options, "ready")["changed"]:
        return
    with pytest.raises(Refused, match="getent ahosts .* finds nothing"):
        lead(options, "ready")


def test_the_web_service_of_xcat_has_no_login_host(xcat: Any) -> None:
    login = {"provisioner_username": "u", "provisioner_password": "p"}
    with pytest.raises(ConfigError, match="web service"):
        lead({**xcat.new(), **login, "provisioner_url": "https://mn.example.com/xcatws"}, "ready")


# -- one command ---------------------------------------------------------------------------------------------------


@pytest.fixture
def driver(xcat: Any) -> Iterator[Any]:
    with connected({**xcat.connection()}, Context()) as made:
        yield made


def test_a_command_ends_there_as_by_its_own_word(driver: Any) -> None:
    say = "printf 'a\\nb'; printf 'c\\n' >&2; printf d >&2; cat; printf %s \"$1\"; exit 124"
    answer = commands.run(driver, ["sh", "-c", say, "sh", "it's $(id) `id`; \\n*"], stdin="é'\n\n\n")
    assert answer == commands.Answer(124, "a\nbé'\n\n\nit's $(id) `id`; \\n*", "c\nd")
    assert commands.run(driver, ["sh", "-c", "kill -9 $$"]).code == -9
    assert commands.run(driver, ["sh", "-c", 'cat; echo "$A $LC_ALL"'], env={"A": "x y"}).out == "x y C.UTF-8\n"
    assert commands.run(driver, ["/nosuch/command"]).code == 127


def test_what_is_read_and_what_is_answered_may_be_long(driver: Any) -> None:
    long = "node: x\n" * 200_000
    assert commands.run(driver, ["cat"], stdin=long).out == long
    assert commands.run(driver, ["printf", "%s", "w" * 100_000]).out == "w" * 100_000


def test_no_secret_is_in_a_line_of_shell(driver: Any, way: Way) -> None:
    with turns.turn(driver, driver.ctx):
        commands.run(driver, ["cat"], stdin="s3cret")
    told = there.base64.b64encode(b"s3cret").decode()
    assert not any("s3cret" in line or told in line for line, _reads in way.asked)
    assert told in whole(way.asked[-1][1])


def test_a_command_that_does_not_end_is_ended_and_was_the_last_of_its_turn(driver: Any, tmp_path: Path) -> None:
    with turns.turn(driver, driver.ctx):
        with pytest.raises(Unreachable, match="did not end within 1 s") as caught:
            commands.run(driver, ["sh", "-c", "sleep 60; touch done"], timeout=1)
        assert caught.value.details == {"slow": 1}
        with pytest.raises(turns.NoTurn, match="nothing was sent"):
            commands.run(driver, ["touch", str(tmp_path / "late")])
    with turns.turn(driver, driver.ctx):
        assert commands.run(driver, ["true"]).code == 0
    assert not (tmp_path / "late").exists()


@pytest.mark.parametrize("cut", [1, 1000])
def test_half_of_what_was_to_be_run_is_not_run(way: Way, tmp_path: Path, cut: int) -> None:
    order = there.Order(["touch", str(tmp_path / "run")], 10, reads="x" * 2000, by_input=True)
    line, reads = there.framed(order, "m")
    told, _problem = way.ask(line, reads[:-cut], 20)
    assert "m-cut" in told and not (tmp_path / "run").exists()
    assert "m-code 0" in way.ask(line, reads, 20)[0] and (tmp_path / "run").exists()


def test_a_command_that_comes_late_is_not_run(driver: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver.login_host.found(())
    monkeypatch.setattr(there, "WAY_SECONDS", -5.0)
    with turns.turn(driver, driver.ctx), pytest.raises(Unreachable, match="too late"):
        commands.run(driver, ["touch", str(tmp_path / "run")])
    assert not (tmp_path / "run").exists()


def test_a_folder_of_locks_that_others_may_write_to_is_none(driver: Any, way: Way, tmp_path: Path) -> None:
    way.argv = ["env", f"TMPDIR={tmp_path}", "/bin/sh", "-c", 'eval "$0"']
    folder = tmp_path / f"{login_host.FOLDER}-{os.getuid()}"

    def refused() -> None:
        driver.login_host.found(())
        with turns.turn(driver, driver.ctx), pytest.raises(ConfigError, match="not its user's alone"):
            commands.run(driver, ["touch", str(tmp_path / "run")])

    with turns.turn(driver, driver.ctx):
        assert commands.run(driver, ["true"]).code == 0
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o777)
    refused()
    folder.chmod(0o700)
    folder.rename(tmp_path / "own")
    folder.symlink_to(tmp_path / "own")
    refused()
    assert not (tmp_path / "run").exists()


@pytest.mark.needs_root
def test_a_folder_of_locks_of_somebody_else_is_none(driver: Any, way: Way, tmp_path: Path) -> None:
    """Private to another user it is open to root, and its owner takes locks away there."""
    way.argv = ["env", f"TMPDIR={tmp_path}", "/bin/sh", "-c", 'eval "$0"']
    folder = tmp_path / f"{login_host.FOLDER}-{os.getuid()}"
    folder.mkdir(mode=0o700)
    os.chown(folder, 12345, 12345)
    driver.login_host.found(())
    with turns.turn(driver, driver.ctx), pytest.raises(ConfigError, match="not its user's alone"):
        commands.run(driver, ["touch", str(tmp_path / "run")])
    assert not (tmp_path / "run").exists() and not list(folder.iterdir())


# -- a connection that is lost -------------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [0, 60])
def test_after_a_write_whose_answer_was_lost_nothing_is_sent_and_a_rerun_reads_back(
    site: Any, way: Way, most: int
) -> None:
    options = {**ready(site), "image": site.image()}
    way.most, way.at = most, {"xcat": "bin/chdef -", "bcm": "; commit", "pxe": " boot "}[site.name]
    line = Line()
    with pytest.raises((BadAnswer, Unreachable)) as caught:
        lead(options, "deployed", line=line)
    told = caught.value
    assert "read back" in told.do and len(line.writes) == 1, told.as_result()
    assert len(site.faults.writes) == 1 and way.at in whole(way.asked[-1][1]), "nothing came after it"
    way.most = None
    lead(options, "deployed")
    assert site.deployments() == 1


# -- who writes ----------------------------------------------------------------------------------------------------

WORKER = """
import json, subprocess, sys
sys.path[:0] = sys.argv[4:]
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _ways as ways
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import command, turn
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.registry import connected
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from test_login_host import Way
ways.led_by(Way(json.loads(sys.argv[1])).opens)
with connected(json.loads(sys.argv[2]), Context()) as driver, turn.turn(driver, driver.ctx):
    command.run(driver, [sys.argv[3]])
"""


def test_a_command_there_that_outlives_its_worker_keeps_the_turn(
    driver: Any, xcat: Any, way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And so it does for whoever runs the task over there himself."""
    monkeypatch.setattr(turns, "TIMEOUT", 2.0)
    command, begun, end, late = (tmp_path / name for name in ("command", "begun", "end", "late"))
    command.write_text(COMMAND)
    command.chmod(0o755)
    argv = [sys.executable, "-c", WORKER, json.dumps(way.argv), json.dumps(xcat.connection()), str(command)]
    with subprocess.Popen([*argv, *sys.path]) as worker:
        try:
            wait_until(begun.exists, bool, timeout=60, interval=0.05, wanted="the command begun")
            worker.kill()
            worker.wait()
            with turns.turn(driver, driver.ctx), pytest.raises(turns.NoTurn, match="nothing was sent"):
                commands.run(driver, ["touch", str(late)])
            local = {key: value for key, value in xcat.connection().items() if key != login_host.OPTION}
            with connected(local, Context()) as at_home, pytest.raises(turns.NoTurn), turns.turn(at_home, at_home.ctx):
                raise AssertionError("two write at once")
            assert commands.run(driver, ["true"]).code == 0, "who reads waits for nobody"
        finally:
            end.touch()
    monkeypatch.setattr(turns, "TIMEOUT", 60.0)
    assert not late.exists()
    with turns.turn(driver, driver.ctx):
        assert commands.run(driver, ["touch", str(late)]).code == 0


def test_what_a_command_has_left_running_is_named_where_it_keeps_the_turn(
    driver: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "TIMEOUT", 2.0)
    with turns.turn(driver, driver.ctx):
        left = int(commands.run(driver, ["sh", "-c", "sleep 300 >/dev/null 2>&1 & echo $!"]).out)
    try:
        with turns.turn(driver, driver.ctx), pytest.raises(turns.NoTurn, match="nothing was sent") as caught:
            commands.run(driver, ["touch", str(tmp_path / "late")])
    finally:
        os.kill(left, 9)
    assert f"kept by process {left} (sleep)" in caught.value.seen and not (tmp_path / "late").exists()
    monkeypatch.setattr(turns, "TIMEOUT", 60.0)
    with turns.turn(driver, driver.ctx):
        assert commands.run(driver, ["true"]).code == 0


def test_a_turn_of_a_run_over_there_is_waited_for(
    driver: Any, xcat: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "TIMEOUT", 1.5)
    local = {key: value for key, value in xcat.connection().items() if key != login_host.OPTION}
    theirs = connected(local, Context())
    no_turn = pytest.raises(turns.NoTurn, match="login host")
    with theirs as at_home, turns.turn(at_home, at_home.ctx), turns.turn(driver, driver.ctx), no_turn:
        commands.run(driver, ["touch", str(tmp_path / "late")])
    assert not (tmp_path / "late").exists()
