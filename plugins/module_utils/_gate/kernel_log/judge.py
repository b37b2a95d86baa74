# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Blames GPUs and switches for what the kernel log holds, each once. PRIVATE to the collection.

The first error that is no consequence of another names the fault; what follows it on the same GPU within a minute is
told beside it, and can only make the remedy heavier. An application's crash never hides a fault that came after it.

Runs on nodes: standard library only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import xids
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log import machine, nvlink5, sxids
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log.lines import MESSAGES, Incident, Names
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log.near import Times
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import (
    FAIL,
    INCONCLUSIVE,
    NODE,
    PASS,
    Check,
    Sheet,
    worst,
    worst_remedy,
)

#: What a remedy says of the node that needs it.
_VERDICTS = {"none": PASS, "retest": INCONCLUSIVE}


@dataclass
class Burst:
    """Errors of one GPU that belong together."""

    first: Incident
    members: list[Incident] = field(default_factory=list)

    def root(self) -> Incident:
        """The first that fails a node; else the first that asks for anything; else the first."""
        by_verdict = {FAIL: self.first, INCONCLUSIVE: self.first, PASS: self.first}
        for one in reversed(self.members):
            by_verdict[_VERDICTS.get(remedy_of(one), FAIL)] = one
        worst_one = worst(_VERDICTS.get(remedy_of(one), FAIL) for one in self.members)
        return by_verdict[worst_one]


def remedy_of(incident: Incident) -> str:
    """The remedy of one Xid: the line's own word first, then the table.

    Where one only follows from another, which the log does not have, that other one counts, as far as it is told.
    """
    if incident.orphan:
        return worst_remedy(["retest", xids.look_up(incident.previous).remedy if incident.previous else "none"])
    if incident.odd:
        known = xids.look_up(incident.number).remedy
        return known if known != "none" else "field_diag"
    if incident.number == 154:
        return _recovery(incident.text)
    known = xids.look_up(incident.number).remedy
    return _of_link5(incident, known) if incident.number in xids.LINK5 else known


def _of_link5(incident: Incident, fatal: str) -> str:
    """By the word in the line, and by its numbers, of which the table may make more but of what is fatal never less.

    What is not fatal, and is in no table, is measured again.

    :param fatal: the remedy of what is.
    """
    rule = _rule(incident)
    if incident.fatal is not False or (rule and rule.action == nvlink5.RESET):
        return fatal
    return "none" if rule == nvlink5.HARMLESS else "retest"


def _recovery(text: str) -> str:
    """Xid 154 names the recovery in its last brackets; a name that nobody knows is no reason to pass."""
    names = [part.split(")")[0].strip().lower() for part in text.split("(")[1:]]
    return xids.RECOVERY.get(names[-1], "field_diag") if names else "field_diag"


def judge(sheet: Sheet, found: Sequence[Incident], names: Names) -> None:
    """Record cells and findings; the sheet requires ``xid``, ``sxid`` and ``kernel`` of the node."""
    for name in ("xid", "sxid", "kernel"):
        sheet.record(Check(name, NODE, PASS, 0, 0, "failures", "kernel log"))
    _xids(sheet, [one for one in found if one.kind in ("xid", "off_bus")], names)
    _sxids(sheet, [one for one in found if one.kind == "sxid"])
    for one in found:
        if one.kind == "message":
            _message(sheet, one, names)
    _machine(sheet, [one for one in found if one.kind == "machine"])


def _close(one: Optional[float], other: Optional[float]) -> bool:
    """Within a burst; where the log has no times, everything is."""
    return one is None or other is None or abs(one - other) <= xids.BURST_SECONDS


def _xids(sheet: Sheet, found: Sequence[Incident], names: Names) -> None:
    earlier = _Earlier()
    asked: dict[str, Incident] = {}
    bursts: dict[str, list[Burst]] = {}
    for one in found:
        if one.number == 154:
            asked[one.where] = one  # the last one counts
            continue
        if _follows(one, earlier):
            continue
        if _is_orphan(one, earlier):
            one = replace(one, orphan=True)
        earlier.note(one)
        mine = bursts.setdefault(one.where, [])
        if not mine or not _close(mine[-1].first.at, one.at):
            mine.append(Burst(one))
        mine[-1].members.append(one)
    for where, one in asked.items():
        bursts.setdefault(where, []).append(Burst(one, [one]))
    for where, several in bursts.items():
        _blame(sheet, where, several, names)
    _common_link(sheet, found)
    _same_spot(sheet, found, names)


class _Earlier:
    """The errors so far, by what a later one asks for: by number, by number and GPU, and by GPU."""

    def __init__(self) -> None:
        self._times = Times(xids.BURST_SECONDS)
        self._places: dict[int, set[str]] = {}

    def note(self, one: Incident) -> None:
        self._places.setdefault(one.number, set()).add(one.where)
        for key in (one.number, (one.number, one.where), *([one.where] if one.number != 45 else [])):
            self._times.note(key, one.at)

    def near(self, number: int, at: Optional[float]) -> bool:
        return self._times.near(number, at)

    def elsewhere(self, number: int, one: Incident) -> bool:
        """On any other GPU."""
        others = self._places.get(number, set()) - {one.where}
        return any(self._times.near((number, where), one.at) for where in others)

    def own(self, one: Incident) -> bool:
        """On the same GPU, whatever was no clearing away."""
        return self._times.near(one.where, one.at)


def _follows(one: Incident, earlier: _Earlier) -> bool:
    """43, 45, 13 and 31 after a memory or link error anywhere on the node; tracking errors of a link's other end."""
    if one.odd:
        return False
    if one.number in xids.FOLLOWERS:
        causes = xids.CAUSES if one.previous is None else {one.previous}
        return any(earlier.near(number, one.at) for number in causes)
    if one.number == 145 and one.unit == "RLW_SRC_TRACK" and not _resets(one):
        return earlier.elsewhere(149, one)
    return False


def _rule(one: Incident) -> Optional[nvlink5.Rule]:
    return nvlink5.rule_of(one.number, one.unit, one.text)


def _resets(one: Incident) -> bool:
    """An error of the unit itself, by its numbers, is no effect of what happened at the link's other end."""
    rule = _rule(one)
    return rule is not None and rule.action == nvlink5.RESET


def _is_orphan(one: Incident, earlier: _Earlier) -> bool:
    """Does it tell of an error before it that is not in the log? 45 does so even without a word (the catalogue's
    workflow 45: look for the error before it); an application's own error on the same GPU is one.
    """
    if one.number not in xids.FOLLOWERS or one.odd:
        return False
    if one.previous is not None:
        return True
    return one.number == 45 and not earlier.own(one)


def _blame(sheet: Sheet, where: str, bursts: Sequence[Burst], names: Names) -> None:
    """One finding a GPU and root; repeated bursts of one root are one finding."""
    by_root: dict[int, list[Burst]] = {}
    for burst in bursts:
        by_root.setdefault(burst.root().number, []).append(burst)
    for number, several in by_root.items():
        members = [one for burst in several for one in burst.members]
        remedy = worst_remedy(remedy_of(one) for one in members)
        others = sorted({one.number for one in members} - {number})
        text = f"{_gpu(where, names)}: {xids.look_up(number).words} (Xid {number})"
        if number == 154:
            text = f"{_gpu(where, names)}: asks for recovery, {cut(members[-1].text, 120)} (Xid 154)"
        if number in {one.number for one in members if one.orphan}:
            told = sorted({one.previous for one in members if one.orphan and one.previous})
            before = f"Xid {', '.join(map(str, told))}" if told else "the error"
            text += f", and {before} before it is not in the log"
        look = next((rule.look for one in members if (rule := _rule(one)) and rule.look), "")
        if look:
            text += f", {look}"
        if others:
            text += f", with Xid {', '.join(map(str, others))}"
        if len(members) > 1:
            text += f", {len(members)} messages"
        entity = f"GPU {where}" if where else "GPU"
        sheet.find(f"xid:{number}", entity, text, remedy)
        verdict = _VERDICTS.get(remedy, FAIL)
        source = xids.look_up(number).source
        sheet.record(Check(f"xid:{number}", entity, verdict, len(members), 0, "messages", source))
        sheet.record(Check("xid", NODE, verdict, len(members), 0, "messages", source))


def _gpu(where: str, names: Names) -> str:
    if not where:
        return "a GPU that the log does not name"
    known = [names.uuids.get(where, "")]
    known.append(f"serial {names.serials[where]}" if where in names.serials else "")
    extra = ", ".join(part for part in known if part)
    return f"GPU {where} ({extra})" if extra else f"GPU {where}"


def _common_link(sheet: Sheet, found: Sequence[Incident]) -> None:
    """The same link of two GPUs at the same time: what they share is the switch, the tray or its cables."""
    times = Times(xids.BURST_SECONDS)
    places: dict[int, dict[str, None]] = {}
    fatal = [one for one in found if one.number in (74, 149) and one.fatal is not False]
    linked = [(one.link, one) for one in fatal if one.link is not None]
    for link, one in linked:
        places.setdefault(link, {})[one.where] = None
        times.note((link, one.where), one.at)
    for link, one in linked:
        peers = [where for where in places[link] if where != one.where and times.near((link, where), one.at)]
        if peers:
            text = f"NVLink {link} failed on {len(peers) + 1} GPUs at once: suspect the switch or the tray"
            sheet.find(f"nvlink:{link}", NODE, text, "fabric")
            places[link] = {}  # the first that has peers is told


def _same_spot(sheet: Sheet, found: Sequence[Incident], names: Names) -> None:
    """Xid 13 at the same unit of the same GPU more than once, in different runs: no application does that."""
    spots: dict[tuple[str, str], list[Incident]] = {}
    for one in found:
        start = one.text.find("(GPC")
        if one.number == 13 and start >= 0 and one.at is not None:
            spots.setdefault((one.where, one.text[start : one.text.find(")", start) + 1]), []).append(one)
    for (where, spot), several in spots.items():
        times = [one.at for one in several if one.at is not None]
        if max(times) - min(times) > xids.BURST_SECONDS:
            text = f"{_gpu(where, names)}: kernels fail again and again at {spot} (Xid 13)"
            sheet.find("xid:13:spot", f"GPU {where}", text, "field_diag")
            sheet.record(Check("xid", NODE, FAIL, len(several), 0, "messages", "NVIDIA Xid catalogue, workflow 13"))


def _sxids(sheet: Sheet, found: Sequence[Incident]) -> None:
    for one in found:
        row = sxids.look_up(one.number)
        fatal = one.odd or (row.fatal if one.fatal is None else one.fatal)
        remedy = "none" if not fatal else row.remedy if row.remedy != "none" else "reboot"
        entity = f"NVSwitch {one.switch}" if one.switch else "NVSwitch"
        link = f", link {one.link}" if one.link is not None else ""
        said = "fatal" if fatal else "not fatal"
        sheet.find(f"sxid:{one.number}", entity, f"{entity}: {row.words}{link}, {said} (SXid {one.number})", remedy)
        verdict = _VERDICTS.get(remedy, FAIL)
        sheet.record(Check(f"sxid:{one.number}", entity, verdict, cut(one.text, 80), "none", "", row.source))
        sheet.record(Check("sxid", NODE, verdict, one.number, 0, "", row.source))


def _message(sheet: Sheet, one: Incident, names: Names) -> None:
    _pattern, name, words, remedy, source = next(row for row in MESSAGES if row[1] == one.unit)
    entity = f"GPU {one.where}" if one.where else NODE
    prefix = f"{_gpu(one.where, names)}: " if one.where else ""
    sheet.find(f"message:{name}", entity, prefix + words, remedy)
    sheet.record(Check("kernel", NODE, _VERDICTS.get(remedy, FAIL), cut(one.text, 120), 0, "failures", source))


def _machine(sheet: Sheet, found: Sequence[Incident]) -> None:
    """What is corrected now and then is told; each part is blamed once for each kind of error."""
    counted: dict[tuple[str, str], list[Incident]] = {}
    heads = machine.told_by_head((one.unit, one.text) for one in found)
    for one in found:
        if one.unit != machine.UNNAMED or machine.report_of(one.text) not in heads:
            counted.setdefault((one.unit, one.where), []).append(one)
    for (name, where), several in counted.items():
        row = machine.BY_NAME[name]
        number = machine.number(name, ((one.at, one.text) for one in several))
        borne = number <= row.most
        entity = _part(name, where)
        what = "messages" if number == len(several) else "errors"
        within = " within a day" if row.most else ""
        text = f"{entity}: {row.words}" + (f", {number} {what}{within}" if number > 1 else "")
        remedy = "none" if borne else row.remedy
        sheet.find(f"kernel:{name}", entity, text, remedy)
        verdict = PASS if borne else _VERDICTS.get(remedy, FAIL)
        measured = cut(several[-1].text, 120)
        sheet.record(Check(f"kernel:{name}", entity, verdict, number, row.most, what, row.source))
        if not borne:
            sheet.record(Check("kernel", NODE, verdict, measured, 0, "failures", row.source))


#: What a part is called, by the first word of the name.
_KINDS = {"amd": "GPU", "gpu": "GPU", "pcie": "PCI", "adapter": "PCI"}


def _part(name: str, where: str) -> str:
    """As the other gates name it."""
    kind = _KINDS.get(name.partition("_")[0], "")
    if kind == "GPU":
        return f"GPU {where.rpartition('.')[0]}"
    return f"{kind} {where}" if kind and where else where or NODE
