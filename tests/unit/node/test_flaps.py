# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node that passes, serves and fails again, by a clock that is set: recycles of the last days count, whatever came of
them."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import connection
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.event import ledger_event
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.flaps import Limit
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.report import status
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Event

DAY = 86400.0


class Site:
    """One node, and a clock."""

    def __init__(self, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ledger, self.now = ledger, time.time()
        clock = SimpleNamespace(**{**vars(time), "time": lambda: self.now})
        monkeypatch.setattr(connection, "time", clock)
        self.node = ledger.identify("n1", aliases=[("serial", "GF0001")])

    def wrote(self, kind: str, name: str, **data: Any) -> None:
        self.ledger.append("r1", [(self.node, Event(kind, name, data))])

    def attempt(self, *, failed: bool = True, asked: bool = False) -> None:
        """As day 2 remembers it by its verb."""
        params = {
            "kind": "attempt",
            "name": "reimage",
            "reason": "xid 79",
            "data": {"failed": failed, "asked": asked},
            "known": {},
        }
        self.ledger.append("r1", [(self.node, event) for event in ledger_event(params, Context(node="n1")).events])
        self.ledger.record_attempt("r1", self.node, "reimage", "xid 79")

    def recycled(self, days: float = 1.0, **how: bool) -> None:
        """It fails, is imaged and serves again; then so many days pass."""
        self.wrote("verdict", "kernel_log_gate", verdict="fail", findings=[])
        self.attempt(**how)
        self.wrote("state", "imaging")
        self.wrote("state", "admitted")
        self.now += days * DAY

    def told(self, **limit: Any) -> dict[str, Any]:
        limits = {self.node: Limit(**limit)} if limit else {}
        return status(self.ledger, {"n1": self.node}, "r2", limits=limits)["n1"]

    def quarantined(self, remedy: str = "reset_gpu", **limit: Any) -> dict[str, Any]:
        self.wrote("state", "quarantined", reason="xid 79", remedy=remedy)
        return self.told(**limit)


@pytest.fixture
def site(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(ledger, monkeypatch)


def test_h2_what_comes_back_into_service_again_and_again_is_left_to_people(site: Site) -> None:
    for flaps in ("", "", "3 recycles within 30 days"):
        site.recycled()
        one = site.told()
        assert (one["flaps"], one["left"], one["attempts"]) == (flaps, "", 0), "it serves until it fails once more"
    one = site.quarantined()
    assert one["remedy"] == "field_diag" and one["left"].startswith("3 recycles within 30 days, and it failed again")
    assert one["next"].endswith("-e day2_recycle_all=true")


def test_h2_what_lies_before_the_window_counts_no_more(site: Site) -> None:
    for _times in range(3):
        site.recycled(days=9)
    assert site.told()["flaps"]
    site.now += 4 * DAY
    assert site.told()["flaps"] == "" and site.quarantined()["left"] == ""


def test_h2_a_site_says_how_often_and_within_how_many_days(site: Site) -> None:
    for _times in range(3):
        site.recycled(days=9)
    assert site.told(recycles=4)["flaps"] == "" == site.told(days=10)["flaps"]
    assert site.told(recycles=1, days=10)["flaps"] == "1 recycles within 10 days"
    assert site.quarantined(recycles=4, days=30)["left"] == ""


def test_h2_roll_outs_count_for_nothing(site: Site) -> None:
    for _times in range(5):
        site.recycled(failed=False)
    assert site.told()["flaps"] == ""


def test_h2_what_was_killed_before_its_image_is_no_recycle(site: Site) -> None:
    site.recycled()
    site.attempt()
    assert site.told(recycles=2)["flaps"] == "", "the second one was begun, and no more"
    site.recycled()
    assert site.told(recycles=3)["flaps"] == "" and site.told(recycles=2)["flaps"], "it was begun once more, and is one"
    site.wrote("state", "imaging")
    assert site.told(recycles=3)["flaps"] == "", "another image of the same recycle"


def test_h2_a_swap_of_one_nodes_part_leaves_the_count_of_another_as_it_is(site: Site) -> None:
    for _times in range(3):
        site.recycled()
    one, site.node = site.node, site.ledger.identify("n2", aliases=[("serial", "GF0002")])
    site.wrote("identity", "replaced", part="board")
    nodes = status(site.ledger, {"n1": one, "n2": site.node}, "r2")
    assert (nodes["n1"]["flaps"], nodes["n2"]["flaps"]) == ("3 recycles within 30 days", "")


@pytest.mark.parametrize("failed", [True, False, None])
def test_who_took_it_out_of_service_says_whether_it_failed(site: Site, failed: bool | None) -> None:
    said = {} if failed is None else {"failed": failed}
    for state in ("draining", "drained"):
        site.wrote("state", state, **said)
        assert site.told()["failing"] is (failed is True)
    site.wrote("state", "imaging", **said)
    assert site.told()["failing"] is False


@pytest.mark.parametrize("turn", ["replaced", "moved", "asked"])
def test_h2_the_count_begins_anew_with_a_swap_a_move_and_a_person(site: Site, turn: str) -> None:
    for _times in range(3):
        site.recycled()
    assert site.quarantined()["left"]
    if turn != "asked":
        site.wrote("identity", turn, part="board")
    site.recycled(asked=turn == "asked")
    site.recycled()
    assert site.told()["flaps"] == "" and site.quarantined()["left"] == ""


@pytest.mark.parametrize("remedy", ["rma", "fabric"])
def test_h2_a_remedy_that_asks_for_hands_stays_what_it_is(site: Site, remedy: str) -> None:
    for _times in range(3):
        site.recycled()
    one = site.quarantined(remedy)
    assert one["remedy"] == remedy and one["left"] == f"no run is the remedy {remedy}: apply it first"


def test_what_is_no_limit_is_refused() -> None:
    assert Limit.told(None, None) == Limit(3, 30.0) and Limit.told("5", "0.5") == Limit(5, 0.5)
    for wrong in (("many", 30), (0, 30), (3, 0), (3, "soon"), ([3], 30), (3, float("nan"))):
        with pytest.raises(ConfigError, match="cannot be read"):
            Limit.told(*wrong)
