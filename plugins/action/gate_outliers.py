# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judges a node, or all hosts of the play, by what the ledger has of their peers; see the module of the same name."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.action.fleet_status import ActionModule as FleetStatus
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.redact import shown as masked
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.report import known_hosts
from ansible_collections.gpufleet.baremetal.plugins.module_utils._moment import Moment
from ansible_collections.gpufleet.baremetal.plugins.module_utils._outliers import shown
from ansible_collections.gpufleet.baremetal.plugins.module_utils._outliers.figures import GATES
from ansible_collections.gpufleet.baremetal.plugins.module_utils._outliers.judged import NAME, Fleet, Judged
from ansible_collections.gpufleet.baremetal.plugins.module_utils._outliers.specs import SPEC, refuse
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Event
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import (
    FAIL,
    PASS,
    answer,
    inconclusive,
    refusal,
    sentence,
)
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._door import display
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._elected import elected
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._figures import all_measured

_DAY = 86400


class ActionModule(FleetStatus):
    NAME = NAME
    SPEC = SPEC

    def prepare(self, params: dict[str, Any]) -> dict[str, Any]:
        refuse(params)
        self._looked: dict[str, Moment] = {}
        return params

    def began(self, host: str) -> Moment:
        """What was measured before an imaging, and is judged after it, was measured on another system."""
        return self._looked.get(host or self._host, self._began)

    def _in_worker(self, params: dict[str, Any]) -> dict[str, Any]:
        return self._of_batch(params) if params["batch"] else self._own(params)

    # -- one node, as a gate -----------------------------------------------------------------------------------

    def _own(self, params: Mapping[str, Any]) -> dict[str, Any]:
        judged = self._mine(params)
        self._looked[self._host] = judged.moment
        ctx = Context(check_mode=bool(self._task.check_mode), diff=bool(self._task.diff), node=self._host)
        result = answer(judged.verdict, judged.asked).as_dict(ctx)
        # A dry run has measured nothing: what stands in the ledger may be what its real run would measure anew.
        why = "" if ctx.check_mode else refusal(result, params["fail_on"], check_mode=False)
        return {**result, "failed": True, "msg": why} if why else result

    def _mine(self, params: Mapping[str, Any]) -> Judged:
        """The fleet is read once for all hosts of a batch, by the first that comes here; whoever was measured since is
        none of those."""
        node_id = self.node_id(create=False)
        hosts = list(self._vars.get("ansible_play_batch") or [self._host])
        if len(hosts) < 2:
            return self._judged(params, {self._host: node_id})[self._host]
        asked = {key: value for key, value in self._task.args.items() if key != "node_id"}
        name = f"{self._task._uuid} {self.ledger().url} {json.dumps(asked, sort_keys=True, default=str)}"
        with elected(name, self._line.beat) as seat:
            known = seat.answer_for(self._host, hosts)
            if known is not None and self._host in known["judged"] and self._newest(node_id) <= known["event"]:
                verdict, question, moment = known["judged"][self._host]
                return Judged(verdict, question, Moment(*moment))
            event = self.ledger().moment().event
            judged = self._judged(params, {self._host: node_id, **self._others(hosts)})
            told = {host: [one.verdict, one.asked, list(one.moment)] for host, one in judged.items()}
            seat.answer({"judged": told, "event": event}, self._host, hosts)
        return judged[self._host]

    def _others(self, hosts: Sequence[str]) -> dict[str, str]:
        """Those of the batch that this ledger knows; whoever it cannot tell asks for itself, and is told why."""
        ids, problems = self._identified([host for host in hosts if host != self._host and self._shares(host)])
        return {host: one for host, one in ids.items() if host not in problems}

    def _shares(self, host: str) -> bool:
        try:
            return bool(self.host_var("gpufleet_ledger_url", host) == self.host_var("gpufleet_ledger_url"))
        except ConfigError:
            return False

    def _newest(self, node_id: str) -> int:
        events = self.ledger().latest([node_id], "verdict", GATES)
        return max((int(event["id"]) for event in events.values()), default=0)

    def _judged(self, params: Mapping[str, Any], ids: Mapping[str, str]) -> dict[str, Judged]:
        ledger = self.ledger()
        fleet = Fleet(all_measured(ledger, ledger.now() - params["days"] * _DAY), params["peers"])
        return {host: fleet.judged(node_id) for host, node_id in ids.items()}

    # -- all hosts of the play ---------------------------------------------------------------------------------

    def _of_batch(self, params: Mapping[str, Any]) -> dict[str, Any]:
        hosts = known_hosts(params["hosts"], self._vars.get("ansible_play_hosts_all") or [self._host])
        unknown = [host for host in hosts if host not in self._vars["hostvars"]]
        if unknown:
            raise ConfigError(f"no such host in the inventory: {', '.join(unknown)}", do="correct the option hosts")
        verdicts = self._verdicts(params, hosts)
        lines = [masked(line, self._secrets) for line in shown.table(params["title"], verdicts, display.columns)]
        if params["report"]:
            display.display("\n" + "\n".join(lines) + "\n")
        told = {host: _of_each(one, params["fail_on"]) for host, one in verdicts.items()}
        counts = shown.counts(verdicts)
        return {"changed": False, "verdicts": told, "counts": counts, "lines": lines, "events": []}

    def _verdicts(self, params: Mapping[str, Any], hosts: list[str]) -> dict[str, dict[str, Any]]:
        groups, unread = self._by_ledger(hosts)
        told: dict[str, dict[str, Any]] = {}
        for url, group in groups.items():
            try:
                told.update(self._of_ledger(params, url, group))
            except FleetError as exc:
                unread.update(dict.fromkeys(group, exc))
        if unread and not told:
            raise next(iter(unread.values()))
        told.update({host: _untold(exc) for host, exc in unread.items()})
        return {host: told[host] for host in hosts}

    def _of_ledger(self, params: Mapping[str, Any], url: str, hosts: list[str]) -> dict[str, dict[str, Any]]:
        self._turn_to(url)
        ids, problems = self._identified(hosts)
        judged = self._judged(params, {host: one for host, one in ids.items() if host not in problems})
        self._tell({ids[host]: one for host, one in judged.items() if ids[host]})
        return {**{host: one.verdict for host, one in judged.items()}, **{h: _untold(e) for h, e in problems.items()}}

    def _tell(self, judged: Mapping[str, Judged]) -> None:
        """Outliers, each once as long as nothing new is measured, and those that are none any more. A look at a fleet
        bars no node: as a verdict it would stand against it, which is for the gate to say."""
        if self._task.check_mode:
            return
        ledger = self.ledger()
        before = ledger.latest(list(judged), KIND, [NAME])
        due = {one: _event(of) for one, of in judged.items() if _is_news(of.verdict, before.get(one))}
        ledger.append(self.run_id, list(due.items()), secrets=self._secrets)


#: Of a look at the fleet; a gate's verdict is one.
KIND = "measure"


def _event(judged: Judged) -> Event:
    data = {**judged.verdict, "asked": judged.asked, "text": sentence(judged.verdict), **judged.moment.as_data()}
    return Event(KIND, NAME, data)


def _is_news(verdict: Mapping[str, Any], before: Mapping[str, Any] | None) -> bool:
    was = str(before["data"].get("verdict")) if before else PASS
    if verdict["verdict"] == FAIL:
        return before is None or was != FAIL or before["data"].get("evidence_digest") != verdict["evidence_digest"]
    return was == FAIL and verdict["verdict"] == PASS


def _untold(exc: FleetError) -> dict[str, Any]:
    return {**inconclusive(NAME, str(exc), id="ledger"), "kind": exc.kind}


def _of_each(verdict: Mapping[str, Any], fail_on: str) -> dict[str, Any]:
    """What a host reads of a batch; its cells that pass are a number."""
    checks = [check for check in verdict["checks"] if check["verdict"] != PASS]
    kept = {key: verdict[key] for key in ("verdict", "findings", "remedy")}
    why = refusal(verdict, fail_on, check_mode=False)
    reason = {"ok": not why, "reason": why or sentence(verdict), "kind": str(verdict.get("kind") or "")}
    return {**kept, **reason, "checks": checks, "passed": len(verdict["checks"]) - len(checks)}
