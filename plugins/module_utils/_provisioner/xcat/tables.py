# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""xCAT's states and ours, and what leads on from each. PRIVATE to the collection.

xCAT keeps the last word that a node has told of itself (``status``) and since when (``statustime``). Such a word is
about a deployment of ours only where it is newer than the order; :func:`native` says so in one word a node.
"""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.cells import BOOT, DONE, STOP, WAIT
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import (
    DEPLOYED,
    DEPLOYING,
    FAILED,
    INSPECTING,
    OTHER,
    READY,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.unread import UNREADABLE

#: Fields of a record that no two nodes may share, and the variable that says them.
SAID_BY: Mapping[str, str] = {"mac": "gpufleet_boot_mac", "bmc": "gpufleet_bmc_address", "ip": "ip in enroll_driver"}

#: ``mgt`` of those whose BMC is told to boot from the network; all others boot from it by themselves.
BY_RSETBOOT = ("ipmi", "openbmc")

DEPLOY, CLEAR = "deploy", "clear"
#: The word of a note that says that its order was given. News of the node says so as well, and spares it.
GIVEN = "given"

#: Words of ``status`` (Schema.pm, GlobalDef.pm) on the way of a deployment.
_UNDER_WAY = ("powering-on", "installing", "netbooting", "booting", "postbooting")
#: Words of which nobody can tell, by themselves, whether a system runs there: a monitor or rpower wrote them.
_SAYS_NOTHING = ("powering-off", "powering-on", "unreachable")
_UP = ("booted", "alive")
_LOOKED_AT = ("discovering", "configuring")
#: What xCAT's own small system says of a machine that it has looked at stands until somebody boots something else.
_SEEN = ("bmcready", "discovered", "configured")
_IDLE = ("", "defined", "standingby", *_SEEN)
#: First words of ``currstate`` of a node that boots nothing of an image.
_NOT_SET_UP = ("", "offline", "standby")
#: Of one that boots nothing from the network at all: its own disk is no matter of xCAT's.
BOOTS_NOTHING = (*_NOT_SET_UP, "boot")
#: First words of ``currstate`` with which a person has the node in xCAT's own small system.
_BY_HAND = ("shell", "runcmd", "runimage")

#: Of native states that are no word of xCAT's: NOTED, our note stands and the order was not given; ORDERED, it was
#: given and nothing newer is told; NOT_INSTALLED, the node says that it has booted, and its installation is still to
#: come; DOWN, it was deployed by somebody, and nothing tells of a system now.
NOTED, ORDERED, NOT_INSTALLED, DOWN, DEFINED, BY_HAND = (
    "noted",
    "ordered",
    "not installed",
    "down",
    "defined",
    "shell",
)

#: What nobody has told anything by since our note.
NO_NEWS = (NOTED, DEFINED, UNREADABLE)

#: States of a node for which an order of somebody's stands, and that is not there yet.
ORDERED_STATES = (ORDERED, NOT_INSTALLED, *_UNDER_WAY, "powering-off", "unreachable", "standingby")

#: Of these a switch of the power would end what is going on. Of one that is going off or on it is what was asked for.
AT_WORK = frozenset({ORDERED, "installing", "netbooting", "postbooting", *_LOOKED_AT})

STATES: Mapping[str, str] = {
    DEFINED: READY,
    NOTED: READY,
    **dict.fromkeys(_LOOKED_AT, INSPECTING),
    **dict.fromkeys(ORDERED_STATES, DEPLOYING),
    **dict.fromkeys(_UP, DEPLOYED),
    DOWN: DEPLOYED,
    "failed": FAILED,
    BY_HAND: OTHER,
}

STEPS: Mapping[str, Mapping[str, str | tuple[str, str, str]]] = {
    READY: {
        **dict.fromkeys((DEFINED, NOTED, *ORDERED_STATES, *_UP, DOWN, "failed"), DONE),
        **dict.fromkeys(_LOOKED_AT, WAIT),
        BY_HAND: STOP,
    },
    DEPLOYED: {
        **dict.fromkeys((DEFINED, NOTED, DOWN, "failed"), DEPLOY),
        **dict.fromkeys(_LOOKED_AT, WAIT),
        **dict.fromkeys(ORDERED_STATES, ("image_current", WAIT, DEPLOY)),
        **dict.fromkeys(_UP, ("image_current", DONE, DEPLOY)),
        BY_HAND: STOP,
    },
    "released": {
        DEFINED: DONE,
        **dict.fromkeys(_LOOKED_AT, WAIT),
        **dict.fromkeys((NOTED, *ORDERED_STATES, *_UP, DOWN, "failed"), CLEAR),
        BY_HAND: STOP,
    },
}
#: Where others boot the machine: an order is complete once the record says so, and its boot is to come until the node
#: tells of it.
STEPS_BY_OTHERS = {**STEPS, DEPLOYED: {**STEPS[DEPLOYED], ORDERED: ("image_current", BOOT, DEPLOY)}}
LEADS_TO = {DEPLOY: ORDERED, CLEAR: DEFINED}
DESTRUCTIVE = frozenset({DEPLOY, CLEAR})
ORDERS = {DEPLOY: "deployed", CLEAR: "released"}

#: provmethod of an osimage -> the format of an image of ours. ``statelite`` is none: such a node keeps some files.
FORMATS = {"install": "whole-disk", "netboot": "ramdisk"}


def native(record: Mapping[str, str], order: Mapping[str, str]) -> str:
    """What this node is doing, by its record and the order of ours that is noted in it."""
    status, method = record.get("status", ""), record.get("provmethod", "")
    current = record.get("currstate", "").partition(" ")[0].partition("=")[0]
    if current in _BY_HAND:
        return BY_HAND
    is_news = record.get("statustime", "") != order.get("since", "")
    # Whoever ordered another image there since has made our note void.
    if order.get("order") == DEPLOY and method in ("", order.get("named")):
        was_given = GIVEN in order or is_news
        return _ordered(status, current, is_news) if method and was_given else NOTED
    if order.get("order") == CLEAR and not method and not is_news:
        return DEFINED
    if status in _IDLE:  # a site can switch these words off (site.nodestatus): what was set up there is somebody's
        return DOWN if method and status != "standingby" and current not in _NOT_SET_UP else DEFINED
    if status in _SAYS_NOTHING:
        return DOWN if method else DEFINED
    return status


def _ordered(status: str, current: str, is_news: bool) -> str:
    """Under an order of ours."""
    if not is_news or status in ("", "defined", *_SEEN):
        return ORDERED
    # The installer has xCAT change `currstate` to `boot` when it is done; who booted past it still has `install ...`.
    return NOT_INSTALLED if status in _UP and current == "install" else status
