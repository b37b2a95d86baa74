# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Redfish against the manners of several makers, and against everything that can go wrong."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.boot import pxe_boot
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.info import info
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.power import power
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    AuthFailed,
    ConfigError,
    DeadlineExceeded,
    FleetError,
    NotProven,
    Refused,
    Unreachable,
    Unsupported,
)
from fake_bmc.vendors import VENDORS

from .conftest import POWER, PXE, Ctx, RedfishRig

Make = Callable[..., RedfishRig]
BOOTABLE = sorted(set(VENDORS) - {"chassis", "blades", "cray", "cray_ex235n", "once_unseen"})


def change(rig: RedfishRig, state: str, **more: Any) -> dict[str, Any]:
    ctx = more.pop("ctx", None) or Ctx()
    return power({**rig.params, **POWER, "state": state, **more}, ctx).as_dict(ctx)


def boot(rig: RedfishRig, **more: Any) -> dict[str, Any]:
    ctx = more.pop("ctx", None) or Ctx()
    return pxe_boot({**rig.params, **PXE, **more}, ctx).as_dict(ctx)


# -- makers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BOOTABLE)
def test_every_maker_boots_from_the_network_once(fake: Make, name: str) -> None:
    rig = fake(name, lag=0.05)
    result = boot(rig, power="on")
    assert (result["proof"], result["verdict"]) == ("readback", "pass")
    assert rig.bmc.machine.boots == ["Pxe"]
    change(rig, "cycle")
    assert rig.bmc.machine.boots == ["Pxe", "disk"]


#: Of these two a machine must be chosen; the third lists an Off of which nobody knows that it is a shutdown.
OTHERWISE = {"chassis", "blades", "lists_off"}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(VENDORS) - OTHERWISE))
def test_every_maker_through_all_states_of_power(fake: Make, name: str) -> None:
    rig = fake(name, lag=0.1)
    for state, truth in (
        ("on", "On"),
        ("graceful", "Off"),
        ("on", "On"),
        ("reset", "On"),
        ("cycle", "On"),
        ("off", "Off"),
    ):
        change(rig, state)
        assert rig.power() == truth, state
    sent = {body.get("ResetType") for _method, _path, body in rig.bmc.writes}
    assert sent <= set(rig.bmc.vendor["resets"])


def test_a_machine_that_must_not_be_force_restarted(fake: Make) -> None:
    rig = fake("lenovo", lag=0.3, power="On")
    change(rig, "reset")
    assert [body["ResetType"] for _method, _path, body in rig.bmc.writes] == ["GracefulRestart"]


def test_ilo_gets_its_own_restart(fake: Make) -> None:
    rig = fake("ilo", lag=0.3, power="On")
    change(rig, "reset")
    assert rig.bmc.writes[-1][2] == {"ResetType": "GracefulRestart"}


def test_no_restart_offered_means_off_then_on(fake: Make) -> None:
    rig = fake("cray", lag=0.05, power="On")
    result = change(rig, "reset")
    assert [body["ResetType"] for _method, _path, body in rig.bmc.writes] == ["ForceOff", "On"]
    assert "off, then on" in result["notes"][0]


def test_a_bmc_without_a_boot_override(fake: Make) -> None:
    rig = fake("cray")
    with pytest.raises(Unsupported) as caught:
        boot(rig, power="on")
    assert "no boot override" in str(caught.value) and rig.writes() == 0
    assert info({**rig.params, "timeout": 5.0}, Ctx()).data["capabilities"]["boot_targets"] is None


@pytest.mark.parametrize(
    "name,uri,taken", [("dgx", "http://boot/x.efi", True), ("plain", "http://boot/x.efi", False), ("plain", None, True)]
)
def test_boot_over_http(fake: Make, name: str, uri: str, taken: bool) -> None:
    rig = fake(name)
    if taken:
        assert boot(rig, target="uefi_http", http_boot_uri=uri, mode="uefi")["proof"] == "readback"
        assert rig.bmc.machine.override["target"] == "UefiHttp"
        assert rig.bmc.machine.override["uri"] == (uri or "")
    else:
        with pytest.raises(Unsupported, match="takes no URI"):
            boot(rig, target="uefi_http", http_boot_uri=uri)
        assert rig.writes() == 0


def test_a_target_that_is_not_listed_is_not_sent(fake: Make) -> None:
    rig = fake("lenovo")
    with pytest.raises(Unsupported, match="cannot boot from UefiHttp"):
        boot(rig, target="uefi_http")
    assert rig.writes() == 0


def test_a_mode_that_is_not_told_is_not_sent(fake: Make) -> None:
    rig = fake("gb200")
    with pytest.raises(Unsupported, match="cannot switch the boot mode"):
        boot(rig, mode="uefi")
    assert rig.writes() == 0
    assert boot(rig, mode="keep")["verdict"] == "pass"


def test_the_mode_is_switched_where_it_can_be(fake: Make) -> None:
    rig = fake("plain")
    boot(rig, mode="legacy")
    assert rig.bmc.writes[-1][2]["Boot"]["BootSourceOverrideMode"] == "Legacy"
    boot(rig, mode="uefi")
    assert rig.bmc.machine.override["mode"] == "UEFI"


# -- systems ---------------------------------------------------------------------------------------------------


def test_several_machines_behind_one_bmc(fake: Make) -> None:
    rig = fake("blades")
    rig.params["system_uuid"] = ""
    with pytest.raises(ConfigError) as caught:
        change(rig, "on")
    assert "Node0 (serial SN0001)" in str(caught.value) and "Node1 (serial OTHER)" in str(caught.value)
    assert rig.writes() == 0
    for more in ({"serial": "SN0001"}, {"bmc_system_id": "Node0"}, {"bmc_system_id": "/redfish/v1/Systems/Node0"}):
        change(rig, "on", **more)
        change(rig, "force_off", **{"serial": "SN0001", **more})
    assert {path.split("/")[4] for _method, path, _body in rig.bmc.writes} == {"Node0"}


@pytest.mark.parametrize(
    "name,wanted,error,words",
    [
        ("chassis", "", Unsupported, "no machine"),
        ("dgx", "HGX_Baseboard_0", Unsupported, "no Reset action"),
        ("plain", "nowhere", ConfigError, "no such system"),
        ("plain", "/redfish/v1/Systems/nowhere", Unsupported, "does not have this resource"),
    ],
)
def test_no_machine_there(fake: Make, name: str, wanted: str, error: type[FleetError], words: str) -> None:
    with pytest.raises(error, match=words):
        change(fake(name), "on", bmc_system_id=wanted, timeout=2.0)


def test_b4_a_composed_system_is_told_as_one_and_taken_where_it_is_named(fake: Make) -> None:
    rig = fake("plain")
    rig.bmc.vendor["system"] = {**rig.bmc.vendor["system"], "SystemType": "Composed"}
    with pytest.raises(ConfigError, match=r"no machine of its own.*1 \(Composed\).*gpufleet_bmc_system_id"):
        change(rig, "on")
    assert rig.writes() == 0
    assert change(rig, "on", bmc_system_id="1")["changed"]


def test_a_link_to_another_host_gets_no_login(fake: Make) -> None:
    rig, other = fake("plain"), fake("plain")
    rig.bmc.faults["raw"] = {
        "/redfish/v1/": f'{{"Systems": {{"@odata.id": "{other.bmc.url}/redfish/v1/Systems"}}}}'.encode()
    }
    with pytest.raises(ConfigError, match="another host"):
        change(rig, "on")
    assert not other.bmc.paths


# -- faults ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state,start", [("on", "Off"), ("force_off", "On"), ("reset", "On")])
def test_a_lost_answer_is_looked_into_and_never_sent_again(fake: Make, state: str, start: str) -> None:
    rig = fake("openbmc", lag=0.1, power=start)
    rig.bmc.faults["drop_post"] = 1
    result = change(rig, state)
    assert rig.writes() == 1 and "decided by reading" in result["notes"][0]


def test_a_lost_answer_of_a_bmc_that_did_nothing(fake: Make) -> None:
    rig = fake("plain")
    rig.bmc.faults.update(drop_post=1, liar=True)
    with pytest.raises(DeadlineExceeded):
        change(rig, "on", timeout=1.0)
    assert rig.writes() == 1


def test_a_lost_patch_is_repeated_only_if_it_did_not_count(fake: Make) -> None:
    rig = fake("plain")
    rig.bmc.faults["drop_patch"] = 1
    assert boot(rig)["verdict"] == "pass"
    assert rig.writes() == 1
    rig = fake("plain")
    rig.bmc.faults.update(drop_patch=1, liar=True)
    original = rig.bmc.get

    def honest_after_a_write(path: str) -> Any:
        if rig.writes():
            rig.bmc.faults.pop("liar", None)
        return original(path)

    rig.bmc.get = honest_after_a_write
    assert boot(rig)["verdict"] == "pass"
    assert rig.writes() == 2


def test_an_override_taken_in_words_alone(fake: Make) -> None:
    rig = fake("plain")
    rig.bmc.faults["liar"] = True
    with pytest.raises(NotProven, match="does not show it"):
        boot(rig, power="on")
    assert rig.power() == "Off"


def test_200_with_an_error_inside_is_no_success(fake: Make) -> None:
    rig = fake("plain")
    rig.bmc.faults["soft_error"] = True
    with pytest.raises(Refused, match="error inside"):
        change(rig, "on", timeout=2.0)
    with pytest.raises(Refused, match="it went wrong"):
        boot(rig)


@pytest.mark.parametrize("kind", ["monitor", "task"])
def test_tasks_are_followed(fake: Make, kind: str) -> None:
    rig = fake("plain", lag=0.1)
    rig.bmc.faults["tasks"] = kind
    assert boot(rig, power="on")["verdict"] == "pass"
    assert sum("Tasks" in path for path in rig.bmc.paths) > 2
    # A machine that went off all the same would count as off: the state decides, not the task.
    rig.bmc.faults.update(task_fails=True, liar=True)
    with pytest.raises(Refused, match="task ended badly"):
        change(rig, "force_off")


def test_busy_is_waited_for(fake: Make) -> None:
    rig = fake("plain")
    rig.bmc.faults["busy"] = 2
    assert change(rig, "on")["changed"]
    rig.bmc.faults.update(busy=1000, busy_status=503)
    with pytest.raises(FleetError, match="not ready"):
        change(rig, "off", timeout=1.0)


def test_not_ready_in_words(fake: Make) -> None:
    rig = fake("idrac9")
    body = {"error": {"@Message.ExtendedInfo": [{"MessageId": "IDRAC.2.8.SWC0700", "Message": "iDRAC is not ready."}]}}
    rig.bmc.faults.update(busy=1, busy_status=400, busy_body=body)
    assert change(rig, "on")["changed"]


def test_a_bmc_that_settles_is_asked_again(fake: Make) -> None:
    rig = fake("idrac10", power="On")
    change(rig, "cycle")
    assert rig.power() == "On"
    assert len([1 for method, _path, _body in rig.bmc.writes if method == "POST"]) >= 2


@pytest.mark.parametrize(
    "message,kind,words",
    [
        ("Base.1.8.PasswordChangeRequired", AuthFailed, "password changed"),
        ("SMC.1.0.OemLicenseNotPassed", Refused, "licence"),
        ("IDRAC.2.8.SystemLockdown", Refused, "lockdown"),
        ("Base.1.8.InsufficientPrivilege", Refused, "refuses this request"),
    ],
)
def test_refusals_say_what_to_do(fake: Make, message: str, kind: type[FleetError], words: str) -> None:
    rig = fake("plain")
    rig.bmc.faults["refuse"] = (403, message)
    with pytest.raises(kind) as caught:
        change(rig, "on")
    assert words in str(caught.value).lower()
    assert rig.writes() == 1 and not [path for path in rig.bmc.paths if "Session" in path]


def test_refused_because_it_is_so_already(fake: Make) -> None:
    """The state that is shown lags: off is read, the machine is on its way, and On is refused."""
    rig = fake("idrac9", lag=600)
    rig.bmc.machine.reset("On")
    rig.bmc.faults["refuse"] = (409, "IDRAC.2.9.PSU501", "already powered ON")
    result = change(rig, "on")
    assert result["after"] == {"power": "on"} and rig.writes() == 1


@pytest.mark.parametrize("prove,proof", [("auto", "boot"), ("boot", "boot")])
def test_a_quirk_is_never_a_proof(fake: Make, prove: str, proof: str) -> None:
    rig = fake("once_unseen")
    with pytest.raises(NotProven):
        boot(rig, power="on")
    change(rig, "force_off")
    assert boot(rig, power="on", prove=prove, ctx=Ctx(boot_probe=rig.probe))["proof"] == proof
    rig.bmc.faults["liar"] = True
    change_by_hand = rig.bmc.machine
    change_by_hand.override["enabled"] = "Disabled"
    with pytest.raises(FleetError):
        boot(rig, power="restart", prove=prove, ctx=Ctx(boot_probe=rig.probe), timeout=1.0)


# -- login and TLS ---------------------------------------------------------------------------------------------


def test_one_login_is_tried(fake: Make) -> None:
    rig = fake("plain")
    with pytest.raises(AuthFailed) as caught:
        change(rig, "on", bmc_password="wrong-horse")
    assert rig.bmc.failed_logins == 1 and len(rig.bmc.paths) == 1
    assert "wrong-horse" not in str(caught.value.as_result())


def test_the_environment_decides_nothing(fake: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    (tmp_path / "empty.pem").write_text("")
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "empty.pem"))
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login thief password thief\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    rig = fake("plain")
    assert change(rig, "on")["changed"]
    assert change(rig, "off", bmc_ca_path=None, bmc_verify_tls=False)["changed"]
    assert rig.bmc.failed_logins == 0


def test_an_unknown_authority_is_not_trusted(fake: Make) -> None:
    rig = fake("plain")
    with pytest.raises(Unreachable, match="no trusted TLS"):
        change(rig, "on", bmc_ca_path=None)
    with pytest.raises(Unreachable, match="for another name"):
        change(rig, "on", bmc_address=rig.bmc.url.replace("127.0.0.1", "localhost"))
    assert not rig.bmc.paths


@pytest.mark.parametrize("path", ["/nowhere/ca.pem", __file__])
def test_a_ca_file_that_is_none(fake: Make, path: str) -> None:
    with pytest.raises(ConfigError, match="certificate authorities"):
        change(fake("plain"), "on", bmc_ca_path=path)


@pytest.mark.parametrize("address", ["https://admin:secret@127.0.0.1", "ftp://127.0.0.1", "https://"])
def test_an_address_that_is_none(fake: Make, address: str) -> None:
    with pytest.raises(ConfigError) as caught:
        change(fake("plain"), "on", bmc_address=address)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("end", [":443O", ":99999", ":443 ", ":0", " :443", ":-1", "]"])
def test_v2_a_typing_error_in_an_address_names_its_option(fake: Make, end: str) -> None:
    for start in ("https://", ""):
        with pytest.raises(ConfigError) as caught:
            change(fake("plain"), "on", bmc_address=f"{start}10.9.9.9{end}")
        assert "gpufleet_bmc_address" in caught.value.do


def test_connections_are_kept(fake: Make) -> None:
    rig = fake("plain", lag=0.1)
    seen: set[Any] = set()
    original = rig.bmc.get
    rig.bmc.get = lambda path: seen.add(threading.get_ident()) or original(path)  # type: ignore[func-returns-value]
    boot(rig, power="on")
    assert len(seen) == 1


def test_sushys_own_objects_work_on_the_link(fake: Make) -> None:
    sushy = pytest.importorskip("sushy")
    auth = pytest.importorskip("sushy.auth")
    from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish.driver import RedfishBmc

    rig = fake("plain", power="On")
    with RedfishBmc({**rig.params, "timeout": 5.0}, Ctx()) as bmc:
        root = sushy.Sushy(bmc.address, auth=auth.BasicAuth("a", "b"), connector=bmc.machine.link)
        assert root.get_system().power_state == sushy.PowerState.ON
    assert rig.bmc.failed_logins == 0
