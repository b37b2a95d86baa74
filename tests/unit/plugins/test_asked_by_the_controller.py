# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A gate's action keeps the question that it sent, and its own record: what a node says of either changes neither."""

from __future__ import annotations

import importlib
import json
import sqlite3
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.action import dcgm_gate, kernel_log_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import FLEET, spec
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import names, registry
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.claimed import question
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.gate import limit_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log.gate import CELLS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.passed import Own
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.specs import DETACHED, GATE
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust import policy as policies
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.grounds import standing
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event, Result
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import FAIL, PASS, seconds_of
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._detached import DetachedGate
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._gate import GateAction, reference
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._history import evidence
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made
from ansible_collections.gpufleet.baremetal.tests.unit.plugins.doors import Door

ACTIONS = "ansible_collections.gpufleet.baremetal.plugins.action"
PROFILE = made.profile()
#: Everything that a node could like to have been asked instead, or to have been asked for by somebody else.
LIES: dict[str, Any] = {
    "gate": "kernel_log_gate",
    "limit": 0.001,
    "profile": {"sku": "easy", "digest": "sha256:" + "0" * 64},
    "question": {**question(PROFILE, 1, []), "tests": ["software"]},
    "state_dir": "/home/user",
    "boot_id_path": "/home/user/boot_id",
    "looked_at": 4e9,
    "after_event": 10**6,
}


class Site:
    """A ledger, and a node whose module answers this."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"sqlite:///{folder}/ledger.sqlite"
        self.tell("state", "validating")

    def tell(self, kind: str, name: str, *, ago: float = 0, **data: Any) -> int:
        with Ledger(self.url) as ledger:
            node = ledger.identify("gpu001", aliases=[("serial", "GF0001")])
            number = ledger.append("other", [(node, Event(kind, name, data))])[0]
        if ago:
            with sqlite3.connect(self.folder / "ledger.sqlite") as past:
                past.execute("DROP TRIGGER events_update")
                past.execute("UPDATE events SET at = at - ? WHERE id = ?", (ago, number))
        return number

    def run(
        self, base: type[GateAction], answer: Mapping[str, Any], args: Mapping[str, Any], **host: Any
    ) -> dict[str, Any]:
        told = {"changed": False, **answer}
        args = {**args, "dmi_path": made.dmi(self.folder, "GF0001")}
        node = {"_execute_module": lambda _self, **_options: json.loads(json.dumps(told))}
        return Door(
            self.folder, lambda params, ctx: Result(), base=type("Node", (base,), node), name=base.NAME,
            own_spec=base.SPEC, args=args, **host,
        ).run()  # fmt: skip

    def diagnosed(self, **answer: Any) -> dict[str, Any]:
        """What the play registers of a job that the node started, or found again."""
        args = {"profile": PROFILE, "detached": True, "level": 3, "job": "j1", "force_reason": "a test"}
        return self.run(dcgm_gate.ActionModule, {"job": "j1", "events": [], **LIES, **answer}, args)

    def standing(self) -> list[str]:
        with Ledger(self.url) as ledger:
            node = ledger.identify("gpu001", aliases=[("serial", "GF0001")])
            events = standing(evidence(ledger, node), {"gates": policies.LEAST})
        return [event["name"] for event in events]

    def newest(self) -> dict[str, Any]:
        with Ledger(self.url) as ledger:
            node = ledger.identify("gpu001", aliases=[("serial", "GF0001")])
            data: dict[str, Any] = ledger.latest([node], "verdict")[node]["data"]
        return data


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_v1_of_a_started_job_the_play_keeps_what_was_sent(site: Site) -> None:
    """Of all this gate_wait judges the job's answer later, and by the moment a passport judges its age."""
    begun = time.time()
    found = site.diagnosed()
    assert not found.get("failed"), found
    ours = {
        "job": "j1",
        "gate": "dcgm_gate",
        "limit": limit_of({"level": 3}),
        "profile": reference(PROFILE),
        "question": question(PROFILE, 3, []),
        "state_dir": "/run/gpufleet",
        "boot_id_path": "/proc/sys/kernel/random/boot_id",
        "after_event": 1,
    }
    assert {key: found[key] for key in ours} == ours
    assert begun <= found["looked_at"] <= time.time()


def test_v8_a_job_that_was_found_again_is_as_old_as_its_announcement(site: Site) -> None:
    announced = site.tell("intent", "dcgm_gate")
    site.tell("note", "between")
    found = site.diagnosed(joined=True)
    assert not found.get("failed") and found["after_event"] == announced, found
    assert found["looked_at"] <= time.time()


def test_v8_a_job_that_was_found_again_may_be_the_first_that_was_announced(site: Site) -> None:
    """One that is still going on, or that has ended and waits to be collected, was announced long ago."""
    first = site.tell("intent", "dcgm_gate", ago=3000)
    site.tell("intent", "dcgm_gate")
    found = site.diagnosed(joined=True)
    assert not found.get("failed") and found["after_event"] == first, found
    assert found["looked_at"] <= time.time() - 2900


def judged(word: str, *cells: str) -> dict[str, Any]:
    return made.logged(word, *cells, profile=reference(PROFILE))


def log_gate(site: Site, *cells: str, **args: Any) -> dict[str, Any]:
    return site.run(kernel_log_gate.ActionModule, {**judged(PASS, *cells), "events": []}, {"profile": PROFILE, **args})


def test_v1_a_look_at_the_last_seconds_takes_no_failure_back(site: Site) -> None:
    whole = {"window": "imaging", "profile": reference(PROFILE)["digest"]}
    site.tell("state", "imaging")
    site.tell("verdict", "kernel_log_gate", **judged(FAIL, *CELLS), asked=whole)
    begun = time.time()
    found = log_gate(site, *CELLS, since="10")
    assert found["verdict"] == PASS and not found.get("failed"), found
    began = seconds_of(site.newest()["asked"]["window"])
    assert began is not None and begun - 12 <= began <= time.time() - 10
    assert site.standing() == ["kernel_log_gate"]
    assert log_gate(site, *CELLS)["verdict"] == PASS and site.newest()["asked"] == whole
    assert site.standing() == []


@pytest.mark.parametrize("gone", CELLS)
def test_v1_a_log_that_passes_without_one_of_its_cells_is_forged(site: Site, gone: str) -> None:
    found = log_gate(site, *(name for name in CELLS if name != gone))
    assert found["failed"] and found["verdict"] == "inconclusive"
    assert [one["id"] for one in found["findings"]] == ["forged"]
    assert f"required cells are not in it: {gone}" in found["msg"]
    assert site.newest()["verdict"] == "inconclusive"


def test_a_verdict_that_was_waited_for_is_the_one_in_the_ledger_or_none(site: Site) -> None:
    verdict = made.claimed(profile=reference(PROFILE))
    site.tell("verdict", "dcgm_gate", **verdict)
    for digest_of_it, word in ((verdict["evidence_digest"], "pass"), ("sha256:" + "0" * 64, "inconclusive")):
        known = {"verdict": "pass", "reason": "", "evidence_digest": digest_of_it}
        waited = {"waited": {"verdicts": {"gpu001": known}}}
        found = site.run(dcgm_gate.ActionModule, {}, {"profile": PROFILE, "collect": "waited"}, **waited)
        assert (found["verdict"], found.get("failed", False)) == (word, word != "pass"), found
        assert [one["id"] for one in found["findings"]] == ["no_job"] * (word != "pass")


class Burn(DetachedGate):
    """Another gate that goes on by itself: all that its author writes for that on the controller."""

    NAME = "burn_gate"
    SPEC = spec(FLEET, GATE, DETACHED, size={"type": "int", "default": 8})
    LOADS = True

    def job_limit(self, params: Mapping[str, Any]) -> float:
        return 60.0 * params["size"]

    def job_question(self, params: Mapping[str, Any]) -> dict[str, Any]:
        return {"size": params["size"]}

    def asked(self, params: Mapping[str, Any], verdict: Mapping[str, Any]) -> dict[str, Any]:
        return self.job_question(params)

    def lacking(self, params: Mapping[str, Any], verdict: Mapping[str, Any]) -> str:
        return "" if verdict["checks"] else "no cell"

    def own(self, params: Mapping[str, Any], verdict: Mapping[str, Any]) -> Own:
        return Own({}, ())


def burn(site: Site, answer: Mapping[str, Any], **args: Any) -> dict[str, Any]:
    told = {"events": [], **LIES, **answer}
    return site.run(Burn, told, {"profile": PROFILE, "detached": True, "force_reason": "a test", **args})


def test_a6_another_gate_that_goes_on_by_itself_keeps_what_was_sent(site: Site) -> None:
    found = burn(site, {"job": "j1"}, job="j1", size=4)
    ours = {"job": "j1", "gate": "burn_gate", "limit": 240.0, "question": {"size": 4}, "profile": reference(PROFILE)}
    assert not found.get("failed") and {key: found[key] for key in ours} == ours, found
    verdict = {**made.logged(PASS, "xid", profile=reference(PROFILE)), "gate": "burn_gate"}
    site.tell("verdict", "burn_gate", **verdict)
    known = {"verdict": "pass", "reason": "", "evidence_digest": verdict["evidence_digest"]}
    waited = {"waited": {"verdicts": {"gpu001": known}}}
    got = site.run(Burn, {}, {"profile": PROFILE, "collect": "waited"}, **waited)
    assert got["verdict"] == "pass" and not got.get("failed"), got


def test_a6_the_job_of_another_question_has_another_name(site: Site) -> None:
    def named(**args: Any) -> str:
        told: list[str] = []

        class Node(Burn):
            def _shipped(self, params: dict[str, Any]) -> dict[str, Any]:
                told.append(params["job"])
                return super()._shipped(params)

        site.run(Node, {"events": []}, {"profile": PROFILE, "detached": True, "force_reason": "a test", **args})
        return told[0]

    assert named(size=4) == named(size=4) != named(size=8)
    assert named(size=4).startswith("burn-")


@pytest.mark.parametrize(
    ("gone", "word"), [("job_limit", "for how long its job may run"), ("job_question", "what its job was asked")]
)
def test_a6_a_detached_gate_without_its_limit_or_question_has_no_action(gone: str, word: str) -> None:
    own = {key: value for key, value in vars(Burn).items() if key != gone and not key.startswith("__")}
    with pytest.raises(TypeError, match=f"burn_gate does not say {word}: {gone}"):
        type("ActionModule", (DetachedGate,), own)


def test_a6_who_waits_knows_each_gate_that_goes_on_by_itself() -> None:
    actions = {module: importlib.import_module(f"{ACTIONS}.{module}").ActionModule for module in names.DRIVERS.values()}
    detached = {module for module, action in actions.items() if issubclass(action, DetachedGate)}
    assert detached == {module for module, action in actions.items() if set(DETACHED) <= set(action.SPEC)}
    assert detached == set(names.DETACHED) == set(registry.LACKING) == set(registry.ASKED) == set(registry.OWN)
