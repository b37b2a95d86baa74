# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node in quarantine at its provisioner: a hold of its own kind, which others see there. PRIVATE to the collection.

It says that a verdict speaks against the node, and which; the run in it says by whose ledger. Where the provisioner has
a maintenance or a lock, that keeps other tools from deploying the node meanwhile. It ends where a run of ours readmits
the node, and where one has leave to begin a remedy that the provisioner does: no other word lifts it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _moved as moves
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError, NotProven, Refused
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.cells import BOOT, WAIT
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import ABSENT, Driver, NodeState
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.guard import found, writing
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.standing import demand_shown
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.told import record, seen
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._token import (
    PREFIX,
    QUARANTINE,
    has_form,
    kind_of,
    make_token,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Event, Result
from ansible_collections.gpufleet.baremetal.plugins.module_utils._watched import untaken

_ABSENT = NodeState(id="", name="", native=ABSENT, state=ABSENT)
#: In a hold for other work, before the mark that it was laid over.
_OVER = " over "


def is_marked(node: NodeState) -> bool:
    """Also where that was half written, or half lifted."""
    return kind_of(node.hold) == QUARANTINE


def laid_over(token: str, node: NodeState) -> str:
    """A hold for other work of a node that may be marked: the mark comes back when that work is done."""
    return f"{token}{_OVER}{node.hold}" if is_marked(node) else token


def beneath(hold: str) -> str:
    """The mark that a hold for other work was laid over; empty where it was none."""
    return _parts(hold)[1]


def _parts(hold: str) -> tuple[str, str]:
    """A hold for other work, and the mark beneath it; any other hold, and nothing."""
    own, over, rest = hold.partition(f"{_OVER}{PREFIX}")
    mark = f"{PREFIX}{rest}" if over else ""
    return (own, mark) if kind_of(mark) == QUARANTINE and kind_of(hold) != QUARANTINE else (hold, "")


def quarantined(driver: Driver, wanted: Wanted, params: Mapping[str, Any], ctx: Context) -> Result:
    """The mark stands: the first one, which says why. Who does not know the node deploys it for nobody."""
    moment = ctx.moment()
    before = after = found(driver, wanted)
    if before is None or after is None:
        return _unknown(driver, wanted)
    token = before.hold if is_marked(before) else _token(wanted, params)
    if not _stands(before):
        _demand_at_rest(driver, before, wanted)
        with writing(driver, before, wanted) as now:
            token = now.hold if is_marked(now) else token
            if not _stands(now):
                _demand_at_rest(driver, now, wanted)
                driver.hold(now, token, wanted)
        after = _read_back(driver, now, wanted, token, ctx)
    told = {"hold_token": token, "provisioner": driver.name, **moves.noted(params), **moment}
    return _result(before, after, [Event("maintenance", "held", told)])


def let_go(driver: Driver, node: NodeState, step: str, wanted: Wanted, ctx: Context) -> NodeState:
    """No mark stands over what the provisioner does with a node, nor over a boot of it that its BMC is asked for: a
    maintenance freezes the one, and whoever waits for the other goes by no hold."""
    if step not in (WAIT, BOOT) or not is_marked(node):
        return node
    with writing(driver, node, wanted, hits=not ctx.check_mode) as now, remedied(driver, now, wanted, ctx) as after:
        return replace(after, maintenance=False, hold="") if ctx.check_mode else after


def readmitted(driver: Driver, wanted: Wanted, params: Mapping[str, Any], ctx: Context) -> Result:
    """It stands no more. Another hold, of whatever kind, is left as it is, without the mark beneath it."""
    moment = ctx.moment()
    before = after = found(driver, wanted)
    if before is None or after is None:
        return _unknown(driver, wanted)
    if not is_marked(before) and not beneath(before.hold):
        # Whatever our ledger had to go by, such as a mark whose answer was lost.
        return _result(before, before, [] if before.maintenance or before.hold else [_lifted(driver, before, moment)])
    with writing(driver, before, wanted) as now:
        left = _parts(now.hold)[0] if beneath(now.hold) else ""
        if left:
            driver.hold(now, left, wanted)
        elif is_marked(now):
            driver.lift(now, wanted)
    after = _read_back(driver, now, wanted, left, ctx)
    told = {"hold_token": left, "provisioner": driver.name, **moves.noted(params), **moment}
    return _result(before, after, [Event("maintenance", "held", told) if left else _lifted(driver, before)])


def stays(node: NodeState, told: Mapping[str, Any], ctx: Context) -> list[Event]:
    """Who ends a maintenance does not end a quarantine: what stands is told, and a half-written mark as nothing."""
    if is_marked(node):
        ctx.warnings.append(f"the mark of quarantine stays, which its remedy or its readmission lifts: {node.hold}")
    return [Event("maintenance", "held", dict(told))] if _stands(node) else []


def never_marked() -> Result:
    """By the word of our ledger, for which nobody needs to be asked."""
    return _result(_ABSENT, _ABSENT, [])


@contextmanager
def remedied(driver: Driver, node: NodeState, wanted: Wanted, ctx: Context) -> Iterator[NodeState]:
    """While a remedy is begun: with leave for that alone the mark goes before it, and it stands again where nothing was
    begun."""
    what = f"{driver.name}: lift the quarantine of {node.id}, to begin its remedy"
    if not is_marked(node) or not ctx.may_write(what, destructive=True, nodes=(wanted.host,)):
        yield node
        return
    driver.lift(node, wanted)
    try:
        yield _read_back(driver, node, wanted, "", ctx)
    except FleetError as exc:
        untaken(ctx.ordered, wanted.host, exc)
        if not ctx.ordered:
            with suppress(FleetError):  # what went wrong first is told
                driver.hold(driver.reread(node, wanted), node.hold, wanted)
        raise
    ctx.told.append(_lifted(driver, node))


# -- parts -------------------------------------------------------------------------------------------------------------


def _unknown(driver: Driver, wanted: Wanted) -> Result:
    """:raises Refused: where it may be there all the same, marked or not."""
    demand_shown(driver, wanted)
    return _result(_ABSENT, _ABSENT, [])


def _token(wanted: Wanted, params: Mapping[str, Any]) -> str:
    """Why, and who says so, whose ledger alone knows the run."""
    author = str(params.get("author") or "")
    why = str(params.get("why") or "")
    return make_token(wanted.run, f"{why} (by {author})" if author else why, QUARANTINE)


def _demand_at_rest(driver: Driver, node: NodeState, wanted: Wanted) -> None:
    """
    :raises Refused: where the mark would freeze what the provisioner does with the node, or take the place of a hold.
    """
    if node.native in driver.busy | driver.paused:
        raise Refused(
            f"{driver.name} is at work with the node, which a mark of quarantine could freeze for good",
            node=wanted.host,
            address=driver.address,
            wanted="a node at rest there",
            seen=node.native,
            do="wait for its end (provisioner_wait with until settled), and mark it then; nothing was changed",
        )
    if has_form(node.hold) and not is_marked(node) and not driver.left_over(node):
        raise Refused(
            "a hold of ours stands there for other work, which a mark of quarantine would make anybody's to lift",
            node=wanted.host,
            address=driver.address,
            wanted="no hold",
            seen=node.hold,
            do="lift it where that work is done: provisioner_node with state serviceable; nothing was changed",
        )


def _stands(node: NodeState) -> bool:
    return is_marked(node) and node.maintenance


def _lifted(driver: Driver, node: NodeState, moment: Mapping[str, Any] | None = None) -> Event:
    """:param moment: where none was there: what was written since that look began it has not seen."""
    return Event("maintenance", "lifted", {"hold_token": node.hold, "provisioner": driver.name, **(moment or {})})


def _read_back(driver: Driver, node: NodeState, wanted: Wanted, token: str, ctx: Context) -> NodeState:
    if ctx.check_mode:
        return replace(node, maintenance=bool(token), hold=token)
    after = driver.reread(node, wanted)
    if after.maintenance != bool(token) or after.hold != token:
        raise NotProven(
            "the mark of quarantine was written, and does not read back",
            node=wanted.host,
            address=driver.address,
            wanted=token or "no mark",
            seen=after.hold or "no mark",
            do="see what keeps changing the record there, and run again",
        )
    return after


def _result(before: NodeState, after: NodeState, events: list[Event]) -> Result:
    return Result(
        before=seen(before),
        after=seen(after),
        changed=(before.maintenance, before.hold) != (after.maintenance, after.hold),
        data=record(after),
        events=events,
    )
