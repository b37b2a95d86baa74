# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node said of itself, judged again by the controller. PRIVATE to the collection.

The node's checks are a stranger's word: which of them there must be, what each must have measured and what that comes
to follows from what the controller sent, never from the answer. A node can make itself look worse than it is; to look
better it has to lie in every cell, with the values that the signed manifest asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.judgement import (
    FAIL,
    INCONCLUSIVE,
    PASS,
    REMEDIES,
    Judgement,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.node import BOOT_GRAIN, VERSIONS, fits, seconds

Cell = tuple[str, str]
_CHECK = {"id", "entity", "measured", "wanted", "unit", "source", "verdict"}
_FINDING = {"id", "entity", "text", "remedy"}
_WORDS = (PASS, FAIL, INCONCLUSIVE)


def required(expect: Mapping[str, Any], params: Mapping[str, Any]) -> dict[Cell, Callable[[Any], bool]]:
    """The cells of a whole answer, and whether what was measured there is what was asked for."""
    cells: dict[Cell, Callable[[Any], bool]] = {
        ("image", str(params["manifest_path"])): lambda seen: seen == expect["manifest_sha256"]
    }
    for name in VERSIONS:
        wanted = expect["manifest"].get(name)
        if wanted:
            cells[(name, "node")] = lambda seen, name=name, wanted=wanted: fits(name, seen, wanted)  # type: ignore[misc]
    before = params.get("not_boot_id")
    if before:
        cells[("boot_id", "node")] = lambda seen: isinstance(seen, str) and bool(seen) and seen != before
    after = seconds(str(params.get("booted_after") or 0))
    if after > 0:
        earliest = after - float(params["max_clock_skew"]) - BOOT_GRAIN
        cells[("booted", "node")] = lambda seen: _number(seen) and seen > earliest
    return cells


def take(whole: Judgement, node: Mapping[str, Any], cells: Mapping[Cell, Callable[[Any], bool]]) -> None:
    """Add the node's checks and findings to the verdict, and what is wrong with them."""
    checks, findings = node.get("checks"), node.get("findings")
    shaped = _rows(checks, _CHECK) and _rows(findings, _FINDING) and _sane(checks, findings)
    if not shaped or not _beside(node):
        forged(whole, "its answer has not the shape of a verdict", node.get("verdict"))
        return
    whole.checks += [dict(check) for check in checks]  # type: ignore[union-attr]
    whole.findings += [dict(finding) for finding in findings]  # type: ignore[union-attr]
    for (name, entity), right in cells.items():
        found = [one for one in checks if (one["id"], one["entity"]) == (name, entity)]  # type: ignore[union-attr]
        if len(found) != 1:
            forged(whole, f"it tells {len(found)} times of {name}, and must once", name)
        elif found[0]["verdict"] == PASS and not right(found[0]["measured"]):
            forged(whole, f"it passes {name}, which is not what was asked for", found[0]["measured"])
    if node.get("verdict") != PASS and whole.verdict == PASS:
        forged(whole, "it does not pass, and does not say why", node.get("verdict"))


def _rows(value: Any, keys: set[str]) -> bool:
    return isinstance(value, list) and all(isinstance(one, Mapping) and set(one) == keys for one in value)


def _sane(checks: Any, findings: Any) -> bool:
    texts = [*(check[key] for check in checks for key in ("id", "entity", "verdict"))]
    texts += [finding[key] for finding in findings for key in ("id", "entity", "text", "remedy")]
    words = all(isinstance(text, str) for text in texts) and all(check["verdict"] in _WORDS for check in checks)
    return words and all(finding["remedy"] in REMEDIES for finding in findings)


def _beside(node: Mapping[str, Any]) -> bool:
    """What is read of an answer beside its cells."""
    argv, identity = node.get("argv") or [], node.get("identity") or {}
    if not isinstance(argv, list) or not isinstance(identity, Mapping):
        return False
    gpus = identity.get("gpu_uuids") or []
    return isinstance(gpus, list) and all(isinstance(one, str) for one in [*argv, *gpus])


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def forged(whole: Judgement, text: str, seen: Any) -> None:
    whole.check(
        "answer",
        entity="node",
        measured=short(seen, 120),
        wanted="every cell that was asked for, each with its value",
        source="the controller",
        verdict=INCONCLUSIVE,
        finding="forged",
        text=f"what the node answered cannot be believed: {text}",
        remedy="retest",
    )
