# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a GPU has joined the fabric of its NVSwitches, and how that is: one rule a cell. PRIVATE to the collection.

Runs on nodes: standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.document import Gpu, absent, bare
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.values import (
    Reading,
    all_of,
    told,
    unread,
    word_of,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import FAIL, INCONCLUSIVE, PASS


def fabric(gpu: Gpu, _wanted: object) -> Reading:
    """Whether the GPU has joined the fabric of its NVSwitches."""
    runs = {"in progress": (INCONCLUSIVE, "it is still joining the fabric", "retest")}
    runs["not started"] = (FAIL, "it has not begun to join the fabric: is the Fabric Manager running?", "fabric")
    runs["not supported"] = (INCONCLUSIVE, "it knows of no fabric", "remediate_config")
    state = word_of(gpu, "fabric_state", "the state of the fabric", ("completed",), runs)
    words = gpu.said("fabric_status")
    joined = Reading(PASS, "Success")
    if bare(words[0] if words else "").lower() != "success":
        joined = unread("whether it joined the fabric", words)
        if joined.remedy == "retest" and not joined.passing and state.verdict == PASS:
            joined = Reading(FAIL, joined.measured, f"it did not join the fabric: {joined.measured}", "fabric")
    return all_of([state, joined, *_health(gpu)])


_FAILS, _PASSES_AWAY = (FAIL, "fabric"), (INCONCLUSIVE, "retest")
#: What is told of its health: the value, what it is, the word of a healthy one, and by other words what they mean.
#: Source: the fabric's health of nvmlDeviceGetGpuFabricInfoV, NVML 570 to 595, in the words of nvidia-smi.
_HEALTH: tuple[tuple[str, str, tuple[str, ...], Mapping[str, tuple[str, tuple[str, str]]]], ...] = (
    (
        "fabric_health",
        "the health of the fabric",
        ("healthy",),
        {word: (f"the fabric is {word}", _FAILS) for word in ("unhealthy", "limited capacity")},
    ),
    (
        "fabric_bandwidth",
        "the bandwidth of the fabric",
        ("full",),
        {"degraded": ("its bandwidth in the fabric is degraded", _FAILS)},
    ),
    (
        "fabric_route",
        "whether a route of the fabric is unhealthy",
        ("false",),
        {"true": ("a route of the fabric is unhealthy", _FAILS)},
    ),
    (
        "fabric_recovering",
        "whether a route of the fabric recovers",
        ("false",),
        {"true": ("a route of the fabric recovers", _PASSES_AWAY)},
    ),
    (
        "fabric_timeout",
        "whether the fabric recovers from a timeout",
        ("false",),
        {"true": ("the fabric recovers from a timeout", _PASSES_AWAY)},
    ),
    (
        "fabric_config",
        "whether the fabric is configured wrongly",
        ("none", "false"),
        {"true": ("the fabric is configured wrongly", _FAILS)},
    ),
)


def _health(gpu: Gpu) -> list[Reading]:
    """Drivers since 570 tell it, and not on every machine."""
    found = []
    for field, name, good, bad in _HEALTH:
        if told(gpu, field):
            means = {word: (verdict, text, remedy) for word, (text, (verdict, remedy)) in bad.items()}
            found.append(word_of(gpu, field, name, good, means))
    return found


_NO_CLUSTER = "00000000-0000-0000-0000-000000000000"


def cluster(gpu: Gpu, _wanted: object) -> Reading:
    words = gpu.said("fabric_cluster")
    if not words or absent(words[0]):
        return unread("the cluster of the fabric", words)
    if bare(words[0]) == _NO_CLUSTER:
        return Reading(FAIL, words[0], "it belongs to no cluster of the fabric", "fabric")
    return Reading(PASS, bare(words[0]))
