# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is known of slurmrestd, as data. PRIVATE to the collection.

"measured" rows were seen with Debian's 22.05.8 (v0.0.38) and a built 26.05.3 (v0.0.42 to v0.0.45); "source" rows are
from slurm_errno.h and the data parsers of the releases between.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    AuthFailed,
    FleetError,
    Refused,
    Unreachable,
)

#: Versions of the REST API whose shapes are read here, the best one first. No single one goes from 23.11 to 26.05.
VERSIONS: Mapping[str, str] = {
    "v0.0.45": "26.05, measured",
    "v0.0.44": "25.11 and 26.05, measured with 26.05",
    "v0.0.43": "25.05 to 26.05, measured with 26.05",
    "v0.0.42": "24.11 to 26.05, measured with 26.05",
    "v0.0.41": "24.05 to 25.05, source",
    "v0.0.40": "23.11 to 25.05, source",
    "v0.0.39": "23.02 to 24.05, source",
    "v0.0.38": "22.05, measured: it reads nodes and writes none",
}

#: Words of a job that has ended, and of one that waits for nodes; with no other word beside them it is on no node.
#: source: job_state_string and the data parser's flags of a job's state
OFF_NODES: frozenset[str] = frozenset(
    [
        *("PENDING", "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL"),
        *("DEADLINE", "OUT_OF_MEMORY", "REVOKED", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT"),
        *("LAUNCH_FAILED", "RECONFIG_FAIL", "UPDATE_DB"),
    ]
)

#: Of a job that is on nodes, whatever else is said of it. source: job_state_string
ON_NODES: frozenset[str] = frozenset({"RUNNING", "SUSPENDED", "CONFIGURING"})

#: What slurmdbd calls the levels that are shown everything and may change nodes. source: data parser, ADMIN_LVL
LEVELS: frozenset[str] = frozenset({"Operator", "Administrator"})

#: In ``warnings`` of an answer that did something else than what was asked. measured
UNKNOWN_FIELD = "unknown field"


class Meaning(NamedTuple):
    kind: type[FleetError]
    words: str
    do: str


_AWAY = Meaning(
    Unreachable,
    "slurmctld does not answer slurmrestd",
    "check slurmctld from the machine that slurmrestd runs on: scontrol ping",
)
_LOGIN = Meaning(
    AuthFailed,
    "Slurm refused the token",
    "check that the token is one of this cluster, that it has not ended, and that gpufleet_scheduler_user is its user",
)

#: Numbers of ``errors``: ``error_number`` from v0.0.39 on, ``errno`` in v0.0.38.
NUMBERS: Mapping[int, Meaning] = {
    1007: _LOGIN,  # measured: a broken token and one that has ended alike
    1800: _AWAY,  # measured
    **dict.fromkeys((1001, 1002, 1003, 1004, 1005, 1800, 1801, 1802, 5004), _AWAY),  # source: the sockets' errors
    2002: Meaning(
        AuthFailed, "this user may not change nodes", "use a token of SlurmUser, root or an operator"
    ),  # source
    2010: Meaning(
        AuthFailed, "this user may not change nodes", "use a token of SlurmUser, root or an operator"
    ),  # measured
    2018: Meaning(
        Refused,
        "Slurm does not know this node",  # measured
        "set gpufleet_scheduler_node to the NodeName in slurm.conf",
    ),
    **dict.fromkeys(
        (2017, 2180),  # measured: 2180 in 26.05; source: 2017 before
        Meaning(
            Refused,
            "Slurm does not let the node change to that state from where it is",
            "look at scontrol show node",
        ),
    ),
    # measured with 22.05: an outage of slurmctld and a token that it refuses alike, and neither is told
    -1: Meaning(
        Unreachable,
        "slurmrestd got no usable answer from slurmctld, which does not run, or has refused the token",
        "check slurmctld with scontrol ping, then the token: its log names one that it refuses",
    ),
}
