# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way of a node into service, from where it stands. PRIVATE to the collection.

The playbooks of day 0 and day 2 ask it for each state that they record, and a run in check mode foretells by it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

#: Of what no run brings into service from there.
_NOWHERE = frozenset({"unknown", "retired"})
#: By state, in the order in which a run records them: does the way of a node that stands so lead through it?
_STAGES: Mapping[str, Callable[[Mapping[str, Any]], bool]] = {
    "enrolled": lambda one: one["recorded"] == "discovered",
    "draining": lambda one: one["recorded"] == "admitted",
    "drained": lambda one: one["recorded"] in ("admitted", "draining"),
    "imaging": lambda one: not one["deploy_resume"],
    "validating": lambda one: not one["deploy_resume"] or one["recorded"] != "validating",
    "admitted": lambda one: True,
}


def way(one: Mapping[str, Any]) -> list[str]:
    """:param one: where a node stands, as fleet_status tells it."""
    if one["recorded"] in _NOWHERE:
        return []
    return [state for state, leads_through in _STAGES.items() if leads_through(one)]


def foretold(one: Mapping[str, Any], image: Mapping[str, Any], provisioner: str, *, new: bool) -> str:
    """The same in one line, with what is told beside a state.

    :param image: what is declared for it. :param new: its provisioner has no record of it yet.
    """
    its_image = " ".join(str(image[key]) for key in ("name", "version") if image.get(key))
    start = f"{one['state']} (new to {provisioner})" if new else str(one["state"])
    return " -> ".join([start, *(f"{state} ({its_image})" if state == "imaging" else state for state in one["way"])])
