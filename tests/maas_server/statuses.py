# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Statuses and what leads from one to another: by number, as in MAAS 3.7.3.

Sources: NODE_STATUS and NODE_STATUS_CHOICES in maasserver/enum.py, NODE_TRANSITIONS in maasserver/node_status.py.
"""

from __future__ import annotations

NAMES: dict[int, str] = {
    0: "New",
    1: "Commissioning",
    2: "Failed commissioning",
    3: "Missing",
    4: "Ready",
    5: "Reserved",
    6: "Deployed",
    7: "Retired",
    8: "Broken",
    9: "Deploying",
    10: "Allocated",
    11: "Failed deployment",
    12: "Releasing",
    13: "Releasing failed",
    14: "Disk erasing",
    15: "Failed disk erasing",
    16: "Rescue mode",
    17: "Entering rescue mode",
    18: "Failed to enter rescue mode",
    19: "Exiting rescue mode",
    20: "Failed to exit rescue mode",
    21: "Testing",
    22: "Failed testing",
}

#: What the status filter takes: the enum's names in lower case, neither numbers nor display names.
WORDS: dict[str, int] = {
    "new": 0,
    "commissioning": 1,
    "failed_commissioning": 2,
    "missing": 3,
    "ready": 4,
    "reserved": 5,
    "deployed": 6,
    "retired": 7,
    "broken": 8,
    "deploying": 9,
    "allocated": 10,
    "failed_deployment": 11,
    "releasing": 12,
    "failed_releasing": 13,
    "disk_erasing": 14,
    "failed_disk_erasing": 15,
    "rescue_mode": 16,
    "entering_rescue_mode": 17,
    "failed_entering_rescue_mode": 18,
    "exiting_rescue_mode": 19,
    "failed_exiting_rescue_mode": 20,
    "testing": 21,
    "failed_testing": 22,
}

NEW, COMMISSIONING, FAILED_COMMISSIONING, READY, DEPLOYED, BROKEN = 0, 1, 2, 4, 6, 8
DEPLOYING, ALLOCATED, FAILED_DEPLOYMENT, RELEASING, FAILED_RELEASING = 9, 10, 11, 12, 13
DISK_ERASING, FAILED_DISK_ERASING, RESCUE_MODE, TESTING, FAILED_TESTING = 14, 15, 16, 21, 22
ENTERING_RESCUE_MODE, FAILED_RESCUE_MODE, EXITING_RESCUE_MODE, FAILED_EXIT = 17, 18, 19, 20

TRANSITIONS: dict[int, frozenset[int]] = {
    NEW: frozenset({1, 3, 4, 7, 8, 17, 21}),
    COMMISSIONING: frozenset({0, 2, 3, 4, 7, 8, 21}),
    FAILED_COMMISSIONING: frozenset({0, 1, 3, 7, 8, 17, 21}),
    3: frozenset({0, 1, 4, 7, 8}),
    READY: frozenset({1, 3, 5, 7, 8, 10, 17, 21}),
    5: frozenset({4, 7, 8, 10, 12, 14}),
    DEPLOYED: frozenset({3, 4, 7, 8, 10, 12, 14, 17, 21}),
    7: frozenset({0, 3, 4}),
    BROKEN: frozenset({1, 4, 6, 7, 12, 14, 17, 21}),
    DEPLOYING: frozenset({3, 4, 6, 7, 8, 10, 11, 12, 14}),
    ALLOCATED: frozenset({3, 4, 7, 8, 9, 12, 14, 17, 21}),
    FAILED_DEPLOYMENT: frozenset({3, 4, 7, 8, 10, 12, 14, 17, 21}),
    RELEASING: frozenset({0, 4, 13, 15, 8, 3, 7}),
    FAILED_RELEASING: frozenset({4, 7, 8, 12, 14, 17}),
    DISK_ERASING: frozenset({4, 8, 12, 15, 3, 7}),
    FAILED_DISK_ERASING: frozenset({4, 7, 8, 12, 14, 17}),
    RESCUE_MODE: frozenset({4, 6, 8, 19}),
    17: frozenset({16, 18}),
    18: frozenset({8, 16, 17, 19}),
    19: frozenset({0, 4, 6, 8, 20}),
    20: frozenset({8, 17, 19}),
    TESTING: frozenset({0, 2, 4, 6, 8, 22}),
    FAILED_TESTING: frozenset({1, 4, 6, 8, 17, 21}),
}

COMMISSION_FROM = frozenset({NEW, READY, FAILED_COMMISSIONING, BROKEN})
TEST_FROM = frozenset({READY, ALLOCATED, DEPLOYED, BROKEN, FAILED_COMMISSIONING, FAILED_DEPLOYMENT, FAILED_TESTING})
RELEASE_FROM = frozenset({5, DEPLOYED, BROKEN, DEPLOYING, ALLOCATED, FAILED_DEPLOYMENT, 13, 15})
RELEASE_IS_NOTHING = frozenset({READY, RELEASING})
LOCKABLE = frozenset({DEPLOYED, DEPLOYING})
#: abort: from -> to
ABORT: dict[int, int] = {COMMISSIONING: NEW, DEPLOYING: ALLOCATED, DISK_ERASING: FAILED_DISK_ERASING, TESTING: READY}
