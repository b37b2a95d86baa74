# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verb behind ``topology_file``: have a scheduler go by a topology. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    Changed,
    DeadlineExceeded,
    FleetError,
    NotOurs,
    NotProven,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._folded import folded
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.registry import open_scheduler
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.topology import (
    Keeper,
    Topology,
    demand,
    topologies,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Result
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import json_digest

_SHOWN = 3


def topology_file(params: Mapping[str, Any], ctx: Context) -> Result:
    """Check, write, have it read, read it back.

    :raises ConfigError: for a topology that cannot be; nothing was written.
    :raises NotOurs: where somebody else wrote what stands there; nothing was written.
    :raises NotProven: where the scheduler does not go by it; what stands there then is told.
    """
    keeper = open_scheduler(params, node=ctx.node).topology(str(params["format"]), str(params.get("path") or ""))
    wanted = topologies(params.get("topologies") or [])
    told = bool(params["reconfigure"])
    demand(wanted, keeper, told=told)
    before, after = keeper.stands(), keeper.text(wanted)
    if before is not None and before != after and not keeper.is_ours(before) and not params.get("force_reason"):
        raise _somebody_elses(keeper)
    # What is in force already is not read anew: Slurm's blocks lose their order by that (SchedMD/slurm#225).
    amiss = keeper.amiss(wanted) if told else []
    changed = before != after or bool(amiss)
    bereft = keeper.bereft(wanted)
    ctx.warnings += (
        [f"of no leaf or block here, and so without a place from now on: {folded(bereft)}"] if bereft else []
    )
    if changed and ctx.may_write(keeper.request(write=before != after)):
        _written(keeper, wanted, (before, after), told, params, ctx)
    elif told and not changed and not ctx.check_mode:
        keeper.drop()
    data: dict[str, Any] = {"path": keeper.where, "in_force": told, "was_amiss": amiss}
    data["units"] = {one.name: {name: len(one.units[name]) for name in one.order} for one in wanted}
    if ctx.diff:
        head = {"before_header": keeper.where, "after_header": keeper.where}
        data["diff"] = {**head, "before": before or "", "after": after}
    return Result(before=_short(before), after=_short(after), changed=changed, data=data)


def _short(text: str | None) -> dict[str, str]:
    """The ledger has no use for a text of thousands of nodes; by this it can be told from another one."""
    return {} if text is None else {"digest": json_digest(text)}


def _somebody_elses(keeper: Keeper) -> NotOurs:
    return NotOurs(
        "the scheduler has a topology that somebody else wrote",
        address=keeper.where,
        wanted="none, or one of ours",
        seen="a text without the first line by which ours are known",
        do="look at the difference (check mode with --diff), and give force_reason, which is recorded, to replace it",
    )


def _written(
    keeper: Keeper,
    wanted: Sequence[Topology],
    texts: tuple[str | None, str],
    told: bool,
    params: Mapping[str, Any],
    ctx: Context,
) -> None:
    before, after = texts
    former = keeper.former(before)
    if before != after:
        keeper.keep(former, texts)
        keeper.put(after, over=before)
    if not told:
        keeper.drop()  # whether the scheduler goes by it is for whoever starts it anew
        return
    try:
        keeper.tell()
        ctx.wait(
            lambda: keeper.amiss(wanted),
            lambda amiss: not amiss,
            timeout=float(params["timeout"]),
            interval=float(params["interval"]),
            wanted="the scheduler goes by the topology that was written",
            seen=lambda amiss: "; ".join(amiss[:_SHOWN]),
        )
    except FleetError as exc:
        raise _not_taken(keeper, former, after, exc) from exc
    keeper.drop()


def _not_taken(keeper: Keeper, former: str | None, after: str, exc: FleetError) -> NotProven:
    why = exc.seen if isinstance(exc, DeadlineExceeded) else str(exc)
    return NotProven(
        "the scheduler does not go by the topology that was written",
        address=keeper.where,
        wanted="each switch and block as it was written",
        seen=f"{why}; {_put_back(keeper, former, after)}",
        do="look at the scheduler's own log (slurmctld.log), which says what it does not take",
    )


def _put_back(keeper: Keeper, former: str | None, after: str) -> str:
    """A file that is not taken ends the scheduler at its next start. What stands there now, in words."""
    again = "what stood there before stands there again" if former != after else "what stands there was not changed"
    try:
        if former != after:
            keeper.put(former, over=after)
    except Changed as exc:
        return f"what stood there before was not put back: {exc}"
    except FleetError as exc:
        stays = "what was written stands there still, and may end the scheduler at its next start"
        return f"{stays}: what stood there before cannot be put back: {exc}"
    try:
        keeper.tell()
    except FleetError as exc:
        return f"{again}, and the scheduler did not take that: {exc}"
    keeper.drop()
    return again
