# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Looks at everything that a run needs, for the whole batch in one worker; see the module of the same name."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _moved as moves
from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import BMC, PROVISIONER, SCHEDULER
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.redact import shown
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.report import known_hosts
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._preflight import CHECKS, SPEC
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _preflight_files as on_the_controller
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _preflight_gates as gates
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _preflight_machines as machines
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _preflight_policy as policy
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _preflight_services as services
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _preflight_settings as settings
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _preflight_ssh as ssh
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._causes import (
    LEAVES_OUT,
    NOTE,
    ONE_NODE,
    STOPS,
    THEIRS,
    Cause,
    cause_of,
    folded,
    grouped,
    line_of,
    lines_of,
    stopped_by,
)
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._certificate import FIXED
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._deployments import deployments
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._door import VerbAction, display
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._holds import Variable, holds
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._limit import tell_strangers
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._one_ledger import of_this_run
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._preflight import Batch
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._services import among


def _settings(batch: Batch) -> None:
    settings.look(batch)
    gates.look(batch)


LOOKS: Mapping[str, Callable[[Batch], None]] = {
    "settings": _settings,
    "ledger": on_the_controller.ledger,
    "keys": on_the_controller.keys,
    "sku": on_the_controller.sku,
    "policy": policy.look,
    "image": on_the_controller.image,
    "bmc": machines.look,
    "provisioner": services.provisioner,
    "scheduler": services.scheduler,
    "ssh": ssh.look,
}
#: Variables whose text nothing shows, whoever echoes it.
_SECRET = tuple(
    f"gpufleet_{name}" for name, one in {**BMC, **PROVISIONER, **SCHEDULER}.items() if one.get("no_log")
)  # fmt: skip
_LEDGER = "gpufleet_ledger_url"


class _Record:
    """What the ledger of the host that runs the task has of all of them."""

    def __init__(
        self, ledger: Callable[[], Ledger], node_id: Callable[[str], str], hosts: Sequence[str], variable: Variable
    ) -> None:
        self._ledger, self._node_id, self._hosts, self._variable = ledger, node_id, hosts, variable

    @functools.cached_property
    def _tried(self) -> Ledger | FleetError:
        """Once for all: one that is silent takes its time at each try."""
        try:
            return self._ledger()
        except FleetError as exc:
            return exc

    @property
    def _there(self) -> Ledger | None:
        return None if isinstance(self._tried, FleetError) else self._tried

    @functools.cached_property
    def _told(self) -> dict[str, str | FleetError]:
        """By host its node, empty for one that is new, or why that cannot be said."""
        if isinstance(self._tried, FleetError):
            return dict.fromkeys(self._hosts, self._tried)
        found: dict[str, str | FleetError] = {}
        for host in self._hosts:
            try:
                found[host] = self._node_id(host)
            except FleetError as exc:  # the look at the ledger, or the run itself, tells it
                found[host] = exc
        return found

    @functools.cached_property
    def _ids(self) -> dict[str, str]:
        return {host: told for host, told in self._told.items() if told and isinstance(told, str)}

    def certificate(self, host: str) -> str:
        """Empty where none was fixed.

        :raises FleetError: where the ledger cannot say: the BMC may have another one, and is told no login.
        """
        told = self._told[host]
        if isinstance(told, FleetError):
            raise told
        event = self._ledger().latest([told], "note", [FIXED]).get(told) if told else None
        return str(event["data"].get("sha256") or "") if event else ""

    def serials(self, host: str) -> Sequence[str]:
        """Those that its node is known by; none of one that is out of the fleet."""
        node = self._ids.get(host, "")
        return self._ledger().serials(node) if node and not self._ledger().retired(node) else ()

    def holds(self) -> Mapping[str, Mapping[str, Any]]:
        """A host of which the ledger knows nothing is none of ours to it; where it cannot be asked, nobody can say."""
        if self._there is None:
            return {}
        ids = {**dict.fromkeys(self._hosts, ""), **self._ids}
        return holds(self._there, ids, self._variable, {})

    def deployments(self) -> Mapping[str, Mapping[str, Any]]:
        """The same of what its provisioner is told of it."""
        if self._there is None:
            return {}
        return deployments(self._there, {**dict.fromkeys(self._hosts, ""), **self._ids})

    def moves(self) -> Mapping[str, Mapping[str, Any]]:
        if not self._ids:
            return {}
        events = self._ledger().latest(list(self._ids.values()), moves.KIND, moves.EVENTS)
        return {host: events[one] for host, one in self._ids.items() if one in events}


class ActionModule(VerbAction):
    NAME = "preflight"
    SPEC = SPEC
    #: What is wrong with the host that runs the task is told like that of any other, and ends no look.
    FILLED = frozenset[str]()

    def _goes_elsewhere(self) -> bool:
        return False

    def _looks(self) -> bool:
        return False  # the ledger is looked at, and not asked for the time

    def ledger(self) -> Ledger:
        """Opened to read: a look makes no ledger, whoever needs one later makes it."""
        if self._ledger is None:
            self._ledger = of_this_run(str(self.host_var(_LEDGER) or ""), create=False)
        return self._ledger

    def _in_worker(self, params: dict[str, Any]) -> dict[str, Any]:
        tell_strangers(self._vars)
        alive = self._vars.get("ansible_play_hosts") or [self._host]
        hosts = known_hosts(params["hosts"], alive)
        unknown = [host for host in hosts if host not in self._vars["hostvars"]]
        if unknown:
            raise ConfigError(f"no such host in the inventory: {', '.join(unknown)}", do="correct the option hosts")
        record = _Record(self.ledger, lambda host: self.node_id(host, create=False), hosts, self.host_var)
        batch = Batch(hosts, self.host_var, self._variables.names, params["threads"], record, self._variables.raw,
                      self._run_as.process, params["skip"])  # fmt: skip
        self._hide(batch)
        for host, why in among(hosts, self.host_var).items():
            batch.tell([host], cause_of(settings.CHECK, why))
            batch.hosts.remove(host)
        for check in CHECKS:
            if check not in params["skip"] and batch.hosts:
                batch.try_for(batch.hosts, check, LOOKS[check], batch)
        return self._told(params, batch)

    def _hide(self, batch: Batch) -> None:
        """Before anybody is asked."""
        hidden = {}
        for host in batch.hosts:
            hidden.update({f"{host} {name}": batch.text(host, name) for name in _SECRET})
        hidden = {key: text for key, text in hidden.items() if text}
        self._conceal(hidden, list(hidden))
        # Of a ledger's address the login alone is secret, and a file's name no secret at all.
        for url in {batch.text(host, _LEDGER) for host in batch.hosts}:
            if url and not url.startswith("sqlite:"):
                self._conceal({"ledger_url": url}, ["ledger_url"])

    def _told(self, params: Mapping[str, Any], batch: Batch) -> dict[str, Any]:
        groups = grouped(batch.found, batch.own())
        lines = [shown(line, self._secrets) for line in lines_of(params["title"], groups, list(batch.found))]
        display.display("\n" + "\n".join(folded(lines, display.columns)) + "\n")
        stops = any(one["kind"] in STOPS for one in groups)
        result = {
            "changed": False,
            "ok": not stops,
            "findings": groups,
            "nodes": {host: _of_host(causes) for host, causes in batch.found.items()},
            "lines": lines,
            "events": [],
        }
        if stops and params["stop"]:
            first = next(one for one in groups if one["kind"] in STOPS)
            told = f"{lines[0]}. {shown(line_of(first, list(batch.found)), self._secrets)}"
            result.update(stopped_by(first, told))
        return result


def _of_host(causes: Sequence[Cause]) -> dict[str, Any]:
    out = [one for one in causes if one.kind in LEAVES_OUT]
    reasons = (
        FleetError(one.what, address=one.address, wanted=one.wanted, seen=one.seen, do=one.do)
        for one in dict.fromkeys(out)
    )
    return {
        "ok": all(one.kind == NOTE for one in causes),
        "left_out": bool(out),
        # What is wrong with the node itself leaves it out; what is somebody else's may be given back.
        "kind": min((one.kind for one in out), key=[ONE_NODE, THEIRS].index, default=""),
        "reason": "; ".join(map(str, reasons)),
    }
