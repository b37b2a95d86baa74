# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads what amd-smi prints of AMD's GPUs, of several calls one document. PRIVATE to the collection.

Each call prints JSON: a list of GPUs, or an object that has it under ``gpu_data``. A value is a number, a word, or an
object of value and unit; what there is not is ``N/A``. Each call must tell of the same GPUs.

Source: ROCm/amdsmi 0ceca28f amdsmi_cli/amdsmi_commands.py; the object since ROCm 7, a limit of power by PPT since 7.2.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.document import Gpu, Seen, Told, absent
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.fields import AMD
from ansible_collections.gpufleet.baremetal.plugins.module_utils._once import once

TOOL = "amd-smi"
#: The calls, by the name under which their values are kept.
CALLS: Mapping[str, tuple[str, ...]] = {
    "list": ("list", "--json"),
    "static": ("static", "--json"),
    "metric": ("metric", "--json"),
    "bad": ("bad-pages", "--json"),
}
_DATA, _NUMBER = "gpu_data", "gpu"
#: What it prints where a call has nothing to say (rocm-smi and amd-smi); no document of no errors.
_NO_DATA = re.compile(r"no json data", re.I)
_VERSION = re.compile(r"\d{1,5}(?:\.\d{1,5}){1,3}")
_GENERATION = re.compile(r"(?:Gen )?([1-9])\Z")
#: The rate of a lane in GT/s by the generation (PCI Express Base Specification 6.0).
_RATES: Mapping[str, str] = {"2.5": "1", "5": "2", "8": "3", "16": "4", "32": "5", "64": "6"}
_NONE_BAD = "no bad pages found"
_BLOCKS, _XGMI = ["metric", "ecc_blocks"], "XGMI_WAFL"
_DEPTH, _MOST = 12, 20_000


def read(told: Mapping[str, str]) -> Seen:
    """told: by call what it printed."""
    seen, whole = Seen(AMD), Told()
    calls = {name: _records(name, told.get(name, ""), seen.problems) for name in CALLS}
    numbers = sorted({number for records in calls.values() for number in records})
    for name, records in calls.items():
        missing = [str(number) for number in numbers if number not in records]
        if records and missing:
            seen.problems.append(f"its call {name} does not tell of GPU {', '.join(missing)}")
    for number in numbers:
        values = Told()
        for name, records in calls.items():
            _flat(name, records.get(number, {}), values, 0)
        _derive(values)
        seen.gpus.append(Gpu(AMD, values))
    for gpu in seen.gpus:
        driver = _VERSION.match(gpu.told.get("static/driver/version", ""))
        whole.tell("driver", driver.group(0) if driver else "")
    whole.tell("attached", str(len(calls["list"])))
    seen.whole = whole
    return seen


def _records(name: str, text: str, problems: list[str]) -> dict[int, Mapping[str, Any]]:
    """By GPU what a call tells. Machines whose CPUs it tells of have records of those beside them."""
    try:
        document = json.loads(text, object_pairs_hook=once)
    except (ValueError, RecursionError):
        said = "printed no JSON data" if _NO_DATA.search(text) else "printed no JSON, or it was cut"
        problems.append(f"its call {name} {said}")
        return {}
    rows = document.get(_DATA) if isinstance(document, dict) else document
    found: dict[int, Mapping[str, Any]] = {}
    for row in (one if isinstance(one, dict) else {} for one in (rows if isinstance(rows, list) else [None])):
        number = row.get(_NUMBER)
        if number is None and "cpu" in row:
            continue
        if not isinstance(number, int) or isinstance(number, bool) or number in found or number < 0:
            problems.append(f"its call {name} tells of a GPU without a number of its own")
            continue
        found[number] = row
    return found


def _flat(path: str, value: Any, told: Told, depth: int) -> None:
    """Values by their paths. What is nested deeper, or is more, than amd-smi tells is not there."""
    if depth > _DEPTH or len(told) > _MOST:
        return
    word = _word(value)
    if word is not None:
        told.tell(path, word)
    elif isinstance(value, dict):
        for key, inner in value.items():
            _flat(f"{path}/{key}", inner, told, depth + 1)
    elif isinstance(value, list):
        told.tell(path, f"{len(value)} rows")


def _word(value: Any) -> Optional[str]:
    """A value as nvidia-smi would print it: with its unit behind it."""
    if isinstance(value, dict) and set(value) == {"value", "unit"}:
        inner = _word(value["value"])
        return inner if inner is None or inner == "N/A" else f"{inner} {value['unit']}"
    if isinstance(value, (int, float)):
        return str(value)
    return short(value, 200) if isinstance(value, str) else None


def _derive(told: Told) -> None:
    """What the rules want in other words than amd-smi has: whole pages, a generation, mebibytes."""
    for name, value in _derived(told):
        told.tell(f"derived/{name}", value)


def _derived(told: Told) -> Iterator[tuple[str, str]]:
    for name in ("retired", "pending", "un_res"):
        yield name, _pages(f"bad/{name}", told)
    size = str(told.get("static/vram/size", ""))
    yield "memory", f"{size[: -len(' MB')]} MiB" if size.endswith(" MB") else size  # it counts in powers of two
    most = _GENERATION.match(str(told.get("static/bus/pcie_interface_version", "")))
    yield "pcie_generation_max", most.group(1) if most else ""
    for count in ("uncorrectable_count", "deferred_count"):
        yield f"blocks_{count}", _of_blocks(count, told)
    rate, _blank, unit = str(told.get("metric/pcie/speed", "")).partition(" ")
    yield "pcie_generation", _RATES.get(rate.removesuffix(".0"), "") if unit == "GT/s" else ""


def _of_blocks(count: str, told: Told) -> str:
    """What all blocks have counted, besides the total; XGMI has a cell of its own."""
    rows = ((path.split("/"), word) for path, word in told.items())
    words = [word for (*above, name), word in rows if name == count and above[:2] == _BLOCKS and above[2:] != [_XGMI]]
    counts = [word for word in words if not absent(word)]
    return str(sum(map(int, counts))) if counts and all(word.isdecimal() for word in counts) else ", ".join(counts)


def _pages(path: str, told: Told) -> str:
    """How many pages: a sentence where there are none, one row by itself, a list of them."""
    said = str(told.get(path, ""))
    if said.lower().rstrip(".") == _NONE_BAD:
        return "0"
    if said.endswith(" rows"):
        return said.partition(" ")[0]
    return "1" if f"{path}/page_address" in told else said
