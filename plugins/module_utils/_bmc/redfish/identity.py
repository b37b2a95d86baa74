# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who the machine is, over Redfish. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import contract as c
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish import select
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish.machine import SAME_LOOK, Machine
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer, Unsupported

_NAMES = {"uuid": "UUID", "manufacturer": "Manufacturer", "model": "Model"}


class RedfishIdentity(c.Identify):
    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.address = machine.address

    def identity(self) -> c.Identity:
        doc = self._machine.system()
        told = {key: str(doc.get(name) or "") for key, name in _NAMES.items()}
        own = next(iter(select.serials(doc)), "") or str(doc.get("SerialNumber") or "")
        return c.Identity(serial=own, **told, bmc_firmware=self._machine.bmc_firmware())

    def known_by(self, *, parts: bool = False) -> c.KnownBy:
        doc = self._machine.system()
        own = select.own_serials(doc)
        boards = tuple(one for one in select.serials(doc) if one not in own)
        chassis = list(self._chassis()) if parts else []
        shared = {serial for serial, alone in chassis if not alone}
        return c.KnownBy(
            serials=own,
            uuids=(str(doc.get("UUID") or ""),),
            of_parts=(*boards, *(serial for serial, _alone in chassis)),
            alone=(*boards, *(serial for serial, _alone in chassis if serial not in shared)),
        )

    def _chassis(self) -> Iterator[tuple[str, bool]]:
        """The serial on a machine's label is its chassis's where the system tells a board's, or none (DGX, GB200).

        With each, whether the chassis says that it holds this system and no other.
        """
        linked = select.section(self._machine.system(), "Links").get("Chassis")
        for item in linked if isinstance(linked, list) else []:
            try:
                doc = self._machine.look(select.link(item), max_age=SAME_LOOK).doc
            except (Unsupported, BadAnswer):
                continue
            yield str(doc.get("SerialNumber") or ""), self._holds_it_alone(doc)

    def _holds_it_alone(self, chassis: dict[str, Any]) -> bool:
        held = select.section(chassis, "Links").get("ComputerSystems")
        uris = [select.link(item) for item in held] if isinstance(held, list) else []
        own = self._machine.uri.rstrip("/").lower()
        return bool(uris) and all(uri.rstrip("/").lower() == own for uri in uris)
