#!/usr/bin/python
# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: collective_gate
short_description: Judge a node by the collectives of nccl-tests or rccl-tests over all of its GPUs
version_added: "0.1.0"
description:
  - Runs programs of nccl-tests, such as C(all_reduce_perf), over all GPUs of the node in one process, and holds the bus
    bandwidth against the floors in the section C(collective) of the SKU's profile. Where these say C(library=rccl), the
    programs are those of rccl-tests, and the GPUs are AMD's.
  - Each floor says which sizes and which algorithm it is of, and so does the check. What NCCL reaches with NVLS, where
    the NVSwitches add up, is no figure of the links or of the network, and is compared with its own floor alone.
  - The rows of the table are judged, each size in and out of place; the average that nccl-tests prints is over all
    sizes, and its own limit lets a tenth pass.
  - Values that arrived wrong fail the node. A table that was cut, whose values nobody checked, or that is of other
    sizes is V(inconclusive).
  - It loads the GPUs. It takes the node's lease and demands evidence that no job runs there.
  - While its tool runs no other gate of this collection loads the node's GPUs, also of a run that was killed. Where one
    does, it waits for 30 seconds, and is then V(inconclusive).
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
  nccl_tests:
    description:
      - The folder of the programs of nccl-tests, or of rccl-tests. Without one they are looked for in the search path.
    type: path
  tests:
    description: The collectives to run, each with a floor in the profile. Without any it runs all of the profile.
    type: list
    elements: str
  timeout:
    description: Seconds for all of them together.
    type: int
    default: 900
  pci_path:
    description: Where the kernel shows the PCI devices. nccl-tests does not tell which GPUs they are.
    type: path
    default: /sys/bus/pci/devices
author:
  - gpufleet.baremetal contributors (@gpufleet)
"""

EXAMPLES = r"""
- name: Fail a node whose GPUs are slow together
  gpufleet.baremetal.collective_gate:
    nccl_tests: /opt/nccl-tests/build
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
  sample: "collective_gate: fail. all_reduce: 402 GB/s busbw, 8 to 16 GiB, default, wanted 460. Remedy: field_diag"
checks:
  description: One entry a cell, each with id, entity, measured, wanted, unit, source and verdict.
  returned: always
  type: list
  elements: dict
  sample:
    - id: all_reduce.busbw
      entity: node
      measured: 402.0
      wanted: 460.0
      unit: GB/s busbw, 8 to 16 GiB, default
      source: Azure/azurehpc-health-checks 0e0a1ac2
      verdict: fail
findings:
  description: What is wrong, each with id, entity, text and remedy.
  returned: always
  type: list
  elements: dict
  sample:
    - id: all_reduce.busbw
      entity: node
      text: "all_reduce: 402 GB/s busbw, 8 to 16 GiB, default, wanted 460"
      remedy: field_diag
remedy:
  description:
    - The heaviest remedy of the findings, one of V(none), V(retest), V(remediate_config), V(reset_gpu), V(reboot),
      V(power_cycle), V(fabric), V(reseat), V(field_diag) and V(rma).
  returned: always
  type: str
  sample: field_diag
tool:
  description: What measured, and the version of NCCL or RCCL.
  returned: always
  type: dict
  sample: {name: nccl-tests, version: 2.23.4}
argv:
  description: The command that was run.
  returned: always
  type: list
  elements: str
  sample: [all_reduce_perf, -b, "8589934592", -e, "17179869184", -f, "2", -g, "8", -c, "1", -w, "5", -n, "20"]
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
    - {what: collective.tests.all_reduce.minimum, from: 460, to: 430, source: ten nodes of this site}
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
  sample: collective_gate
kind:
  description:
    - V(profile_missing) or V(config) where nothing was measured, since the SKU has no profile, or one by which the gate
      cannot judge. That is the site's failure, for which no node is quarantined.
  returned: where the profile was in the way
  type: str
  sample: profile_missing
evidence_path:
  description: Where the raw outputs lie; empty without O(evidence_path).
  returned: when nccl-tests was run
  type: str
  sample: /var/log/gpufleet/collective.json
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.collective.gate import collective_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.specs import COLLECTIVE_GATE
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import refusal


def main() -> None:
    module = AnsibleModule(argument_spec=COLLECTIVE_GATE, supports_check_mode=True)
    ctx = Context(check_mode=module.check_mode, diff=module._diff)
    try:
        result = collective_gate(module.params, ctx).as_dict(ctx)
    except FleetError as exc:
        module.fail_json(**exc.as_result())
    if refusal(result, module.params["fail_on"], check_mode=module.check_mode):
        module.fail_json(**result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
