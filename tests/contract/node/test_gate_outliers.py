# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gate_outliers through ansible-playbook: who only looks quarantines nobody, and as a gate it does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.tests.contract.node.test_fleet_status import CHECKOUT, Fleet
from ansible_collections.gpufleet.baremetal.tests.unit.outliers.measured_fleet import EVEN, add, even
from contract.docs.blocks import blocks

pytestmark = pytest.mark.slow

GATE, PAGE = "gpufleet.baremetal.gate_outliers", "docs/how-to/find-slow-nodes.md"


class Measured(Fleet):
    """gpu001 and so on, in service, of which gpu010 is slow; and one that nobody has measured."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        with Ledger(self.url) as ledger:
            self.ids = even(ledger, (*EVEN[:9], 50.0))
            for name in self.ids:
                add(ledger, name, Event("state", "admitted"))
        self.hosts = {name: {"gpufleet_serial": f"S-{name}"} for name in (*self.ids, "fresh")}

    def states(self) -> dict[str, tuple[str, str]]:
        with Ledger(self.url) as ledger:
            events = ledger.latest(list(self.ids.values()), "state")
        names = {node: name for name, node in self.ids.items()}
        return {names[node]: (event["name"], event["data"].get("remedy", "")) for node, event in events.items()}


def test_the_play_of_the_page_shows_the_outlier_and_leaves_it_in_service_and_status_tells_of_it(tmp_path: Path) -> None:
    fleet = Measured(tmp_path)
    (tmp_path / "outliers.yml").write_text(blocks(PAGE)[0].text, encoding="utf-8")
    told = fleet.book("outliers.yml")
    assert "Outliers: 11 nodes: 1 slower, 9 like their peers, 1 not to be judged" in told
    assert "-5.6% from the median" in " ".join(told.split()) and "remedy: retest" in told
    assert set(fleet.states().values()) == {("admitted", "")}
    (status,) = fleet.play({"gpufleet.baremetal.fleet_status": {}, "run_once": True})
    assert "-5.6% from the median" in status["nodes"]["gpu010"]["outlier"]
    assert any(
        "slower than its peers: GPU 0: 50 GB/s" in " ".join(line.split()) for line in [" ".join(status["lines"])]
    )


def quarantines(fleet: Measured, strategy: str, *tasks: dict[str, Any]) -> None:
    rescue = [{"ansible.builtin.import_role": {"name": "gpufleet.baremetal.quarantine"}}]
    book = [
        {"hosts": "all", "gather_facts": False, "strategy": strategy, "tasks": [{"block": [*tasks], "rescue": rescue}]}
    ]
    (fleet.folder / "gate.yml").write_text(yaml.safe_dump(book), encoding="utf-8")
    fleet.book("gate.yml")
    states = fleet.states()
    assert states.pop("gpu010") == ("quarantined", "retest"), states
    assert set(states.values()) == {("admitted", "")}


@pytest.mark.parametrize("strategy", ["linear", "free"])
def test_as_a_gate_it_quarantines_the_outlier_and_nobody_else(tmp_path: Path, strategy: str) -> None:
    quarantines(Measured(tmp_path), strategy, {GATE: None})


def test_named_as_the_page_says_the_role_runs_it(tmp_path: Path) -> None:
    options: dict[str, Any] = yaml.safe_load(blocks(PAGE)[4].text)["gate_more"]
    assert list(options)[-1] == GATE and options[GATE] is None
    quarantines(
        Measured(tmp_path),
        "linear",
        *(
            {"ansible.builtin.debug": {"msg": "as if it had passed"}, "register": name}
            for name in ("gate_kernel_log", "gate_dcgm")
        ),
        {
            "ansible.builtin.include_tasks": str(CHECKOUT / "roles" / "gate" / "tasks" / "more.yml"),
            "vars": {"gate_more": options},
            "loop": [GATE],
            "loop_control": {"loop_var": "gate_added"},
        },
    )
