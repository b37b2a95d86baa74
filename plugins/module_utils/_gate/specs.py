# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Argument specs of the gates; module and action share them. PRIVATE to the collection."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import BATCH, FAIL_ON, FLEET, spec
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import names

GATE: dict[str, dict[str, Any]] = {
    "sku": {"type": "str"},
    "profile": {"type": "dict"},
    "profile_path": {"type": "list", "elements": "path"},
    **FAIL_ON,
    "evidence_path": {"type": "path"},
    "boot_id_path": {"type": "path", "default": "/proc/sys/kernel/random/boot_id"},
    "dmi_path": {"type": "path", "default": "/sys/class/dmi/id"},
}

#: Of a gate that may go on by itself (``detached.py``).
DETACHED: dict[str, dict[str, Any]] = {
    "detached": {"type": "bool", "default": False},
    "job": {"type": "str"},
    "state_dir": {"type": "path", "default": "/run/gpufleet"},
    "collect": {"type": "str"},
}

COLLECTIVE_GATE = spec(
    FLEET,
    GATE,
    nccl_tests={"type": "path"},
    tests={"type": "list", "elements": "str"},
    timeout={"type": "int", "default": 900},
    pci_path={"type": "path", "default": "/sys/bus/pci/devices"},
)

CPU_MEMORY_GATE = spec(
    FLEET,
    GATE,
    tests={"type": "list", "elements": "str"},
    stress_ng={"type": "str", "default": "stress-ng"},
    hpl={"type": "list", "elements": "str", "default": ["mpirun", "--allow-run-as-root", "-np", "{ranks}", "xhpl"]},
    timeout={"type": "int", "default": 1800},
    sysfs_path={"type": "path", "default": "/sys"},
    proc_path={"type": "path", "default": "/proc"},
)

DCGM_GATE = spec(
    FLEET,
    GATE,
    DETACHED,
    level={"type": "int", "choices": list(names.DCGM_LEVELS), "default": 1},
    tests={"type": "list", "elements": "str"},
    timeout={"type": "int"},
    busy_timeout={"type": "int", "default": 60},
    localise_timeout={"type": "int", "default": 600},
    health={"type": "bool", "default": False},
    dcgmi={"type": "str", "default": "dcgmi"},
    pci_path={"type": "path", "default": "/sys/bus/pci/devices"},
)

GATE_PROFILE = spec(
    FLEET,
    state={"type": "str", "choices": list(names.PROFILE_STATES), "default": names.PROFILE_STATES[1]},
    nvidia_smi={"type": "str", "default": "nvidia-smi"},
    timeout={"type": "int", "default": 120},
    pci_path={"type": "path", "default": "/sys/bus/pci/devices"},
    dmi_path={"type": "path", "default": "/sys/class/dmi/id"},
    hardware={"type": "dict"},
    looks={"type": "dict"},
    sku={"type": "str"},
    title={"type": "str"},
    dest={"type": "path"},
    profile_path={"type": "list", "elements": "path"},
    margin={"type": "float", "default": 5.0},
    gpu_count={"type": "int"},
    leave_out={"type": "list", "elements": "str", "default": []},
    like={"type": "str"},
    beside_known={"type": "bool", "default": False},
    replace={"type": "bool", "default": False},
)
#: What a profile cannot be made without.
GATE_PROFILE_RULES = {"required_if": [("state", names.PROFILE_STATES[1], ("looks", "sku", "title"))]}

GATE_WAIT = spec(
    FLEET,
    BATCH,
    gate={"type": "str", "choices": list(names.DETACHED), "default": "dcgm_gate"},
    timeout={"type": "int"},
    interval={"type": "float", "default": 15.0},
    grace={"type": "int", "default": 120},
    look_timeout={"type": "float", "default": 20.0},
)

GPU_BANDWIDTH_GATE = spec(
    FLEET,
    GATE,
    nvbandwidth={"type": "str", "default": "nvbandwidth"},
    cases={"type": "list", "elements": "str"},
    timeout={"type": "int", "default": 600},
    pci_path={"type": "path", "default": "/sys/bus/pci/devices"},
)

GPU_BURN_GATE = spec(
    FLEET,
    GATE,
    gpu_burn={"type": "str", "default": "gpu_burn"},
    compare={"type": "path"},
    tests={"type": "list", "elements": "str"},
    timeout={"type": "int", "default": 3600},
    pci_path={"type": "path", "default": "/sys/bus/pci/devices"},
)

GPU_STATE_GATE = spec(
    FLEET,
    GATE,
    amd_smi={"type": "str", "default": "amd-smi"},
    nvidia_smi={"type": "str", "default": "nvidia-smi"},
    timeout={"type": "int", "default": 120},
    again_timeout={"type": "int", "default": 10},
    before={"type": "list", "elements": "dict"},
)

KERNEL_LOG_GATE = spec(
    FLEET,
    GATE,
    source={"type": "str", "choices": list(names.KERNEL_LOG_SOURCES), "default": "auto"},
    path={"type": "path"},
    since={"type": "str"},
    timeout={"type": "int", "default": 60},
    uptime_path={"type": "path", "default": "/proc/uptime"},
    kmsg_path={"type": "path", "default": "/dev/kmsg"},
    pstore_path={"type": "path", "default": "/sys/fs/pstore"},
    pstore_archive={"type": "path", "default": "/var/lib/systemd/pstore"},
    journalctl={"type": "str", "default": "journalctl"},
)

#: By which a gate that reads the log beside other things is told where it is.
_OF_A_LOG = ("source", "path", "journalctl", "pstore_archive")

NETWORK_GATE = spec(
    FLEET,
    GATE,
    tests={"type": "list", "elements": "str"},
    neighbours={"type": "dict"},
    lldpctl={"type": "str", "default": "lldpctl"},
    mlxlink={"type": "str", "default": "mlxlink"},
    speeds={"type": "list", "elements": "str"},
    servers={"type": "dict"},
    iperf3={"type": "str", "default": "iperf3"},
    ib_write_bw={"type": "str", "default": "ib_write_bw"},
    speed_timeout={"type": "int", "default": 900},
    timeout={"type": "int", "default": 60},
    sysfs_path={"type": "path", "default": "/sys"},
)

PAIR_GATE = spec(
    FLEET,
    BATCH,
    {name: option for name, option in GATE.items() if name != "evidence_path"},
    tests={"type": "list", "elements": "str"},
    collect={"type": "str"},
    address_variable={"type": "str", "default": "ansible_host"},
    leaf_variable={"type": "str", "default": "topology_leaf"},
    iperf3={"type": "str", "default": "iperf3"},
    ib_write_bw={"type": "str", "default": "ib_write_bw"},
    nccl_tests={"type": "path"},
    mpirun={"type": "list", "elements": "str", "default": ["mpirun", "--allow-run-as-root"]},
    timeout={"type": "int", "default": 900},
    sysfs_path={"type": "path", "default": "/sys"},
    pci_path={"type": "path", "default": "/sys/bus/pci/devices"},
)
#: A host's own verdict is collected by itself.
PAIR_GATE_RULES = {"mutually_exclusive": [("collect", name) for name in ("after", "nodes", "tests")]}

SOAK_GATE = spec(
    FLEET,
    GATE,
    {name: option for name, option in KERNEL_LOG_GATE.items() if name.endswith("_path") or name in _OF_A_LOG},
    {**DETACHED, "state_dir": {"type": "path", "default": "/var/lib/gpufleet-soak"}},
    hours={"type": "float", "default": 24.0},
    stop={"type": "bool", "default": False},
    cut_off={"type": "int", "default": 0},
    tests={"type": "list", "elements": "str"},
    timeout={"type": "int"},
    gpu_burn={"type": "str", "default": "gpu_burn"},
    compare={"type": "path"},
    nvidia_smi={"type": "str", "default": "nvidia-smi"},
    pci_path={"type": "path", "default": "/sys/bus/pci/devices"},
)

STORAGE_GATE = spec(
    FLEET,
    GATE,
    tests={"type": "list", "elements": "str"},
    places={"type": "list", "elements": "path"},
    nvme={"type": "str", "default": "nvme"},
    fio={"type": "str", "default": "fio"},
    timeout={"type": "int", "default": 1800},
    sysfs_path={"type": "path", "default": "/sys"},
)

TRAINING_GATE = spec(
    FLEET,
    GATE,
    command={"type": "list", "elements": "str"},
    log={"type": "path"},
    test={"type": "str"},
    run_id={"type": "str"},
    node_names={"type": "list", "elements": "str"},
    max_age={"type": "int", "default": 86400},
    timeout={"type": "int", "default": 3600},
    pci_path={"type": "path", "default": "/sys/bus/pci/devices"},
)
#: What there is to judge: just one of the two.
TRAINING_GATE_RULES = {"mutually_exclusive": [("command", "log")], "required_one_of": [("command", "log")]}
