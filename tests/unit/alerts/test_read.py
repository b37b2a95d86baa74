# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What monitors send, in their own forms, and what no monitor sends."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import recorded
from ansible_collections.gpufleet.baremetal.plugins.module_utils._alerts import alertmanager, dcgm, nvsentinel, slurm
from ansible_collections.gpufleet.baremetal.plugins.module_utils._alerts.kinds import KINDS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._alerts.said import LOOK, RECYCLE
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer
from hypothesis import given, settings
from hypothesis import strategies as st
from suite import properties

# -- Alertmanager ------------------------------------------------------------------------------------------------------


def alert(status: str = "firing", **labels: str) -> dict[str, Any]:
    return {
        "status": status,
        "labels": {"alertname": "GpuXid", **labels},
        "annotations": {"summary": "Xid 79 on GPU 3"},
        "startsAt": "2026-11-29T00:00:00Z",
        "endsAt": "0001-01-01T00:00:00Z",
        "fingerprint": "5f3a",
    }


def message(*alerts: Any) -> dict[str, Any]:
    return {"version": "4", "status": "firing", "receiver": "gpufleet", "groupLabels": {}, "alerts": list(alerts)}


@pytest.mark.parametrize(
    ("labels", "do"),
    [
        ({"severity": "critical"}, RECYCLE),
        ({"severity": "warning"}, LOOK),
        ({"severity": "info"}, "none"),
        ({}, "none"),
        ({"severity": "critical", "gpufleet": "look"}, LOOK),
        ({"severity": "info", "gpufleet": "recycle"}, RECYCLE),
        ({"severity": "critical", "gpufleet": "none"}, "none"),
    ],
)
def test_a_rule_says_itself_what_is_to_be_done_or_its_severity_does(labels: dict[str, str], do: str) -> None:
    [said] = alertmanager.read(message(alert(**labels)))
    assert said.do == do and said.cause == "GpuXid" and said.reason == "Xid 79 on GPU 3"


@pytest.mark.parametrize(
    ("labels", "node"),
    [
        ({"Hostname": "gpu017", "instance": "10.0.0.1:9400"}, "gpu017"),
        ({"node": "gpu018", "Hostname": "gpu017"}, "gpu018"),
        ({"instance": "gpu017.example.com:9400"}, "gpu017.example.com"),
        ({"instance": "gpu017"}, "gpu017"),
        ({"instance": ""}, ""),
        ({}, ""),
    ],
)
def test_the_first_label_that_names_a_node_does(labels: dict[str, str], node: str) -> None:
    [said] = alertmanager.read(message(alert(**labels)))
    assert said.node == node


def test_a_site_says_which_label_it_is() -> None:
    [said] = alertmanager.read(message(alert(node="kube-17", machine="gpu017")), ["machine"])
    assert said.node == "gpu017"


def test_what_an_alert_is_labelled_with_tells_whose_it_is() -> None:
    [said] = alertmanager.read(message(alert(cluster="ulm")))
    assert said.labels == {"alertname": "GpuXid", "cluster": "ulm"}


def test_what_is_over_is_no_reason() -> None:
    assert alertmanager.read(message(alert("resolved", severity="critical"))) == []


# -- NVSentinel --------------------------------------------------------------------------------------------------------


def health(**event: Any) -> dict[str, Any]:
    told = {
        "version": 1,
        "agent": "syslog-health-monitor",
        "checkName": "SysLogsXIDError",
        "isFatal": True,
        "isHealthy": False,
        "message": "ROBUST_CHANNEL_GPU_HAS_FALLEN_OFF_THE_BUS",
        "recommendedAction": 24,
        "errorCode": ["79"],
        "entitiesImpacted": [{"entityType": "GPU", "entityValue": "3"}],
        "generatedTimestamp": "2026-11-29T00:00:00.123456789Z",
        "nodeName": "gpu017",
        **event,
    }
    return {
        "specversion": "1.0",
        "type": "com.nvidia.nvsentinel.health.v1",
        "source": "nvsentinel://a/healthevents",
        "id": "1",
        "time": told["generatedTimestamp"],
        "data": {"metadata": {"cluster": "a"}, "healthEvent": told},
    }


@pytest.mark.parametrize(
    ("event", "do"),
    [
        ({}, RECYCLE),
        ({"isFatal": False}, LOOK),
        ({"isFatal": False, "recommendedAction": 0}, "none"),
        ({"isFatal": False, "recommendedAction": 39}, "none"),
        ({"recommendedAction": 0}, RECYCLE),
        ({"isFatal": "yes"}, LOOK),
        ({"isFatal": False, "recommendedAction": []}, LOOK),
    ],
)
def test_what_is_fatal_by_nvsentinel_is_recycled_and_the_rest_is_looked_at(event: dict[str, Any], do: str) -> None:
    [said] = nvsentinel.read(health(**event))
    assert (said.node, said.do, said.cause) == ("gpu017", do, "SysLogsXIDError-79")
    assert said.at == 1795910400.0


def test_a_batch_of_them_is_several_and_one_that_is_healthy_again_is_none() -> None:
    told = nvsentinel.read([health(), health(nodeName="gpu018", errorCode=[]), health(isHealthy=True)])
    assert [(one.node, one.cause) for one in told] == [("gpu017", "SysLogsXIDError-79"), ("gpu018", "SysLogsXIDError")]


# -- DCGM --------------------------------------------------------------------------------------------------------------


def watched(overall: str, **systems: str) -> dict[str, Any]:
    errors = {name: {"value": overall, "overflow": [text]} for name, text in systems.items()}
    gpus = {"4": {"value": overall, "children": {"Errors": {"children": errors}}}}
    body = {"Overall Health": {"value": overall}, "GPU": {"children": gpus}}
    return {"node": "gpu017", "health": {"header": ["Health Monitor Report"], "body": body}}


@pytest.mark.parametrize(("overall", "do"), [("Failure", RECYCLE), ("Warning", LOOK)])
def test_its_watches_name_each_system_once(overall: str, do: str) -> None:
    [said] = dcgm.read(watched(overall, PCIe="replays", NVLINK="link 7 is down"))
    assert (said.node, said.do, said.cause) == ("gpu017", do, "health-NVLINK-PCIe")
    assert said.reason == "link 7 is down; replays"


def test_healthy_is_nothing_to_do() -> None:
    assert dcgm.read(watched("Healthy")) == []


def test_one_that_was_recorded() -> None:
    folder = recorded.demanded("gates", "dcgm-health")
    text = (folder / "dcgm-health" / "c_health_c_json_nvlink_failure_exit0.json").read_text(encoding="utf-8")
    [said] = dcgm.read({"node": "gpu017", "health": json.loads(text)})
    assert said.do == RECYCLE and said.cause == "health-NVLINK-system" and "link 7 is currently down" in said.reason


# -- Slurm -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("event", "do"), [("down", RECYCLE), ("fail", RECYCLE), ("drained", LOOK), ("up", LOOK)])
def test_a_trigger_names_its_nodes(event: str, do: str) -> None:
    told = slurm.read({"event": event, "nodes": ["gpu001", "gpu002"]})
    assert [(one.node, one.do, one.cause) for one in told] == [("gpu001", do, event), ("gpu002", do, event)]


# -- what nobody sends -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "document"),
    [
        ("alertmanager", []),
        ("alertmanager", {"alerts": None}),
        ("alertmanager", {"alerts": [7]}),
        ("alertmanager", {"alerts": [{"status": "firing", "labels": []}]}),
        ("alertmanager", {"alerts": [{}] * 1001}),
        ("nvsentinel", {"type": "com.example.order.v1", "data": {}}),
        ("nvsentinel", {"type": "com.nvidia.nvsentinel.health.v1", "data": {"healthEvent": None}}),
        ("dcgm", {"node": "gpu017", "health": "Error: no watches are set"}),
        ("dcgm", watched("Perhaps")),
        ("dcgm", {"node": "gpu017", "health": {"body": {}}}),
        ("slurm", {"event": "reboot", "nodes": ["gpu001"]}),
        ("slurm", {"event": "down", "nodes": "gpu[001-400]"}),
    ],
)
def test_what_no_monitor_sends_is_refused(kind: str, document: Any) -> None:
    with pytest.raises(BadAnswer, match="correct who sends it"):
        KINDS[kind](document)


@pytest.mark.parametrize("overflow", [5, None, "text", {"a": 1}, [5, None], True])
def test_a_system_without_words_is_named_all_the_same(overflow: Any) -> None:
    errors = {"children": {"Memory system": {"overflow": overflow}}}
    body = {"Overall Health": {"value": "Failure"}, "GPU": {"children": {"0": {"children": {"Errors": errors}}}}}
    [said] = dcgm.read({"node": "gpu017", "health": {"body": body}})
    assert (said.do, said.cause) == (RECYCLE, "health-Memory-system")


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
_PARTS = {
    "alertmanager": lambda part: message({"status": "firing", "labels": part}, {**alert(), "annotations": part}),
    "nvsentinel": lambda part: health(errorCode=part, nodeName=part, generatedTimestamp=part, recommendedAction=3),
    "dcgm": lambda part: {"node": part, "health": {"body": {"Overall Health": {"value": "Failure"}, "GPU": part}}},
    "slurm": lambda part: {"event": "down", "nodes": part},
}


@settings(max_examples=properties.at_most(100))
@given(kind=st.sampled_from(sorted(KINDS)), part=_JSON)
def test_whatever_comes_is_read_or_refused(kind: str, part: Any) -> None:
    build: Callable[[Any], Any] = _PARTS[kind]
    for document in (part, build(part)):
        try:
            told = KINDS[kind](document)
        except BadAnswer:
            continue
        for said in told:
            assert said.cause and len(said.cause) <= 80 and said.cause.isprintable()
            assert len(said.reason) <= 300 and said.reason.isprintable()
