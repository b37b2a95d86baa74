# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a MAAS lacks before nodes are deployed by it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.node import node
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _preflight_services as services
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._preflight import Batch
from contract.preflight.conftest import KEY, TENANTS
from maas_server import statuses
from sound_site import SoundSite

SITE, SERVICE, NODE = "site", "service", "node"


def test_u2_a_maas_that_has_the_image_for_the_machines_lacks_nothing(site: SoundSite, maas: Any) -> None:
    assert site.told(services.provisioner) == []
    assert not maas.store.machines, "a look enrols nobody"


def test_u2_an_image_for_another_architecture_is_no_image(site: SoundSite, maas: Any) -> None:
    site.shared["enroll_properties"] = {"cpu_arch": "aarch64"}
    [cause] = site.told(services.provisioner)
    assert cause["kind"] == SITE and cause["what"] == "MAAS has no image hpc-1.4 for arm64", cause
    assert cause["seen"] == "one for amd64" and "boot-resources create" in cause["do"]


def test_u2_m2_a_key_that_is_no_administrators_is_told_before_it_cannot_enrol(site: SoundSite, maas: Any) -> None:
    site.shared["gpufleet_provisioner_api_key"] = TENANTS
    [cause] = site.told(services.provisioner)
    assert cause["kind"] == SITE and "no administrator's" in cause["what"] and "tenant" in cause["seen"]


def test_u2_a_key_that_maas_refuses_is_the_sites_and_a_maas_that_is_away_a_service(site: SoundSite, maas: Any) -> None:
    site.shared["gpufleet_provisioner_api_key"] = "fleetkey:token:not-th1s-one"
    [cause] = site.told(services.provisioner)
    assert (cause["kind"], len(cause["hosts"])) == (SITE, 3) and "not-th1s-one" not in json.dumps(cause)
    site.shared["gpufleet_provisioner_url"] = "http://127.0.0.1:9/MAAS"
    [cause] = site.told(services.provisioner)
    assert (cause["kind"], len(cause["hosts"])) == (SERVICE, 3), cause


def test_u2_an_image_that_cannot_be_compared_is_told(site: SoundSite, maas: Any) -> None:
    site.shared["gpufleet_image"] = site.image.declared(sha256=None)
    [cause] = site.told(services.provisioner)
    assert cause["kind"] == SITE and "no sha256 in gpufleet_image" in cause["seen"], cause


def test_u2_what_no_driver_would_read_of_what_is_said_to_it_is_told(site: SoundSite, maas: Any) -> None:
    site.shared["enroll_driver"] = {"maas": {}, "irnoic": {}, "zone": "b"}
    [cause] = site.told(services.provisioner)
    assert (cause["kind"], cause["seen"]) == (SITE, "irnoic, zone beside maas"), cause


class Recorded:
    """What a ledger has of nodes."""

    def __init__(self, **deployments: Mapping[str, Any]) -> None:
        self._deployments = deployments

    def certificate(self, host: str) -> str:
        return ""

    def holds(self) -> Mapping[str, Mapping[str, Any]]:
        return {}

    def deployments(self) -> Mapping[str, Mapping[str, Any]]:
        return self._deployments

    def moves(self) -> Mapping[str, Mapping[str, Any]]:
        return {}


def enrolled(site: SoundSite, maas: Any) -> None:
    key = {"provisioner": "maas", "provisioner_url": maas.url, "provisioner_api_key": KEY}
    for host, said in site.hosts.items():
        mac = said["gpufleet_boot_mac"]
        bmc = {"bmc_address": said["gpufleet_bmc_address"], "bmc_username": "a", "bmc_password": "of-the-bmc"}
        node({**key, **bmc, "state": "enrolled", "name": host, "boot_mac": mac}, Context(node=host))


def looked(site: SoundSite, record: Recorded) -> Batch:
    batch = Batch(list(site.hosts), lambda name, host: {**site.shared, **site.hosts[host]}.get(name),
                  lambda host: {**site.shared, **site.hosts[host]}.keys(), 4, record)  # fmt: skip
    services.provisioner(batch)
    return batch


def test_u2_a_record_of_another_machine_is_told_and_one_of_a_board_that_was_swapped_is_not(
    site: SoundSite, maas: Any
) -> None:
    enrolled(site, maas)
    for machine in maas.store.machines.values():
        machine.hardware["system_serial"] = machine.hostname.replace("gpu00", "SN-OLD-")
    batch = looked(site, Recorded(gpu001={"known_former_serials": ["SN-OLD-1"]}))
    assert not batch.found["gpu001"], "what was swapped out of it"
    assert [cause.kind for cause in batch.found["gpu002"]] == [NODE] and "SN-OLD-2" in batch.found["gpu002"][0].seen


def test_j7_what_is_deployed_without_a_note_of_ours_is_told_as_the_run_tells_it(site: SoundSite, maas: Any) -> None:
    enrolled(site, maas)
    for machine in maas.store.machines.values():
        machine.status = statuses.DEPLOYED
    known = {"gpu001": {"known_deployed": True}, "gpu002": {"known_deployed": False}}
    batch = looked(site, Recorded(**known))
    assert not batch.found["gpu001"], "we have deployed it, or adopted it"
    [cause] = batch.found["gpu002"]
    assert cause.kind == "somebody_else" and "adopt --limit gpu002" in cause.do.replace("-i INVENTORY ", ""), cause
    assert not batch.found["gpu003"], "without a ledger nobody can say"


def test_r3_a_row_that_leads_to_another_maas_than_the_one_that_has_it_is_told(site: SoundSite, maas: Any) -> None:
    here, there = ({"provisioner": "maas", "url": url, "cloud": ""} for url in (maas.url, "https://maas2/MAAS"))
    record = Recorded(gpu001={"known_at": there, "known_deployed": True}, gpu002={"known_at": here})
    batch = looked(site, record)
    [cause] = batch.found["gpu001"]
    assert cause.what.startswith("this node was deployed, or adopted, at maas at https://maas2/MAAS"), cause
    assert not batch.found["gpu002"] and not batch.found["gpu003"], batch.found


def test_u2_records_under_names_of_their_own_are_one_line_for_all(site: SoundSite, maas: Any) -> None:
    """Whoever enlisted them there called them so; the inventory names no ids. One mistake, and the site's."""
    enrolled(site, maas)
    for number, machine in enumerate(maas.store.machines.values()):
        machine.hostname, machine.status = f"rack7-{number}", statuses.READY
    [cause] = site.told(services.provisioner)
    assert cause["kind"] == SITE and len(cause["hosts"]) == len(site.hosts), cause
    assert "MAC belongs to" in cause["what"] and "set gpufleet_provisioner_id to the record" in cause["do"]
    assert "rack7-" in cause["seen"]
