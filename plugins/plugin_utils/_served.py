# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Asks the schedulers of many hosts which of them they serve: one question a scheduler. PRIVATE to the collection.

It looks, and tells the ledger nothing: what permits a write is asked for by whoever writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.served import NEVER_SERVED, Seen
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.absence import doubts
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import NodeView, Scheduler
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.hold import Claim
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _schedulers as schedulers
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._holds import holds


def look(ledger: Ledger, ids: Mapping[str, str], variable: schedulers.Variable) -> dict[str, Seen]:
    """By host, for those that were ever to serve, or do; one that belongs to no scheduler is left out.

    :param ids: the ledger's id of each host; empty for one that it does not know.
    """
    states = ledger.latest([node_id for node_id in ids.values() if node_id], "state")
    due = {host: node_id for host, node_id in ids.items() if _state(states.get(node_id)) != "retired"}
    failed: dict[str, FleetError] = {}
    known = holds(ledger, due, variable, failed) if due else {}
    found: dict[str, Seen] = {}
    claims: dict[str, Claim] = {}

    def settings(host: str) -> tuple[dict[str, Any], str]:
        claims[host] = Claim.of(known[host])
        return schedulers.settings(variable, host)

    for driver, hosts in schedulers.each(known, settings, failed):
        try:
            seen = _asked(driver, {name: claims[host] for host, name in hosts.items()})
        except FleetError as exc:
            failed.update(dict.fromkeys(hosts, exc))
            continue
        found.update({host: seen[name] for host, name in hosts.items() if name in seen})
    # Of one that was never to serve it is told alone where it does: it works for somebody else.
    failed = {host: exc for host, exc in failed.items() if _state(states.get(due[host])) not in NEVER_SERVED}
    told = {
        host: one for host, one in found.items() if one.stranger or _state(states.get(due[host])) not in NEVER_SERVED
    }
    return {**told, **{host: Seen(problem=f"{exc.what}. {exc.do}".strip()) for host, exc in failed.items()}}


def _state(event: Mapping[str, Any] | None) -> str:
    return str(event["name"]) if event else "discovered"


def _asked(driver: Scheduler, claims: Mapping[str, Claim]) -> dict[str, Seen]:
    views = driver.states(list(claims)) if claims else {}
    doubted = doubts(driver, views, claims)
    if not driver.KEEPS_NODES:
        claims = {name: claims[name] for name in doubted}
    unheard = {name: _unheard(driver.NAME, views[name]) for name in claims}
    return {
        name: _seen(views[name], claim, str(doubted.get(name, "")) or unheard[name]) for name, claim in claims.items()
    }


def _seen(view: NodeView, claim: Claim, doubt: str) -> Seen:
    problem = doubt or view.unread or ("it does not know this node" if view.absent else "")
    stranger = claim.stranger and claim.serves(view)
    runs = [work.runs for work in view.work]
    return Seen(view.in_service, claim.owner(view), view.native, view.reason, claim.told(view), problem, stranger, runs)


def _unheard(system: str, view: NodeView) -> str:
    """A scheduler that was just started has not heard of its nodes yet, those that work among them; one that was killed
    has forgotten their boots as well."""
    if view.state != "unknown" or view.held:
        return ""
    return f"{system} has not heard of it lately ({view.native}): wait a minute, or see that its agent runs on the node"
