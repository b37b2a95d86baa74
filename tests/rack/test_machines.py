# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rack's machines: driven by their BMCs alone, booting what the network gives them, hiding this computer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
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


def test_a_machine_that_was_never_imaged_is_on_and_answers_nothing(lab: Lab) -> None:
    assert lab.reset("On") == 204
    wait(lambda: lab.system()["PowerState"] == "On")
    wait(lambda: "no bootable device" in lab.console("lab001"))
    assert not lab.answers("lab001")
    assert lab.reset("GracefulShutdown") == 204
    with pytest.raises(AssertionError):
        wait(lambda: lab.system()["PowerState"] == "Off", timeout=1.0)
    lab.off()


def test_a_network_boot_runs_the_fetched_image_and_uses_the_override_up(lab: Lab) -> None:
    lab.off()
    before = len(lab.lines("lab001", "bmc_writes.jsonl"))
    lab.offer("lab001", artifact("1"))
    assert lab.boot_from("Pxe") == 204
    boot = lab.system()["Boot"]
    assert (boot["BootSourceOverrideEnabled"], boot["BootSourceOverrideTarget"]) == ("Once", "Pxe")
    assert lab.reset("On") == 204
    assert '"version": "1"' in lab.say("lab001", "cat /etc/gpufleet/manifest.json")
    assert "BOOTIF=01-52-54-00-79-00-01" in lab.say("lab001", "cat /proc/cmdline")
    boot = lab.system()["Boot"]
    assert (boot["BootSourceOverrideEnabled"], boot["BootSourceOverrideTarget"]) == ("Disabled", "None")
    written = [(entry["method"], entry["status"]) for entry in lab.lines("lab001", "bmc_writes.jsonl")[before:]]
    assert written == [("PATCH", 204), ("POST", 204)]


def test_a_disk_boot_keeps_the_overlay_and_a_network_boot_empties_it(lab: Lab) -> None:
    lab.netboot(artifact("1"))
    lab.say("lab001", "touch /root/mine /usr/bin/own-tool")
    lab.off()
    assert lab.reset("On") == 204
    assert lab.say("lab001", "ls /root/mine /usr/bin/own-tool").split() == ["/root/mine", "/usr/bin/own-tool"]
    assert "BOOTIF" not in lab.say("lab001", "cat /proc/cmdline")
    lab.netboot(artifact("2"))
    assert lab.say("lab001", "ls -d /root/mine /usr/bin/own-tool 2>/dev/null; true") == ""
    assert '"version": "2"' in lab.say("lab001", "cat /etc/gpufleet/manifest.json")


def test_identity_log_and_clock_are_the_nodes_own(lab: Lab) -> None:
    lab.netboot(artifact("1"))
    told = lab.say(
        "lab001",
        "hostname; cat /proc/sys/kernel/random/boot_id /sys/class/dmi/id/product_serial "
        "/sys/class/dmi/id/product_uuid /sys/class/net/eth0/address; cut -d. -f1 /proc/uptime; "
        "ls /sys/class/net; head -1 /dev/kmsg; /usr/bin/python3 -c 'import sys; print(sys.version_info >= (3, 9))'",
    ).split("\n")
    assert told[0] == "lab001"
    assert told[2:5] == ["GFLAB0001", "5ac00000-0000-4000-8079-000000000001", "52:54:00:79:00:01"]
    assert int(told[5]) < 20
    assert told[6:8] == ["eth0", "lo"]
    assert told[8].startswith("6,0,") and "Linux version" in told[8]
    assert told[9] == "True"
    assert told[1] != Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    lab.say("lab001", "nohup reboot >/dev/null 2>&1 & sleep 0")
    wait(lambda: lab.ssh("lab001", "cat /proc/sys/kernel/random/boot_id").stdout.strip() not in ("", told[1]))
    assert lab.system()["PowerState"] == "On"


def test_cutting_the_power_kills_everything_on_the_node(lab: Lab) -> None:
    lab.netboot(artifact("1"))
    lab.say("lab001", "nohup sleep 4242 >/dev/null 2>&1 & sleep 0")
    lab.off()
    assert not lab.answers("lab001")
    # The kernel ends what is left a moment after the node's first process.
    wait(lambda: not alive("gfrack-lab001"))


def alive(namespace: str) -> list[str]:
    """The processes in it."""
    done = subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_without_a_boot_entry_or_with_a_broken_one_it_falls_through_to_the_disk(lab: Lab) -> None:
    lab.netboot(artifact("1"))
    for spoil in (
        lambda: lab.entry("lab001").unlink(),
        lambda: lab.offer("lab001", b"no image at all"),
        lambda: lab.offer("lab001", artifact("1")[:-20]),
        lambda: lab.entry("lab001").write_text("#!ipxe\nkernel http://10.79.0.1:8080/gone || goto nowhere\nboot\n"),
    ):
        lab.off()
        spoil()
        assert lab.boot_from("Pxe") == 204
        assert lab.reset("On") == 204
        assert lab.say("lab001", "cat /proc/cmdline") == "BOOT_IMAGE=/boot/vmlinuz root=/dev/vda1 ro quiet"


def test_a_boot_entry_left_in_deploy_mode_does_not_boot_the_image(lab: Lab) -> None:
    lab.netboot(artifact("1"))
    lab.off()
    lab.offer("lab001", artifact("2"), label="deploy")
    assert lab.boot_from("Pxe") == 204
    assert lab.reset("On") == 204
    assert '"version": "1"' in lab.say("lab001", "cat /etc/gpufleet/manifest.json")


def test_http_boot_takes_the_uri_of_the_override(lab: Lab) -> None:
    lab.off()
    lab.entry("lab001").unlink(missing_ok=True)
    (lab.http_root / "direct.img").write_bytes(artifact("9"))
    boot = {"BootSourceOverrideTarget": "UefiHttp", "BootSourceOverrideEnabled": "Once"}
    boot["HttpBootUri"] = f"{lab.rack.http}/direct.img"
    assert lab.redfish("PATCH", body={"Boot": boot})[0] == 204
    assert lab.system()["Boot"]["HttpBootUri"] == boot["HttpBootUri"]
    assert lab.reset("On") == 204
    assert '"version": "9"' in lab.say("lab001", "cat /etc/gpufleet/manifest.json")
    assert "BOOTIF=" in lab.say("lab001", "cat /proc/cmdline")


def test_graceful_power_changes_go_through_the_system(lab: Lab) -> None:
    lab.netboot(artifact("1"))
    boots = lab.boots("lab001")
    assert lab.reset("GracefulRestart") == 204
    wait(lambda: lab.boots("lab001") == boots + 1)
    wait(lambda: lab.answers("lab001"))
    lab.fault("lab001", "ignore_shutdown")
    assert lab.reset("ForceRestart") == 204
    wait(lambda: lab.boots("lab001") == boots + 2 and lab.answers("lab001"))
    assert lab.reset("GracefulShutdown") == 204
    with pytest.raises(AssertionError):
        wait(lambda: lab.system()["PowerState"] == "Off", timeout=1.0)
    lab.fault("lab001", "none")
    assert lab.reset("ForceRestart") == 204
    wait(lambda: lab.boots("lab001") == boots + 3 and lab.answers("lab001"))
    assert lab.reset("GracefulShutdown") == 204
    wait(lambda: lab.system()["PowerState"] == "Off")
    assert lab.reset("ForceRestart") == 409


def test_the_bmc_refuses_what_the_schema_does_not_know(lab: Lab) -> None:
    assert lab.redfish("PATCH", body={"Boot": {"BootSourceOverrideTarget": "Floppy"}})[0] == 400
    assert lab.redfish("PATCH", body={"Boot": {"BootSourceOverrideEnabled": "Twice"}})[0] == 400
    assert lab.redfish("PATCH", body=["Boot"])[0] == 400
    assert lab.reset("Explode") >= 400


def test_system_and_chassis_tell_the_same_serial(lab: Lab) -> None:
    system = lab.system()
    assert system["SerialNumber"] == "GFLAB0001"
    status, chassis = lab.redfish("GET", system["Links"]["Chassis"][0]["@odata.id"])
    assert (status, chassis["SerialNumber"], chassis["Model"]) == (200, "GFLAB0001", system["Model"])


_INSPECT = """
import sys, types, sushy
from ironic.drivers.modules.redfish import inspect
address, uuid, password, ca = sys.argv[1:]
auth = sushy.auth.BasicAuth("admin", password)
system = sushy.Sushy(address, auth=auth, verify=ca).get_system(f"/redfish/v1/Systems/{uuid}")
task = types.SimpleNamespace(node=types.SimpleNamespace(uuid=uuid))
machine = inspect.RedfishInspect.__new__(inspect.RedfishInspect)
vendor = machine._get_system_vendor_info(task, system)
print(system.memory_summary.size_gib, machine._detect_local_gb(task, system) > 100,
      machine._get_processor_info(task, system)["architecture"], vendor["serial_number"], vendor["system_uuid"],
      len(machine._get_pcie_devices(system)), machine._get_interface_info(task, system)[0]["mac_address"],
      system.boot.mode.value)
"""


def test_ironics_own_inspection_finds_what_it_needs(lab: Lab) -> None:
    node = lab.rack.node("lab001")
    words = [str(machines_lab.RACK_PYTHON), "-c", _INSPECT, f"https://{node.bmc.address}:{node.bmc.port}"]
    words += [node.uuid, PASSWORD, str(lab.home / "tls/cert.pem")]
    environment = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}
    run = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert run.returncode == 0, run.stderr[-2000:]
    assert run.stdout.split() == ["2048", "True", "x86_64", node.serial, node.uuid, "8", node.mac, "UEFI"]


def test_the_ipmi_machine_is_driven_the_same_way(lab: Lab) -> None:
    before = len(lab.lines("lab002", "bmc_writes.jsonl"))
    lab.offer("lab002", artifact("5"))
    assert "is off" in lab.ipmi("power", "status")
    lab.ipmi("chassis", "bootdev", "pxe")
    lab.ipmi("power", "on")
    wait(lambda: lab.answers("lab002"))
    assert '"version": "5"' in lab.say("lab002", "cat /etc/gpufleet/manifest.json")
    assert "BOOTIF=01-52-54-00-79-00-02" in lab.say("lab002", "cat /proc/cmdline")
    assert "GFLAB0002" in lab.ipmi("fru")
    written = [entry["path"] for entry in lab.lines("lab002", "bmc_writes.jsonl")[before:]]
    assert written == ["chassis/boot", "chassis/power"]
    boots = lab.boots("lab002")
    lab.ipmi("power", "reset")
    wait(lambda: lab.boots("lab002") == boots + 1 and lab.answers("lab002"))
    assert "BOOTIF" not in lab.say("lab002", "cat /proc/cmdline")
    lab.ipmi("power", "off")
    wait(lambda: "is off" in lab.ipmi("power", "status"))
    assert not lab.answers("lab002")


def test_no_secret_is_readable_from_inside(lab: Lab) -> None:
    lab.netboot(artifact("1"))
    key = (lab.home / "keys/id").read_text().splitlines()[3]  # the lines before are the same in every key
    tls = (lab.home / "tls/key.pem").read_text().splitlines()[1]
    grep = f"grep -rlsF -e {PASSWORD} -e {key} -e {tls}"
    places = "/etc /var /home /root /srv /opt /mnt /run /tmp /dev/shm /usr/local /usr/lib/nvidia-tools"
    # grep looks at its own command line as well; every other process' must be clean.
    found = lab.ssh("lab001", f"{grep} {places}; cat /proc/[0-9]*/environ | grep -aF {PASSWORD}; true").stdout
    assert found == ""
    for path in (lab.home / "secrets", lab.home / "rack.json", machines_lab.CHECKOUT, Path("/root/.pyenv")):
        assert lab.ssh("lab001", f"ls -d {path}").returncode != 0, path
    assert lab.say("lab001", "ls -A /home; cat /etc/shadow") == "root:*:19000:0:99999:7:::\nsshd:*:19000:0:99999:7:::"
    mounts = lab.say("lab001", "umount /usr/lib/nvidia-tools 2>/dev/null; cut -d' ' -f1,2 /proc/mounts")
    assert not [line for line in mounts.splitlines() if str(lab.home) in line.split()[1]]
    others = lab.say("lab001", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    assert "bmc.py" not in others and "ipmi_sim" not in others


def test_up_again_changes_nothing_and_a_lost_part_comes_back(lab: Lab) -> None:
    import rackconf

    assert lab.control("up")["changed"] is False
    node = lab.rack.node("lab001")
    record = rackconf.read_json(node.home / "bmc.json", {})
    os.kill(record["pid"], signal.SIGKILL)
    assert lab.control("up")["changed"] is True
    assert lab.system()["UUID"] == node.uuid
    assert lab.control("status")["up"] is True


def test_down_leaves_nothing_behind_though_parts_were_killed(lab: Lab) -> None:
    import rackconf

    lab.netboot(artifact("1"))
    first = lab.rack.node("lab001")
    run = rackconf.read_json(first.home / "run.json", {})
    os.kill(run["supervisor"]["pid"], signal.SIGKILL)
    (first.home / "bmc.json").unlink()  # a starter killed before it noted what it had started
    assert lab.control("down")["changed"] is True
    assert lab.processes() == []
    assert str(lab.home) not in Path("/proc/mounts").read_text()
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
    assert "gfracklab0" not in links and "gfr-lab" not in links
    assert not [name for name in os.listdir("/run/netns") if name.startswith("gfrack-lab")]
    assert lab.control("down")["changed"] is False
    lab.stop_serving()
    assert lab.control("up")["changed"] is True
    lab.serve()
    assert not lab.answers("lab001")
