# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node of Warewulf is doing, as tables. PRIVATE to the collection.

Warewulf knows no states. Which one a node is in follows from its record, from our note there, and from what the node
asked the server for since. Sources: ``internal/pkg/warewulfd/{provision,parser,helpers,status}.go`` of 4.6.5 and 4.7.0.
"""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.cells import BOOT, DONE, WAIT, Cell
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import (
    DEPLOYED,
    DEPLOYING,
    FAILED,
    OTHER,
    READY,
)

ASSIGN, CONFIRM, CLEAR = "assign", "confirm", "clear"

#: It has no image; or the one of its profiles, which nobody has given to it; or one without our note.
NO_IMAGE, OF_PROFILE, SOMEBODYS = "no image", "image of its profile", "image of somebody's"
#: An order of ours that is not complete yet, over nothing and over another one.
BEGUN, BEGUN_OVER = "image being set", "image being set over another"
#: Ordered, and asked for nothing since; asks; has asked for the last part; was booted.
SET, LOADING, SENT, BOOTED = "image set", "loading", "all sent", "booted"
NOT_SERVED = "not served"
#: It takes whichever unknown machine boots next.
DISCOVERABLE = "discoverable"

STATES: Mapping[str, str] = {
    NO_IMAGE: READY,
    OF_PROFILE: READY,
    BEGUN: READY,
    BEGUN_OVER: DEPLOYED,
    SOMEBODYS: DEPLOYED,
    SET: DEPLOYING,
    LOADING: DEPLOYING,
    SENT: DEPLOYING,
    BOOTED: DEPLOYED,
    NOT_SERVED: FAILED,
    DISCOVERABLE: OTHER,
}

#: The last parts that a node asks for, as 4.7 spells them and as 4.6 does; all other stages come before them. For some
#: 4.6 has no word at all.
LAST = frozenset({"system", "runtime", "system_overlay", "runtime_overlay"})
#: A node boots without this part: its loader ignores that there is none, and what runs asks again.
SPARED = frozenset({"runtime", "runtime_overlay"})
#: Stand in the place of what was sent.
FAULTS = frozenset({"BAD_ASSET", "BAD_REQUEST", "NOT_FOUND"})
NOT_FOUND = "NOT_FOUND"
#: Seconds that two clocks, of which one tells whole seconds, may seem to differ; no machine starts in that time.
SLACK = 2.0

_WITH_IMAGE = (BEGUN, BEGUN_OVER, SOMEBODYS, SET, LOADING, SENT, BOOTED, NOT_SERVED)
STEPS: Mapping[str, Mapping[str, Cell]] = {
    READY: dict.fromkeys((NO_IMAGE, OF_PROFILE, *_WITH_IMAGE), DONE),
    DEPLOYED: {
        NO_IMAGE: ASSIGN,
        OF_PROFILE: ASSIGN,
        BEGUN: ASSIGN,
        BEGUN_OVER: ASSIGN,
        SOMEBODYS: ASSIGN,
        SET: ("image_current", BOOT, ASSIGN),
        LOADING: ("image_current", WAIT, ASSIGN),
        # What ran before the order asks for the last part as well, every minute: by itself that shows no boot.
        SENT: ("image_current", ("booted", CONFIRM, BOOT), ASSIGN),
        BOOTED: ("image_current", DONE, ASSIGN),
        NOT_SERVED: ASSIGN,
    },
    "released": {NO_IMAGE: DONE, OF_PROFILE: DONE, **dict.fromkeys(_WITH_IMAGE, CLEAR)},
}
LEADS_TO: Mapping[str, str] = {ASSIGN: SET, CONFIRM: BOOTED, CLEAR: NO_IMAGE}
DESTRUCTIVE = frozenset({ASSIGN, CLEAR})
#: Whose a node is rests on these.
ORDERS: Mapping[str, str] = {ASSIGN: DEPLOYED, CLEAR: "released"}
