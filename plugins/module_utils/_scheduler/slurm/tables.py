# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is known of Slurm, as data. PRIVATE to the collection.

"measured" rows were seen with Debian's 22.05.8 and a built 26.05.3; "man" rows are from scontrol(1) and sinfo(1) of
those releases; "source" rows from slurmctld of the same tags.
"""

from __future__ import annotations

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    AuthFailed,
    ConfigError,
    FleetError,
    Refused,
    Unreachable,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import Remedies

#: Base states, and the port's word for a node in that state without a drain.
BASE_STATES: dict[str, str] = {
    "IDLE": "idle",  # measured
    "ALLOCATED": "allocated",  # measured
    "MIXED": "mixed",  # measured
    "DOWN": "down",  # measured
    "UNKNOWN": "unknown",  # measured: right after a start of slurmctld
    "ERROR": "unknown",  # source: node_base_state_string
    "FUTURE": "unknown",  # measured: the node vanishes from the listings
}

#: Flags beside the base state: does it stand in the way of taking the node out of the scheduler's hands?
#: A flag that is not listed stands in the way too: a release that we do not know is not guessed at.
FLAGS: dict[str, bool] = {
    "DRAIN": False,  # measured: it is the hold itself
    "NOT_RESPONDING": False,  # measured: what a node that is being reimaged looks like
    "INVALID_REG": False,  # measured: registered with less hardware than slurm.conf says
    "MAINTENANCE": False,  # measured: inside a reservation
    "RESERVED": False,  # measured
    "PLANNED": False,  # man: the backfill scheduler has plans for it; DRAIN overrules them
    "FAIL": False,  # man: an administrator expects it to fail
    "CLOUD": False,  # man
    "DYNAMIC_NORM": False,  # source: parsers.c, how the node came into the cluster
    "EXTERNAL": False,  # source: parsers.c
    "POWERED_DOWN": False,  # man: off already
    "REBOOT_CANCELED": False,  # source: parsers.c, the reboot will not happen
    "COMPLETING": True,  # measured: the epilog of the last job runs
    "REBOOT_REQUESTED": True,  # measured
    "REBOOT_ISSUED": True,  # measured
    "POWERING_DOWN": True,  # man
    "POWERING_UP": True,  # man
    "POWER_DOWN": True,  # man: asked for, not yet begun
    "POWER_UP": True,  # man
    "POWER_DRAIN": True,  # source: parsers.c, will be powered down when it has drained
    "POWER_DOWN_ASAP": True,  # source: parsers.c
    "POWER_DOWN_FORCE": True,  # source: parsers.c
    "BLOCKED": True,  # source: parsers.c, another job's exclusive topology
    "RESUME": True,  # source: parsers.c, being brought back
    "UNDRAIN": True,  # source: parsers.c
    "DYNAMIC_FUTURE": True,  # source: parsers.c
}

#: Releases before 21.08, and sinfo in all, mark flags by a character behind the state.
SUFFIXES: dict[str, str] = {
    "*": "NOT_RESPONDING",  # measured in sinfo
    "^": "REBOOT_ISSUED",  # measured in sinfo
    "@": "REBOOT_REQUESTED",  # man
    "$": "MAINTENANCE",  # man
    "~": "POWERED_DOWN",  # man
    "#": "POWERING_UP",  # man
    "!": "POWER_DOWN",  # man
    "%": "POWERING_DOWN",  # man
    "-": "PLANNED",  # man
}

#: States of a job that is not over yet. man squeue; what is not here has ended, and only COMPLETED has ended well.
NOT_OVER: frozenset[str] = frozenset(
    [
        *("PENDING", "CONFIGURING", "RUNNING", "SUSPENDED", "STOPPED", "COMPLETING", "RESIZING", "SIGNALING"),
        *("STAGE_OUT", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD", "SPECIAL_EXIT"),
    ]
)

#: How the reasons begin for which a job waits that no node could end: what the accounting, a QOS or a partition's
#: limits do not allow. source: job_reason_string
NEVER_STARTS: tuple[str, ...] = (
    *("Account", "Assoc", "InvalidAccount", "InvalidQOS", "QOS", "Partition", "JobHeld", "Licenses", "MaxMem"),
    "Max",
)

#: What slurmctld writes of a node that keeps silent; each other text it writes of one that has registered.
SILENT = "Not responding"

#: What slurmctld writes as Reason by itself, from the first to the last character: a person's text may begin alike.
#: An amount that is written in another form than those measured makes the text somebody's: it is not guessed at.
OWN_REASONS: tuple[str, ...] = (
    SILENT,  # measured: SlurmdTimeout passed
    r"Node unexpectedly rebooted",  # measured
    # measured for RealMemory; source: node_mgr.c for the others
    r"Low (?:RealMemory|TmpDisk|CPUs|socket\*core\*thread count)"
    r"(?: \(reported:\d+ < (?:[\d.]+% of )?configured:\d+\))?",
    # measured; source: gres.c
    r"gres/\S+ count (?:reported lower than configured|too low)(?: \(\d+ < \d+\))?",
)

#: The finding of a node with INVALID_REG whose Reason is a person's, or ours.
REGISTRATION_REFUSED = "it registered with less hardware than slurm.conf says"

REMEDIES = Remedies(
    absent="add the node to the scheduler's configuration (slurm.conf), then run again",
    silent="look at slurmd on the node (systemctl status slurmd) and at slurmctld's log",
    stuck="an epilog that hangs or a process that cannot be killed; look at slurmd's log on the node",
)

#: What the commands say while a controller dies, restarts, or gives over to its backup; it passes. Source: the texts
#: of slurm_errno.c in libslurm, and those of the sockets below it.
FAILOVER = (
    *("standby mode", "Zero Bytes were transmitted", "Communication connection failure"),
    *("Communication shutdown failure", "Message receive failure", "Message send failure"),
    *("Header lengths are longer than data received", "Connection reset by peer", "Connection timed out"),
    *("Transport endpoint is not connected", "Broken pipe"),
    "Unexpected missing socket error",  # measured: munged, on slurmctld's own machine, stopped for a minute
)

#: Errors of the commands: a text they print, the exception, what it means, what to do.
ERRORS: tuple[tuple[str, type[FleetError], str, str], ...] = (
    (
        # measured; source: munge's m_msg_client.c. Nobody has judged a login: nothing was sent to slurmctld.
        "Did you start munged",
        Unreachable,
        "munged does not answer on the machine that runs the Slurm commands",
        "start munged there, and run again",
    ),
    (
        "Unable to contact slurm controller",  # measured
        Unreachable,
        "slurmctld does not answer",
        "check that slurmctld runs and that gpufleet_scheduler_conf names the right cluster",
    ),
    (
        "Connection refused",  # source: slurm_errno.c, beside the one above
        Unreachable,
        "slurmctld does not answer",
        "check that slurmctld runs and that gpufleet_scheduler_conf names the right cluster",
    ),
    (
        "Socket timed out",  # source: slurm_errno.c
        Unreachable,
        "slurmctld is too slow to answer",
        "look at sdiag on the controller, and run again",
    ),
    *(
        (
            text,
            Unreachable,
            "the connection to slurmctld broke, or it is changing over to its backup",
            "check scontrol ping, and run again once one controller is the primary one",
        )
        for text in FAILOVER
    ),
    (
        "Protocol authentication error",  # source: slurm_errno.c
        AuthFailed,
        "Slurm did not accept who we are",
        "check that munged runs here, with the cluster's key and a clock that is right",
    ),
    (
        "authentication",  # source: the auth plugins' own lines
        AuthFailed,
        "Slurm did not accept who we are",
        "check that munged runs here, with the cluster's key and a clock that is right",
    ),
    (
        "Invalid user id",  # source: slurm_errno.c, ESLURM_USER_ID_MISSING
        AuthFailed,
        "this user may not change nodes",
        "run as SlurmUser, root or an operator (sacctmgr modify user ... set adminlevel=Operator)",
    ),
    (
        "Access/permission denied",  # source: slurm_errno.c
        AuthFailed,
        "this user may not change nodes",
        "run as SlurmUser, root or an operator (sacctmgr modify user ... set adminlevel=Operator)",
    ),
    (
        "Unable to process configuration file",  # measured
        ConfigError,
        "the commands cannot read slurm.conf",
        "set gpufleet_scheduler_conf to the cluster's slurm.conf on the machine that runs the commands",
    ),
    (
        "Invalid node name",  # measured
        Refused,
        "Slurm does not know this node",
        "set gpufleet_scheduler_node to the NodeName in slurm.conf",
    ),
    (
        "Invalid node state",  # measured: "specified" in 22.05, "transition" in 26.05
        Refused,
        "Slurm does not let the node change to that state from where it is",
        "look at scontrol show node",
    ),
)
