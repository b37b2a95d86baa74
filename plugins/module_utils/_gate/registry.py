# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What verbs must know of each gate: one waits for detached ones, one looks before a run, one makes profiles. PRIVATE.

PRIVATE to the collection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.collective import known_good as of_collective
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.collective import paired as collectives
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.collective.section import floors_of as of_floors
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.cpu_memory.section import section_of as of_cpus
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.claimed import (
    asked,
    lacking,
    own,
    question_of,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.gate import limit_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.section import section_of as of_dcgm
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_bandwidth import (
    known_good as of_bandwidth,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_bandwidth.section import (
    floors_of as of_cases,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_burn.gate import gpu_burn_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_burn.section import burns_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state import known_good as of_gpus
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.gate import gpu_state_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.section import (
    section_of as of_gpu_state,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log.earlier import earlier_boot_log
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log.gate import kernel_log_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network import paired as speeds
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network.section import section_of as of_network
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network.speeds import places_of, speeds_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.pair.shell import lock
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.shown import Looks, Measures
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.soak import claimed as of_soak
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.soak.gate import soak_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.soak.made_of import Parts
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.storage.section import section_of as of_storage
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.together import Test
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.training.section import training_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.watch import Asked, Knows, Lacking
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Result

Needs = Callable[[Mapping[str, Any], Wanted], object]
#: What a claimed pass lacks of the cells that its question demands, by the gate's name.
LACKING: Mapping[str, Lacking] = {"dcgm_gate": lacking, "soak_gate": of_soak.lacking}
#: What its verdict was asked, of the question that the start of its job tells.
ASKED: Mapping[str, Asked] = {"dcgm_gate": asked, "soak_gate": of_soak.asked}
#: What the gate knows of a pass that lacks nothing.
OWN: Mapping[str, Knows] = {"dcgm_gate": own, "soak_gate": of_soak.own}
#: Of a gate that runs in jobs of a scheduler: for how many seconds one may, by its options, and what that is asked.
IN_JOBS: Mapping[str, tuple[Callable[[Mapping[str, Any]], float], Callable[[Mapping[str, Any]], dict[str, Any]]]] = {
    "dcgm_gate": (limit_of, question_of)
}
#: How a known-good node is looked at, of which a profile is made.
LOOKS: Looks = of_gpus.LOOKS
#: Of the gates whose figures may be floors of a profile: how their verdicts tell them.
MEASURES: Mapping[str, Measures] = {
    "gpu_bandwidth_gate": of_bandwidth.MEASURES,
    "collective_gate": of_collective.MEASURES,
}


def _burns(wanted: Wanted, names: Sequence[str]) -> list[str]:
    return [burn.name for burn in burns_of(wanted, names)]


def _seconds(wanted: Wanted, name: str) -> float:
    return float(sum(burn.seconds for burn in burns_of(wanted, [name])))


#: What a soak runs, of other gates.
SOAKED = Parts(gpu_burn_gate, _burns, gpu_state_gate, of_gpu_state, kernel_log_gate, earlier_boot_log, _seconds)
#: The gate itself, with them.
SOAK_GATE: Callable[[Mapping[str, Any], Context], Result] = partial(soak_gate, parts=SOAKED)


def tests_between(options: Mapping[str, Any], wanted: Wanted, names: Sequence[str]) -> list[Test]:
    """What is measured between nodes, all that the profile has or what of it is named. options: of the gate.

    :raises ConfigError: where the profile has nothing of it, or none that is named.
    """
    programs = {name: str(options.get(name) or name) for name in ("iperf3", "ib_write_bw")}
    folder, mpirun = str(options.get("nccl_tests") or ""), [str(word) for word in options["mpirun"]]
    started = collectives.Started(mpirun, lock(str(options["pci_path"])), folder, float(options["timeout"]))
    every = [*speeds.tests_of(wanted, programs), *collectives.tests_of(wanted, started)]
    found = {test.name: test for test in every}
    twice = sorted({test.name for test in every if found[test.name] is not test})
    if twice:
        raise ConfigError(
            f"the SKU profile {wanted.sku} has two measurements between nodes of one name: {', '.join(twice)}",
            wanted="a name of its own for each, in network.speeds and collective.fabric together",
            do="name them apart in the profile",
        )
    missing = sorted(set(names) - set(found))
    if missing or not found:
        raise ConfigError(
            f"the SKU profile {wanted.sku} has nothing to measure between nodes: {', '.join(missing) or 'of any name'}",
            wanted=", ".join(sorted(found)) or "network.speeds or collective.fabric",
            do="add it to the profile; docs/how-to/measure-between-nodes.md shows how",
        )
    return [test for name, test in found.items() if not names or name in names]


def _of(read: Callable[[Wanted, Sequence[str]], object], option: str = "tests") -> Needs:
    """What reads those that an option names, or all."""

    def needs(options: Mapping[str, Any], wanted: Wanted) -> None:
        read(wanted, [str(name) for name in options.get(option) or []])

    return needs


def _network(options: Mapping[str, Any], wanted: Wanted) -> None:
    of_network(wanted, [str(name) for name in options.get("tests") or []])
    places_of(speeds_of(wanted, options.get("speeds") or []), options.get("servers") or {})


def _between(options: Mapping[str, Any], wanted: Wanted) -> None:
    tests_between(options, wanted, [str(name) for name in options.get("tests") or []])


#: What each gate needs of a profile, by its options: raises where that is lacking.
NEEDS: Mapping[str, Needs] = {
    "collective_gate": _of(of_floors),
    "cpu_memory_gate": _of(of_cpus),
    "dcgm_gate": lambda _options, wanted: of_dcgm(wanted),
    "gpu_bandwidth_gate": _of(of_cases, "cases"),
    "gpu_burn_gate": _of(burns_of),
    "gpu_state_gate": lambda _options, wanted: of_gpu_state(wanted),
    "kernel_log_gate": lambda _options, _wanted: None,
    "network_gate": _network,
    "pair_gate": _between,
    "soak_gate": lambda options, wanted: SOAKED.needs(wanted, options.get("tests") or []),
    "storage_gate": _of(of_storage),
    "training_gate": lambda options, wanted: training_of(wanted, str(options.get("test") or "")),
}
