# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node said of itself, judged again by the controller. PRIVATE to the collection.

The node's checks are a stranger's word: which of them there must be, what each must have measured and what that comes
to follows from what the controller sent, never from the answer. A node can make itself look worse than it is; to look
better it has to lie in every cell, with the values that the signed manifest asks for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.artifact import Cell
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.judgement import Judgement
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import (
    FAIL,
    INCONCLUSIVE,
    PASS,
    REMEDIES,
    Check,
)

_CHECK = {"id", "entity", "measured", "wanted", "unit", "source", "verdict"}
_FINDING = {"id", "entity", "text", "remedy"}
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}\Z")
_WORDS = (PASS, FAIL, INCONCLUSIVE)


def take(whole: Judgement, node: Mapping[str, Any], cells: Mapping[Cell, Callable[[Any], bool]]) -> None:
    """Add the node's checks and findings to the verdict, and what is wrong with them."""
    checks, findings = node.get("checks"), node.get("findings")
    shaped = _rows(checks, _CHECK) and _rows(findings, _FINDING) and _sane(checks, findings)
    if not shaped or not _beside(node):
        forged(whole, "its answer has not the shape of a verdict", node.get("verdict"))
        return
    for check in checks:  # type: ignore[union-attr]
        whole.sheet.record(Check(**check))
    for finding in findings:  # type: ignore[union-attr]
        whole.sheet.find(**finding)
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
    evidence = node.get("evidence_digest")
    if not isinstance(evidence, str) or not _DIGEST.match(evidence):
        return False
    if not isinstance(argv, list) or not isinstance(identity, Mapping):
        return False
    gpus = identity.get("gpu_uuids") or []
    return isinstance(gpus, list) and all(isinstance(one, str) for one in [*argv, *gpus])


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
