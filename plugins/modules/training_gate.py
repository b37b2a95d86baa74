#!/usr/bin/python
# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: training_gate
short_description: Judge a node by the log of a reference training
version_added: "0.1.0"
description:
  - Runs the command of a training that the site has chosen as its reference, or reads the log that a job has left, and
    holds its steps against the section C(training) of the SKU's profile. As many steps as the profile says must be
    there, each once and in their order, with losses that are numbers and that come down, or stay within a band around
    the reference's; the median step after the warm-up must be as fast as the profile demands.
  - A log is no proof by itself. It passes only where it is of this run, on this boot, of this node, and came to its
    end; where a line is cut, missing or told twice, it is V(inconclusive). So is a profile without a limit for the time
    of a step.
  - What a log cries of a GPU (an uncorrectable memory error, an Xid) is a finding with its remedy. What the site lacks,
    such as a module, room on a disk or another driver, condemns no node. Neither does a training over several nodes,
    where nobody knows which of them it was.
  - With O(command) it loads the GPUs. It then takes the node's lease and demands evidence that no job runs there. With
    O(log) it only reads.
  - It needs no root, and nothing on the node but what the site's command needs, and the Python standard library.
extends_documentation_fragment:
  - gpufleet.baremetal.attributes
  - gpufleet.baremetal.ledger
  - gpufleet.baremetal.gate
  - gpufleet.baremetal.verdict
attributes:
  check_mode:
    support: partial
    details:
      - With O(command) it would load the GPUs, so that it is not run, and its verdict is V(inconclusive).
      - With O(log) it only reads.
  diff_mode:
    support: none
options:
  command:
    description:
      - The command of the training, each argument an element. It is run without a shell, with its standard input
        closed; what it prints is its log, its standard output first. It is ended with all that it started after
        O(timeout), after 16 MiB, and at its end, in whatever session that is. What runs in a container is the
        container's engine's to end.
      - Its environment has a new C(GPUFLEET_RUN_ID), which it may print as C(start_mark) of the profile wants it.
      - What looks like a secret in its arguments is not told.
      - Just one of O(command) and O(log) is given.
    type: list
    elements: str
  log:
    description:
      - The log that a job has left on the node, at most 16 MiB of it. Whoever may write it may forge it.
      - It must have been written last on this boot and within O(max_age), must tell its end, and must name this node.
    type: path
  test:
    description: The training, by its name in the profile. Where the profile knows one alone, that is it.
    type: str
  run_id:
    description: What stands for C({run}) in C(start_mark) of the profile, such as the job's number. Of O(log) alone.
    type: str
  node_names:
    description:
      - Names by one of which O(log) must name this node. Without any it is the name that the kernel knows, without its
        domain.
    type: list
    elements: str
  max_age:
    description: Seconds since O(log) was last written.
    type: int
    default: 86400
  timeout:
    description: Seconds after which the gate ends O(command).
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
- name: Fail a node that trains too slowly, or computes losses that are no numbers
  gpufleet.baremetal.training_gate:
    command: [torchrun, --standalone, --nproc-per-node, "8", /opt/reference/train.py]
    timeout: 1800

- name: Judge the log that a job of the scheduler has left
  gpufleet.baremetal.training_gate:
    log: /var/log/reference/train.log
    test: gpt
    run_id: "4711"
    max_age: 7200
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
  sample: "training_gate: fail. gpt: 580 ms a step, wanted 512. Remedy: field_diag"
checks:
  description: One entry a cell, each with id, entity, measured, wanted, unit, source and verdict.
  returned: always
  type: list
  elements: dict
  sample:
    - id: gpt.step_time
      entity: node
      measured: 580
      wanted: 512
      unit: ms a step, megatron, 1 node
      source: measured on eight good nodes
      verdict: fail
findings:
  description: What is wrong, each with id, entity, text and remedy.
  returned: always
  type: list
  elements: dict
  sample:
    - id: gpt.step_time
      entity: node
      text: "gpt: 580 ms a step, wanted 512"
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
  sample: {name: reference training, version: ""}
argv:
  description: The command, without its secrets, or the log.
  returned: always
  type: list
  elements: str
  sample: [torchrun, --standalone, /opt/reference/train.py]
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
  sample: training_gate
kind:
  description:
    - V(profile_missing) or V(config) where nothing was judged, since the SKU has no profile, one by which the gate
      cannot judge, or since something of the site's was in the way, such as a module that is missing. That is the
      site's failure, for which no node is quarantined.
  returned: where a setting was in the way
  type: str
  sample: config
evidence_path:
  description: Where the raw outputs lie; empty without O(evidence_path).
  returned: when a log was judged
  type: str
  sample: /var/log/gpufleet/training.json
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.specs import TRAINING_GATE, TRAINING_GATE_RULES
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.training.gate import training_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import refusal


def main() -> None:
    module = AnsibleModule(argument_spec=TRAINING_GATE, supports_check_mode=True, **TRAINING_GATE_RULES)
    ctx = Context(check_mode=module.check_mode, diff=module._diff)
    try:
        result = training_gate(module.params, ctx).as_dict(ctx)
    except FleetError as exc:
        module.fail_json(**exc.as_result())
    if refusal(result, module.params["fail_on"], check_mode=module.check_mode):
        module.fail_json(**result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
