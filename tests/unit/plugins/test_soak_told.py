# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a wait for soaks says of a node: a network that is away for a while must not have a whole batch imaged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.action.soak_gate import ActionModule
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.specs import SOAK_GATE
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._quarantine import quarantines
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import inconclusive
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._soaking import cut_off
from ansible_collections.gpufleet.baremetal.tests.unit.plugins.doors import Door


def told(folder: Path, id: str, **more: Any) -> dict[str, Any]:
    """What the role's last task says where a wait has written this down."""
    verdict = {**inconclusive("soak_gate", "a word", id=id), **more}
    known = {"verdict": verdict["verdict"], "evidence_digest": verdict["evidence_digest"], "reason": "a word"}
    shown = {"ended": {"verdicts": {"gpu001": known}}}
    with Ledger(f"sqlite:///{folder / 'ledger.sqlite'}") as ledger:
        node = ledger.identify("gpu001", aliases=[("serial", "GF0001")])
        ledger.append("wait", [(node, Event("verdict", "soak_gate", {**verdict, "job": "soak-1"}))])
    made: dict[str, Any] = {"base": ActionModule, "name": "soak_gate", "own_spec": SOAK_GATE, **shown}
    return Door(folder, ActionModule.verb, args={"collect": "ended"}, **made).run()


@pytest.mark.parametrize("id", ["unreachable", "late", "busy"])
def test_a_node_of_which_nothing_is_known_is_stopped_and_not_quarantined(tmp_path: Path, id: str) -> None:
    found = told(tmp_path, id)
    assert found["failed"] and found["findings"][0]["id"] == id and not quarantines(found)


@pytest.mark.parametrize("id", ["died", "rebooted", "unwritten", "unreadable"])
def test_a_soak_that_is_over_and_did_not_pass_quarantines(tmp_path: Path, id: str) -> None:
    found = told(tmp_path, id)
    assert found["failed"] and quarantines(found)


def test_the_word_of_the_soak_itself_does_so_whatever_was_found(tmp_path: Path) -> None:
    found = told(tmp_path, "late", tool={"name": "soak", "version": ""})
    assert found["failed"] and quarantines(found)


BEGUN, STOPPED = {"job": "soak-1"}, {"job": "soak-1", "options": {"stop": True}}
ITSELF = {"job": "soak-1", "tool": {"name": "soak"}, "findings": [{"id": "gap"}]}


def gone(id: str, job: str = "soak-1") -> dict[str, Any]:
    return {"job": job, "tool": {"name": "soak_gate"}, "findings": [{"id": id}]}


@pytest.mark.parametrize(
    ("told", "count"),
    [
        ([BEGUN, gone("rebooted"), BEGUN, gone("died")], 2),
        ([BEGUN, gone("rebooted"), gone("rebooted")], 1),
        ([BEGUN, gone("unreachable"), gone("rebooted")], 1),
        ([BEGUN, gone("rebooted"), BEGUN, ITSELF], 0),
        ([STOPPED, gone("died")], 0),
        ([BEGUN, gone("rebooted", "soak-2")], 0),
        ([BEGUN, gone("unreachable"), gone("unwritten")], 0),
    ],
    ids=["twice", "seen twice", "after it was away", "told itself", "only ended", "another one", "never"],
)
def test_how_often_a_soak_was_cut_off_by_the_ledger(tmp_path: Path, told: list[dict[str, Any]], count: int) -> None:
    with Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}") as ledger:
        node = ledger.identify("gpu001", aliases=[("serial", "GF0001")])
        for data in told:
            kind = "verdict" if "findings" in data else "intent"
            ledger.append("run", [(node, Event(kind, "soak_gate", data))])
        assert cut_off(ledger, node, "soak-1") == count
