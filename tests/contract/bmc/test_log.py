# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The system event log over Redfish: which of the logs it is, the newest of it, and what is missing."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.log import log
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish import link, log_links, log_pages
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    AuthFailed,
    BadAnswer,
    ConfigError,
    FleetError,
    Unsupported,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import keep_secret
from fake_bmc.logs import BEGAN, MANAGER, SYSTEM, Logs, OneLog, events, iso
from fake_bmc.redfish_server import PASSWORD

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


# -- one entry ---------------------------------------------------------------------------------------------------------


def told(fake: Make, **fields: Any) -> dict[str, Any]:
    (entry,) = asked(with_log(fake, events(1, **fields)))["entries"]
    return dict(entry)


def test_an_entry_as_it_is_told(fake: Make) -> None:
    found = told(fake, Severity="Critical", Message="Uncorrectable ECC", Created="2026-06-11T00:13:00.250-05:00")
    assert found == {
        "id": "1", "at": "2026-06-11T05:13:00Z", "severity": "critical", "message": "Uncorrectable ECC",
        "sensor": "Memory #12", "code": "6fa1ffff",
        "native": {"at": "2026-06-11T00:13:00.250-05:00", "severity": "Critical", "entry_code": "Assert",
                   "uri": f"{SEL}/Entries/1"},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "at"),
    [
        ({"Created": "1970-01-01T00:01:38Z"}, None),
        ({"Created": "9999-12-31T23:59:59+00:00"}, None),
        ({"Created": "0000-00-00T00:00:00Z"}, None),
        ({"Created": "Pre-Init"}, None),
        ({"Created": "2026-06-11T00:13:00"}, None),
        ({"Created": None}, None),
        ({"Created": 1780000000}, None),
        (
            {"EventTimestamp": "2021-02-16T18:14:21+00:00", "Created": "2022-03-09T20:02:22+00:00"},
            "2021-02-16T18:14:21Z",
        ),
        ({"EventTimestamp": "0000-00-00T00:00:00Z", "Created": "2022-03-09T20:02:22Z"}, "2022-03-09T20:02:22Z"),
        ({"Created": "2016-12-31T23:59:60Z"}, "2016-12-31T23:59:59Z"),
    ],
)
def test_a_time_that_no_clock_showed_is_none_and_is_told_as_it_was_said(fake: Make, fields: Any, at: Any) -> None:
    found = told(fake, **fields)
    said = found["native"]["at"]
    assert found["at"] == at
    assert said in ("", *fields.values()) and (said or not isinstance(fields["Created"], str))


@pytest.mark.parametrize(
    ("said", "severity"),
    [
        ("OK", "ok"),
        ("warning", "warning"),
        ("Critical", "critical"),
        (None, "unknown"),
        ("Fatal", "unknown"),
        (3, "unknown"),
    ],
)
def test_how_bad_it_is_in_one_vocabulary(fake: Make, said: Any, severity: str) -> None:
    assert told(fake, Severity=said)["severity"] == severity


def test_words_that_older_bmcs_tell_as_lists(fake: Make) -> None:
    found = told(fake, SensorType=[{"Member": "Battery"}], EntryCode=[{"Member": "Deassert"}], SensorNumber=104)
    assert (found["sensor"], found["native"]["entry_code"]) == ("Battery #104", "Deassert")


def test_an_event_without_words_is_told_by_its_id(fake: Make) -> None:
    found = told(fake, Message=None, MessageId="iLOEvents.3.7.ServerReset", MessageArgs=["On", 3])
    assert found["message"] == "iLOEvents.3.7.ServerReset(On, 3)"


def test_what_an_event_is_about_where_it_names_no_sensor(fake: Make) -> None:
    where = {"OriginOfCondition": {"@odata.id": "/redfish/v1/Chassis/HGX_GPU_SXM_1"}}
    found = told(fake, SensorType=None, SensorNumber=None, Links=where, MessageId=None, OemLogEntryCode="DMTF0264")
    assert (found["sensor"], found["code"]) == ("/redfish/v1/Chassis/HGX_GPU_SXM_1", "DMTF0264")


def test_a_message_is_cut_and_no_secret_with_it(fake: Make) -> None:
    keep_secret(PASSWORD)
    for before in range(1000 - len(PASSWORD), 1000, 4):
        found = told(fake, Message=f"{'_' * before}{PASSWORD}{'_' * 5000}", SensorType=PASSWORD, MessageId=PASSWORD)
        assert len(found["message"]) <= 1000 and PASSWORD[:3] not in json.dumps(found)


# -- what is missing ---------------------------------------------------------------------------------------------------


def test_the_first_page_that_does_not_come_is_an_error_and_no_empty_log(fake: Make) -> None:
    rig = with_log(fake, events(3))
    for answer in (b"<html>log in</html>", b"{}", b'{"Members": null}', b"[]", b""):
        rig.bmc.faults["raw"] = {f"{SEL}/Entries": answer}
        with pytest.raises(BadAnswer) as caught:
            asked(rig)
        assert caught.value.address.endswith("/Entries")


def test_a_later_page_that_does_not_come_is_told(fake: Make) -> None:
    rig = with_log(fake, events(30), page=10)
    rig.bmc.faults["raw"] = {f"{SEL}/Entries?$skip=20": b"<html>"}
    found = asked(rig)
    assert ids(found) == list(range(20, 0, -1))
    assert len(found["unread"]) == 1 and "$skip=20" in found["unread"][0]


def test_entries_that_are_none_are_counted(fake: Make) -> None:
    rig = with_log(fake, events(3))
    page = {"Members": [None, *log_of(rig).entries, "x", 7], "Members@odata.count": 6}
    rig.bmc.faults["raw"] = {f"{SEL}/Entries": json.dumps(page).encode()}
    found = asked(rig)
    assert ids(found) == [3, 2, 1] and "3 of 6 entries cannot be read" in found["unread"][0]


def test_fewer_entries_than_there_are_is_told(fake: Make) -> None:
    found = asked(with_log(fake, events(5), counts=9))
    assert "5 of 9 entries came" in found["unread"][0] and found["total"] == 9


@pytest.mark.parametrize("counts", [2, -1, True, "5"])
def test_a_number_that_cannot_be_is_none(fake: Make, counts: Any) -> None:
    found = asked(with_log(fake, events(5), counts=counts))
    assert found["total"] is None and found["unread"] == []


@pytest.mark.parametrize("place", ["", "?$skip=10", "?$skip=20"])
def test_pages_in_a_circle_end(fake: Make, place: str) -> None:
    rig = with_log(fake, events(30), page=10)
    last = {"Members": log_of(rig).entries[20:], "Members@odata.nextLink": f"{SEL}/Entries{place}"}
    rig.bmc.faults["raw"] = {f"{SEL}/Entries?$skip=20": json.dumps(last).encode()}
    found = asked(rig)
    assert len(found["entries"]) == 30 and "circle" in found["unread"][0]


def test_a_page_that_brings_nothing_new_is_the_last(fake: Make) -> None:
    """Whatever it leads on to: each of its names would be a new one."""
    rig = with_log(fake, events(10), page=10)
    number = iter(range(10**6))

    def endless(status: int, headers: dict[str, str], data: bytes) -> Any:
        if "/Entries" not in rig.bmc.paths[-1]:
            return status, headers, data
        doc = {
            **json.loads(data),
            "Members": log_of(rig).entries,
            "Members@odata.nextLink": f"{SEL}/Entries?p={next(number)}",
        }
        return status, headers, json.dumps(doc).encode()

    rig.bmc.mangle = endless
    assert "circle" in asked(rig)["unread"][0] and len(pages(rig)) == 2


@pytest.mark.parametrize(("name", "value"), [("MOST_PAGES", 5), ("MOST_ENTRIES", 50), ("MOST_BYTES", 5000)])
@pytest.mark.parametrize("order", ["rising", "falling"])
def test_a_log_without_an_end_is_read_to_a_bound(
    fake: Make, monkeypatch: pytest.MonkeyPatch, name: str, value: int, order: str
) -> None:
    monkeypatch.setattr(log_pages, name, value)
    rig = with_log(fake, events(900), page=10, order=order)
    found = asked(rig)
    assert len(pages(rig)) <= 5 and found["total"] == 900
    missing = "the newest may be missing" if order == "rising" else "older ones are missing"
    assert missing in found["unread"][0] and "of 900 entries were seen" in found["unread"][0]


def test_a_journal_in_one_answer_is_not_kept(fake: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_pages, "MOST_ENTRIES", 100)
    found = asked(with_log(fake, events(300), order="falling"), most=20)
    assert ids(found) == list(range(300, 280, -1)) and "200 of 300 entries cannot be read" in found["unread"][0]


@pytest.mark.parametrize(
    "where", ["http://other.example/redfish", "/redfish/v1/Managers/1/LogServices/Journal/Entries", "//x"]
)
def test_a_next_page_that_lies_elsewhere_is_not_read(fake: Make, where: str) -> None:
    rig = with_log(fake, events(10), page=10)
    page = {"Members": log_of(rig).entries, "Members@odata.count": 10, "Members@odata.nextLink": where}
    rig.bmc.faults["raw"] = {f"{SEL}/Entries": json.dumps(page).encode()}
    found = asked(rig)
    assert len(found["entries"]) == 10 and "no part of it" in found["unread"][0]
    assert pages(rig) == ["Entries"]


def test_a_next_page_may_be_told_with_the_bmcs_own_address(fake: Make) -> None:
    rig = with_log(fake, events(20), page=10)
    page = {**log_of(rig).collection(""), "Members@odata.nextLink": f"{rig.bmc.url}{SEL}/Entries?$skip=10"}
    rig.bmc.faults["raw"] = {f"{SEL}/Entries": json.dumps(page).encode()}
    assert len(asked(rig)["entries"]) == 20


def test_links_that_do_not_answer_are_told_and_soon_given_up(fake: Make) -> None:
    rig = with_log(fake, events(50), linked=True)
    rig.bmc.faults["raw"] = {f"{SEL}/Entries/{number}": b"<html>" for number in (49, *range(40, 46))}
    found = asked(rig)
    assert ids(found) == [50, 48, 47, 46]
    assert [line.partition(":")[0].rpartition("/")[2] for line in found["unread"][:4]] == ["49", "45", "44", "43"]
    assert "no more were asked for" in found["unread"][4]


def test_links_are_read_to_a_bound(fake: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_links, "MOST_LINKED", 10)
    found = asked(with_log(fake, events(50), linked=True))
    assert len(found["entries"]) == 9, "and the oldest, which told the order"
    assert "after 10 requests" in found["unread"][0]


def test_a_slow_log_holds_a_task_no_longer_than_its_time(fake: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "READ_SECONDS", 2.0)
    rig = with_log(fake, events(900), page=10)

    def slow(status: int, headers: dict[str, str], data: bytes) -> Any:
        time.sleep(0.3 if "/Entries" in rig.bmc.paths[-1] else 0.0)
        return status, headers, data

    rig.bmc.mangle = slow
    began = time.monotonic()
    found = asked(rig, timeout=1.5)
    assert "the time of this task was over" in found["unread"][-1] and 10 <= len(found["entries"]) < 100
    assert time.monotonic() - began < 8


def test_a_login_that_is_refused_on_the_way_is_no_missing_page(fake: Make) -> None:
    rig = with_log(fake, events(30), page=10)
    rig.bmc.faults["forgets_login_at"] = f"{SEL}/Entries?$skip=10"
    with pytest.raises(AuthFailed):
        asked(rig)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"ServiceEnabled": False}, "disabled"),
        ({"OverWritePolicy": "NeverOverWrites", "MaxNumberOfRecords": 5}, "full"),
        ({"OverWritePolicy": "NeverOverWrites", "MaxNumberOfRecords": 6}, ""),
        ({"OverWritePolicy": "WrapsWhenFull", "MaxNumberOfRecords": 5}, ""),
    ],
)
def test_a_log_that_takes_no_new_entries_is_told(fake: Make, fields: dict[str, Any], words: str) -> None:
    unread = asked(with_log(fake, events(5), **fields))["unread"]
    assert (words in unread[0]) if words else unread == []


def test_any_number_of_things_that_cannot_be_read_is_told_in_so_many_lines(fake: Make) -> None:
    rig = with_log(fake, events(1))
    listed = {"Members": [{"@odata.id": f"/redfish/v1/x/{number}{'y' * 900}"} for number in range(500)]}
    listed["Members"].append({"@odata.id": SEL})
    rig.bmc.faults["raw"] = {f"{MANAGER}/LogServices": json.dumps(listed).encode()}
    unread = asked(rig)["unread"]
    assert len(unread) == 51 and unread[-1] == "and 450 more" and max(map(len, unread)) <= 400


# -- clocks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ahead", [-3600, 0, 7200])
@pytest.mark.parametrize("by_log", [True, False])
def test_by_how_much_the_bmcs_clock_is_wrong(fake: Make, ahead: int, by_log: bool) -> None:
    rig = with_log(fake, events(1))
    said = iso(time.time() + ahead)
    log_of(rig).fields["DateTime"] = said if by_log else None
    rig.bmc.logs.manager_fields["DateTime"] = iso(time.time() + 99999) if by_log else said
    found = asked(rig)
    assert found["bmc_time"] == found["bmc_time_said"] == said
    assert abs(found["bmc_ahead"] - ahead) < 10


@pytest.mark.parametrize("said", ["1970-01-01T00:01:38Z", "Pre-Init", "", None, 7])
def test_a_clock_that_was_never_set_is_none(fake: Make, said: Any) -> None:
    found = asked(with_log(fake, events(1), DateTime=said))
    assert found["bmc_time"] is None and found["bmc_ahead"] is None
    assert found["bmc_time_said"] == str(said or "")


# -- the machine -------------------------------------------------------------------------------------------------------


def test_whose_log_it_is_stands_beside_it(fake: Make) -> None:
    rig = with_log(fake, events(1))
    assert asked(rig, serial="SN0001")["machine"]["agrees"] == ["serial", "system_uuid"]
    assert asked(rig, serial="OTHER")["machine"]["contradicts"] == ["serial"]


@pytest.mark.parametrize(
    "answer", [b"null", b'{"@odata.id": 7, "LogServices": 3, "Links": []}', b"\xff\xfe", b"[" * 100000]
)
@pytest.mark.parametrize("where", [MANAGER, f"{MANAGER}/LogServices", SEL, f"{SEL}/Entries"])
def test_garbage_is_an_error_of_ours(fake: Make, where: str, answer: bytes) -> None:
    rig = with_log(fake, events(3))
    rig.bmc.faults["raw"] = {where: answer}
    with pytest.raises(FleetError):
        asked(rig)
