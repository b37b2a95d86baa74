# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The system event log over Redfish: which of the logs it is, the newest of it, and what is missing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.log import log
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish import log_pages
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    ConfigError,
    Unsupported,
)
from fake_bmc.logs import BEGAN, MANAGER, SYSTEM, Logs, OneLog, events, iso

from .conftest import Ctx
from .test_redfish import Make

SEL = f"{MANAGER}/LogServices/SEL"


def asked(rig: Any, **more: Any) -> dict[str, Any]:
    return log({**rig.params, "timeout": 20.0, "most": 200, **more}, Ctx()).data


def with_log(fake: Make, entries: Any = (), uri: str = SEL, **more: Any) -> Any:
    """A BMC with one log."""
    rig = fake("plain")
    rig.bmc.logs = Logs(OneLog(uri, entries, **more))
    return rig


def ids(found: dict[str, Any]) -> list[int]:
    return [int(one["id"]) for one in found["entries"]]


def pages(rig: Any) -> list[str]:
    """What was asked of the entries."""
    return [path.rpartition("/")[2] for path in rig.bmc.paths if "/Entries" in path]


def log_of(rig: Any) -> OneLog:
    one: OneLog = rig.bmc.logs.logs[0]
    return one


# -- which log it is ---------------------------------------------------------------------------------------------------


def at(owner: str, *names: str) -> list[OneLog]:
    return [OneLog(f"{owner}/LogServices/{name}") for name in names]


SHELL = OneLog(f"{SYSTEM}/LogServices/SEL", has_entries=False)
TYPED = OneLog(f"{MANAGER}/LogServices/Faults", LogEntryType="SEL")


@pytest.mark.parametrize(
    ("logs", "chosen", "kind"),
    [
        (at(MANAGER, "Lclog", "FaultList", "Sel"), f"{MANAGER}/LogServices/Sel", "sel"),
        ([*at(SYSTEM, "BIOS"), *at(MANAGER, "AuditLog", "EventLog", "SEL")], SEL, "sel"),
        ([*at(SYSTEM, "Log1"), *at(MANAGER, "Log1")], f"{SYSTEM}/LogServices/Log1", "sel"),
        ([*at(SYSTEM, "IML", "SL", "Event"), *at(MANAGER, "IEL")], f"{SYSTEM}/LogServices/IML", "platform"),
        ([*at(SYSTEM, "AuditLog", "PlatformLog"), SHELL], f"{SYSTEM}/LogServices/PlatformLog", "platform"),
        ([*at(SYSTEM, "PostCodes", "EventLog", "SEL"), *at(MANAGER, "Journal")], f"{SYSTEM}/LogServices/SEL", "sel"),
        (
            [*at(SYSTEM, "HostLogger", "EventLog"), *at(MANAGER, "Journal")],
            f"{SYSTEM}/LogServices/EventLog",
            "platform",
        ),
        ([*at(MANAGER, "EventLog"), TYPED], TYPED.uri, "sel"),
        (at(MANAGER, "AuditLog", "Log"), f"{MANAGER}/LogServices/Log", "platform"),
    ],
    ids=["idrac", "ami", "supermicro", "ilo", "xcc", "gb200", "openbmc", "by_type", "dmtf"],
)
def test_which_of_a_makers_logs_is_read(fake: Make, logs: list[OneLog], chosen: str, kind: str) -> None:
    rig = fake("plain")
    rig.bmc.logs = Logs(*logs)
    found = asked(rig)
    assert (found["log"]["uri"], found["log"]["kind"]) == (chosen, kind)
    assert set(found["log"]["others"]) == {one.uri for one in logs} - {chosen}
    assert found["unread"] == [] and rig.writes() == 0


@pytest.mark.parametrize("name", ["Journal", "Dump", "PostCodes", "HostLogger", "BIOS", "FaultList", "FDR"])
def test_a_journal_is_no_event_log_whatever_it_says(fake: Make, name: str) -> None:
    rig = with_log(fake, events(3), f"{MANAGER}/LogServices/{name}", LogEntryType="SEL")
    with pytest.raises(Unsupported, match="no system event log") as caught:
        asked(rig)
    assert name in caught.value.seen and "ipmi" in caught.value.do
    assert not pages(rig)


@pytest.mark.parametrize("logs", [[], at(SYSTEM, "SL", "Event")], ids=["none", "others"])
def test_no_log_is_no_empty_log(fake: Make, logs: list[OneLog]) -> None:
    rig = fake("plain")
    rig.bmc.logs = Logs(*logs)
    with pytest.raises(Unsupported):
        asked(rig)


def test_a_log_that_does_not_answer_is_told_and_hides_no_other(fake: Make) -> None:
    rig = fake("plain")
    rig.bmc.logs = Logs(*at(MANAGER, "SEL"), OneLog(f"{SYSTEM}/LogServices/IML", events(2)))
    rig.bmc.faults["raw"] = {SEL: b"<html>log in</html>"}
    found = asked(rig)
    assert found["log"]["id"] == "IML" and ids(found) == [2, 1]
    assert [line.partition(": ")[0] for line in found["unread"]] == [SEL]


@pytest.mark.parametrize("what", ["log", "entries"])
def test_a_neighbours_log_is_not_taken_for_ours(fake: Make, what: str) -> None:
    other = "/redfish/v1/Systems/2/LogServices/SEL"
    rig = fake("plain")
    if what == "log":
        rig.bmc.logs = Logs(OneLog(f"{SYSTEM}/LogServices/IML", events(1)), OneLog(other, events(5)))
        listed = {"Members": [{"@odata.id": other}, {"@odata.id": f"{SYSTEM}/LogServices/IML"}]}
        rig.bmc.faults["raw"] = {f"{SYSTEM}/LogServices": json.dumps(listed).encode()}
    else:
        rig.bmc.logs = Logs(
            *at(SYSTEM, "SEL"), OneLog(f"{SYSTEM}/LogServices/IML", events(1)), OneLog(other, events(5))
        )
        doc = {"Id": "SEL", "Entries": {"@odata.id": f"{other}/Entries"}}
        rig.bmc.faults["raw"] = {f"{SYSTEM}/LogServices/SEL": json.dumps(doc).encode()}
    found = asked(rig)
    assert found["log"]["id"] == "IML" and "no part of the machine" in found["unread"][0]
    assert other not in found["log"]["others"]


@pytest.mark.parametrize(
    ("served", "shared"),
    [(["1"], False), (["1", "2"], True), (["1", "HGX_Baseboard_0"], False), ([], None), (["7"], None)],
)
def test_whether_other_machines_events_may_stand_in_it(fake: Make, served: list[str], shared: Any) -> None:
    rig = with_log(fake, events(1))
    systems = [{"@odata.id": f"/redfish/v1/Systems/{name}"} for name in served]
    rig.bmc.logs.manager_fields["Links"] = {"ManagerForServers": systems}
    assert asked(rig)["log"]["shared"] is shared


def test_a_manager_that_names_its_machine_need_not_be_named_by_it(fake: Make) -> None:
    rig = with_log(fake, events(1))
    rig.bmc.logs.names_manager = False
    with pytest.raises(Unsupported):
        asked(rig)
    rig.bmc.logs.manager_fields["Links"] = {"ManagerForServers": [{"@odata.id": SYSTEM}]}
    assert ids(asked(rig)) == [1]


def test_a_log_that_two_places_list_is_read_once(fake: Make) -> None:
    """XCC's manager leads to the logs of the system."""
    rig = with_log(fake, events(1), f"{SYSTEM}/LogServices/SEL")
    rig.bmc.logs.manager_fields["LogServices"] = {"@odata.id": f"{SYSTEM}/LogServices"}
    found = asked(rig)
    assert found["log"]["others"] == [] and found["unread"] == []


# -- the newest of it --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", [0, 50])
@pytest.mark.parametrize("order", ["rising", "falling", "letters"])
@pytest.mark.parametrize("next_as", ["Members@odata.nextLink", "@odata.nextLink"])
def test_the_newest_come_first_in_whatever_order_a_bmc_lists_them(
    fake: Make, page: int, order: str, next_as: str
) -> None:
    rig = with_log(fake, events(330), page=page, order=order, next_as=next_as)
    found = asked(rig, most=40)
    assert ids(found) == list(range(330, 290, -1))
    assert (found["total"], found["unread"]) == (330, [])
    # Of what falls the first page is enough; what rises, or nobody knows, is read to its end.
    assert len(pages(rig)) == (1 if not page or order == "falling" else 7)


@pytest.mark.parametrize("order", ["rising", "falling"])
def test_where_a_bmc_says_so_pages_are_asked_for_by_number(fake: Make, order: str) -> None:
    rig = with_log(fake, events(5000), top_skip=True, order=order)
    rig.bmc.logs.root["ProtocolFeaturesSupported"] = {"TopSkipQuery": True}
    found = asked(rig, most=300)
    assert ids(found) == list(range(5000, 4700, -1))
    assert found["unread"] == [] and len(pages(rig)) <= 3
    assert pages(rig)[0] == "Entries?$top=200"


@pytest.mark.parametrize("says", [None, False, "true", 1])
def test_where_a_bmc_does_not_say_so_nothing_is_asked_for_by_number(fake: Make, says: Any) -> None:
    rig = with_log(fake, events(10))
    rig.bmc.logs.root["ProtocolFeaturesSupported"] = {"TopSkipQuery": says}
    assert len(asked(rig)["entries"]) == 10 and pages(rig) == ["Entries"]


def test_a_bmc_that_says_so_and_does_not_obey_is_not_believed(fake: Make) -> None:
    rig = with_log(fake, events(900), page=300)
    rig.bmc.logs.root["ProtocolFeaturesSupported"] = {"TopSkipQuery": True}
    answer = json.dumps(log_of(rig).collection("")).encode()
    size = log_pages.PAGE
    rig.bmc.faults["raw"] = {f"{SEL}/Entries?$top={size}": answer, f"{SEL}/Entries?$skip=700&$top={size}": answer}
    found = asked(rig)
    assert "300 of 900 entries came" in found["unread"][0] and len(pages(rig)) == 2


def test_a_bmc_that_gives_less_at_once_than_is_asked_for_is_asked_on(fake: Make) -> None:
    rig = with_log(fake, events(5000), top_skip=True, page=30)
    rig.bmc.logs.root["ProtocolFeaturesSupported"] = {"TopSkipQuery": True}
    found = asked(rig, most=100)
    assert ids(found) == list(range(5000, 4900, -1)) and found["unread"] == []
    assert len(pages(rig)) == 5


@pytest.mark.parametrize("order", ["rising", "falling", "letters"])
@pytest.mark.parametrize("page", [0, 4])
def test_entries_that_are_links_are_read_from_the_newest_on(fake: Make, order: str, page: int) -> None:
    rig = with_log(fake, events(30), linked=True, order=order, page=page)
    found = asked(rig, most=5)
    assert ids(found) == [30, 29, 28, 27, 26] and found["unread"] == []
    read = [one for one in pages(rig) if not one.startswith("Entries")]
    assert len(read) <= 7, "the ends, and what is wanted"


@pytest.mark.parametrize("order", ["rising", "falling"])
def test_links_without_numbers_are_known_by_the_times_of_their_ends(fake: Make, order: str) -> None:
    named = [{**one, "Id": f"e{one['Id']}"} for one in events(12)]
    rig = with_log(fake, named, linked=True, order=order)
    assert [one["id"] for one in asked(rig, most=3)["entries"]] == ["e12", "e11", "e10"]


def test_since_leaves_out_what_is_older_and_nothing_that_may_be_newer(fake: Make) -> None:
    known = events(10)
    known[1]["Created"] = "1970-01-01T00:00:20+00:00"
    rig = with_log(fake, known)
    found = asked(rig, since=iso(BEGAN + 60 * 8))
    assert sorted(ids(found)) == [2, 8, 9, 10]
    assert {one["id"]: one["at"] for one in found["entries"]}["2"] is None


@pytest.mark.parametrize("linked", [False, True])
def test_since_ends_the_walk_where_a_log_falls(fake: Make, linked: bool) -> None:
    rig = with_log(fake, events(500), page=50, order="falling", linked=linked)
    found = asked(rig, since=str(BEGAN + 60 * 490))
    assert ids(found) == list(range(500, 489, -1)) and found["unread"] == []
    assert len(pages(rig)) == (10 + 11 + 2 if linked else 1)


@pytest.mark.parametrize(
    "since", ["yesterday", "2026-11-28T09:00:00", "-5", "2026-13-01T00:00:00Z", "9" * 13, "x" * 99]
)
def test_a_time_that_is_none_is_refused_before_anything_is_asked(fake: Make, since: str) -> None:
    rig = with_log(fake, events(1))
    with pytest.raises(ConfigError, match="since"):
        asked(rig, since=since)
    assert not rig.bmc.paths


@pytest.mark.parametrize("most", [0, -1, 5001])
def test_a_number_that_is_none_is_refused_before_anything_is_asked(fake: Make, most: int) -> None:
    rig = with_log(fake, events(1))
    with pytest.raises(ConfigError, match="most"):
        asked(rig, most=most)
    assert not rig.bmc.paths


def test_entries_without_a_time_stand_where_their_neighbours_do(fake: Make) -> None:
    """The machine came back with a clock that was not set yet: those are its newest, and no oldest."""
    known = events(20)
    for one in known[17:]:
        one["Created"] = "1970-01-01T00:00:20+00:00"
    for order in ("rising", "falling"):
        rig = with_log(fake, known, order=order)
        assert ids(asked(rig, most=4)) == [20, 19, 18, 17], order


def test_an_entry_that_comes_on_two_pages_is_one(fake: Make) -> None:
    rig = with_log(fake, events(20), page=10)
    one = log_of(rig)
    second = {"Members": one.entries[8:], "Members@odata.count": 20}
    rig.bmc.faults["raw"] = {f"{SEL}/Entries?$skip=10": json.dumps(second).encode()}
    found = asked(rig)
    assert ids(found) == list(range(20, 0, -1)) and found["total"] == 20
