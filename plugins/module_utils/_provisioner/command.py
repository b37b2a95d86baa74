# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands of a provisioner, for drivers that have nothing better to ask. PRIVATE to the collection.

Every command of a driver is run here, on this machine or on the login host that its options name: one that still writes
after its worker was killed keeps the turn.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    BadAnswer,
    Changed,
    DeadlineExceeded,
    Unreachable,
    Unsupported,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import turn as turns
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import Driver
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.login_host import Busy, LoginHost
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.turn import NoTurn

#: A command of a provisioner that is at work takes seconds.
TIMEOUT = 60.0
#: What was killed is gone within this, unless the kernel or its owner does not let it go.
GRACE = 5.0


class Overtaken(Changed):
    """Another command was at work on the login host after the node was judged. Nothing was sent."""


@dataclass(frozen=True)
class Answer:
    """What a command said. Its exit status is its own word, and may lie like any other."""

    code: int
    out: str
    err: str


def run(
    driver: Driver,
    argv: Sequence[str],
    *,
    timeout: float = TIMEOUT,
    env: Mapping[str, str] | None = None,
    stdin: str = "",
) -> Answer:
    """Run one command to its end, where the driver's commands run.

    It has the lock of our turn open as well: when this worker is killed, nobody else writes before the command and
    all that it has begun have ended. To kill it with its worker would leave half a write behind, and what it had
    begun elsewhere would go on. One that does not end in its time is killed, with all that it has begun in its
    session; since nobody knows what escaped that, it was the last one of this turn.

    :param stdin: what it reads. A secret goes this way, since every user of this machine sees the words of a command.

    :raises Unsupported: where the driver is not ``serial``: its writes have no turn that a command could keep.
    :raises NoTurn: where an earlier one of this turn did not end; then nothing was sent.
    :raises Unreachable: where it does not start, or does not end; then nobody knows what it has done.
    """
    _demand_turn(driver)
    variables = {"LC_ALL": "C.UTF-8", **(env or {})}
    if driver.login_host is not None:
        return _over_there(driver, driver.login_host, argv, timeout=timeout, env=variables, stdin=stdin)
    process = _started(driver, argv, {**os.environ, **variables}, bool(stdin))
    try:
        out, err = process.communicate(stdin or None, timeout=timeout)
    except subprocess.TimeoutExpired as exc:
        raise Unreachable(
            "the command does not end",
            address=driver.address,
            wanted=f"an answer within {timeout:g} s",
            seen=_killed(driver, process),
            do="look whether the provisioner is at work on this machine",
            details={"slow": timeout},
        ) from exc
    except BaseException:
        _killed(driver, process)
        raise
    return Answer(process.returncode, out, err.strip())


def found(driver: Driver, *places: str) -> str:
    """The first of these that is a program which may be run where the driver's commands run; empty where none is."""
    if driver.login_host is not None:
        return driver.login_host.found(places)
    return next((place for place in places if os.access(place, os.X_OK)), "")


def machine(driver: Driver) -> str:
    """Where they run, in words."""
    return f"the host {driver.login_host.host}" if driver.login_host is not None else "this machine"


def _kept_by(waited: Sequence[Busy]) -> str:
    """Who keeps the turn, as the last look told it."""
    return f", which is kept by {waited[-1].seen}" if waited and waited[-1].seen else ""


def _over_there(
    driver: Driver, host: LoginHost, argv: Sequence[str], *, timeout: float, env: Mapping[str, str], stdin: str
) -> Answer:
    """In a turn, after each command of an earlier one has ended there; one that nobody heard the end of is its last.

    Who waited for that asks again whether it may be sent; a write that goes by a look does not wait, since whoever is
    at work there may write to the same node.
    """
    turn = turns.lock_name(driver.name, host.local) if driver.kept_open else ""
    waited: list[Busy] = []
    host.sent = False  # nor is this one while it waits
    judged, host.judged = host.judged, False

    def attempt() -> tuple[Answer, ...]:
        """None while another command has the turn."""
        try:
            if waited:
                driver.ctx.asks_again()
            done = host.run(argv, timeout=timeout, env=env, stdin=stdin, turn=turn)
        except Busy as exc:
            if judged:
                raise overtaken(driver, host, exc) from exc
            waited.append(exc)
            host.waited = exc
            return ()
        return (Answer(done.code, done.out, done.err.strip()),)

    try:
        [answer] = driver.ctx.wait(
            attempt,
            bool,
            timeout=turns.TIMEOUT,
            interval=turns.INTERVAL_THERE,
            wanted=f"the end of an earlier command on {host.host}",
        )
    except DeadlineExceeded as exc:
        raise _no_turn(driver, host, waited) from exc
    except (Unreachable, BadAnswer):
        driver.unheard = bool(turn) and host.sent
        raise
    return answer


def _no_turn(driver: Driver, host: LoginHost, waited: Sequence[Busy]) -> NoTurn:
    return NoTurn(
        "nothing was sent: an earlier command has not ended on the login host",
        address=driver.address,
        wanted="a turn in which each command has ended before the next",
        seen=f"no turn within {turns.TIMEOUT:g} s{_kept_by(waited)}",
        do=f"look on {host.host} for a command of {driver.name} that hangs, or a program that one has left running"
        " with the turn's file open (descriptor 9); it keeps the others from writing, and is a person's to end",
    )


def overtaken(driver: Driver, host: LoginHost, busy: Busy) -> Overtaken:
    return Overtaken(
        "nothing was sent: others were at work on the login host since the node was judged",
        address=driver.address,
        wanted=f"no other command of {driver.name} between the look and the write that goes by it",
        seen=busy.seen or "another command",
        do=f"run again: it is judged anew; see what writes on {host.host} all the time",
    )


def _demand_turn(driver: Driver) -> None:
    """Before a command: whether there is a turn that it could keep."""
    if not driver.serial:
        raise Unsupported(
            "nothing was sent: commands are for drivers whose writes have a turn",
            address=driver.address,
            wanted=f"serial = True in the driver of {driver.name}",
            seen="serial = False: a command that outlives its worker would write beside the next run's",
            do=f"declare serial = True in the driver of {driver.name}, or ask its API instead of its commands",
        )
    if driver.unended or driver.unheard:
        raise NoTurn(
            "nothing was sent: an earlier command of this turn did not end",
            address=driver.address,
            wanted="a turn in which each command has ended before the next",
            do="run again; the next turn comes when that command, and all that it has begun, have ended",
        )


def _started(driver: Driver, argv: Sequence[str], env: Mapping[str, str], reads: bool) -> subprocess.Popen[str]:
    """In a session of its own, so that what it begins can be killed with it."""
    try:
        return subprocess.Popen(  # pylint: disable=ansible-bad-function  # both doors of a verb come here
            list(argv),
            stdin=subprocess.PIPE if reads else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=env,
            pass_fds=driver.kept_open,
            start_new_session=True,
        )
    except OSError as exc:
        raise Unreachable(f"the command does not start: {exc}", address=driver.address) from exc


def _killed(driver: Driver, process: subprocess.Popen[str]) -> str:
    """End it with its session as far as we may, and this turn with it; what became of it, in words.

    One that runs as another user, as with sudo, cannot be killed by us: no error may hide that it goes on.
    """
    if driver.kept_open:
        driver.unended += (process,)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=GRACE)
    for pipe in (process.stdin, process.stdout, process.stderr):
        with suppress(OSError):  # what it has not read yet goes nowhere
            if pipe is not None:
                pipe.close()
    return "it was killed" if process.poll() is not None else f"process {process.pid} cannot be killed and goes on"
