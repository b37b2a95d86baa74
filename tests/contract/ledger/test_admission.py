# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A look at a node takes no lease: its failure may be written while another task admits that node."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible import constants as C
from ansible_collections.gpufleet.baremetal.plugins.action import ledger_event as action
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.event import SPEC, FailureStands, ledger_event
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust import policy as policies
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.grounds import standing
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Event, Result
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._admission import lacks, renewable
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._history import evidence
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._soaking import begun_last
from ansible_collections.gpufleet.baremetal.tests.unit.plugins.doors import Door

GATE = "kernel_log_gate"


class Look:
    """Another run's look at the node: it has begun to write its verdict when a task has read what stands."""

    def __init__(self, url: str, verdict: str) -> None:
        self._url = url
        self._verdict = verdict
        self._written = threading.Event()
        self._writer = threading.Thread(target=self._write, daemon=True)

    def begin(self) -> None:
        self._writer.start()
        assert self._written.wait(30)

    def end(self) -> None:
        if self._writer.is_alive():
            self._writer.join(30)

    def _write(self) -> None:
        with Ledger(self._url) as ledger:
            node = identified(ledger)
            said = {"verdict": self._verdict, "asked": {"window": "imaging"}, **ledger.moment().as_data()}
            with ledger.transaction() as conn:
                ledger.append_in(conn, "look", [(node, Event("verdict", GATE, said))])
                self._written.set()
                time.sleep(0.7)  # as a writer that is slow to commit


def identified(ledger: Ledger) -> str:
    return ledger.identify("gpu001", aliases=[("serial", "GF0001")])


@pytest.fixture
def validated(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ledger]:
    """The ledger of a node that nothing keeps from being admitted."""
    monkeypatch.setattr(C, "DEFAULT_LOCAL_TMP", str(tmp_path))
    payload = base64.b64encode(json.dumps({"predicate": {}}).encode()).decode()
    with Ledger(url) as ledger:
        node = identified(ledger)
        entered = [(node, Event("state", state)) for state in ("enrolled", "imaging", "validating")]
        ledger.append("before", entered)
        envelope = {"payload": payload, "payloadType": "application/vnd.in-toto+json", "signatures": []}
        now = ledger.now()
        ledger.save_passport("before", node, issued=now, expires=now + 9e6, digest="sha256:x", envelope=envelope)
        yield ledger


def admitted(url: str, folder: Path, look: Look, **more: Any) -> dict[str, Any]:
    """What a task says that admits the node while somebody looks at it."""

    def judged(params: Any, ctx: Context) -> Result:
        look.begin()
        return ledger_event(params, ctx)

    args = {"state": "admitted", **more}
    door = Door(
        folder,
        judged,
        base=action.ActionModule,
        name="ledger_event",
        own_spec=SPEC,
        args=args,
        gpufleet_ledger_url=url,
    )
    told = door.run()
    look.end()
    return told


def left_standing(ledger: Ledger) -> list[str]:
    found = evidence(ledger, identified(ledger))
    return [event["name"] for event in standing(found, policies.of_passport(found["stored"]))]


def test_x1_a_failure_that_comes_in_while_its_node_is_admitted_keeps_it_out(
    url: str, validated: Ledger, tmp_path: Path
) -> None:
    told = admitted(url, tmp_path, Look(url, "fail"))
    assert told.get("failed") and "recorded while the node was being admitted" in told["msg"], told
    assert GATE in told["msg"] and told["error"]["kind"] == FailureStands.kind
    node = identified(validated)
    assert validated.latest([node], "state")[node]["name"] == "validating"
    validated.append("later", [(node, Event("state", "imaging"))])
    assert left_standing(validated) == [GATE]


def test_l6_a_failure_that_stands_is_told_apart_from_a_passport_that_is_missing(
    url: str, validated: Ledger, tmp_path: Path
) -> None:
    """The one is a verdict about the node, for which it is quarantined, and the other says nothing of it."""
    node, kinds = identified(validated), []
    validated.append("look", [(node, Event("verdict", GATE, {"verdict": "fail", **validated.moment().as_data()}))])
    kinds.append(admitted(url, tmp_path, Look(url, "pass"))["error"]["kind"])
    validated.append("later", [(node, Event("state", "imaging")), (node, Event("state", "validating"))])
    kinds.append(admitted(url, tmp_path, Look(url, "pass"))["error"]["kind"])
    assert kinds == ["failure_stands", "evidence_missing"]


def test_x1_nor_does_force_let_go_a_failure_that_nobody_saw(url: str, validated: Ledger, tmp_path: Path) -> None:
    assert admitted(url, tmp_path, Look(url, "fail"), force_reason="x").get("failed"), "nothing was there to force"
    forced = admitted(url, tmp_path, Look(url, "fail"), force_reason="x")
    assert forced.get("changed"), forced
    node = identified(validated)
    validated.append("later", [(node, Event("state", "imaging"))])
    assert left_standing(validated) == [GATE, GATE]


def test_x1_a_pass_that_comes_in_meanwhile_keeps_nobody_out(url: str, validated: Ledger, tmp_path: Path) -> None:
    told = admitted(url, tmp_path, Look(url, "pass"))
    assert told.get("changed") and told["event_id"], told
    node = identified(validated)
    newest = validated.latest([node], "state")[node]
    assert (newest["name"], newest["data"]["from"]) == ("admitted", "validating")


def test_x1_a_failure_since_the_last_look_keeps_a_node_from_being_resumed(validated: Ledger) -> None:
    """Once it is resumed jobs may begin before anybody asks for failures."""
    node = identified(validated)
    validated.append("join", [(node, Event("look", "last", {"passport": "sha256:x"}))])
    assert lacks(validated, node) == ""
    said = {"verdict": "fail", "asked": {"level": 3}, "remedy": "rma", **validated.moment().as_data()}
    validated.append("theirs", [(node, Event("verdict", "dcgm_gate", said))])
    assert "dcgm_gate" in lacks(validated, node) and "dcgm_gate" in lacks(validated, node, looked=False)
    validated.append("theirs", [(node, Event("verdict", "dcgm_gate", {**said, "verdict": "pass"}))])
    assert lacks(validated, node) == ""


def test_x1_a_last_look_is_renewed_by_the_run_that_took_it(validated: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    node, now = identified(validated), validated.now()
    validated.append("join", [(node, Event("look", "last", {"passport": "sha256:x", "asked": {"nvidia_smi": "x"}}))])
    assert renewable(validated, node, "join") is None, "there is nothing to renew yet"
    monkeypatch.setattr(validated, "now", lambda: now + 700.0)
    assert renewable(validated, node, "join")
    assert renewable(validated, node, "another run") is None


SILENT = {"id": "unreachable", "text": "the node did not answer for 1800 s while its gate ran: no route to host"}
UNANSWERED = {"id": "crashed", "text": "the gate's module gave no verdict: no soak of this name was begun here"}
BUSY = {"id": "busy", "text": "another gate loads the GPUs"}
KILLED = {"id": "died", "text": "the gate's process ended without a verdict: it was killed, or could not write"}


def of_soak(name: str = "soak_gate", finding: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    return {"verdict": "inconclusive", "tool": {"name": name}, "findings": [finding] if finding else [], **more}


@pytest.mark.parametrize(
    ("said", "ends"),
    [
        (of_soak("soak"), True),
        (of_soak(finding=KILLED), True),
        (of_soak(finding={"id": "rebooted", "text": "the node was rebooted while its gate ran"}), True),
        (of_soak(finding={"id": "unwritten", "text": "its gate ended, and the node could not write"}), True),
        (of_soak(finding=SILENT), False),
        (of_soak(finding=UNANSWERED), False),
        (of_soak(finding=BUSY), False),
        (of_soak(finding={"id": "late", "text": "no verdict within 7200 s"}), False),
    ],
    ids=["its own", "killed", "rebooted", "unwritten", "silent", "unanswered", "busy", "late"],
)
def test_a_node_whose_soak_may_still_go_on_is_not_admitted(validated: Ledger, said: dict[str, Any], ends: bool) -> None:
    """Its jobs would run beside it, on a passport that is as good as ever."""
    node = identified(validated)

    def told(kind: str, name: str, data: dict[str, Any]) -> str:
        validated.append("soak", [(node, Event(kind, name, data))])
        return lacks(validated, node, looked=False)

    assert lacks(validated, node, looked=False) == ""
    assert "the end of its soak" in told("intent", "soak_gate", {})
    assert (told("verdict", "soak_gate", said) == "") == ends
    assert (told("verdict", "soak_gate", of_soak(finding=SILENT)) == "") == ends, "what has ended does not go on"
    assert "burn_in_stop" in told("intent", "soak_gate", {})
    assert "the end of its soak" not in told("state", "imaging", {}), "another system soaks nothing"
    assert "the end of its soak" not in told("intent", "soak_gate", {"options": {"stop": True}}), "it begins none"


def test_the_end_of_one_soak_is_not_that_of_another_one(validated: Ledger) -> None:
    """What was soaked before is told once more, and what was asked for in other words goes on."""
    node = identified(validated)

    def keeps(kind: str, job: str, **data: Any) -> bool:
        said = {"options": {"stop": data.pop("stop", False)}} if kind == "intent" else of_soak("soak")
        validated.append("soak", [(node, Event(kind, "soak_gate", {**said, "job": job, **data}))])
        return "the end of its soak" in lacks(validated, node, looked=False)

    assert keeps("intent", "soak-1") and not keeps("verdict", "soak-1")
    assert keeps("intent", "soak-2") and keeps("verdict", "soak-1")
    assert keeps("verdict", "soak-1", findings=[{"id": "rebooted", "text": "x"}], tool={"name": "soak_gate"})
    assert not keeps("verdict", "soak-2"), "its own word"
    assert keeps("intent", "soak-3") and keeps("intent", "soak-1", stop=True)
    assert not keeps("verdict", "soak-1"), "asked for since: the node tells no word while another one goes on"
    assert keeps("intent", "soak-4") and keeps("intent", "soak-5") and keeps("note", "soak-5", another_soak=True)
    assert begun_last(validated, node)["data"]["job"] == "soak-4", "the other one was not begun"  # type: ignore[index]
    assert keeps("verdict", "soak-1") and not keeps("verdict", "soak-4")


def test_that_no_soak_goes_on_there_ends_the_wait_for_its_end(validated: Ledger) -> None:
    node = identified(validated)
    validated.append("soak", [(node, Event("intent", "soak_gate", {"job": "soak-1"}))])
    assert "the end of its soak" in lacks(validated, node, looked=False)
    validated.append("stop", [(node, Event("note", "soak_gate", {"no_soak": True}))])
    assert lacks(validated, node, looked=False) == ""
