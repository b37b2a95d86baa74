# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Holds a pass that a node claims against the grid that its question demands. PRIVATE to the collection.

Runs on the controller, and on nodes by what they import: standard library only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.ended import ENDED
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.cells import Wants
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.grid import SINCE, entity, required
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.section import (
    demanded,
    parse_version,
    section_of,
    tool_of,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.passed import Line, Own
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import wanted_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import FAIL, NODE, PASS

Passed = Mapping[tuple[str, str], Any]


def _passed(verdict: Mapping[str, Any]) -> Passed:
    return {(row["id"], row["entity"]): row["measured"] for row in verdict["checks"] if row["verdict"] == PASS}


def _of_version(profile: Mapping[str, Any], verdict: Mapping[str, Any]) -> list[Wants]:
    """The cells that the driver must show that the verdict names."""
    return demanded(wanted_of(profile), parse_version(str(verdict["tool"]["version"])))


def asked(profile: Mapping[str, Any], verdict: Mapping[str, Any], *, second: bool) -> dict[str, Any]:
    """The question as it is compared with others: each cell by name.

    A pass has answered those alone that it has of each GPU, whatever driver the node names. A failure is of all that
    its driver has to show; what was not measured is of every cell.
    """
    wanted = wanted_of(profile)
    names = {row.wants.name for row in section_of(wanted)} | ({SINCE} if second else set())
    if verdict["verdict"] == PASS:
        passed = _passed(verdict)
        names = {name for name in names if _whole(passed, name, range(wanted.gpu_count))}
    elif verdict["verdict"] == FAIL:
        shown = {str(row["id"]) for row in verdict["checks"]}
        names &= {cell.name for cell in _of_version(profile, verdict)} | shown | {SINCE}
    return {"tests": sorted(names)}


def _whole(passed: Passed, name: str, gpus: Iterable[int]) -> bool:
    return all((name, entity(number)) in passed for number in gpus)


def lacking(profile: Mapping[str, Any], verdict: Mapping[str, Any], *, second: bool) -> str:
    """What a claimed pass lacks; empty where it lacks nothing. verdict: one whose shape was checked."""
    try:
        wanted, cells = wanted_of(profile), _of_version(profile, verdict)
    except ConfigError as exc:
        return f"what was asked of it is not known: {exc}"
    passed = _passed(verdict)
    devices = {where: device for (id, where), device in passed.items() if id == "device_id"}
    strangers = [str(device) for device in devices.values() if device not in wanted.device_ids]
    if set(devices) != {entity(number) for number in range(wanted.gpu_count)} or strangers:
        return f"it names {len(devices)} GPUs, and the profile {wanted.sku} counts {wanted.gpu_count} of its own"
    if passed.get(("gpu_count", NODE)) != wanted.gpu_count:
        return "the number of GPUs is not what it must be"
    uuids = {str(measured) for (id, _where), measured in passed.items() if id == "uuid"}
    if len(uuids) != wanted.gpu_count:
        return "its GPUs have not a UUID each"
    if not cells:
        return "it was asked for no cell"
    grid = required(wanted, cells, range(wanted.gpu_count), second=second)
    gone = [f"{row.id} of {row.entity}" for row in grid if (row.id, row.entity) not in passed]
    return f"required cells are not in it: {', '.join(gone[:4])}" if gone else ""


def own(profile: Mapping[str, Any], verdict: Mapping[str, Any], *, second: bool) -> Own:
    """What a pass says that lacks nothing."""
    wanted = wanted_of(profile)
    known = {"gpu_count": wanted.gpu_count, ENDED: "exit 0", SINCE: 0}
    passed = _passed(verdict)
    due = {cell.name for cell in _of_version(profile, verdict)}
    more = [row.wants for row in section_of(wanted) if row.wants.name not in due]
    cells = [
        *_of_version(profile, verdict),
        *(cell for cell in more if _whole(passed, cell.name, range(wanted.gpu_count))),
    ]
    return Own(
        {
            (row.id, row.entity): Line(row.wanted, row.source or "profile", known=known.get(row.id))
            for row in required(wanted, cells, range(wanted.gpu_count), second=second, tool=tool_of(wanted))
        },
        (tool_of(wanted),),
    )
