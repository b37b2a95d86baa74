# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""MAAS's states, as tables by their numbers. PRIVATE to the collection.

The names of 13, 18 and 20 break the pattern of the others and may change with a release; the numbers do not.
Sources: NODE_STATUS and NODE_TRANSITIONS in ``maasserver/enum.py`` and ``maasserver/node_status.py`` of MAAS 3.7.3,
and its answers to each operation in each state.
"""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.cells import DONE, WAIT, Cell, StepTable
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import (
    CLEANING,
    DEPLOYED,
    DEPLOYING,
    ENROLLED,
    FAILED,
    INSPECTING,
    OTHER,
    READY,
    RELEASING,
)

COMMISSION, DEPLOY, RELEASE, TEST = "commission", "deploy", "release", "test"
RESCUE, UNRESCUE = "rescue_mode", "exit_rescue_mode"
ABORT, OVERRIDE = "abort", "override_failed_testing"

#: number -> (its name, our state)
NUMBERS: Mapping[int, tuple[str, str]] = {
    0: ("New", ENROLLED),
    1: ("Commissioning", INSPECTING),
    2: ("Failed commissioning", FAILED),
    3: ("Missing", OTHER),
    4: ("Ready", READY),
    5: ("Reserved", OTHER),
    6: ("Deployed", DEPLOYED),
    7: ("Retired", OTHER),
    8: ("Broken", OTHER),
    9: ("Deploying", DEPLOYING),
    10: ("Allocated", READY),
    11: ("Failed deployment", FAILED),
    12: ("Releasing", RELEASING),
    13: ("Releasing failed", FAILED),
    14: ("Disk erasing", CLEANING),
    15: ("Failed disk erasing", FAILED),
    16: ("Rescue mode", OTHER),
    17: ("Entering rescue mode", OTHER),
    18: ("Failed to enter rescue mode", FAILED),
    19: ("Exiting rescue mode", OTHER),
    20: ("Failed to exit rescue mode", FAILED),
    21: ("Testing", INSPECTING),
    22: ("Failed testing", FAILED),
}
NEW, READY_NUMBER, DEPLOYED_NUMBER, BROKEN, DEPLOYING_NUMBER, DEPLOY_FAILED = 0, 4, 6, 8, 9, 11
FAILED_TESTING = 22

#: goal -> number -> cell; what is not listed needs a person.
_STEPS: Mapping[str, Mapping[int, Cell]] = {
    # A machine that has gone on to be deployed was ready before.
    READY: {
        0: COMMISSION,
        1: WAIT,
        2: COMMISSION,
        4: DONE,
        6: DONE,
        9: DONE,
        10: DONE,
        11: DONE,
        12: WAIT,
        13: RELEASE,
        14: WAIT,
        15: RELEASE,
        19: WAIT,
        21: WAIT,
        22: ("overridden", OVERRIDE, TEST),  # commissioning is refused from there
    },
    DEPLOYED: {
        0: COMMISSION,
        1: WAIT,
        2: COMMISSION,
        4: DEPLOY,
        6: ("image_current", DONE, RELEASE),
        9: WAIT,
        10: DEPLOY,
        11: RELEASE,  # deploying from there is refused with 409
        12: WAIT,
        13: RELEASE,
        14: WAIT,
        15: RELEASE,
        19: WAIT,
        21: WAIT,
        22: ("overridden", OVERRIDE, TEST),
    },
    "released": {
        0: DONE,
        1: DONE,
        2: DONE,
        4: DONE,
        6: RELEASE,
        9: RELEASE,
        10: RELEASE,
        11: RELEASE,
        12: WAIT,
        13: RELEASE,
        14: WAIT,
        15: RELEASE,
        19: WAIT,
        21: WAIT,
    },
}

STATES: Mapping[str, str] = dict(NUMBERS.values())
STEPS: Mapping[str, Mapping[str, Cell]] = {
    goal: {NUMBERS[number][0]: cell for number, cell in row.items()} for goal, row in _STEPS.items()
}
LEADS_TO: Mapping[str, str] = {
    COMMISSION: "Commissioning",
    DEPLOY: "Deploying",
    RELEASE: "Releasing",
    TEST: "Testing",
    RESCUE: "Entering rescue mode",
    UNRESCUE: "Exiting rescue mode",
    ABORT: "Allocated",
    OVERRIDE: "Ready",
}
#: Commissioning, testing and a rescue boot the machine from the network, whatever runs on it.
DESTRUCTIVE = frozenset({COMMISSION, DEPLOY, RELEASE, TEST, RESCUE, UNRESCUE, ABORT, OVERRIDE})

#: Commissioning is refused of one that is deployed, or has failed its tests; testing of one that is New.
_WORKS: Mapping[str, Mapping[int, Cell]] = {
    "inspected": {0: COMMISSION, 1: WAIT, 2: COMMISSION, 4: COMMISSION},
    "tested": {2: TEST, 4: TEST, 6: TEST, 10: TEST, 11: TEST, 21: WAIT, 22: TEST},
    "rescued": {4: RESCUE, 6: RESCUE, 16: DONE, 17: WAIT, 18: RESCUE, 20: RESCUE},
    # Of a deployment alone: what commissions is New afterwards, whatever it was; what erases has half a disk left.
    "aborted": {4: DONE, 6: DONE, 9: ABORT, 10: DONE, 11: DONE},
    "unrescued": {4: DONE, 6: DONE, 16: UNRESCUE, 18: UNRESCUE, 19: WAIT, 20: UNRESCUE},
}
WORKS: StepTable = {work: {NUMBERS[number][0]: cell for number, cell in row.items()} for work, row in _WORKS.items()}
BUSY = frozenset(NUMBERS[number][0] for number in (1, 9, 12, 14, 17, 19, 21))
#: New, Ready, Deployed, Allocated, Rescue mode: neither missing, broken or retired, nor somebody's by a reservation.
SETTLED = frozenset(NUMBERS[number][0] for number in (0, 4, 6, 10, 16))
#: A rescue, or a test, of one that was Ready has nothing on it.
CARRYING = frozenset(NUMBERS[number][0] for number in (16, 17, 18, 19, 20, 21, 22))

#: Whose a machine is rests on these.
ORDERS: Mapping[str, str] = {DEPLOY: DEPLOYED, RELEASE: "released"}

#: In these it does nothing to a machine by itself, and has nothing on it.
AT_REST = frozenset({0, 2, 4, FAILED_TESTING})
#: Only in these does MAAS lock.
LOCKABLE = frozenset({6, 9})
#: Only in these has a machine an owner, without which MAAS takes no annotation.
ANNOTATABLE = frozenset({6, 9, 10})

#: Power types by which MAAS switches nothing.
BY_HAND = ("manual", "", None)

#: Options of an operation: key of the task's ``driver`` -> whether MAAS reads it as a boolean.
COMMISSION_OPTIONS: Mapping[str, bool] = {
    "enable_ssh": True,
    "skip_bmc_config": True,
    "skip_networking": True,
    "skip_storage": True,
    "commissioning_scripts": False,
    "testing_scripts": False,
}
TEST_OPTIONS: Mapping[str, bool] = {"enable_ssh": True, "testing_scripts": False}
DEPLOY_OPTIONS: Mapping[str, bool] = {"hwe_kernel": False, "ephemeral_deploy": True, "enable_hw_sync": True}
#: That it goes on though its tests have failed: taken with a reason that is recorded, and never without.
OVERRIDES: Mapping[str, bool] = {OVERRIDE: True}
#: How a release erases, where it is to.
ERASE_OPTIONS: Mapping[str, bool] = {"secure_erase": True, "quick_erase": True}
OTHER_EXTRAS = frozenset(
    {
        *("distro_series", "power_parameters", "owners", "filetype", "base_image", "tags"),
        *("is_dpu", "dpu_host", "min_hwe_kernel"),
    }
)
LISTS = ("owners", "tags")
#: What is begun by booting the machine, for which it must have power.
BOOTED = frozenset({COMMISSION, DEPLOY, TEST, RESCUE, UNRESCUE})

#: Our properties -> MAAS's field, and where it stands in a machine's record.
PROPERTIES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "cpu_arch": ("architecture", ("architecture",)),
    "pool": ("pool", ("pool", "name")),
    "zone": ("zone", ("zone", "name")),
    "domain": ("domain", ("domain", "name")),
}
#: Facts that other provisioners are told, and MAAS finds out by itself.
FOUND_OUT = frozenset({"cpus", "memory_mb", "local_gb"})
#: And where what the option ``driver`` says of a machine stands in its record.
OWN_FIELDS: Mapping[str, tuple[str, ...]] = {"min_hwe_kernel": ("min_hwe_kernel",)}
#: CPU architecture as Ironic and uname call it -> MAAS.
ARCHITECTURES: Mapping[str, str] = {
    "x86_64": "amd64/generic",
    "amd64": "amd64/generic",
    "aarch64": "arm64/generic",
    "arm64": "arm64/generic",
}

#: A machine's commissioning_status: maasserver/enum.py, SCRIPT_STATUS.
INSPECTIONS: Mapping[int, str] = {2: "passed", 3: "failed", 4: "failed", 5: "failed"}
