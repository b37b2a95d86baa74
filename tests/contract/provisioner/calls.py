# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the tests of this folder call the verbs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Optional

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    EvidenceMissing,
    FleetError,
    Unsupported,
    WrongMachine,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import names
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.node import node
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.watch import watch
from ansible_collections.gpufleet.baremetal.plugins.module_utils._together import Peers
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Lifeline
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._crew import Crew
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._for_all import ForAll

#: Those that lead to a state of one provisioner; the others take two, see test_moved.py, or are work, see
#: test_work.py, or power, see test_power.py.
STATES = tuple(one for one in names.STATES if one not in ("left", "moved", "annotated", *names.WORKS, *names.POWERS))


class Killed(BaseException):
    """As SIGKILL: nothing of the verb runs after it."""


class Line(Lifeline):
    """Notes each write, and refuses or dies on demand.

    refuse: hosts without proof that they are drained.
    """

    def __init__(self, refuse: tuple[str, ...] = (), die_at: Optional[int] = None) -> None:
        self.writes: list[tuple[str, bool, tuple[str, ...]]] = []
        #: What was told as an order, each node's own.
        self.orders: list[str] = []
        self._refuse = refuse
        self._die_at = die_at

    def before_write(self, what: str, *, destructive: bool, nodes: tuple[str, ...] = ()) -> Optional[str]:
        if destructive and set(nodes) & set(self._refuse):
            raise EvidenceMissing("refused: this may hit running work", node=nodes[0])
        if self._die_at is not None and len(self.writes) == self._die_at:
            raise Killed
        self.writes.append((what, destructive, nodes))
        self.orders += [self.order for _node in nodes or ("its own",) if self.order]
        return None


class Waits(Line):
    """Somebody does this while leave for the nth write is waited for."""

    def __init__(self, nth: int, do: Callable[[], None]) -> None:
        super().__init__()
        self._nth = nth
        self._do = do

    def before_write(self, what: str, *, destructive: bool, nodes: tuple[str, ...] = ()) -> Optional[str]:
        told = super().before_write(what, destructive=destructive, nodes=nodes)
        if len(self.writes) == self._nth:
            self._do()
        return told


def lead(options: dict[str, Any], state: str, *, check: bool = False, line: Optional[Line] = None, **more: Any) -> Any:
    ctx = Context(check_mode=check, diff=True, node=options["name"], lifeline=line)
    return node({**options, "state": state, **more}, ctx).as_dict(ctx)


def of_all(
    batch: list[dict[str, Any]], state: str, *, check: bool = False, at_once: int = ForAll.AT_ONCE
) -> dict[str, Any]:
    """As one task does it for all hosts of a play: by host what its verb returns, or what it raised."""
    peers, told = Peers(), {}
    options = {one["name"]: one for one in batch}

    def serve(host: str) -> None:
        try:
            ctx = Context(check_mode=check, diff=True, node=host, lifeline=Line(), peers=peers)
            told[host] = node({**options[host], "state": state}, ctx).as_dict(ctx)
        except FleetError as exc:
            told[host] = exc

    Crew(serve, peers.rounds).serve(list(options), at_once, lambda: None)
    assert set(told) == set(options), told
    return told


def watch_all(
    site: Any,
    until: str,
    *batch: dict[str, Any],
    timeout: float = 40,
    check: bool = False,
    line: Optional[Line] = None,
    say: Optional[Callable[[str], None]] = None,
    **more: Any,
) -> Any:
    """One call of the watcher."""
    ctx = Context(check_mode=check, lifeline=line, say=say)
    known = ("known_runs", "known_former_serials", "known_at", "known_deployed", "known_deploy_ids", "known_works")
    keys = ("boot_mac", "serial", "image", "driver", "provisioner_id", "deploy_id", "booted_at", *known)
    nodes = [{"host": one["name"], **{key: one[key] for key in keys if key in one}} for one in batch]
    times = {"timeout": timeout, "interval": site.interval}
    params = {**site.connection(), "until": until, **times, "nodes": nodes, **more}
    return watch(params, ctx).as_dict(ctx)


def await_all(site: Any, until: str, *batch: dict[str, Any], **more: Any) -> Any:
    """As the role does it: what must be booted by others is booted, and watched again."""
    result = watch_all(site, until, *batch, **more)
    due = [one for one in batch if result["verdicts"][one["name"]]["step"] == "boot"]
    if not due or more.get("check"):
        return result
    for one in due:
        site.boot(one["name"])
    again = watch_all(site, until, *due, booted=True, **more)
    return {**again, "verdicts": {**result["verdicts"], **again["verdicts"]}}


def states(site: Any) -> list[str]:
    """Those that this driver can bring a node into."""
    return [one for one in STATES if site.driver.holds or one not in names.HOLDING]


def declined(site: Any, limit: str, call: Callable[[], Any]) -> bool:
    """Does the driver declare that it cannot? Then the verb says so, and nothing is asked of the provisioner."""
    if getattr(site.driver, limit):
        return False
    site.faults.forget()
    with pytest.raises(Unsupported):
        call()
    assert site.faults.calls == []
    return True


def ready(site: Any) -> dict[str, Any]:
    options: dict[str, Any] = site.new()
    lead(options, "ready")
    verdict = await_all(site, "ready", options)["verdicts"][options["name"]]
    assert verdict["ok"], verdict
    site.faults.forget()
    return options


def deployed(site: Any, version: str = "1", **more: Any) -> dict[str, Any]:
    options = {**ready(site), "image": site.image(version), **more}
    lead(options, "deployed")
    verdict = await_all(site, "deployed", options)["verdicts"][options["name"]]
    assert verdict["ok"], verdict
    site.faults.forget()
    return options


def moves_to_no_other_machine(site: Any, options: dict[str, Any]) -> None:
    """While an order stands: whatever machine has the card that the row names would take its image by its next boot."""
    options = {**options, "image": site.image()}
    before = dict(site.record(options["name"]))
    other = {**options, "boot_mac": "52:54:ff:fd" + options["boot_mac"][11:]}
    site.faults.forget()
    for state in ("enrolled", "ready", "deployed", "released"):
        with pytest.raises(WrongMachine, match="another machine"):
            lead(other, state)
    assert site.faults.writes == [] and site.record(options["name"]) == before
    lead(options, "released")
    assert lead(other, "enrolled")["changed"], "without an order it is a record and no more"


def is_ordered_for_no_other_machine(site: Any, correct: Callable[[str, str], Any]) -> None:
    """At rest as well: whatever machine has the card of the record would take the image, and the row names another one.

    :param correct: what a person has seen, and enters there: the card of this name.
    """
    options = {**ready(site), "image": site.image(), "deploy_id": "d-1"}
    other = {**options, "boot_mac": "52:54:ff:fd" + options["boot_mac"][11:]}
    assert lead(other, "deployed", check=True)["changed"], "the record may be made right before it"
    with pytest.raises(WrongMachine, match="another machine") as told:
        lead(other, "deployed")
    assert "correct the record there" in told.value.do
    watched = watch_all(site, "deployed", other)["verdicts"][other["name"]]
    assert watched["kind"] == WrongMachine.kind and not watched["ok"], watched
    assert site.faults.writes == []
    correct(options["name"], other["boot_mac"])
    with pytest.raises(WrongMachine, match="another machine"):
        lead(options, "deployed")
    assert site.faults.writes == []
    assert lead(other, "deployed")["changed"]
