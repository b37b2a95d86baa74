# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Redfish BMCs say: lists in several places, tasks, messages by their ids alone, states that do not last."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.info import info
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    AuthFailed,
    BadAnswer,
    NotProven,
    Refused,
    Unsupported,
)
from fake_bmc.redfish_server import PASSWORD

from .conftest import Ctx
from .test_redfish import Make, boot, change


def test_b4_a_mode_that_is_listed_may_be_asked_for_where_none_is_told(fake: Make) -> None:
    rig = fake("dgx")
    with pytest.raises(Unsupported, match="cannot switch the boot mode to legacy"):
        boot(rig, mode="legacy")
    assert rig.writes() == 0
    assert boot(rig, mode="uefi")["verdict"] == "pass"
    assert rig.bmc.writes[-1][2]["Boot"]["BootSourceOverrideMode"] == "UEFI"


def test_b4_targets_of_system_and_settings_are_one_list(fake: Make) -> None:
    rig = fake("bluefield")
    offered = info({**rig.params, "timeout": 5.0}, Ctx()).data["capabilities"]["boot_targets"]
    assert {"pxe", "uefi_http", "Hdd", "UefiTarget"} <= set(offered)
    assert boot(rig, target="uefi_http")["verdict"] == "pass"


@pytest.mark.parametrize("name", ["cray", "cray_ex235n"])
def test_b4_who_lists_off_is_shut_down_by_it(fake: Make, name: str) -> None:
    rig = fake(name, power="On", lag=0.05)
    assert change(rig, "graceful")["notes"] == []
    assert [body["ResetType"] for _method, _path, body in rig.bmc.writes] == ["Off"]


def test_b4_an_off_of_which_nothing_is_known_is_no_shutdown(fake: Make) -> None:
    rig = fake("lists_off", power="On", lag=0.05)
    with pytest.raises(Unsupported, match="no reset that does graceful_off"):
        change(rig, "off")
    assert rig.writes() == 0
    assert change(rig, "graceful")["notes"] == ["this BMC offers no graceful shutdown: the power was cut"]
    assert [body["ResetType"] for _method, _path, body in rig.bmc.writes] == ["ForceOff"]


def test_b4_a_tag_that_only_the_document_tells_is_sent(fake: Make) -> None:
    rig = fake("strong_tag_in_document")
    assert boot(rig)["verdict"] == "pass"
    assert rig.bmc.paths.count("PATCH /redfish/v1/Systems/1") == 1


def somebodys(rig: Any) -> None:
    """A boot override of somebody else, which this BMC shows as it would show ours."""
    rig.bmc.machine.override.update(enabled="Once", target="UefiBootNext")


def test_b3_what_somebody_else_has_set_is_not_taken_for_ours(fake: Make) -> None:
    rig = fake("supermicro")
    somebodys(rig)
    result = boot(rig, power="on")
    targets = [body["Boot"]["BootSourceOverrideTarget"] for _method, _path, body in rig.bmc.writes[:2]]
    assert targets == ["None", "Pxe"] and rig.bmc.machine.boots == ["Pxe"]
    assert (result["proof"], result["before"]["boot"]["target"]) == ("readback", "UefiBootNext")
    assert result["after"]["boot"] == {"enabled": "once", "target": "pxe", "mode": "uefi", "uri": ""}


@pytest.mark.parametrize("fault", ["refused", "liar"])
def test_b3_what_stood_there_before_proves_nothing(fake: Make, fault: str) -> None:
    rig = fake("supermicro")
    somebodys(rig)
    if fault == "liar":
        rig.bmc.faults["liar"] = True
    else:
        rig.bmc.vendor["targets"] = ("Pxe", "Hdd")
    with pytest.raises(NotProven, match="nothing shows that it was taken"):
        boot(rig)
    result = boot(rig, accept_inconclusive=True)
    assert (result["proof"], result["verdict"]) == ("none", "inconclusive")
    assert "proves nothing" in result["notes"][0]


def test_b3_what_was_set_by_us_is_taken_for_ours_again(fake: Make) -> None:
    """A run that was killed is run again: what it left is taken away and set anew, and so is proven."""
    rig = fake("supermicro")
    for _run in (1, 2):
        assert boot(rig)["proof"] == "readback"
    assert rig.bmc.machine.override["target"] == "Pxe"


def test_b3_check_mode_of_what_stood_there_before(fake: Make) -> None:
    rig = fake("supermicro")
    somebodys(rig)
    assert boot(rig, ctx=Ctx(check_mode=True))["verdict"] == "inconclusive"
    assert rig.writes() == 0


def test_b4_a_task_that_fails_says_why(fake: Make) -> None:
    rig = fake("plain", power="On")
    rig.bmc.faults.update(tasks="task", task_fails=True, liar=True)
    with pytest.raises(Refused) as caught:
        change(rig, "force_off")
    assert "A general error has occurred" in caught.value.seen and "Base.1.4.GeneralError" in caught.value.seen


def test_b5_a_task_under_another_name_of_the_same_bmc(fake: Make) -> None:
    rig = fake("plain", lag=0.1)
    rig.bmc.faults.update(tasks="monitor", known_as="https://bmc-17.behind.example:8443")
    assert change(rig, "on")["after"] == {"power": "on"}
    assert any("Tasks" in path for path in rig.bmc.paths)


def test_b4_ids_without_words_are_looked_up(fake: Make) -> None:
    """As iLO answers: the words are in sushy's Base registry, and in the BMC's own."""
    rig = fake("ilo")
    rig.bmc.faults["refuse_in_ids"] = [
        ("Base.1.8.PropertyNotWritable", "HttpBootUri"), ("iLO.2.14.InvalidOperationForSystemState", "PowerOff"),
        ("iLO.2.14.NobodyKnowsThis",),
    ]  # fmt: skip
    with pytest.raises(Refused) as caught:
        boot(rig)
    told = caught.value.seen
    assert "The property HttpBootUri is a read only property" in told
    assert "The operation failed in the power state PowerOff. Wait for it." in told
    assert "[Base.1.8.PropertyNotWritable(HttpBootUri)]" in told and "iLO.2.14.NobodyKnowsThis" in told
    assert "See @Message" not in told


@pytest.mark.parametrize("answer", [b"", b"null", b"[]", b'{"Members": [1, null]}', b'{"Id": "iLO"}'])
@pytest.mark.parametrize("path", ["", "/iLO", "/iLO/words"])
def test_b4_a_registry_that_is_none_hides_no_refusal(fake: Make, answer: bytes, path: str) -> None:
    rig = fake("ilo")
    rig.bmc.faults.update(
        refuse_in_ids=[("iLO.2.14.InvalidOperationForSystemState", "PowerOff")],
        raw={f"/redfish/v1/Registries{path}": answer},
    )
    with pytest.raises(Refused) as caught:
        boot(rig)
    assert "iLO.2.14.InvalidOperationForSystemState(PowerOff)" in caught.value.seen


def test_words_cost_nothing_where_nothing_fails(fake: Make) -> None:
    rig = fake("ilo", lag=0.05)
    boot(rig, power="on")
    assert not [path for path in rig.bmc.paths if "Registries" in path]


def test_a_refused_login_looks_up_no_words(fake: Make) -> None:
    """Each request more would be one more failed login."""
    rig = fake("ilo")
    rig.bmc.faults["refuse_in_ids"] = [("Base.1.8.PasswordChangeRequired", "/redfish/v1/Accounts/1")]
    with pytest.raises(AuthFailed, match="password changed"):
        change(rig, "on")
    assert not [path for path in rig.bmc.paths if "Registries" in path]


@pytest.mark.parametrize("before", range(200 - len(PASSWORD), 200, 3))
def test_of_an_echoed_password_no_beginning_is_told(fake: Make, before: int) -> None:
    """The BMC's answer is told by its first 200 characters."""
    rig = fake("plain")
    rig.bmc.faults["raw"] = {"/redfish/v1/": b"_" * before + PASSWORD.encode() + b" is no login"}
    with pytest.raises(BadAnswer) as caught:
        change(rig, "on")
    assert "____" in str(caught.value) and PASSWORD[:3] not in str(caught.value)


@pytest.mark.parametrize("state,start,says", [
    ("on", "Off", ["On", "Off", "Off", "On", "Off", "On"]),
    ("force_off", "On", ["Off", "On", "PoweringOff", "Off", "On", "Off"]),
    ("reset", "On", ["Off", "On", "PoweringOn", "On", "Off", "On"]),
])  # fmt: skip
def test_t1_a_state_counts_when_it_was_read_twice(fake: Make, state: str, start: str, says: list[str]) -> None:
    """PoweringOn may fall back to Off: a state that was there for one look is not there to stay."""
    rig = fake("plain", power=start)
    rig.bmc.faults["says"] = says
    change(rig, state)
    assert not rig.bmc.faults["says"]


@pytest.mark.parametrize("step", ["..", "%2e%2e", "%2E.", "..%5c..", "."])
def test_b4_a_link_that_reads_like_a_part_of_our_system_and_is_none_gets_no_write(fake: Make, step: str) -> None:
    rig = fake("plain", power="On")
    uri = f"/redfish/v1/Systems/{rig.bmc.vendor['systems'][0]}"
    system, _etag = rig.bmc.get(uri)
    system["Actions"]["#ComputerSystem.Reset"]["target"] = f"{uri}/{step}/2/Actions/ComputerSystem.Reset"
    rig.bmc.faults["raw"] = {uri: json.dumps(system).encode()}
    with pytest.raises(BadAnswer, match="leads elsewhere"):
        change(rig, "force_off")
    assert rig.writes() == 0 and rig.power() == "On"
