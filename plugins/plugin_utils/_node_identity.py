# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which machine answers at a node's connection, on which boot, and with which GPUs. PRIVATE to the collection."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.called import OWN_NAME
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.identity import GPU_QUERY, gpu_uuids

#: Stands before each part of the node's answer.
_MARK = "=gpufleet="
#: A driver that hangs lets nvidia-smi wait for ever; eight GPUs without persistence mode take some 20 s.
_SECONDS = 60
#: What timeout(1) ends with where it had to end the command, and where it had to kill it.
_TIMED_OUT = (124, 137)


def read_identity(execute: Callable[[str], Mapping[str, Any]], paths: Mapping[str, Any]) -> dict[str, Any]:
    """The node's own word, over its own connection, in one round trip.

    :param execute: runs a shell's command on the node, and tells ``rc`` and ``stdout``.
    :param paths: nvidia_smi, dmi_path and boot_id_path.
    """
    folder, boot = shlex.quote(paths["dmi_path"]), shlex.quote(paths["boot_id_path"])
    query = " ".join(map(shlex.quote, [paths["nvidia_smi"], *GPU_QUERY]))
    limited = f"$(command -v timeout >/dev/null && echo timeout -k 5 {_SECONDS}) {query} 2>/dev/null"
    files = [f"{folder}/product_serial", f"{folder}/product_uuid", "/proc/sys/kernel/hostname"]
    # The GPUs come last, since the answer ends with what nvidia-smi ended with.
    reads = [*(f"cat {file} 2>/dev/null; echo" for file in (*files, boot)), limited]
    answer = execute("; ".join(f"echo {_MARK}; {read}" for read in reads))
    # With a terminal in between, lines end otherwise, and what the login says comes first.
    parts = str(answer.get("stdout", "")).replace("\r", "").split(f"{_MARK}\n")[1:]
    whole = len(parts) == len(reads)
    gpus = gpu_uuids(parts[-1]) if answer.get("rc") == 0 and whole else []
    return {
        "serial": parts[0].strip() if whole else "",
        "system_uuid": parts[1].strip() if whole else "",
        OWN_NAME: cut(parts[2].strip(), 255) if whole else "",
        "boot_id": parts[3].strip() if whole else "",
        "gpu_uuids": gpus,
        "gpu_problem": "" if gpus else _problem(answer.get("rc")),
    }


def _problem(status: Any) -> str:
    if status in _TIMED_OUT:
        return f"nvidia-smi gave no answer within {_SECONDS} s"
    return f"nvidia-smi ended with {status}"
