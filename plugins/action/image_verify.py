# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``image_verify`` on the controller: verifies signatures here, and sends a node only what it must be like."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _net as net
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    BadAnswer,
    ConfigError,
    FleetError,
    WrongMachine,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.collected import KEYS, problem_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import names as provisioners
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.called import CALLED, LOOK, OWN_NAME
from ansible_collections.gpufleet.baremetal.plugins.module_utils._serial import same_uuid
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust import deployed
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.artifact import expectations
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.clock import common, judge_offset, window
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.identity import SAME, normal_identity
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.image import (
    combined,
    facts,
    image_verify,
    no_nodes_fault,
    of_the_source,
    unanswered,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.judgement import Judgement
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.node import required, seconds
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.specs import IMAGE_VERIFY
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Event, Result
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import INCONCLUSIVE, PASS
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _machine as machines
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _own_name as own_name
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._door import VerbAction
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._machine import not_of_another
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._told import of_a_crash, said_last

#: What a node needs to know; the image's URLs, keyring and everything of the site's own stay here.
_FOR_NODE = (
    "mode",
    "timeout",
    "manifest_path",
    "driver_version_path",
    "nvidia_smi",
    "fabric_manager",
    "boot_id_path",
    "uptime_path",
    "dmi_path",
    *deployed.PLACES.values(),
    "mountinfo_path",
    "sysfs_path",
    "booted_after",
    "not_boot_id",
    "max_clock_skew",
)
#: Further looks at the node's clock where the module's own answer took too long to tell.
_CLOCK_LOOKS = 3
#: Deployments of before whose boot entry a stateless node may still have.
_EARLIER = 32
#: Digits of a clock's seconds, and of their fraction; no clock of a node's shows a time after _END.
_SECONDS, _END = re.compile(r"[0-9]{1,12}\Z"), 1e12


@dataclass(frozen=True)
class _Known:
    """What the controller knows before it asks a node: what was signed, and what the node must therefore be like."""

    signed: Judgement
    expect: Mapping[str, Any]
    params: Mapping[str, Any]

    def without(self, finding: str, text: str) -> Result:
        """The verdict where the node's answer is none."""
        return unanswered(self.signed, self.expect, self.params, finding, text)


class ActionModule(VerbAction):
    NAME = "image_verify"
    SPEC = IMAGE_VERIFY
    TELLS = {"verdict": ("image_artifact", "image_verify")}
    verb = staticmethod(image_verify)

    def writes(self, params: Mapping[str, Any]) -> bool:
        return False

    def prepare(self, params: dict[str, Any]) -> dict[str, Any]:
        if params["mode"] != "artifact":
            self.on_its_own_node()
        if params.get("expect"):
            raise ConfigError(
                "expect is not for a task to set",
                wanted="an image with a signature",
                do="leave it out: the controller verifies the signature and fills it",
            )
        # What was not declared came back from the check of the options as None, which no option allows to be sent.
        image = {key: value for key, value in (params.get("image") or {}).items() if value is not None}
        return {**params, "image": image or None}

    def _in_worker(self, params: dict[str, Any]) -> dict[str, Any]:
        if params["mode"] == "machine":
            return self._no_other_machine(params)
        return super()._in_worker({**params, "run_cache": self._run_as.process})

    def _goes_elsewhere(self) -> bool:
        return self._params["mode"] == "node" or super()._goes_elsewhere()

    def _no_other_machine(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Before anything is taken from a node: what says of itself that it is another machine stops its host. It is no
        verdict, and what tells nothing stops nobody; the BMC has been asked who it is.

        :raises WrongMachine: naming what contradicts.
        """
        answer = self._low_level_execute_command(own_name.question(str(params["dmi_path"])))
        machine = machines.told(str(answer.get("stdout", "")), str(answer.get("stderr", "")))
        told = normal_identity(machine)
        bmc = normal_identity(params.get("bmc_identity"))
        machines.refuse_another(bmc, told, self._host)
        node_id = self.node_id(create=False)
        inventory = {key: self.host_var(f"gpufleet_{key}") for key in ("serial", "system_uuid")}
        ours = machines.known(self.ledger(), node_id, inventory)
        vouched = bool(bmc["system_uuid"]) and same_uuid(bmc["system_uuid"], told["system_uuid"])
        if vouched and not any(same_uuid(one, told["system_uuid"]) for one in ours.system_uuid):
            # The board of then says nothing against the one of now; where it is that one, it speaks for the machine.
            ours = machines.known(self.ledger(), node_id, inventory, signed=False)
        machines.demand(self._host, ours, machine, dry=True)
        if node_id:
            not_of_another(self.ledger(), node_id, self._host, machine)
        # Its scheduler may have it under another name than the one that is held next.
        called = Event(LOOK, CALLED, {OWN_NAME: own_name.told(answer)}).as_dict()
        return {"changed": False, "mode": "machine", "identity": told, "events": [called] if node_id else []}

    def _shipped(self, params: dict[str, Any]) -> dict[str, Any]:
        if params["mode"] != "node":
            return self._from_elsewhere(params)
        ctx = Context(check_mode=bool(self._task.check_mode), node=self._host, lifeline=self._line)
        judgement, expect = expectations({**params, "run_cache": self._run_as.process}, ctx)
        if judgement.verdict != PASS:
            return of_the_source(judgement, params, {"mode": "node", "image": facts(expect)}).as_dict(ctx)
        return self._of_node(params, _Known(judgement, {**expect, **self._deployment(params)}, params)).as_dict(ctx)

    def _deployment(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """What must be seen of the deployment, if one is asked for."""
        if not params.get("deploy_id"):
            return {}
        formats = provisioners.STATELESS.get(str(self.host_var("gpufleet_provisioner") or ""), ())
        image = params["image"] or {}
        if image.get("format", "ramdisk") not in formats or seconds(str(params.get("booted_after") or 0)) <= 0:
            return {deployed.CHECK: deployed.wanted(str(params["deploy_id"]))}
        # A boot from the network proves something only where it is known to be one since the order.
        node_id = self.node_id(create=False)
        begun = self.ledger().history(node_id, kinds=("state",), names=("imaging",)) if node_id else []
        earlier = [str(event["data"].get("deploy_id") or "") for event in begun][-_EARLIER:]
        boot_mac = net.spelled(self.host_var("gpufleet_boot_mac"))
        return {deployed.CHECK: deployed.wanted(str(params["deploy_id"]), boot_mac, [*filter(None, earlier)])}

    def _of_node(self, params: dict[str, Any], known: _Known) -> Result:
        """The controller's own verdict on what the node answers, whatever that is. No event of an answer is recorded,
        and an answer that is none leaves no earlier pass the newest."""
        required(known.expect, params)  # an option that cannot be read is refused before anything is shipped
        told = {key: params[key] for key in _FOR_NODE}
        try:
            asked = time.time()
            node = super()._shipped({**told, "expect": known.expect, "fail_on": "never"})
            return self._judged(known, node, asked, time.time())
        except BadAnswer as exc:  # not what a module of ours says
            return known.without("forged", f"what the node answered cannot be believed: {cut(exc, 300)}")
        except (FleetError, KeyboardInterrupt, SystemExit):
            raise
        except BaseException as exc:  # Ansible's own time limit is no Exception
            lost = isinstance(exc, AnsibleConnectionFailure)
            text = f"{'the connection to the node died' if lost else 'the node was not judged'}: {cut(exc, 300)}"
            self._append(known.without("unreachable" if lost else "aborted", text).events)
            raise

    def _judged(self, known: _Known, node: Mapping[str, Any], asked: float, answered: float) -> Result:
        if "verdict" not in node:
            return _crashed(known, node)
        offset = self._offset(node.get("clock"), asked, answered, known.params["max_clock_skew"])
        result = combined(known.signed, known.expect, node, known.params, offset=offset)
        contradicted = _other_machine(result, self._host)
        if contradicted:
            self._append(result.events)  # it has no pass, and an earlier one must not stay the newest
            raise contradicted
        return self._of_nobody_else(known, result)

    def _of_nobody_else(self, known: _Known, result: Result) -> Result:
        """What BMC and machine both tell may be what all boards of a series tell."""
        node_id = self.node_id(create=False)
        try:
            if node_id:
                not_of_another(self.ledger(), node_id, self._host, result.data["identity"])
                self._confirm(node_id, result)
        except WrongMachine as exc:
            self._append(known.without("other_machine", str(exc)).events)
            raise
        return result

    def _confirm(self, node_id: str, result: Result) -> None:
        """BMC and machine agree on who it is: what it tells is no mere claim of the inventory any more."""
        cells = [check["verdict"] for check in result.data["checks"] if check["id"] == "machine"]
        if not self._task.check_mode and cells and all(one == PASS for one in cells):
            told = result.data["identity"]
            self.ledger().confirm(node_id, [(kind, told[kind]) for kind in SAME], "node")

    def _from_elsewhere(self, params: dict[str, Any]) -> dict[str, Any]:
        """What a jump host verified: of its event, that it is the one of its result."""
        result = super()._shipped(params)
        if "verdict" not in result:
            return {**result, "failed": True, "events": []}  # the module did not get that far, and says why
        verdict, gate = {key: result.get(key) for key in KEYS}, "image_artifact"
        problem = problem_of(verdict, gate=gate, profile={"digest": ""})
        events = [(event["name"], {key: event["data"].get(key) for key in KEYS}) for event in result["events"]]
        if problem or events != [(gate, verdict)]:
            raise BadAnswer(
                "what the jump host answered is no verdict on the artifact, and none of it is recorded",
                node=self._host,
                wanted=f"one event {gate}, of the verdict in the result",
                seen=cut(problem, 300) or f"events {', '.join(name for name, _data in events) or 'none'}",
                do="look for who changes answers on the machine where the module ran",
            )
        return {**result, **no_nodes_fault(verdict, params["image"])}

    def _offset(self, read: Any, asked: float, answered: float, limit: float) -> tuple[float, float] | None:
        """The window of the node's clock; the node is asked again only where the module's answer leaves it open."""
        # Everything between the two readings of the node's clock was spent on the node.
        windows = []
        if _read_twice(read):
            windows.append(window(asked, read["begun"], answered - max(0.0, read["ended"] - read["begun"])))
        for _look in range(_CLOCK_LOOKS):
            if judge_offset(common(windows), limit) != INCONCLUSIVE:
                break
            seen = self._look_at_clock()
            if seen is not None:
                windows.append(seen)
        return common(windows)

    def _look_at_clock(self) -> tuple[float, float] | None:
        asked = time.time()
        try:
            answer = self._low_level_execute_command("date +%s.%N", sudoable=False)
        except AnsibleConnectionFailure:  # what the node has answered before stands
            return None
        answered = time.time()
        text = str(answer.get("stdout", "")).strip()
        whole, _dot, rest = text.partition(".")
        if answer.get("rc") != 0 or not _SECONDS.match(whole):
            return None
        # A date that does not know %N shows whole seconds.
        exact = bool(_SECONDS.match(rest))
        return window(asked, float(f"{whole}.{rest}") if exact else float(whole), answered, grain=0.0 if exact else 1.0)


def _other_machine(result: Result, node: str) -> WrongMachine | None:
    """What another machine tells is no verdict on this node: the task says so, and quarantines nobody."""
    for finding in result.data["findings"]:
        if finding["id"] == "other_machine":
            return WrongMachine(
                finding["text"],
                node=node,
                do="correct ansible_host or gpufleet_bmc_address in the inventory and run again: until then the look"
                " counts as inconclusive",
            )
    return None


def _read_twice(clock: Any) -> bool:
    """Is it the pair of times that a node answers with?"""
    times = [clock.get("begun"), clock.get("ended")] if isinstance(clock, Mapping) else [None]
    return all(isinstance(one, float) and 0 <= one < _END for one in times)


def _crashed(known: _Known, node: Mapping[str, Any]) -> Result:
    """The module said something else than a verdict: it was killed, or could not even start."""
    result = known.without("crashed", f"the node's module gave no verdict: {cut(said_last(node), 300)}")
    result.data.update(of_a_crash(node))
    return result
