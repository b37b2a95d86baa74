# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""May a node that works be taken into the ledger as it is? By the results of the verbs that looked at it. PRIVATE.

What is not proven is a reason to leave it alone. What its gates found is none: it is adopted, and due with that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _moved as moves
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import EvidenceMissing
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.lifecycle import ADOPTED, RECORD, STAMP
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.report import utc
from ansible_collections.gpufleet.baremetal.plugins.module_utils._quarantine import WHOSE

#: Of the scheduler's port: it gives the node work. Of the provisioner's: an order is being carried out.
_SERVES = frozenset({"idle", "mixed", "allocated"})
_UNDER_WAY = frozenset({"inspecting", "deploying", "releasing", "cleaning"})
#: Which scheduler it is a node of, by the keys of that port's results.
_PLACE = ("cluster", "cluster_host", "scheduler_at")
#: What stands before its name: a login may print something first.
_NAMED = "gpufleet-own-name: "
#: Behind its name, how long the machine has been up, its boot's id, and when it was asked, each on a line.
_UPTIME = re.compile(r"(\d{1,10}\.\d{1,9}) \d{1,15}\.\d{1,9}")
_BOOT_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_ASKED_AT = re.compile(r"\d{9,11}(?:\.\d{1,9})?")
#: Seconds by which a boot may differ by two clocks of a cluster: Munge refuses the word of those further apart.
_APART = 300.0
#: No clock shows so many seconds.
_NO_CLOCK = 1e11
#: As much of what was found as a state's reason holds.
_REASON = 400

Result = Mapping[str, Any]
_NONE: Result = {}


@dataclass(frozen=True)
class Seen:
    """What each verb told, as it was registered; what was not asked is empty, what was skipped as well.

    site: of the inventory ``provisioner``, ``provisioner_url``, ``provisioner_cloud``, ``provisioner_id``, ``boot_mac``
    and ``scheduler``.
    """

    scheduler: Result = field(default_factory=dict)
    provisioner: Result = field(default_factory=dict)
    machine: Result = field(default_factory=dict)
    name: Result = field(default_factory=dict)
    looks: tuple[Result, ...] = ()
    passport: Result = field(default_factory=dict)
    other_name: bool = False
    site: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, given: Mapping[str, Any], site: Mapping[str, str]) -> Seen:
        told = {key: _asked(given.get(key)) for key in ("scheduler", "provisioner", "machine", "name", "passport")}
        looks = tuple(_asked(one) for one in given.get("looks") or ())
        return cls(**told, looks=looks, other_name=bool(given.get("other_name")), site=site)

    @property
    def unrecorded(self) -> bool:
        """Has its provisioner no record of it?"""
        return bool(self.provisioner) and _told(self.provisioner, "before", "state") in ("", "absent")

    @property
    def own_name(self) -> str:
        return self._own_lines[0].strip()

    @property
    def boot_id(self) -> str:
        """Of the boot that the machine runs, by its own word; empty where it does not tell."""
        return next((line for line in self._own_lines[1:] if _BOOT_ID.fullmatch(line)), "")

    @property
    def booted_at(self) -> float:
        """When that began, by our clock; 0 where it does not tell."""
        up = [found[1] for found in map(_UPTIME.fullmatch, self._own_lines[1:]) if found]
        asked = [line for line in self._own_lines[1:] if _ASKED_AT.fullmatch(line)]
        return float(asked[-1]) - float(up[0]) if up and asked else 0.0

    @property
    def _own_lines(self) -> list[str]:
        return str(self.name.get("stdout") or "").replace("\r", "").rpartition(_NAMED)[2].split("\n")


def adopted(given: Mapping[str, Any], site: Mapping[str, str], node: str) -> dict[str, Any]:
    """What is recorded of a node that may be adopted.

    :raises EvidenceMissing: with the first of what is not proven.
    """
    seen = Seen.of(given, site)
    for objection in _OBJECTIONS:
        problem = objection(seen)
        if problem:
            raise EvidenceMissing(problem, node=node)
    return _data(seen)


def _data(seen: Seen) -> dict[str, Any]:
    known = not seen.unrecorded
    # Of a node without a scheduler it would be the host's own name, which binds the machine to no node of a later one.
    there = seen.scheduler.get("state") != "absent"
    return {
        ADOPTED: True,
        "scheduler_node": str(seen.scheduler.get("scheduler_node") or "") if there else "",
        **{key: str(seen.scheduler[key]) for key in _PLACE if there and seen.scheduler.get(key)},
        "machine_name": seen.own_name,
        "provisioner_id": str(seen.provisioner.get("provisioner_id") or "") if known else "",
        "provision_state": str(seen.provisioner.get("provision_state") or "") if known else "",
        STAMP: str(seen.provisioner.get("stamp") or "") if known else "",
        **(moves.noted(seen.site) if known and seen.provisioner else {}),
        RECORD: ("present" if known else "absent") if seen.provisioner else "",
        "passport": _told(seen.passport, "passport", "digest"),
        **_reason(found(seen)),
    }


def _reason(texts: list[str]) -> dict[str, str]:
    text = "; ".join(texts)
    return {"reason": text if len(text) <= _REASON else f"{text[: _REASON - 3]}..."} if text else {}


def found(seen: Seen) -> list[str]:
    """What the looks found, else why they ended, else why no passport was signed."""
    ended = [one for one in seen.looks if one.get("verdict") not in (None, "pass")]
    texts = [str(row.get("text")) for one in ended for row in one.get("findings") or ()]
    told = texts or [str(one.get("msg") or "a gate did not pass") for one in ended]
    return told or ([] if seen.passport.get("valid", True) else [*map(str, seen.passport.get("reasons") or ())])


# -- what speaks against it, in words; empty where nothing does ------------------------------------------------------


def _not_in_service(seen: Seen) -> str:
    told = seen.scheduler
    serves = told.get("owner") == "free" and told.get("state") in _SERVES and told.get("answers")
    if serves or seen.site.get("scheduler") in (None, "", "none"):
        return ""
    holds = "; ".join(str(hold.get("text")) for hold in told.get("holds") or ())
    state = " ".join(filter(None, [str(told.get("native") or told.get("state") or "nothing"), holds]))
    return (
        f"The scheduler has {told.get('scheduler_node') or 'the node'} as {state}: only a node in service is adopted."
        " Bring it into service and run again; or, if nobody needs what it has, release it at its provisioner and bring"
        ' it up alone: day0_bringup with --limit and its name, -e \'{"hold_force_reason": "WHY"}\''
    )


def _claimed(seen: Seen) -> str:
    """A record that the inventory names, and that is not there, may be another machine's under another name."""
    if not seen.unrecorded:
        return ""
    provisioner, claimed = seen.site.get("provisioner"), seen.site.get("provisioner_id")
    if claimed:
        return (
            f"{provisioner} does not know this machine by {claimed}, as the inventory has it. Correct"
            " gpufleet_provisioner_id; where it has no record of this machine, leave that out, and the node is enrolled"
            " with its next imaging"
        )
    if not seen.site.get("boot_mac"):
        return (
            f"{provisioner} does not know this machine by its name, and may by another one. Set gpufleet_boot_mac, by"
            " which it is found, and by which it is enrolled with its next imaging if there is none"
        )
    return ""


def _by_its_name_alone(seen: Seen) -> str:
    """It would be released one day, and the machine behind it wiped."""
    if not seen.provisioner or seen.unrecorded or seen.provisioner.get("agrees"):
        return ""
    provisioner, node = seen.site.get("provisioner"), seen.provisioner.get("name") or seen.provisioner["provisioner_id"]
    system = seen.provisioner.get("bmc_system")
    if system:
        return (
            f"Nothing shows that the record {node} of {provisioner} is this machine's, and no neighbour's: it has the"
            f" same BMC, system {system}, which the inventory does not name. Set gpufleet_bmc_system_id: {system}, if"
            " it is that one; else correct gpufleet_provisioner_id, gpufleet_serial or gpufleet_boot_mac"
        )
    return (
        f"Nothing shows that the record {node} of {provisioner} is this machine's: it has neither its serial, nor its"
        " boot MAC, nor the address of its BMC. Correct gpufleet_provisioner_id, gpufleet_serial or gpufleet_boot_mac,"
        " or the BMC's address in that record"
    )


def _under_way(seen: Seen) -> str:
    if _told(seen.provisioner, "before", "state") not in _UNDER_WAY:
        return ""
    native = _told(seen.provisioner, "before", "provision_state")
    return (
        f"{seen.site.get('provisioner')} has the machine as {native}: what it was ordered to do there is under way, and"
        " may end the node's jobs. Wait until that has ended, or end it there, then run again"
    )


def _silent(seen: Seen) -> str:
    unread = [one for one in (seen.machine, seen.name, *seen.looks) if one.get("unreachable")]
    return f"The node cannot be reached over SSH: {unread[0].get('msg') or ''}" if unread else ""


def _unconfirmed(seen: Seen) -> str:
    cells = [one for one in seen.machine.get("checks") or () if one.get("id") == "machine"]
    if any(one.get("verdict") == "pass" for one in cells):
        return ""
    if seen.machine.get("kind") and not cells:
        return str(seen.machine.get("msg"))  # an image server, a declaration: the node was not asked at all
    texts = "; ".join(str(one.get("text")) for one in seen.machine.get("findings") or ())
    return f"The machine that answers was not proven by its BMC ({texts or seen.machine.get('msg') or ''})"


def _misjudged(seen: Seen) -> str:
    """A look that a setting of the site kept from looking says nothing of the node, and would be due for ever."""
    told = [one for one in seen.looks if WHOSE.get(str(one.get("kind") or "")) == "site"]
    why = [str(one.get("msg") or "; ".join(str(row.get("text")) for row in one.get("findings") or ())) for one in told]
    return (
        f"Its gates could not judge it, for a setting of the site: {why[0]}. Correct that, and run again" if why else ""
    )


def _named_otherwise(seen: Seen) -> str:
    theirs, rather = (str(seen.scheduler.get(key) or "") for key in ("scheduler_node", "rather"))
    if seen.other_name or not seen.name or (_is_one(seen.own_name.lower(), theirs.lower()) and not rather):
        return ""
    beside = f", which has {rather} beside it" if rather else ""
    return (
        f"The machine calls itself {seen.own_name or 'nothing'}, and the scheduler's node is {theirs}{beside}:"
        " whether they are one is not proven. Correct gpufleet_scheduler_node or ansible_host; where the site has named"
        " them so, limit a run to this node, and give -e adopt_other_name=true, which is recorded"
    )


def _of_another_boot(seen: Seen) -> str:
    """Two clusters may have a node of one name each, and none of them tells which machine its own is."""
    theirs, own = str(seen.scheduler.get("booted") or "").lower(), seen.boot_id
    if own and _BOOT_ID.fullmatch(theirs):
        told = (f"runs the boot {theirs}", f"the boot {own}") if theirs != own else ()
    else:
        at, own_at = _moment(seen.scheduler.get("booted_at")), _moment(seen.booted_at)
        told = (f"booted at {utc(at)}", f"at {utc(own_at)}") if at and own_at and abs(at - own_at) > _APART else ()
    if not told:
        return ""
    return (
        f"The scheduler's node {seen.scheduler.get('scheduler_node')} {told[0]}, this machine {told[1]}: it is another"
        " machine. Correct ansible_host, gpufleet_scheduler_node, or which cluster is asked (gpufleet_scheduler_url, or"
        " the slurm.conf of where its commands run)"
    )


_OBJECTIONS: tuple[Callable[[Seen], str], ...] = (
    _not_in_service,
    _claimed,
    _by_its_name_alone,
    _under_way,
    _silent,
    _unconfirmed,
    _misjudged,
    _named_otherwise,
    _of_another_boot,
)


def _is_one(own: str, theirs: str) -> bool:
    """Or one is the other up to its first dot: two that are both whole names are two machines."""
    return own == theirs or own.partition(".")[0] == theirs or own == theirs.partition(".")[0]


def _moment(value: Any) -> float:
    """A point in time; 0 for what is none."""
    return float(value) if isinstance(value, (int, float)) and 0 < value < _NO_CLOCK else 0.0


def _asked(result: Any) -> Result:
    return result if isinstance(result, Mapping) and not result.get("skipped") else _NONE


def _told(result: Result, *path: str) -> str:
    """What stands there in a result, as text; empty where nothing does."""
    value: Any = result
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return str(value or "")
