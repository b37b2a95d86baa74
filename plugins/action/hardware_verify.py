# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Asks BMC and provisioner what a machine consists of, and judges it; see the module of the same name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _verdict as verdicts
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.info import info
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.registry import rehearse
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, WrongMachine
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import hardware as gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._hardware import hardware_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.hardware import Inspected, hardware
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Result
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verified import SPEC
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._certificate import CertifiedAction
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._for_all import ForAll
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._heard import heard
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._in_force import profile_of
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_columns import COLUMNS

rehearse()
#: The cells of a list, by what is judged of them.
_OF_A_LIST: Mapping[str, str] = {
    cell: COLUMNS["cpu_count" if cell == "cpu_sockets" else cell][0]
    for cell in gate.CELLS
    if cell != "cpu_threads"
}  # fmt: skip


class ActionModule(ForAll, CertifiedAction):
    NAME = gate.NAME
    SPEC = SPEC
    #: What a BMC was asked, and told, is one machine's.
    OF_ONE = ForAll.OF_ONE | {"bmc"}
    TELLS = {"verdict": (gate.NAME,)}

    def _goes_elsewhere(self) -> bool:
        return False  # profile and list are here

    def writes(self, params: Mapping[str, Any]) -> bool:
        return False

    def prepare(self, params: dict[str, Any]) -> dict[str, Any]:
        heard(self)  # the playbook gate_profile begins with it
        listed = {cell: self.host_var(variable) for cell, variable in _OF_A_LIST.items()}
        params = {**params, "name": params.get("name") or self._host, "run_cache": self._run_as.process}
        params["expected"] = {**listed, **params["expected"]}
        params["profile"] = profile_of(params) if params.get("sku") else None
        return super().prepare(params)

    @staticmethod
    def verb(params: Mapping[str, Any], ctx: Context) -> Result:
        started, profile = verdicts.now_utc(), params["profile"]
        wanted = gate.wishes(params["expected"], profile.data if profile else None)
        bmc = _bmc(params, ctx, [cell.partition(":")[2] for cell in wanted if cell.startswith(gate.FIRMWARE)])
        told = {gate.BMC: hardware_of(bmc["hardware"])} if bmc.get("hardware") else {}
        agrees = {gate.BMC: list(bmc["machine"]["agrees"])}
        for who, inspected in _inspected(params, ctx).items():
            told[who], agrees[who] = inspected.parts, list(inspected.agrees)
        sheet = gate.judge(wanted, told, agrees=agrees)
        found = {who: parts.as_dict() for who, parts in told.items()}
        verdict = verdicts.as_verdict(
            gate.NAME,
            sheet,
            tool=verdicts.Tool(gate.NAME, "1"),
            started=started,
            evidence=verdicts.json_digest(found),
            profile={"sku": profile.sku, "digest": profile.digest} if profile else None,
        )
        # A list that is corrected is asked again by the same question: what is looked at, and not what was typed.
        asked = {"tests": gate.asked(wanted, sheet), "profile": profile.digest if profile else ""}
        return verdicts.answer(verdict, asked, hardware=found, bmc_unread=list(bmc.get("hardware_unread") or []))

    def finish(self, params: Mapping[str, Any], result: dict[str, Any]) -> dict[str, Any]:
        result = super().finish(params, result)
        why = verdicts.refusal(result, str(params["fail_on"]), check_mode=bool(self._task.check_mode))
        return {**result, "failed": True, "msg": why} if why else result


def _bmc(params: Mapping[str, Any], ctx: Context, firmware: list[str]) -> Mapping[str, Any]:
    """What the BMC tells, or what somebody was told by it.

    :raises WrongMachine: where it is another machine's: nothing that it tells is a verdict on this one.
    """
    told = params.get("bmc")
    if told is None:
        told = info({**params, "macs": True, "hardware": True, "firmware": firmware}, ctx).data
    machine = told.get("machine")
    if not isinstance(machine, Mapping) or not {"agrees", "contradicts"} <= set(machine):
        raise ConfigError(
            "bmc is no result of bmc_info", do="register bmc_info with hardware: true, and give its result"
        )
    if machine["contradicts"]:
        raise WrongMachine(
            "the BMC is another machine's",
            address=str(told.get("address") or ""),
            seen=", ".join(map(str, machine["contradicts"])),
            do="correct gpufleet_bmc_address, or gpufleet_serial, gpufleet_system_uuid or gpufleet_boot_mac",
        )
    return told


def _inspected(params: Mapping[str, Any], ctx: Context) -> dict[str, Inspected]:
    if not params.get("provisioner"):
        return {}
    found = hardware(params, ctx)
    return {f"{params['provisioner']}'s inspection": found} if found is not None else {}
