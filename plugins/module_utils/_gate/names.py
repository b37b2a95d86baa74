# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The words of the port that a user may say, in one place and as plain data. PRIVATE to the collection.

Argument specs and the passport's defaults read them here; documentation, which must spell them out, is held against
them by the rules in ``tests/tree``. Nothing is imported: whatever wants to know a name may read this.
"""

from __future__ import annotations

#: Driver: the module that runs it, by whose name verdicts, events and passports know the gate.
DRIVERS: dict[str, str] = {
    "collective": "collective_gate",
    "cpu_memory": "cpu_memory_gate",
    "dcgm": "dcgm_gate",
    "gpu_bandwidth": "gpu_bandwidth_gate",
    "gpu_burn": "gpu_burn_gate",
    "gpu_state": "gpu_state_gate",
    "kernel_log": "kernel_log_gate",
    "network": "network_gate",
    "pair": "pair_gate",
    "soak": "soak_gate",
    "storage": "storage_gate",
    "training": "training_gate",
}

#: Drivers that measure nodes with each other: what one node prints makes none of them pass.
BETWEEN = ("pair",)
#: Gates that a passport asks for where its policy names none; a new one is asked for when a site says so.
REQUIRED = ("dcgm_gate", "kernel_log_gate")
#: Gates that may outlive their task, which ``gate_wait`` then watches, and for how many seconds after its end a verdict
#: of each says something of the node: whoever began a soak of days may come back after the weekend.
DETACHED: dict[str, float] = {"dcgm_gate": 3600.0, "soak_gate": 1209600.0}
#: Of a gate that reads other sections of a profile than ``gpu`` and the one of its driver: which, or what of them.
SECTIONS: dict[str, tuple[str, ...]] = {
    "kernel_log_gate": (),
    "pair_gate": ("gpu", "network.links", "network.speeds", "collective.fabric"),
    "soak_gate": ("gpu", "gpu_state", "gpu_burn", "soak"),
}
#: Which verdicts fail the host.
FAIL_ON = ("fail", "inconclusive", "never")
#: DCGM's run levels.
DCGM_LEVELS = (1, 2, 3, 4)
#: What gate_profile does: look at a node, and make a profile of what several have shown.
PROFILE_STATES = (SEEN, PRESENT) = ("seen", "present")
#: Where a kernel log is read from.
KERNEL_LOG_SOURCES = ("auto", "kmsg", "journal", "file")
