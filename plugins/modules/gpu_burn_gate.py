#!/usr/bin/python
# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_burn_gate
short_description: Judge a node by what its GPUs compute under full load
version_added: "0.1.0"
description:
  - Runs gpu-burn over all GPUs of the node, and holds what it prints against the section C(gpu_burn) of the SKU's
    profile. Each GPU must be told C(OK), must have computed nothing wrong in any line, and must have reached its speed.
  - The exit status of gpu-burn is always 0, and it says C(OK) of a GPU on which nothing was computed. So the word alone
    is no pass. A GPU without a speed, a count of errors below nothing, progress that did not come to its end, or last
    lines that are missing, are none either.
  - It loads the GPUs with all their power. It takes the node's lease and demands evidence that no job runs there.
  - It needs nothing on the node but gpu-burn with its compare kernel, built for these GPUs, and the Python standard
    library.
extends_documentation_fragment:
  - gpufleet.baremetal.attributes
  - gpufleet.baremetal.ledger
  - gpufleet.baremetal.gate
  - gpufleet.baremetal.verdict
attributes:
  check_mode:
    support: full
    details: It would load the GPUs, so that it is not run, and its verdict is V(inconclusive).
  diff_mode:
    support: none
options:
  gpu_burn:
    description: The gpu-burn program.
    type: str
    default: gpu_burn
  compare:
    description:
      - Its compare kernel, C(compare.ptx) or C(compare.fatbin). Without it gpu-burn looks in the working directory.
    type: path
  tests:
    description: The burns to run, each by its name in the profile. Without any it runs all that the profile knows.
    type: list
    elements: str
  timeout:
    description: Seconds after which the gate ends gpu-burn; all burns together must fit into it.
    type: int
    default: 3600
  pci_path:
    description: Where the kernel lists the PCI devices, of which the gate counts the GPUs of the SKU.
    type: path
    default: /sys/bus/pci/devices
author:
  - gpufleet.baremetal contributors (@gpufleet)
"""

EXAMPLES = r"""
- name: Fail a node whose GPUs compute wrong, or too slowly
  gpufleet.baremetal.gpu_burn_gate:
    gpu_burn: /opt/gpu-burn/gpu_burn
    compare: /opt/gpu-burn/compare.ptx
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
  sample: "gpu_burn_gate: fail. GPU 5: 12 wrong results in burn. Remedy: field_diag"
checks:
  description: One entry a cell, each with id, entity, measured, wanted, unit, source and verdict.
  returned: always
  type: list
  elements: dict
  sample:
    - id: burn.errors
      entity: GPU 5
      measured: 12
      wanted: 0
      unit: ""
      source: "own rule: what computes wrong is broken"
      verdict: fail
findings:
  description: What is wrong, each with id, entity, text and remedy.
  returned: always
  type: list
  elements: dict
  sample:
    - id: burn.errors
      entity: GPU 5
      text: "GPU 5: 12 wrong results in burn"
      remedy: field_diag
remedy:
  description:
    - The heaviest remedy of the findings, one of V(none), V(retest), V(remediate_config), V(reset_gpu), V(reboot),
      V(power_cycle), V(fabric), V(reseat), V(field_diag) and V(rma).
  returned: always
  type: str
  sample: field_diag
tool:
  description: Name and version of what measured.
  returned: always
  type: dict
  sample: {name: gpu-burn, version: ""}
argv:
  description: The commands that were run, one after the other.
  returned: always
  type: list
  elements: str
  sample: [gpu_burn, -tc, -m, "90%", "300"]
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
  sample: gpu_burn_gate
kind:
  description:
    - V(profile_missing) or V(config) where nothing was measured, since the SKU has no profile, or one by which the gate
      cannot judge. That is the site's failure, for which no node is quarantined.
  returned: where the profile was in the way
  type: str
  sample: profile_missing
evidence_path:
  description: Where the raw outputs lie; empty without O(evidence_path).
  returned: when gpu-burn was run
  type: str
  sample: /var/log/gpufleet/gpu_burn.json
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_burn.gate import gpu_burn_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.specs import GPU_BURN_GATE
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import refusal


def main() -> None:
    module = AnsibleModule(argument_spec=GPU_BURN_GATE, supports_check_mode=True)
    ctx = Context(check_mode=module.check_mode, diff=module._diff)
    try:
        result = gpu_burn_gate(module.params, ctx).as_dict(ctx)
    except FleetError as exc:
        module.fail_json(**exc.as_result())
    if refusal(result, module.params["fail_on"], check_mode=module.check_mode):
        module.fail_json(**result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
