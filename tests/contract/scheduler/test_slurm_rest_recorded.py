# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a slurmrestd of 26.05.3 answered, read by the driver and held against what scontrol told beside it."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import AuthFailed, BadAnswer, Refused
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm import rest_answer
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm import rest_shapes as shapes
from recorded import demanded


def told() -> list[dict[str, Any]]:
    file = demanded("schedulers", "slurmrestd_*.jsonl") / "slurmrestd_26.05.3.jsonl"
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def judged(call: dict[str, Any]) -> dict[str, Any]:
    text = call["response"] if isinstance(call["response"], str) else json.dumps(call["response"])
    answer = SimpleNamespace(status_code=call["status"], text=text, headers={}, json=lambda: json.loads(text))
    return rest_answer.judged(answer, "http://127.0.0.1:1", call["method"], call["path"], of_slurm=True)


def test_all_versions_tell_the_same_node() -> None:
    calls = [call for call in told() if call["note"] == "version" and call["status"] == 200]
    records = [shapes.node(judged(call)["nodes"][0]) for call in calls]
    assert len(records) == 4 and len(set(records)) == 1
    assert records[0].name == "n1" and records[0].state.base == "IDLE" and records[0].booted


def test_a_hold_is_read_as_scontrol_shows_it() -> None:
    (call,) = [call for call in told() if call["note"] == "drained by us"]
    record = shapes.node(judged(call)["nodes"][0])
    assert (record.native, record.reason, record.set_by) == ("IDLE+DRAIN", "gpufleet:r1:reimage", "root")
    assert record.settled and record.since


def test_a_reservation_is_read() -> None:
    (call,) = [call for call in told() if call["method"] == "GET" and call["path"].endswith("/reservations/")]
    (row,) = judged(call)["reservations"]
    # It was over long ago, when this is read.
    assert shapes.reservations([row]) == {}
    row["end_time"]["number"] = 0
    assert [(name, held.name) for name, (held,) in shapes.reservations([row]).items()] == [("n3", "gf-r1-n3")]


@pytest.mark.parametrize(
    ("note", "kind"),
    [
        ("lie", BadAnswer),
        ("hostlist", BadAnswer),
        ("again", Refused),
        ("partial", Refused),
        ("unknown state", Refused),
        ("no headers", AuthFailed),
        ("bad token", AuthFailed),
        ("expired", AuthFailed),
        ("not allowed", AuthFailed),
    ],
)
def test_what_is_no_success_is_none(note: str, kind: type[Exception]) -> None:
    calls = [call for call in told() if call["note"] == note]
    assert calls
    for call in calls:
        with pytest.raises(kind):
            judged(call)
