# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documents and logs of our own making, in the shapes that DCGM and the driver are known to print."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import names
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.claimed import question
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.discovery import Found
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.grid import required
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.tests import wanted_tests
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import wanted_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import (
    FAIL,
    NODE,
    PASS,
    Check,
    Sheet,
    Tool,
    as_verdict,
    digest,
    now_utc,
)
from suite import programs

CHECKOUT = Path(__file__).resolve().parents[3]
GATE_FILES = CHECKOUT / "roles" / "gate" / "files"
PROFILES = GATE_FILES / "profiles"
PROFILE_SCHEMA = GATE_FILES / "schemas" / "profile.schema.json"
VERDICT_SCHEMA = GATE_FILES / "schemas" / "verdict.schema.json"

LEVELS: dict[int, list[str]] = {1: ["software"], 2: ["software", "pcie", "memory"]}
DEPLOYMENT = [
    "Denylist",
    "NVML Library",
    "CUDA Main Library",
    "Permissions and OS Blocks",
    "Persistence Mode",
    "Environment Variables",
    "Page Retirement/Row Remap",
    "Graphics Processes",
    "Inforom",
]


#: A play of hosts each of which knows its folder ``dmi``: there the gates ask who the machine is.
PLAY: dict[str, Any] = {
    "hosts": "all",
    "gather_facts": False,
    "module_defaults": {f"gpufleet.baremetal.{name}": {"dmi_path": "{{ dmi }}"} for name in names.DRIVERS.values()},
}


def dmi(home: Path, serial: str, uuid: str = "") -> str:
    """A folder in which a machine says who it is."""
    folder = home / "dmi"
    folder.mkdir(exist_ok=True)
    for name, value in (("product_serial", serial), ("product_uuid", uuid)):
        (folder / name).write_text(f"{value}\n", encoding="utf-8")
    return str(folder)


def serial_of(name: str) -> str:
    """A host's, also where its name is one letter, which is no serial."""
    return f"serial-{name}"


def known_by(home: Path, serial: str) -> dict[str, str]:
    """What a host of :data:`PLAY` says of itself."""
    return {"home": str(home), "dmi": dmi(home, serial)}


def profile(count: int = 8) -> dict[str, Any]:
    """A profile of this test suite's own SKU."""
    about = {"source": "written for tests", "date": "2026-11-20", "conditions": "none at all"}
    tests = [("software", 1), ("memory", 2), ("pcie", 2), ("diagnostic", 3), ("nvbandwidth", 3)]
    return {
        "schema": 1,
        "sku": "test-sku",
        "title": "A machine of tests",
        "gpu": {"count": {"value": count, **about}, "device_ids": {"value": ["2330"], **about}},
        "dcgm": {"tests": [{"name": name, "level": level, **about} for name, level in tests]},
    }


_OWN = profile


#: What nvbandwidth of DCGM 4.5.0 says, with error 38, where a test before it still loads a GPU (DCGM#272).
BUSY = (
    "The memory copy utilization for the GPU: 7 is greater than 10%. "
    "This may affect the results of the nvbandwidth test."
)


def fault(text: str, error_id: int, severity: int = 2, category: int = 10) -> dict[str, Any]:
    return {"warning": text, "error_id": error_id, "error_category": category, "error_severity": severity}


def dcgm4(tests: Optional[list[str]] = None, gpus: int = 8) -> dict[str, Any]:
    """A healthy document of DCGM 4."""

    def test(name: str) -> dict[str, Any]:
        results = [
            {"entity_group": "GPU", "entity_group_id": 1, "entity_id": at, "status": "Pass"} for at in range(gpus)
        ]
        return {"name": name, "results": results, "test_summary": {"status": "Pass"}}

    entities = [{"entity_id": at, "device_id": "2330", "serial_num": f"165{at:010d}"} for at in range(gpus)]
    return {
        "DCGM Diagnostic": {
            "test_categories": [
                {"category": "Hardware", "tests": [test(name) for name in (tests or LEVELS[2])]},
            ]
        },
        "entity_groups": [{"entity_group": "GPU", "entity_group_id": 1, "entities": entities}],
        "metadata": {"version": "4.6.0", "Driver Version Detected": "580.95.05"},
    }


def dcgm3(level: int = 2, gpus: int = 8, *, key: str = "gpu_id") -> dict[str, Any]:
    """A healthy document of DCGM 2 or 3: nine deployment tests of the machine, then display names."""
    tests: list[dict[str, Any]] = [{"name": name, "results": [{"status": "Pass"}]} for name in DEPLOYMENT]
    if level > 1:
        tests += [
            {"name": name, "results": [{key: str(at), "status": "Pass"} for at in range(gpus)]}
            for name in ("PCIe", "GPU Memory")
        ]
    return {"DCGM GPU Diagnostic": {"test_categories": [{"category": "Deployment", "tests": tests}]}}


def result_of(document: dict[str, Any], test: str, gpu: int) -> dict[str, Any]:
    """One result of a DCGM 4 document, to be changed in place."""
    for category in document["DCGM Diagnostic"]["test_categories"]:
        for candidate in category["tests"]:
            if candidate["name"] == test:
                found: dict[str, Any] = candidate["results"][gpu]
                return found
    raise KeyError(test)


def failing(document: dict[str, Any], test: str, gpu: int, *faults: dict[str, Any]) -> dict[str, Any]:
    """A copy in which one GPU fails one test."""
    changed = copy.deepcopy(document)
    result = result_of(changed, test, gpu)
    result["status"] = "Fail"
    if faults:
        result["warnings"] = list(faults)
    for category in changed["DCGM Diagnostic"]["test_categories"]:
        for candidate in category["tests"]:
            if candidate["name"] == test:
                candidate["test_summary"] = {"status": "Fail", "warnings": list(faults)}
    return changed


def claimed(word: str = "pass", *, profile: Mapping[str, str], started: str = "", level: int = 2) -> dict[str, Any]:
    """A verdict of dcgm_gate with every cell that the profile of this suite demands of DCGM 4."""
    sheet, wanted = Sheet(), wanted_of(_OWN())
    for row in required(wanted, wanted_tests(wanted, level, [], (4, 6, 0)), range(wanted.gpu_count), 4):
        sheet.require(row.id, row.entity)
        measured = {"device_id": "2330", "gpu_count": wanted.gpu_count, "exit_status": 0}.get(row.id, "pass")
        sheet.record(Check(row.id, row.entity, PASS, measured, row.wanted))
    if word != PASS:
        sheet.record(Check("dcgm.memory", "GPU 3", word, word))
    tool = Tool("dcgmi", "4.6.0", ["dcgmi", "diag"])
    return as_verdict(
        "dcgm_gate", sheet, tool=tool, started=started or now_utc(), evidence=digest(b"raw"), profile=profile
    )


def logged(word: str, *cells: str, profile: Mapping[str, str]) -> dict[str, Any]:
    """A verdict of kernel_log_gate over these cells; what is no pass stands at the Xids."""
    sheet = Sheet()
    for name in cells:
        sheet.require(name, NODE)
        sheet.record(Check(name, NODE, word if name == "xid" else PASS, 0, 0))
    if word == FAIL:
        sheet.find("xid:79", NODE, "the GPU has fallen off the bus", "reboot")
    tool = Tool("kmsg", "", ["/dev/kmsg"])
    return as_verdict("kernel_log_gate", sheet, tool=tool, started=now_utc(), evidence=digest(b"raw"), profile=profile)


def asked(level: int = 2) -> dict[str, Any]:
    """The question that ``claimed`` answers."""
    return question(profile(), level, [])


def text(document: Any) -> str:
    return json.dumps(document, indent="\t")


def program(path: Path, body: str) -> str:
    """A small executable."""
    return programs.put(path, f"#!/bin/sh\n{body}\n")


def dcgmi(
    folder: Path, output: str, *, rc: int = 0, version: str = "4.6.0", body: str = "", name: str = "dcgmi"
) -> str:
    """A dcgmi that prints this, and notes how it was called."""
    answer = folder / f"{name}.out"
    answer.write_text(output, encoding="utf-8")
    (folder / f"{name}.found").write_text(discovery(), encoding="utf-8")
    return program(
        folder / name,
        f'echo "$*" >> {folder}/{name}.calls\n'
        f'if [ "$1" = --version ]; then echo; echo "dcgmi  version: {version}"; exit 0; fi\n'
        f'if [ "$1" = discovery ]; then cat {folder}/{name}.found; exit 0; fi\n'
        f"{body}\ncat {answer}\nexit {rc}",
    )


def discovery(gpus: int = 8) -> str:
    """What ``dcgmi discovery -l`` prints."""
    rule = "+--------+" + "-" * 70 + "+"
    rows = [
        f"| {at:<7}| {'Name: NVIDIA H100 80GB HBM3':<69}|\n"
        f"|        | {f'PCI Bus ID: 00000000:{at + 10:02X}:00.0':<69}|\n"
        f"|        | {f'Device UUID: GPU-00000000-0000-0000-0000-{at:012d}':<69}|\n{rule}\n"
        for at in range(gpus)
    ]
    head = f"{gpus} GPU{'' if gpus == 1 else 's'} found.\n{rule}\n| GPU ID | {'Device Information':<69}|\n{rule}\n"
    return head + "".join(rows) + "0 NvSwitches found.\n+-----------+\n| Switch ID |\n+-----------+\n+-----------+\n"


def found(gpus: Optional[int], *, device: str = "2330") -> Found:
    """So many GPUs, as discovery and sysfs tell them; None where nobody asked."""
    return Found() if gpus is None else Found(gpus, dict.fromkeys(range(gpus), device))


def pci(folder: Path, gpus: int = 8, *, device: str = "2330") -> str:
    """A sysfs in which these GPUs stand where ``discovery`` says."""
    for at in range(gpus):
        place = folder / "pci" / f"0000:{at + 10:02x}:00.0"
        place.mkdir(parents=True, exist_ok=True)
        (place / "vendor").write_text("0x10de\n", encoding="ascii")
        (place / "device").write_text(f"0x{device}\n", encoding="ascii")
    return str(folder / "pci")


def kmsg(*messages: str, start: float = 0.0, step: float = 1.0, seq: int = 0, level: int = 6) -> str:
    """Records as /dev/kmsg shows them; the kernel's own first line comes first."""
    lines = ["Linux version 6.8.0 (build@host)", *messages] if seq == 0 else list(messages)
    return "".join(
        f"{level},{seq + at},{int((start + at * step) * 1e6)},-;{message}\n" for at, message in enumerate(lines)
    )


def machine(folder: Path, log: str, *, uptime: float = 1000.0) -> dict[str, Any]:
    """The options of a kernel_log_gate that reads this log as the kernel's own."""
    (folder / "kmsg").write_text(log, encoding="utf-8")
    (folder / "uptime").write_text(f"{uptime} 1.0\n", encoding="ascii")
    (folder / "boot_id").write_text("3f0d4c4e-0a9e-4f7c-8f0e-2f6f4b1d9a51\n", encoding="ascii")
    (folder / "ring").write_text(kmsg("quiet"), encoding="utf-8")
    (folder / "pstore").mkdir(exist_ok=True)
    return {
        "source": "kmsg",
        "path": str(folder / "kmsg"),
        "uptime_path": str(folder / "uptime"),
        "boot_id_path": str(folder / "boot_id"),
        "kmsg_path": str(folder / "ring"),
        "pstore_path": str(folder / "pstore"),
        "pstore_archive": str(folder / "archive"),
        "since": "boot",
        "profile": profile(),
    }
