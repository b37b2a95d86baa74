# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judges ports by what the kernel and lldpd tell of them, and says which cells must be filled. PRIVATE.

PRIVATE to the collection. Runs on nodes: standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.ended import ENDED
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network import ber
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network.lldp import Heard
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network.ports import Port, layer, limits
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network.section import Links
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network.speeds import Speed
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.required import Required, demand
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import (
    FAIL,
    INCONCLUSIVE,
    NODE,
    PASS,
    Check,
    Sheet,
)

STATE, RATE, LANES, ERRORS, NEIGHBOUR = "port_state", "port_rate", "port_lanes", "port_errors", "neighbour"
UP = "up"
_OWN = "own rule: a port that is down carries nothing"
_PLAN = "the plan of the site"


def required(asked: Sequence[Links], plan: Mapping[str, str], speeds: Sequence[Speed] = ()) -> Iterator[Required]:
    for links in asked:
        for port in links.ports:
            yield Required(STATE, port, UP, "", _OWN)
            yield Required(RATE, port, links.rate, "Gb/s", links.source)
            if links.lanes is not None:
                yield Required(LANES, port, links.lanes, "", links.source)
            yield Required(ERRORS, port, links.errors, f"of a counter in {links.seconds:g} s", links.source)
            for cell, limit in ber.limits_of(links).items():
                yield Required(cell, port, limit, ber.unit(cell), links.source)
    for speed in speeds:
        for port in speed.links.ports:
            yield Required(speed.cell, port, speed.minimum, speed.unit, speed.source)
    if plan or speeds or any(map(ber.limits_of, asked)):
        yield Required(ENDED, NODE, "exit [0]", "", "own rule: an unknown end is none")
    for port, wanted in plan.items():
        yield Required(NEIGHBOUR, port, wanted, "", _PLAN)


def begin(asked: Sequence[Links], plan: Mapping[str, str], speeds: Sequence[Speed] = ()) -> Sheet:
    sheet = Sheet()
    demand(sheet, required(asked, plan, speeds))
    return sheet


# -- how a port is -----------------------------------------------------------------------------------------------------


def state(sheet: Sheet, links: Links, name: str, port: Port) -> None:
    """A second look can make a cell worse, never better."""
    if not port.there:
        _failed(sheet, Check(STATE, name, FAIL, "missing", UP, "", _OWN), f"{name} is not there", "power_cycle")
        return
    if port.up is None:
        sheet.unsettled(STATE, name, f"{name} is in a state that nobody knows: {short(port.state, 60)}")
    elif not port.up:
        text = f"{name} is down: {short(port.state, 60)}"
        _failed(sheet, Check(STATE, name, FAIL, short(port.state, 60), UP, "", _OWN), text, "fabric")
    elif port.layer != layer(links):
        text = f"{name} is a port of {port.layer or 'no layer that it tells'}, and the profile wants {layer(links)}"
        sheet.unsettled(STATE, name, text, "remediate_config")
    else:
        sheet.record(Check(STATE, name, PASS, UP, UP, "", _OWN))
        _figure(sheet, links, name, RATE, port.rate, links.rate)
        if links.lanes is not None:
            _figure(sheet, links, name, LANES, port.lanes, links.lanes)


def _figure(sheet: Sheet, links: Links, name: str, cell: str, found: Optional[float], wanted: float) -> None:
    """A port that runs below its rate has a bad cable or a bad end; one above it is not the port that was meant."""
    what, unit = ("Gb/s", "Gb/s") if cell == RATE else ("lanes", "")
    if found is None:
        sheet.unsettled(cell, name, f"{name} does not tell its {'rate' if cell == RATE else 'lanes'}")
        return
    verdict = PASS if found == wanted else FAIL if found < wanted else INCONCLUSIVE
    if verdict != PASS:
        text = f"{name}: {found:g} {what}, and the profile wants {wanted:g}"
        sheet.find(cell, name, text, "reseat" if verdict == FAIL else "remediate_config")
    sheet.record(Check(cell, name, verdict, found, wanted, unit, links.source))


def _failed(sheet: Sheet, check: Check, text: str, remedy: str) -> None:
    sheet.find(check.id, check.entity, text, remedy)
    sheet.record(check)


# -- what was counted meanwhile ----------------------------------------------------------------------------------------


def grown(sheet: Sheet, links: Links, name: str, before: Port, after: Port) -> None:
    """A counter that is at its end counts no more, and one that fell was set back: nobody knows what they missed."""
    rises = {}
    if after.uncounted:
        sheet.unsettled(ERRORS, name, f"{name}: {after.uncounted}", "remediate_config")
        return
    for counter, end in limits(links).items():
        first, last = (port.counters.get(counter) if port.counters else None for port in (before, after))
        if first is None or last is None:
            sheet.unsettled(ERRORS, name, f"{name} does not tell {counter}")
        elif last >= end and last - first <= links.errors:
            text = f"{name}: {counter} is at its end, {end}, and counts no more: clear it"
            sheet.unsettled(ERRORS, name, text, "remediate_config")
        elif last < first:
            sheet.unsettled(ERRORS, name, f"{name}: {counter} was set back meanwhile")
        else:
            rises[counter] = last - first
    _risen(sheet, links, name, rises)


def _risen(sheet: Sheet, links: Links, name: str, rises: Mapping[str, int]) -> None:
    bad = {counter: rise for counter, rise in rises.items() if rise > links.errors}
    unit = f"of a counter in {links.seconds:g} s"
    worst = max(rises.values(), default=0)
    if bad:
        told = ", ".join(f"{counter} by {rise}" for counter, rise in bad.items())
        text = f"{name}: in {links.seconds:g} s rose {told}, and the profile allows {links.errors}"
        _failed(sheet, Check(ERRORS, name, FAIL, worst, links.errors, unit, links.source), text, "reseat")
    elif rises.keys() == limits(links).keys():
        sheet.record(Check(ERRORS, name, PASS, worst, links.errors, unit, links.source))


# -- where it leads ----------------------------------------------------------------------------------------------------


def neighbours(sheet: Sheet, plan: Mapping[str, str], heard: Heard) -> None:
    """Is each port plugged in where the plan wants it?"""
    for problem in heard.problems:
        sheet.unsettled("lldp", NODE, f"lldpctl: {problem}", "retest")
    for name, wanted in plan.items():
        found = heard.neighbours.get(name, [])
        if len(found) != 1:
            told = "no neighbour was heard" if not found else f"{len(found)} neighbours were heard"
            sheet.unsettled(NEIGHBOUR, name, f"{name}: {told}, and the plan wants {wanted}")
            continue
        names = sorted(found[0])
        if wanted in found[0]:
            sheet.record(Check(NEIGHBOUR, name, PASS, wanted, wanted, "", _PLAN))
        elif not names:
            sheet.unsettled(NEIGHBOUR, name, f"{name}: a neighbour that does not name itself")
        else:
            text = f"{name} leads to {short(names[-1], 80)}, and the plan wants {wanted}"
            _failed(sheet, Check(NEIGHBOUR, name, FAIL, short(names[-1], 80), wanted, "", _PLAN), text, "fabric")
