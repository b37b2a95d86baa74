# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""storage_gate measures with the real fio, on the drive that is meant and on no other, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.storage.drives import beneath
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.storage.gate import storage_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made
from ansible_collections.gpufleet.baremetal.tests.unit.gate import nvme

SPEEDS = [
    nvme.speed(nvme.READ, "read", 0.0001, seconds=0.3),
    nvme.speed(nvme.WRITE, "write", 0.0001, seconds=0.3),
    nvme.speed(nvme.RANDOM, "randread", 1, seconds=0.3, block_kib=4, jobs=2),
]


@pytest.fixture
def machine(tmp_path: Path) -> dict[str, Any]:
    """A machine whose data drive is below this folder, with the real fio; its kernel counts all that it could move."""
    if shutil.which("fio") is None:
        pytest.skip("fio is not installed")
    params = nvme.params(tmp_path, speeds=SPEEDS)
    code = f"{nvme.COUNT}\ncount(1 << 40, [{str(nvme.namespace(tmp_path, nvme.DATA) / 'stat')!r}])\n"
    (tmp_path / "count.py").write_text(code, encoding="utf-8")
    real = made.program(tmp_path / "real", f'{sys.executable} -ISB {tmp_path}/count.py\nexec fio "$@"')
    return {**params, "fio": real, "timeout": 60}


def found(params: dict[str, Any], **options: Any) -> dict[str, Any]:
    return dict(storage_gate({**params, **options}, Context()).data)


def texts(result: dict[str, Any]) -> str:
    return "; ".join(finding["text"] for finding in result["findings"])


def test_the_real_fio_measures_and_leaves_nothing(tmp_path: Path, machine: dict[str, Any]) -> None:
    result = found(machine)
    assert result["verdict"] == "pass", result["msg"]
    speeds = {row["id"]: row["measured"] for row in result["checks"] if row["id"].startswith("speed.")}
    assert set(speeds) == {f"speed.{row['name']}" for row in SPEEDS} and min(speeds.values()) > 0
    assert list((tmp_path / "scratch").iterdir()) == []


def test_the_real_fio_below_the_floor_fails(machine: dict[str, Any]) -> None:
    result = found(machine, profile=nvme.profile({**SPEEDS[0], "minimum": 1e6}))
    assert (result["verdict"], result["remedy"]) == ("fail", "field_diag") and "wanted 1e+06" in result["msg"]


def test_what_did_not_go_over_the_drive_is_no_measurement(tmp_path: Path, machine: dict[str, Any]) -> None:
    """By the real kernel's counters, where this folder lies on a device that has some."""
    assert "the kernel saw 0 go over the drive" in texts(found(machine, fio="fio"))
    number = tmp_path.stat().st_dev
    real = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}/stat")
    if not real.exists():
        pytest.skip("does not apply: this folder lies on no device that the kernel counts")
    nvme.linked(nvme.namespace(tmp_path, nvme.DATA) / "stat", real)
    result = found(machine, fio="fio")
    assert result["verdict"] == "pass", result["msg"]


def test_a_gate_that_is_killed_leaves_neither_file_nor_fio(tmp_path: Path, machine: dict[str, Any]) -> None:
    asked = json.dumps({**machine, "profile": nvme.profile({**SPEEDS[0], "seconds": 60})})
    code = (
        "import json, sys\n"
        f"from {storage_gate.__module__} import storage_gate\n"
        f"from {Context.__module__} import Context\n"
        "storage_gate(json.loads(sys.argv[1]), Context())\n"
    )
    gate = subprocess.Popen([sys.executable, "-c", code, asked])
    place = f"/proc/{gate.pid}/fd/"
    try:
        until(lambda: any("--time_based" in line for line in running(place)))
    finally:
        os.kill(gate.pid, signal.SIGKILL)
        gate.wait()
    until(lambda: not running(place))
    assert list((tmp_path / "scratch").iterdir()) == []


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def running(place: str) -> list[str]:
    """The command lines of each fio that was asked about a file there."""
    lines = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(entry.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
        except OSError:
            continue
    return [line for line in lines if line.startswith("fio ") and place in line]


# -- which drive it is -------------------------------------------------------------------------------------------------


def test_a_mount_point_where_nothing_is_mounted_is_on_another_drive(tmp_path: Path) -> None:
    result = found(nvme.params(tmp_path, on="nvme0"))
    assert (result["verdict"], result["remedy"]) == ("inconclusive", "remediate_config")
    assert f"no directory is on nvme1 ({tmp_path}/scratch is on nvme0)" in texts(result)
    assert not (tmp_path / "calls").exists()


@pytest.mark.parametrize("place", ["nowhere", "file", "in memory", "no device", "no directory for files"])
def test_what_is_no_place_is_named(tmp_path: Path, place: str) -> None:
    params = nvme.params(tmp_path, on="" if place == "no device" else nvme.DATA)
    (tmp_path / "file").write_text("not a drive", encoding="utf-8")
    path, word = {
        "nowhere": (str(tmp_path / "none"), "No such file"),
        "file": (str(tmp_path / "file"), "neither a directory nor a block device"),
        "in memory": ("/dev/shm", "which is no block device of this machine"),
        "no device": (str(tmp_path / "scratch"), "which is no block device of this machine"),
        "no directory for files": ("/proc", "is no place to measure at"),
    }[place]
    result = found(params, places=[path])
    assert (result["verdict"], result["remedy"]) == ("inconclusive", "remediate_config")
    assert f"{path} is no place" in texts(result) and word in texts(result)
    assert not (tmp_path / "calls").exists()


def test_without_places_nothing_is_measured_and_it_says_where_to_name_them(tmp_path: Path) -> None:
    result = found(nvme.params(tmp_path), places=None)
    assert result["verdict"] == "inconclusive"
    assert "no directory is on nvme1 (no place is known): name one there in places" in texts(result)


def test_a_partition_and_what_lies_over_a_drive_are_on_it(tmp_path: Path) -> None:
    top = nvme.sysfs(tmp_path, on="")
    number = tmp_path.stat().st_dev
    block = nvme.namespace(tmp_path, nvme.DATA)
    part = block / "nvme1n1p2"
    part.mkdir()
    (part / "partition").write_text("2\n", encoding="ascii")
    volume = top / "devices" / "virtual" / "block" / "dm-0"
    nvme.linked(volume / "slaves" / "nvme1n1p2", part)
    for device in (block, part, volume):
        nvme.below(tmp_path, device)
        assert beneath(str(top), number) == {"nvme1"}


def test_a_drive_with_several_paths_is_known_by_its_subsystem(tmp_path: Path) -> None:
    top = nvme.sysfs(tmp_path, on="")
    number = tmp_path.stat().st_dev
    subsystem = top / "devices" / "virtual" / "nvme-subsystem" / "nvme-subsys1"
    (subsystem / "nvme1n1").mkdir(parents=True)
    nvme.below(tmp_path, subsystem / "nvme1n1")
    assert beneath(str(top), number) == {"nvme-subsys1"}
    nvme.linked(subsystem / "nvme1", nvme.namespace(tmp_path, nvme.DATA).parent)
    assert beneath(str(top), number) == {"nvme1"}


def test_devices_in_a_circle_have_an_end(tmp_path: Path) -> None:
    top = nvme.sysfs(tmp_path, on="")
    circle = top / "devices" / "virtual" / "block" / "md9"
    nvme.linked(circle / "slaves" / "md9", circle)
    nvme.below(tmp_path, circle)
    assert beneath(str(top), tmp_path.stat().st_dev) == {"md9"}


def array(folder: Path, *drives: str) -> None:
    place = folder / "sys" / "devices" / "virtual" / "block" / "md0"
    for drive in drives:
        nvme.linked(place / "slaves" / f"{drive}n1", nvme.namespace(folder, drive))
    nvme.below(folder, place)


def test_an_array_is_measured_over_all_its_drives_and_never_as_one(tmp_path: Path) -> None:
    drives = {"nvme0": 960, "nvme1": 3840, "nvme2": 3840}
    kinds = [nvme.kind("boot", 1, 960), nvme.kind("data", 2, 3840)]
    params = nvme.params(tmp_path, drives=drives, on="")
    array(tmp_path, "nvme1", "nvme2")
    result = found(params, profile=nvme.profile(nvme.speed(over="all"), drives=kinds))
    assert result["verdict"] == "pass", result["msg"]
    assert [row["entity"] for row in result["checks"] if row["id"] == f"speed.{nvme.READ}"] == ["data"]
    each = found(params, profile=nvme.profile(nvme.speed(), drives=kinds))
    assert each["verdict"] == "inconclusive" and "is on nvme1, nvme2" in texts(each)
    array(tmp_path, "nvme0")
    more = found(params, profile=nvme.profile(nvme.speed(over="all"), drives=kinds))
    assert more["verdict"] == "inconclusive" and "no directory is on nvme1, nvme2" in texts(more)


# -- how much is written, and where ------------------------------------------------------------------------------------


def test_a_drive_is_never_filled(tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free // 2**20
    result = found(nvme.params(tmp_path, speeds=[nvme.speed(size_mib=free // 2 + 1024)]))
    assert (result["verdict"], result["remedy"]) == ("inconclusive", "remediate_config")
    assert "no more than half of them are taken" in texts(result) and not (tmp_path / "calls").exists()


@pytest.fixture
def device(tmp_path: Path) -> Iterator[str]:
    """A block device with something on it."""
    image = tmp_path / "image"
    image.write_bytes(b"gpufleet" * (4 << 20))
    made_it = subprocess.run(["losetup", "--find", "--show", image], capture_output=True, text=True, check=False)
    if made_it.returncode:
        pytest.skip("does not apply: no device can be made here")
    path = made_it.stdout.strip()
    yield path
    subprocess.run(["losetup", "--detach", path], check=True)


def test_a_device_is_read_and_never_written(tmp_path: Path, machine: dict[str, Any], device: str) -> None:
    number = os.stat(device).st_rdev
    place = Path(machine["sysfs_path"]) / "dev" / "block" / f"{os.major(number)}:{os.minor(number)}"
    nvme.linked(place, nvme.namespace(tmp_path, nvme.DATA))
    (tmp_path / "link").symlink_to(device)
    before = (tmp_path / "image").read_bytes()
    reads = [{**row, "at": "device"} for row in (SPEEDS[0], SPEEDS[2])]
    for path in (device, str(tmp_path / "link")):
        result = found(machine, places=[path], profile=nvme.profile(*reads))
        assert result["verdict"] == "pass", result["msg"]
    [unit] = [row["unit"] for row in result["checks"] if row["id"] == f"speed.{nvme.READ}"]
    assert unit.endswith("KiB, depth 8, of a device")
    both = found(machine, places=[device, str(tmp_path / "scratch")], profile=nvme.profile(reads[0], *SPEEDS[1:]))
    assert both["verdict"] == "pass", both["msg"]
    assert (tmp_path / "image").read_bytes() == before


def test_a_speed_of_a_directory_is_not_measured_at_a_device_nor_the_other_way_round(
    machine: dict[str, Any], tmp_path: Path, device: str
) -> None:
    number = os.stat(device).st_rdev
    place = Path(machine["sysfs_path"]) / "dev" / "block" / f"{os.major(number)}:{os.minor(number)}"
    nvme.linked(place, nvme.namespace(tmp_path, nvme.DATA))
    for row in SPEEDS:
        other = found(machine, places=[device], profile=nvme.profile(row))
        assert other["verdict"] == "inconclusive" and "no directory is on nvme1" in texts(other)
    read = found(machine, profile=nvme.profile({**SPEEDS[0], "at": "device"}))
    assert read["verdict"] == "inconclusive" and "no device is on nvme1" in texts(read)
