# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the controller does for gates that run in jobs of the scheduler. PRIVATE to the collection.

It makes each job's script, reads the file that the job has left on its node over the host's own connection, has it
judged as that of any other gate that went on by itself, and takes it away.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.registry import (
    ASKED,
    IN_JOBS,
    LACKING,
    NEEDS,
    OWN,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.specs import DCGM_GATE
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import wanted_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.watch import ENDING_SECONDS, command, gate_wait
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import lease
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.let_go import dead, let_go
from ansible_collections.gpufleet.baremetal.plugins.module_utils._moment import Moment
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.idle import CUT, JUDGED
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import FAIL, PASS
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _machine, _payload
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._batch import BatchAction
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._gate import reference
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._in_force import used
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._looks import Looks

#: The options of the gate that a task may give it; the others are of a run that the controller makes by itself.
_OPTIONS = (
    *("level", "tests", "timeout", "busy_timeout", "localise_timeout", "health", "dcgmi", "pci_path"),
    *("state_dir", "boot_id_path"),
)
#: What a job's file tells of it, and nobody else can know.
_OF_THE_NODE = ("boot_id", "pid", "pid_start", "started")
_LIMIT = 64 * 1024


class InJobs(BatchAction):
    """Base of an action that runs a gate in jobs, and the aide of its verb."""

    def prepare(self, params: dict[str, Any]) -> dict[str, Any]:
        self._gate, self._options = str(params["gate"]), _checked(params["options"] or {})
        params = super().prepare(params)
        self._nodes = {str(node.get("host") or ""): node for node in params["nodes"]}
        self._there = Looks(self, self._vars, timeout=float(params["look_timeout"]))
        #: What was asked of each host's job, and when it was sent.
        self._asks: dict[str, dict[str, Any]] = {}
        self._sent_at: dict[str, Moment] = {}
        return {**params, "aide": self, "run_id": self.run_id}

    def began(self, host: str) -> Moment:
        return self._sent_at.get(host, Moment())

    # -- the ledger --------------------------------------------------------------------------------------------

    def working(self, hosts: Sequence[str]) -> dict[str, str]:
        of = {self.ids[host]: host for host in hosts if host in self.ids}
        found = lease.working(self.ledger(), list(of), self._run_as)
        return {of[node]: run for node, run in found.items() if run != self.run_id}

    def dead(self, hosts: Sequence[str]) -> dict[str, str]:
        of = {self.ids[host]: host for host in hosts if host in self.ids}
        return {of[node]: run for node, run in dead(self.ledger(), list(of), self._run_as).items()}

    def let_go(self, host: str) -> None:
        let_go(self._line, [host])

    # -- before a job ------------------------------------------------------------------------------------------

    def script(self, host: str) -> tuple[str, float]:
        """:raises FleetError: where its profile, its interpreter or the machine that answers is not as it must be."""
        params = self._of_host(host)
        if not self._task.check_mode:
            self._right_machine(host)
        self._sent_at[host] = self.ledger().moment()
        text = _payload.script(self._gate, params, python=self._python(host))
        return text, float(self._asks[host]["limit"]) + ENDING_SECONDS

    def _of_host(self, host: str) -> dict[str, Any]:
        sku = self._task.args.get("sku") or self.host_var("gpufleet_sku", host)
        profile = used({**self._params, "sku": sku})[0]
        # Another name for each call: what an earlier one has left is none of this one's.
        job = f"idle-{os.urandom(12).hex()}"
        params = {**self._options, "profile": profile, "job": job}
        limit_of, question_of = IN_JOBS[self._gate]
        NEEDS[self._gate](self._options, wanted_of(profile))  # else there would be nothing to ask
        self._asks[host] = {
            "gate": self._gate,
            "job": job,
            "limit": limit_of(params),
            "profile": reference(profile),
            "question": question_of(params),
            "state_dir": str(params["state_dir"]),
            "boot_id_path": str(params["boot_id_path"]),
        }
        return params

    def _python(self, host: str) -> str:
        """The site's own for that host, where it names one; ``auto`` and its like are no path."""
        said = str(self.host_var("ansible_python_interpreter", host) or "")
        return said if said.startswith("/") else str(self._params["python"])

    def _right_machine(self, host: str) -> None:
        """What stands on another machine would be read in this node's name.

        :raises WrongMachine: where another one answers. :raises ConfigError: where nobody can tell.
        """
        node = self.ids.get(host, "")
        proven = _machine.proven(self.ledger(), node, self.run_id)
        if proven is False:
            raise _machine.refused(self.ledger(), node, host)
        if proven is None:
            folder = str(self._nodes[host].get("dmi_path") or self._params["dmi_path"])
            machine = _machine.told(*self._there.ask({host: _machine.question(folder)})[host])
            inventory = {key: self.host_var(f"gpufleet_{key}", host) for key in ("serial", "system_uuid")}
            _machine.demand(host, _machine.known(self.ledger(), node, inventory), machine, dry=False)
            _machine.not_of_another(self.ledger(), node, host, machine)

    # -- behind a job ------------------------------------------------------------------------------------------

    def judged(self, host: str) -> dict[str, Any]:
        """A pass or a failure is written into the ledger at once: its run may be killed before all hosts are done with.
        What is neither changes nothing there."""
        asked = self._asks[host]
        text, _problem = self._there.ask({host: f"head -c {_LIMIT} {_path(asked, '.job')}"})[host]
        node = {"host": host, **asked, **_of_the_job(text)}
        gate = self._gate
        engine = {"lacking": LACKING[gate], "asked_of": ASKED[gate], "own": OWN[gate]}
        look = {"look": self._look, "interval": 1.0, "timeout": 0, "grace": 0}
        result = gate_wait({"gate": gate, "nodes": [node], **look, **engine}, Context())
        found = {key: value for key, value in result.data["verdicts"][host].items() if key != "seconds"}
        if found["verdict"] not in (PASS, FAIL):
            return {**found, "came_to": CUT}
        [event] = self._append(result.events)
        return {**found, "came_to": JUDGED, "event": event}

    def _look(self, nodes: Sequence[Mapping[str, Any]]) -> dict[str, tuple[str, str]]:
        return self._there.ask({str(node["host"]): command(node) for node in nodes})

    def tidy(self, hosts: Sequence[str]) -> None:
        """A node that is silent keeps two small files of ours in memory until it boots."""
        known = {host: self._asks[host] for host in hosts if host in self._asks}
        ends = (".job", ".json", ".job.new", ".json.new")
        self._there.ask({host: f"rm -f {' '.join(_path(one, end) for end in ends)}" for host, one in known.items()})


def _path(asked: Mapping[str, Any], end: str) -> str:
    return shlex.quote(f"{asked['state_dir']}/{asked['job']}{end}")


def _of_the_job(text: str) -> dict[str, Any]:
    """What its file tells of it; nothing where there is none."""
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return {key: told[key] for key in _OF_THE_NODE if key in told} if isinstance(told, dict) else {}


def _checked(options: Mapping[str, Any]) -> dict[str, Any]:
    """The gate's options, whole.

    :raises ConfigError: for one that the gate does not know, or that is not for a task to give here.
    """
    strange = sorted(set(options) - set(_OPTIONS))
    spec = {name: DCGM_GATE[name] for name in _OPTIONS}
    checked = ArgumentSpecValidator(spec).validate({key: value for key, value in options.items() if key in spec})
    wrong = [f"{name} is none of them" for name in strange] + list(checked.error_messages)
    if wrong:
        raise ConfigError(f"options of the gate: {'; '.join(wrong)}", wanted=", ".join(_OPTIONS))
    known: dict[str, Any] = checked.validated_parameters
    return known
