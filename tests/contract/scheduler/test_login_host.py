# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm's commands on a login host: a controller that has none asks a real Slurm all the same."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _ways as ways
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    AuthFailed,
    BadAnswer,
    ConfigError,
    Refused,
    Unreachable,
    Unsupported,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.registry import open_scheduler
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.there import _asks
from contract.scheduler import test_doors as doors
from contract.scheduler.verbs import RUN, TOKEN, node, verdict, wait

NODE, HOST = "gpu001", "login1"
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


def _no_commands(folder: Path) -> str:
    """Whoever runs one of them on the controller is told so."""
    folder.mkdir()
    for name in ("scontrol", "squeue", "sbatch", "scancel", "sacctmgr"):
        (folder / name).write_text(f"#!/bin/sh\necho {name} was run on the controller >&2; exit 99\n", encoding="ascii")
        (folder / name).chmod(0o755)
    return str(folder)


class Login:
    """The host, as a connection leads to it: a shell that gets one line, with the PATH of its own login."""

    def __init__(self, slurm: Any, path: str) -> None:
        self.slurm = slurm
        self.env = {**os.environ, "PATH": path}
        self.before: tuple[str, ...] = ()
        self.away = ""
        #: So many characters of an answer come through.
        self.most: Optional[int] = None
        self.asked: list[str] = []

    def opens(self, host: str) -> Optional[ways.Ask]:
        return self.ask if host == HOST else None

    def ask(self, line: str, reads: str, seconds: float) -> tuple[str, str]:
        assert seconds > 0
        self.asked.append(line)
        if self.away:
            return "", self.away
        done = subprocess.run(
            [*self.before, "/bin/sh", "-c", line],
            env=self.env,
            input=reads,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return f"Last login: today\n{done.stdout}"[: self.most], ""

    @property
    def connection(self) -> dict[str, str]:
        return {"scheduler": "slurm", "scheduler_conf": str(self.slurm.conf), "scheduler_login_host": HOST}


@pytest.fixture
def login(slurm: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Login]:
    made, before = Login(slurm, os.environ["PATH"]), ways._opens
    ways.led_by(made.opens)
    monkeypatch.setenv("PATH", _no_commands(tmp_path / "controller"), prepend=":")
    yield made
    ways._opens = before


def test_a_node_is_held_drained_and_resumed(login: Login, slurm: Any) -> None:
    job = slurm.job(NODE)
    held = node(login, NODE, "held")
    assert held.data["jobs"] == [job] and slurm.show(NODE)["Reason"] == TOKEN
    slurm.end_job(job)
    assert verdict(wait(login, NODE, "gpu002"), NODE)["ok"]
    resumed = node(login, NODE, "resumed", known_token=TOKEN, known_runs=[RUN], trial="auto", timeout=60)
    assert resumed.data["trial"]["made"] and resumed.data["state"] == "idle"
    assert resumed.data["cluster"] == "slurm gpufleet-test"


def test_a_reason_is_one_word_there_whatever_stands_in_it(login: Login, slurm: Any, tmp_path: Path) -> None:
    why = f"it's $(touch {tmp_path}/a) `touch {tmp_path}/b`; touch {tmp_path}/c & a|b > {tmp_path}/d"
    node(login, NODE, "held", why=why)
    assert slurm.show(NODE)["Reason"] == f"gpufleet:{RUN}:{why}"
    assert not [name for name in "abcd" if (tmp_path / name).exists()]


def test_a_write_that_comes_late_is_not_run(login: Login, slurm: Any, tmp_path: Path) -> None:
    """Its session hung for a minute: whoever sent it may have given up, and others go on. A look may come late."""
    tools, hung = tmp_path / "tools", tmp_path / "hung"
    tools.mkdir()
    (tools / "date").write_text(f'#!/bin/sh\necho $(($(/bin/date "$@") + $(cat {hung})))\n', encoding="ascii")
    (tools / "date").chmod(0o755)
    login.env["PATH"] = f"{tools}:{login.env['PATH']}"

    def opens(host: str) -> Optional[ways.Ask]:
        return ask if host == HOST else None

    def ask(line: str, reads: str, seconds: float) -> tuple[str, str]:
        writes = " scontrol update " in line
        hung.write_text("60" if writes else "0", encoding="ascii")
        return login.ask(line, reads, seconds)

    ways.led_by(opens)
    with pytest.raises(Unreachable, match="nothing was sent: the command came to the login host too late"):
        node(login, NODE, "held")
    assert "DRAIN" not in slurm.state(NODE) and any(" scontrol update " in line for line in login.asked)


def test_what_is_not_known_to_ask_is_a_write() -> None:
    asks = (("squeue", "-h"), ("scontrol", "--all", "-o", "show", "node", "a"), ("scontrol", "token"))
    writes = (("scontrol", "update", "NodeName=a", "Reason=show"), ("sbatch", "-p", "show"), ("scancel", "7"))
    assert all(_asks(program, argv) for program, *argv in asks)
    assert not any(_asks(program, argv) for program, *argv in writes)


def test_an_unknown_node_is_absent_and_a_refusal_is_one(login: Login, slurm: Any) -> None:
    assert node(login, "gpu999", "present").data["state"] == "absent"
    assert open_scheduler(login.connection).prerequisites() == ()
    login.before = NOBODY
    [refused] = open_scheduler(login.connection).prerequisites()
    assert "user 65534" in refused.seen, "as whoever logs in there, and not as who runs the play"
    with pytest.raises((AuthFailed, Refused)):
        node(login, NODE, "held")


def test_settings_of_the_user_there_hide_nothing(login: Login, slurm: Any) -> None:
    job = slurm.job(NODE)
    login.env.update(SQUEUE_USERS="nobody", SQUEUE_STATES="PENDING", SLURM_CLUSTERS="nosuch")
    assert node(login, NODE, "held").data["jobs"] == [job]


@pytest.mark.parametrize("most", [0, 40, 300])
def test_an_answer_without_its_end_is_none(login: Login, slurm: Any, most: int) -> None:
    login.most = most
    with pytest.raises((BadAnswer, Unreachable)):
        open_scheduler(login.connection).states([NODE])
    assert "DRAIN" not in slurm.state(NODE)


def test_a_host_that_is_away_is_no_answer_of_slurm(login: Login) -> None:
    login.away = "ssh: connect to host login1 port 22: No route to host"
    with pytest.raises(Unreachable) as caught:
        open_scheduler(login.connection).states([NODE])
    assert "No route" in caught.value.seen and "gpufleet_scheduler_login_host" in caught.value.do


def test_a_slurm_conf_that_is_not_there_and_commands_that_are_not(login: Login, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="slurm.conf"):
        open_scheduler({**login.connection, "scheduler_conf": "/nosuch/slurm.conf"}).states([NODE])
    for name in ("env", "sed", "timeout", "head", "tail"):
        (tmp_path / name).symlink_to(f"/usr/bin/{name}" if Path(f"/usr/bin/{name}").exists() else f"/bin/{name}")
    login.env["PATH"] = str(tmp_path)
    with pytest.raises(ConfigError, match="login host"):
        open_scheduler(login.connection).states([NODE])


def test_where_nobody_knows_the_way_there_is_none(login: Login) -> None:
    ways._opens = None
    with pytest.raises(ConfigError, match="delegate_to"):
        open_scheduler(login.connection).states([NODE])
    with pytest.raises(Unsupported):
        open_scheduler(login.connection).topology("conf", "")


# -- by the connection of the inventory ------------------------------------------------------------------------


@pytest.mark.slow
def test_a_play_asks_by_the_connection_of_that_host(
    slurm: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = doors.Site(slurm, tmp_path / "site")
    shell = tmp_path / "login-shell"
    shell.write_text(f'#!/bin/sh\nPATH={os.environ["PATH"]} exec /bin/sh "$@"\n', encoding="utf-8")
    shell.chmod(0o755)
    file = site.folder / "hosts.yml"
    inventory = yaml.safe_load(file.read_text(encoding="utf-8"))
    inventory["all"]["vars"]["gpufleet_scheduler_login_host"] = HOST
    inventory["all"]["hosts"][HOST] = {"ansible_connection": "local", "ansible_shell_executable": str(shell)}
    file.write_text(yaml.safe_dump(inventory), encoding="utf-8")
    monkeypatch.setenv("PATH", _no_commands(tmp_path / "controller"), prepend=":")
    batch = {"gpufleet.baremetal.scheduler_node": {"state": "present", "batch": True}, "run_once": True}
    results = site.play(doors.HOLD, doors.WAIT, batch, limit="gpu001,gpu002")
    held = [one["result"] for one in results[:2]]
    assert all(one["changed"] and one["cluster"] == "slurm gpufleet-test" for one in held)
    assert all(one["ok"] for one in results[2]["result"]["verdicts"].values())
    seen = results[-1]["result"]["verdicts"]
    assert {host: one["result"]["state"] for host, one in seen.items()} == {"gpu001": "drained", "gpu002": "drained"}
