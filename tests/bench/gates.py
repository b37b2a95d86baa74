# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What gates cost a node beyond their tools: a diagnosis of 32 GPUs, a kernel log of 100,000 lines, a storm of Xids in
it, and a whole gate.

    gates.py [--times 5]

Processor time of this machine, the fastest of several times: others who work on it make it more, and never less. The
exit status is 1 where reading and judging both documents takes longer than the bound, or a gate beside its tool does,
or where four times as many Xids take much more than four times as long.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm import gate, judge, tests
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.document import read
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log.gate import kernel_log_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import wanted_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._process import Run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made

GPUS, LINES, LEVEL = 32, 100_000, 4
#: Seconds on a node: for both documents together, and for a gate beside its tool.
DOCUMENTS, GATE = 0.5, 2.0
TESTS = (
    *("software", "pcie", "memory", "diagnostic", "memtest", "pulse_test", "targeted_power", "targeted_stress"),
    *("memory_bandwidth", "nvbandwidth"),
)
SAID = ("usb 1-1: new high-speed USB device number 2 using xhci_hcd", "systemd[1]: Started Journal Service.")
SAID += ("mlx5_core 0000:18:00.0: Port module event: module 0, Cable plugged",)
#: What a driver says that is looked at closely: one line of so many.
DRIVER, SELDOM = "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  570.86.15", 500
#: What a job leaves that is started again and again on a healthy node: so many, and so many times them.
XID = "NVRM: Xid (PCI:0000:1a:00): 13, pid={pid}, name=python, Graphics Exception: ESR 0x50c648=0x1000e"
STORM, FOLD, MOST = 5_000, 4, 6.0


def fastest(times: int, work: Callable[[], object]) -> float:
    def once() -> float:
        begun = time.process_time()
        work()
        return time.process_time() - begun

    return min(once() for _time in range(times))


def diagnosis() -> None:
    text = made.text(made.dcgm4(list(TESTS), GPUS))
    profile = made.profile(GPUS)
    wanted = wanted_of(profile)
    run = Run(("dcgmi", "diag", "-r", str(LEVEL), "-j"), 0, text.encode(), b"", "exit", 0.0)
    version = (4, 6, 0)
    asked = tests.wanted_tests(wanted, LEVEL, [], version)
    judge.judge(read(text), run, wanted, asked, found=made.found(GPUS))


def logs(params: Mapping[str, Any]) -> None:
    verdict = kernel_log_gate(params, Context()).data["verdict"]
    assert verdict == "pass", verdict


def storm(folder: Path, times: int, count: int) -> float:
    """Seconds that so many Xids take, twenty a second."""
    folder.mkdir()
    log = made.kmsg(*(XID.format(pid=4711 + at) for at in range(count)), step=0.05)
    params = made.machine(folder, log, uptime=count)
    return fastest(times, lambda: logs(params))


def whole(folder: Path) -> float:
    """Seconds from the first line of the gate to its verdict, with a dcgmi that answers at once."""
    output = made.text(made.dcgm4(gpus=8))
    params = {"profile": made.profile(), "level": 1, "dcgmi": made.dcgmi(folder, output), "pci_path": made.pci(folder)}
    begun = time.monotonic()
    gate.dcgm_gate(params, Context())
    return time.monotonic() - begun


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench-gates")
    parser.add_argument("--times", type=int, default=5)
    times = parser.parse_args().times
    with tempfile.TemporaryDirectory(prefix="gpufleet-bench-") as name:
        folder = Path(name)
        said = (DRIVER if at % SELDOM == 0 else SAID[at % len(SAID)] for at in range(LINES))
        log = made.kmsg(*said, step=0.001)
        params = made.machine(folder, log, uptime=LINES)
        one, other = fastest(times, diagnosis), fastest(times, lambda: logs(params))
        few, many = (storm(folder / f"{fold}", times, fold * STORM) for fold in (1, FOLD))
        beside = min(whole(folder) for _time in range(times))
    print(f"{one:.3f} s  a diagnosis of level {LEVEL} over {GPUS} GPUs")
    print(f"{other:.3f} s  a kernel log of {LINES} lines")
    print(f"{one + other:.3f} s  both together, allowed are {DOCUMENTS:g} s")
    print(f"{many:.3f} s  {FOLD * STORM} Xids, {many / few:.1f} times as long as {STORM}, allowed are {MOST:g} times")
    print(f"{beside:.3f} s  dcgm_gate with a tool that answers at once, allowed are {GATE:g} s")
    return 0 if one + other <= DOCUMENTS and many <= MOST * few and beside <= GATE else 1


if __name__ == "__main__":
    sys.exit(main())
