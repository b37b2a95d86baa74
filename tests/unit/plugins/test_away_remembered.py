# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What hosts of one run remember of a service that was away, and how an answer ends that."""

from __future__ import annotations

import json
import resource
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import requests
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _away as away
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _transport as transport
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, Unreachable
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.runcache import RunCache

URL = "https://maas.example.com/MAAS"
PEER = transport.Peer("MAAS", reach="look at it", trust="trust it", login="log in")


@pytest.fixture(autouse=True)
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(away, "AWAY_SECONDS", 0.3)
    monkeypatch.setattr(away, "AWAY_INTERVAL", 0.02)


class Service:
    """Answers, or fails as it is told to; counts."""

    def __init__(self, *fails: Unreachable) -> None:
        self.fails, self.asked = list(fails), 0
        self.always: Unreachable | None = None
        self.busy = 0.0

    def __call__(self) -> str:
        self.asked += 1
        time.sleep(self.busy)
        failed = self.always or (self.fails.pop(0) if self.fails else None)
        if failed is not None:
            raise failed
        return "an answer"


def silent(slow: float = 60.0) -> Unreachable:
    return Unreachable("silent", address=URL, details={"slow": slow} if slow else None)


def host(name: str) -> Callable[[Callable[[], str]], str]:
    return lambda ask: away.Away("this run", name).heard(URL, ask)


def test_c8_each_host_is_told_of_a_frozen_service_once_and_asks_itself_afterwards() -> None:
    frozen, back = Service(), Service()
    frozen.always = silent()
    with pytest.raises(Unreachable):
        host("gpu001")(frozen)
    with pytest.raises(Unreachable, match="by another host of this run"):
        host("gpu002")(frozen)
    assert frozen.asked == 1
    with pytest.raises(Unreachable):
        host("gpu002")(frozen)
    assert frozen.asked == 2
    with pytest.raises(Unreachable):
        away.Away("this run", "gpu003").heard(URL, frozen, remembered=False)
    assert frozen.asked == 3, "one that has to know asks itself"
    assert host("gpu001")(back) == "an answer", "who has met it itself is not told of it"


def test_c8_an_answer_ends_what_the_run_remembers_of_a_service() -> None:
    frozen, back = Service(), Service()
    frozen.always = silent()
    with pytest.raises(Unreachable):
        host("gpu001")(frozen)
    assert away.Away("this run", "gpu002").heard(URL, back, remembered=False)
    assert host("gpu003")(back) == "an answer"


def test_c8_a_request_that_began_before_an_answer_shuts_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends as the last of those that the frozen service had let wait."""

    def late() -> str:
        assert host("gpu002")(Service(silent(0.0))) == "an answer"
        monkeypatch.setattr(away, "AWAY_SECONDS", 0.0)
        raise silent()

    with pytest.raises(Unreachable):
        host("gpu001")(late)
    assert host("gpu003")(Service()) == "an answer"


def test_c8_a_slow_request_shuts_nobody_out_of_a_service_that_answers_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody has met it away: that it answers is noted all the same."""

    def slow() -> str:
        assert host("gpu002")(Service()) == "an answer"
        monkeypatch.setattr(away, "AWAY_SECONDS", 0.0)
        raise silent()

    with pytest.raises(Unreachable):
        host("gpu001")(slow)
    assert host("gpu003")(Service()) == "an answer"


def test_c8_a_request_that_had_no_answer_while_others_had_is_sent_anew() -> None:
    left = Service()

    def ask() -> str:
        if not left.asked:
            left.fails = [silent()]
            assert host("gpu002")(Service()) == "an answer"
        return left()

    assert host("gpu001")(ask) == "an answer" and left.asked == 2


def test_c8_the_answers_of_a_service_that_is_well_are_noted_once_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def noted() -> str:
        assert host("gpu001")(Service()) == "an answer"
        (note,) = tmp_path.rglob("*.back")
        return note.read_text(encoding="utf-8")

    monkeypatch.setattr(away, "_NOTED_SECONDS", 600.0)
    first = noted()
    assert noted() == first
    monkeypatch.setattr(away, "_NOTED_SECONDS", 0.0)
    assert float(noted()) > float(first)


def test_c8_what_another_boot_has_noted_of_a_service_is_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its clock was ahead of this one's, for good: neither an answer nor a silence lies in the future."""
    monkeypatch.setattr(away, "AWAY_SECONDS", 0.0)
    frozen, ahead = Service(), time.monotonic() + 10**6
    frozen.always = silent()
    with pytest.raises(Unreachable):
        host("gpu001")(frozen)
    (note,) = tmp_path.rglob("*.silent")
    note.write_text(json.dumps({**json.loads(note.read_text(encoding="utf-8")), "at": ahead}), encoding="utf-8")
    assert host("gpu002")(frozen_once := Service()) == "an answer" and frozen_once.asked == 1
    (note.parent / f"{note.stem}.back").write_text(str(ahead), encoding="utf-8")
    with pytest.raises(Unreachable):
        host("gpu001")(frozen)
    with pytest.raises(Unreachable, match="by another host of this run"):
        host("gpu003")(Service())


def test_c8_who_cannot_note_that_a_host_was_told_asks_the_service() -> None:
    """Else it were told so, unasked, for a minute: to each host once is what the note keeps."""
    frozen = Service()
    frozen.always = silent()
    with pytest.raises(Unreachable):
        host("gpu001")(frozen)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))  # as on a full disk
    try:
        told = host("gpu002")(Service())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert told == "an answer"


def test_c8_a_request_that_a_restart_left_without_an_answer_is_sent_anew() -> None:
    left = Service()

    def ask() -> str:
        if not left.asked:
            left.fails = [silent()]
            assert host("gpu002")(Service(silent(0.0))) == "an answer"
        return left()

    assert host("gpu001")(ask) == "an answer" and left.asked == 2


def test_c8_a_host_that_has_had_an_answer_is_not_thrown_out_by_what_another_meets() -> None:
    waiting, frozen = away.Away("this run", "gpu001"), Service()
    frozen.always = silent()
    assert waiting.heard(URL, Service()) == "an answer"
    with pytest.raises(Unreachable):
        host("gpu002")(frozen)
    assert waiting.heard(URL, Service()) == "an answer"


def test_c8_a_service_that_was_busy_and_fails_once_is_waited_for_and_not_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was let wait is the request that had no answer, and not all that was done before it."""
    monkeypatch.setattr(away, "SLOW_SECONDS", 0.2)
    gateway = Service(silent(0.0))
    gateway.busy = 0.4
    assert host("gpu001")(gateway) == "an answer" and gateway.asked == 2
    gateway.always = silent(0.0)
    with pytest.raises(Unreachable):
        host("gpu001")(gateway)
    assert host("gpu002")(Service()) == "an answer"


def test_c8_a_service_that_came_back_is_waited_for_the_second_time() -> None:
    assert host("gpu001")(Service(silent(0.0))) == "an answer"
    time.sleep(away.AWAY_SECONDS)
    assert host("gpu002")(Service(silent(0.0))) == "an answer"


def test_c8_what_others_are_answered_gives_a_host_no_more_time() -> None:
    """One record that a provisioner cannot tell is away for its own host alone, and not for ever."""
    broken = Service()

    def ask() -> str:
        assert host("gpu002")(Service()) == "an answer"
        if broken.asked > 100:
            return "for ever"
        broken.fails = [silent(0.0)]
        return broken()

    with pytest.raises(Unreachable):
        host("gpu001")(ask)


def test_c8_whom_a_run_asks_beside_a_service_is_not_taken_for_it() -> None:
    asked = Service()
    asked.always = silent()
    asked.always.of_peer = False
    with pytest.raises(Unreachable):
        host("gpu001")(asked)
    assert asked.asked == 1 and host("gpu002")(Service()) == "an answer"


def foreign(folder: Path) -> None:
    away.own_folder("this run").chmod(0o770)


def missing(folder: Path) -> None:
    folder.rmdir()


def lost(folder: Path) -> None:
    """A disk that is full, or whose folder was taken away amid the run: neither read nor written."""
    for note in ("silent", "away", "lock", "back"):
        (away.own_folder("this run") / f"{away._name(URL)}.{note}").mkdir()


@pytest.mark.parametrize("spoil", [foreign, missing, lost])
def test_c8_where_nothing_can_be_kept_for_the_run_a_host_waits_alone(
    spoil: Callable[[Path], None], tmp_path: Path
) -> None:
    """With nothing away nobody notices; an image's verification is not kept in such a place."""
    spoil(tmp_path)
    assert host("gpu001")(Service()) == "an answer"
    assert host("gpu001")(Service(silent(0.0))) == "an answer"
    frozen = Service()
    frozen.always = silent()
    for name in ("gpu001", "gpu002"):
        with pytest.raises(Unreachable, match="silent"):
            host(name)(frozen)
    assert frozen.asked == 2
    if spoil is foreign:
        with pytest.raises(ConfigError, match="written by somebody else"):
            RunCache("this run")


def test_c8_a_driver_says_which_failure_was_a_time_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as quiet:
        url = f"http://127.0.0.1:{quiet.getsockname()[1]}"
        with pytest.raises(requests.RequestException) as waited:
            requests.get(url, timeout=0.1)
    with pytest.raises(requests.RequestException) as refused:
        requests.get(url, timeout=5)
    told = [PEER.unreached(url, one.value, "cause", timeout=60.0).details for one in (waited, refused)]
    assert told == [{"slow": 60.0}, {}]
