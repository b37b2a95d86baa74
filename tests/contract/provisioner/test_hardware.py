# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an inspection found in a machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import WrongMachine
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.hardware import hardware
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.ironic.record import hardware_in
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context

from .calls import await_all, lead
from .service_sites import MaasSite


@pytest.fixture(scope="module")
def maas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    site = MaasSite(tmp_path_factory.mktemp("maas"))
    yield site
    site.close()


def test_what_commissioning_found_and_nothing_before(maas: Any) -> None:
    """The picture of a BMC is a GPU on its bus as well, and computes nothing."""
    node = maas.new()
    ctx = Context(node=node["name"])
    assert hardware(node, ctx) is None, "it is not known yet"
    lead(node, "enrolled")
    assert hardware(node, ctx) is None, "a record says what a person typed, and MAAS fills in the rest"
    lead(node, "ready")
    await_all(maas, "ready", node)
    gpus = [{"hardware_type": 5, "vendor_id": "10de", "product_id": "2330"} for _number in range(7)]
    card, picture = {"hardware_type": 4, "vendor_id": "10de"}, {"hardware_type": 5, "vendor_id": "1a03"}
    maas.machine(node["name"]).devices = [*gpus, card, picture]
    inspected = hardware(node, ctx)
    assert inspected is not None and inspected.agrees
    found = inspected.parts
    assert found.gpu_count == 7 and set(found.gpu_devices) == {"2330"}
    assert found.cpu_threads == 2 and found.memory_gib == 2 and found.drive_count == 1
    assert found.cpu_sockets is None and found.cpu_model is None, "what it calls unknown is not told"
    with pytest.raises(WrongMachine):
        hardware({**node, "boot_mac": "52:54:00:99:99:99", "serial": "ZZZ"}, ctx)


def test_what_ironics_inspection_stores() -> None:
    """As the agent sends it; over Redfish the same without sockets."""
    inventory = {
        "cpu": {"count": 224, "socket_count": 2, "model_name": "Intel(R) Xeon(R) Platinum 8480CL", "flags": []},
        "memory": {"total": 2164000000000, "physical_mb": 2097152},
        "disks": [{"name": "/dev/nvme0n1", "size": 1}, {"name": "/dev/nvme1n1", "size": 1}],
        "interfaces": [
            {"name": "eno1", "mac_address": "7c:c2:55:10:20:11"},
            {"name": "usb0", "mac_address": "ee:a3:55:10:20:11"},
            {"name": "ib0", "mac_address": None},
        ],
        "system_vendor": {"serial_number": "ABC0001"},
    }
    found = hardware_in(inventory)
    assert (found.cpu_threads, found.cpu_sockets, found.memory_gib) == (224, 2, 2048)
    assert (found.drive_count, found.nic_count, found.gpu_count) == (2, 1, None)
    nothing = hardware_in({"cpu": None, "memory": {"physical_mb": 0}, "disks": "many", "interfaces": [None]})
    assert all(value in (None, [], {}) for value in nothing.as_dict().values())
