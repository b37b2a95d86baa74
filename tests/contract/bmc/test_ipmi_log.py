# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The system event log over IPMI: its end, whatever ids it has, and what is missing of it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.ipmi import link as ipmi_link
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.ipmi import sel
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.ipmi.driver import IpmiBmc
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.log import log
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.told import Log
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer, FleetError, Unsupported
from fake_bmc.ipmi_server import PASSWORD, PROGRAM, USER, UUID, IpmiSim
from fake_bmc.sel_memory import BEGAN, CLOCK, ENTRY, INFO, Sel, event, events

from .conftest import Ctx

pytestmark = pytest.mark.skipif(bool(ipmi_link.LIBRARY_PROBLEM), reason="needs pyghmi")


def read(rig: Sel, most: int = 200, since: Any = None, timeout: float = 20.0) -> Log:
    given = {"bmc_address": "bmc", "bmc_username": "u", "bmc_password": "p", "timeout": timeout}
    with IpmiBmc(given, Ctx()) as bmc:
        bmc.machine.link._session = rig.session
        return bmc.events.newest(most, since)


def ids(found: Log) -> list[int]:
    return [int(one.id) for one in found.entries]


def test_all_of_a_short_log_newest_first() -> None:
    rig = Sel(events(range(1, 21)))
    found = read(rig)
    assert ids(found) == list(range(20, 0, -1)) and found.unread == ()
    assert (found.name.id, found.name.kind, found.total) == ("SEL", "sel", 20)
    assert rig.heard() == {INFO, ENTRY, CLOCK}, "nothing but reads"
    assert len(rig.asked) == 20


def test_an_empty_log_is_not_asked_for_records() -> None:
    rig = Sel([])
    assert read(rig).entries == () and rig.asked == []


@pytest.mark.parametrize(
    ("numbers", "requests"),
    [
        (range(1, 2001), 13),
        (range(7, 4007, 2), 2002),
        ([*range(1, 1000), *range(1100, 2000)], 130),
        ([*range(3000, 4000), *range(1, 1000)], 2001),
        ([*range(1, 1990), *range(1995, 2006)], 20),
    ],
    ids=["dense", "sparse", "holes", "wrapped", "hole_at_the_end"],
)
def test_of_a_long_log_the_end_is_asked_for_whatever_its_ids_are(numbers: Any, requests: int) -> None:
    wanted = list(numbers)[-10:][::-1]
    rig = Sel(events(list(numbers)))
    found = read(rig, most=10)
    assert ids(found) == wanted and found.unread == ()
    assert len(rig.asked) <= requests, len(rig.asked)


@pytest.mark.parametrize("overflow", [False, True])
def test_ids_that_do_not_rise_hide_nothing(overflow: bool) -> None:
    """Its first and last look as if none were left out, and the record that is tried is its last but one."""
    order = [*range(1, 8), 9, 10, 11, 8, 12]
    rig = Sel(events(order))
    rig.overflow = overflow
    assert ids(read(rig, most=5)) == order[-5:][::-1]


@pytest.mark.parametrize("back", [1, 4, 5, 0])
def test_a_chain_that_leads_back_ends(back: int) -> None:
    rig = Sel(events(range(1, 11)))
    rig.leads[5] = back
    found = read(rig)
    assert ids(found)[:1] == [5] and len(rig.asked) <= 10
    assert "leads back" in found.unread[0]


def test_a_chain_without_an_end_is_walked_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sel, "_MOST_RECORDS", 30)
    rig = Sel(events([*range(3000, 3200), *range(1, 131)]))
    found = read(rig, most=100)
    assert "newest are not reached" in found.unread[0] and found.total == 330
    assert ids(found) == [130, *range(3029, 2999, -1)], "the last one at least is known"


def test_a_record_that_is_gone_ends_the_walk_and_is_told() -> None:
    rig = Sel(events(range(1, 11)))
    rig.gone = {7}
    found = read(rig)
    assert ids(found) == [6, 5, 4, 3, 2, 1]
    assert found.unread[0].startswith("record 7 and what comes after it")


@pytest.mark.parametrize("answer", [b"", b"\x02", b"\x02\x00" + bytes(10)])
def test_a_record_that_is_too_short_is_none(answer: bytes) -> None:
    rig = Sel(events(range(1, 6)))
    rig.answers[3] = answer
    found = read(rig)
    assert ids(found) == [2, 1] and "too short" in found.unread[0]


def test_the_first_record_that_does_not_come_is_an_error_and_no_empty_log() -> None:
    rig = Sel(events(range(1, 6)))
    rig.gone = {0}
    with pytest.raises(FleetError, match="refuses"):
        read(rig)


def test_a_bmc_without_a_log_is_told() -> None:
    rig = Sel([])
    rig.codes[INFO] = 0xC1
    with pytest.raises(Unsupported):
        read(rig)
    rig.codes[INFO] = 0
    rig.session.says[INFO] = lambda _data: (0, b"\x51\x05\x00")
    with pytest.raises(BadAnswer):
        read(rig)


def test_events_that_were_dropped_are_told() -> None:
    rig = Sel(events(range(1, 4)))
    rig.overflow = True
    assert read(rig).unread == ("the BMC dropped events, since its log was full",)


def test_since_leaves_out_what_is_older_and_nothing_that_may_be_newer() -> None:
    records = events(range(1, 11))
    records[1] = event(2, 0x17, 12, b"\x0c\x6f\xa1\xff\xff")
    records[2] = event(3, 0xFFFFFFFF, 12, b"\x0c\x6f\xa1\xff\xff")
    found = read(Sel(records), since=float(BEGAN + 60 * 7))
    assert ids(found) == [10, 9, 8, 3, 2]
    assert [one.at for one in found.entries[-2:]] == [None, None]
    assert found.entries[-1].native["at"] == "0x00000017"


def test_a_task_whose_time_is_over_ends_its_walk() -> None:
    rig = Sel(events(range(1, 4000, 2)))
    answer = rig.entry

    def slow(data: tuple[int, ...]) -> tuple[int, bytes]:
        time.sleep(0.02)
        return answer(data)

    rig.session.says[ENTRY] = slow
    found = read(rig, most=1000, timeout=0.5)
    assert "the time of this task was over" in found.unread[0]
    assert 1 < len(found.entries) < 200 and ids(found)[0] == 3999


@pytest.mark.parametrize("ahead", [-7200, 0, 86400])
def test_by_how_much_the_bmcs_clock_is_wrong(ahead: int) -> None:
    rig = Sel([])
    rig.clock = int(time.time()) + ahead
    clock = read(rig).clock
    assert clock.at == rig.clock and clock.ahead is not None and abs(clock.ahead - ahead) < 5


@pytest.mark.parametrize(
    ("seconds", "code", "said"), [(0x17, 0, "0x00000017"), (0xFFFFFFFF, 0, "0xffffffff"), (0, 0xC1, "")]
)
def test_a_clock_that_was_never_set_is_none(seconds: int, code: int, said: str) -> None:
    rig = Sel(events([1]))
    rig.clock, rig.codes[CLOCK] = seconds, code
    found = read(rig)
    assert (found.clock.at, found.clock.said, found.clock.ahead) == (None, said, None)
    assert ids(found) == [1] and found.unread == ()


@pytest.mark.skipif(not PROGRAM, reason="needs ipmi_sim (Debian package openipmi)")
def test_the_log_of_a_real_simulator(tmp_path: Path) -> None:
    """Filled by somebody else through the BMC's own command, with times that the BMC itself gives."""
    with IpmiSim(tmp_path / "sim") as sim:
        given = {
            "bmc_protocol": "ipmi", "bmc_address": f"{sim.address}:{sim.port}", "bmc_username": USER,
            "bmc_password": PASSWORD, "timeout": 30.0, "system_uuid": UUID,
        }  # fmt: skip
        before = log({**given, "most": 5}, Ctx()).data
        assert before["entries"] == [] and before["total"] == 0 and before["unread"] == []
        with IpmiBmc(given, Ctx()) as somebody:
            for number in range(30):
                record = event(0, 0, number, b"\x0c\x6f\xa1\xff\xff" if number % 2 else b"\x04\x81\x52\x05\x0a")
                somebody.machine.link.command(0x0A, 0x44, tuple(record))
        found = log({**given, "most": 7}, Ctx()).data
        assert [one["sensor"] for one in found["entries"][:2]] == ["Memory #29", "Fan #28"]
        assert [one["severity"] for one in found["entries"][:2]] == ["critical", "ok"]
        assert (len(found["entries"]), found["total"], found["unread"]) == (7, 30, [])
        assert found["machine"]["agrees"] == ["system_uuid"] and sim.calls() == []
        everything = log({**given, "most": 200}, Ctx()).data["entries"]
        assert [one["id"] for one in everything[:7]] == [one["id"] for one in found["entries"]]
        assert len({one["id"] for one in everything}) == 30
