# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a machine consists of, wherever its BMC tells it, and the verdict on it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.action import hardware_verify
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.info import info
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import hardware as gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._hardware import Hardware
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.question import covers

from .conftest import Ctx
from .test_macs import members, ref, serve, with_cards
from .test_redfish import Make

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "unit" / "plugins"))
from doors import Door

SYSTEM, BOARD, CHASSIS = "/redfish/v1/Systems/1", "/redfish/v1/Systems/HGX_Baseboard_0", "/redfish/v1/Chassis/1"
CPU = {"ProcessorType": "CPU", "Model": "Intel(R) Xeon(R) Platinum 8480CL", "TotalThreads": 112}
GPUS = 8


def gpu(number: int) -> dict[str, Any]:
    functions = [ref(f"{CHASSIS}/PCIeDevices/GPU{number}/PCIeFunctions/0")]
    return {"ProcessorType": "GPU", "SerialNumber": f"165{number}", "Links": {"PCIeFunctions": functions}}


def racked(rig: Any, **system: Any) -> dict[str, Any]:
    """Two sockets, 2 TiB, eight GPUs on a baseboard of their own, four drives in five places."""
    processors = {f"{SYSTEM}/Processors/{number}": dict(CPU) for number in (1, 2)}
    gpus = {f"{BOARD}/Processors/GPU_{number}": gpu(number) for number in range(GPUS)}
    functions = {
        gpu(number)["Links"]["PCIeFunctions"][0]["@odata.id"]: {"DeviceId": "0x2330"} for number in range(GPUS)
    }
    drives = {f"{SYSTEM}/Storage/1/Drives/{number}": {"Status": {"State": "Enabled"}} for number in range(4)}
    drives[f"{SYSTEM}/Storage/1/Drives/4"] = {"Status": {"State": "Absent"}}
    docs = {
        "/redfish/v1/Systems": members(SYSTEM, BOARD),
        BOARD: {"Id": "HGX_Baseboard_0", "Processors": ref(f"{BOARD}/Processors")},
        f"{SYSTEM}/Processors": members(*processors),
        f"{BOARD}/Processors": members(*gpus),
        f"{SYSTEM}/Storage": members(f"{SYSTEM}/Storage/1"),
        f"{SYSTEM}/Storage/1": {"Drives": [ref(uri) for uri in drives]},
        **processors,
        **gpus,
        **functions,
        **drives,
    }
    told = {
        "Processors": ref(f"{SYSTEM}/Processors"),
        "Storage": ref(f"{SYSTEM}/Storage"),
        "MemorySummary": {"TotalSystemMemoryGiB": 2048},
        "BiosVersion": "1.1.3",
        "SerialNumber": "ABC0001",
    }
    with_cards(rig, **{**told, **system})
    serve(rig, docs)
    return docs


def look(rig: Any, **more: Any) -> dict[str, Any]:
    found = info({**rig.params, "timeout": 5.0, "macs": False, "hardware": True, **more}, Ctx()).data
    return {**found["hardware"], "unread": found["hardware_unread"]}


def test_parts_of_all_places_where_a_bmc_tells_them(fake: Make) -> None:
    rig = fake("plain")
    racked(rig)
    found = look(rig)
    assert found["unread"] == [] and found["firmware"]["bios"] == "1.1.3"
    assert (found["cpu_sockets"], found["cpu_threads"], found["cpu_model"]) == (2, 224, CPU["Model"])
    assert (found["memory_gib"], found["drive_count"]) == (2048, 4)
    assert found["gpu_count"] == GPUS and found["gpu_devices"] == ["2330"] * GPUS


def test_gpus_that_stand_in_the_chassis_alone_and_have_no_device_id(fake: Make) -> None:
    """As on recorded machines of Supermicro, which tell zeros for each device."""
    rig = fake("plain")
    devices = [f"{CHASSIS}/PCIeDevices/{name}" for name in ("GPU1", "GPU2", "NIC1")]
    racked(rig, Links={"Chassis": [ref(CHASSIS)]})
    serve(
        rig,
        {
            "/redfish/v1/Systems": members(SYSTEM),
            CHASSIS: {"PCIeDevices": ref(f"{CHASSIS}/PCIeDevices")},
            f"{CHASSIS}/PCIeDevices": members(*devices),
            devices[0]: {"SerialNumber": "1", "PCIeFunctions": ref(f"{devices[0]}/PCIeFunctions")},
            f"{devices[0]}/PCIeFunctions": members(f"{devices[0]}/PCIeFunctions/1"),
            f"{devices[0]}/PCIeFunctions/1": {"DeviceId": "0x0000"},
            devices[1]: {"SerialNumber": "2", "Status": {"State": "Absent"}},
        },
    )
    found = look(rig)
    assert found["gpu_count"] == 1 and found["gpu_devices"] == []


def test_a_count_of_which_a_part_cannot_be_read_is_none(fake: Make) -> None:
    """Seven of eight that were read are no word on how many there are."""
    rig = fake("plain")
    racked(rig)
    serve(rig, {f"{BOARD}/Processors/GPU_3": ["not a resource"], f"{SYSTEM}/Processors/2": ["not a resource"]})
    found = look(rig)
    assert found["gpu_count"] is None and found["cpu_threads"] is None and found["drive_count"] == 4
    assert len(found["unread"]) == 2


def test_what_is_not_told_is_null_and_no_zero(fake: Make) -> None:
    rig = fake("plain")
    with_cards(rig, MemorySummary={"TotalSystemMemoryGiB": 0}, ProcessorSummary={"Count": None})
    found = look(rig)
    assert all(found[key] is None for key in ("cpu_sockets", "memory_gib", "gpu_count", "drive_count", "cpu_model"))


def test_firmware_that_is_asked_for_by_its_id(fake: Make) -> None:
    rig = fake("plain")
    racked(rig)
    names = [f"/redfish/v1/UpdateService/FirmwareInventory/{name}" for name in ("HGX_FW_GPU_1", "HGX_FW_GPU_2")]
    root = {**rig.bmc.vendor.get("root", {})}
    root.update({"UpdateService": ref("/redfish/v1/UpdateService"), "Systems": ref("/redfish/v1/Systems")})
    serve(
        rig,
        {
            "/redfish/v1/": root,
            "/redfish/v1/UpdateService": {"FirmwareInventory": ref("/redfish/v1/UpdateService/FirmwareInventory")},
            "/redfish/v1/UpdateService/FirmwareInventory": members(*names),
            names[0]: {"Version": "97.00.6C.00.03"},
            names[1]: ["not asked for"],
        },
    )
    found = look(rig, firmware=["hgx_fw_gpu_1", "bios"])
    assert found["firmware"]["hgx_fw_gpu_1"] == "97.00.6C.00.03" and found["unread"] == []


# -- the verdict -------------------------------------------------------------------------------------------------------


def told(value: Any) -> dict[str, Any]:
    return {"value": value, "source": "the offer", "date": "2026-11-20", "conditions": "as ordered"}


@pytest.fixture
def verify(fake: Make, tmp_path: Path) -> Any:
    rig = fake("plain")
    racked(rig)

    def task(*, profile: dict[str, Any] | None = None, check_mode: bool = False, host: Any = (), **args: Any) -> Any:
        variables = {f"gpufleet_{name}": value for name, value in rig.params.items()}
        variables.update({"gpufleet_serial": "ABC0001", **dict(host)})
        if profile is not None:
            gpu = {"count": told(GPUS), "device_ids": told(["2330"])}
            whole = {"schema": 1, "sku": "h100-8", "title": "eight", "gpu": gpu, **profile}
            (tmp_path / "h100-8.yaml").write_text(json.dumps(whole))
            args.update(sku="h100-8", profile_path=[str(tmp_path)])
        door = Door(
            tmp_path,
            hardware_verify.ActionModule.verb,
            base=hardware_verify.ActionModule,
            name="hardware_verify",
            own_spec=hardware_verify.SPEC,
            args=args,
            check_mode=check_mode,
            **variables,
        )
        result = door.run()
        result["ledger"] = door.events()
        return result

    task.rig = rig  # type: ignore[attr-defined]
    return task


def test_a_machine_as_it_was_ordered_passes(verify: Any) -> None:
    listed = {"csv_gpu_count": 8, "csv_cpu_count": 2, "csv_memory_gib": 2016, "csv_cpu_model": "Xeon 8480CL"}
    result = verify(profile={"hardware": {"drive_count": told(4)}}, host=listed)
    assert not result.get("failed") and result["verdict"] == "pass", result
    ids = {row["id"] for row in result["checks"]}
    assert ids == {"machine", "gpu_count", "gpu_devices", "cpu_sockets", "memory_gib", "cpu_model", "drive_count"}
    kinds = [(kind, name) for kind, name, _data in result["ledger"]]
    assert ("verdict", "hardware_verify") in kinds
    assert not [kind for kind, _name, _data in verify(host=listed, check_mode=True)["ledger"][len(kinds) :]]


@pytest.mark.parametrize(
    ("expected", "id", "remedy"),
    [
        ({"gpu_count": 7}, "hardware:gpu_count", "reseat"),
        ({"cpu_sockets": 4}, "hardware:cpu_sockets", "reseat"),
        ({"memory_gib": 2112}, "hardware:memory_gib", "reseat"),
        ({"cpu_model": "Xeon Platinum 8592+"}, "hardware:cpu_model", "field_diag"),
        ({"drive_count": 5}, "hardware:drive_count", "reseat"),
    ],
)
def test_what_is_other_than_ordered_is_a_verdict_on_the_node(verify: Any, expected: Any, id: str, remedy: str) -> None:
    result = verify(expected=expected)
    assert result["failed"] and result["verdict"] == "fail" and result["remedy"] == remedy
    assert [row["id"] for row in result["findings"]] == [id] and "error" not in result


def test_gpus_of_another_model_fail(verify: Any) -> None:
    place = gpu(5)["Links"]["PCIeFunctions"][0]["@odata.id"]
    serve(verify.rig, {place: {"DeviceId": "0x2322"}})
    result = verify(profile={})
    assert result["verdict"] == "fail" and result["remedy"] == "field_diag" and "2322 2330" in result["msg"]


def test_what_nobody_tells_keeps_a_machine_out_only_where_the_profile_demands_it(verify: Any) -> None:
    with_cards(verify.rig, MemorySummary={}, Storage={})
    assert verify(expected={"memory_gib": 2048, "drive_count": 4})["verdict"] == "pass"
    demanded = verify(profile={"hardware": {"memory_gib": told(2048)}})
    assert demanded["failed"] and demanded["verdict"] == "inconclusive" and "memory_gib" in demanded["msg"]
    assert not verify(profile={"hardware": {"memory_gib": told(2048)}}, fail_on="fail").get("failed")
    firmware = verify(profile={"firmware": {"bios": told("1.1.3"), "HGX_FW_GPU_1": told("97.00")}})
    assert firmware["verdict"] == "inconclusive" and "HGX_FW_GPU_1" in firmware["msg"]


def test_firmware_of_another_version_is_to_be_set(verify: Any) -> None:
    result = verify(profile={"firmware": {"bios": told("1.2.0")}})
    assert result["verdict"] == "fail" and result["remedy"] == "remediate_config"


def test_a_bmc_of_another_machine_is_no_verdict_on_this_one(verify: Any) -> None:
    result = verify(expected={"gpu_count": 4}, host={"gpufleet_serial": "ZZZ0009"})
    assert result["failed"] and result["error"]["kind"] == "wrong_machine" and "verdict" not in result


def test_a_list_and_a_profile_that_differ_are_the_sites_mistake(verify: Any) -> None:
    result = verify(profile={}, host={"csv_gpu_count": 4})
    assert result["failed"] and result["error"]["kind"] == "config" and "gpu_count" in result["msg"]
    assert verify(expected={"gpus": 8})["error"]["kind"] == "config"


def test_what_a_jump_host_was_told_is_judged_in_place_of_a_look(verify: Any) -> None:
    seen = info({**verify.rig.params, "serial": "ABC0001", "timeout": 5.0, "hardware": True}, Ctx()).data
    seen["hardware"]["gpu_count"] = 7
    assert verify(expected={"gpu_count": 8}, bmc=seen)["verdict"] == "fail"
    assert verify(bmc={"hardware": {}})["error"]["kind"] == "config"


@pytest.mark.parametrize(
    ("gib", "verdict"), [(2048, "pass"), (2016, "pass"), (1953.125, "pass"), (1984, "fail"), (1920, "fail")]
)
def test_memory_of_one_module_less_is_less_and_decimal_units_are_not(verify: Any, gib: float, verdict: str) -> None:
    with_cards(verify.rig, MemorySummary={"TotalSystemMemoryGiB": gib})
    assert verify(expected={"memory_gib": 2048})["verdict"] == verdict


def test_parts_of_a_machine_that_nobody_knows_are_no_verdict_that_passes(verify: Any) -> None:
    with_cards(verify.rig, SerialNumber=None)
    nobody = {"gpufleet_system_uuid": None, "gpufleet_boot_mac": None}
    result = verify(expected={"gpu_count": 8}, host=nobody)
    assert result["failed"] and result["verdict"] == "inconclusive" and "in common" in result["msg"], result


def test_two_that_differ_are_no_verdict_where_one_of_them_is_right() -> None:
    """An inspection of before the repair; where none is right, it is the machine."""
    told = {"bmc": Hardware(gpu_count=8), "ironic's inspection": Hardware(gpu_count=7)}
    for wanted, verdict in ((8, "inconclusive"), (7, "inconclusive"), (6, "fail")):
        sheet = gate.judge({"gpu_count": gate.Wish(wanted, "the offer")}, told, agrees=dict.fromkeys(told, ["serial"]))
        assert sheet.verdict == verdict


@pytest.mark.parametrize(("agrees", "verdict"), [((), "inconclusive"), (("boot_mac",), "pass")])
def test_the_record_of_a_machine_that_nobody_knows_is_no_pass(agrees: Any, verdict: str) -> None:
    who = "maas's inspection"
    told = {who: Hardware(gpu_count=8)}
    sheet = gate.judge(gate.wishes({"gpu_count": 8}, None), told, agrees={gate.BMC: ["serial"], who: agrees})
    assert sheet.verdict == verdict and (agrees or who in sheet.findings[0].text)


def test_silence_answers_no_failure(verify: Any) -> None:
    """A BMC that told of seven GPUs, and now of none, has answered nothing about them."""
    expected = {"gpu_count": 9, "memory_gib": 2048, "nic_count": 64}
    seen = info({**verify.rig.params, "serial": "ABC0001", "timeout": 5.0, "hardware": True}, Ctx()).data
    seen["hardware"].update(gpu_count=7, nic_count=None)
    failed = verify(expected=expected, bmc=seen)
    seen["hardware"].update(gpu_count=None)
    silent = verify(expected=expected, bmc=seen)
    seen["hardware"].update(gpu_count=9)
    whole = verify(expected=expected, bmc=seen)
    assert [one["verdict"] for one in (failed, silent, whole)] == ["fail", "pass", "pass"]
    asked = [json.loads(data)["asked"] for kind, _name, data in whole["ledger"] if kind == "verdict"]
    assert [covers(one, asked[0]) for one in asked] == [True, False, True]
