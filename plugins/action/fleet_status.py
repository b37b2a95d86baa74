# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads ledger and schedulers for all hosts of the play; see the module of the same name."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ansible.module_utils.common.validation import check_type_dict
from ansible.module_utils.parsing.convert_bool import boolean
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _moved as moves
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _private as private
from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import FROM_HOST_VARS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import job
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.aliases import NAMELESS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.causes import by_cause, document, table
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.flaps import DAYS, RECYCLES, Limit
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.places import check_file
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.redact import shown
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.report import (
    SPEC,
    known_hosts,
    not_told,
    of_tenant,
    on_its_way,
    status,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.served import Seen
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.summary import artifact, report
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.way import foretold
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import names
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.grounds import of_another_image, unproven
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._batch import own, succeeded
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._door import VerbAction, display
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._heard import heard
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._history import evidence
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._leaves import redact_known
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._limit import names_nodes
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._one_ledger import WRONG_ONE, of_this_run
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._preflight_settings import demand_sound
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._served import look
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._services import among
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._soaking import soaking
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._tenant import owner, stranger

#: The site's names of its job templates, by the playbook that each runs.
TEMPLATES = "gpufleet_awx_templates"
#: Whether a run has to name its nodes: what a job template says of itself.
LIMIT_REQUIRED = "gpufleet_limit_required"
#: In these a stage validates a node again, without imaging it.
_VALIDATED = ("drained", "quarantined", "validating")


class ActionModule(VerbAction):
    NAME = "fleet_status"
    SPEC = SPEC
    #: Whose ledger cannot be read, the one that runs the task included, is told as such, and ends no report.
    FILLED = FROM_HOST_VARS - {"ledger_url"}

    def _goes_elsewhere(self) -> bool:
        return False

    def _in_worker(self, params: dict[str, Any]) -> dict[str, Any]:
        heard(self)
        self._demand_limit()
        if params["path"]:
            check_file(params["path"], "what is told")
        every = self._vars.get("ansible_play_hosts_all") or [self._host]
        hosts = known_hosts(params["hosts"], every)
        unknown = [host for host in hosts if host not in self._vars["hostvars"]]
        if unknown:
            raise ConfigError(f"no such host in the inventory: {', '.join(unknown)}", do="correct the option hosts")
        if params["settings_of"]:
            demand_sound(
                params["settings_of"], hosts, self._variables.names, lambda host, name: self.host_var(name, host)
            )
        told = self._told(hosts)
        nodes = {host: {**told[host], "foretold": self._foretold(host, told[host])} for host in hosts}
        grouped = params["by_cause"] or bool(params["path"])
        groups = self._in_place(by_cause(nodes, self._vars.get("groups"))) if grouped else []
        nodes = self._in_place(nodes)
        told_by = table(params["title"], nodes, groups, display.columns) if params["by_cause"] else None
        # What a node or a provisioner said once stands in the rows of the ledger; older releases wrote it as it came.
        lines = [shown(line, self._secrets) for line in told_by or report(params["title"], nodes, display.columns)]
        if params["report"]:
            display.display("\n" + "\n".join(lines) + "\n")
        result = {
            "changed": False,
            "nodes": nodes,
            "lines": lines,
            "events": [],
            **({"groups": groups} if grouped else {}),
            **({"ansible_stats": artifact(params["title"], nodes)} if params["report"] else {}),
        }
        result.update(_to_come(nodes))
        if params["path"]:
            result["changed"] = self._written(params["path"], document(params["title"], nodes, groups, time.time()))
        return result

    def _demand_limit(self) -> None:
        """With this verb each playbook begins that takes nodes out of service, or gives them back.

        :raises ConfigError: where the run has to name its nodes and does not, as when a form's limit was emptied.
        """
        demanded = boolean(self.host_var(LIMIT_REQUIRED) or False, strict=False)
        limit = str(self._vars.get("ansible_limit") or "")
        if demanded and not names_nodes(limit):
            raise ConfigError(
                f"this run has no limit that names its nodes, and is to have one ({LIMIT_REQUIRED})",
                wanted="a limit that names the nodes, and does not only leave some out",
                seen=f"{len(self._vars.get('ansible_play_hosts_all') or [])} hosts and the limit {limit!r}",
                do="launch it again with the nodes, or a group of them, in its limit",
            )

    def unasked(self) -> dict[str, Any]:
        """What this verb reads, and the options of one of its kind do not have."""
        return {name: option.get("default") for name, option in SPEC.items() if name not in self.SPEC}

    def _foretold(self, host: str, one: Mapping[str, Any]) -> str:
        """Of a host that has come through all that a run in check mode can do with it."""
        registered = [self.host_var(str(name), host) for name in self._params["foretell"]]
        if not registered or not all(succeeded(result, host) for result in registered):
            return ""
        results = [own(one, host) if isinstance(one, Mapping) else one for one in registered]
        if self._params["foretell_way"]:
            one = {**one, "way": self._params["foretell_way"]}
        new = any(isinstance(one, Mapping) and (one.get("before") or {}).get("state") == "absent" for one in results)
        image, provisioner = (self.host_var(f"gpufleet_{name}", host) for name in ("image", "provisioner"))
        return foretold(one, image if isinstance(image, Mapping) else {}, str(provisioner or ""), new=new)

    def _foreseen(self, hosts: Sequence[str]) -> dict[str, dict[str, dict[str, Any]]]:
        """What check mode has not recorded: without it a node that was refused is told as one that nobody looked at."""
        if not self._task.check_mode:
            return {}
        found: dict[str, dict[str, dict[str, Any]]] = {}
        newest = {"id": sys.maxsize, "at": self.ledger().now(), "run_id": self.run_id}
        for host, name in ((host, str(name)) for host in hosts for name in self._params["noted"]):
            result = self.host_var(name, host)
            for event in result.get("events") or [] if isinstance(result, Mapping) else []:
                of_what = "state" if event["kind"] == "state" else event["name"]
                found.setdefault(host, {})[of_what] = {**event, **newest}
        return found

    def _in_place(self, told: Any) -> Any:
        """Where no person types commands, what is next is the template that they launch."""
        templates = self.host_var(TEMPLATES) or {}
        if not job.is_one():
            return told
        if not isinstance(templates, Mapping):
            display.warning(
                f"{TEMPLATES} names no templates: it is to be a mapping of a playbook's name to a template's"
            )
            templates = {}
        return job.launched_all(told, templates)

    def _written(self, path: str, content: dict[str, Any]) -> bool:
        """Whole or not at all: other programs read it meanwhile."""
        if not self._task.check_mode:
            text = json.dumps(redact_known(content, self._secrets), indent=2, sort_keys=True) + "\n"
            private.write_for_people(path, text, "what was told")
        return True

    def _told(self, hosts: list[str]) -> dict[str, dict[str, Any]]:
        """Where each host stands, or why its ledger does not say.

        :raises FleetError: where no ledger at all can be read.
        """
        services: dict[str, FleetError] = dict(among(hosts, self.host_var))
        groups, unread = self._by_ledger([host for host in hosts if host not in services])
        told: dict[str, dict[str, Any]] = {}
        for url, group in groups.items():
            try:
                told.update(self._of_one(url, group))
            except FleetError as exc:
                unread.update(dict.fromkeys(group, exc.located(node=group[0])))
        if unread and not told:
            raise next(iter(unread.values()))
        return {**told, **{host: not_told(host, _why(exc)) for host, exc in {**unread, **services}.items()}}

    def _by_ledger(self, hosts: list[str]) -> tuple[dict[str, list[str]], dict[str, FleetError]]:
        """A host is where its own ledger says, not where its neighbour's knows nothing of it."""
        groups: dict[str, list[str]] = {}
        unread: dict[str, FleetError] = {}
        for host in hosts:
            try:
                url = str(self._params["ledger_url"] or self.host_var("gpufleet_ledger_url", host) or "")
            except ConfigError as exc:
                unread[host] = exc
                continue
            groups.setdefault(url, []).append(host)
        for url in groups:
            self._conceal({"ledger_url": url}, ["ledger_url"] if url else [])
        return groups, unread

    def _of_one(self, url: str, hosts: list[str]) -> dict[str, dict[str, Any]]:
        self._turn_to(url)
        ids, problems = self._identified(hosts)
        within = (self._params["expire_within"], self._params["issued_within"])
        seen = self._look(ids)
        self._warn_of_another(seen)
        told = status(self.ledger(), ids, self.run_id, *within, seen=seen, asker=self._run_as, unproven=self._unproven,
                      foreseen=self._foreseen(hosts), limits=self._flap_limits(ids, problems),
                      soaking=soaking(self.ledger(), list(filter(None, ids.values()))))  # fmt: skip
        self._moved_on(told, ids)
        # The last that says what is next: of a tenant's node each command names the tenant.
        for host, one in told.items():
            try:
                told[host] = of_tenant(one, owner(self.host_var, host), stranger(self.host_var, host))
            except ConfigError as exc:
                problems[host] = exc
        for host, problem in problems.items():
            # Of whom nothing is told may be a new one; who contradicts the ledger may be a node in service.
            one = told[host] if problem.what == NAMELESS else not_told(host, "")
            told[host] = {**one, "stopped": _why(problem)}
        return told

    def _flap_limits(self, ids: Mapping[str, str], problems: dict[str, ConfigError]) -> dict[str, Limit]:
        """By node id, as the site says it of its host."""
        found = {}
        for host, node_id in ids.items():
            try:
                if node_id:
                    recycles, days = (self.host_var(f"gpufleet_{name}", host) for name in (RECYCLES, DAYS))
                    found[node_id] = Limit.told(recycles, days)
            except ConfigError as exc:
                problems[host] = exc
        return found

    def _look(self, ids: Mapping[str, str]) -> dict[str, Seen]:
        return look(self.ledger(), ids, self.host_var) if self._params["ask_scheduler"] else {}

    def _moved_on(self, told: dict[str, dict[str, Any]], ids: Mapping[str, str]) -> None:
        """Whoever goes by an inventory that names the provisioner of before would work past the new one."""
        events = self.ledger().latest([one for one in ids.values() if one], moves.KIND, moves.EVENTS)
        for host, event in ((host, events[one]) for host, one in ids.items() if one in events):
            named = {name: self.host_var(f"gpufleet_{name}", host) for name in (names.OPTION, *names.OPTIONS)}
            why = moves.elsewhere(event, moves.place_of(named))
            if why is not None:
                goes_on = on_its_way(host) if event["name"] == moves.LEFT else ""
                stays = {"state": "unknown", "stopped": _why(why), "next": goes_on, "way": [], "deploy_resume": ""}
                told[host] = {**told[host], **stays}

    def _warn_of_another(self, seen: Mapping[str, Seen]) -> None:
        """A ledger that has never let a node into service is hardly that of a site where some serve."""
        serving = sorted(host for host, one in seen.items() if one.stranger and one.serves)
        if serving and not self.ledger().admitted_any():
            some = (
                f"{len(serving)} nodes are in service, such as {serving[0]}" if serving[1:] else f"{serving[0]} serves"
            )
            display.warning(f"{some}, and this ledger has let none in: {self.ledger().shown_url}. {WRONG_ONE}")

    def _unproven(self, host: str, node_id: str, one: Mapping[str, Any]) -> str:
        """Its history is read of those that a renewal would take, or a stage that was asked for, and of no other."""
        serves = one["state"] == "admitted" and not one["adopted"]
        asked = one["state"] in _VALIDATED and self._params["proof"] and not one["renewing"]
        if not asked and not one["renewing"] and not (serves and (one["passport_due"] or self._params["proof"])):
            return ""
        known = evidence(self.ledger(), node_id)
        if asked and (known["stored"] or {}).get("issued", 0.0) <= (known["imaged"] or {}).get("at", 0.0):
            return ""  # its passport is of what it ran before it was imaged
        try:
            image = check_type_dict(self.host_var("gpufleet_image", host) or {})  # as the verbs take it: also text
        except (ConfigError, TypeError):
            image = {}  # a renewal tells it: what cannot be read is no other image, and no reason to image the node
        other = of_another_image(known, image)
        return "; ".join(other if asked else [*unproven(known), *other])

    def _turn_to(self, url: str) -> None:
        ledger, self._ledger = self._ledger, None
        if ledger is not None:
            ledger.close()
        self._ledger = of_this_run(url, create=not self._task.check_mode)

    def _identified(self, hosts: list[str]) -> tuple[dict[str, str], dict[str, ConfigError]]:
        """The ledger's ids, and what is wrong with a host that it cannot identify: such a host stops no report."""
        ids, problems = {}, {}
        for host in hosts:
            try:
                ids[host] = self.node_id(host, create=False)
            except ConfigError as exc:
                ids[host], problems[host] = "", exc
        return ids, problems


def _to_come(nodes: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What Ansible shows with --diff; nothing where nothing is foretold."""
    on_the_way = {host: one for host, one in sorted(nodes.items()) if one["foretold"]}
    if not on_the_way:
        return {}
    before = "".join(f"{host}: {one['state']}\n" for host, one in on_the_way.items())
    after = "".join(f"{host}: {one['foretold']}\n" for host, one in on_the_way.items())
    return {"changed": True, "diff": {"before": before, "after": after}}


def _why(exc: FleetError) -> str:
    return f"{exc.what}. {exc.do}"
