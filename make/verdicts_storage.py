# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How storage_gate is asked about what a drive told of itself, and about what fio measured."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.document import Diagnosis
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.ended import record_end
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.storage import judge, speeds
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.storage.document import measuring, read
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.storage.drives import Drive
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.storage.health import read as read_health
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.storage.section import PATTERNS, section_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.storage.whole import document
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import wanted_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._process import Run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import (
    Sheet,
    Tool,
)
from verdicts_recorded import ABOUT, NotAsked, Recorded, counted, verdict_of

#: A drive of no SKU: nobody knows more of it than what the drive itself calls ill, and that it was measured.
_DRIVE = Drive("nvme0", "", "as-recorded", "live", "pcie", 1, ())
_KIND = {"name": "data", "count": 1, "size_gb": 1e-9, "percentage_used": 100, "media_errors": 0, **ABOUT}
_ANY = 1e-9
_SIZE = re.compile(r"(\d+)([kmg]?)\Z")
_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}


def health(recorded: Recorded) -> tuple[dict[str, Any], str]:
    text, profile, run = _begun(recorded, "nvme", {"drives": [_KIND]})
    section = section_of(wanted_of(profile))
    sheet = judge.begin(section)
    judge.present(sheet, section, {"data": [_DRIVE]})
    judge.health(sheet, section.drives[0], "data 0", _DRIVE, read_health(text))
    return _told(sheet, run, profile, "nvme")


def measured(recorded: Recorded) -> tuple[dict[str, Any], str]:
    """One job, in the spelling in which the gate itself asks."""
    text = recorded.path.read_text(encoding="utf-8", errors="replace")
    found = dict(document(text[text.find("\n{") + 1 if not text.startswith("{") else 0 :]))
    [job] = found["jobs"]
    row = _row(job["job options"])
    text, profile, run = _begun(recorded, "fio", {"drives": [_KIND], "speeds": [row]})
    section = section_of(wanted_of(profile))
    [ask] = [measuring(speed) for speed in section.speeds]
    job["job options"].update(bs=str(ask.block), size=str(ask.size))
    seen = read(json.dumps(found), ask)
    sheet = Sheet()
    [wish] = speeds.wishes(section, {"data": [_DRIVE]})
    sheet.require(wish.speed.cell, wish.entity)
    problem = "; ".join(seen.problems)
    speeds.judge(sheet, speeds.Taken([wish], run, seen, ask, seen.moved, problem))
    return _told(sheet, run, profile, "fio and nvme")


def _row(asked: Mapping[str, str]) -> dict[str, Any]:
    """:raises NotAsked: for a call that the gate does not make."""
    if asked.get("rw") not in PATTERNS or asked.get("direct") != "1" or "verify" in asked:
        raise NotAsked("fio was asked for something else than one read or write past the kernel's memory")
    block, size = (_bytes(asked.get(name, "")) for name in ("bs", "size"))
    row = {"name": asked["name"], "drives": "data", "over": "each", "pattern": asked["rw"], "minimum": _ANY, **ABOUT}
    seconds = {"seconds": float(asked.get("runtime", 1))}
    return {**row, **seconds, "block_kib": block // 1024, "depth": int(asked["iodepth"]), "size_mib": size // 1024**2}


def _bytes(said: str) -> int:
    match = _SIZE.match(said.lower())
    if not match:
        raise NotAsked("fio was asked for blocks or a size that it does not tell")
    return int(match.group(1)) * _UNITS[match.group(2)]


def _begun(recorded: Recorded, tool: str, section: Mapping[str, Any]) -> tuple[str, dict[str, Any], Run]:
    text = recorded.path.read_text(encoding="utf-8", errors="replace")
    run = Run((tool,), recorded.number("exit_status", 0), text.encode(), b"", "exit", 3600.0)
    return text, {**counted(Diagnosis()), "storage": dict(section)}, run


def _told(sheet: Sheet, run: Run, profile: Mapping[str, Any], tool: str) -> tuple[dict[str, Any], str]:
    record_end(sheet, run)
    wanted = wanted_of(profile)
    verdict = verdict_of("storage_gate", sheet, Tool(tool), run, wanted)
    return verdict, f"exit status {run.rc}, profile {wanted.sku}"
