# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How cpu_memory_gate is asked about what stress-ng found, network_gate about ports, gpu_burn_gate about a burn."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.cpu_memory import linpack, loads
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.cpu_memory.document import read
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.cpu_memory.section import (
    STRESSORS,
    Load,
    Machine,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.cpu_memory.solved import Solved
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.cpu_memory.solved import judge as judge_solved
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.document import Diagnosis
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_burn import document as burn
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_burn.judge import begin as begin_burn
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_burn.judge import judge as judge_burn
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_burn.section import burns_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network.carried import Taken
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network.carried import judge as judge_speed
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network.gate import network_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network.section import Links
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network.speeds import IPERF3, PERFTEST, Speed
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network.tools import read_iperf3, read_perftest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import wanted_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._process import Run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import (
    NODE,
    Sheet,
    Tool,
)
from verdicts_recorded import ABOUT, NotAsked, Recorded, counted, verdict_of

_ROW = re.compile(r"^    - stressor: (\S+)$", re.M)
_SYSTEM = re.compile(r"^W[RC]\S+ +(\d+) +(\d+) +(\d+) +(\d+) ", re.M)
_PORT = re.compile(r"([\w-]+)/ports/(\d+)/([\w/-]+): (.*)")
_RATE = re.compile(r"(\d+(?:\.\d+)?) Gb/sec")
_ANY = 1e-9


def stressed(recorded: Recorded) -> tuple[dict[str, Any], str]:
    """One load, of a machine whose kernel saw it work.

    :raises NotAsked: for a load that the gate does not ask for.
    """
    text = recorded.path.read_text(encoding="utf-8", errors="replace")
    named = next(iter(_ROW.findall(text)), "cpu")
    if named not in STRESSORS:
        raise NotAsked(f"stress-ng was asked for {named}")
    load = Load("recorded", named, "all", _ANY, 0, 0, None, "", ABOUT["source"])
    machine = Machine(1, 1, None, 1.0, 1, 0, None, ABOUT["source"])
    run = Run(("stress-ng",), recorded.number("exit_status", 0), text.encode(), b"", "exit", 3600.0)
    sheet = Sheet()
    sheet.require(load.cell, NODE)
    seen = read(run, load)
    loads.judge(sheet, loads.Taken(load, run, seen, "; ".join(seen.problems)), machine)
    wanted = wanted_of(recorded.profile or counted(Diagnosis()))
    verdict = verdict_of("cpu_memory_gate", sheet, Tool("stress-ng", seen.version), run, wanted)
    return verdict, f"exit status {run.rc}, {named}"


def solved(recorded: Recorded) -> tuple[dict[str, Any], str]:
    """One system, as it was solved: nobody knows its floor."""
    text = recorded.path.read_text(encoding="utf-8", errors="replace")
    told = _SYSTEM.search(text)
    numbers = [int(word) for word in told.groups()] if told else [1, 1, 1, 1]
    solve = linpack.Solve("recorded", numbers[0], numbers[1], numbers[2], numbers[3], _ANY, str(ABOUT["source"]))
    run = Run(("xhpl",), recorded.number("exit_status", 0), text.encode(), b"", "exit", 3600.0)
    sheet = Sheet()
    sheet.require(solve.cell, NODE)
    seen = linpack.read(text, solve)
    judge_solved(sheet, Solved(solve, run, seen))
    wanted = wanted_of(recorded.profile or counted(Diagnosis()))
    verdict = verdict_of("cpu_memory_gate", sheet, Tool("HPL", seen.version), run, wanted)
    return verdict, f"exit status {run.rc}, {solve.unit}"


def ports(recorded: Recorded) -> tuple[dict[str, Any], str]:
    """Files of /sys/class/infiniband, each as ``path: value``: nobody knows more of a port than the rate it is at.

    :raises NotAsked: where no port stands there.
    """
    text = recorded.path.read_text(encoding="utf-8", errors="replace")
    told = [match.groups() for match in map(_PORT.fullmatch, text.splitlines()) if match]
    rates = {f"{device}/{port}": value for device, port, name, value in told if name == "rate"}
    layers = {f"{device}/{port}": value for device, port, name, value in told if name == "link_layer"}
    if not rates:
        raise NotAsked("no port stands there")
    rows = []
    for port, value in rates.items():
        rate = _RATE.match(value)
        kind = "roce" if layers.get(port) == "Ethernet" else "infiniband"
        row = {"name": re.sub(r"\W", "_", port.lower()), "kind": kind, "ports": [port], "errors": 0, **ABOUT}
        rows.append({**row, "rate_gbps": float(rate.group(1)) if rate else 1.0, "seconds": _ANY})
    with tempfile.TemporaryDirectory(prefix="gpufleet-verdicts-") as folder:
        for device, port, name, value in told:
            path = Path(folder) / "class" / "infiniband" / device / "ports" / port / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{value}\n", encoding="utf-8")
        profile = {**counted(Diagnosis()), "network": {"links": rows}}
        result = network_gate({"profile": profile, "sysfs_path": folder}, Context())
    return dict(result.data), f"{len(rows)} RDMA ports, each at its rate"


def carried(recorded: Recorded) -> tuple[dict[str, Any], str]:
    """What iperf3 measured over TCP: nobody knows the port, so that it has the rate that was measured."""
    text = recorded.path.read_text(encoding="utf-8", errors="replace")
    asked = re.findall(r'"num_streams":\s*(\d{1,3})\b', text)
    links = Links("as_recorded", "ethernet", ("port",), 1e-6, None, 0, 1.0, str(ABOUT["source"]))
    speed = Speed("as_recorded", IPERF3, links, 1.0, 1.0, int(asked[0]) if asked else 1, str(ABOUT["source"]))
    run = Run(("iperf3", "-J"), recorded.number("exit_status", 0), text.encode(), b"", "exit", 0.0)
    seen = read_iperf3(text, speed)
    sheet = Sheet()
    sheet.require(speed.cell, "port", wanted=speed.minimum, unit=speed.unit, source=speed.source)
    judge_speed(sheet, Taken(speed, "port", seen, [run], int(seen.bits)))
    tool = Tool("kernel and iperf3", seen.version, list(run.argv))
    wanted = wanted_of(counted(Diagnosis()))
    verdict = verdict_of("network_gate", sheet, tool, run, wanted)
    return verdict, f"TCP, {speed.streams} streams, exit status {run.rc}"


def wrote(recorded: Recorded) -> tuple[dict[str, Any], str]:
    """What ib_write_bw measured: nobody knows the port, so that it has the rate that was measured."""
    text = recorded.path.read_text(encoding="utf-8", errors="replace")
    links = Links("as_recorded", "infiniband", ("port",), 1e-6, None, 0, 1.0, str(ABOUT["source"]))
    speed = Speed("as_recorded", PERFTEST, links, 1.0, 1.0, 1, str(ABOUT["source"]))
    run = Run(("ib_write_bw", "--report_gbits"), recorded.number("exit_status", 0), text.encode(), b"", "exit", 0.0)
    seen = read_perftest(text, speed)
    sheet = Sheet()
    sheet.require(speed.cell, "port", wanted=speed.minimum, unit=speed.unit, source=speed.source)
    judge_speed(sheet, Taken(speed, "port", seen, [run], int(seen.bits)))
    verdict = verdict_of("network_gate", sheet, Tool("kernel and perftest"), run, wanted_of(counted(Diagnosis())))
    return verdict, f"RDMA, exit status {run.rc}"


def burnt(recorded: Recorded) -> tuple[dict[str, Any], str]:
    """One burn, of a machine with just the GPUs that it tells of, which all reach their floor."""
    text = recorded.path.read_text(encoding="utf-8", errors="replace")
    seen = burn.read(text)
    count = max(1, len(seen.uuids), len(seen.done))
    row = {"name": "recorded", "precision": "float", "memory_percent": 90, "seconds": 1, "minimum": _ANY, **ABOUT}
    profile = {**counted(Diagnosis()), "gpu_burn": {"burns": [row]}}
    profile["gpu"]["count"]["value"] = count
    wanted = wanted_of(profile)
    [asked] = burns_of(wanted)
    run = Run(("gpu_burn",), recorded.number("exit_status", 0), text.encode(), b"", "exit", 3600.0)
    sheet = begin_burn(wanted, [asked], count)
    judge_burn(sheet, seen, run, wanted, asked)
    verdict = verdict_of("gpu_burn_gate", sheet, Tool("gpu-burn"), run, wanted)
    return verdict, f"exit status {run.rc}, {count} GPUs"
