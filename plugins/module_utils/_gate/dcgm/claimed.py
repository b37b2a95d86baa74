# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Holds a pass that a node claims against the grid that its question demands. PRIVATE to the collection.

The controller keeps the question with the job that it started, and computes the cells itself. A node can still lie
about what is in a cell; it cannot leave one out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.grid import required
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.health import CELL, HEALTHY
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.options import Version, parse_version
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.tests import WantedTest, wanted_tests
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.passed import Line, Own
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import Wanted, wanted_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import FAIL, NODE, PASS

#: What measures.
TOOLS = ("dcgmi",)
#: Of a test's row in the profile, what the grid depends on.
_OF_A_TEST = ("name", "level", "scope", "since", "until")
#: A GPU as a verdict names it; each number has one spelling.
_GPU = re.compile(r"GPU (0|[1-9][0-9]{0,3})")
#: The cells that passed, and what was measured in them.
Passed = Mapping[tuple[str, str], Any]


def question(profile: Mapping[str, Any], level: int, tests: Sequence[str], *, watched: bool = False) -> dict[str, Any]:
    """What was asked, as far as the grid depends on it. watched: DCGM's health watches as well."""
    gpu, rows = profile["gpu"], profile["dcgm"]["tests"]
    kept = [{"source": "", **{key: row[key] for key in _OF_A_TEST if key in row}} for row in rows]
    return {
        "level": int(level),
        "tests": [str(name) for name in tests],
        **({CELL: True} if watched else {}),
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


def question_of(params: Mapping[str, Any]) -> dict[str, Any]:
    """The same of the gate's own options."""
    watched = bool(params.get(CELL))
    return question(params["profile"], int(params["level"]), params["tests"] or [], watched=watched)


def asked(question: Mapping[str, Any], verdict: Mapping[str, Any]) -> dict[str, Any]:
    """The same as it is compared with other questions: the level (0 where tests were named), and each test by name.

    A pass has answered those tests alone whose cells it has, whatever version the node names: an older DCGM has not
    run what a newer one has. A failure is of all tests of its version and of each that it has a cell of; what was not
    measured, or names no version, is of every test.
    """
    names, wanted = list(question["tests"]), wanted_of(question["profile"])
    tests = wanted_tests(wanted, int(question["level"]), names, None)
    kept = {test.name for test in tests}
    if verdict["verdict"] == PASS:
        kept = _answered(wanted, tests, verdict)
    elif verdict["verdict"] == FAIL:
        of_it = wanted_tests(wanted, int(question["level"]), names, parse_version(verdict["tool"]["version"]))
        kept = {test.name for test in of_it} | {str(row["id"]).split(".")[1] for row in _diagnosed(verdict)}
    watched = _watched(question) and (verdict["verdict"] != PASS or (CELL, NODE) in _passed(verdict))
    return {
        "level": 0 if names else int(question["level"]),
        "tests": sorted([test.name for test in tests if test.name in kept] + [CELL] * watched),
    }


def _watched(question: Mapping[str, Any]) -> bool:
    return bool(question.get(CELL))


def _diagnosed(verdict: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The cells of tests."""
    return [row for row in verdict["checks"] if str(row["id"]).startswith("dcgm.")]


def _answered(wanted: Wanted, tests: Sequence[WantedTest], verdict: Mapping[str, Any]) -> set[str]:
    passed, shapes = _passed(verdict), _shapes(parse_version(verdict["tool"]["version"]))
    numbers = _numbers(entity for id, entity in passed if id == "device_id")
    return {test.name for test in tests if not _gap(wanted, [test], numbers, shapes, passed)}


def _passed(verdict: Mapping[str, Any]) -> Passed:
    return {(row["id"], row["entity"]): row["measured"] for row in verdict["checks"] if row["verdict"] == PASS}


def _numbers(entities: Iterable[str]) -> list[int]:
    """The numbers of those that are spelled as a GPU is."""
    return [int(match.group(1)) for match in map(_GPU.fullmatch, entities) if match]


def _shapes(version: Version | None) -> tuple[int, ...]:
    """Where the version is not known, a document may have one of the two forms."""
    return (3, 4) if version is None else (4 if version[0] >= 4 else 3,)


def _gap(
    wanted: Wanted, tests: Sequence[WantedTest], numbers: Sequence[int], shapes: Sequence[int], passed: Passed
) -> list[str]:
    """The cells that these tests demand and that did not pass, in the form that lacks the fewest."""
    gaps = []
    for shape in shapes:
        grid = required(wanted, tests, numbers, shape)
        gaps.append([f"{row.id} of {row.entity}" for row in grid if (row.id, row.entity) not in passed])
    return min(gaps, key=len)


def lacking(verdict: Mapping[str, Any], asked: Mapping[str, Any]) -> str:
    """What a claimed pass lacks; empty where it lacks nothing. verdict: one whose shape was checked."""
    try:
        wanted = wanted_of(asked.get("profile"))
        version = parse_version(verdict["tool"]["version"])
        tests = wanted_tests(wanted, int(asked["level"]), list(asked["tests"]), version)
    except (ConfigError, KeyError, TypeError, ValueError) as exc:
        return f"what was asked of it is not known: {exc}"
    passed = _passed(verdict)
    devices = {entity: device for (id, entity), device in passed.items() if id == "device_id"}
    strangers = [str(device) for device in devices.values() if device not in wanted.device_ids]
    numbers = _numbers(devices)
    if len(devices) != wanted.gpu_count or strangers or len(numbers) != len(devices):
        other = f", with {', '.join(strangers[:3])}" if strangers else ""
        return f"it names {len(numbers)} GPUs{other}, and the profile {wanted.sku} counts {wanted.gpu_count}"
    if not tests:
        return "it was asked for no test"
    if _watched(asked) and passed.get((CELL, NODE)) != HEALTHY:
        return "what DCGM's health watches say is not in it"
    if passed.get(("gpu_count", NODE)) != wanted.gpu_count or passed.get(("exit_status", NODE)) != 0:
        return "the number of GPUs or the end of the tool is not what it must be"
    # Where the version is not known every test is wanted.
    least = _gap(wanted, tests, numbers, _shapes(version), passed)
    return f"required cells are not in it: {', '.join(least[:4])}" if least else ""


def own(verdict: Mapping[str, Any], asked: Mapping[str, Any]) -> Own:
    """What a pass says that lacks nothing. A test that another version would have to run is in it where it was run."""
    wanted, version = wanted_of(asked["profile"]), parse_version(verdict["tool"]["version"])
    level, names = int(asked["level"]), list(asked["tests"])
    every, passed = wanted_tests(wanted, level, names, None), _passed(verdict)
    due = {test.name for test in wanted_tests(wanted, level, names, version)} | _answered(wanted, every, verdict)
    tests, numbers = [test for test in every if test.name in due], _numbers(e for id, e in passed if id == "device_id")
    shape = min(_shapes(version), key=lambda shape: len(_gap(wanted, tests, numbers, (shape,), passed)))
    return Own(
        {
            (row.id, row.entity): Line(
                row.wanted, row.source or "profile", known=None if row.id == "device_id" else row.wanted
            )
            for row in required(wanted, tests, numbers, shape, watched=_watched(asked))
        },
        TOOLS,
    )
