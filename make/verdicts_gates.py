# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How each gate is asked about an output that was recorded, by the name of the tool that printed it.

What a list leaves out is assumed as it speaks best for the node: an exit status 0, the lowest level, a machine with
just the GPUs that the output tells of. A gate that admits nothing wrong then admits nothing wrong at all.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm import health as watches
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm import options
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.discovery import Found
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.document import Diagnosis, read
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.judge import judge
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.tests import wanted_tests
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log.gate import kernel_log_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log.lines import parse
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import wanted_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._process import Run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import (
    NODE,
    Sheet,
    Tool,
)
from verdicts_bandwidth import gpu_bandwidth
from verdicts_collective import collective
from verdicts_machine import burnt, carried, ports, solved, stressed, wrote
from verdicts_recorded import Recorded, counted, verdict_of
from verdicts_smi import amd, gpu_state
from verdicts_storage import health, measured
from verdicts_training import trained

_LEVEL = re.compile(r"_r([1-4])_")
_BOOT_ID = "00000000-0000-0000-0000-000000000000"


def dcgm(recorded: Recorded) -> tuple[dict[str, Any], str]:
    text = recorded.path.read_text(encoding="utf-8", errors="replace")
    named = _LEVEL.search(recorded.path.name)
    level = recorded.number("level", int(named.group(1)) if named else 1)
    rc = recorded.number("exit_status", 0)
    seen = read(text)
    profile = recorded.profile or counted(seen)
    wanted = wanted_of(profile)
    version = options.parse_version(recorded.row.get("version", "")) or options.parse_version(seen.version)
    run = Run(("dcgmi", "diag", "-r", str(level), "-j"), rc, text.encode(), b"", "exit", 0.0)
    # A list of GPUs was not recorded beside it: where the output names none, nobody has counted them.
    unnamed = dict.fromkeys(seen.gpu_ids(), wanted.device_ids[0]) if not recorded.profile and not _told(seen) else {}
    found = Found(len(unnamed) or None, unnamed)
    sheet = judge(seen, run, wanted, wanted_tests(wanted, level, [], version), found=found)
    verdict = verdict_of("dcgm_gate", sheet, Tool("dcgmi"), run, wanted)
    return verdict, f"level {level}, exit status {rc}, profile {wanted.sku}"


def watched(recorded: Recorded) -> tuple[dict[str, Any], str]:
    """What DCGM's health watches said, as if they had been set for long enough."""
    rc, sheet = recorded.number("exit_status", 0), Sheet()
    text = recorded.path.read_text(encoding="utf-8", errors="replace")
    run = Run(("dcgmi", "health", "-c", "-j"), rc, text.encode(), b"", "exit", 0.0)
    sheet.require(watches.CELL, NODE)
    watches.judge(sheet, run, watches.SECONDS)
    verdict = verdict_of("dcgm_gate", sheet, Tool("dcgmi"), run)
    return verdict, f"health watches, exit status {rc}"


def _told(seen: Diagnosis) -> bool:
    return any(seen.devices().values())


def kernel_log(recorded: Recorded) -> tuple[dict[str, Any], str]:
    text = recorded.path.read_text(encoding="utf-8", errors="replace")
    lines = [parse(one, 0.0) for one in text.splitlines() if one.strip()]
    uptime = max((line.mono for line in lines if line.mono is not None), default=1.0) + 1.0
    raw = bool(re.match(r"\d+,\d+,\d+,", text))
    since = recorded.row.get("since") or "boot"
    with tempfile.TemporaryDirectory(prefix="gpufleet-verdicts-") as name:
        folder = Path(name)
        (folder / "uptime").write_text(f"{uptime} 1.0\n", encoding="ascii")
        (folder / "boot_id").write_text(f"{_BOOT_ID}\n", encoding="ascii")
        params = {
            "source": "kmsg" if raw else "file",
            "path": str(recorded.path),
            "kmsg_path": str(folder / "no-ring"),
            "uptime_path": str(folder / "uptime"),
            "boot_id_path": str(folder / "boot_id"),
            "pstore_path": "",
            "pstore_archive": str(folder),
            "since": since,
            "profile": recorded.profile or counted(Diagnosis()),
        }
        result = kernel_log_gate(params, Context())
    return dict(result.data), f"as {params['source']}, window {since}"


#: By what a list calls the tool.
GATES: Mapping[str, Callable[[Recorded], tuple[dict[str, Any], str]]] = {
    "dcgm_gate": dcgm,
    "dcgm-diag": dcgm,
    "dcgm-health": watched,
    "kernel_log_gate": kernel_log,
    "kmsg": kernel_log,
    "collective_gate": collective,
    "nccl-tests": collective,
    "cpu_memory_gate": stressed,
    "stress-ng": stressed,
    "hpl": solved,
    "gpu_bandwidth_gate": gpu_bandwidth,
    "nvbandwidth": gpu_bandwidth,
    "gpu_state_gate": gpu_state,
    "nvidia-smi": gpu_state,
    "nvidia-smi-xml": gpu_state,
    "nvlink": gpu_state,
    "amd-smi": amd,
    "gpu_burn_gate": burnt,
    "gpu-burn": burnt,
    "network_gate": ports,
    "rdma": ports,
    "iperf3": carried,
    "perftest": wrote,
    "storage_gate": health,
    "nvme": health,
    "fio": measured,
    "training_gate": trained,
    "training": trained,
}
