# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``dcgmi`` as DCGM 4.6.0 prints and exits, over the state of this node's GPUs."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gpu_state

VERSION = "4.6.0"
HEALTH_MARK = Path("/run/nvidia-hostengine-health")

# Exit statuses: the shell sees 256 plus the (negative) dcgmReturn_t. Source: dcgm_structs.h of DCGM 4.6.0.
OK = 0
ISOLATE = 205
NVVS_ERROR = 226
BAD_PARAMETER = 255
GENERIC = 253

# What each level runs, and the category each test is printed under. Source: NvidiaValidationSuite.cpp and Diag.cpp
# of DCGM 4.6.0, without the tests of packages that a site installs on its own (EUD).
CATEGORY = {
    "software": "Deployment",
    "pcie": "Integration",
    "nvbandwidth": "Integration",
    "nccl_tests": "Integration",
    "memory": "Hardware",
    "diagnostic": "Hardware",
    "memtest": "Hardware",
    "pulse_test": "Hardware",
    "memory_bandwidth": "Stress",
    "targeted_stress": "Stress",
    "targeted_power": "Stress",
}
_LEVEL_1 = ["software"]
_LEVEL_2 = [*_LEVEL_1, "pcie", "memory"]
_LEVEL_3 = [
    *_LEVEL_2,
    "diagnostic",
    "nvbandwidth",
    "nccl_tests",
    "memory_bandwidth",
    "targeted_stress",
    "targeted_power",
]
_LEVEL_4 = [*_LEVEL_3, "memtest", "pulse_test"]
LEVELS = {
    "1": _LEVEL_1,
    "quick": _LEVEL_1,
    "short": _LEVEL_1,
    "2": _LEVEL_2,
    "medium": _LEVEL_2,
    "3": _LEVEL_3,
    "long": _LEVEL_3,
    "4": _LEVEL_4,
    "xlong": _LEVEL_4,
}
_ORDER = ("Deployment", "Integration", "Hardware", "Stress")

# Source: dcgm_errors.h of DCGM 4.6.0 (number, category, severity).
FAULTY_MEMORY = (52, 10, 2)
VOLATILE_DOUBLE_BIT_ERROR = (4, 10, 2)
ROW_REMAP_FAILURE = (80, 10, 6)
DEVICE_COUNT_MISMATCH = (20, 8, 5)
_SEVERITY_ISOLATE = 2

# A fault of one GPU: the test that fails, what it says and its error. Without an error object the exit status, which
# is made of those alone, stays 0.
BROKEN_GPU: dict[str, tuple[tuple[str, ...], str, tuple[int, int, int] | None]] = {
    "dcgm_fail_entity": (("memory",), "GPU {gpu} Detected faulty memory", FAULTY_MEMORY),
    "dcgm_exit0_failing": (("software", "memory"), "", None),
    "row_remap_failure": (("software",), "GPU {gpu} had uncorrectable memory errors and row remapping failed.",
                          ROW_REMAP_FAILURE),
    "ecc_uncorrected": (("memory",), "Detected {count} volatile double-bit ECC error(s) in GPU {gpu}.",
                        VOLATILE_DOUBLE_BIT_ERROR),
}  # fmt: skip

Json = dict[str, Any]


class Refused(Exception):
    """Wrong arguments."""


class Parser(argparse.ArgumentParser):
    """Exits as dcgmi does."""

    def error(self, message: str) -> Any:
        print(f"PARSE ERROR: {message}", file=sys.stderr)
        sys.exit(BAD_PARAMETER)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subsystem."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words and words[0] in ("--version", "-v"):
        print(f"\ndcgmi  version: {VERSION}\n")
        return OK
    if not words or words[0] not in SUBSYSTEMS:
        print("usage: dcgmi <subsystem> ...", file=sys.stderr)
        return BAD_PARAMETER
    return SUBSYSTEMS[words[0]](words[1:])


def discovery(words: list[str]) -> int:
    """``dcgmi discovery -l``."""
    parser = Parser(prog="dcgmi discovery")
    parser.add_argument("-l", "--list", action="store_true", required=True)
    parser.parse_args(words)
    rule = "+--------+" + "-" * 70 + "+"
    gpus = gpu_state.present()
    print(
        f"{len(gpus)} GPU{'' if len(gpus) == 1 else 's'} found.\n{rule}\n| GPU ID | {'Device Information':<69}|\n{rule}"
    )
    for number in gpus:
        print(f"| {number:<7}| {'Name: ' + gpu_state.NAME:<69}|")
        print(f"|        | {'PCI Bus ID: ' + gpu_state.bus_id(number):<69}|")
        print(f"|        | {'Device UUID: ' + gpu_state.gpu_uuid(number):<69}|\n{rule}")
    print(f"{gpu_state.SWITCHES} NvSwitches found.\n+-----------+\n| Switch ID |\n+-----------+")
    for number in range(gpu_state.SWITCHES):
        print(f"| {number:<10}|")
    print("+-----------+\n0 ConnectX found.\n+----------+\n| ConnectX |\n+----------+\n+----------+")
    print(f"0 CPUs found.\n{rule}\n| CPU ID | {'Device Information':<69}|\n{rule}\n{rule}")
    return OK


def health(words: list[str]) -> int:
    """``dcgmi health -s a`` and ``-c``; the exit status is 0 on failures too, as in the real tool."""
    parser = Parser(prog="dcgmi health")
    parser.add_argument("-s", "--set")
    parser.add_argument("-c", "--check", action="store_true")
    parser.add_argument("-f", "--fetch", action="store_true")
    parser.add_argument("-g", "--group", default="0")
    parser.add_argument("-j", "--json", action="store_true")
    options = parser.parse_args(words)
    if options.set:
        HEALTH_MARK.touch()
        print("Health monitor systems set successfully.")
        return OK
    if not HEALTH_MARK.exists():
        print("Error: Health watches not enabled. Please enable watches. ")
        return GENERIC
    body: Json = {"Overall Health": {"value": "Healthy"}}
    lost = gpu_state.lost()
    if lost is not None:
        text = f"GPU {lost} fell off the PCIe bus (Xid 79). Please verify PCIe seating and run a field diagnostic."
        errors = {"children": {"PCIe system": {"overflow": [text], "value": "Failure"}}}
        gpu = {"children": {"Errors": errors}, "value": "Failure"}
        body = {"GPU": {"children": {str(lost): gpu}}, "Overall Health": {"value": "Failure"}}
    if options.json:
        print(_dump({"body": body, "header": ["Health Monitor Report"]}))
    else:
        print(f"Health Monitor Report\nOverall Health: {body['Overall Health']['value']}")
    return OK


def diag(words: list[str]) -> int:
    """``dcgmi diag -r LEVEL [-j]``."""
    options = _diag_options(words)
    faults = gpu_state.faults()
    if "dcgm_hang" in faults:
        while True:
            signal.pause()
    if "dcgm_noise" in faults:
        print("nv-hostengine: warning: field watch is behind\n<<<< unexpected reply from module 7 >>>>")
        return OK
    driver = gpu_state.manifest().get("driver")
    if not driver:
        print(_dump({"DCGM Diagnostic": {"version": VERSION, "runtime_error": "Error: NVML could not be loaded."}}))
        return GENERIC
    try:
        document, status = _run(_tests(options.run), _entities(options.entity_id), _expected(options), faults)
    except Refused as refusal:
        print(f"Error: {refusal}", file=sys.stderr)
        return BAD_PARAMETER
    document["metadata"] = {"version": VERSION, "Driver Version Detected": driver}
    text = _dump(document) if options.json else _table(document)
    if "dcgm_killed" in faults:
        print(text[: len(text) // 3], end="", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    if "dcgm_warn_lines" in faults:
        print("WARNING: The hostengine is busy; results may be delayed.")
    print(text)
    return status


def _diag_options(words: list[str]) -> argparse.Namespace:
    parser = Parser(prog="dcgmi diag")
    parser.add_argument("-r", "--run", required=True)
    parser.add_argument("-j", "--json", action="store_true")
    parser.add_argument("-i", "--entity-id", default="*,cpu:*")
    parser.add_argument("-n", "--expectedNumEntities", default="")
    for short, name in (("-p", "parameters"), ("-c", "configfile"), ("-t", "timeout"), ("-d", "debugLevel")):
        parser.add_argument(short, f"--{name}")
    for name in ("host", "statspath", "debugLogFile", "clocksevent-mask", "watch-frequency", "ignoreErrorCodes"):
        parser.add_argument(f"--{name}")
    for name in ("statsonfail", "fail-early", "enable-heartbeat"):
        parser.add_argument(f"--{name}", action="store_true")
    parser.add_argument("-v", "--verbose", action="store_true")
    return parser.parse_args(words)


def _tests(run: str) -> list[str]:
    if run in LEVELS:
        return LEVELS[run]
    names = [name.strip() for name in run.split(",")]
    if not all(name in CATEGORY for name in names):
        raise Refused(f"requested tests not found: {run}")
    return names


def _entities(text: str) -> list[int]:
    """The GPUs among the asked entities that are there."""
    asked: set[int] = set()
    for word in text.split(","):
        kind, _colon, number = word.strip().rpartition(":")
        if kind in ("", "gpu"):
            asked |= set(range(len(gpu_state.BUSES))) if number == "*" else {_number(number)}
        elif kind != "cpu":
            raise Refused(f"invalid entity: {word}")
    return [number for number in gpu_state.present() if number in asked]


def _number(text: str) -> int:
    if not text.isdigit():
        raise Refused(f"invalid entity: {text}")
    return int(text)


def _expected(options: argparse.Namespace) -> int | None:
    if not options.expectedNumEntities:
        return None
    kind, _colon, number = options.expectedNumEntities.partition(":")
    if kind != "gpu":
        raise Refused("only gpu entities can be counted")
    return _number(number)


def _run(tests: list[str], gpus: list[int], expected: int | None, faults: dict[str, Json]) -> tuple[Json, int]:
    """Return the document and the exit status."""
    status = OK
    by_category: dict[str, list[Json]] = {}
    for name in tests:
        results = [_result(name, number, faults) for number in gpus]
        warnings = [warning for result in results for warning in result.get("warnings", [])]
        if name == "software" and expected is not None and expected != len(gpus):
            text = f"Expected {expected} GPU entities and found {len(gpus)}."
            warnings.append(_warning(text, DEVICE_COUNT_MISMATCH))
        summary: Json = {"status": _summary([result["status"] for result in results], warnings)}
        if warnings:
            summary["warnings"] = warnings
        by_category.setdefault(CATEGORY[name], []).append({"name": name, "results": results, "test_summary": summary})
        severities = {warning["error_severity"] for warning in warnings}
        if severities:
            status = ISOLATE if _SEVERITY_ISOLATE in severities or status == ISOLATE else NVVS_ERROR
    categories = [{"category": name, "tests": by_category[name]} for name in _ORDER if name in by_category]
    entities = [
        {"entity_id": number, "device_id": gpu_state.DEVICE_ID, "serial_num": gpu_state.serial(number)}
        for number in gpus
    ]
    groups = [{"entity_group": "GPU", "entity_group_id": 1, "entities": entities}]
    return {"DCGM Diagnostic": {"test_categories": categories}, "entity_groups": groups}, status


def _result(test: str, number: int, faults: dict[str, Json]) -> Json:
    result: Json = {"entity_group": "GPU", "entity_group_id": 1, "entity_id": number, "status": "Pass"}
    if "dcgm_all_skip" in faults:
        return {**result, "status": "Skip"}
    for name, (tests, text, error) in BROKEN_GPU.items():
        fault = faults.get(name, {})
        if fault.get("gpu") == number and test in tests:
            result["status"] = "Fail"
            if error:
                result["warnings"] = [_warning(text.format(**{"count": 3, **fault}), error)]
    return result


def _warning(text: str, error: tuple[int, int, int]) -> Json:
    return {"warning": text, "error_id": error[0], "error_category": error[1], "error_severity": error[2]}


def _summary(statuses: list[str], warnings: list[Json]) -> str:
    if warnings or "Fail" in statuses:
        return "Fail"
    return "Skip" if not statuses or set(statuses) == {"Skip"} else "Pass"


def _table(document: Json) -> str:
    rule = "+---------------------------+------------------------------------------------+"
    lines = ["Successfully ran diagnostic for group.", rule, f"| {'Diagnostic':<26}| {'Result':<47}|"]
    for category in document["DCGM Diagnostic"]["test_categories"]:
        lines.append(f"|-----  {category['category']}  {'-' * (66 - len(category['category']))}|")
        lines += [f"| {test['name']:<26}| {test['test_summary']['status']:<47}|" for test in category["tests"]]
    return "\n".join([*lines, rule])


def _dump(document: Json) -> str:
    return json.dumps(document, indent="\t", separators=(",", " : "))


SUBSYSTEMS: dict[str, Callable[[list[str]], int]] = {"diag": diag, "discovery": discovery, "health": health}
