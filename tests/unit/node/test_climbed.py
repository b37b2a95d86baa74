# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is due where a finding came back: recycles count, and not quarantines."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from unit.node.test_status import quarantined_again, told


def found_by(*found: tuple[str, str]) -> tuple[str, str, dict[str, Any]]:
    rows = [{"id": "xid:95", "entity": part, "remedy": remedy, "text": "words"} for part, remedy in found]
    return ("verdict", "kernel_log_gate", {"verdict": "fail", "findings": rows})


QUARANTINE = ("state", "quarantined", {"reason": "words", "remedy": "reset_gpu"})


def test_h2_what_is_found_again_without_a_recycle_did_not_come_back(ledger: Ledger) -> None:
    """burn_in measures a quarantined node again in the same boot."""
    quarantined_again(ledger, "reset_gpu", "xid:95", "GPU 3")
    for _times in range(3):
        one = told(ledger, ("state", "validating", {}), found_by(("GPU 3", "reset_gpu")), QUARANTINE)
        assert (one["remedy"], one["left"]) == ("reset_gpu", "")
    assert quarantined_again(ledger, "reset_gpu", "xid:95", "GPU 3")["remedy"] == "reboot", "now it did, once"


@pytest.mark.parametrize("recycled", [False, True])
def test_h2_a_quarantine_that_measured_nothing_takes_nothing_back(ledger: Ledger, recycled: bool) -> None:
    for _times in range(3):
        due = quarantined_again(ledger, "reset_gpu", "xid:95", "GPU 3")["remedy"]
    if recycled:
        ledger.record_attempt("r1", ledger.identify("n1", aliases=[("serial", "GF0001")]), "reimage", "xid:95")
    one = told(ledger, ("state", "quarantined", {"reason": "ssh does not answer", "remedy": "reimage"}))
    assert (due, one["remedy"]) == ("rma", "rma") and "xid:95 of GPU 3 came back after 2 recycles" in one["left"]


@pytest.mark.parametrize("turn", ["replaced", "moved"])
def test_h2_what_was_found_before_a_part_was_swapped_or_the_machine_moved_is_over(ledger: Ledger, turn: str) -> None:
    for _times in range(3):
        quarantined_again(ledger, "reset_gpu", "xid:95", "GPU 3")
    told(ledger, ("identity", turn, {"part": "board"}))
    assert quarantined_again(ledger, "reset_gpu", "xid:95", "GPU 3")["remedy"] == "reset_gpu"


def test_h2_of_several_that_came_back_the_most_often_counts_then_the_heaviest(ledger: Ledger) -> None:
    node = ledger.identify("n1", aliases=[("serial", "GF0001")])
    both = (("GPU 4", "power_cycle"), ("GPU 3", "reset_gpu"))
    for found, due in ((both, "reset_gpu"), (both, "power_cycle"), (both[1:], "rma"), (both, "rma")):
        ledger.record_attempt("r1", node, "reimage", "xid:95")
        assert told(ledger, found_by(*found), QUARANTINE)["remedy"] == due
    assert "xid:95 of GPU 3 came back after 3 recycles" in told(ledger)["left"]


def test_h2_what_is_due_of_itself_and_asks_for_more_is_not_lightened_by_what_came_back(ledger: Ledger) -> None:
    node = ledger.identify("n1", aliases=[("serial", "GF0001")])
    heavy = ("state", "quarantined", {"reason": "words", "remedy": "power_cycle"})
    for found, quarantine, due in (
        ((("GPU 3", "reset_gpu"),), QUARANTINE, "reset_gpu"),
        ((("GPU 3", "reset_gpu"), ("GPU 4", "power_cycle")), heavy, "power_cycle"),
    ):
        ledger.record_attempt("r1", node, "reimage", "xid:95")
        assert told(ledger, found_by(*found), quarantine)["remedy"] == due
