# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A look may last for hours. What was imaged meanwhile is not what was looked at, whenever its verdict is told."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.action import gate_wait
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.specs import GATE_WAIT
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._moment import looked_at
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Event, Result
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._door import VerbAction
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._history import evidence
from ansible_collections.gpufleet.baremetal.tests.unit.plugins.doors import Door

#: A node's own word on when it was looked at is none.
PASS = {"verdict": "pass", "after_event": 10**6, "looked_at": 4e9}


class Looks(VerbAction):
    """A gate, and the node that it runs on: while it runs, something happens."""

    NODE_SIDE = True
    TELLS = {"verdict": ("looks_gate",)}
    meanwhile: Callable[[], object]

    def writes(self, params: Any) -> bool:
        return False

    def _execute_module(self, *_args: Any, **_options: Any) -> dict[str, Any]:
        type(self).meanwhile()
        event = {"kind": "verdict", "name": "looks_gate", "node": "", "data": dict(PASS)}
        return {"changed": False, "verdict": "pass", "events": [event]}


class Site:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"sqlite:///{folder}/ledger.sqlite"
        self.tell("note", "first")

    def tell(self, kind: str, name: str) -> int:
        with Ledger(self.url) as ledger:
            node = ledger.identify("gpu001", aliases=[("serial", "GF0001")])
            return ledger.append("other", [(node, Event(kind, name))])[0]

    def passes(self) -> list[str]:
        """What a passport may rest on."""
        with Ledger(self.url) as ledger:
            node = ledger.identify("gpu001", aliases=[("serial", "GF0001")])
            return [event["name"] for event in evidence(ledger, node)["verdicts"]]

    def looked(self) -> float:
        """When the node was looked at for its newest verdict."""
        with Ledger(self.url) as ledger:
            node = ledger.identify("gpu001", aliases=[("serial", "GF0001")])
            return looked_at(ledger.latest([node], "verdict")[node])

    def look(self, meanwhile: Callable[[], object] = lambda: None) -> dict[str, Any]:
        action = type("Looks", (Looks,), {"meanwhile": staticmethod(meanwhile)})
        return Door(self.folder, lambda params, ctx: Result(), base=action, name="looks_gate").run()

    def waited(self, began: object, at: object = 1.5) -> dict[str, Any]:
        """The verdict of a job that was started after the event ``began``, at this time of the ledger."""

        def told(params: Any, ctx: Context) -> Result:
            verdicts = {"gpu001": {"ok": True, "verdict": "pass"}}
            return Result(data={"verdicts": verdicts}, events=[Event("verdict", "looks_gate", dict(PASS), "gpu001")])

        host = {"gpufleet_serial": "GF0001", "started": {"job": "j1", "after_event": began, "looked_at": at}}
        hosts = {"hostvars": {"gpu001": host}, "ansible_play_hosts": ["gpu001"], "ansible_play_batch": ["gpu001"]}
        own = {"name": "gate_wait", "own_spec": GATE_WAIT, "args": {"after": ["started"]}}
        return Door(self.folder, told, base=gate_wait.ActionModule, **own, **host, **hosts).run()


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.mark.parametrize("begins", ["imaging", "wiping"])
def test_c3_a_pass_of_a_node_that_was_imaged_meanwhile_is_recorded_and_admits_nothing(site: Site, begins: str) -> None:
    site.tell("state", "imaging")
    assert not site.look().get("failed") and site.passes() == ["looks_gate"]
    found = site.look(lambda: site.tell("state", begins))
    assert not found.get("failed") and found["events"][0]["id"] and site.passes() == []
    site.look()
    assert site.passes() == ["looks_gate"]


def test_c3_a_pass_of_a_job_that_began_before_the_imaging_admits_nothing(site: Site) -> None:
    imaged = site.tell("state", "imaging")
    for began, counts in ((imaged - 1, False), (None, False), ("99", False), (imaged, True)):
        found = site.waited(began)
        assert not found.get("failed"), found
        assert site.passes() == (["looks_gate"] if counts else []), began


def test_v8_a_verdict_is_as_old_as_its_look_however_late_it_was_told(site: Site) -> None:
    begun, during = time.time(), []

    def meanwhile() -> None:
        during.append(time.time())
        time.sleep(0.1)

    site.look(meanwhile)
    assert begun <= site.looked() <= during[0]
    for at, counted in ((begun - 3600.0, begun - 3600.0), (None, 0.0), ("4e9", 0.0)):
        assert not site.waited(1, at).get("failed")
        assert site.looked() == counted, at
    site.waited(1, begun + 9e9)
    assert begun <= site.looked() <= time.time(), "no look began after its verdict"
