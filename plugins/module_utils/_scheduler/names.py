# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The words of the port that a user may say, in one place and as plain data. PRIVATE to the collection.

Argument specs, inventory columns and drivers read them here; documentation, which must spell them out, is held
against them by the rules in ``tests/tree``. Nothing is imported: whatever wants to know a name may read this.
"""

from __future__ import annotations

#: The option that names the driver, and the host variable ``gpufleet_<option>``.
OPTION = "scheduler"

#: The connection's options, each also the host variable ``gpufleet_<option>``.
OPTIONS: dict[str, dict[str, object]] = {
    "scheduler_conf": {"type": "path"},
    "scheduler_login_host": {"type": "str"},
    "scheduler_context": {"type": "str"},
    "scheduler_url": {"type": "str"},
    "scheduler_token": {"type": "str", "no_log": True},
    "scheduler_token_path": {"type": "path"},
    "scheduler_ca_path": {"type": "path"},
    "scheduler_user": {"type": "str"},
    "scheduler_slurm_user": {"type": "str"},
    "scheduler_taints": {"type": "list", "elements": "str"},
    "scheduler_evict": {"type": "list", "elements": "str"},
    "scheduler_ready": {"type": "list", "elements": "str"},
}

#: The driver of nodes that no scheduler knows.
NONE = "none"
#: Driver: the options of the connection that it reads.
DRIVERS: dict[str, tuple[str, ...]] = {
    "slurm": (
        "scheduler_conf",
        "scheduler_login_host",
        "scheduler_url",
        "scheduler_token",
        "scheduler_token_path",
        "scheduler_ca_path",
        "scheduler_user",
        "scheduler_slurm_user",
    ),
    "kubernetes": (
        "scheduler_conf",
        "scheduler_context",
        "scheduler_url",
        "scheduler_token",
        "scheduler_token_path",
        "scheduler_ca_path",
        "scheduler_taints",
        "scheduler_evict",
        "scheduler_ready",
    ),
    "none": (),
}

#: By what a scheduler is told from others: in results, in the data of events, and as options ``known_<key>``.
PLACE = ("cluster", "cluster_host", "scheduler_at")
#: Driver: of those, the ones that lead to one of several schedulers.
LEADS: dict[str, tuple[str, ...]] = {
    "slurm": ("scheduler_conf", "scheduler_login_host", "scheduler_url"),
    "kubernetes": ("scheduler_context", "scheduler_conf", "scheduler_url"),
}

#: What of a node may be lost where its work has to be made to leave: pods that nothing starts again, data on the node's
#: own disk, and all other pods of a gang of which one leaves.
EVICT = ("bare", "local_data", "gang")

#: What ``scheduler_node`` brings about.
STATES = ("held", "resumed", "present")
#: What a task may take a hold for: a run's own work, or a person's. A quarantine is taken over, and never asked for.
HELD_AS = ("work", "keep")
#: Whether a job of ours tries a node before a resume gives it to others: never, where that can be done, or else not at
#: all.
TRIED = (NEVER, AUTO, ALWAYS) = ("never", "auto", "always")
#: What ``scheduler_wait`` waits for.
GOALS = ("drained", "idle")
#: As what ``topology_file`` writes a topology: as a file of Slurm, or as labels of Kubernetes's nodes.
TOPOLOGY_FORMATS = ("conf", "yaml", "labels")
#: The gates that ``gate_idle`` runs in jobs of the scheduler.
IDLE_GATES = ("dcgm_gate",)
