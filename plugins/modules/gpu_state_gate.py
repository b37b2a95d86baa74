#!/usr/bin/python
# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_state_gate
short_description: Judge a node by what nvidia-smi or amd-smi tells of each of its GPUs
version_added: "0.1.0"
description:
  - Asks C(nvidia-smi -q -x) what the driver knows of each GPU, and C(nvidia-smi nvlink) of its links, and holds that
    against the profile of the SKU.
  - It looks at how many GPUs there are and which, at ECC, row remapping, retired pages, PCIe, clocks, power, memory,
    MIG, persistence, the fabric of the NVSwitches, NVLinks, and at what the driver itself asks for.
  - The section C(gpu_state) of the profile names the cells that each GPU must fill. A value that is missing, C(N/A),
    C(Not Supported), C(ERR!) or any word that nobody knows fills none, and is V(inconclusive). What tells of broken
    hardware fails the node also where the profile does not demand it.
  - Of AMD's GPUs it asks C(amd-smi list), C(static), C(metric) and C(bad-pages), where the section says C(tool)
    V(amd-smi); it looks at uncorrected and deferred errors, bad pages, partitions, memory, power and PCIe.
  - An idle PCIe link that has stepped down to save power is no failure; what it trained for is judged, and under load
    what it runs at. Clocks that are low since a loaded GPU has reached its power limit are none either; a limit
    below that of the profile is, where its cell C(power) is demanded.
  - A second look around a load is given what the first has counted (O(before)), and judges what was added since.
  - It only looks, takes no lease, and needs nothing but the Python standard library on the node.
extends_documentation_fragment:
  - gpufleet.baremetal.attributes
  - gpufleet.baremetal.ledger
  - gpufleet.baremetal.gate
  - gpufleet.baremetal.verdict
attributes:
  check_mode:
    support: full
    details: It only reads.
  diff_mode:
    support: none
options:
  nvidia_smi:
    description: The nvidia-smi program.
    type: str
    default: nvidia-smi
  amd_smi:
    description: The amd-smi program.
    type: str
    default: amd-smi
  timeout:
    description: Seconds for all calls of the tool together. A GPU that hangs makes it hang.
    type: int
    default: 120
  again_timeout:
    description:
      - Seconds during which a value that the driver could not read just now (C(ERR!), C(Unknown Error)), or a GPU that
        is slowed down just now, is looked at again. The last look counts. V(0) looks once.
    type: int
    default: 10
  before:
    description:
      - What an earlier look has counted, its RV(counters). Each GPU then has one more cell, C(counted_since) - it must
        be the same GPU in the same boot, and have counted no uncorrected error, no remapped row, no error of an NVLink
        and no time in which the hardware slowed it down since then. A counter that is lower than before was reset, and
        is V(inconclusive).
    type: list
    elements: dict
author:
  - gpufleet.baremetal contributors (@gpufleet)
"""

EXAMPLES = r"""
- name: Fail a node whose driver knows of a broken GPU
  gpufleet.baremetal.gpu_state_gate:
  register: state

- name: Load the GPUs
  gpufleet.baremetal.dcgm_gate:
    level: 3

- name: Fail a node of which the load has shaken something loose
  gpufleet.baremetal.gpu_state_gate:
    before: "{{ state.counters }}"
"""

RETURN = r"""
verdict:
  description: V(pass) only if everything that the profile requires was measured and passes.
  returned: always
  type: str
  sample: fail
msg:
  description: The verdict, the worst findings and the remedy in one sentence.
  returned: always
  type: str
  sample: "gpu_state_gate: fail. GPU 1 (0000:43:00): a row remap failed. Remedy: rma"
checks:
  description: One entry a cell, each with id, entity, measured, wanted, unit, source and verdict.
  returned: always
  type: list
  elements: dict
  sample:
    - id: row_remap
      entity: GPU 1
      measured: "Yes"
      wanted: "No"
      unit: ""
      source: NVIDIA GPU memory error management
      verdict: fail
findings:
  description: What is wrong, each with id, entity, text and remedy.
  returned: always
  type: list
  elements: dict
  sample:
    - {id: gpu.row_remap, entity: GPU 1, text: "GPU 1 (0000:43:00): a row remap failed", remedy: rma}
remedy:
  description:
    - The heaviest remedy of the findings, one of V(none), V(retest), V(remediate_config), V(reset_gpu), V(reboot),
      V(power_cycle), V(fabric), V(reseat), V(field_diag) and V(rma).
  returned: always
  type: str
  sample: rma
tool:
  description: Name of what measured, and version of the driver.
  returned: always
  type: dict
  sample: {name: nvidia-smi, version: 580.105.08}
argv:
  description: The command that was run.
  returned: always
  type: list
  elements: str
  sample: [nvidia-smi, -q, -x]
started:
  description: When the gate began, UTC.
  returned: always
  type: str
  sample: "2026-11-20T10:00:00Z"
ended:
  description: When it ended, UTC.
  returned: always
  type: str
  sample: "2026-11-20T10:00:04Z"
duration:
  description: How many seconds it took.
  returned: always
  type: float
  sample: 4.2
weakened:
  description:
    - What the profile of the site demands less of this gate than the one that is shipped for the SKU, a row each with
      C(what), C(from), C(to), and the C(source) that the site's profile gives for it, or its own place for what it
      leaves out. A change of which nobody knows that it demands no less is among them. At most 50 are told.
  returned: where a profile of the site, or the option O(profile), demands less than a shipped one of the same SKU
  type: list
  elements: dict
  sample:
    - {what: gpu.count, from: 8, to: 7, source: ten nodes of this site}
evidence_digest:
  description: SHA-256 over the raw outputs, exit statuses included.
  returned: always
  type: str
  sample: "sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"
profile:
  description: SKU and digest of the profile that was applied.
  returned: always
  type: dict
  sample: {sku: h100-sxm-8, digest: "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}
schema:
  description: Version of this shape.
  returned: always
  type: int
  sample: 1
gate:
  description: Name of the gate.
  returned: always
  type: str
  sample: gpu_state_gate
kind:
  description:
    - V(profile_missing) or V(config) where nothing was measured, since the SKU has no profile, or one by which the gate
      cannot judge. That is the site's failure, for which no node is quarantined.
  returned: where the profile was in the way
  type: str
  sample: profile_missing
gpus:
  description: The GPUs in the order of nvidia-smi, each with number, UUID, PCI device id and PCI address.
  returned: when nvidia-smi was run
  type: list
  elements: dict
  sample:
    - gpu: 0
      uuid: GPU-3f0d4c4e-0a9e-4f7c-8f0e-2f6f4b1d9a51
      device: "2330"
      address: "00000000:1B:00.0"
counters:
  description: What each GPU has counted so far, for the option O(before) of a later look.
  returned: when nvidia-smi was run
  type: list
  elements: dict
  sample:
    - gpu: 0
      uuid: GPU-3f0d4c4e-0a9e-4f7c-8f0e-2f6f4b1d9a51
      boot_id: 3f0d4c4e-0a9e-4f7c-8f0e-2f6f4b1d9a51
      uptime: 812.4
      ecc_volatile_dram: 0
      hw_thermal_us: 0
readings:
  description: What each GPU shows just now, in W, degrees Celsius and MHz; what it does not tell is not there.
  returned: when nvidia-smi was run
  type: list
  elements: dict
  sample:
    - gpu: 0
      uuid: GPU-3f0d4c4e-0a9e-4f7c-8f0e-2f6f4b1d9a51
      power: 70.12
      temperature: 34.0
      memory_temperature: 44.0
      clock: 1980.0
      memory_clock: 2619.0
evidence_path:
  description: Where the raw outputs lie; empty without O(evidence_path).
  returned: when nvidia-smi was run
  type: str
  sample: /var/log/gpufleet/gpu_state.json
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.gate import gpu_state_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.specs import GPU_STATE_GATE
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import refusal


def main() -> None:
    module = AnsibleModule(argument_spec=GPU_STATE_GATE, supports_check_mode=True)
    ctx = Context(check_mode=module.check_mode, diff=module._diff)
    try:
        result = gpu_state_gate(module.params, ctx).as_dict(ctx)
    except FleetError as exc:
        module.fail_json(**exc.as_result())
    if refusal(result, module.params["fail_on"], check_mode=module.check_mode):
        module.fail_json(**result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
