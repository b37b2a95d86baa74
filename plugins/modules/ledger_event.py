#!/usr/bin/python
# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: ledger_event
short_description: Write a note, a measure, an attempt or the lifecycle state of a node into the ledger
version_added: "0.1.0"
description:
  - Appends one event to the ledger. With O(state), moves the node in its lifecycle; a move that the lifecycle does not
    know, or that lacks its evidence, is refused.
  - Evidence, maintenance, holds, verdicts and passports cannot be written with it. Each of them permits something,
    and is written by the module that saw it. The one exception is a failed verdict, which a person may lift.
  - A state that the node is in already, with the same O(reason) and O(data), is not written again. V(imaging) and
    V(wiping) always are, since each begins anew.
extends_documentation_fragment:
  - gpufleet.baremetal.attributes
  - gpufleet.baremetal.for_all
  - gpufleet.baremetal.ledger
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
notes:
  - It works through its action on the controller alone, which has the ledger. The module by itself fails and says so.
  - A change of state takes the node's lease. A node that another run works on is left to it.
options:
  kind:
    description:
      - What kind of event. V(note) where neither this nor O(state) is given.
      - V(attempt) also counts against what may still be tried on this node.
      - V(lift) takes the failures of the gate O(name) off the node, where a person knows that they say nothing of it,
        or has done what they ask for.
        It needs O(reason) and O(lifted_by), both are recorded, and each passport that is issued afterwards names them.
        A gate whose failure was lifted still has to pass.
    type: str
    choices: [note, measure, attempt, state, lift]
  name:
    description: The name of the event; of an V(attempt), its remedy; of a V(lift), the gate.
    type: str
  state:
    description: The lifecycle state that the node enters.
    type: str
    choices: [discovered, enrolled, imaging, validating, admitted, draining, drained, wiping, quarantined, retired]
  reason:
    description: Why; needed for V(quarantined), V(retired), an V(attempt) and a V(lift).
    type: str
  remedy:
    description: What is to be done about it; V(reimage) where no finding says more.
    type: str
    choices: [none, retest, remediate_config, reset_gpu, reboot, power_cycle, fabric, reseat, field_diag, rma, reimage]
  data:
    description: More to remember. Secrets are masked by name.
    type: dict
  adoption:
    description:
      - With O(state=admitted), the node is adopted; what the verbs told that looked at it, each as it was registered.
      - It must be in service at its scheduler and held by nobody, under the name that the machine itself has. Its
        provisioner must know the machine, or have no record of it under any name, and be carrying out no order there.
        The machine must have been proven by its BMC in this run, and the ledger must never have admitted the node,
        unless by an adoption after which no run has imaged it. That one is adopted once more, as it is now.
        Whatever is not so fails the task, in check mode as well.
      - What the looks found, or why no passport could be signed, becomes the reason of the event.
    type: dict
    suboptions:
      scheduler:
        description: The result of M(gpufleet.baremetal.scheduler_node) with V(state=present).
        type: dict
      provisioner:
        description: The result of M(gpufleet.baremetal.provisioner_node) with V(state=enrolled), in check mode.
        type: dict
      machine:
        description: The result of M(gpufleet.baremetal.image_verify) with V(mode=node) and its C(bmc_identity).
        type: dict
      name:
        description:
          - The result of a command whose output is the machine's own name. Not asked for where it was skipped.
          - Lines behind it may be C(/proc/uptime) with the time at which it was asked, in seconds since the epoch, and
            the id of the boot that it runs. A node that by its scheduler runs another boot is refused.
        type: dict
      passport:
        description: The result of M(gpufleet.baremetal.node_passport), where one was to be signed.
        type: dict
      looks:
        description: The results of all gates that were run.
        type: list
        elements: dict
      other_name:
        description: The site has named the scheduler's node otherwise than the machine.
        type: bool
        default: false
  force_reason:
    description:
      - Move the node although the lifecycle says no. The reason is recorded in the event.
    type: str
  lifted_by:
    description:
      - Who answers for a V(lift). Where it is left out, the user of the automation controller, or the one who is logged
        in on this machine.
    type: str
  known:
    description: What the ledger knows. Filled by the action; a task that sets it is refused.
    type: dict
author:
  - gpufleet.baremetal contributors (@gpufleet)
"""

EXAMPLES = r"""
- name: Record that imaging begins
  gpufleet.baremetal.ledger_event:
    state: imaging
    data:
      image: "{{ gpufleet_image.name }}"
      version: "{{ gpufleet_image.version }}"
      rollout_digest: "{{ gpufleet_image | gpufleet.baremetal.rollout_digest }}"
  register: imaging

- name: Put a node aside
  gpufleet.baremetal.ledger_event:
    state: quarantined
    reason: Xid 79 on GPU 3
    remedy: power_cycle

- name: Take a failure off a node that was none of its own
  gpufleet.baremetal.ledger_event:
    kind: lift
    name: dcgm_gate
    reason: the chiller of row 4 was off, ticket 4711
    lifted_by: a.person

- name: Take a node that works into the ledger as it is
  gpufleet.baremetal.ledger_event:
    state: admitted
    adoption:
      scheduler: "{{ seen_at_scheduler }}"
      provisioner: "{{ seen_at_provisioner }}"
      machine: "{{ seen_on_node }}"
      name: "{{ own_name }}"
      looks: ["{{ seen_on_node }}", "{{ kernel_log }}", "{{ dcgm }}"]

- name: Leave a note for whoever comes next
  gpufleet.baremetal.ledger_event:
    name: handover
    data:
      text: PSU 2 was swapped

- name: Record that the imaging of all nodes begins, each with the image of its own
  gpufleet.baremetal.ledger_event:
    batch: true
    state: imaging
    each:
      data: deploy_told
  run_once: true
  register: imaging
"""

RETURN = r"""
verdicts:
  description:
    - With O(batch=true), and then alone beside C(changed). One verdict a host, by its name in the inventory. C(ok) and
      C(changed) tell how it went, C(result) is what a task of that host's own would return.
    - Of one that is not C(ok), C(reason) says why, C(kind) is that of the error, and C(error) is that itself. Only some
      kinds say something of the node, see P(gpufleet.baremetal.quarantines#test).
  returned: with O(batch=true)
  type: dict
  sample:
    gpu007:
      ok: false
      changed: false
      reason: "gpu007: another run works on this node: run-17"
      kind: lease_held
      result: {}
lifted:
  description: The numbers of the verdicts that were lifted; empty where none stood.
  returned: with O(kind=lift)
  type: list
  elements: int
event_id:
  description: The number of the event in the ledger; 0 in check mode where it would be written.
  returned: success
  type: int
  sample: 4711
at:
  description: When the ledger took it, in seconds since the epoch.
  returned: success
  type: float
  sample: 1769846400.25
deploy_id:
  description:
    - Which deployment begins with it. It is random, so that no other ledger has the same, and is what
      M(gpufleet.baremetal.provisioner_node) takes to the node, where M(gpufleet.baremetal.image_verify) looks for it.
  returned: where the node becomes C(imaging)
  type: str
  sample: 7f0c2a0e6f1c4b5f9c1d1f6a9f1e2d3c
kind:
  description: The kind of the event.
  returned: success
  type: str
  sample: state
name:
  description: The name of the event.
  returned: success
  type: str
  sample: imaging
state:
  description: The state that the node is in now.
  returned: where a state was asked for
  type: str
  sample: imaging
before:
  description: The state that the node was in.
  returned: success
  type: dict
  sample: {state: drained}
after:
  description: The state that the node is in now.
  returned: success
  type: dict
  sample: {state: imaging}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.event import RULES, SPEC, ledger_event
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context


def main() -> None:
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True, **RULES)
    ctx = Context(check_mode=module.check_mode, diff=module._diff)
    try:
        # Here is no ledger, whoever asks: what the option says it knows would be anybody's word.
        result = ledger_event({**module.params, "known": None}, ctx).as_dict(ctx)
    except FleetError as exc:
        module.fail_json(**exc.as_result())
    module.exit_json(**result)


if __name__ == "__main__":
    main()
