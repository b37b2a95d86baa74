# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How often day 2 takes a quarantined node up of its own accord. PRIVATE to the collection.

A recycle takes work away, writes the image anew, which restarts the machine, and measures again. It is none of the
remedies that need hands, and none is tried for ever.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.flaps import REMEDY as FLAPS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.served import UNKNOWN, UNSERVED
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger

#: What is due where a stage failed that names no remedy: no finding does.
REIMAGE = "reimage"


@dataclass(frozen=True)
class Budget:
    """So many recycles may fail since the node was last in service, by whose word."""

    tries: int
    source: str


_TWICE = "own rule: a second try rules out chance; what fails a third time is a matter for people"
_RESTARTS = f"{_TWICE}. A deploy restarts the machine, which resets its GPUs"
_HANDS = "own rule: nothing that a run can do is this remedy"
BUDGETS: Mapping[str, Budget] = {
    "none": Budget(2, _TWICE),
    "retest": Budget(2, _TWICE),
    "remediate_config": Budget(2, f"{_TWICE}. The image brings the set-up"),
    "reset_gpu": Budget(2, _RESTARTS),
    "reboot": Budget(2, _RESTARTS),
    "power_cycle": Budget(2, _RESTARTS),
    REIMAGE: Budget(2, _TWICE),
    "fabric": Budget(0, _HANDS),
    "reseat": Budget(0, _HANDS),
    "field_diag": Budget(0, _HANDS),
    "rma": Budget(0, _HANDS),
}
#: Of a newer release that shares this ledger, or of one before remedies were a list.
_UNHEARD_OF = Budget(0, "own rule: what this release does not know is a matter for people")

#: Day 2 looks at these first, whosever they are.
_LOOKED_AT = frozenset({"admitted", UNSERVED, UNKNOWN})
#: As the playbook burn_in names itself in the ledger, and how it leaves a node until a person gives it back.
BURN_IN, _HELD_FOR_IT = "burn_in", frozenset({"draining", "drained"})
BURNED_IN = "a person has it burned in (playbook burn_in), and gives it back with readmit"
#: Of one that was drained or quarantined before, and stays so: as long as it may soak.
SOAKS = "it may soak, which a recycle would cut off: burn_in waits for it, or ends it with burn_in_stop"
_OUT_OF_SERVICE = _HELD_FOR_IT | {"quarantined"}
_AS_ADOPTED = "it runs what it ran when it was adopted, and no run images that of its own accord"


def tries(ledger: Ledger, node_ids: Sequence[str]) -> dict[str, int]:
    """By node id, how many recycles since it was last admitted, or a part of it was swapped, ended in quarantine; a
    node with none is left out. One that a service stopped, or a kill, says nothing of the node."""
    sql = (
        "SELECT node_id, count(*) AS tries FROM attempts WHERE node_id IN :nodes AND at > coalesce((SELECT max(at) FROM"
        " events WHERE events.node_id = attempts.node_id AND (kind = 'state' AND name = 'admitted'"
        " OR kind = 'identity' AND name IN ('replaced', 'moved'))), 0)"
        " AND EXISTS (SELECT 1 FROM events WHERE events.node_id = attempts.node_id AND kind = 'state'"
        " AND name = 'quarantined' AND events.at >= attempts.at AND events.at < coalesce((SELECT min(later.at) FROM"
        " attempts later WHERE later.node_id = attempts.node_id AND later.id > attempts.id), events.at + 1))"
        " GROUP BY node_id"
    )
    return {row["node_id"]: int(row["tries"]) for row in ledger._many(sql, "nodes", list(node_ids) or [""], {})}


def left(
    one: Mapping[str, Any],
    tried: int,
    again: tuple[str, str] | None = None,
    state: Mapping[str, Any] | None = None,
    *,
    soaks: bool = False,
) -> dict[str, Any]:
    """What was tried on a node, and why day 2 leaves it to people; empty where it does not.

    :param one: as ``report.status`` tells it.
    :param again: the remedy that is due instead since a finding came back, and which one did.
    :param state: the event of its newest state, which may say by which playbook.
    :param soaks: is no end of its soak known?
    """
    if soaks and one["state"] in _OUT_OF_SERVICE:
        return {"attempts": tried, "left": SOAKS}
    if (
        state and state["data"].get("playbook") == BURN_IN and one["state"] in _HELD_FOR_IT
    ):  # its GPUs may be under load for days, and that be lost
        return {"attempts": tried, "left": BURNED_IN}
    why = _AS_ADOPTED if one["adopted"] and one["state"] not in _LOOKED_AT and not one["kept"] else ""
    if one["state"] != "quarantined":
        return {"attempts": tried, "left": why}
    remedy, came_back = heavier(one["remedy"] or REIMAGE, again)
    budget = BUDGETS.get(remedy, _UNHEARD_OF)
    if not budget.tries:
        why = f"no run is the remedy {remedy}: apply it first"
    elif tried >= budget.tries:
        why = f"{tried} recycles did not bring it back, and {remedy} is due: look at it first"
    elif one["flaps"]:
        return {"attempts": tried, "left": f"{one['flaps']}, and it failed again: look at it first", "remedy": FLAPS}
    climbed = {"remedy": remedy} if came_back else {}
    return {"attempts": tried, "left": why + (f" ({came_back})" if why and came_back else ""), **climbed}


def heavier(remedy: str, again: tuple[str, str] | None) -> tuple[str, str]:
    """The one that is due of a quarantine's own and that of a finding which came back, and which did; empty for none.

    A remedy that needs hands stays what it is: it was never tried. And what asks for more than the one that came back
    is due of itself, whatever came back beside it.
    """
    if again is None or not BUDGETS.get(remedy, _UNHEARD_OF).tries or _asks_for_more(remedy, again[0]):
        return remedy, ""
    return again


def _asks_for_more(remedy: str, than: str) -> bool:
    """In the order of BUDGETS. An image written anew is what a recycle is, whatever it is for."""
    ladder = [one for one in BUDGETS if one != REIMAGE]
    return remedy in ladder and than in ladder and ladder.index(remedy) > ladder.index(than)
