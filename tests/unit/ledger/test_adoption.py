# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What speaks against adopting a node that works, and what is recorded of one that is adopted."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, EvidenceMissing
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.adoption import adopted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.event import ledger_event
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import contract
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.names import PLACE
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from hypothesis import given, settings
from hypothesis import strategies as st
from suite.properties import at_most

SITE = {"scheduler": "slurm", "provisioner": "ironic", "provisioner_id": "", "boot_mac": "52:54:00:00:00:01"}
SERVES = {
    "owner": "free", "state": "mixed", "answers": True, "native": "MIXED", "holds": [], "scheduler_node": "gpu001",
}  # fmt: skip
DEPLOYED = {
    "before": {"state": "deployed", "provision_state": "active"}, "provisioner_id": "u1", "provision_state": "active",
    "stamp": "2026-11-20T10:12:58", "agrees": ["serial"],
}  # fmt: skip
ABSENT = {"before": {"state": "absent"}, "provisioner_id": "", "provision_state": "enroll"}
PROVEN = {"verdict": "pass", "checks": [{"id": "machine", "verdict": "pass"}], "findings": []}
PASS: dict[str, Any] = {"verdict": "pass", "findings": []}
XID = {"verdict": "fail", "findings": [{"text": "Xid 79 on GPU 3"}, {"text": "GPU 3 is gone"}]}


def seen(**changes: Any) -> dict[str, Any]:
    whole = {"scheduler": SERVES, "provisioner": DEPLOYED, "machine": PROVEN, "name": {"stdout": "GPU001.hpc\n"}}
    return {**whole, "looks": [PROVEN, PASS, PASS], "passport": {}, "other_name": False, **changes}


def refused(site: dict[str, str] | None = None, **changes: Any) -> str:
    with pytest.raises(EvidenceMissing) as caught:
        adopted(seen(**changes), SITE if site is None else site, "gpu001")
    return str(caught.value)


def test_j7_what_is_proven_is_adopted_and_recorded() -> None:
    passport = {"valid": True, "passport": {"digest": "sha256:1"}}
    assert adopted(seen(passport=passport), SITE, "gpu001") == {
        "adopted": True, "scheduler_node": "gpu001", "machine_name": "GPU001.hpc", "provisioner_id": "u1",
        "provision_state": "active", "provisioner_record": "present",
        "provisioner_stamp": "2026-11-20T10:12:58", "passport": "sha256:1",
        "provisioner_place": {"provisioner": "ironic", "url": "", "cloud": ""},
    }  # fmt: skip


def test_r3_where_its_record_is_is_noted_and_no_place_of_one_without() -> None:
    there = {**SITE, "provisioner_url": "https://fleet:secret@ironic1/v1"}
    place = {"provisioner": "ironic", "url": "https://ironic1/v1", "cloud": ""}
    assert adopted(seen(), there, "gpu001")["provisioner_place"] == place
    cloud = {**there, "provisioner_cloud": "west"}
    assert adopted(seen(), cloud, "gpu001")["provisioner_place"] == {**place, "url": "", "cloud": "west"}
    for told in (ABSENT, {"skipped": True}):
        assert "provisioner_place" not in adopted(seen(provisioner=told), there, "gpu001")


@pytest.mark.parametrize(
    "change",
    [
        {"state": "draining"},
        {"state": "drained"},
        {"state": "down"},
        {"answers": False},
        {"owner": "foreign", "holds": [{"text": "riser swap"}]},
        {"state": "absent", "native": "", "answers": False},
    ],
)
def test_j7_who_is_not_in_service_is_told_so_before_all_else(change: dict[str, Any]) -> None:
    told = refused(scheduler={**SERVES, **change}, machine={"unreachable": True, "msg": "no route"})
    assert "only a node in service is adopted" in told and "no route" not in told
    for hold in change.get("holds", ()):
        assert hold["text"] in told


@pytest.mark.parametrize("scheduler", ["", "none"])
def test_j7_a_node_of_no_scheduler_needs_neither_service_nor_name(scheduler: str) -> None:
    place = {"cluster": "slurm alpha", "cluster_host": "ctl1", "scheduler_at": "https://slurm"}
    of_alpha = adopted(seen(scheduler={**SERVES, **place}), SITE, "gpu001")
    assert {key: of_alpha[key] for key in place} == place, "another cluster's node of this name is not this machine"
    nobody = seen(scheduler={"state": "absent", "scheduler_node": "gpu001", **place}, name={"skipped": True})
    data = adopted(nobody, {**SITE, "scheduler": scheduler}, "gpu001")
    assert not set(place) & set(data)
    assert data["machine_name"] == data["scheduler_node"] == "", "which is no name that a scheduler has told"


def test_r5_all_of_the_place_is_recorded_that_a_scheduler_tells() -> None:
    told = {key: f"its {key}" for key in PLACE}
    assert told.items() <= adopted(seen(scheduler={**SERVES, **told}), SITE, "gpu001").items()


def test_j7_a_node_of_which_its_provisioner_has_no_record_is_adopted_and_recorded_so() -> None:
    told = adopted(seen(provisioner=ABSENT), SITE, "gpu001")
    assert (told["provisioner_record"], told["provisioner_id"], told["provision_state"]) == ("absent", "", "")
    assert adopted(seen(provisioner={"skipped": True}), SITE, "gpu001")["provisioner_record"] == ""


@pytest.mark.parametrize(
    ("claim", "words"), [({"provisioner_id": "u9"}, "by u9"), ({"boot_mac": ""}, "gpufleet_boot_mac")]
)
def test_j7_a_record_that_may_stand_under_another_name_is_not_said_to_be_missing(
    claim: dict[str, str], words: str
) -> None:
    assert words in refused({**SITE, **claim}, provisioner=ABSENT)
    assert adopted(seen(), {**SITE, **claim}, "gpu001"), "it has one"


@pytest.mark.parametrize("state", [contract.INSPECTING, contract.DEPLOYING, contract.RELEASING, contract.CLEANING])
def test_j7_nobody_is_adopted_while_its_provisioner_works_on_it(state: str) -> None:
    """Also by an order of ours that a run left: the jobs of whoever serves there would end with it."""
    told = {"before": {"state": state, "provision_state": "wait call-back"}, "agrees": ["boot_mac"]}
    assert "wait call-back" in refused(provisioner=told)


@pytest.mark.parametrize("told", [{"agrees": []}, {}])
def test_j7_a_record_that_was_found_by_its_name_alone_is_not_adopted(told: dict[str, Any]) -> None:
    """Its release would wipe whichever machine it is."""
    found = {key: value for key, value in DEPLOYED.items() if key != "agrees"}
    said = refused(provisioner={**found, **told})
    assert "the record u1 of ironic is this machine's" in said and "system_id" not in said


def test_r3_a_record_with_another_system_of_the_same_bmc_is_told_by_that() -> None:
    said = refused(provisioner={**DEPLOYED, "agrees": [], "bmc_system": "5ac0"})
    assert "gpufleet_bmc_system_id: 5ac0" in said and "neither" not in said


@pytest.mark.parametrize("change", [{"machine": {}}, {"name": {}}, {"looks": [PROVEN, {}]}])
def test_j7_who_cannot_be_reached_is_not_adopted(change: dict[str, Any]) -> None:
    silent = {"unreachable": True, "msg": "Connection refused"}
    filled = {key: [*value[:1], silent] if isinstance(value, list) else silent for key, value in change.items()}
    assert "cannot be reached over SSH: Connection refused" in refused(**filled)


@pytest.mark.parametrize(
    "machine",
    [
        {"msg": "the web server is away"},
        {"checks": [{"id": "machine", "verdict": "inconclusive"}], "findings": [{"text": "the web server is away"}]},
    ],
)
def test_j7_who_is_not_proven_by_its_bmc_is_not_adopted(machine: dict[str, Any]) -> None:
    assert "not proven by its BMC (the web server is away)" in refused(machine=machine)


def test_j7_an_image_that_cannot_be_read_is_not_said_of_the_machine() -> None:
    machine = {"kind": "artifact", "msg": "the image hpc 1.4 itself: its server is away", "checks": [{"id": "digest"}]}
    told = refused(machine=machine)
    assert "its server is away" in told and "BMC" not in told


def test_j7_who_serves_under_another_name_is_adopted_on_a_word() -> None:
    other = {"stdout": "login1\n"}
    told = refused(name=other)
    assert "calls itself login1" in told and "adopt_other_name=true" in told
    assert adopted(seen(name=other, other_name=True), SITE, "gpu001")["machine_name"] == "login1"


@pytest.mark.parametrize(
    ("own", "theirs", "one"),
    [("GPU001.hpc", "gpu001", True), ("gpu001", "gpu001.hpc", True), ("gpu001.hpc", "gpu001.other", False)],
)
def test_r5_two_whole_names_are_two_machines(own: str, theirs: str, one: bool) -> None:
    told = {"name": {"stdout": f"{own}\n"}, "scheduler": {**SERVES, "scheduler_node": theirs}}
    if one:
        assert adopted(seen(**told), SITE, "gpu001")["scheduler_node"] == theirs
    else:
        assert "whether they are one is not proven" in refused(**told)


@pytest.mark.parametrize("name", [{"stdout": ""}, {"stdout": " \n"}, {"rc": 1}])
def test_j7_who_does_not_tell_its_name_is_not_taken_for_the_schedulers_node(name: dict[str, Any]) -> None:
    assert "whether they are one is not proven" in refused(name=name)


ASKED, BOOT = 1_796_000_000, "9d3b8a52-65c2-4a8d-9c0e-7a1f00000001"


def own(up: float, boot: str = BOOT, asked: object = ASKED) -> dict[str, Any]:
    """As the playbook asks: the name, the kernel's two files, and the time on the controller."""
    return {"stdout": f"gpu001\n{up:.2f} 4711.33\n{boot}\n{asked}"}


@pytest.mark.parametrize("apart", [-900, -301, 0, 299, 301, 86400.0])
def test_r5_another_clusters_node_of_this_name_is_not_the_machine(apart: float) -> None:
    """Each cluster has a gpu001 in service, and the wrong one is asked."""
    scheduler = {**SERVES, "booted": "2026-11-20T10:12:58", "booted_at": float(ASKED - 5000 + apart)}
    told = {"scheduler": scheduler, "name": own(5000), "other_name": True}
    if abs(apart) < 300:
        assert adopted(seen(**told), SITE, "gpu001")["machine_name"] == "gpu001"
    else:
        said = refused(**told)
        assert "it is another machine" in said and "this machine at 2026-11-29T23:30:00Z" in said, said


def test_r5_of_a_scheduler_that_tells_a_boots_id_the_id_counts() -> None:
    same, other = BOOT.upper(), BOOT.replace("9d3b", "0000")
    for booted in (same, "boot-1", ""):
        assert adopted(seen(scheduler={**SERVES, "booted": booted}, name=own(5000)), SITE, "gpu001")
    said = refused(scheduler={**SERVES, "booted": other}, name=own(5000))
    assert f"runs the boot {other}, this machine the boot {BOOT}: it is another machine" in said


@pytest.mark.parametrize("first", ["", "lastlog: no such file\r\n", "Welcome to gpu002. ", "gpu002\n5.0 1.0\n"])
def test_what_a_login_prints_first_is_not_the_machines_name(first: str) -> None:
    """A command that no module runs has it before its own words."""
    other = "0" * 8 + "-0000-0000-0000-" + "0" * 12
    told = f"{first}gpufleet-own-name: gpu001\r\n5000.00 1.00\r\n{BOOT}\r\n{ASKED}\r\n"
    assert adopted(seen(name={"stdout": told}), SITE, "gpu001")["machine_name"] == "gpu001"
    assert "another machine" in refused(scheduler={**SERVES, "booted": other}, name={"stdout": told})


@pytest.mark.parametrize("at", [0.0, None, float("inf"), float("nan"), "soon", 1e300])
def test_r5_of_a_boot_of_which_nobody_tells_nothing_is_held_against_a_node(at: object) -> None:
    assert adopted(seen(scheduler={**SERVES, "booted_at": at}, name=own(5000)), SITE, "gpu001")


@settings(max_examples=at_most(200))
@given(st.lists(st.one_of(st.text(max_size=40), st.sampled_from([BOOT, "5000.00 1.00", str(ASKED)])), max_size=5))
def test_r5_whatever_a_machine_says_of_its_boot_is_no_crash(lines: list[str]) -> None:
    told = {
        "scheduler": {**SERVES, "booted_at": 1.0, "booted": BOOT},
        "name": {"stdout": "\n".join(["gpu001", *lines])},
    }
    try:
        assert adopted(seen(**told), SITE, "gpu001")["machine_name"] == "gpu001"
    except EvidenceMissing as exc:
        assert "another machine" in str(exc)


def test_j7_what_was_found_is_the_reason_and_else_why_there_is_no_passport() -> None:
    standing = {"valid": False, "reasons": ["gate dcgm_gate: fail (event 12)"]}
    assert adopted(seen(looks=[PROVEN, XID]), SITE, "gpu001")["reason"] == "Xid 79 on GPU 3; GPU 3 is gone"
    ended = {"verdict": "inconclusive", "findings": [], "msg": "no dcgmi"}
    assert adopted(seen(looks=[PROVEN, ended]), SITE, "gpu001")["reason"] == "no dcgmi"
    assert adopted(seen(passport=standing), SITE, "gpu001")["reason"] == "gate dcgm_gate: fail (event 12)"
    long = {"verdict": "fail", "findings": [{"text": "x" * 999}]}
    assert len(adopted(seen(looks=[long]), SITE, "gpu001")["reason"]) == 400


@pytest.mark.parametrize(
    ("kind", "refuses"),
    [
        ("profile_missing", True),
        ("config", True),
        ("unsupported", True),
        ("", False),
        ("trust", False),
        ("news", False),
    ],
)
def test_h4_a_look_that_a_setting_kept_from_looking_says_nothing_of_the_node(kind: str, refuses: bool) -> None:
    """Its finding would be due for ever. What a gate says of the node itself is due, and refuses nobody."""
    look = {"verdict": "inconclusive", "kind": kind, "findings": [{"text": "no profile of this SKU"}]}
    if refuses:
        told = refused(looks=[PROVEN, look, PASS])
        assert "for a setting of the site: no profile of this SKU. Correct that" in told
        assert "the file is gone" in refused(looks=[PROVEN, PASS, {**look, "msg": "the file is gone"}])
    else:
        assert adopted(seen(looks=[PROVEN, look, PASS]), SITE, "gpu001")["reason"] == "no profile of this SKU"


def test_j7_adoption_is_a_way_into_service_alone() -> None:
    with pytest.raises(ConfigError, match="way into admitted"):
        ledger_event({"state": "drained", "adoption": seen(), "known": {"site": SITE}}, Context(node="gpu001"))
