# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Holds a pass that a node claims against the grid that its question demands. PRIVATE to the collection.

The controller keeps the question with the job that it started, and computes the cells itself. A node can still lie
about what is in a cell; it cannot leave one out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.grid import required
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.options import parse_version
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.tests import wanted_tests
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import wanted_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import PASS

#: Of a test's row in the profile, what the grid depends on.
_OF_A_TEST = ("name", "level", "scope", "since", "until")


def question(profile: Mapping[str, Any], level: int, tests: Sequence[str]) -> dict[str, Any]:
    """What was asked, as far as the grid depends on it."""
    gpu, rows = profile["gpu"], profile["dcgm"]["tests"]
    kept = [{"source": "", **{key: row[key] for key in _OF_A_TEST if key in row}} for row in rows]
    return {
        "level": int(level),
        "tests": [str(name) for name in tests],
        "profile": {
            "schema": profile["schema"],
            "sku": profile["sku"],
            "gpu": {
                "count": {"value": gpu["count"]["value"], "source": ""},
                "device_ids": {"value": list(gpu["device_ids"]["value"])},
            },
            "dcgm": {"tests": kept},
        },
    }


def asked(question: Mapping[str, Any]) -> dict[str, Any]:
    """The same as it is compared with other questions: the level (0 where tests were named), and each test by name."""
    names = list(question["tests"])
    tests = wanted_tests(wanted_of(question["profile"]), int(question["level"]), names, None)
    return {"level": 0 if names else int(question["level"]), "tests": sorted(test.name for test in tests)}


def lacking(verdict: Mapping[str, Any], asked: Mapping[str, Any]) -> str:
    """What a claimed pass lacks; empty where it lacks nothing. verdict: one whose shape was checked."""
    try:
        wanted = wanted_of(asked.get("profile"))
        version = parse_version(verdict["tool"]["version"])
        tests = wanted_tests(wanted, int(asked["level"]), list(asked["tests"]), version)
    except (ConfigError, KeyError, TypeError, ValueError) as exc:
        return f"what was asked of it is not known: {exc}"
    passed = {(row["id"], row["entity"]): row["measured"] for row in verdict["checks"] if row["verdict"] == PASS}
    devices = {entity[4:]: device for (id, entity), device in passed.items() if id == "device_id"}
    strangers = [str(device) for device in devices.values() if device not in wanted.device_ids]
    if len(devices) != wanted.gpu_count or strangers or not all(number.isdigit() for number in devices):
        other = f", with {', '.join(strangers[:3])}" if strangers else ""
        return f"it names {len(devices)} GPUs{other}, and the profile {wanted.sku} counts {wanted.gpu_count}"
    if not tests:
        return "it was asked for no test"
    if passed.get(("gpu_count", "node")) != wanted.gpu_count or passed.get(("exit_status", "node")) != 0:
        return "the number of GPUs or the end of the tool is not what it must be"
    # Where the version is not known every test is wanted, in one of the two forms.
    shapes = (3, 4) if version is None else (4 if version[0] >= 4 else 3,)
    gaps = []
    for shape in shapes:
        grid = required(wanted, tests, map(int, devices), shape)
        gaps.append([f"{row.id} of {row.entity}" for row in grid if (row.id, row.entity) not in passed])
    least = min(gaps, key=len)
    return f"required cells are not in it: {', '.join(least[:4])}" if least else ""
