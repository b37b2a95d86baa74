# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A look that is told late has not seen a hold lifted that was taken after it began, whoever reads it."""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.newest_hold import newest_holds, seen
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.report import status
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event

KEEP = {"hold_token": "gpufleet:r2+keep:hands inside"}


@pytest.mark.parametrize(("late", "name"), [(True, "taken"), (False, "released")])
def test_h2_a_keep_is_told_whatever_an_older_look_says(ledger: Ledger, late: bool, name: str) -> None:
    node = ledger.identify("n1", aliases=[("serial", "n1")])
    ledger.append("r1", [(node, Event("hold", "taken", {"hold_token": "gpufleet:r1:x"}))])
    before = ledger.moment().as_data()
    ledger.append("r2", [(node, Event("hold", "taken", KEEP)), (node, Event("state", "draining"))])
    told = before if late else ledger.moment().as_data()
    ledger.append("r1", [(node, Event("hold", "released", {"hold_token": "gpufleet:r1:x", **told}))])
    found = newest_holds(ledger, [node])[node]
    assert found["name"] == name and seen(found) == (found["id"] if late else told["after_event"])
    one = status(ledger, {"n1": node})["n1"]
    assert one["kept"] == ("hands inside" if late else "")
    assert ("maintenance=off" in one["next"]) == late


def test_one_that_was_lifted_by_a_run_is_lifted(ledger: Ledger) -> None:
    node = ledger.identify("n1", aliases=[("serial", "n1")])
    for name in ("taken", "released"):
        ledger.append("r1", [(node, Event("hold", name, KEEP))])
    assert newest_holds(ledger, [node])[node]["name"] == "released"
