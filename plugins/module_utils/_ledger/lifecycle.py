# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lifecycle of a node: its states, which may follow which, and on what evidence. PRIVATE to the collection.

A node that the ledger has never seen counts as ``discovered``. Towards safety the way is always open: a node in any
state but ``retired`` may be drained or quarantined. Into service there is one way, through a passport; and beside it,
for a node that serves already, a person's word that it is one of ours: it is adopted as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import ABSENT, IN_SERVICE, PERMITS

STATES = (
    "discovered",
    "enrolled",
    "imaging",
    "validating",
    "admitted",
    "draining",
    "drained",
    "wiping",
    "quarantined",
    "retired",
)
#: States that begin work anew each time they are entered: entered twice, they are two events.
BEGINNINGS = frozenset({"imaging", "wiping"})

#: What the ledger knows of a node: by kind the newest event, and the newest passport; None where there is none.
Known = Mapping[str, Any]


def _nothing(known: Known, data: Mapping[str, Any], now: float) -> str:
    return ""


def _reason(known: Known, data: Mapping[str, Any], now: float) -> str:
    return "" if data.get("reason") else "a reason"


def _held(known: Known, data: Mapping[str, Any], now: float) -> str:
    """Our hold at the scheduler, or that the scheduler does not know the node."""
    hold, seen = known.get("hold"), known.get("evidence")
    taken = hold is not None and hold["name"] == "taken"
    free = seen is not None and seen["name"] in PERMITS
    return "" if taken or free else "a hold of ours (scheduler_node with state held)"


def _free(known: Known, data: Mapping[str, Any], now: float) -> str:
    """Nothing runs there, by the newest look at the scheduler."""
    seen = known.get("evidence")
    return (
        "" if seen is not None and seen["name"] in PERMITS else "proof that no job runs (scheduler_wait until drained)"
    )


def _passport(known: Known, data: Mapping[str, Any], now: float) -> str:
    """A passport that is not expired, and was issued after the node was last imaged, and last in quarantine."""
    passport, imaging, quarantined = known.get("passport"), known.get("imaging"), known.get("quarantined")
    if passport is None:
        return "a passport (node_passport with state issued)"
    if passport["expires"] <= now:
        return "a passport that has not expired (node_passport with state issued)"
    if imaging is not None and passport["issued"] < imaging["at"]:
        return "a passport issued after the node was last imaged (node_passport with state issued)"
    if quarantined is not None and passport["issued"] < quarantined["at"]:
        return "a passport issued after the node was last in quarantine (node_passport with state issued)"
    failures = [f"{event['name']} (event {event['id']})" for event in known.get("standing") or []]
    if failures:
        told = f"{', '.join(failures)} failed"
        return f"that no failure stands: {told}; pass the same question or a stronger one, or lift it (ledger_event)"
    return ""


#: With it, what is recorded as admitted was not brought up by us: it is taken into the ledger as it works. Beside it
#: stands whether its provisioner had a record of it then, and what that said of it, which changes when it is deployed.
ADOPTED, RECORD, STAMP = "adopted", "provisioner_record", "provisioner_stamp"
#: A look at the scheduler that is older says nothing of what a node does now. ``ledger_event`` asks anew right before,
#: for all whose turn comes next: nobody is refused for a batch that is slow.
_LOOK_SECONDS = 120.0


def _adopted(known: Known, data: Mapping[str, Any], now: float) -> str:
    """It serves, or belongs to no scheduler, its BMC has said in this run which machine it is, and all that was seen of
    it was judged. What was ours once needs no adoption, and day 2 asks it more."""
    seen = known.get("evidence")
    if known.get("admitted_before"):
        return "a node that this ledger has never admitted: day2_recycle goes on with one that it has"
    if not known.get("proven"):
        return "the machine proven by its BMC in this run (image_verify in mode node, with bmc_identity)"
    if not known.get("judged"):
        return "what was seen of it (the option adoption, as the playbook adopt gives it)"
    serves = seen is not None and seen["name"] in (IN_SERVICE, ABSENT) and now - seen["at"] <= _LOOK_SECONDS
    return "" if serves else "that its scheduler has it in service now (scheduler_node with state present)"


@dataclass(frozen=True)
class Way:
    """Into one state: from which, and what is missing on the way (empty where nothing is)."""

    sources: frozenset[str]
    missing: Callable[[Known, Mapping[str, Any], float], str] = _nothing


def _from(*states: str) -> frozenset[str]:
    return frozenset(states)


_LIVING = frozenset(STATES) - {"retired"}

#: Into service, for a node that works, and was not brought up by us; also one that we began with, and that its owner
#: has taken back, and one that was adopted before. Which failures stand against it stays as it is.
ADOPTION = Way(_LIVING - {"wiping"}, _adopted)

#: By target state. To stay in a state is always allowed, and to be adopted in it once more is not that.
WAYS: Mapping[str, Way] = {
    "discovered": Way(_from("retired")),
    "enrolled": Way(_from("discovered")),
    # Through wiping where the tenant changes; from validating and quarantined to try again.
    "imaging": Way(_from("discovered", "enrolled", "drained", "wiping", "validating", "quarantined")),
    # From drained and quarantined where the image stays and only the gates run again.
    "validating": Way(_from("enrolled", "imaging", "drained", "quarantined")),
    # From draining and drained where a drain is called off; the passport must still hold.
    "admitted": Way(_from("validating", "draining", "drained"), _passport),
    "draining": Way(_LIVING, _held),
    "drained": Way(_from("draining", "quarantined", "imaging", "validating", "wiping"), _free),
    "wiping": Way(_from("drained", "quarantined"), _free),
    "quarantined": Way(_LIVING, _reason),
    "retired": Way(_from("discovered", "enrolled", "drained", "quarantined"), _reason),
}


def waives(data: Mapping[str, Any]) -> bool:
    """Who was let in by force, or adopted as it worked, was let in over whatever stands: no failure ends by that, and
    it shows nothing of an image."""
    return bool(data.get("forced") or data.get(ADOPTED))


def bar_to_service(current: str, known: Known, now: float) -> str:
    """What a node lacks that is about to be given work, whatever its state is called; empty where it may be."""
    problem, wanted = objection(current, "admitted", known, {}, now)
    return wanted if problem else WAYS["admitted"].missing(known, {}, now)


def objection(current: str, target: str, known: Known, data: Mapping[str, Any], now: float) -> tuple[str, str]:
    """Why a node may not go from one state to another: what is wrong, and what would be right; both empty if it may."""
    way = ADOPTION if target == "admitted" and data.get(ADOPTED) else WAYS[target]
    if current == target and target not in BEGINNINGS and way is not ADOPTION:
        return "", ""
    if current != target and current not in way.sources:
        ways = ", ".join(state for state in STATES if current in WAYS[state].sources)
        becomes = f"be {ADOPTED}" if way is ADOPTION else f"become {target}"
        return f"a node that is {current} cannot {becomes}", f"one of: {ways}"
    missing = way.missing(known, data, now)
    return (f"a node becomes {target} on evidence", missing) if missing else ("", "")
