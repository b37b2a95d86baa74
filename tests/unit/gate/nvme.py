# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines with NVMe drives of our own making: what the kernel shows of them, what they tell, and who measures them."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made

ABOUT = {"source": "written for tests", "date": "2026-11-27", "conditions": "none at all"}
READ, RANDOM, WRITE = "data_read", "data_random", "data_write"
#: By drive its size in GB.
DRIVES = {"nvme0": 960, "nvme1": 3840}
DATA = "nvme1"
#: A second in a profile of a site; here a tenth.
SECONDS = 0.1


def speed(name: str = READ, pattern: str = "read", minimum: float = 2.5, **other: Any) -> dict[str, Any]:
    row = {"name": name, "drives": "data", "over": "each", "pattern": pattern, "block_kib": 1024, "depth": 8}
    return {**row, "size_mib": 16, "seconds": SECONDS, "minimum": minimum, **ABOUT, **other}


def kind(name: str, count: int, size: float, **other: Any) -> dict[str, Any]:
    row = {"name": name, "count": count, "size_gb": size, "percentage_used": 80, "media_errors": 0}
    return {**row, **ABOUT, **other}


def profile(*speeds: dict[str, Any], drives: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    section = {"drives": list(drives) or [kind("boot", 1, 960), kind("data", 1, 3840)], "speeds": list(speeds)}
    return {**made.profile(), "storage": section if speeds else {"drives": section["drives"]}}


def smart(**other: Any) -> dict[str, Any]:
    """What ``nvme smart-log --output-format=json`` of nvme-cli 2.x tells of a drive that is well."""
    told = {"critical_warning": 0, "temperature": 310, "avail_spare": 100, "spare_thresh": 10, "percent_used": 3}
    return {**told, "data_units_read": 81234, "media_errors": 0, "num_err_log_entries": 0, **other}


def document(
    *, name: str = READ, pattern: str = "read", rate: float = 5e9, jobs: int = 1, block: int = 1024 * 1024,
    size: int = 16 * 1024 * 1024, seconds: float = SECONDS,
) -> dict[str, Any]:  # fmt: skip
    """What fio 3.33 prints of jobs that moved so many bytes a second."""
    count = round(rate * seconds / block) if seconds else size // block
    runtime = round(seconds * 1000) or max(1, round(size / rate * 1000))
    told = {"io_bytes": count * block, "bw_bytes": round(count * block * 1000 / runtime), "runtime": runtime}
    told = {**told, "iops": count * 1000 / runtime, "total_ios": count, "short_ios": 0, "drop_ios": 0}
    still = dict.fromkeys(told, 0)
    side = "write" if pattern == "write" else "read"
    options = {"name": name, "rw": pattern, "bs": str(block), "size": str(size), "direct": "1"}
    sides = {**dict.fromkeys(("read", "write", "trim"), still), side: told}
    job = {"jobname": name, "groupid": 0, "error": 0, "elapsed": 1, "job options": options, **sides}
    return {"fio version": "fio-3.33", "timestamp": 1795164163, "jobs": [job] * jobs}


# -- the machine -------------------------------------------------------------------------------------------------------


def sysfs(folder: Path, drives: Mapping[str, float] = DRIVES, *, on: str = DATA, **told: Mapping[str, str]) -> Path:
    """What the kernel shows. on: the drive below this very folder, if any. told: by drive what is other there."""
    top = folder / "sys"
    for name, size in drives.items():
        place = top / "devices" / "pci0000:00" / f"0000:0{name[4:]}:00.0" / "nvme" / name
        block = place / f"{name}n1"
        block.mkdir(parents=True, exist_ok=True)
        words = {"model": f"MAKER {size:g}", "serial": f"S4X{name[4:]}", "state": "live", "transport": "pcie"}
        for key, word in {**words, **told.get(name, {})}.items():
            (place / key).write_text(f"{word}\n", encoding="utf-8")
        (block / "size").write_text(f"{round(size * 1e9 / 512)}\n", encoding="ascii")
        (block / "stat").write_text(" 0" * 17 + "\n", encoding="ascii")
        linked(top / "class" / "nvme" / name, place)
    if on:
        below(folder, namespace(folder, on))
    return top


def namespace(folder: Path, drive: str) -> Path:
    return next((folder / "sys" / "devices").glob(f"pci*/*/nvme/{drive}/{drive}n1"))


def below(folder: Path, device: Path) -> None:
    """Let this very folder lie on that device."""
    number = folder.stat().st_dev
    linked(folder / "sys" / "dev" / "block" / f"{os.major(number)}:{os.minor(number)}", device)


def linked(place: Path, target: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.unlink(missing_ok=True)
    place.symlink_to(target)


# -- its tools ---------------------------------------------------------------------------------------------------------

#: Let the kernel count so many bytes over each of these drives, both ways.
COUNT = """
def count(moved, stats):
    for stat in stats:
        with open(stat) as file:
            fields = [int(field) for field in file.read().split()]
        fields[2] += moved // 512
        fields[6] += moved // 512
        with open(stat, "w") as file:
            file.write(" ".join(map(str, fields)))
"""
_FIO = """
import json, sys, time
asked = dict(word[2:].split("=", 1) for word in sys.argv[1:] if "=" in word)
with open({folder!r} + "/calls", "a") as file:
    file.write(asked["name"] + " " + asked["filename"] + "\\n")
told = json.load(open({folder!r} + "/fio.json")).get(asked["name"])
count({seen!r}, {stats!r})
time.sleep(int(asked.get("runtime", "0ms")[:-2]) / 1000)
print(told)
"""


def params(
    folder: Path, output: Optional[str] = None, *, body: str = "", told: Optional[Mapping[str, Any]] = None,
    seen: int = 1 << 40, speeds: Sequence[dict[str, Any]] = (), **kernel: Any,
) -> dict[str, Any]:  # fmt: skip
    """The options of a storage_gate over a machine whose fio prints this when it measures, and whose drives tell that.

    seen: bytes that the kernel counts with each call of it.
    """
    top = sysfs(folder, **kernel)
    (folder / "scratch").mkdir(exist_ok=True)
    fill = json.dumps(document(name="fill", pattern="write", seconds=0), indent=1)
    measured = json.dumps(document(), indent=1) if output is None else output
    (folder / "fio.json").write_text(json.dumps({"fill": fill, READ: measured}), encoding="utf-8")
    stats = [str(path) for path in sorted((top / "devices").glob("pci*/*/nvme/*/*/stat"))]
    code = COUNT + _FIO.format(folder=str(folder), seen=seen, stats=stats)
    (folder / "fio.py").write_text(code, encoding="utf-8")
    return {
        "nvme": nvme(folder, told or {}),
        "fio": made.program(folder / "fio", f'{body}\nexec {sys.executable} -ISB {folder}/fio.py "$@"'),
        "places": [str(folder / "scratch")],
        "profile": profile(*(speeds or [speed()])),
        "timeout": 20,
        "sysfs_path": str(top),
    }


def nvme(folder: Path, told: Mapping[str, Any], *, after: str = "") -> str:
    """An nvme-cli. told: by drive what it tells, where it is other than well. after: what it does at last."""
    for name in ("nvme0", "nvme1", "nvme2", "nvme3"):
        value = told.get(name, smart())
        text = value if isinstance(value, str) else json.dumps(value, indent=1)
        (folder / f"smart.{name}").write_text(text + "\n", encoding="utf-8")
    return made.program(folder / "nvme", f'cat {folder}/smart."${{2#/dev/}}"\n{after}')
