# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the exit status of dcgmi means: a table. PRIVATE to the collection.

dcgmi returns a negative ``dcgmReturn_t``; a shell sees 256 plus it. Runs on nodes: standard library only.
"""

from __future__ import annotations

from typing import NamedTuple

#: What kind of end it was.
OK = "ok"
HARDWARE = "hardware"  # it ran, and found something
SETUP = "setup"  # it could not run here
REPORTED = "reported"  # it ended with an error, and only the document says whether a test failed
BUSY = "busy"  # it could not run now
KILLED = "killed"  # it was cut off
UNKNOWN = "unknown"

_SOURCE = "NVIDIA/DCGM v4.6.0 dcgm_structs.h dcgmReturn_t"


class Exit(NamedTuple):
    kind: str
    words: str
    remedy: str
    source: str = _SOURCE


EXITS: dict[int, Exit] = {
    0: Exit(OK, "ended without an error", "none"),
    124: Exit(KILLED, "was stopped by a time limit", "retest", "coreutils timeout"),
    126: Exit(SETUP, "may not be run", "remediate_config", "POSIX shell"),
    127: Exit(SETUP, "is not installed", "remediate_config", "POSIX shell"),
    137: Exit(KILLED, "was killed", "retest", "POSIX shell: 128 + SIGKILL"),
    143: Exit(KILLED, "was terminated", "retest", "POSIX shell: 128 + SIGTERM"),
    189: Exit(SETUP, "the GPUs are detached from DCGM", "remediate_config"),
    190: Exit(KILLED, "the diagnostic was stopped", "retest"),
    198: Exit(SETUP, "no such test is available", "remediate_config"),
    199: Exit(HARDWARE, "the driver does not answer", "reboot"),
    202: Exit(BUSY, "DCGM is paused", "retest"),
    203: Exit(KILLED, "the diagnostic was killed", "retest"),
    204: Exit(SETUP, "the diagnostic program (nvvs) is not installed", "remediate_config"),
    205: Exit(HARDWARE, "a GPU must be isolated", "field_diag"),
    212: Exit(SETUP, "the driver is too old", "remediate_config"),
    215: Exit(SETUP, "the diagnostic could not be started", "remediate_config"),
    216: Exit(KILLED, "the diagnostic printed no valid JSON", "retest"),
    217: Exit(BUSY, "another diagnostic is running", "retest"),
    222: Exit(BUSY, "the GPUs are in use", "retest"),
    223: Exit(SETUP, "a module of DCGM is not loaded", "remediate_config"),
    226: Exit(REPORTED, "the diagnostic met an error", "remediate_config"),
    227: Exit(SETUP, "root is required", "remediate_config"),
    233: Exit(SETUP, "the GPUs are of different kinds", "remediate_config"),
    235: Exit(SETUP, "the host engine does not answer", "remediate_config"),
    237: Exit(HARDWARE, "a GPU must be reset", "reset_gpu"),
    238: Exit(HARDWARE, "a GPU is lost", "power_cycle"),
    239: Exit(SETUP, "no permission", "remediate_config"),
    242: Exit(SETUP, "the answer has no results", "remediate_config"),
    245: Exit(BUSY, "the host engine timed out", "retest"),
    250: Exit(SETUP, "not supported here", "remediate_config"),
    253: Exit(SETUP, "DCGM failed", "remediate_config"),
    254: Exit(SETUP, "dcgmi failed", "remediate_config"),
    255: Exit(SETUP, "dcgmi does not know an option or a test that it was given", "remediate_config"),
}

#: A second try is worth it while the time for busy machines lasts; a host engine that timed out is tried once more.
ONCE = frozenset({245})


def meaning(rc: int) -> Exit:
    """What this exit status says; a negative one is the signal that ended the process."""
    if rc < 0:
        return Exit(KILLED, f"was ended by signal {-rc}", "retest", "POSIX")
    return EXITS.get(
        rc, Exit(UNKNOWN, f"ended with exit status {rc}", "field_diag", "own rule: an unknown end is none")
    )
