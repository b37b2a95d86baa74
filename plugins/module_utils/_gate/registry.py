# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What verbs must know of each gate: one waits for detached ones, one looks before a run, one makes profiles. PRIVATE.

PRIVATE to the collection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.collective import known_good as of_collective
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.cpu_memory.section import NAME as CPU_MEMORY
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.claimed import asked, lacking, own
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.section import section_of as of_dcgm
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_bandwidth import (
    known_good as of_bandwidth,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_burn.section import NAME as GPU_BURN
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state import known_good as of_gpus
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.section import (
    section_of as of_gpu_state,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network.section import NAME as NETWORK
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.shown import Looks, Measures
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.storage.section import NAME as STORAGE
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.training.section import NAME as TRAINING
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.watch import Asked, Knows, Lacking

#: What a claimed pass lacks of the cells that its question demands, by the gate's name.
LACKING: Mapping[str, Lacking] = {"dcgm_gate": lacking}
#: What its verdict was asked, of the question that the start of its job tells.
ASKED: Mapping[str, Asked] = {"dcgm_gate": asked}
#: What the gate knows of a pass that lacks nothing.
OWN: Mapping[str, Knows] = {"dcgm_gate": own}
#: Of the gates that the role ``gate`` runs: what reads its part of a profile, and raises where that is lacking, and the
#: setting that leaves the gate out.
SECTIONS: Mapping[str, tuple[Callable[[Wanted], object], str]] = {
    "dcgm_gate": (of_dcgm, ""),
    "gpu_state_gate": (of_gpu_state, "gate_gpu_state"),
}
#: How a known-good node is looked at, of which a profile is made.
LOOKS: Looks = of_gpus.LOOKS
#: Of the gates whose figures may be floors of a profile: how their verdicts tell them.
MEASURES: Mapping[str, Measures] = {
    "gpu_bandwidth_gate": of_bandwidth.MEASURES,
    "collective_gate": of_collective.MEASURES,
}
#: Sections that neither a look nor a verdict tells: whoever wrote one into a profile keeps it.
KEPT = (CPU_MEMORY, GPU_BURN, NETWORK, STORAGE, TRAINING)
