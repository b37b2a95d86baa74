# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Is a node still in its provisioner's maintenance under our token? PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _moved as moves
from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import value_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.permit import (
    HALF,
    HELD,
    LIFTED,
    MAINTENANCE,
    NO_RECORD,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import names
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import wanted as wants
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.guard import found, not_ours
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.quarantine import is_marked
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.registry import connected
from ansible_collections.gpufleet.baremetal.plugins.module_utils._token import has_form
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Event
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._deployments import deployments

#: What tells a host's node, beside the connection.
_OF_THE_NODE = ("provisioner_id", "boot_mac", "serial")
#: Whose its hold is, and at which provisioner, and not whose what it runs.
_KNOWN = ("known_runs", "known_former_serials", "known_at")
Variable = Callable[[str, str], Any]


def renewed(
    ledger: Ledger,
    hosts: Sequence[str],
    *,
    identify: Callable[[str], str],
    variable: Variable,
    tell: Callable[[list[tuple[str, Event]]], object],
    run_id: str,
) -> dict[str, FleetError]:
    """By host, why it could not be asked for; of the others the ledger now has the newest look."""
    failed: dict[str, FleetError] = {}
    for host in hosts:
        try:
            node_id = identify(host)
            moment = ledger.moment().as_data()
            # A board was swapped under this maintenance: its record has the old one until the next deployment.
            noted = deployments(ledger, {host: node_id})[host]
            known = {name: noted[name] for name in _KNOWN}
            event = _look(variable, host, run_id, known)
            tell([(node_id, Event(event.kind, event.name, {**event.data, **moment}))])
        except FleetError as exc:
            failed[host] = exc
    return failed


def _look(variable: Variable, host: str, run_id: str, known: Mapping[str, Any]) -> Event:
    own = {name: variable(f"gpufleet_{name}", host) for name in (names.OPTION, *names.OPTIONS, *_OF_THE_NODE)}
    params = {name: value_of(own, name, names.OPTIONS) for name in own}
    params.update(known, name=host, run_id=run_id)
    with connected(params, Context(check_mode=True, node=host)) as driver:
        wanted = wants.of_task(params, driver.name, driver.image_needs, host)
        node = found(driver, wanted)
        ours = node is not None and node.maintenance and has_form(node.hold) and not not_ours(driver, node, wanted)
        told = {"hold_token": node.hold if node else "", "provisioner": driver.name, **moves.noted(params)}
        half = {HALF: True} if node is not None and is_marked(node) and not ours else {}
        unknown = {NO_RECORD: True} if node is None else {}
    return Event(MAINTENANCE, HELD if ours else LIFTED, {**told, **half, **unknown})
