# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What nodes of a Warewulf share, where it could harm one of them, or where others write there as well."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    Changed,
    ConfigError,
    EvidenceMissing,
    Refused,
    WrongMachine,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.registry import connected
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import of_task
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.warewulf import tables
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from calls import Line, deployed, lead, ready

WIPES = {
    "wipe_table": {"disks": {"/dev/nvme0n1": {"wipe_table": True}}},
    "wipe_partition_entry": {
        "disks": {"/dev/nvme0n1": {"partitions": {"scratch": {"number": 1, "wipe_partition_entry": True}}}}
    },
    "resize": {"disks": {"/dev/nvme0n1": {"partitions": {"scratch": {"number": 1, "size_mib": 1024, "resize": True}}}}},
    "wipe_filesystem": {"filesystems": {"/dev/disk/by-partlabel/scratch": {"format": "xfs", "wipe_filesystem": True}}},
}
PATH = "/etc/issue.d/gpu.issue"


@pytest.fixture
def site(warewulf_site: Any) -> Iterator[Any]:
    """Which other tests have after this one."""
    yield warewulf_site
    warewulf_site.forget_shared()


def profiles(site: Any) -> dict[str, Any]:
    found: dict[str, Any] = site.server.conf.load()["nodeprofiles"]
    return found


# -- disks ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", WIPES)
def test_each_field_that_wipes_needs_a_permit_in_the_record_of_a_node_in_service(site: Any, what: str) -> None:
    options, line = deployed(site), Line()
    lead({**options, "driver": WIPES[what]}, "enrolled", line=line)
    assert [hard for _what, hard, _hosts in line.writes] == [True]


@pytest.mark.parametrize("asked", [("runtime",), ("kernel",), ("kernel", "NOT_FOUND")])
def test_nor_does_one_that_boots_anew_lose_disks_without_a_permit(site: Any, asked: tuple[str, ...]) -> None:
    """It does read as one that is being deployed, or has failed, and may hold a tenant's data all the same."""
    options, line = deployed(site), Line()
    site.server.asks(asked[0], options["boot_mac"], *asked[1:])
    lead({**options, "driver": WIPES["wipe_table"]}, "enrolled", line=line)
    assert [hard for _what, hard, _hosts in line.writes] == [True]


def test_nor_does_one_that_boots_the_image_of_its_profile(site: Any) -> None:
    options = {**site.new(), "image": site.image()}
    lead(options, "ready")
    line = Line()
    with default_profile(site, **IMAGE):
        told = lead({**options, "driver": WIPES["wipe_table"]}, "enrolled", line=line)
    assert told["provision_state"] == tables.OF_PROFILE
    assert [hard for _what, hard, _hosts in line.writes] == [True]


@contextlib.contextmanager
def default_profile(site: Any, **said: Any) -> Iterator[None]:
    """Somebody has all nodes without an image of their own boot this one, or lose this of their disks."""
    site.server.conf.change("default", lambda one: one.update(said), "nodeprofiles")
    try:
        yield
    finally:
        site.server.conf.change("default", lambda one: [one.pop(key) for key in said], "nodeprofiles")


IMAGE = {"image name": "gold-1"}


@pytest.mark.parametrize("said", [IMAGE, WIPES["wipe_table"], {}], ids=["image", "wipes", "nothing"])
def test_a_machine_comes_to_what_images_or_wipes_it_with_a_permit_alone(site: Any, said: dict[str, Any]) -> None:
    """Nobody knows what runs on the machine whose card comes into a record, nor who boots it next."""
    options, other = site.new(), site.new()
    site.server.conf.change("bare", lambda one: one.update(comment="of nothing"), "nodeprofiles")
    lead({**other, "driver": {"profiles": ["bare"]}}, "enrolled")
    with default_profile(site, **said):
        line = Line(refuse=(options["name"],) if said else ())
        with pytest.raises(EvidenceMissing) if said else contextlib.nullcontext():
            lead(options, "enrolled", line=line)
        assert (options["name"] in site.server.conf.load()["nodes"]) is (not said)
        line = Line()
        lead(options, "enrolled", line=line)
        lead(other, "enrolled", line=line, driver={"profiles": ["default"]})
    made, moved = (hard for _what, hard, _hosts in line.writes) if said else (False, line.writes[-1][1])
    assert made is moved is bool(said), line.writes


def test_a_record_that_wipes_comes_to_another_card_with_a_permit_alone(site: Any) -> None:
    options, line = site.new(), Line()
    lead({**options, "driver": WIPES["wipe_table"]}, "enrolled", line=line)
    card = "52:54:ff:fd" + options["boot_mac"][11:]
    lead({**options, "boot_mac": card}, "enrolled", line=line)
    site.server.conf.change(options["name"], lambda one: one.pop("disks"))
    lead(options, "enrolled", line=line)
    assert [hard for _what, hard, _hosts in line.writes] == [True, True, False]


def test_an_image_of_profiles_moves_to_no_other_machine(site: Any) -> None:
    options = ready(site)
    with default_profile(site, **IMAGE):
        site.faults.forget()
        for state in ("enrolled", "ready"):
            with pytest.raises(WrongMachine, match="another machine"):
                lead({**options, "boot_mac": "52:54:ff:fd" + options["boot_mac"][11:]}, state)
        assert site.faults.writes == []
    assert lead({**options, "boot_mac": "52:54:ff:fd" + options["boot_mac"][11:]}, "enrolled")["changed"]


@pytest.mark.parametrize("what", WIPES)
def test_no_profile_wipes_disks_of_all_nodes_that_have_it(site: Any, what: str) -> None:
    options = deployed(site)
    with pytest.raises(ConfigError, match="the profile gpu would wipe disks of whichever node has it"):
        lead({**options, "driver": {"profile_fields": {"gpu": WIPES[what]}}}, "enrolled")
    assert "gpu" not in profiles(site) and site.faults.writes == []
    kept = {"disks": {"/dev/nvme0n1": {"wipe_table": False}}}
    assert lead({**options, "driver": {"profile_fields": {"gpu": kept}}}, "enrolled")["changed"]


def test_a_node_in_service_comes_to_a_profile_that_wipes_with_a_permit_alone(site: Any) -> None:
    """Which a person has made; also by way of another one."""
    site.server.conf.change("scratch", lambda one: one.update(WIPES["wipe_table"]), "nodeprofiles")
    site.server.conf.change("wide", lambda one: one.update(profiles=["scratch"]), "nodeprofiles")
    options, line = deployed(site), Line()
    lead({**options, "driver": {"profiles": ["default", "wide"]}}, "enrolled", line=line)
    lead({**options, "driver": {"profiles": ["default"]}}, "enrolled", line=line)
    assert [hard for _what, hard, _hosts in line.writes] == [True, False]
    with pytest.raises(ConfigError, match="the profile gpu names scratch, which would wipe"):
        lead({**options, "driver": {"profile_fields": {"gpu": {"profiles": ["wide"]}}}}, "enrolled")
    assert "gpu" not in profiles(site)


# -- files ---------------------------------------------------------------------------------------------------------


def with_file(site: Any, content: str) -> dict[str, Any]:
    return {**site.new(), "driver": {"overlay_files": {"site-gpu": {PATH: content}}}}


def test_a_file_that_somebody_changes_right_before_the_write_is_left(site: Any) -> None:
    options = with_file(site, "a\n")
    lead(options, "ready")
    looks: list[Any] = []

    def fault(asked: Any) -> None:
        looks.extend([asked] if asked.method == "GET" and "issue" in asked.query else [])
        if len(looks) == 2:  # what is to be changed was read by then, and is looked at once more
            site.server.site_overlays["site-gpu"][PATH] = "Anna's"

    site.proxy.fault = fault
    try:
        with pytest.raises(Changed, match="the file /etc/issue.d/gpu.issue of the overlay site-gpu"):
            lead({**options, "driver": with_file(site, "b\n")["driver"]}, "enrolled")
    finally:
        site.faults.forget()
    assert site.server.site_overlays["site-gpu"][PATH] == "Anna's"


def test_a_file_that_reads_another_way_than_it_was_sent_is_not_believed(site: Any) -> None:
    class Losing(dict):  # type: ignore[type-arg]  # of a disk that is full, say
        def __setitem__(self, path: str, content: str) -> None:
            super().__setitem__(path, content if path != PATH else "")

    site.server.site_overlays["site-gpu"] = Losing()
    with pytest.raises(Refused, match="took the file /etc/issue.d/gpu.issue.*does not read as it was sent"):
        lead(with_file(site, "a\n"), "ready")


def test_a_list_that_nobody_can_read_is_replaced_where_its_overlay_may_be_taken(site: Any) -> None:
    site.server.site_overlays["site-gpu"] = {"/etc/gpufleet/overlays/site-gpu.json": "{", PATH: "Anna's"}
    options = with_file(site, "a\n")
    options["driver"]["take_shared"] = ["site-gpu"]
    lead(options, "ready", force_reason="she agreed")
    assert site.server.site_overlays["site-gpu"][PATH] == "a\n"
    options["driver"]["overlay_files"]["site-gpu"][PATH] = "b\n"
    assert lead(options, "enrolled")["changed"], "it is known as ours by that list"


# -- hosts that declare the same in two ways -----------------------------------------------------------------------


def declaring(site: Any, root: str, content: str, **more: Any) -> dict[str, Any]:
    driver = {"profile_fields": {"gpu": {"root": root}}, "overlay_files": {"site-gpu": {PATH: content}}}
    return {**site.new(), "image": site.image(), "driver": driver, **more}


def test_hosts_of_a_batch_that_declare_one_name_in_two_ways_are_told_before_the_first_write(site: Any) -> None:
    alike, also = (declaring(site, "tmpfs", "a\n") for _number in range(2))
    other = declaring(site, "initramfs", "b\n")
    with connected(alike, Context(check_mode=True, node=alike["name"])) as driver:
        batch = [of_task(one, driver.name, driver.image_needs, one["name"]) for one in (alike, also, other)]
        assert driver.prerequisites([(one, None) for one in batch[:2]]) == []
        told = driver.prerequisites([(one, None) for one in batch])
    hosts = [one["name"] for one in (alike, also, other)]
    assert [host for host, _why in told] == [host for host in hosts for _what in ("profile", "file")]
    assert f"{hosts[2]} declares the profile gpu at Warewulf otherwise than {hosts[0]} does" in str(told[4][1])
    assert site.faults.writes == []


@pytest.mark.parametrize(("root", "content"), [("initramfs", "a\n"), ("tmpfs", "b\n")])
def test_a_host_of_the_same_run_replaces_no_declaration_of_another_one(site: Any, root: str, content: str) -> None:
    first, other = declaring(site, "tmpfs", "a\n"), declaring(site, root, content)
    lead(first, "enrolled", run_id="run-1")
    with pytest.raises(ConfigError, match=f"otherwise than {first['name']} does"):
        lead(other, "enrolled", run_id="run-1", force_reason="I insist")
    assert profiles(site)["gpu"]["root"] == "tmpfs" and site.server.site_overlays["site-gpu"][PATH] == "a\n"
    assert lead(other, "enrolled", run_id="run-2")["changed"], "the inventory may have changed since"


@pytest.mark.parametrize(("root", "content"), [("initramfs", "a\n"), ("tmpfs", "b\n")])
def test_no_node_is_ordered_while_what_another_host_declares_stands_there(site: Any, root: str, content: str) -> None:
    options, other = declaring(site, "tmpfs", "a\n"), declaring(site, root, content)
    lead(options, "ready")
    lead(other, "enrolled")
    site.faults.forget()
    with pytest.raises(Refused, match="at Warewulf is not as this host declares it"):
        lead(options, "deployed")
    assert site.faults.writes == []
    lead(options, "enrolled")
    assert lead(options, "deployed")["pending"]


def test_check_mode_foretells_an_order_whose_declarations_are_not_made_yet(site: Any) -> None:
    options = declaring(site, "tmpfs", "a\n")
    lead({**options, "driver": {}}, "ready")
    assert lead(options, "deployed", check=True)["changed"]


# -- addresses -----------------------------------------------------------------------------------------------------

ADDRESSES = {"ipaddr": {"ipaddr": "10.8.0.18"}, "ipmi": {"ipmi": {"ipaddr": "10.9.0.18", "port": 623}}}


@pytest.mark.parametrize("where", ADDRESSES)
def test_a_node_is_not_given_the_address_of_another_one(site: Any, where: str) -> None:
    first, new = ({**site.new(), "driver": ADDRESSES[where]} for _number in range(2))
    lead(first, "ready")
    site.faults.forget()
    with pytest.raises(WrongMachine, match=f"{where}.*of no other node.*{first['name']}"):
        lead(new, "ready")
    assert site.faults.writes == []
    lead({**new, "driver": {}}, "ready")
    site.faults.forget()
    with pytest.raises(WrongMachine, match="its address belongs to another node"):
        lead(new, "enrolled")
    assert site.faults.writes == [] and not lead(first, "enrolled")["changed"]
    lead({**new, "driver": {}}, "enrolled")
    if where == "ipmi":
        with pytest.raises(WrongMachine, match="its address belongs to another node"):  # the port goes without saying
            lead({**new, "driver": {"ipmi": {"ipaddr": "10.9.0.18"}}}, "enrolled")
    behind = {"ipmi": {"ipaddr": "10.9.0.18", "port": 624}}
    assert lead({**new, "driver": behind}, "enrolled")["changed"], "another BMC behind the same address"


@pytest.mark.parametrize("where", ADDRESSES)
def test_hosts_of_a_batch_that_are_given_one_address_are_told_before_the_first_write(site: Any, where: str) -> None:
    """As a variable of a group gives it to all of them."""
    nodes = [{**site.new(), "image": site.image(), "driver": ADDRESSES[where]} for _number in range(2)]
    with connected(nodes[0], Context(check_mode=True, node=nodes[0]["name"])) as driver:
        batch = [of_task(one, driver.name, driver.image_needs, one["name"]) for one in nodes]
        told = driver.prerequisites([(one, None) for one in batch])
        assert driver.prerequisites([(batch[0], None)]) == []
    assert [host for host, _why in told] == [one["name"] for one in nodes]
    assert all("in driver is 10." in str(why) for _host, why in told)
