# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node of our own boot server is doing, as tables. PRIVATE to the collection.

There is no machinery behind it: what a node boots is a file, and what it does follows from that file, from the note of
who wrote it, and from what the node's loader has asked for since.
"""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.cells import BOOT, DONE, Cell
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import (
    DEPLOYED,
    DEPLOYING,
    OTHER,
    READY,
)

ASSIGN, CONFIRM, CLEAR = "assign", "confirm", "clear"

#: It boots nothing from here; or what somebody has written past us.
NO_ENTRY, SOMEBODYS = "no entry", "entry of somebody's"
#: Ordered; asked for since; could not be loaded, as somebody says; was booted since.
SET, ASKED, NOT_LOADED, BOOTED = "entry set", "asked for", "not loaded", "booted"
#: A person keeps it from booting from here.
OUT = "kept out"

STATES: Mapping[str, str] = {
    NO_ENTRY: READY,
    SOMEBODYS: DEPLOYED,
    SET: DEPLOYING,
    ASKED: DEPLOYING,
    # Anybody on the boot network could have said so: it is told, and decides nothing.
    NOT_LOADED: DEPLOYING,
    BOOTED: DEPLOYED,
    OUT: OTHER,
}
_WITH_ENTRY = (SOMEBODYS, SET, ASKED, NOT_LOADED, BOOTED)
STEPS: Mapping[str, Mapping[str, Cell]] = {
    READY: dict.fromkeys((NO_ENTRY, *_WITH_ENTRY), DONE),
    DEPLOYED: {
        NO_ENTRY: ASSIGN,
        SOMEBODYS: ASSIGN,
        SET: ("image_current", BOOT, ASSIGN),
        # That its loader asked says that it booted from the network, once somebody has had it booted.
        ASKED: ("image_current", ("booted", CONFIRM, BOOT), ASSIGN),
        NOT_LOADED: ("image_current", BOOT, ASSIGN),
        BOOTED: ("image_current", DONE, ASSIGN),
    },
    "released": {NO_ENTRY: DONE, **dict.fromkeys(_WITH_ENTRY, CLEAR)},
}
LEADS_TO: Mapping[str, str] = {ASSIGN: SET, CONFIRM: BOOTED, CLEAR: NO_ENTRY}
DESTRUCTIVE = frozenset({ASSIGN, CLEAR})
#: Whose a node is rests on these.
ORDERS: Mapping[str, str] = {ASSIGN: DEPLOYED, CLEAR: "released"}

#: Seconds by which the clocks of the controller and of the boot server may seem to differ where one command is between
#: two looks at them.
SLACK = 2.0
