# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the ledger knows of a BMC's certificate: fixed when it is seen first, and demanded from then on. PRIVATE."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, ClassVar

from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import names
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.certificate import another, fingerprint
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.registry import APART, side_by_side
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.who import NOBODY_KNOWS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, FleetError, WrongMachine
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.places import default_is_there
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.spelling import other_serials
from ansible_collections.gpufleet.baremetal.plugins.module_utils._serial import serial_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._swap import SWAPPED
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.identity import SAME, normal_identity
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._apart import Apart
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._door import VerbAction
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._leaves import forced

OPTION = "bmc_tls_fingerprint"
#: The event, of the kind note, that fixes a certificate; the newest one counts.
FIXED = "bmc_certificate"
#: What tells a host's node in the ledger.
_NAMED_BY = ("gpufleet_node_id", "gpufleet_serial", "gpufleet_system_uuid", "gpufleet_boot_mac")


class CertifiedAction(VerbAction):
    """A verb on a BMC whose certificate may be fixed in the ledger."""

    #: Whether this verb may fix a certificate: one that only reads, and is meant for the first look at a BMC.
    FIXES: ClassVar[bool] = False
    #: pyghmi keeps one event loop for all sessions of a process, which is turned by whoever waits.
    APART = Apart("bmc_protocol", tuple(APART), side_by_side)

    def prepare(self, params: dict[str, Any]) -> dict[str, Any]:
        # One spelling, before anything is held against it: what the driver takes for a fixed certificate is one here.
        given, address = str(params.get(OPTION) or ""), str(params.get("bmc_address") or "")
        params = {**params, OPTION: fingerprint(given, address)}
        params.update(self._serial_on_record(params))
        self._fixed = self._known() if params.get(OPTION) else ""
        if params.get(OPTION) != names.FIRST:
            return params
        if not self._fixed and not self.FIXES:
            raise ConfigError(
                "the certificate of this BMC is not fixed yet",
                wanted="one that was seen before",
                do="run bmc_info on this host first (the role oob_ready does), or name the certificate's SHA-256 in"
                " gpufleet_bmc_tls_fingerprint",
            )
        return {**params, OPTION: self._fixed or names.FIRST}

    def told(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """That there is a reason lets the module write to a machine that nobody knows; what it is stays at home."""
        return forced(params)

    def finish(self, params: Mapping[str, Any], result: dict[str, Any]) -> dict[str, Any]:
        if NOBODY_KNOWS in (result.get("notes") or []):
            data = {"verb": self.NAME, "write": NOBODY_KNOWS, "reason": str(params.get("force_reason") or "")}
            result["events"] = [*(result.get("events") or []), Event("note", "forced", data).as_dict()]
        result = self._with_certificate(params, result)
        if self.FIXES and not self._task.check_mode and self._has_ledger():
            self._confirm(result)
        return result

    def _has_ledger(self) -> bool:
        """Who only looks at a BMC needs no ledger, and gets none made where nobody named one."""
        named = self._params.get("ledger_url") or self.host_var("gpufleet_ledger_url")
        return bool(named) or default_is_there()

    def _confirm(self, result: Mapping[str, Any]) -> None:
        """What this BMC tells of the machine that is meant is no mere claim of the inventory any more."""
        machine, told = result.get("machine") or {}, normal_identity(result.get("identity"))
        if not machine.get("agrees") or machine.get("contradicts"):
            return
        pairs = [("serial", told["serial"]), ("serial", str(machine.get("serial") or ""))]
        pairs += [("system_uuid", told["system_uuid"])]
        pairs += [("mac", str(one.get("mac") or "")) for one in result.get("macs") or []]
        # A look is a look where the ledger is away, too, or does not know which node this is.
        with contextlib.suppress(FleetError):
            self.ledger().confirm(self.node_id(), pairs, "bmc")

    def _with_certificate(self, params: Mapping[str, Any], result: dict[str, Any]) -> dict[str, Any]:
        seen = str(result.get("tls_fingerprint") or "")
        if not (self.FIXES and params.get(OPTION) and seen) or seen == self._fixed:
            return result
        address, demanded = str(result.get("address") or ""), params[OPTION]
        told = normal_identity(result.get("identity"))
        if demanded not in (names.FIRST, seen):  # a driver logs in nowhere else: that is a jump host's word
            raise another(address, demanded, seen)
        self._right_machine(params, told, address)
        before = self._known(told["serial"])
        # Of a host without an identity in the inventory nobody knew before the login what is fixed.
        if before not in ("", seen) and demanded == names.FIRST:
            raise another(address, before, seen)
        if before != seen:
            self._its_own_node(before, told["serial"], address)
            data = {"sha256": seen, "address": address, "before": before}
            result["events"] = [*(result.get("events") or []), Event("note", FIXED, data).as_dict()]
        return result

    def _right_machine(self, params: Mapping[str, Any], told: Mapping[str, Any], address: str) -> None:
        """:raises WrongMachine: where the BMC is not one of the machine that the inventory means."""
        ours = normal_identity(
            {
                "serial": self.host_var("gpufleet_serial") or params.get("serial") or self._on_record(told["serial"]),
                "system_uuid": self.host_var("gpufleet_system_uuid"),
            }
        )
        common = [key for key in SAME if ours[key] and told[key]]
        # Silence contradicts nothing; but where nobody named the certificate, somebody must say whose it is.
        enough = bool(common) or params[OPTION] != names.FIRST or not any(ours[key] for key in SAME)
        if enough and all(SAME[key](ours[key], told[key]) for key in common):
            return
        raise WrongMachine(
            "the BMC is not proven to be this node's, and its certificate is not fixed",
            node=self._host,
            address=address,
            wanted=_shown(ours),
            seen=_shown(told),
            do="correct gpufleet_bmc_address, gpufleet_serial or gpufleet_system_uuid in the inventory; if the BMC"
            f" tells none, name its certificate in gpufleet_bmc_tls_fingerprint; {SWAPPED}",
        )

    def _its_own_node(self, before: str, serial: str, address: str) -> None:
        """A host without an identity in the inventory is whatever its BMC says: that alone changes nothing of a node
        which has a certificate, or is another host's.

        :raises WrongMachine: where it would.
        """
        node = "" if self._named() else self._ids.get(self._host, "")
        name = self.ledger().name(node) if node else self._host
        if name == self._host and not (node and before):
            return
        raise WrongMachine(
            "the BMC alone says which node this host is, and the certificate of that node is not changed by its word",
            node=self._host,
            address=address,
            wanted=f"gpufleet_serial, gpufleet_boot_mac or gpufleet_node_id of {self._host} in the inventory",
            seen=f"serial {serial}, which the ledger knows as {name}",
            do="look what stands there; if it is that one, name gpufleet_serial in the inventory, and run again",
        )

    def _named(self) -> bool:
        """Does the inventory say which node this host is?"""
        return any([self._params.get("node_id"), *map(self.host_var, _NAMED_BY)])

    def _serial_on_record(self, params: Mapping[str, Any]) -> dict[str, str]:
        """The serial by which the ledger knows a host of which the inventory names none: a verb that writes holds the
        machine against it. Of several it is not known which one is right."""
        if self.FIXES or serial_of(params.get("serial")) or not self._named():
            return {}
        node = self.node_id(create=False)
        known = self.ledger().serials(node) if node and not self.ledger().retired(node) else []
        return {"serial": known[0]} if len(known) == 1 else {}

    def _on_record(self, told: str) -> str:
        """The serial that the ledger has for a host of which the inventory names none, or the first where it has
        several and the BMC tells none of them. A retired node's is another machine's by now."""
        node = self.node_id(create=False) if self._named() else ""
        known = self.ledger().serials(node) if node and not self.ledger().retired(node) else []
        return told if known and told and not other_serials(known, [told]) else next(iter(known), "")

    def _known(self, told: str = "") -> str:
        """The certificate that the ledger has for this host; empty where it has none.

        :param told: the serial by which the BMC makes the host known, where the inventory names none.
        """
        if not self._named() and not told:
            return ""
        if told:  # looked up anew: it may be the serial of another node than the one that the MAC is of
            self._ids.pop(self._host, None)
        node = self.node_id(create=bool(told), serial=told)
        if not node:
            return ""
        found = self.ledger().latest([node], "note", [FIXED]).get(node)
        return str(((found or {}).get("data") or {}).get("sha256") or "")


def _shown(identity: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {identity[key] or '(none)'}" for key in SAME)
