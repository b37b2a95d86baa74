# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""That this very deployment reached the node is read there: an image of the same version was there before, perhaps."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._deployment import marked
from ansible_collections.gpufleet.baremetal.plugins.module_utils._quarantine import quarantines
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust import deployed
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.artifact import expectations
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.image import combined, image_verify
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.specs import IMAGE_VERIFY
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from contract.trust.block_devices import BlockDevices
from contract.trust.trust_site import NODE, Site, passport

DEFAULTS = {name: option.get("default") for name, option in IMAGE_VERIFY.items()}
ID, EARLIER = "7f0c2a0e6f1c4b5f9c1d1f6a9f1e2d3c", "00000000000000000000000000000001"
MAC = "52:54:00:77:00:01"


@pytest.fixture
def judged(image: Any, machine: Any) -> Any:
    """The controller's verdict on what this machine's own module answers."""
    signed, expect = expectations({**DEFAULTS, "image": image.declared()}, Context())

    def look(boot_mac: str = "", earlier: tuple[str, ...] = (), **lies: Any) -> dict[str, Any]:
        asked = {**expect, deployed.CHECK: deployed.wanted(ID, boot_mac, earlier)}
        given = {**DEFAULTS, **machine.options(), "mode": "node", "fail_on": "never", "expect": asked}
        answer = image_verify(given, Context()).as_dict(Context())
        for check in answer["checks"]:
            check.update(lies if check["id"] == deployed.CHECK else {})
        if lies:
            answer.update(findings=[], verdict="pass")
        params = {**given, "fail_on": "inconclusive", "image": image.declared()}
        return combined(signed, asked, answer, params, offset=(0.0, 0.1)).as_dict(Context())

    return look


PLACES = {
    "cmdline": b"root=/dev/ram0 quiet %s BOOTIF=01-52-54-00-77-00-01",
    "config-2": b"\0CD001" + b"\0" * 5000 + b'{"meta_data": {"gpufleet": "%s"}}' + b"\0" * 5000,
    "CONFIG-2": b"mkfs.fat %s\n",
    "user-data.txt": b"#cloud-config\nwrite_files:\n- content: %s\n",
}


@pytest.mark.parametrize("name", PLACES)
def test_c1_the_id_of_this_deployment_proves_it_wherever_it_was_taken(machine: Any, judged: Any, name: str) -> None:
    (machine.folder / name).write_bytes(PLACES[name] % marked(ID).encode())
    result = judged()
    assert result["verdict"] == "pass", result["msg"]
    [check] = [check for check in result["checks"] if check["id"] == "deployment"]
    assert check["measured"].endswith(f": {ID}") and ID not in check["wanted"]


@pytest.mark.parametrize(
    ("cmdline", "shown"),
    [
        ("root=/dev/vda1 ro", "none"),
        (marked(EARLIER), EARLIER),
        (marked(ID + "0"), ID + "0"),
        (marked(ID[:-1]), ID[:-1]),
    ],
)
def test_c1_without_it_nothing_is_known_and_nobody_is_called_faulty(
    machine: Any, judged: Any, cmdline: str, shown: str
) -> None:
    """The node, its boot path, the boot service or the image: one of them did not do its part."""
    (machine.folder / "cmdline").write_text(cmdline)
    result = judged()
    assert result["verdict"] == "inconclusive" and result["failed"] and not quarantines(result)
    [finding] = result["findings"]
    assert finding["id"] == "deployment_unproven" and f"it shows {shown}" in finding["text"].replace(
        "kernel command line: ", ""
    )


def test_c1_what_is_wrong_beside_it_is_the_nodes(machine: Any, judged: Any) -> None:
    machine.nvidia_smi(driver="535.104.05")
    assert quarantines(judged())


def test_c1_an_id_of_before_beside_this_one_does_no_harm(machine: Any, judged: Any) -> None:
    (machine.folder / "user-data.txt").write_text(marked(EARLIER))
    (machine.folder / "config-2").write_text(f"{marked(EARLIER)} {marked(ID)}")
    assert judged()["verdict"] == "pass"


@pytest.mark.parametrize("measured", [f"kernel command line: {EARLIER}", f"elsewhere: {ID}", "", 7, None])
def test_c1_a_node_that_passes_itself_is_judged_again(judged: Any, measured: Any) -> None:
    result = judged(measured=measured, verdict="pass")
    assert result["verdict"] == "inconclusive" and "forged" in {one["id"] for one in result["findings"]}


def test_c1_a_stateless_node_shows_that_it_was_booted_from_the_network(machine: Any, judged: Any) -> None:
    (machine.folder / "cmdline").write_text("quiet BOOTIF=01-52-54-00-77-00-01 initrd=x")
    assert judged()["verdict"] == "inconclusive", "of another provisioner it proves nothing"
    assert judged(boot_mac=MAC)["verdict"] == "pass"
    assert judged(boot_mac="52:54:00:77:00:02")["verdict"] == "inconclusive", "over another card"
    (machine.folder / "cmdline").write_text(marked(EARLIER))
    assert judged(boot_mac=MAC)["verdict"] == "inconclusive"
    assert judged(earlier=(EARLIER,))["verdict"] == "pass", "Ironic keeps a boot entry over a rebuild"
    (machine.folder / "cmdline").write_text("root=/dev/vda1")
    (machine.folder / "user-data.txt").write_text(marked(EARLIER))
    assert judged(boot_mac=MAC, earlier=(EARLIER,))["verdict"] == "inconclusive", "a disk keeps that as well"


def raid(disks: BlockDevices) -> None:
    """Software RAID of Ironic's: the whole disks are its members, and drive and system its partitions."""
    disks.device("sda"), disks.device("sdb")
    disks.device("md127", on=("sda", "sdb"))
    disks.root(disks.device("md127p2", of="md127"))
    disks.drive("md127p4", of="md127")


def volumes_on_raid(disks: BlockDevices) -> None:
    """LVM over md over partitions, of which the drive lies beside one."""
    for name in ("sda", "sdb"):
        disks.device(name), disks.device(f"{name}3", of=name)
    disks.device("md0", on=("sda3", "sdb3"))
    disks.root(disks.device("dm-0", on=("md0",)))
    disks.drive("sdb4", of="sdb")


def multipath(disks: BlockDevices) -> None:
    disks.device("sda"), disks.device("sdb")
    disks.device("dm-0", on=("sda", "sdb"))
    disks.root(disks.device("dm-1", on=("dm-0",)))
    disks.drive("dm-2", on=("dm-0",))


def btrfs(disks: BlockDevices) -> None:
    disks.device("nvme0n1"), disks.device("nvme0n1p2", of="nvme0n1")
    disks.root("0:31", "btrfs", "/dev/nvme0n1p2")
    disks.drive("nvme0n1p4", of="nvme0n1")


@pytest.mark.parametrize("stack", [raid, volumes_on_raid, multipath, btrfs])
def test_c1_a_drive_counts_on_the_disk_of_the_running_system(
    machine: Any, judged: Any, stack: Callable[[BlockDevices], None]
) -> None:
    (machine.folder / "config-2").write_text(marked(ID))
    machine.disks.fresh()
    stack(machine.disks)
    assert judged()["verdict"] == "pass", judged()["msg"]


def old_disk(disks: BlockDevices) -> None:
    """The other disk was written, and the boot order starts this one."""
    disks.device("nvme0n1"), disks.device("nvme1n1")
    disks.root(disks.device("nvme0n1p2", of="nvme0n1"))
    disks.drive("nvme1n1p4", of="nvme1n1")


def half_a_raid(disks: BlockDevices) -> None:
    """Of a drive on two disks, one is none of the system's."""
    disks.device("sda"), disks.device("sdb")
    disks.device("md0", on=("sda", "sdb"))
    disks.root(disks.device("sda2", of="sda"))
    disks.drive("md0p4", of="md0")


def stateless(disks: BlockDevices) -> None:
    disks.root("0:31", "overlay", "overlay")
    disks.device("sda"), disks.drive("sda4", of="sda")


def unreadable(disks: BlockDevices) -> None:
    disks.mountinfo.unlink()


def unshown(disks: BlockDevices) -> None:
    disks.device("sda")
    disks.root(disks.device("sda2", of="sda"))


@pytest.mark.parametrize(
    ("stack", "why"),
    [
        (old_disk, "it lies on nvme1n1, / on nvme0n1"),
        (half_a_raid, "it lies on sda and sdb, / on sda"),
        (stateless, "/: is mounted from overlay, which is no disk"),
        (unreadable, "mountinfo: No such file or directory"),
        (unshown, "No such file or directory"),
    ],
)
def test_c1_a_drive_of_another_disk_says_nothing_of_the_running_system(
    machine: Any, judged: Any, stack: Callable[[BlockDevices], None], why: str
) -> None:
    """Two disks have a system: the one that was written, and the one that the firmware starts."""
    (machine.folder / "config-2").write_text(marked(ID))
    (machine.folder / "cmdline").write_text(marked(EARLIER))
    machine.disks.fresh()
    stack(machine.disks)
    result = judged()
    assert result["verdict"] == "inconclusive" and result["kind"] == "unproven" and not quarantines(result)
    assert f"{why}): {ID}" in result["msg"], result["msg"]
    (machine.folder / "cmdline").write_text(marked(ID))
    assert judged()["verdict"] == "pass", "what else proves it counts as ever"


def test_c1_a_boot_from_the_network_counts_where_it_is_known_to_be_one_since_the_order(
    site: Site, image: Any, machine: Any
) -> None:
    """And only of what is booted from there each time."""
    (machine.folder / "cmdline").write_text("quiet BOOTIF=01-52-54-00-77-00-01")
    since = {"booted_after": str(time.time() - 300)}  # the machine runs for a minute
    here = {"gpufleet_provisioner": "ironic", "gpufleet_boot_mac": MAC}

    def look(variables: dict[str, str], form: str, **more: str) -> dict[str, Any]:
        asked = {"mode": "node", "deploy_id": ID, "image": {**image.declared(), "format": form}, **more}
        return {**NODE, "gpufleet.baremetal.image_verify": asked, "vars": variables}

    looks = (
        look(here, "ramdisk", **since),
        look(here, "ramdisk"),
        look(here, "ramdisk", booted_after="0"),
        look(here, "whole-disk", **since),
        look({**here, "gpufleet_provisioner": "maas"}, "ramdisk", **since),
    )
    told = [(one["result"]["verdict"], one["result"].get("kind")) for one in site.play(*looks)]
    assert told == [("pass", None), *[("inconclusive", "unproven")] * 4]


def imaging(site: Site) -> dict[str, Any]:
    return site.result({"gpufleet.baremetal.ledger_event": {"state": "imaging"}})


def test_c1_no_passport_of_a_deployment_that_nobody_saw_arrive(site: Site, machine: Any) -> None:
    """The look tells the node no more than a digest, and the passport names the deployment."""
    deploy_id = imaging(site)["deploy_id"]
    proven = {**NODE, "gpufleet.baremetal.image_verify": {"mode": "node", "deploy_id": deploy_id}}
    missed = site.result(proven)
    assert missed["failed"] and missed["kind"] == "unproven" and deploy_id not in json.dumps(missed["checks"])
    [stand] = site.play({"gpufleet.baremetal.fleet_status": {}})
    assert stand["result"]["nodes"]["gpu001"]["deploy_resume"] == "", "to wait for it again finds the same"
    look = site.result(NODE)
    assert look["verdict"] == "pass", look
    site.gates("dcgm_gate", "kernel_log_gate")
    refused = site.result(passport("issued"))
    assert refused["failed"] and f"no look has proven that {deploy_id} reached the node" in refused["msg"]
    assert refused["error"]["kind"] == "config" and not quarantines(refused)
    (machine.folder / "cmdline").write_text(marked(deploy_id))
    assert site.result(proven)["verdict"] == "pass"
    issued = site.result(passport("issued"))
    assert issued["valid"], issued
    [stand] = site.play({"gpufleet.baremetal.fleet_status": {}})
    assert stand["result"]["nodes"]["gpu001"]["deploy_resume"] == deploy_id
    assert site.result(passport("verified"))["valid"]
