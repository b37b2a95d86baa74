# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One login for a task, and a logout however it ends."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    AuthFailed,
    BadAnswer,
    FleetError,
    Unreachable,
)
from fake_bmc.redfish_server import PASSWORD

from .conftest import Ctx
from .test_playbook import Play
from .test_redfish import Make, boot, change


def session(rig: Any, state: str = "on", **more: Any) -> dict[str, Any]:
    return change(rig, state, bmc_auth="session", **more)


def test_b6_one_login_and_one_logout_a_task(fake: Make) -> None:
    rig = fake("plain", lag=0.1)
    rig.bmc.faults["basic_off"] = True
    assert session(rig, "cycle")["changed"] and rig.power() == "On"
    assert boot(rig, bmc_auth="session")["proof"] == "readback"
    assert (rig.bmc.logins, rig.bmc.failed_logins, rig.bmc.sessions) == (2, 0, {})
    with pytest.raises(AuthFailed):
        change(rig, "off")


def test_b6_a_session_under_another_name_of_the_same_bmc_is_ended(fake: Make) -> None:
    rig = fake("plain")
    rig.bmc.faults["known_as"] = "https://bmc-17.behind.example:8443"
    session(rig)
    assert rig.bmc.sessions == {}


@pytest.mark.parametrize("fault", [{"liar": True}, {"refuse": (400, "Base.1.8.GeneralError")}, {"soft_error": True}])
def test_b6_a_task_that_fails_logs_out(fake: Make, fault: dict[str, Any]) -> None:
    rig = fake("plain")
    rig.bmc.faults.update(fault)
    with pytest.raises(FleetError):
        session(rig, timeout=1.0)
    assert (rig.bmc.logins, rig.bmc.sessions) == (1, {})


@pytest.mark.parametrize("end", [KeyboardInterrupt, SystemExit, ZeroDivisionError])
def test_b6_a_task_that_is_broken_off_logs_out(fake: Make, end: type[BaseException]) -> None:
    rig, ctx = fake("plain"), Ctx()
    ctx.watch.deny = end()  # type: ignore[assignment]
    with pytest.raises(end):
        session(rig, ctx=ctx)
    assert (rig.bmc.logins, rig.bmc.sessions) == (1, {})


def test_b6_a_login_that_is_refused_is_tried_once(fake: Make) -> None:
    rig = fake("plain")
    with pytest.raises(AuthFailed) as caught:
        session(rig, bmc_password="wrong-horse")
    assert (rig.bmc.logins, rig.bmc.failed_logins) == (1, 1)
    assert "wrong-horse" not in str(caught.value.as_result()) and PASSWORD not in str(caught.value.as_result())


def test_b6_no_session_left_is_told_as_that(fake: Make) -> None:
    rig = fake("plain")
    rig.bmc.faults["sessions"] = 0
    with pytest.raises(FleetError, match="maximum number of user sessions"):
        session(rig, timeout=1.0)
    # Asked again while it may be that one becomes free: nothing was begun, and no login was refused.
    assert rig.bmc.logins > 1 and (rig.bmc.failed_logins, rig.bmc.sessions) == (0, {})


def test_v2_a_login_is_tried_again_while_the_bmc_is_busy(fake: Make) -> None:
    rig = fake("plain")
    rig.bmc.faults["sessions"] = 0
    free = threading.Timer(1.0, rig.bmc.faults.pop, ["sessions"])
    free.start()
    assert session(rig)["changed"] and rig.power() == "On"
    free.join()
    assert rig.bmc.logins > 1 and (rig.bmc.failed_logins, rig.bmc.sessions) == (0, {})


def test_v2_one_resource_that_refuses_the_session_leaves_none_behind(fake: Make) -> None:
    rig = fake("plain")
    rig.bmc.faults["forgets_login_at"] = "/redfish/v1/Systems/1"
    with pytest.raises(AuthFailed):
        session(rig)
    assert (rig.bmc.logins, rig.bmc.sessions) == (2, {})


@pytest.mark.parametrize("first", [503, 500, 0])
def test_v2_a_logout_that_fails_is_asked_for_once_more(fake: Make, first: int) -> None:
    rig = fake("plain")
    rig.bmc.faults["logouts"] = [first]
    result = session(rig)
    assert result["changed"] and "warnings" not in result
    assert (rig.bmc.requests["DELETE"], rig.bmc.sessions) == (2, {})


@pytest.mark.parametrize("way", ["message", "page"])
def test_s3_a_token_that_the_bmc_repeats_is_masked(fake: Make, way: str) -> None:
    """Nobody but the session itself knows that it is a secret."""
    rig, token = fake("plain"), "QWXYZ-8152-ZYXWQ"
    rig.bmc.faults["token"] = token
    words = f"who came as {token} may not do that"
    if way == "message":
        rig.bmc.faults["refuse"] = (400, "Base.1.8.GeneralError", words)
    else:
        rig.bmc.faults["raw"] = {"/redfish/v1/Systems": f"<html>{words}</html>".encode()}
    with pytest.raises(FleetError, match="may not do that") as caught:
        session(rig, timeout=1.0)
    assert token not in str(caught.value.as_result()) and token not in str(caught.value)


def test_v2_a_session_that_is_left_is_told(fake: Make) -> None:
    rig = fake("plain")
    rig.bmc.faults["logouts"] = [503, 503]
    result = session(rig)
    assert result["changed"] and rig.bmc.requests["DELETE"] == 2
    assert "session" in result["warnings"][0] and rig.bmc.url in result["warnings"][0]
    assert "token" not in str(result)


@pytest.mark.slow
def test_v2_a_session_that_is_left_is_told_by_both_ends_of_a_task(fake: Make, tmp_path: Path) -> None:
    rig = fake("plain")
    play = Play(tmp_path, rig)
    for state, code in (("on", 0), ("off", 2)):
        rig.bmc.faults.update(logouts=[503, 503], liar=state == "off")
        asked = {"gpufleet.baremetal.redfish_power": {"state": state, "timeout": 2, "force_reason": "a test"}}
        assert play.ansible([asked], gpufleet_bmc_auth="session").returncode == code, play.output
        assert play.output.count("a session of this task may be left") == 1, play.output


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_v2_a_run_that_is_ended_in_the_middle_logs_out(fake: Make, tmp_path: Path, sent: signal.Signals) -> None:
    rig = fake("plain")
    asked, ended = threading.Event(), threading.Event()

    def slow(status: int, headers: dict[str, str], data: bytes) -> Any:
        if rig.bmc.sessions and rig.bmc.paths[-1].startswith("GET"):
            asked.set()
            ended.wait(20)
        return status, headers, data

    rig.bmc.mangle = slow
    play = Play(tmp_path, rig)
    with play.started([{"gpufleet.baremetal.bmc_info": {}}], gpufleet_bmc_auth="session") as run:
        try:
            assert asked.wait(60), rig.bmc.paths
            run.send_signal(sent)
            assert run.wait(30) != 0
            until = time.monotonic() + 20
            while rig.bmc.sessions and time.monotonic() < until:
                time.sleep(0.05)
        finally:
            ended.set()
    assert (rig.bmc.logins, rig.bmc.sessions) == (1, {})
    assert rig.bmc.paths[-1].startswith("DELETE")


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_v2_a_signal_leads_through_the_logout_to_whom_it_was_for(fake: Make, sent: signal.Signals) -> None:
    rig = fake("plain")
    heard: list[tuple[int, int]] = []

    def end(status: int, headers: dict[str, str], data: bytes) -> Any:
        if rig.bmc.sessions and rig.bmc.paths[-1].startswith("GET"):
            os.kill(os.getpid(), sent)
        return status, headers, data

    before = signal.signal(sent, lambda number, frame: heard.append((number, len(rig.bmc.sessions))))
    try:
        rig.bmc.mangle = end
        with pytest.raises(SystemExit):
            session(rig)
    finally:
        signal.signal(sent, before)
    assert heard == [(sent, 0)] and rig.bmc.logins == 1


def heard_while(rig: Any, asked: str, raised: type[BaseException] | None) -> list[tuple[int, int]]:
    """A session that is told to end while its BMC answers such a request: what came through, and the sessions then."""
    heard: list[tuple[int, int]] = []
    told: list[str] = []

    def end(status: int, headers: dict[str, str], data: bytes) -> Any:
        if rig.bmc.sessions and asked in rig.bmc.paths[-1] and not told:
            told.append(rig.bmc.paths[-1])
            os.kill(os.getpid(), signal.SIGTERM)
        return status, headers, data

    before = signal.signal(signal.SIGTERM, lambda number, frame: heard.append((number, len(rig.bmc.sessions))))
    try:
        rig.bmc.mangle = end
        with pytest.raises(raised) if raised else contextlib.nullcontext():
            session(rig)
        assert told, rig.bmc.paths
    finally:
        signal.signal(signal.SIGTERM, before)
    return heard


def test_v2_a_signal_while_a_refusal_is_explained_leads_through_the_logout(fake: Make) -> None:
    rig = fake("ilo")
    rig.bmc.faults["refuse_in_ids"] = [("iLO.2.30.Whatever",)]
    assert heard_while(rig, "Registries", SystemExit) == [(signal.SIGTERM, 0)]


def test_v2_a_signal_in_the_midst_of_a_logout_leaves_no_session(fake: Make) -> None:
    rig = fake("plain")
    rig.bmc.faults.update(forgets_login_at="/redfish/v1/Systems/1", logouts=[503])
    assert heard_while(rig, "DELETE", SystemExit) == [(signal.SIGTERM, 0)]


def test_v2_a_signal_during_the_last_logout_waits_for_it(fake: Make) -> None:
    rig = fake("plain")
    rig.bmc.faults["logouts"] = [503]
    heard = heard_while(rig, "DELETE", None)
    assert heard == [(signal.SIGTERM, 0)]


def test_v2_a_signal_that_is_ignored_stays_ignored(fake: Make) -> None:
    rig = fake("plain")
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        rig.bmc.mangle = lambda *answer: os.kill(os.getpid(), signal.SIGHUP) or answer  # type: ignore[func-returns-value]
        assert session(rig)["changed"] and rig.bmc.sessions == {}
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_v2_the_handlers_of_a_process_stand_again_after_the_session(fake: Make) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    rig, seen = fake("plain"), []
    rig.bmc.mangle = lambda *answer: seen.append(signal.getsignal(signal.SIGTERM)) or answer  # type: ignore[func-returns-value]
    session(rig)
    assert any(handler is not before[0] for handler in seen)
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before


def test_b6_a_session_that_ran_out_is_begun_anew(fake: Make) -> None:
    rig = fake("plain", lag=0.1)
    rig.bmc.faults["session_ends"] = 5
    assert session(rig, "cycle")["changed"]
    assert rig.bmc.logins > 1
    assert [body["ResetType"] for _method, _path, body in rig.bmc.writes] == ["On"]
    assert rig.bmc.sessions == {}


def test_b6_a_session_that_never_works_is_a_login_that_is_refused(fake: Make) -> None:
    rig = fake("plain")
    rig.bmc.faults["session_ends"] = 0
    with pytest.raises(AuthFailed):
        session(rig)
    assert rig.bmc.logins == 1


def test_b6_a_login_whose_answer_is_lost_is_not_sent_again(fake: Make) -> None:
    rig = fake("plain")
    rig.bmc.faults["drop_login"] = 1
    with pytest.raises(Unreachable, match="answer to the login was lost"):
        session(rig)
    assert rig.bmc.logins == 1


def test_b6_a_session_without_a_token(fake: Make) -> None:
    rig = fake("plain")
    rig.bmc.faults["no_token"] = True
    with pytest.raises(BadAnswer, match="told no token"):
        session(rig)
    assert rig.bmc.logins == 1


def test_b6_a_logout_that_fails_hides_nothing(fake: Make) -> None:
    rig = fake("plain")
    rig.bmc.mangle = lambda status, headers, data: (500 if not rig.bmc.sessions else status, headers, data)
    assert session(rig)["changed"] and rig.power() == "On"
