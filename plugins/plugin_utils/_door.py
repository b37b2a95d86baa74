# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The second door of every verb: the action plugin on the controller. PRIVATE to the collection.

An action file is this much::

    from ...module_utils._bmc.power import power          # imports stand here: paid once, before the fork
    class ActionModule(VerbAction):
        NAME = "redfish_power"
        SPEC = ARGUMENT_SPEC
        verb = staticmethod(power)

        def destructive(self, params): return params["state"] != "on"

The base class fills options from the host variables, validates them, calls the verb in this worker process (or
ships the module: where the task is delegated to another machine, and for verbs that run on the node), and writes
the verb's events into the ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.utils.display import Display
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _moved as moves
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _ways as ways
from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import FROM_HOST_VARS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, FleetError, unexpected
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import keep_secret
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.holder import Holder, this_run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.lifeline import LedgerLifeline
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.permit import (
    EVIDENCE_SECONDS,
    FIRST_LOOK,
    MAINTENANCE,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.redact import known_secrets, redact, shown
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._moment import Moment
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import names as provisioners
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.ways import powerless
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler import names as schedulers
from ansible_collections.gpufleet.baremetal.plugins.module_utils._together import Peers
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Event, Result
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _boot_probe as boot_probe
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _run_ends as run_ends
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _services as services
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _tenant as tenant
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._apart import Apart
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._core import LEAST as _LEAST  # noqa: F401
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._failures import events_of, notes_of, outcome
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._holds import belongs
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._leaves import redact_known, small
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._main_process import main_process
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._maintained import renewed
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._node_files import read_away
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._one_ledger import of_this_run
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._proof import BESIDE, Proofs
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._shipping import Shipping
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._variables import OfEach, alone, learnt, node_of
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._warm import before_the_fork
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._way_there import opened

display = Display()
# Here, in the main process, before its workers fork.
before_the_fork()
run_ends.watch()


class VerbAction(Shipping):
    """Runs one verb. Subclasses set NAME, SPEC and ``verb``, and override the hooks they need."""

    _supports_check_mode = True
    _requires_connection = False

    NAME: ClassVar[str]
    SPEC: ClassVar[Mapping[str, Any]]
    #: Keyword arguments of ArgumentSpecValidator: mutually_exclusive, required_if, ...
    RULES: ClassVar[Mapping[str, Any]] = {}
    #: The options that a variable of the host fills where the task leaves them out.
    FILLED: ClassVar[Collection[str]] = FROM_HOST_VARS
    #: True for verbs whose work is done on the node: the module is always shipped over the host's connection.
    NODE_SIDE: ClassVar[bool] = False
    #: True for verbs that go to the BMC past the provisioner: its maintenance under our token is demanded.
    PAST_PROVISIONER: ClassVar[bool] = False
    #: True for verbs that change a machine, or its record at a provisioner: what works for others is left alone.
    TOUCHES: ClassVar[bool] = False
    #: True for verbs on a whole batch: a node that is lost on the way does not take the others with it.
    BATCH: ClassVar[bool] = False
    #: True where this host is one of those that one task serves.
    OF_ALL: ClassVar[bool] = False
    #: Which of the hosts that one task serves have a library that serves one at a time.
    APART: ClassVar[Apart | None] = None
    #: Whose progress a line tells of; the host's own without it.
    LABEL: ClassVar[str] = ""
    verb: Callable[[Mapping[str, Any], Context], Result]

    # -- hooks -------------------------------------------------------------------------------------------------

    def prepare(self, params: dict[str, Any]) -> dict[str, Any]:
        """Add what only the controller knows (a profile, a file's content, the ledger's history)."""
        return params

    def finish(self, params: Mapping[str, Any], result: dict[str, Any]) -> dict[str, Any]:
        """A last look at the result, before its events are written."""
        return result

    # -- the run -----------------------------------------------------------------------------------------------

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        self._vars: dict[str, Any] = task_vars or {}
        ways.led_by(partial(opened, self, self._vars, self.peers()))
        self._host = str(self._vars.get("inventory_hostname", "localhost"))
        self._ledger: Ledger | None = None
        self._ids: dict[str, str] = {}
        self._variables = OfEach(self, self._vars, self._host)
        self._intended, self._begun_there = "", {}
        self._asked: list[Any] = []
        self._began, self._known_at = Moment(), 0
        self._elsewhere = False
        self._secrets: frozenset[str] = frozenset()
        result: dict[str, Any]
        try:
            result = self._guarded(self._validated())
        except FleetError as exc:
            told = {"asked": self._asked} if self._asked else {}
            result = {"failed": True, "changed": bool(told), **exc.located(node=self._host).as_result(), **told}
        except AnsibleConnectionFailure as exc:
            result = {"failed": True, "changed": False, **self.out_of_reach(exc).as_result()}
        finally:
            if self._ledger is not None:
                self._ledger.close()
        return redact_known(result, self._secrets)

    def _guarded(self, params: dict[str, Any]) -> dict[str, Any]:
        self._params = params
        self._run_as: Holder = this_run(main_process())
        self._line = self._lifeline(params)
        try:
            params = self._prepared(params)
            if self.NODE_SIDE or self._goes_elsewhere():
                result = self._shipped(params)
            else:
                result = self._in_worker(params)
        except (FleetError, AnsibleError):
            raise
        except Exception as exc:  # a library's surprise must still name the node
            raise unexpected(exc, node=self._host) from exc
        if not result.get("failed"):
            result = self.finish(params, result)
        self._asked = list(result.get("asked") or [])
        self._record(result)
        return result

    def _prepared(self, params: dict[str, Any]) -> dict[str, Any]:
        if self._looks():
            self._began = self.ledger().moment()
            self._known_at = self._began.event
        return self.prepare(params)

    def _in_worker(self, params: dict[str, Any]) -> dict[str, Any]:
        ctx = Context(
            check_mode=bool(self._task.check_mode),
            diff=bool(self._task.diff),
            node=self._host,
            lifeline=self._line,
            say=self._say,
            boot_probe=self._probe_boot if self._reaches_node() else None,
            moment=self._moment,
            own_name=self._own_name,
            peers=self.peers(),
            node_file=partial(read_away, self) if self._reaches_node() else None,
        )
        try:
            done = type(self).verb(params, ctx)
            if any(event.kind == "hold" for event in done.events):
                self._line.confirm()  # of a node that another run has taken since, that one tells the newest hold
            return done.as_dict(ctx)
        except FleetError as exc:
            self._asked = list(ctx.asked)
            for line in ctx.warnings:
                display.warning(shown(f"{self._host}: {line}", self._secrets))
            self._told_if_there([*ctx.told, *events_of(self.NAME, ctx.asked, exc.located(node=self._about()))])
            raise

    def peers(self) -> Peers | None:
        """What the verb has in common with those that go on beside it in this worker; none where it is alone."""
        return None

    def _about(self) -> str:
        """The host that an error is about which names none."""
        return self._host

    def _say(self, line: str) -> None:
        display.display(shown(f"{self.LABEL or self._host}: {line}", self._secrets))

    def _own_name(self) -> str:
        """What the machine calls itself that answers, for verbs that ask."""
        return ""

    # -- options -----------------------------------------------------------------------------------------------

    def _validated(self) -> dict[str, Any]:
        given = {key: value for key, value in self._task.args.items() if not key.startswith("_")}
        self.demand_no_leave(given)
        services.demand_node({} if self.BATCH else self.SPEC, self.host_var, self._host)
        for name in self.SPEC:
            if name in self.FILLED and given.get(name) is None:
                value = self.host_var(f"gpufleet_{name}")
                if value is not None and value != "":
                    given[name] = value
        checked = ArgumentSpecValidator(dict(self.SPEC), **self.RULES).validate(given)
        if checked.error_messages:
            raise ConfigError(
                f"{self.NAME}: " + "; ".join(checked.error_messages),
                node=self._host,
                do=f"see ansible-doc gpufleet.baremetal.{self.NAME}",
            )
        params: dict[str, Any] = checked.validated_parameters
        secret = [name for name, option in self.SPEC.items() if option.get("no_log") and params.get(name)]
        self._conceal(params, secret)
        return params

    def _conceal(self, params: Mapping[str, Any], secret: Sequence[str]) -> None:
        """From now on nothing shows these."""
        self._secrets |= known_secrets(params, secret)
        keep_secret(*self._secrets)

    def host_var(self, name: str, host: str = "") -> Any:
        """A variable of this host, or of a named one as a task of its own would see it; None where it is not set.

        :raises ConfigError: where that of a named host cannot be read: it is that host's trouble, and no other's.
        """
        return self._variables.of(host, name) if host else self._variables.own(name)

    def _reaches_node(self) -> bool:
        """Is this task's connection the node's own? Another one would tell of another machine's boot."""
        return not self._task.delegate_to and self._connection.transport != "local"

    def on_its_own_node(self) -> None:
        """What runs on a node tells of the machine that it runs on: delegated, of another one in this host's name.

        :raises ConfigError: before anything is shipped.
        """
        if self._task.delegate_to:
            raise ConfigError(
                f"{self.NAME} judges the machine that it runs on, and cannot be delegated to another one",
                node=self._host,
                wanted="a task of the node's own",
                seen=f"delegate_to {self._task.delegate_to}",
                do="leave delegate_to out",
            )

    def _probe_boot(self) -> dict[str, str] | None:
        """``{"boot_id", "cmdline", "uptime"}`` of the node over its own connection; None where it does not answer."""
        try:
            self._connection.reset()
            answer = self._low_level_execute_command(boot_probe.PROBE, sudoable=False)
        except (AnsibleConnectionFailure, AnsibleError):
            return None
        return boot_probe.told(answer)

    # -- the ledger --------------------------------------------------------------------------------------------

    def ledger(self) -> Ledger:
        """The ledger, opened at the first need and closed at the end of the task; check mode makes none."""
        if self._ledger is None:
            url = str(self._params.get("ledger_url") or self.host_var("gpufleet_ledger_url") or "")
            self._ledger = of_this_run(url, create=not self._task.check_mode)
            run_ends.used(url)
        return self._ledger

    def node_id(self, host: str = "", *, create: bool = True, serial: str = "") -> str:
        """The ledger's id of this host, or of another one of the play; empty for a stranger where not to create.

        Check mode never does.

        :param serial: what the machine itself says, for a host of which the inventory names none.
        """
        host = host or self._host
        if not self._ids.get(host):
            found = self._its_node(host, create=create and not self._task.check_mode, serial=serial)
            alone(self.ledger(), found, host, self._vars, lambda other: self._its_node(other, create=False))
            self._ids[host] = found
        return self._ids[host]

    def _its_node(self, host: str, *, create: bool, serial: str = "") -> str:
        own = self._params.get("node_id") if host == self._host else None
        hosts = self._vars.get("hostvars") or ()
        told: dict[str, Any] = {"create": create, "hosts": hosts, "serial": serial, "run_id": self.run_id}
        told["learnt"] = learnt(self._vars, host, "gpufleet_serial")
        return node_of(self.ledger(), host, self.host_var, own, **told)

    @property
    def run_id(self) -> str:
        return self._run_as.run_id

    def noted(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """What an intent of this call tells beside its options."""
        return moves.noted(params)

    def _lifeline(self, params: Mapping[str, Any]) -> LedgerLifeline:
        return LedgerLifeline(
            self.ledger,
            self._run_as,
            verb=self.NAME,
            intent={"options": redact(small(params), secrets=self._secrets), **self.noted(params)},
            identify=self.node_id,
            default_node=self._host,
            force_reason=str(params.get("force_reason") or ""),
            secrets=self._secrets,
            parent=self._run_as.pid,
            batch=self.BATCH,
            managed_by=self._power_owner() if self.PAST_PROVISIONER else "",
            managed_at=moves.named(self.host_var) if self.PAST_PROVISIONER else None,
            maintained=str(self.host_var("gpufleet_provisioner") or "") not in provisioners.NO_MAINTENANCE,
            say=self._say,
            prove=self._prove_anew,
            asks=self._names_scheduler if self.TOUCHES else None,
            along=self.along,
            refuse=self.refuse_tenants,
        )

    def _names_scheduler(self, host: str) -> bool:
        """Also of one that the inventory takes out of its scheduler, until a person has told the ledger so."""
        named = self.host_var(f"gpufleet_{schedulers.OPTION}", host) not in (None, "", schedulers.NONE)
        return named or belongs(self.ledger(), self.node_id(host, create=False))

    def refuse_tenants(self, host: str) -> None:
        """:raises NotOurs: where the node is a tenant's whom this run does not name. Of no host of the inventory nobody
        says whose it is."""
        if host in (self._vars.get("hostvars") or ()) or host == self._host:
            tenant.refuse(self.host_var, host)

    def beside(self) -> list[str]:
        """The hosts whose turn comes after this one's: what proves that they are drained is looked at with its own."""
        batch = list(self._vars.get("ansible_play_batch") or ())
        at = batch.index(self._host) + 1 if self._host in batch else len(batch)
        return batch[at : at + BESIDE]

    def _prove_anew(self, hosts: Sequence[str], kind: str, from_age: float = EVIDENCE_SECONDS) -> dict[str, FleetError]:
        asks: dict[str, Any] = {
            "identify": lambda host: self.node_id(host, create=False),
            "variable": self.host_var,
            "tell": lambda pairs: self.ledger().append(self.run_id, pairs, secrets=self._secrets),
        }
        if kind == MAINTENANCE:
            return renewed(self.ledger(), hosts, run_id=self.run_id, **asks)
        proofs = Proofs(self.ledger, others=self.beside, beat=self._line.beat, **asks)
        return proofs.renew(hosts, unseen=kind == FIRST_LOOK, from_age=from_age)

    def _power_owner(self) -> str:
        """The provisioner that switches this node's power itself, by the way it is asked, if there is one."""
        name = str(self.host_var("gpufleet_provisioner") or "")
        return "" if powerless(name, moves.named(self.host_var)["url"]) else name

    def _record(self, result: dict[str, Any]) -> None:
        """Write the verb's events, and one outcome where it wrote; nothing at all in check mode."""
        events = [
            Event(str(item["kind"]), str(item["name"]), dict(item["data"]), str(item.get("node") or ""))
            for item in result.get("events") or []
        ]
        if self._task.check_mode:
            return
        # A module is shipped after its intent is written, whatever it then finds to do; each intent has its outcome.
        if self._intended and result.get("failed"):
            failed = outcome([self._intended], str(result.get("msg", "")), result.get("error") or {})
            failed.update(self._begun_there)
            events += [Event("outcome", self.NAME, failed), *notes_of(failed["kind"], failed["error"])]
        elif result.get("asked") or self._intended:
            kept = ("changed", "before", "after", "asked", "evidence", "msg", "ordered")
            events.append(Event("outcome", self.NAME, {key: result[key] for key in kept if key in result}))
        ids = self._append(events)
        for item, number in zip(result.get("events") or [], ids):
            item["id"] = number

    def _told_if_there(self, events: list[Event]) -> None:
        """Beside an error that ends the task: a ledger that is away must not take its place."""
        try:
            self._append(events)
        except FleetError as exc:
            display.warning(shown(f"{self._host}: the ledger was not told: {exc}", self._secrets))

    def _append(self, events: list[Event]) -> list[int]:
        if not events or self._task.check_mode:
            return []
        pairs = [(self.node_id(event.node), self._placed(event)) for event in events]
        return self.ledger().append(self.run_id, pairs, secrets=self._secrets)
