# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Holds where a node was seen against where it is planned. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._topology.specs import NVLINK
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import FAIL, NODE, PASS, Check, Sheet

GATE = "topology_info"
LEAF, DOMAIN = "leaf", "nvlink_domain"
_SOURCE = "topology_leaf and the plan of the site"


def judge(wanted: Mapping[str, Any], seen: Mapping[str, Any]) -> Sheet:
    """:param wanted: ``leaf``, names or ids of which any will do, and ``domain``; what is empty is not asked for."""
    sheet = Sheet()
    if wanted.get("leaf"):
        _leaves(sheet, [str(one) for one in wanted["leaf"]], seen["neighbours"])
    if wanted.get("domain"):
        _domain(sheet, str(wanted["domain"]), str(seen["domain"]), str(seen["unread"].get(NVLINK) or ""))
    for source, why in seen["unread"].items():
        if any(sheet.wants(cell, NODE) and (cell, NODE) not in sheet.checks for cell in (LEAF, DOMAIN)):
            sheet.find(f"unread:{source}", NODE, f"{source} tells nothing: {why}", "retest")
    return sheet


def _leaves(sheet: Sheet, wanted: Sequence[str], neighbours: Sequence[Mapping[str, str]]) -> None:
    """One that nobody heard is unknown; any port that leads elsewhere is a cable in the wrong place."""
    sheet.require(LEAF, NODE, wanted=list(wanted), source=_SOURCE)
    names = sorted({one["leaf"] for one in neighbours})
    for one in neighbours:
        right = one["leaf"] in wanted or one["leaf_id"] in wanted
        sheet.record(Check(LEAF, one["port"], PASS if right else FAIL, one["leaf"], list(wanted), "", _SOURCE))
        if not right:
            text = f"{one['port']} leads to {one['leaf']}, and the plan has the node at {' or '.join(wanted)}"
            sheet.find(f"cabling:{one['port']}", one["port"], text, "fabric")
    if names:
        elsewhere = any(check.verdict == FAIL for check in sheet.checks.values())
        sheet.record(Check(LEAF, NODE, FAIL if elsewhere else PASS, names, list(wanted), "", _SOURCE))


def _domain(sheet: Sheet, wanted: str, seen: str, trouble: str) -> None:
    sheet.require(DOMAIN, NODE, wanted=wanted, source=_SOURCE)
    if seen and seen != wanted:
        sheet.record(Check(DOMAIN, NODE, FAIL, seen, wanted, "", _SOURCE))
        sheet.find("cabling:nvlink", NODE, f"its GPUs are in the NVLink domain {seen}, and not in {wanted}", "fabric")
    elif seen and trouble:
        sheet.unsettled(DOMAIN, NODE, trouble, "fabric")
    elif seen:
        sheet.record(Check(DOMAIN, NODE, PASS, seen, wanted, "", _SOURCE))
