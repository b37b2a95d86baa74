# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hardware that a node's Redfish BMC tells of and that sushy-tools' fake driver has no answer for.

Ironic's own redfish inspection reads: memory size, processors and their architecture, storage with at least one
drive of 4 GiB, network cards, PCIe devices, and maker, model and serial of the system.
"""

from __future__ import annotations

from typing import Any

from network import GPU_BUSES
from rackconf import Node, faults_of, told_serial
from rootfs import dmi

MEMORY_MODULES = 32
MEMORY_MODULE_GIB = 64
SOCKETS = 2
CORES = 56
DRIVE_BYTES = 3_840_755_982_336
_PROCESSOR = "Intel(R) Xeon(R) Platinum 8480C"
_GONE_WITH = ("xid79", "gpu_missing")
_OK = {"State": "Enabled", "Health": "OK"}

Document = dict[str, Any]


def total_memory_gib() -> int:
    """All modules together."""
    return MEMORY_MODULES * MEMORY_MODULE_GIB


def system_fields(node: Node) -> Document:
    """What the system resource says of itself beyond what the emulator fills in."""
    told = dmi(node)
    return {
        "Manufacturer": told["sys_vendor"],
        "Model": told["product_name"],
        "SerialNumber": told_serial(node),
        "UUID": told["product_uuid"],
        "SKU": node.sku,
        "PartNumber": "GFR-PN",
        "BiosVersion": told["bios_version"],
        "HostName": "",
        "SystemType": "Physical",
        "PCIeDevices": [{"@odata.id": path} for path in _gpu_paths(node)],
    }


def documents(node: Node) -> dict[str, Document]:
    """Return every extra resource by its path; made anew for each request, since faults change it."""
    root = f"/redfish/v1/Systems/{node.uuid}"
    found: dict[str, Document] = {}
    _add_processors(found, root)
    _add_memory(found, root)
    _add_storage(found, root, node)
    _add_gpus(found, root, node)
    return found


def _resource(found: dict[str, Document], path: str, kind: str, name: str, **fields: Any) -> None:
    found[path] = {
        "@odata.id": path,
        "@odata.type": kind,
        "Id": path.rpartition("/")[2],
        "Name": name,
        **fields,
    }


def _collection(found: dict[str, Document], path: str, kind: str, members: list[str]) -> None:
    found[path] = {
        "@odata.id": path,
        "@odata.type": f"#{kind}Collection.{kind}Collection",
        "Name": f"{kind} Collection",
        "Members@odata.count": len(members),
        "Members": [{"@odata.id": member} for member in members],
    }


def _add_processors(found: dict[str, Document], root: str) -> None:
    paths = [f"{root}/Processors/CPU{number}" for number in range(SOCKETS)]
    for number, path in enumerate(paths):
        _resource(
            found,
            path,
            "#Processor.v1_13_0.Processor",
            f"CPU {number}",
            Socket=f"CPU {number}",
            ProcessorType="CPU",
            ProcessorArchitecture="x86",
            InstructionSet="x86-64",
            Manufacturer="Intel(R) Corporation",
            Model=_PROCESSOR,
            MaxSpeedMHz=3800,
            TotalCores=CORES,
            TotalThreads=CORES * 2,
            Status=_OK,
        )
    _collection(found, f"{root}/Processors", "Processor", paths)


def _add_memory(found: dict[str, Document], root: str) -> None:
    paths = [f"{root}/Memory/DIMM{number}" for number in range(MEMORY_MODULES)]
    for number, path in enumerate(paths):
        _resource(
            found,
            path,
            "#Memory.v1_11_0.Memory",
            f"DIMM {number}",
            MemoryType="DRAM",
            MemoryDeviceType="DDR5",
            CapacityMiB=MEMORY_MODULE_GIB * 1024,
            OperatingSpeedMhz=4800,
            DeviceLocator=f"DIMM{number}",
            Status=_OK,
        )
    _collection(found, f"{root}/Memory", "Memory", paths)


def _add_storage(found: dict[str, Document], root: str, node: Node) -> None:
    storage = f"{root}/Storage/NVMe"
    drive = f"{storage}/Drives/0"
    _resource(
        found,
        drive,
        "#Drive.v1_4_0.Drive",
        "NVMe SSD 0",
        Manufacturer="GPUFleet Virtual",
        Model="GFR-NVME-3840",
        SerialNumber=f"{node.serial}-D0",
        Revision="1.0",
        CapacityBytes=DRIVE_BYTES,
        MediaType="SSD",
        Protocol="NVMe",
        BlockSizeBytes=512,
        Status=_OK,
    )
    controller = {
        "@odata.id": f"{storage}#/StorageControllers/0",
        "MemberId": "0",
        "Name": "NVMe controller",
        "SupportedControllerProtocols": ["PCIe"],
        "SupportedDeviceProtocols": ["NVMe"],
        "Status": _OK,
    }
    _resource(
        found,
        storage,
        "#Storage.v1_4_0.Storage",
        "NVMe",
        StorageControllers=[controller],
        Drives=[{"@odata.id": drive}],
        Volumes={"@odata.id": f"{storage}/Volumes"},
        Status=_OK,
    )
    _collection(found, f"{storage}/Volumes", "Volume", [])
    _collection(found, f"{root}/Storage", "Storage", [storage])


def present_gpus(node: Node) -> list[int]:
    """The GPUs that answer on the bus."""
    faults = faults_of(node)
    gone = {int(faults[name].get("gpu", -1)) for name in _GONE_WITH if name in faults}
    return [number for number in range(len(GPU_BUSES)) if number not in gone]


def _gpu_paths(node: Node) -> list[str]:
    return [f"/redfish/v1/Systems/{node.uuid}/PCIeDevices/GPU{number}" for number in present_gpus(node)]


def _add_gpus(found: dict[str, Document], root: str, node: Node) -> None:
    for path in _gpu_paths(node):
        functions = f"{path}/PCIeFunctions"
        function = f"{functions}/0"
        _resource(
            found,
            path,
            "#PCIeDevice.v1_9_0.PCIeDevice",
            f"GPU in {path[-4:]}",
            Manufacturer="NVIDIA Corporation",
            Model="NVIDIA H100 80GB HBM3",
            DeviceType="SingleFunction",
            PCIeInterface={"PCIeType": "Gen5", "LanesInUse": 16, "MaxLanes": 16, "MaxPCIeType": "Gen5"},
            PCIeFunctions={"@odata.id": functions},
            Status=_OK,
        )
        _resource(
            found,
            function,
            "#PCIeFunction.v1_2_3.PCIeFunction",
            "GPU function 0",
            FunctionId=0,
            DeviceClass="DisplayController",
            FunctionType="Physical",
            ClassCode="0x030200",
            VendorId="0x10de",
            DeviceId="0x2330",
            SubsystemVendorId="0x10de",
            SubsystemId="0x16c1",
            RevisionId="0xa1",
            Status=_OK,
        )
        _collection(found, functions, "PCIeFunction", [function])
    _collection(found, f"{root}/PCIeDevices", "PCIeDevice", _gpu_paths(node))
