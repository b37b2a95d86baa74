# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who a machine is: read on the node, told by its BMC, and whether both mean the same one. PRIVATE to the collection.

What runs on the node uses the standard library alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._serial import (
    same_serial,
    same_uuid,
    serial_of,
    uuid_of,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.judgement import Judgement
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import INCONCLUSIVE, PASS

_GPU = re.compile(r"(?:GPU|MIG)-[0-9a-fA-F-]{36}")
#: What helps where a node tells neither serial nor system UUID.
BECOME = "log in as root, or set ansible_become"
AS_ROOT = f"root alone may read: {BECOME}"
UNTOLD = f"the node tells neither serial nor system UUID, which {AS_ROOT}"
#: What BMC and node both tell of a machine.
_NAMES = ("serial", "system_uuid")

GPU_QUERY = ("--query-gpu=uuid", "--format=csv,noheader")


def node_identity(params: Mapping[str, Any], run: Callable[[Sequence[str]], str]) -> dict[str, Any]:
    """serial, system_uuid, gpu_uuids, gpu_problem where the GPUs are not known, and boot_id. On the node."""
    gpus: list[str] = []
    problem = ""
    try:
        gpus = gpu_uuids(run([params["nvidia_smi"], *GPU_QUERY]))
    except FleetError as exc:
        problem = str(exc)
    return {
        "serial": _dmi(params["dmi_path"], "product_serial"),
        "system_uuid": _dmi(params["dmi_path"], "product_uuid").lower(),
        "gpu_uuids": gpus,
        "gpu_problem": problem or ("" if gpus else "no GPU was listed"),
        "boot_id": _line(params["boot_id_path"]),
    }


def _dmi(folder: str, name: str) -> str:
    return _line(os.path.join(folder, name))


def _line(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as source:
            return source.read().strip()
    except OSError:
        return ""


def gpu_uuids(text: str) -> list[str]:
    """The GPUs that nvidia-smi listed, sorted; nothing where a line is no GPU or comes twice."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not all(_GPU.fullmatch(line) for line in lines) or len(set(lines)) != len(lines):
        return []
    return sorted(lines)


def normal_identity(given: Mapping[str, Any] | None) -> dict[str, Any]:
    """An identity in one shape: serial, system_uuid, gpu_uuids, gpu_problem, boot_id.

    Takes what a BMC tells (``uuid``) and the shape itself.
    """
    given = given or {}
    gpus = given.get("gpu_uuids") or []
    return {
        "serial": serial_of(given.get("serial")),
        "system_uuid": uuid_of(given.get("system_uuid") or given.get("uuid")),
        "gpu_uuids": sorted(str(gpu) for gpu in gpus if gpu),
        "gpu_problem": str(given.get("gpu_problem") or ""),
        "boot_id": str(given.get("boot_id") or ""),
    }


#: How two spellings of what tells a machine are compared; BMC, DMI and inventory do not agree on a serial's case.
SAME: dict[str, Callable[[str, str], bool]] = {
    "serial": same_serial,
    "system_uuid": same_uuid,
}


def judge_machine(judgement: Judgement, bmc: Mapping[str, Any], node: Mapping[str, Any]) -> None:
    """Add the check ``machine``: is what answers the machine that the BMC says? Both in their one shape.

    Where it is not, nothing is known of the node: that is no failure of it.
    """
    judgement.require(("machine", "node"))
    told = disagreements(bmc, node)
    judgement.check(
        "machine",
        entity="node",
        measured=[node[key] for key in _NAMES],
        wanted=[bmc[key] for key in _NAMES],
        source="the BMC",
        verdict=INCONCLUSIVE if told else PASS,
        finding="other_machine" if another(bmc, node) else "machine_unknown",
        text=f"the machine that answers is not known to be the one of the BMC: {'; '.join(told)}",
    )


def another(bmc: Mapping[str, Any], node: Mapping[str, Any]) -> bool:
    """Is it known that another machine than the one of the BMC answers? Nothing in common tells neither."""
    return any(bmc[key] and node[key] for key in _NAMES) and bool(disagreements(bmc, node))


def disagreements(bmc: Mapping[str, Any], node: Mapping[str, Any]) -> list[str]:
    """Why BMC and node are not proven to be one machine; empty where they are.

    An equal UUID outweighs the serial: some BMCs tell the board's, and DMI the chassis's.
    """
    told: list[str] = []
    compared = 0
    for key, same in SAME.items():
        if not bmc[key] or not node[key]:
            continue
        compared += 1
        if not same(bmc[key], node[key]):
            told.append(f"{key}: the BMC says {bmc[key]}, the node says {node[key]}")
    if bmc["system_uuid"] and same_uuid(bmc["system_uuid"], node["system_uuid"]):
        told.clear()
    if not compared:
        told.append("identity: the BMC and the node have told neither serial nor system UUID in common")
    if bmc["gpu_uuids"] and bmc["gpu_uuids"] != node["gpu_uuids"]:
        told.append(_gpu_difference("the task", bmc["gpu_uuids"], "the node", node["gpu_uuids"]))
    return told


def _gpu_difference(one: str, ours: Sequence[str], other: str, theirs: Sequence[str]) -> str:
    missing, extra = sorted(set(ours) - set(theirs)), sorted(set(theirs) - set(ours))
    parts = [f"only {one} has {', '.join(missing)}"] if missing else []
    parts += [f"only {other} has {', '.join(extra)}"] if extra else []
    return f"GPUs: {'; '.join(parts)}"


def untold(node: Mapping[str, Any]) -> bool:
    """Has the node told nothing of who it is? Serial and UUID are root's to read: it was hardly asked as root."""
    return not any(node[key] for key in _NAMES)


def unheard(node: Mapping[str, Any]) -> bool:
    """Has nothing of the question been answered? Anybody may read which boot it is: of the GPUs that says nothing."""
    return untold(node) and not node["boot_id"]


def gpus_unknown(node: Mapping[str, Any]) -> str:
    """Why nobody can say which GPUs the node has; empty where it is told, or where nothing at all was."""
    if unheard(node) or (node["gpu_uuids"] and not node["gpu_problem"]):
        return ""
    return str(node["gpu_problem"] or "none was named")


def differences(subject: Mapping[str, Any], node: Mapping[str, Any]) -> list[str]:
    """Why a passport's subject is not this machine; empty where it is."""
    told: list[str] = []
    if untold(node):
        told.append("subject: this machine tells neither serial nor system UUID")
    for key, same in SAME.items():
        if subject[key] and not (node[key] and same(subject[key], node[key])):
            told.append(f"subject: the passport is one of {key} {subject[key]}, this machine has {node[key] or 'none'}")
    return told + other_gpus(subject, node)


def other_gpus(subject: Mapping[str, Any], node: Mapping[str, Any]) -> list[str]:
    """Which anybody may read, root or not."""
    told: list[str] = []
    if subject["gpu_uuids"] and node["gpu_problem"]:
        told.append(f"subject: which GPUs this machine has is unknown: {node['gpu_problem']}")
    elif subject["gpu_uuids"] != node["gpu_uuids"]:
        apart = _gpu_difference("the passport", subject["gpu_uuids"], "this machine", node["gpu_uuids"])
        told.append(f"subject: {apart}")
    return told
