# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be broken in the rack's machines, as the machines themselves show it; and what mends it all."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import machines_lab
from machines_lab import PASSWORD, Lab, artifact, wait

pytestmark = [
    pytest.mark.needs_root,
    pytest.mark.slow,
    pytest.mark.skipif(bool(machines_lab.missing()), reason=f"not installed: {', '.join(machines_lab.missing())}"),
]


@pytest.fixture(autouse=True)
def _mended(lab: Lab) -> None:
    for node in ("lab001", "lab002"):
        lab.fault(node, "none")


def test_faults_of_the_boot(lab: Lab) -> None:
    lab.netboot(artifact("1"))
    lab.fault("lab001", "ignore_netboot")
    lab.netboot(artifact("2"))
    assert '"version": "1"' in lab.say("lab001", "cat /etc/gpufleet/manifest.json")
    assert "BOOTIF" not in lab.say("lab001", "cat /proc/cmdline")
    lab.fault("lab001", "none")
    lab.fault("lab001", "boots_old_image")
    lab.netboot(artifact("2"))
    assert '"version": "1"' in lab.say("lab001", "cat /etc/gpufleet/manifest.json")
    assert "BOOTIF=" in lab.say("lab001", "cat /proc/cmdline")


def test_hardware_faults_outlive_a_reimage_and_are_told_at_each_boot(lab: Lab) -> None:
    lab.netboot(artifact("1"))
    assert "Xid" not in lab.say("lab001", "cat /dev/kmsg")
    lab.fault("lab001", "xid79", "gpu=3")
    assert ": 79, pid='<unknown>'" in lab.say("lab001", "tail -2 /dev/kmsg")
    assert lab.ssh("lab001", "nvidia-smi -L").returncode == 15
    assert lab.ssh("lab001", "dcgmi diag -r 1 -j -n gpu:8").returncode == 226
    lab.netboot(artifact("1"))
    assert "(PCI:0000:61:00): 79," in lab.say("lab001", "cat /dev/kmsg")
    assert len(lab.say("lab001", "nvidia-smi -L").splitlines()) == 7
    assert lab.say("lab001", "dcgmi discovery -l").startswith("7 GPUs found.")
    lab.fault("lab001", "none")
    assert len(lab.say("lab001", "nvidia-smi -L").splitlines()) == 8


def test_faults_of_the_diagnostic_tool(lab: Lab) -> None:
    lab.netboot(artifact("1"))
    wanted = {"dcgm_fail_entity": 205, "dcgm_all_skip": 0, "dcgm_exit0_failing": 0, "dcgm_noise": 0, "none": 0}
    wanted.update({"dcgm_missing": 127, "dcgm_hang": 124, "dcgm_killed": 137})
    for fault, status in wanted.items():
        lab.fault("lab001", "none")
        lab.fault("lab001", fault)
        assert lab.ssh("lab001", "timeout 2 dcgmi diag -r 2 -j; exit $?").returncode == status, fault


def test_the_bmc_may_lie_refuse_and_be_slow(lab: Lab) -> None:
    lab.off()
    lab.fault("lab001", "bmc_lies_power")
    assert lab.reset("On") == 204
    with pytest.raises(AssertionError):
        wait(lambda: lab.system()["PowerState"] == "On", timeout=1.0)
    lab.fault("lab001", "none")
    lab.fault("lab001", "bmc_401")
    assert lab.redfish("GET")[0] == 401
    lab.fault("lab001", "none")
    refused = len(lab.lines("lab001", "bmc_refused.jsonl"))
    assert lab.redfish("GET", password="wrong")[0] == 401
    assert len(lab.lines("lab001", "bmc_refused.jsonl")) == refused + 1
    lab.fault("lab001", "bmc_stock_override")
    assert lab.boot_from("Pxe") == 204
    assert lab.system()["Boot"]["BootSourceOverrideEnabled"] == "Continuous"
    assert lab.boot_from("None", "Disabled") == 204


def test_a_bmc_may_tell_another_machines_serial(lab: Lab) -> None:
    lab.fault("lab001", "bmc_other_serial", "serial=OTHER77")
    lab.fault("lab002", "bmc_other_serial", "serial=OTHER78")
    system = lab.system()
    chassis = lab.redfish("GET", system["Links"]["Chassis"][0]["@odata.id"])[1]
    assert (system["SerialNumber"], chassis["SerialNumber"]) == ("OTHER77", "OTHER77")
    fru = lab.ipmi("fru")
    assert "OTHER78" in fru and "GFLAB0002" not in fru
    lab.fault("lab001", "none")
    lab.fault("lab002", "none")
    assert lab.system()["SerialNumber"] == "GFLAB0001"
    assert "GFLAB0002" in lab.ipmi("fru")


def test_another_board_is_told_by_bmc_and_system_alike(lab: Lab) -> None:
    other = "5ac00000-0000-4000-8000-0000000000ff"
    lab.fault("lab001", "board_swapped", "serial=OTHER79", f"uuid={other}")
    lab.fault("lab002", "board_swapped", "serial=OTHER80", f"uuid={other}")
    system = lab.system()
    assert (system["SerialNumber"], system["UUID"]) == ("OTHER79", other)
    assert "OTHER80" in lab.ipmi("fru") and other in lab.ipmi("mc", "guid").lower()
    lab.netboot(artifact("1"))
    assert lab.say("lab001", "cat /sys/class/dmi/id/product_serial /sys/class/dmi/id/product_uuid").split() == [
        "OTHER79",
        other,
    ]
    lab.fault("lab001", "none")
    assert lab.system()["SerialNumber"] == "GFLAB0001"


def test_a_bmc_may_repeat_the_login_in_an_error(lab: Lab) -> None:
    lab.fault("lab001", "bmc_echoes")
    before = len(lab.lines("lab001", "bmc_writes.jsonl"))
    for status, answer in (lab.redfish("GET"), lab.redfish("POST", "Actions/ComputerSystem.Reset", {})):
        assert status == 400 and PASSWORD in answer["error"]["message"], answer
    assert len(lab.lines("lab001", "bmc_writes.jsonl")) == before
    assert lab.redfish("GET", "/redfish/v1/")[0] == 200


def test_a_machine_may_boot_over_another_port(lab: Lab) -> None:
    lab.fault("lab001", "boots_other_port")
    lab.netboot(artifact("1"))
    line = lab.say("lab001", "cat /proc/cmdline")
    assert "BOOTIF=01-" in line and "BOOTIF=01-52-54-00-79-00-01" not in line


@pytest.mark.parametrize("seconds", [3600.0, -90.5])
def test_a_clock_may_be_off_for_every_program_of_a_session(lab: Lab, seconds: float) -> None:
    lab.netboot(artifact("1"))
    clocks = "date +%s.%N; /usr/bin/python3 -c 'import time; print(time.time())'; cut -d' ' -f1 /proc/uptime"

    def offsets() -> list[float]:
        first, second, uptime = (float(line) for line in lab.say("lab001", clocks).split())
        assert uptime < 600, "how long the machine runs is not the wall clock's business"
        return [first - time.time(), second - time.time()]

    assert max(abs(offset) for offset in offsets()) < 30
    lab.fault("lab001", "clock_off", f"seconds={seconds}")
    for offset in offsets():
        assert seconds - 30 < offset < seconds + 30
    lab.fault("lab001", "none")
    assert max(abs(offset) for offset in offsets()) < 30


def test_emptied_machines_are_as_delivered(lab: Lab) -> None:
    lab.netboot(artifact("1"))
    lab.fault("lab001", "xid79")
    lab.fault("lab002", "bmc_other_serial", "serial=OTHER78")
    assert lab.redfish("GET", password="wrong")[0] == 401
    assert lab.boot_from("Pxe", "Continuous") == 204
    lab.control("empty")
    state = {node["node"]: node for node in lab.control("status")["nodes"]}
    for name in ("lab001", "lab002"):
        told = {key: state[name][key] for key in ("power", "running", "bmc", "faults", "boot")}
        assert told == {"power": "off", "running": False, "bmc": True, "faults": [], "boot": {}}
        for log in ("boots.jsonl", "bmc_writes.jsonl", "bmc_refused.jsonl"):
            assert lab.lines(name, log) == []
    assert lab.system()["Boot"]["BootSourceOverrideEnabled"] == "Disabled"
    assert "GFLAB0002" in lab.ipmi("fru")
    assert lab.reset("On") == 204
    wait(lambda: lab.console("lab001").rstrip().endswith("no bootable device found"))
    lab.off()
