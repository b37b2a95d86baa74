# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the machine consists of, over Redfish. PRIVATE to the collection.

GPUs stand in another place on each kind: as processors of the system (iDRAC, iLO), of the baseboard's system beside it
(HGX), or as PCIe devices of the chassis alone (Supermicro X13). A count of which a part could not be read is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _hardware as parts
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import contract as c
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish import select
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish.machine import Machine
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish.reading import Reading
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.told import Parts
from ansible_collections.gpufleet.baremetal.plugins.module_utils._hardware import Hardware

#: The state of a place in which there is nothing; DMTF Resource, State.
_EMPTY = "Absent"
#: How the system of a baseboard of GPUs begins, beside that of the host.
_BASEBOARD = "HGX_"
Doc = dict[str, Any]


class RedfishInventory(c.Inventory):
    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.address = machine.address

    def hardware(self, firmware: Sequence[str] = ()) -> Parts:
        return _Look(self._machine).all(firmware)


class _Look(Reading):
    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self._machine = machine
        self._system = machine.system()

    def all(self, firmware: Sequence[str]) -> Parts:
        processors = self._whole(lambda: self._docs(select.link(self._system, "Processors")))
        gpus = self._whole(lambda: self._gpus(processors or []))
        drives = self._whole(self._drives)
        found = Hardware(
            **_cpus(self._system, processors),
            memory_gib=parts.amount(select.section(self._system, "MemorySummary").get("TotalSystemMemoryGiB")),
            gpu_count=None if gpus is None else parts.several(gpus),
            gpu_devices=tuple(filter(None, map(self._device_of, gpus or []))),
            drive_count=None if drives is None else parts.several(drives),
            firmware=self._firmware(firmware),
        )
        return Parts(found, tuple(self.unread))

    # -- parts -----------------------------------------------------------------------------------------------------

    def _gpus(self, own: Iterable[Doc]) -> list[Doc]:
        found = [doc for doc in own if doc.get("ProcessorType") == "GPU"]
        for uri in self._baseboards():
            beside = self._docs(select.link(self._doc(uri), "Processors"))
            found += [doc for doc in beside if doc.get("ProcessorType") == "GPU"]
        return _once(found or self._of_the_chassis())

    def _baseboards(self) -> list[str]:
        """Systems of GPUs beside the host's; of several hosts nobody says whose they are."""
        uris = self._uris(select.link(self._machine.root, "Systems"))
        boards = [uri for uri in uris if uri.rstrip("/").rpartition("/")[2].startswith(_BASEBOARD)]
        return boards if len(uris) - len(boards) == 1 else []

    def _of_the_chassis(self) -> list[Doc]:
        """PCIe devices that are called so: what else there is is not asked, as some chassis have hundreds."""
        chassis = select.section(self._system, "Links").get("Chassis")
        uris: list[str] = []
        for item in chassis if isinstance(chassis, list) else []:
            uris += self._uris(select.link(self._doc(select.link(item)), "PCIeDevices"))
        named = [uri for uri in dict.fromkeys(uris) if "gpu" in uri.rstrip("/").rpartition("/")[2].lower()]
        return [doc for doc in map(self._doc, named) if _is_there(doc)]

    def _device_of(self, gpu: Mapping[str, Any]) -> str:
        """The PCI device id, where the GPU leads to it."""
        linked = select.section(gpu, "Links").get("PCIeFunctions")
        uris = [select.link(item) for item in linked] if isinstance(linked, list) else []
        uris = uris or self._uris(select.link(gpu, "PCIeFunctions"))
        return parts.device_id(self._doc(uris[0]).get("DeviceId")) if uris else ""

    def _drives(self) -> list[Doc]:
        found: dict[str, Doc] = {}
        for storage in self._docs(select.link(self._system, "Storage")):
            listed = storage.get("Drives")
            for uri in map(select.link, listed if isinstance(listed, list) else []):
                found.update({uri: self._doc(uri)} if uri and uri not in found else {})
        return [doc for doc in found.values() if _is_there(doc)]

    def _firmware(self, wanted: Sequence[str]) -> dict[str, str]:
        found = {"bios": parts.text(self._system.get("BiosVersion")) or ""}
        names = {name.casefold(): name for name in wanted if name.casefold() not in ("bios", "bmc")}
        service = self._doc(select.link(self._machine.root, "UpdateService")) if names else {}
        for uri in self._uris(select.link(service, "FirmwareInventory")):
            name = names.get(uri.rstrip("/").rpartition("/")[2].casefold())
            if name:
                found[name] = parts.text(self._doc(uri).get("Version")) or ""
        return {name: version for name, version in found.items() if version}

    # -- reading ---------------------------------------------------------------------------------------------------

    def _whole(self, read: Callable[[], list[Doc]]) -> Optional[list[Doc]]:
        """What was read; None where a part of it could not be, and a count would be too low."""
        before = len(self.unread)
        found = read()
        return found if len(self.unread) == before else None

    def _docs(self, collection: str) -> list[Doc]:
        return [doc for doc in map(self._doc, self._uris(collection)) if _is_there(doc)]


def _is_there(doc: Mapping[str, Any]) -> bool:
    return bool(doc) and select.section(doc, "Status").get("State") != _EMPTY


def _once(gpus: Sequence[Doc]) -> list[Doc]:
    """One that stands in two places is one, where its serial says so."""
    by_serial = {str(doc.get("SerialNumber") or id(doc)): doc for doc in gpus}
    return list(by_serial.values())


def _cpus(system: Mapping[str, Any], processors: Optional[Sequence[Doc]]) -> dict[str, Any]:
    summary = select.section(system, "ProcessorSummary")
    cpus = [doc for doc in processors or [] if doc.get("ProcessorType") == "CPU"]
    models = [parts.text(doc.get("Model")) or _spelt_out(doc) for doc in cpus] or [parts.text(summary.get("Model"))]
    threads = [parts.count(doc.get("TotalThreads")) for doc in cpus]
    return {
        "cpu_sockets": parts.several(cpus) if processors is not None and cpus else parts.count(summary.get("Count")),
        "cpu_threads": sum(filter(None, threads)) if processors is not None and threads and all(threads) else None,
        "cpu_model": models[0] if len(set(models)) == 1 else None,
    }


def _spelt_out(doc: Mapping[str, Any]) -> Optional[str]:
    """AMI writes the model where the family's number belongs."""
    family = parts.text(select.section(doc, "ProcessorId").get("EffectiveFamily"))
    return family if family and " " in family else None
