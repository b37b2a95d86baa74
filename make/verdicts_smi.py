# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How gpu_state_gate is asked about what nvidia-smi printed: XML, the table of a query, the text of -q, or NVLinks."""

from __future__ import annotations

import functools
import re
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.document import Diagnosis
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state import amd as amd_smi
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state import document as smi_document
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state import links
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.judge import Look, device_of, judge
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import wanted_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._process import Run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import Tool
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._in_force import OWN_PROFILES, profile_of
from verdicts_recorded import ABOUT, NotAsked, Recorded, counted, verdict_of

#: What a machine of no SKU must show, where its GPUs are of a kind that can.
_OF_ANY_GPU = ("ecc_mode", "ecc_volatile", "clocks")
_KINDS = {"A100-SXM4-80GB": "a100-sxm-80-8", "H100 80GB HBM3": "h100-sxm-8", "NVIDIA H200": "h200-sxm-8"}


def gpu_state(recorded: Recorded) -> tuple[dict[str, Any], str]:
    """What nvidia-smi printed: a document of the GPUs, or of their NVLinks."""
    text = recorded.path.read_text(encoding="utf-8", errors="replace")
    if re.search(r"^\+-{9}|^List of valid properties|CPU Affinity", text, re.M) or recorded.row.get("verdict") == "n/a":
        raise NotAsked("a table for people, a topology or a page of help, which no gate asks for")
    table = links.read(text) if text.startswith("GPU 0: ") or re.match(r"GPU \d+: .*UUID", text) else links.Table()
    seen = smi_document.read(text) if not table.by_number else _of_links(table)
    profile = recorded.profile or _as_recorded(seen, text)
    wanted = wanted_of(_of_this_call(profile, bool(table.by_number)))
    run = Run(("nvidia-smi",), recorded.number("exit_status", 0), text.encode(), b"", "exit", 0.0)
    sheet = judge(Look(seen, [run], state=table), wanted)
    verdict = verdict_of("gpu_state_gate", sheet, Tool("nvidia-smi", seen.said("driver")), run, wanted)
    return verdict, f"exit status {run.rc}, profile {wanted.sku}"


def _of_links(table: links.Table) -> smi_document.Seen:
    """The machine whose links these are; of it nothing else was recorded."""
    uuids = list(table.by_uuid) or [""] * len(table.by_number)
    gpus = [smi_document.Gpu("xml", {"uuid": uuid, **_UNSAID}) for uuid in uuids]
    return smi_document.Seen("xml", {"driver_version": "0.0", "attached_gpus": str(len(gpus))}, gpus)


_UNSAID = {"pci/pci_device_id": "ffff10de"}


def _as_recorded(seen: smi_document.Seen, text: str) -> dict[str, Any]:
    """The profile of the GPUs that are told, for as many as there are; of unknown ones what each GPU must show."""
    devices = sorted({device_of(gpu) for gpu in seen.gpus} - {"", "ffff"})
    kinds = [sku for name, sku in _KINDS.items() if name in text]
    known = next(
        (one for one in _shipped() if devices and set(devices) <= set(one["gpu"]["device_ids"]["value"])), None
    )
    found = known or (profile_of({"sku": kinds[0]}).data if kinds else None)
    if found is None:
        rows = ["row_remap" if gpu.said("remap_failure") else "retired_pages" for gpu in seen.gpus[:1]]
        whole = not seen.gpus or bool(seen.gpus[0].said("ecc"))
        cells = [{"name": name, **ABOUT} for name in (*(_OF_ANY_GPU if whole else ()), *rows)]
        found = {**counted(Diagnosis()), "gpu_state": {"cells": cells or [{"name": "ecc_mode", **ABOUT}]}}
    ids = sorted({*found["gpu"]["device_ids"]["value"], *devices, "ffff"})
    gpu = {**found["gpu"], "count": {"value": max(1, len(seen.gpus)), **ABOUT}, "device_ids": {"value": ids, **ABOUT}}
    _named(seen)
    return {**found, "gpu": gpu}


def _named(seen: smi_document.Seen) -> None:
    """A call that was asked for one thing alone tells of no UUID and no device: nobody has looked at them."""
    for number, gpu in enumerate(seen.gpus):
        if not gpu.said("uuid") and not gpu.said("device_id"):
            gpu.told = {
                **gpu.told,
                "GPU UUID": f"GPU-00000000-0000-0000-0000-{number:012d}",
                "PCI/Device Id": "ffff10de",
            }


@functools.cache
def _shipped() -> tuple[dict[str, Any], ...]:
    return tuple(profile_of({"sku": path.stem}).data for path in sorted(OWN_PROFILES.glob("*.yaml")))


def _of_this_call(profile: dict[str, Any], of_links: bool) -> dict[str, Any]:
    """The cells that this one call can fill; the other calls were not recorded beside it."""
    rows = [row for row in profile["gpu_state"]["cells"] if (row["name"] == "nvlink") == of_links]
    return {**profile, "gpu_state": {"cells": [row for row in rows if row["name"] != "nvlink_errors"]}}


def amd(recorded: Recorded) -> tuple[dict[str, Any], str]:
    """What one call of amd-smi printed; the others were not recorded beside it, and nobody passes without them."""
    text = recorded.path.read_text(encoding="utf-8", errors="replace")
    call = next((name for name in amd_smi.CALLS if recorded.path.name.startswith(name)), "metric")
    seen = amd_smi.read({call: text})
    known = profile_of({"sku": "mi300x-8"}).data
    gpu = {**known["gpu"], "count": {"value": max(1, len(seen.gpus)), **ABOUT}}
    wanted = wanted_of(recorded.profile or {**known, "gpu": gpu})
    run = Run((amd_smi.TOOL, *amd_smi.CALLS[call]), recorded.number("exit_status", 0), text.encode(), b"", "exit", 0.0)
    sheet = judge(Look(seen, [run], tool=amd_smi.TOOL), wanted)
    verdict = verdict_of("gpu_state_gate", sheet, Tool(amd_smi.TOOL), run, wanted)
    return verdict, f"as {call}, profile {wanted.sku}"
