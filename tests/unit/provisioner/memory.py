# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A provisioner in memory, and how a batch of its nodes is waited for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    FleetError,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import contract as c
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import watch as verb
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.cells import BOOT, DONE, STOP, WAIT
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Result

RUN, OTHER = "gpufleet:r1:work", "gpufleet:r9:work"
STATES = {"new": c.READY, "going": c.DEPLOYING, "active": c.DEPLOYED, "odd": c.OTHER, "bad": c.FAILED, "cold": c.READY}


class Memory(c.Driver):
    """``seen``: by node what each look shows, the last one from then on; an exception is raised."""

    name = "memory"
    address = "memory://"
    states_map = STATES
    steps = {
        "deployed": {
            "new": "deploy", "going": WAIT, "active": DONE, "odd": STOP, "bad": "deploy", "cold": BOOT,
        }
    }  # fmt: skip
    leads_to: ClassVar[Mapping[str, str]] = {"deploy": "going"}
    destructive = frozenset({"deploy"})
    orders: ClassVar[Mapping[str, str]] = {"deploy": "deployed"}
    owns_power = False
    found: ClassVar[c.NodeState | None]
    seen: ClassVar[dict[str, list[Any]]]
    sent: ClassVar[list[str]]
    refusals: ClassVar[dict[str, list[FleetError]]]
    known_serials: ClassVar[dict[str, str]]
    cards: ClassVar[c.Network]

    def __init__(self, params: Mapping[str, Any], ctx: Context) -> None:
        super().__init__(ctx)

    def find(self, wanted: Wanted) -> c.NodeState | None:
        return self.found

    def resolve(self, wanted: Sequence[Wanted]) -> dict[str, str]:
        return {one.host: one.host for one in wanted}

    def states(self, ids: Sequence[str]) -> dict[str, c.NodeState]:
        found = {}
        for host in ids:
            views = self.seen.get(host, [])
            view = views.pop(0) if len(views) > 1 else views[0] if views else None
            if isinstance(view, Exception):
                raise view
            if view is not None:
                found[host] = view
        return found

    def serials(self, node: c.NodeState, *, ask: bool) -> Mapping[str, str]:
        return {source: serial for source, serial in self.known_serials.items() if ask or source == "record"}

    def network(self, node: c.NodeState, *, ask: bool) -> c.Network:
        return self.cards

    def facts(self, node: c.NodeState, wanted: Wanted) -> Mapping[str, bool]:
        return {}

    def enrol(self, wanted: Wanted, node: c.NodeState | None) -> Any:
        raise AssertionError("a wait enrols nothing")

    def start(self, step: str, node: c.NodeState, wanted: Wanted) -> None:
        problems = self.refusals.get(wanted.host)
        if problems:
            raise problems.pop(0)
        if self.ctx.may_write(f"{step} {wanted.host}", destructive=True, nodes=(wanted.host,)):
            self.sent.append(wanted.host)

    def annotate(self, node: c.NodeState, wanted: Wanted) -> c.Changes:
        return c.Changes()

    def hold(self, node: c.NodeState, token: str, wanted: Wanted) -> None:
        raise AssertionError("a wait holds nothing")

    def lift(self, node: c.NodeState, wanted: Wanted) -> None:
        raise AssertionError("a wait lifts nothing")

    def close(self) -> None:
        pass


def forget() -> None:
    Memory.seen, Memory.sent, Memory.refusals = {}, [], {}
    Memory.known_serials, Memory.cards, Memory.found = {"record": "S1"}, c.Network(), None


def at(native: str, **more: Any) -> c.NodeState:
    return c.NodeState(id="x", name="x", native=native, state=STATES[native], **more)


def wait(
    *, check_mode: bool = False, timeout: float = 0.3, lifeline: Any = None, ctx: Any = None, **params: Any
) -> Result:
    nodes = [{"host": host, "known_runs": ["r1"], "serial": "S1"} for host in Memory.seen]
    given = {
        "provisioner": "memory", "until": "deployed", "timeout": timeout, "interval": 0.01, "nodes": nodes,
        "run_id": "r2", **params,
    }  # fmt: skip
    return verb.watch(given, ctx or Context(check_mode=check_mode, lifeline=lifeline))


def verdict(*views: Any, **more: Any) -> dict[str, Any]:
    Memory.seen["n1"] = list(views)
    found: dict[str, Any] = wait(**more).data["verdicts"]["n1"]
    return found
