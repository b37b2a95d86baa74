# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an inventory says of a Warewulf node and of what nodes share: overlays, kernel, BMC, disks, profiles, files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    Changed,
    ConfigError,
    NotOurs,
    Refused,
)
from calls import Killed, Line, deployed, lead, ready, watch_all

DISKS = {"/dev/nvme0n1": {"partitions": {"scratch": {"number": 1, "size_mib": 4096, "should_exist": True}}}}
FILESYSTEMS = {"/dev/disk/by-partlabel/scratch": {"format": "xfs", "path": "/scratch", "wipe_filesystem": False}}


@pytest.fixture
def site(warewulf_site: Any) -> Iterator[Any]:
    """Which other tests have after this one."""
    yield warewulf_site
    warewulf_site.forget_shared()


def own(site: Any, options: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = site.server.conf.load()["nodes"][options["name"]]
    return found


def with_driver(site: Any, driver: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**site.new(), "driver": {"warewulf": driver}, **more}


# -- a node's own fields -------------------------------------------------------------------------------------------


def test_what_a_site_says_of_a_node_stands_in_its_own_record_and_is_said_once(site: Any) -> None:
    driver = {
        "system_overlays": ["hosts"],
        "runtime_overlays": ["wwinit"],
        "kernel_args": ["iommu=pt", "hugepages=64"],
        "kernel_version": "6.8.0",
        "ipmi": {"ipaddr": "10.9.0.1", "port": 623, "write": True},
        "disks": DISKS,
        "filesystems": FILESYSTEMS,
    }
    options = with_driver(site, driver)
    assert lead(options, "ready")["changed"]
    known = own(site, options)
    assert known["system overlay"] == ["hosts"] and known["runtime overlay"] == ["wwinit"]
    assert known["kernel"] == {"args": ["iommu=pt", "hugepages=64"], "version": "6.8.0"}
    assert known["ipmi"] == {"ipaddr": "10.9.0.1", "port": "623", "write": "true"}
    partition = {"number": "1", "size_mib": "4096", "should_exist": True}
    assert known["disks"] == {"/dev/nvme0n1": {"partitions": {"scratch": partition}}}
    assert known["filesystems"] == {"/dev/disk/by-partlabel/scratch": {"format": "xfs", "path": "/scratch"}}
    assert not lead(options, "enrolled")["changed"]
    fewer = {**options, "driver": {**driver, "kernel_args": ["iommu=pt"], "system_overlays": []}}
    changed = lead(fewer, "enrolled")
    assert changed["before"]["kernel args"] == ["iommu=pt", "hugepages=64"]
    assert own(site, options)["kernel"] == {"args": ["iommu=pt"], "version": "6.8.0"}
    assert "system overlay" not in own(site, options) and not lead(fewer, "enrolled")["changed"]


def test_what_others_have_written_beside_it_stays(site: Any) -> None:
    options = ready(site)
    theirs = {
        "ipmi": {"gateway": "10.9.0.254", "password": "x-Secret-9"},
        "disks": {"/dev/sdb": {"wipe_table": True}},
        "kernel": {"version": "6.1", "args": ["theirs"]},
    }
    site.server.conf.change(options["name"], lambda one: one.update(theirs))
    lead({**options, "driver": {"ipmi": {"ipaddr": "10.9.0.1"}, "disks": DISKS}}, "enrolled")
    known = own(site, options)
    assert known["ipmi"] == {**theirs["ipmi"], "ipaddr": "10.9.0.1"} and known["kernel"] == theirs["kernel"]
    assert known["disks"]["/dev/sdb"] == {"wipe_table": True} and "/dev/nvme0n1" in known["disks"]


def test_a_deployment_keeps_its_mark_among_the_arguments_that_a_site_says(site: Any) -> None:
    options = {**with_driver(site, {"kernel_args": ["a=1"]}), "image": site.image(), "deploy_id": "d-1"}
    lead(options, "ready")
    lead(options, "deployed")
    assert own(site, options)["kernel"]["args"] == ["a=1", "gpufleet.deploy=d-1"]
    assert lead(options, "deployed")["step"] == "boot", "nothing of it has changed"
    other = {**options, "driver": {"kernel_args": ["a=2"]}}
    lead(other, "enrolled")
    assert own(site, options)["kernel"]["args"] == ["a=2", "gpufleet.deploy=d-1"]
    built = site.server.built[options["name"]]
    lead(other, "deployed")
    assert site.server.built[options["name"]] != built, "it would have booted overlays from before"
    with pytest.raises(ConfigError, match="mark of a deployment"):
        lead({**options, "driver": {"kernel_args": ["gpufleet.deploy=d-9"]}}, "enrolled")


def test_the_login_of_the_bmc_goes_there_where_a_site_says_so_and_is_shown_nowhere(site: Any) -> None:
    bmc = {"bmc_username": "root", "bmc_password": "bmc-S3cret-pw"}
    driver = {"ipmi": {"ipaddr": "10.9.0.1", "login": True}, "password_in_overlays": True}
    options = with_driver(site, driver, **bmc)
    line = Line()
    told = [lead(options, "ready", line=line)]
    assert own(site, options)["ipmi"] == {"ipaddr": "10.9.0.1", "username": "root", "password": "bmc-S3cret-pw"}
    rotated = {**options, "bmc_password": "r0tated-S3cret"}
    told += [lead(rotated, "enrolled"), lead(rotated, "enrolled", update_password="always")]
    assert [one["changed"] for one in told[1:]] == [False, True]
    assert own(site, options)["ipmi"]["password"] == "r0tated-S3cret"
    assert told[2]["after"]["ipmi password"] == "********"
    assert "S3cret" not in str(told) + str(line.writes)
    with pytest.raises(ConfigError, match="gpufleet_bmc_password"):
        lead({**options, "bmc_password": ""}, "enrolled")


@pytest.mark.parametrize("said", [{}, {"password_in_overlays": "true"}])
def test_a_login_that_each_node_would_get_in_its_overlays_needs_the_sites_word(site: Any, said: Any) -> None:
    """Warewulf's own overlay renders it to a node, and its server to whoever asks for that node's."""
    bmc = {"bmc_username": "root", "bmc_password": "bmc-S3cret-pw"}
    options = with_driver(site, {"ipmi": {"ipaddr": "10.9.0.1", "login": True}, **said}, **bmc)
    with pytest.raises(ConfigError, match="password_in_overlays: true") as refused:
        lead(options, "ready")
    assert site.faults.writes == [] and "S3cret" not in str(refused.value)
    assert options["name"] not in site.server.conf.load()["nodes"]
    without = {**options, "driver": {"warewulf": {"ipmi": {"ipaddr": "10.9.0.1"}}}}
    assert lead(without, "ready")["changed"] and own(site, options)["ipmi"] == {"ipaddr": "10.9.0.1"}


def test_what_wipes_a_disk_of_a_node_in_service_with_its_next_boot_needs_a_permit(site: Any) -> None:
    options = deployed(site)
    line = Line()
    wipes = {"disks": {"/dev/nvme0n1": {"wipe_table": True}}}
    lead({**options, "driver": {"disks": DISKS}}, "enrolled", line=line)
    lead({**options, "driver": wipes}, "enrolled", line=line)
    assert [hard for _what, hard, _hosts in line.writes] == [False, True]


@pytest.mark.parametrize(
    ("driver", "words"),
    [
        ({"ipmi": {"passwort": "x"}}, "ipmi passwort"),
        ({"ipmi": {"password": "x"}}, "login: true takes"),
        ({"disks": {"/dev/sda": {"partitions": {"a": {"size": 1}}}}}, "disks /dev/sda partitions a size"),
        ({"filesystems": ["/dev/sda"]}, "which is no mapping"),
        ({"system_overlays": "hosts"}, "no list"),
        ({"profile_fields": {"gpu": {"image name": "x"}}}, "profile_fields gpu image name"),
        ({"profile_fields": ["gpu"]}, "no mapping of mappings"),
        ({"overlay_files": {"ours": {"etc/x": "x"}}}, "no file of the overlay ours: etc/x"),
        ({"overlay_files": {"ours": {"/etc/../../x": "x"}}}, "no file of the overlay ours"),
        ({"configure": ["nfs"]}, "configures nothing of the name nfs"),
        ({"wwctl": "wwctl"}, "no whole path"),
    ],
)
def test_what_warewulf_would_take_and_drop_is_refused(site: Any, driver: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        lead(with_driver(site, driver), "ready")
    assert site.faults.writes == []


# -- profiles ------------------------------------------------------------------------------------------------------


def profiled(site: Any, **fields: Any) -> dict[str, Any]:
    return with_driver(site, {"profiles": ["default", "gpu"], "profile_fields": {"gpu": fields}})


def gpu(site: Any) -> dict[str, Any]:
    found: dict[str, Any] = site.server.conf.load()["nodeprofiles"].get("gpu", {})
    return {key: one for key, one in found.items() if key != "tags"}


def test_a_profile_is_made_changed_and_then_left(site: Any) -> None:
    first, second = profiled(site, kernel={"args": ["a"]}), profiled(site, kernel={"args": ["a"]})
    assert lead(first, "ready")["after"]["profile gpu"] == {"kernel": {"args": ["a"]}}
    assert site.record(first["name"])["kernel"]["args"] == ["a"]
    lead(second, "ready")
    assert sum("/profiles/" in one.what for one in site.faults.writes) == 1
    other = {**first, "driver": {"profiles": ["default", "gpu"], "profile_fields": {"gpu": {"root": "tmpfs"}}}}
    changed = lead(other, "enrolled")
    assert changed["before"]["profile gpu"] == {"kernel": {"args": ["a"]}} and gpu(site) == {"root": "tmpfs"}
    assert not lead(other, "enrolled")["changed"]


def test_a_profile_of_somebodys_or_that_somebody_has_changed_is_left(site: Any) -> None:
    site.server.conf.change("gpu", lambda one: one.update(root="tmpfs"), "nodeprofiles")
    options = profiled(site, root="initramfs")
    with pytest.raises(NotOurs, match="the profile gpu at Warewulf is not as this collection left it"):
        lead(options, "ready")
    assert gpu(site) == {"root": "tmpfs"} and options["name"] not in site.server.conf.load()["nodes"]
    assert lead(profiled(site, root="tmpfs"), "ready")["changed"], "it is as it is declared, whoever has made it"
    site.server.conf.change("gpu", lambda one: one.update(comment="Anna was here"), "nodeprofiles")
    with pytest.raises(NotOurs):
        lead(options, "ready")


def test_a_profile_of_ours_that_somebody_has_changed_is_left(site: Any) -> None:
    options = profiled(site, root="initramfs")
    lead(options, "ready")
    site.server.conf.change("gpu", lambda one: one.update(comment="Anna was here"), "nodeprofiles")
    with pytest.raises(NotOurs):
        lead({**options, "driver": profiled(site, root="tmpfs")["driver"]}, "enrolled")
    assert gpu(site) == {"root": "initramfs", "comment": "Anna was here"}
    assert not lead(options, "enrolled")["changed"], "what is declared stands there"


THEIRS = {
    "image name": "rocky-9",
    "ipmi": {"username": "root", "password": "x-Secret-9", "template": "ipmitool.tmpl"},
    "tags": {"ipmipw": "Secret-of-a-tag", "hall": "1"},
    "root": "tmpfs",
}
DECLARED = {"root": "initramfs", "ipmi": {"port": "6230"}, "tags": {"hall": "2"}}


def test_a_reason_for_a_node_says_nothing_of_what_other_nodes_share(site: Any) -> None:
    site.server.conf.change("gpu", lambda one: one.update(THEIRS), "nodeprofiles")
    site.server.site_overlays["site-gpu"] = {"/etc/motd": "Anna's"}
    for driver in (profiled(site, **DECLARED)["driver"]["warewulf"], {"overlay_files": {"site-gpu": ISSUE}}):
        for taken in ([], ["another"]):
            with pytest.raises(NotOurs, match="name it in take_shared"):
                lead(with_driver(site, {**driver, "take_shared": taken}), "ready", force_reason="this node is ours")
        named = with_driver(site, {**driver, "take_shared": ["gpu", "site-gpu"]})
        with pytest.raises(NotOurs):
            lead(named, "ready")
    assert site.server.conf.load()["nodeprofiles"]["gpu"] == THEIRS and site.faults.writes == []
    assert site.server.site_overlays == {"site-gpu": {"/etc/motd": "Anna's"}}


def test_a_profile_of_somebodys_that_is_changed_by_agreement_keeps_what_is_not_declared(site: Any) -> None:
    site.server.conf.change("gpu", lambda one: one.update(THEIRS), "nodeprofiles")
    options = profiled(site, **DECLARED)
    options["driver"]["warewulf"]["take_shared"] = ["gpu"]
    told = lead(options, "ready", force_reason="Anna agreed")
    both = {**THEIRS, "root": "initramfs", "ipmi": {**THEIRS["ipmi"], "port": "6230"}}  # type: ignore[dict-item]
    both["tags"] = {"ipmipw": "Secret-of-a-tag", "hall": "2"}
    assert site.server.conf.load()["nodeprofiles"]["gpu"] == both
    assert told["before"]["profile gpu"] == {"root": "tmpfs", "ipmi": {}, "tags": {"hall": "1"}}
    assert told["after"]["profile gpu"] == DECLARED and "Secret" not in str(told)
    assert not lead(options, "enrolled")["changed"], "it is as it is declared"
    other = {**options, "driver": {**options["driver"]["warewulf"], "profile_fields": {"gpu": {"root": "tmpfs"}}}}
    with pytest.raises(NotOurs):
        lead(other, "enrolled")


def test_a_tag_whose_name_says_that_it_is_secret_is_not_shown(site: Any) -> None:
    told = lead(profiled(site, tags={"ipmipw": "Secret-of-a-tag", "hall": "1"}), "ready")
    assert told["after"]["profile gpu"] == {"tags": {"ipmipw": "********", "hall": "1"}}
    assert lead(profiled(site, root="tmpfs"), "ready")["before"]["profile gpu"]["tags"]["ipmipw"] == "********"


def test_a_profile_that_somebody_changes_right_before_the_write_is_left(site: Any) -> None:
    options = profiled(site, root="tmpfs")
    lead(options, "ready")
    looks: list[Any] = []

    def fault(asked: Any) -> None:
        looks.extend([asked] if asked.path.endswith("/profiles/") else [])
        if len(looks) == 2:  # what is to be changed was read by then, and is looked at once more
            site.server.conf.change("gpu", lambda one: one.update(comment="Anna"), "nodeprofiles")

    site.proxy.fault = fault
    try:
        with pytest.raises(Changed, match="the profile gpu"):
            lead({**options, "driver": profiled(site, root="initramfs")["driver"]}, "enrolled")
    finally:
        site.faults.forget()
    assert gpu(site) == {"root": "tmpfs", "comment": "Anna"}


def test_a_profile_that_reads_another_way_than_it_was_sent_is_not_believed(site: Any) -> None:
    conf, save = site.server.conf, site.server.conf.save

    def lost(content: Any) -> None:
        save({**content, "nodeprofiles": {"default": content["nodeprofiles"]["default"]}})

    conf.save = lost
    try:
        with pytest.raises(Refused, match="does not read as it was sent"):
            lead(profiled(site, root="tmpfs"), "ready")
    finally:
        del conf.save


# -- files of overlays ---------------------------------------------------------------------------------------------

ISSUE = {"/etc/issue.d/gpu + 1%.issue.ww": "GPU {{.Id}}\n"}


def with_files(site: Any, files: dict[str, str], name: str = "site-gpu") -> dict[str, Any]:
    return with_driver(site, {"overlay_files": {name: files}, "system_overlays": ["site-gpu"]})


def test_files_of_an_overlay_are_made_changed_and_then_left(site: Any) -> None:
    options = with_files(site, ISSUE)
    lead(options, "ready")
    (path,) = ISSUE
    assert site.server.site_overlays["site-gpu"][path] == ISSUE[path] and own(site, options)["system overlay"]
    writes = len(site.faults.writes)
    assert not lead(options, "enrolled")["changed"]
    assert len(site.faults.writes) == writes
    other = {**options, "driver": {"overlay_files": {"site-gpu": {path: "x"}}}}
    assert lead(other, "enrolled")["changed"] and site.server.site_overlays["site-gpu"][path] == "x"


def test_whoever_made_or_changed_a_file_keeps_it(site: Any) -> None:
    (path,) = ISSUE
    site.server.site_overlays["site-gpu"] = {"/etc/motd": "Anna's"}
    with pytest.raises(NotOurs, match="the overlay site-gpu"):
        lead(with_files(site, ISSUE), "ready")
    with pytest.raises(NotOurs, match="the overlay hosts"):
        lead(with_files(site, ISSUE, "hosts"), "ready")
    assert site.server.site_overlays == {"site-gpu": {"/etc/motd": "Anna's"}}, "Warewulf's own is not copied either"
    site.server.site_overlays.clear()
    options = with_files(site, ISSUE)
    lead(options, "ready")
    site.server.site_overlays["site-gpu"][path] = "Anna's"
    with pytest.raises(NotOurs, match="the file /etc/issue"):
        lead(options, "enrolled")
    assert site.server.site_overlays["site-gpu"][path] == "Anna's"
    with pytest.raises(NotOurs):
        lead(options, "enrolled", force_reason="this node is ours")
    options["driver"]["warewulf"]["take_shared"] = ["site-gpu"]
    lead(options, "enrolled", force_reason="she agreed")
    assert site.server.site_overlays["site-gpu"][path] == ISSUE[path]


@pytest.mark.parametrize("at", [1, 2, 3])
def test_files_of_a_run_that_was_killed_are_gone_on_with(site: Any, at: int) -> None:
    options = with_files(site, ISSUE)
    with pytest.raises(Killed):
        lead(options, "ready", line=Line(die_at=at))
    lead(options, "ready")
    (path,) = ISSUE
    assert site.server.site_overlays["site-gpu"][path] == ISSUE[path]
    other = {**options, "driver": {"overlay_files": {"site-gpu": {path: "x"}}}}
    with pytest.raises(Killed):
        lead(other, "enrolled", line=Line(die_at=1))
    lead(other, "enrolled")
    assert site.server.site_overlays["site-gpu"][path] == "x"


def test_overlays_of_all_nodes_that_wait_for_their_boot_are_built_of_what_is_declared_now(site: Any) -> None:
    """Also of those for which nothing was left to be written, since the first one of a batch has written it."""
    (path,) = ISSUE
    nodes = [{**with_files(site, ISSUE), "image": site.image(), "deploy_id": "d-1"} for _number in range(2)]
    for options in nodes:
        lead(options, "ready")
        lead(options, "deployed")
    built = {options["name"]: site.server.built[options["name"]] for options in nodes}
    driver = {"overlay_files": {"site-gpu": {path: "x"}}, "system_overlays": ["site-gpu"]}
    for options in nodes:
        options["driver"] = driver
        lead(options, "enrolled")
        lead(options, "deployed")
        assert site.server.built[options["name"]] != built[options["name"]]
        assert lead(options, "deployed")["step"] == "boot"
        site.boot(options["name"])
        assert watch_all(site, "deployed", options, booted=True)["verdicts"][options["name"]]["ok"]
    runs = {**nodes[0], "driver": {**driver, "overlay_files": {"site-gpu": {path: "y"}}}}
    assert lead(runs, "enrolled")["changed"]
    assert not lead(runs, "deployed")["pending"], "what runs is not ordered anew for a file"


def test_nothing_of_it_is_written_in_check_mode(site: Any) -> None:
    options = with_files(site, ISSUE)
    options["driver"]["warewulf"].update(profile_fields={"gpu": {"root": "tmpfs"}}, configure=["tftp"])
    options["driver"]["warewulf"].update(tftp_root="/nonexistent", wwctl="/nonexistent/wwctl")
    told = lead(options, "ready", check=True)
    assert {"profile gpu", "configure tftp"} < set(told["after"]) and site.faults.writes == []
