# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a login host's shell makes of a command, by real shells: their answer and their errors come as one."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _there as there
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _ways as ways
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer, ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import login_host
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_sources import check_source

HOST = "mn1"


class Shell:
    def __init__(self) -> None:
        self.argv: tuple[str, ...] = ("/bin/sh",)
        self.said: list[str] = []

    def ask(self, line: str, reads: str, seconds: float) -> tuple[str, str]:
        argv, both = [*self.argv, "-c", line], subprocess.STDOUT
        done = subprocess.run(
            argv, input=reads, timeout=seconds, stdout=subprocess.PIPE, stderr=both, text=True, check=False
        )
        self.said.append(done.stdout)
        return done.stdout, ""


@pytest.fixture
def shell() -> Iterator[Shell]:
    made, before = Shell(), ways._opens
    ways.led_by(lambda host: made.ask)
    yield made
    ways._opens = before


def ran(host: login_host.LoginHost, *argv: str, stdin: str = "", turn: str = "turn") -> there.Ended:
    return host.run(argv, timeout=50, env={"A": "x"}, stdin=stdin, turn=turn)


@pytest.mark.parametrize("argv", [("bash", "-xv"), ("env", "SHELLOPTS=xtrace:verbose", "bash")])
def test_a_shell_that_says_each_line_says_no_secret(shell: Shell, argv: tuple[str, ...]) -> None:
    shell.argv, secret = argv, "s3cret of a BMC"
    done = ran(login_host.LoginHost(HOST, "xcat"), "sh", "-c", "wc -c", stdin=secret, turn="")
    assert (done.code, done.out.strip()) == (0, "15")
    order = there.Order(["sh", "-c", "wc -c"], 50, reads=secret, env={"A": "x"}, by_input=True)
    whole = there.framed(order, re.findall(r"gpufleet-[0-9a-f]{24}", shell.said[0])[0])[1]
    coded = there.base64.b64encode(secret.encode()).decode()
    assert not any(one in shell.said[0] for one in (secret, coded, whole))


def test_a_command_that_somebody_killed_is_not_one_that_was_slow(shell: Shell) -> None:
    with pytest.raises(BadAnswer, match="was killed on the login host") as caught:
        ran(login_host.LoginHost(HOST, "xcat"), "sh", "-c", "kill -9 $PPID", turn="")
    assert "signal 9" in caught.value.seen and "slow" not in caught.value.details


@pytest.mark.parametrize("first", [True, False])
def test_a_lock_that_cannot_be_opened_is_told_and_nothing_was_sent(shell: Shell, tmp_path: Path, first: bool) -> None:
    """The folder was removed since it was found, as by whoever tidies /tmp; the next look makes it anew."""
    shell.argv = ("env", f"TMPDIR={tmp_path}", "/bin/sh")
    folder, run = tmp_path / f"{login_host.FOLDER}-{os.getuid()}", tmp_path / "run"
    host = login_host.LoginHost(HOST, "xcat")
    host.found(())
    if not first:
        assert ran(host, "true").code == 0
    folder.rename(tmp_path / "away")
    with pytest.raises(ConfigError, match="cannot be opened") as caught:
        ran(host, "touch", str(run))
    assert str(folder) in caught.value.wanted and not run.exists()
    assert ran(host, "touch", str(run)).code == 0 and run.exists()


def test_a_clock_that_was_forgotten_meanwhile_makes_nothing_late() -> None:
    """As by another thread, between the look that has heard it and its use."""
    clock, looks = there.Clock(HOST), []

    def look() -> None:
        looks.append(time.monotonic())
        clock.hear(str(int(time.time())), looks[-1])
        if len(looks) == 1:
            clock.forget()

    check = clock.in_time(look)
    assert len(looks) == 2, "asked for anew, since it was forgotten before it was read"
    clock.forget()
    assert subprocess.run(["/bin/sh", "-c", check.test], check=False).returncode == 0
    clock.in_time(look)
    assert len(looks) == 3, "asked for anew, since it was forgotten since"
    clock.in_time(look)
    assert len(looks) == 3, "known"


@pytest.mark.parametrize("kind", ["xcat", "bcm"])
def test_an_inventory_is_read_where_no_login_host_can_answer_for_it(kind: str) -> None:
    with pytest.raises(ConfigError, match="no login host answers for it") as caught:
        check_source({"type": kind, "url": "/opt/xcat", "login_host": HOST}, 1)
    assert login_host.SETTING in caught.value.do
