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
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._shape import (
    CHECK,
    FINDING,
    any_text,
    is_word,
    list_of,
    too_large,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.judgement import Judgement
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.node import Cells
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import INCONCLUSIVE, PASS, Check

_CHECKS, _FINDINGS, _TEXTS = list_of(CHECK), list_of(FINDING), list_of(any_text)
_IDENTITY = {
    "serial": any_text,
    "system_uuid": any_text,
    "gpu_uuids": _TEXTS,
    "gpu_problem": any_text,
    "boot_id": any_text,
}
#: What was answered cannot be what the module told.
FORGED = "forged"
#: What the controller finds of a look itself. From them follows what becomes of the node, which is not for it to say.
_CONTROLLERS = frozenset({"unreachable", "aborted", "crashed", FORGED, "other_machine"})
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}\Z")


def take(whole: Judgement, node: Mapping[str, Any], cells: Cells) -> bool:
    """Add the node's checks and findings to the verdict, and what is wrong with them. False where it is no answer.

    Of a check it is what was measured and how that was judged there; what was wanted, and by whom, is known here.
    """
    verdict, checks, findings = node.get("verdict"), node.get("checks"), node.get("findings")
    if not (is_word(verdict) and _CHECKS(checks) and _FINDINGS(findings) and _beside(node)):
        forged(whole, "its answer has not the shape of a verdict", verdict if isinstance(verdict, str) else "")
        return False
    rows: list[Mapping[str, Any]] = list(checks or [])
    for (name, entity), asked in cells.items():
        found = [one for one in rows if (one["id"], one["entity"]) == (name, entity)]
        if len(found) != 1:
            forged(whole, f"it tells {len(found)} times of {name}, and must once", name)
            continue
        seen = found[0]
        whole.sheet.record(Check(name, entity, seen["verdict"], seen["measured"], **asked.line))
        if seen["verdict"] == PASS and not asked.right(seen["measured"]):
            forged(whole, f"it passes {name}, which is not what was asked for", seen["measured"])
    strange = [one["id"] for one in rows if (one["id"], one["entity"]) not in cells]
    if strange:
        forged(whole, "it tells of what nobody asked for", strange[0])
    _findings(whole, rows, list(findings or []))
    if verdict != PASS and whole.verdict == PASS:
        forged(whole, "it does not pass, and does not say why", verdict)
    return True


def _findings(whole: Judgement, rows: list[Mapping[str, Any]], findings: list[Mapping[str, Any]]) -> None:
    """A finding tells why a cell did not pass, and nothing else."""
    if len(findings) > sum(row["verdict"] != PASS for row in rows):
        forged(whole, "it finds more than its cells have", findings[0]["id"])
        return
    for finding in findings:
        if finding["id"] in _CONTROLLERS:
            forged(whole, "it finds what only the controller can find", finding["id"])
        else:
            whole.sheet.find(**finding)


def _beside(node: Mapping[str, Any]) -> bool:
    """What is read of an answer beside its cells."""
    argv, identity, evidence = node.get("argv") or [], node.get("identity") or {}, node.get("evidence_digest")
    if not isinstance(evidence, str) or not _DIGEST.match(evidence) or not _TEXTS(argv):
        return False
    if not isinstance(identity, dict):
        return False
    if not all(key in _IDENTITY and _IDENTITY[key](identity[key]) for key in identity):
        return False
    return not too_large([node.get("checks"), node.get("findings"), argv, identity])


def forged(whole: Judgement, text: str, seen: Any) -> None:
    whole.check(
        "answer",
        entity="node",
        measured=short(seen, 120),
        wanted="every cell that was asked for, each with its value",
        source="the controller",
        verdict=INCONCLUSIVE,
        finding=FORGED,
        text=f"what the node answered cannot be believed: {text}",
        remedy="retest",
    )
