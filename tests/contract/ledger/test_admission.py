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
