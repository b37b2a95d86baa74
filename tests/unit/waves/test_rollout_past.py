# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the events of a node show of an image: only what was admitted on it has come through."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.plugins.module_utils._waves.ended import (
    FAILED,
    THROUGH,
    UNTOUCHED,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._waves.rollout import (
    UNFINISHED,
    demand,
    image_of,
    remembered,
)

NEW = {"name": "gpu-golden", "version": "2"}
IMAGE = image_of(NEW)
WAVE = ("wave", "begun", {"image": IMAGE, "canary": True, "size": 1})
BACK = ("wave", "withdrawn", {"reason": "another run took their room"})
RESET = ("wave", "reset", {"images": [IMAGE]})
OTHER = ("wave", "reset", {"images": ["another 1"]})
STOPPED = ("note", "stopped", {"reason": "it does not answer"})
DRAINING, DRAINED, ADMITTED, QUARANTINED = (
    ("state", name, {}) for name in ("draining", "drained", "admitted", "quarantined")
)


def imaging(version: str) -> tuple[str, str, dict[str, Any]]:
    return "state", "imaging", {"image": "gpu-golden", "version": version}


#: Of each, the runs and what they wrote, the state that the ledger has in the end, and how it came out.
PASTS = {
    "admitted on it": ([("a", [WAVE, DRAINING, imaging("2"), ADMITTED])], "admitted", THROUGH),
    "whatever follows": (
        [("a", [WAVE, imaging("2"), ADMITTED]), ("b", [DRAINING, QUARANTINED])],
        "quarantined",
        THROUGH,
    ),
    "its deployment was resumed": ([("a", [imaging("2")]), ("b", [WAVE, ADMITTED])], "admitted", THROUGH),
    "drained too slowly, and readmitted": ([("a", [WAVE, DRAINING, STOPPED]), ("p", [ADMITTED])], "admitted", FAILED),
    "brought back on the image of before": (
        [("a", [WAVE, imaging("2"), QUARANTINED]), ("p", [imaging("1"), ADMITTED])],
        "admitted",
        FAILED,
    ),
    "brought back on it": (
        [("a", [WAVE, imaging("2"), QUARANTINED]), ("p", [imaging("2"), ADMITTED])],
        "admitted",
        THROUGH,
    ),
    "failed, and a later wave was killed": (
        [("a", [WAVE, imaging("2"), QUARANTINED]), ("k", [WAVE, DRAINING])],
        "draining",
        FAILED,
    ),
    "failed, and a later wave was given back": (
        [("a", [WAVE, imaging("2"), QUARANTINED]), ("k", [WAVE, BACK])],
        "quarantined",
        FAILED,
    ),
    "failed, and a person said that it was mended": (
        [("a", [WAVE, imaging("2"), QUARANTINED]), ("p", [RESET])],
        "quarantined",
        None,
    ),
    "failed, and a person spoke of another image": (
        [("a", [WAVE, imaging("2"), QUARANTINED]), ("p", [OTHER])],
        "quarantined",
        FAILED,
    ),
    "killed half-way": ([("a", [WAVE, DRAINING])], "draining", UNFINISHED),
    "killed half-way, and others stopped": ([("a", [WAVE, DRAINING]), ("b", [STOPPED])], "draining", UNFINISHED),
    "left as it was": ([("a", [WAVE, STOPPED])], "admitted", UNTOUCHED),
    "given back": ([("a", [WAVE, BACK])], "admitted", None),
    "renewed meanwhile": ([("a", [WAVE]), ("p", [DRAINING, DRAINED, ADMITTED])], "admitted", UNTOUCHED),
    "of another image": ([("a", [("wave", "begun", {"image": "another 1"}), QUARANTINED])], "quarantined", None),
}


def past(folder: Path, runs: Iterable[tuple[str, list[tuple[str, str, dict[str, Any]]]]]) -> Any:
    with Ledger(f"sqlite:///{folder}/ledger.sqlite") as ledger:
        node = ledger.identify("gpu001", aliases=[("serial", "SN0001")])
        ledger.append(
            "before", [(node, Event("state", "imaging", imaging("1")[2])), (node, Event("state", "admitted"))]
        )
        for run, events in runs:
            ledger.append(run, [(node, Event(*event)) for event in events])
        return remembered(ledger, [node], IMAGE).get(node)


@pytest.mark.parametrize("name", PASTS)
def test_what_an_image_has_shown_on_a_node(tmp_path: Path, name: str) -> None:
    runs, state, wanted = PASTS[name]
    found = past(tmp_path, runs)
    assert (found.came_out(state) if found else None) == wanted


def test_the_border_between_name_and_version_is_none_of_their_blanks() -> None:
    assert image_of({"name": "gpu golden", "version": "1"}) != image_of({"name": "gpu", "version": "golden 1"})
    assert image_of({"name": "gpu-golden", "version": "2026.11.2"}) == "gpu-golden 2026.11.2"
    assert image_of({"name": "gpu-golden"}) == image_of("gpu-golden") == ""


def test_what_was_built_anew_under_the_same_version_is_another_image() -> None:
    first, second = (image_of({**NEW, "sha256": digit * 64}) for digit in "ab")
    assert len({first, second, IMAGE}) == 3


def test_a_roll_out_over_two_images_is_refused_and_names_the_hosts_of_each() -> None:
    demand({"gpu001": IMAGE, "gpu002": IMAGE})
    with pytest.raises(ConfigError) as refused:
        demand({"gpu001": IMAGE, "gpu002": IMAGE, "b200-1": "b200 1"})
    assert refused.value.seen == "b200 1 (b200-1); gpu-golden 2 (gpu[001-002])"
