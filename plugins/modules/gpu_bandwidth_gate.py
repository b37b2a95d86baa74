#!/usr/bin/python
# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_bandwidth_gate
short_description: Judge a node by the bandwidths that nvbandwidth measures
version_added: "0.1.0"
description:
  - Runs C(nvbandwidth -j) on the node, and holds what each GPU reaches from and to the host, and with each other GPU,
    against the floors in the section C(gpu_bandwidth) of the SKU's profile.
  - It reads the matrices alone. The tool ends with 0 also where a case broke, calls C(Passed) what merely ran, and
    counts cells that are none in its own minimum.
  - A case that is missing, waived, told twice, or whose matrix is cut or holds no number is V(inconclusive); one that
    ended with an error is a failure. A pair of GPUs is blamed on both.
  - It loads the GPUs. It takes the node's lease and demands evidence that no job runs there.
  - While its tool runs no other gate of this collection loads the node's GPUs, also of a run that was killed. Where one
    does, it waits for 30 seconds, and is then V(inconclusive).
  - It needs nothing on the node but nvbandwidth and the Python standard library.
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
  nvbandwidth:
    description: The nvbandwidth program, 0.5 or newer.
    type: str
    default: nvbandwidth
  cases:
    description: The cases to run, each with a floor in the profile. Without any it runs all that the profile knows.
    type: list
    elements: str
  timeout:
    description: Seconds after which nvbandwidth is killed.
    type: int
    default: 600
  pci_path:
    description: Where the kernel shows the PCI devices. nvbandwidth does not tell which GPUs they are.
    type: path
    default: /sys/bus/pci/devices
author:
  - gpufleet.baremetal contributors (@gpufleet)
"""

EXAMPLES = r"""
- name: Fail a node with a GPU that is slow over PCIe or NVLink
  gpufleet.baremetal.gpu_bandwidth_gate:

- name: Measure what comes from the host alone
  gpufleet.baremetal.gpu_bandwidth_gate:
    cases: [host_to_device_memcpy_ce]
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
  sample: "gpu_bandwidth_gate: fail. GPU 5: 20.5 GB/s in host_to_device_memcpy_ce, wanted 48. Remedy: reseat"
checks:
  description: One entry a cell, each with id, entity, measured, wanted, unit, source and verdict.
  returned: always
  type: list
  elements: dict
  sample:
    - id: bandwidth.host_to_device_memcpy_ce
      entity: GPU 5
      measured: 20.5
      wanted: 48.0
      unit: GB/s
      source: Azure/azurehpc-health-checks 0e0a1ac2
      verdict: fail
findings:
  description: What is wrong, each with id, entity, text and remedy.
  returned: always
  type: list
  elements: dict
  sample:
    - id: bandwidth.host_to_device_memcpy_ce
      entity: GPU 5
      text: "GPU 5: 20.5 GB/s in host_to_device_memcpy_ce, wanted 48"
      remedy: reseat
remedy:
  description:
    - The heaviest remedy of the findings, one of V(none), V(retest), V(remediate_config), V(reset_gpu), V(reboot),
      V(power_cycle), V(fabric), V(reseat), V(field_diag) and V(rma).
  returned: always
  type: str
  sample: reseat
tool:
  description: Name and version of what measured.
  returned: always
  type: dict
  sample: {name: nvbandwidth, version: "0.8"}
argv:
  description: The command that was run.
  returned: always
  type: list
  elements: str
  sample: [nvbandwidth, -j, -t, host_to_device_memcpy_ce]
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
    - {what: gpu_bandwidth.cases.host_to_device_memcpy_ce.minimum, from: 48, to: 40, source: ten nodes of this site}
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
  sample: gpu_bandwidth_gate
kind:
  description:
    - V(profile_missing) or V(config) where nothing was measured, since the SKU has no profile, or one by which the gate
      cannot judge. That is the site's failure, for which no node is quarantined.
  returned: where the profile was in the way
  type: str
  sample: profile_missing
evidence_path:
  description: Where the raw outputs lie; empty without O(evidence_path).
  returned: when nvbandwidth was run
  type: str
  sample: /var/log/gpufleet/bandwidth.json
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_bandwidth.gate import gpu_bandwidth_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.specs import GPU_BANDWIDTH_GATE
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import refusal


def main() -> None:
    module = AnsibleModule(argument_spec=GPU_BANDWIDTH_GATE, supports_check_mode=True)
    ctx = Context(check_mode=module.check_mode, diff=module._diff)
    try:
        result = gpu_bandwidth_gate(module.params, ctx).as_dict(ctx)
    except FleetError as exc:
        module.fail_json(**exc.as_result())
    if refusal(result, module.params["fail_on"], check_mode=module.check_mode):
        module.fail_json(**result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
