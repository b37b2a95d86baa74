# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a deployment still lacks at its provisioner is told without a write, of every driver; and what Ironic tells."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.registry import connected
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import of_task
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from calls import lead

pytestmark = pytest.mark.slow


def lacking(options: dict[str, Any], *, known: bool) -> list[FleetError]:
    with connected(options, Context(check_mode=True, node=options["name"])) as driver:
        wanted = of_task(options, driver.name, driver.image_needs, options["name"])
        node = driver.find(wanted) if known else None
        assert (node is not None) == known
        found = driver.prerequisites([(wanted, node)])
    assert all(host == options["name"] for host, _exc in found)
    return [exc for _host, exc in found]


def test_u2_a_look_at_what_is_lacking_writes_nothing(site: Any) -> None:
    options = {**site.new(), "image": site.image()}
    for known in (False, True):
        if known:
            lead({key: value for key, value in options.items() if key != "image"}, "enrolled")
            site.faults.forget()
        assert not [exc for exc in lacking(options, known=known) if not str(exc)]
        assert not site.faults.writes


@pytest.fixture
def disk(ironic_site: Any) -> dict[str, Any]:
    """A node as a site has it: Redfish, iPXE, an image for its disk. This Ironic has no deploy kernel."""
    options: dict[str, Any] = ironic_site.new()
    options.update(
        driver={"boot_interface": "ipxe"}, image=ironic_site.image(format="whole-disk"), bmc_verify_tls=False
    )
    return options


def test_u2_ironic_without_a_deploy_kernel_is_told_before_the_deployment(
    ironic_site: Any, disk: dict[str, Any]
) -> None:
    lead({key: value for key, value in disk.items() if key != "image"}, "enrolled")
    [told] = lacking(disk, known=True)
    assert told.what == "Ironic knows no deploy kernel and ramdisk for this node" and "deploy_kernel" in told.seen
    info = {"deploy_kernel": "http://127.0.0.1:9/k", "deploy_ramdisk": "http://127.0.0.1:9/r"}
    assert lacking({**disk, "driver": {**disk["driver"], "driver_info": info}}, known=True) == []
    assert lacking({**disk, "image": ironic_site.image()}, known=True) == [], "an image without a disk needs none"


def test_u1_a_ca_file_that_the_conductor_does_not_have_is_told(ironic_site: Any, disk: dict[str, Any]) -> None:
    disk.update(bmc_ca_path="/nonexistent/ca.pem", bmc_verify_tls=True)
    lead({key: value for key, value in disk.items() if key != "image"}, "enrolled")
    told = {exc.what: exc.wanted for exc in lacking(disk, known=True)}
    assert "/nonexistent/ca.pem" in told.values(), told


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"driver": {"driver": "ilo5"}}, "no conductor of Ironic drives nodes of the type ilo5"),
        (
            {"driver": {"deploy_interface": "anaconda"}},
            "Ironic has the deploy interface anaconda not enabled for redfish",
        ),
        (
            {"driver": {"network_interface": "neutron"}},
            "Ironic has the network interface neutron not enabled for redfish",
        ),
    ],
)
def test_u2_what_ironic_has_not_enabled_is_told_of_a_node_that_it_does_not_know(
    ironic_site: Any, disk: dict[str, Any], change: dict[str, Any], what: str
) -> None:
    assert [exc.what for exc in lacking({**disk, **change}, known=False)] == [what]


def test_u1_a_disk_image_without_its_digest_is_told(disk: dict[str, Any]) -> None:
    del disk["image"]["sha256"]
    [told] = lacking(disk, known=False)
    assert "needs sha256" in told.what and told.do == "set sha256 in gpufleet_image"
