# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is missing of a log over Redfish is told: pages, entries, bounds, time."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.ipmi import sel
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish import link, log_links, log_pages
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import AuthFailed, BadAnswer, FleetError
from fake_bmc.logs import MANAGER, events

from .test_log import SEL, asked, ids, log_of, pages, with_log
from .test_redfish import Make

CHECKOUT = Path(__file__).resolve().parents[3]


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
    assert "the newest may be missing: 20 of 30" in found["unread"][0]


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


@pytest.mark.parametrize("most", [9, 10])
def test_a_bound_that_was_not_needed_is_not_told(fake: Make, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(log_links, "MOST_LINKED", 10)
    assert bool(asked(with_log(fake, events(50), linked=True), most=most)["unread"]) is (most > 9)


def test_links_are_read_to_a_bound(fake: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_links, "MOST_LINKED", 10)
    found = asked(with_log(fake, events(50), linked=True))
    assert len(found["entries"]) == 9, "and the oldest, which told the order"
    assert "after 10 requests" in found["unread"][0]


def test_the_page_tells_these_bounds() -> None:
    page = " ".join((CHECKOUT / "docs" / "how-to" / "read-the-event-log.md").read_text(encoding="utf-8").split())
    for bound in (
        f"{log_pages.MOST_PAGES} pages",
        f"{log_pages.MOST_ENTRIES:,} entries",
        f"{log_pages.MOST_BYTES >> 20} MiB",
        f"{log_links.MOST_LINKED:,} entries that are links",
        f"{sel._MOST_RECORDS:,} records over IPMI",
    ):
        assert bound in page, bound


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


@pytest.mark.parametrize(
    "answer", [b"null", b'{"@odata.id": 7, "LogServices": 3, "Links": []}', b"\xff\xfe", b"[" * 100000]
)
@pytest.mark.parametrize("where", [MANAGER, f"{MANAGER}/LogServices", SEL, f"{SEL}/Entries"])
def test_garbage_is_an_error_of_ours(fake: Make, where: str, answer: bytes) -> None:
    rig = with_log(fake, events(3))
    rig.bmc.faults["raw"] = {where: answer}
    with pytest.raises(FleetError):
        asked(rig)
