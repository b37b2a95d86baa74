#!/usr/bin/python
# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: dcgm_gate
short_description: Judge the GPUs of a node by NVIDIA's DCGM diagnostic
version_added: "0.1.0"
description:
  - Runs C(dcgmi diag) on the node, reads every JSON shape of DCGM 2, 3 and 4, and judges it against the node's SKU
    profile.
  - It fails closed. The verdict is V(pass) only if each test that the profile requires was run on each GPU that the
    profile counts and says so, and the exit status agrees. A missing tool, a time limit, noise, a skipped test, a
    missing GPU, an unknown word and an unknown SKU are no pass.
  - The remedy comes from a table of this collection by DCGM error id, not from DCGM's severity.
  - dcgmi runs in a session of its own, with standard error apart, and is killed with its children at the deadline. No
    option is given to it that its version lacks.
  - When all GPUs fail a test together, each is asked alone, where dcgmi can (3.3 and newer). When C(nvbandwidth)
    alone fails in a row of tests, as the copy engine was still busy with the one before, it is run once more by itself.
  - The test C(pcie) is told which generation and width the profile knows of the PCIe links, and fails a GPU whose link
    has less under its load.
  - Level 1 and the test C(software) only look. Everything else loads the GPUs, and is destructive to running work - it
    demands the node's lease and fresh evidence that the node is drained.
  - While it loads them no other gate of this collection does, also of a run that was killed. Where one does, it waits
    for 30 seconds, and is then V(inconclusive).
  - Nothing but the Python standard library is needed on the node.
extends_documentation_fragment:
  - gpufleet.baremetal.attributes
  - gpufleet.baremetal.ledger
  - gpufleet.baremetal.gate
  - gpufleet.baremetal.verdict
attributes:
  check_mode:
    support: partial
    details: Level 1 runs, as it only looks. What would load the GPUs does not run and is V(inconclusive), without
      failing the host.
  diff_mode:
    support: none
options:
  level:
    description: The level of C(dcgmi diag -r). 1 takes seconds, 2 two minutes, 3 a quarter of an hour, 4 hours.
    type: int
    choices: [1, 2, 3, 4]
    default: 1
  tests:
    description:
      - Tests by name instead of a level, in the spelling of DCGM 4, for instance V(memory) or V(nvbandwidth).
      - Each of them is then required on each GPU.
    type: list
    elements: str
  timeout:
    description:
      - Seconds after which the diagnostic is killed. Without it 300 for level 1, 900 for level 2, 3600 for level 3 and
        for names, 14400 for level 4.
    type: int
  busy_timeout:
    description: Seconds to try again while DCGM says that another diagnostic runs.
    type: int
    default: 60
  localise_timeout:
    description: Seconds for asking each GPU alone after all failed together; V(0) leaves it out.
    type: int
    default: 600
  health:
    description:
      - Asks DCGM's health watches as well (C(dcgmi health -c -j)), which tell of NVLinks, memory, temperature, power,
        the driver and the InfoROM what no test loads. Where nobody has set them they are set before the diagnostic, and
        cleared after it. They say nothing in their first minute, so a run takes that long at least.
      - What they call a failure fails the node, and a warning is V(inconclusive). dcgmi ends with 0 in either case.
      - It changes what the host engine watches, so it demands the node's lease also at level 1.
    type: bool
    default: false
  dcgmi:
    description: The dcgmi program.
    type: str
    default: dcgmi
  pci_path:
    description: Where the kernel tells which device stands at a PCI address; looked at where dcgmi does not say it.
    type: path
    default: /sys/bus/pci/devices
  detached:
    description:
      - Starts the diagnostic in a process of its own on the node, and returns at once. What comes of it is a matter
        for M(gpufleet.baremetal.gate_wait), then for O(collect).
      - A second start of the same O(job) joins the first while it runs, and finds its verdict when it has ended. So a
        run that was killed goes on with the same diagnostics. A verdict older than an hour is not taken, and the job
        is run once more.
      - Lease and evidence are demanded as ever, before anything is sent to the node.
    type: bool
    default: false
  job:
    description:
      - Name of the job of O(detached), which is the name of its files.
      - Without it the action derives one from what the ledger knows of the node's last imaging or validation, from
        O(level), O(tests) and the profile.
    type: str
  state_dir:
    description:
      - Folder of the jobs on the node. It is made for the task's user alone, and refused where anybody else could
        write there.
    type: path
    default: /run/gpufleet
  collect:
    description:
      - Name of a registered result of M(gpufleet.baremetal.gate_wait). Nothing is run, and the node is not asked; this
        host's verdict is read from the ledger, where the wait recorded it, and fails the host by O(fail_on).
      - Mutually exclusive with O(detached).
    type: str
author:
  - gpufleet.baremetal contributors (@gpufleet)
"""

EXAMPLES = r"""
- name: Look at the GPUs, without loading them
  gpufleet.baremetal.dcgm_gate:
    level: 1

- name: Diagnose a drained node for a quarter of an hour, and decide later
  gpufleet.baremetal.dcgm_gate:
    level: 3
    fail_on: never
  register: diagnosis

- name: Start long diagnostics that hold no fork
  gpufleet.baremetal.dcgm_gate:
    level: 3
    detached: true
  register: started

- name: Wait for the whole batch in one task
  gpufleet.baremetal.gate_wait:
    after: started
  run_once: true
  register: diagnosed

- name: Fail the hosts that did not pass
  gpufleet.baremetal.dcgm_gate:
    collect: diagnosed

- name: Say what is wrong
  ansible.builtin.debug:
    var: diagnosis.findings
"""

RETURN = r"""
job:
  description: Name of the job.
  returned: with O(detached)
  type: str
  sample: dcgm-2c26b46b68ffc68ff99b453c1d304134
joined:
  description: Whether the job was there already, running or ended.
  returned: with O(detached)
  type: bool
after_event:
  description: The number of the ledger's newest event when the job began, or an earlier one; 0 without any.
  returned: with O(detached)
  type: int
looked_at:
  description: When that was, in seconds since the epoch by the ledger's clock. Ages of verdicts begin here.
  returned: with O(detached)
  type: float
  sample: 1793613120.52
pid:
  description: The process on the node that runs the diagnostic; with it come C(pid_start), C(boot_id), C(limit),
    C(state_dir) and C(boot_id_path), from which M(gpufleet.baremetal.gate_wait) recognises it.
  returned: with O(detached)
  type: int
verdict:
  description: V(pass) only if everything that the profile requires was measured and passes.
  returned: always, without O(detached)
  type: str
  sample: fail
msg:
  description: The verdict, the worst findings and the remedy in one sentence.
  returned: always
  type: str
  sample: "dcgm_gate: fail. GPU 3: row remap failure (DCGM 80). Remedy: rma"
checks:
  description: One entry a cell, each with id, entity, measured, wanted, unit, source and verdict.
  returned: always
  type: list
  elements: dict
  sample:
    - {id: dcgm.memory, entity: GPU 3, measured: fail, wanted: pass, unit: "", source: "dcgmi diag", verdict: fail}
findings:
  description: What is wrong, each with id, entity, text and remedy.
  returned: always
  type: list
  elements: dict
  sample:
    - {id: "dcgm:80", entity: GPU 3, text: "GPU 3: row remap failure (DCGM 80)", remedy: rma}
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
  sample: {name: dcgmi, version: "4.6.0"}
argv:
  description: The command that was run, or the place that was read.
  returned: always
  type: list
  elements: str
  sample: [dcgmi, diag, -r, "2", -j, -n, "gpu:8"]
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
  sample: dcgm_gate
kind:
  description:
    - V(profile_missing) or V(config) where nothing was measured, since the SKU has no profile, or one by which the gate
      cannot judge. That is the site's failure, for which no node is quarantined.
  returned: where the profile was in the way
  type: str
  sample: profile_missing
gpus:
  description: The GPUs that DCGM listed, with number, device id and serial; empty where it lists none.
  returned: when dcgmi ran, without O(detached) and O(collect)
  type: list
  elements: dict
  sample:
    - {gpu: 0, device_id: "2330", serial: "1650524000001"}
evidence_path:
  description: Where the raw outputs lie; empty without O(evidence_path).
  returned: when dcgmi ran, without O(detached) and O(collect)
  type: str
  sample: /var/log/gpufleet/dcgm.json
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError, Unsupported
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.gate import dcgm_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.specs import DCGM_GATE
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import refusal


def main() -> None:
    module = AnsibleModule(argument_spec=DCGM_GATE, supports_check_mode=True)
    ctx = Context(check_mode=module.check_mode, diff=module._diff)
    if module.params["collect"]:
        module.fail_json(**Unsupported("the ledger is on the controller", do="use the action").as_result())
    try:
        result = dcgm_gate(module.params, ctx).as_dict(ctx)
    except FleetError as exc:
        module.fail_json(**exc.as_result())
    if "verdict" in result and refusal(result, module.params["fail_on"], check_mode=module.check_mode):
        module.fail_json(**result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
