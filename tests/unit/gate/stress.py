# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines with CPUs and memory of our own making: what the kernel shows of them, and who loads them."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made

ABOUT = {"source": "written for tests", "date": "2026-11-27", "conditions": "none at all"}
CPU, MEMORY = "cpu_all", "memory_fill"
THREADS, CONTROLLERS = 4, 2
#: A second in a profile of a site; here a tenth.
SECONDS = 0.1
VERSION = "0.15.06"
#: KiB that the machine has, and of them those that can be filled.
TOTAL, FREE = 64 << 20, 60 << 20
_CHECKS = " MCE:          0          0   Machine check exceptions"


def load(name: str = CPU, stressor: str = "cpu", **other: Any) -> dict[str, Any]:
    """A row of a profile; with a minimum for None there is no floor."""
    row: dict[str, Any] = {"name": name, "stressor": stressor, "seconds": SECONDS, **ABOUT}
    row.update({"memory_percent": 80} if stressor == "vm" else {"minimum": 900, "version": VERSION})
    return {key: value for key, value in {**row, **other}.items() if value is not None}


def profile(*loads: dict[str, Any], **machine: Any) -> dict[str, Any]:
    row: dict[str, Any] = {"cpu_threads": THREADS, "cpu_sockets": 2, "numa_nodes": 2, "memory_gib": 64}
    row = {**row, "memory_controllers": CONTROLLERS, "corrected_errors": 0, "machine_checks": 0, **ABOUT, **machine}
    section: dict[str, Any] = {"machine": {key: value for key, value in row.items() if value is not None}}
    return {**made.profile(), "cpu_memory": {**section, "loads": list(loads)} if loads else section}


def row(stressor: str = "cpu", **other: Any) -> dict[str, Any]:
    """What stress-ng 0.15 tells of one load that is well."""
    told: dict[str, Any] = {"bogo-ops": 100, "bogo-ops-per-second-usr-sys-time": "1010.000000"}
    told.update(
        {"bogo-ops-per-second-real-time": "1000.000000", "wall-clock-time": "0.100000", "user-time": "0.399000"}
    )
    told.update({"system-time": "0.001000", "cpu-usage-per-instance": "100.000000"})
    told["max-rss"] = 6560 if stressor == "cpu" else FREE * 80 // 100 // THREADS
    return {"stressor": stressor, **told, **other}


def metrics(*rows: Mapping[str, Any], version: str = VERSION) -> str:
    """The document of its option ``--yaml``."""
    lines = ["---", "system-info:", f"      stress-ng-version: {version}", "      run-by: root", "      cpus: 4", ""]
    lines.append("metrics:")
    for told in rows or [row()]:
        for key, value in told.items():
            lines += (
                [] if value is None else [f"    - {key}: {value}" if key == "stressor" else f"      {key}: {value}"]
            )
        lines.append("")
    return "\n".join([*lines, "...", ""])


def said(*messages: str) -> str:
    """What it tells people."""
    first = ("info:  setting to a 1 second run per stressor", "info:  dispatching hogs: 4 cpu")
    told = [message.split(":", 1) for message in (*first, *messages, "info:  successful run completed in 1.01s")]
    return "".join(f"stress-ng: {level}: [4711] {words.strip()}\n" for level, words in told)


# -- the machine -------------------------------------------------------------------------------------------------------


def machine(folder: Path, *, online: str = "0-3", present: str = "0-3", total: Any = TOTAL, nodes: str = "0-1") -> None:
    """What the kernel shows of a machine that is well."""
    cpus = folder / "sys" / "devices" / "system" / "cpu"
    write(cpus / "online", online)
    write(cpus / "present", present)
    for number in range(THREADS):
        write(cpus / f"cpu{number}" / "topology" / "physical_package_id", str(number // 2))
    write(folder / "sys" / "devices" / "system" / "node" / "online", nodes)
    for number in range(CONTROLLERS):
        errors(folder, number)
    (folder / "proc").mkdir(exist_ok=True)
    write(folder / "proc" / "meminfo", f"MemTotal:       {total} kB\nMemFree:  1 kB\nMemAvailable:   {FREE} kB")
    write(folder / "proc" / "interrupts", f"           CPU0       CPU1\n  0:   1   2  IO-APIC\n{_CHECKS}\n ERR:  0")
    write(folder / "proc" / "vmstat", "pgfault 12\noom_kill 0")
    ticks = "".join(f"cpu{number} 100 0 100 5000 0 0 0 0 0 0\n" for number in range(THREADS))
    write(folder / "proc" / "stat", f"cpu  400 0 400 20000 0 0 0 0 0 0\n{ticks}intr 1")


def controller(folder: Path, number: int) -> Path:
    return folder / "sys" / "devices" / "system" / "edac" / "mc" / f"mc{number}"


def errors(
    folder: Path, number: int, *, corrected: Any = 0, uncorrected: Any = 0, unlaid: Any = 0, loose: Any = 0
) -> None:
    """What a memory controller counts. unlaid, loose: uncorrected, corrected errors that it could lay to no module."""
    place = controller(folder, number)
    for name, value in (
        ("ce_count", corrected), ("ce_noinfo_count", loose), ("ue_count", uncorrected), ("ue_noinfo_count", unlaid),
        ("dimm0/dimm_ce_count", corrected), ("dimm0/dimm_ue_count", uncorrected),
        ("dimm0/dimm_label", f"CPU0_DIMM_{'ABCDEFGH'[number]}1"),
    ):  # fmt: skip
        write(place / name, str(value))


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n", encoding="utf-8")


# -- its tool ----------------------------------------------------------------------------------------------------------

#: Lets the kernel see each CPU work, then says what it was told to say.
_STRESS_NG = """
import json, re, sys, time
words = sys.argv[1:]
with open({folder!r} + "/calls", "a") as file:
    file.write(json.dumps(words) + "\\n")
stat = {folder!r} + "/proc/stat"
with open(stat) as file:
    text = file.read()
busy, idle, waits = {worked!r}
text = re.sub(r"(?m)^(cpu3) (\\d+) 0 100 (\\d+) (\\d+)",
    lambda at: f"{{at[1]}} {{int(at[2]) + busy}} 0 100 {{int(at[3]) + idle}} {{int(at[4]) + waits}}", text)
text = re.sub(r"(?m)^(cpu[0-2]) (\\d+)", lambda at: f"{{at[1]}} {{int(at[2]) + 1000}}", text)
with open(stat, "w") as file:
    file.write(text)
told = json.load(open({folder!r} + "/told.json"))[words[0][2:]]
time.sleep({seconds})
sys.stdout.write(told["stdout"])
sys.stderr.write(told["stderr"])
sys.exit(told["rc"])
"""


def params(
    folder: Path, output: Optional[str] = None, *, body: str = "", stderr: Optional[str] = None, rc: int = 0,
    worked: tuple[int, ...] = (990, 10), loads: Sequence[dict[str, Any]] = (), wanted: Optional[dict[str, Any]] = None,
    **kernel: Any,
) -> dict[str, Any]:  # fmt: skip
    """The options of a cpu_memory_gate over a machine whose stress-ng says this.

    worked: ticks in which the last CPU worked, idled, and waited for a drive, with each call of it. wanted: of the
    machine.
    """
    machine(folder, **kernel)
    told = {"stdout": metrics() if output is None else output, "stderr": said() if stderr is None else stderr, "rc": rc}
    filled = {"stdout": metrics(row("vm")), "stderr": said(), "rc": 0}
    (folder / "told.json").write_text(json.dumps({"cpu": told, "vm": filled}), encoding="utf-8")
    code = _STRESS_NG.format(folder=str(folder), worked=(*worked, 0, 0)[:3], seconds=SECONDS)
    (folder / "stress.py").write_text(code, encoding="utf-8")
    return {
        "stress_ng": made.program(folder / "stress-ng", f'{body}\nexec {sys.executable} -ISB {folder}/stress.py "$@"'),
        "profile": profile(*(loads or [load()]), **(wanted or {})),
        "timeout": 20,
        "sysfs_path": str(folder / "sys"),
        "proc_path": str(folder / "proc"),
    }
