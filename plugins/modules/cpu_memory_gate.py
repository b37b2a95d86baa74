#!/usr/bin/python
# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cpu_memory_gate
short_description: Judge a node by its CPUs and its memory, at rest and under load
version_added: "0.1.0"
description:
  - Holds CPUs and memory of the node against the section C(cpu_memory) of the SKU's profile, how many CPUs, sockets and
    GiB of memory the kernel shows, how many memory errors (EDAC) and machine check exceptions it has counted, and what
    C(stress-ng --verify) finds while it loads each CPU and fills the memory.
  - Corrected memory errors are counted under load, from what was counted before it. An error that could not be
    corrected fails the node, whenever it was.
  - The exit status 0 of stress-ng proves nothing. It also ends so where it did nothing, or got no memory that it could
    fill. So each load must tell what it did, for how long and in how much memory, and the kernel must have
    seen each CPU work, and no process killed for want of memory.
  - It loads the whole node. It takes the node's lease and demands evidence that no job runs there, but for
    O(tests=[health]), which only looks.
  - It needs nothing on the node but stress-ng 0.14 or newer, and the Python standard library. It has to be root.
extends_documentation_fragment:
  - gpufleet.baremetal.attributes
  - gpufleet.baremetal.ledger
  - gpufleet.baremetal.gate
  - gpufleet.baremetal.verdict
attributes:
  check_mode:
    support: full
    details: It would load the node, so that it is not run, and its verdict is V(inconclusive), but for a mere look.
  diff_mode:
    support: none
options:
  tests:
    description:
      - The loads to run, each by its name in the profile. Without any it runs all that the profile knows.
      - The look at what the kernel shows and counts is made in any case; V(health) alone is that look, and nothing
        else.
    type: list
    elements: str
  stress_ng:
    description: The stress-ng program, 0.14 or newer.
    type: str
    default: stress-ng
  hpl:
    description:
      - The command that starts HPL where the profile has C(solves), with V({ranks}) where the number of ranks belongs.
        It is run in a folder of its own that has C(HPL.dat), and that is removed afterwards.
    type: list
    elements: str
    default: [mpirun, --allow-run-as-root, -np, "{ranks}", xhpl]
  timeout:
    description: Seconds after which the gate ends stress-ng and HPL; all of them together must fit into it.
    type: int
    default: 1800
  sysfs_path:
    description: Where the kernel shows CPUs, NUMA nodes and memory controllers.
    type: path
    default: /sys
  proc_path:
    description: Where the kernel tells how much memory there is, what each CPU did, and which exceptions there were.
    type: path
    default: /proc
author:
  - gpufleet.baremetal contributors (@gpufleet)
"""

EXAMPLES = r"""
- name: Fail a node whose CPUs or memory err under load
  gpufleet.baremetal.cpu_memory_gate:
    timeout: 3600

- name: Look at the counters of a node that is in service
  gpufleet.baremetal.cpu_memory_gate:
    tests: [health]
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
  sample: "cpu_memory_gate: fail. mc3: 2 uncorrected memory errors in CPU1_DIMM_B2. Remedy: rma"
checks:
  description: One entry a cell, each with id, entity, measured, wanted, unit, source and verdict.
  returned: always
  type: list
  elements: dict
  sample:
    - id: corrected_errors
      entity: mc3
      measured: 0
      wanted: 0
      unit: under load
      source: maintenance contract of the site
      verdict: pass
findings:
  description: What is wrong, each with id, entity, text and remedy.
  returned: always
  type: list
  elements: dict
  sample:
    - id: uncorrected_errors
      entity: mc3
      text: "mc3: 2 uncorrected memory errors in CPU1_DIMM_B2"
      remedy: rma
remedy:
  description:
    - The heaviest remedy of the findings, one of V(none), V(retest), V(remediate_config), V(reset_gpu), V(reboot),
      V(power_cycle), V(fabric), V(reseat), V(field_diag) and V(rma).
  returned: always
  type: str
  sample: rma
tool:
  description: Name and version of what measured.
  returned: always
  type: dict
  sample: {name: stress-ng, version: "0.15.06"}
argv:
  description: The first command that was run; the others are in the evidence.
  returned: always
  type: list
  elements: str
  sample: [stress-ng, --cpu, "192", --cpu-method, all, --verify, --timeout, 60s, --metrics, --yaml, /dev/stdout]
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
  description: SHA-256 over what the kernel told and the raw outputs, exit statuses included.
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
  sample: cpu_memory_gate
kind:
  description:
    - V(profile_missing) or V(config) where nothing was measured, since the SKU has no profile, or one by which the gate
      cannot judge. That is the site's failure, for which no node is quarantined.
  returned: where the profile was in the way
  type: str
  sample: profile_missing
evidence_path:
  description: Where the raw outputs lie; empty without O(evidence_path).
  returned: when the node was looked at
  type: str
  sample: /var/log/gpufleet/cpu_memory.json
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.cpu_memory.gate import cpu_memory_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.specs import CPU_MEMORY_GATE
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import refusal


def main() -> None:
    module = AnsibleModule(argument_spec=CPU_MEMORY_GATE, supports_check_mode=True)
    ctx = Context(check_mode=module.check_mode, diff=module._diff)
    try:
        result = cpu_memory_gate(module.params, ctx).as_dict(ctx)
    except FleetError as exc:
        module.fail_json(**exc.as_result())
    if refusal(result, module.params["fail_on"], check_mode=module.check_mode):
        module.fail_json(**result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
