# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the contract suite needs of the gates whose sections sites write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.cpu_memory.gate import cpu_memory_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_burn.gate import gpu_burn_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network.gate import network_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.registry import SOAK_GATE as soak_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.soak.gate import GATE as SOAKS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.training.gate import training_gate
from ansible_collections.gpufleet.baremetal.tests.unit.gate import burning, cables, smi, soaked, stress, trained
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made
from contract.gate.case import Case, Params


def changed(make: Callable[[Path], Params], **options: Any) -> Callable[[Path], Params]:
    return lambda folder: {**make(folder), **options}


def loaded(output: Optional[str] = None, **how: Any) -> Callable[[Path], Params]:
    return lambda folder: stress.params(folder, output, **how)


def module_lost(folder: Path) -> Params:
    """Counts errors that the controller could not correct."""
    params = stress.params(folder)
    stress.errors(folder, 1, uncorrected=1)
    return params


CPU_MEMORY = Case(
    "cpu_memory_gate",
    cpu_memory_gate,
    loaded(),
    {
        "tool missing": (changed(loaded(), stress_ng="/nonexistent/stress-ng"), "inconclusive", "not installed"),
        "tool hangs": (changed(loaded(body="sleep 60"), timeout=1), "inconclusive", "still running after"),
        "tool killed": (loaded(body="kill -9 $$"), "inconclusive", "signal 9"),
        "noise": (loaded("lorem ipsum\n"), "inconclusive", "its metrics are cut"),
        "nothing": (loaded(" "), "inconclusive", "it printed no metrics"),
        "a flood": (loaded(body="exec yes ---"), "inconclusive", "stress-ng"),
        "cut": (loaded(stress.metrics()[:-9]), "inconclusive", "its metrics are cut"),
        "exit 0, and nothing was done": (
            loaded(stress.metrics(stress.row(**{"bogo-ops": 0}))),
            "inconclusive",
            "cpu did nothing",
        ),
        "a wrong result": (
            loaded(stderr=stress.said("fail: cpu: sieve error detected"), rc=2),
            "fail",
            "wrong results in cpu_all",
        ),
        "slow": (
            loaded(stress.metrics(stress.row(**{"bogo-ops-per-second-real-time": "10.0"}))),
            "fail",
            "10 bogo ops/s",
        ),
        "a CPU that idled": (loaded(worked=(1, 999)), "inconclusive", "a CPU worked for "),
        "a CPU too few": (loaded(online="0-2"), "fail", "3 CPUs online"),
        "a module too few": (loaded(total=60 << 20), "fail", "60 GiB of memory"),
        "errors that were not corrected": (module_lost, "fail", "uncorrected memory errors in CPU0_DIMM_B1"),
        "unknown SKU": (changed(loaded(), profile=None), "inconclusive", "profile"),
        "half a profile": (changed(loaded(), profile={"schema": 1}), "inconclusive", "profile"),
    },
    program="stress_ng",
    counted=None,
)

# -- ports -------------------------------------------------------------------------------------------------------------


def plugged(output: Optional[str] = None, **how: Any) -> Callable[[Path], Params]:
    return lambda folder: cables.params(folder, output, **how)


def port(**told: Any) -> Callable[[Path], Params]:
    """A rail that shows this."""

    def make(folder: Path) -> Params:
        params = cables.params(folder)
        cables.rdma(folder, cables.RAILS[1], **told)
        return params

    return make


NETWORK = Case(
    "network_gate",
    network_gate,
    plugged(),
    {
        "tool missing": (plugged(lldpctl="/nonexistent/lldpctl"), "inconclusive", "not installed"),
        "tool hangs": (plugged(body="sleep 60", timeout=1), "inconclusive", "still running after"),
        "tool killed": (plugged(body="kill -9 $$"), "inconclusive", "signal 9"),
        "noise": (plugged("lorem ipsum\n"), "inconclusive", "cannot be read"),
        "nothing": (plugged(" "), "inconclusive", "it printed nothing"),
        "a flood": (plugged(body="exec yes {"), "inconclusive", "lldpctl"),
        "cut": (plugged(cables.document(cables.heard())[:200]), "inconclusive", "cannot be read"),
        "another switch": (plugged(cables.document(cables.heard(switch="leaf02"))), "fail", "leads to leaf02"),
        "a port that is down": (port(state="1: DOWN"), "fail", "mlx5_1/1 is down"),
        "a port that is slow": (port(rate="200 Gb/sec (4X HDR)"), "fail", "200 Gb/s, and the profile wants 400"),
        "a lane too few": (port(rate="400 Gb/sec (2X XDR)"), "fail", "2 lanes"),
        "a counter at its end": (port(**{"counters/link_downed": 255}), "inconclusive", "counts no more"),
        "unknown SKU": (plugged(profile=None), "inconclusive", "profile"),
        "half a profile": (plugged(profile={"schema": 1}), "inconclusive", "profile"),
    },
    program="lldpctl",
    counted=None,
)

# -- GPUs under full load ----------------------------------------------------------------------------------------------


def burnt(text: Optional[str] = None, **how: Any) -> Callable[[Path], Params]:
    return lambda folder: burning.params(folder, text, **how)


GPU_BURN = Case(
    "gpu_burn_gate",
    gpu_burn_gate,
    burnt(),
    {
        "tool missing": (changed(burnt(), gpu_burn="/nonexistent/gpu_burn"), "inconclusive", "not installed"),
        "tool hangs": (changed(burnt(body="sleep 60"), timeout=1), "inconclusive", "still running after"),
        "tool killed": (burnt(body="kill -9 $$"), "inconclusive", "signal 9"),
        "noise": (burnt("lorem ipsum\n"), "inconclusive", "its last lines are not there"),
        "nothing": (burnt(" "), "inconclusive", "its last lines are not there"),
        "a flood": (burnt(body="exec yes proc"), "inconclusive", "gpu_burn"),
        "cut": (burnt(burning.output().partition("Tested")[0]), "inconclusive", "its last lines are not there"),
        "OK, and nothing computed": (burnt(burning.output(speed={5: "0"})), "inconclusive", "computed nothing"),
        "OK, and wrong results": (burnt(burning.output(errors={5: "-3"})), "fail", "GPU 5: 3 wrong results"),
        "slow": (burnt(burning.output(speed={5: "10"})), "fail", "GPU 5: 10 Gflop/s in burn"),
        "seven of eight": (burnt(burning.output(gpus=7)), "fail", "ran on 7 of 8 GPUs"),
        "unknown SKU": (changed(burnt(), profile=None), "inconclusive", "profile"),
        "half a profile": (changed(burnt(), profile={"schema": 1}), "inconclusive", "profile"),
    },
    program="gpu_burn",
    counted=lambda folder, gpus: burning.params(folder, burning.output(gpus=gpus)),
)

# -- a reference training ----------------------------------------------------------------------------------------------


def training(text: Optional[str] = None, **how: Any) -> Callable[[Path], Params]:
    return lambda folder: trained.params(folder, text, **how)


def left(text: Optional[str] = None, **how: Any) -> Callable[[Path], Params]:
    return lambda folder: trained.left(folder, text, **how)


TRAINING = Case(
    "training_gate",
    training_gate,
    training(),
    {
        "tool missing": (changed(training(), command=["/nonexistent/train"]), "inconclusive", "not installed"),
        "tool hangs": (changed(training(body="sleep 60"), timeout=1), "inconclusive", "still running after"),
        "tool killed": (training(body="kill -9 $$"), "inconclusive", "signal 9"),
        "noise": (training("lorem ipsum\n"), "inconclusive", "no step was seen"),
        "nothing": (training(" "), "inconclusive", "no step was seen"),
        "a flood": (training(body="exec yes iteration"), "inconclusive", "printed without an end"),
        "another run's old log": (training(trained.log(ms=7000)), "inconclusive", "its steps took 84.0 s"),
        "stops early": (training(trained.log(without=[12])), "inconclusive", "step 12 is missing"),
        "a step twice": (training(trained.log({7: trained.line(6)})), "inconclusive", "step 6 is told twice"),
        "no number": (training(trained.log({7: trained.line(7, "nan")})), "fail", "step 7 are no number"),
        "slow": (training(trained.log(ms=9.0)), "fail", "9 ms a step, wanted 8"),
        "a log of another node": (left(node="gpu0012"), "inconclusive", "does not name this node"),
        "a log without its end": (left(trained.log(last=())), "inconclusive", "does not tell its end"),
        "slow, as its log says": (left(trained.log(ms=9.0)), "fail", "9 ms a step, wanted 8"),
        "unknown SKU": (changed(training(), profile=None), "inconclusive", "profile"),
        "half a profile": (changed(training(), profile={"schema": 1}), "inconclusive", "profile"),
    },
    program="command",
    counted=None,
)

# -- hours under load --------------------------------------------------------------------------------------------------


def soak(**how: Any) -> Callable[[Path], Params]:
    return lambda folder: soaked.params(folder, **how)


SOAK = Case(
    SOAKS,
    soak_gate,
    soak(),
    {
        "tool missing": (changed(soak(), gpu_burn="/nonexistent/gpu_burn"), "inconclusive", "not installed"),
        "tool hangs": (changed(soak(body="sleep 60"), timeout=1), "inconclusive", "had not ended after"),
        "tool killed": (soak(body="kill -9 $$"), "inconclusive", "signal 9"),
        "noise": (soak(burn="lorem ipsum\n"), "inconclusive", "its last lines are not there"),
        "nothing": (soak(burn=" "), "inconclusive", "its last lines are not there"),
        "nvidia-smi missing": (
            changed(soak(gap_seconds=0.3), nvidia_smi="/nonexistent/nvidia-smi"),
            "inconclusive",
            "not installed",
        ),
        "hot": (soak(look=soaked.document({"temperature/gpu_temp": "93 C"})), "fail", "GPU 0: max temperature 93 C"),
        "GPUs that idle": (
            soak(look=soaked.document({"gpu_power_readings/average_power_draw": "70 W"})),
            "fail",
            "mean power 70 W",
        ),
        "no temperature": (
            soak(look=soaked.document({"temperature/gpu_temp": "N/A"})),
            "inconclusive",
            "temperature of GPU 0",
        ),
        "a row that could not be remapped": (
            soak(look=soaked.document({"remapped_rows/remapped_row_failure": "Yes"})),
            "fail",
            "remap",
        ),
        "a GPU off the bus": (
            soak(log=made.kmsg("NVRM: Xid (PCI:0000:9b:00): 79, pid=1, GPU has fallen off the bus.", step=998.0)),
            "fail",
            "fallen off the bus",
        ),
        "wrong results": (soak(burn=burning.output(errors={5: "-3"})), "fail", "GPU 5: 3 wrong results"),
        "seven of eight": (soak(burn=burning.output(gpus=7)), "fail", "ran on 7 of 8 GPUs"),
        "unknown SKU": (changed(soak(), profile=None), "inconclusive", "profile"),
        "half a profile": (changed(soak(), profile={"schema": 1}), "inconclusive", "profile"),
        "no section": (changed(soak(), profile=smi.profile()), "inconclusive", "has no section"),
    },
    program="gpu_burn",
    counted=lambda folder, gpus: soaked.params(folder, burn=burning.output(gpus=gpus)),
)

OF_THE_MACHINE = [CPU_MEMORY, GPU_BURN, NETWORK, SOAK, TRAINING]
