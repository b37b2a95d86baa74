# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""States of a node at BCM and ours, and what leads on from each. PRIVATE to the collection.

BCM keeps no state of a deployment. What a node is doing follows from three things: its status, which its installer and
its daemon send; ``nextinstallmode``, which the installer empties once it has done that installation; and the note of
our order. :func:`native` says so in one word a node.
"""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.cells import BOOT, DONE, STOP, WAIT, Cell
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import (
    DEPLOYED,
    DEPLOYING,
    FAILED,
    OTHER,
    READY,
)

INSTALL, CONFIRM, CLEAR = "install", "confirm", "clear"
#: What a note of ours says of its node: entered by us, given back, ordered.
ENTERED, GIVEN_BACK, ORDER = "entered", "clear", "install"
FULL = "FULL"
#: Modes of a boot after which a node has what it had: an installer passes each of them, at every boot.
BOOTS = ("AUTO", "NOSYNC")
#: Of an installer's log that tells of a node, and not in which mode it was installed.
NO_MODE = "?"

#: Words of BCM's (administrator manual, 5.5 and 10.2.2), in lower case.
UP_WORD = "up"
UNDER_WAY = ("booting", "installing", "installer_callinginit", "installer_rebooting")
FAILING = ("installer_failed", "installer_unreachable")
_BURNING = ("burning", "installer_burning")
#: What the installer says beside ``INSTALLING`` where it goes on at a person's word alone.
_ASKS = ("waiting for user input", "entered maintenance mode")

#: DEFINED, nothing is deployed there; ORDERED, our order stands and the installer has not begun; CONSUMED, it has
#: emptied nextinstallmode, and the system is not up yet; INSTALLED, it is up, and nobody has noted so yet;
#: NOT_INSTALLED, the installer's log knows of no such installation; UP and DOWN, of what was deployed by whomever.
DEFINED, ORDERED, CONSUMED, INSTALLED, NOT_INSTALLED, UP, DOWN, FAILED_WORD, BY_HAND = (
    "defined",
    "ordered",
    "consumed",
    "installed",
    "not installed",
    "up",
    "down",
    "failed",
    "in a person's hands",
)

STATES: Mapping[str, str] = {
    DEFINED: READY,
    **dict.fromkeys((ORDERED, *UNDER_WAY, CONSUMED), DEPLOYING),
    **dict.fromkeys((INSTALLED, UP, DOWN), DEPLOYED),
    **dict.fromkeys((NOT_INSTALLED, FAILED_WORD), FAILED),
    BY_HAND: OTHER,
}

_AT_REST = (ORDERED, CONSUMED, INSTALLED, NOT_INSTALLED, UP, DOWN, FAILED_WORD)
STEPS: Mapping[str, Mapping[str, Cell]] = {
    READY: {**dict.fromkeys((DEFINED, *_AT_REST, *UNDER_WAY), DONE), BY_HAND: STOP},
    DEPLOYED: {
        **dict.fromkeys((DEFINED, NOT_INSTALLED, FAILED_WORD), INSTALL),
        # An installer that is at work would empty the nextinstallmode of an order that came after it.
        **dict.fromkeys(UNDER_WAY, WAIT),
        ORDERED: ("image_current", BOOT, INSTALL),
        **dict.fromkeys((CONSUMED, DOWN), ("image_current", WAIT, INSTALL)),
        INSTALLED: ("image_current", CONFIRM, INSTALL),
        UP: ("image_current", DONE, INSTALL),
        BY_HAND: STOP,
    },
    "released": {
        DEFINED: DONE,
        **dict.fromkeys(UNDER_WAY, WAIT),
        **dict.fromkeys(_AT_REST, CLEAR),
        BY_HAND: STOP,
    },
}
LEADS_TO: Mapping[str, str] = {INSTALL: ORDERED, CONFIRM: UP, CLEAR: DEFINED}
DESTRUCTIVE = frozenset({INSTALL, CLEAR})
#: Whose a node is rests on these.
ORDERS: Mapping[str, str] = {INSTALL: DEPLOYED, CLEAR: "released"}


def is_pending(record: Mapping[str, str]) -> bool:
    """Is the next boot to install it anew?"""
    return record.get("nextinstallmode", "").upper() == FULL


def is_left(note: Mapping[str, str]) -> bool:
    """Did we leave it with nothing deployed there?"""
    return note.get("order") in (ENTERED, GIVEN_BACK)


def _is_as_left(record: Mapping[str, str], note: Mapping[str, str], log: str | None) -> bool:
    """Has nobody ordered or installed anything there since? One that was just entered has no disk to boot, so that
    its installer installs it whatever its mode is called."""
    if record.get("nextinstallmode") or note.get("image", "") not in ("", record.get("softwareimage")):
        return False
    return not log or (note.get("order") == GIVEN_BACK and log in BOOTS)


def is_ours(record: Mapping[str, str], note: Mapping[str, str]) -> bool:
    """Is what is set to run there what our note ordered? Whoever gave it another image since has made the note void."""
    return note.get("order") == ORDER and record.get("softwareimage") == note.get("named")


def native(record: Mapping[str, str], note: Mapping[str, str], log: str | None) -> str:
    """What this node is doing.

    :param log: in which mode the installer says that it has installed it since our note; ``?`` where it tells of the
        node and of no mode, empty where it tells nothing of it; None where nobody can tell.
    """
    status = record.get("status", "")
    if status in _BURNING or (status == "installing" and any(word in record.get("told", "") for word in _ASKS)):
        return BY_HAND
    if not is_ours(record, note):
        return _of_others(record, note, log)
    if note.get("done"):
        return FAILED_WORD if status in FAILING else status if status in UNDER_WAY else _at_work(status)
    return _ordered(record, note, log)


def _ordered(record: Mapping[str, str], note: Mapping[str, str], log: str | None) -> str:
    """Under an order of ours whose end nobody has noted."""
    status, pending = record.get("status", ""), is_pending(record)
    is_news = not pending or bool(log) or status != note.get("seen")
    if status in (*FAILING, *UNDER_WAY) and is_news:
        return FAILED_WORD if status in FAILING else status
    if pending:
        return ORDERED
    if status != UP_WORD:
        return CONSUMED
    return INSTALLED if log in (None, FULL, NO_MODE) else NOT_INSTALLED


def _of_others(record: Mapping[str, str], note: Mapping[str, str], log: str | None) -> str:
    """Without an order of ours."""
    status = record.get("status", "")
    left = is_left(note) and _is_as_left(record, note, log)
    if left and status == note.get("seen"):
        return DEFINED
    if status in UNDER_WAY:
        return status
    if status in FAILING:
        return FAILED_WORD
    if _at_work(status) == UP:
        return UP
    # One that was never seen by its card has never run anything; of one that only is not up nobody can tell.
    return DEFINED if left or not record.get("mac") else DOWN


def _at_work(status: str) -> str:
    return UP if status == UP_WORD else DOWN
