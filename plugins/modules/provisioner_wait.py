#!/usr/bin/python
# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: provisioner_wait
short_description: Wait until a batch of nodes is ready, deployed, released or left in peace
version_added: "0.1.0"
description:
  - Watches all hosts of the batch in one task, with one list request a poll (MAAS answers for 50 nodes a request).
    Put it under C(run_once), and let each host read its own verdict from the registered result.
  - A node that rests on its way, such as a managed node that is yet to be inspected, is sent on by its next step.
    Each step is sent once.
  - A node that fails, is held by somebody else or is not there in time gets a verdict that says so. The task itself
    fails only for what concerns all of them, a refused login or a provisioner that gives no answer until the end. Under
    C(run_once) that is each host's own verdict as well, since where such a task fails, Ansible drops all hosts but one,
    and rescues none.
  - V(deployed) is the provisioner's word, and no proof of what runs on the node. See
    M(gpufleet.baremetal.image_verify).
  - A node whose machine must now be booted by others gets a verdict that says so, see O(booted).
  - Before each step that could hit running work, the newest evidence that the node is drained is looked up, and asked
    for anew where it is older than a minute.
  - Delegated to another machine, the wait goes there in slices of 20 seconds. Each of them writes only to the nodes for
    which the controller has given leave right before it, so that one whose controller has died ends by itself. Where
    the way there and a first look take longer, that leave lasts up to 45 seconds; beyond that the node's verdict says
    how long they take.
  - Of each entry of O(nodes) it knows C(host), C(provisioner_id), C(name), C(image), C(deploy_id), C(boot_mac),
    C(serial), C(bmc_address), C(bmc_system_id), C(driver) and C(booted_at), which is when the boot of O(booted) was
    begun, in seconds since 1970.
author: gpufleet.baremetal contributors (@gpufleet)
requirements:
  - openstacksdk >= 4.0 (Ironic)
  - requests >= 2.31 (MAAS and Warewulf)
  - netaddr >= 1.0 (Ironic, MAAS and Warewulf)
extends_documentation_fragment:
  - gpufleet.baremetal.attributes
  - gpufleet.baremetal.ledger
  - gpufleet.baremetal.batch
  - gpufleet.baremetal.provisioner
attributes:
  check_mode:
    support: full
    details: Looks once, and waits for nothing.
  diff_mode:
    support: none
options:
  until:
    description:
      - What is waited for. A node that has gone beyond it is fine.
      - V(settled) is the end of work that M(gpufleet.baremetal.provisioner_node) has begun (C(inspected), C(tested),
        C(cleaned), C(serviced), C(rescued), C(unrescued), C(aborted)). It sends no node on, and is no word on whose a
        node is. What failed, stands still for a person, is gone, reserved, retired or broken, or unknown to the driver
        is not fine.
    type: str
    required: true
    choices: [ready, deployed, released, settled]
  timeout:
    description: Seconds for the whole batch.
    type: float
    default: 3600.0
  interval:
    description: Seconds between two polls.
    type: float
    default: 10.0
  driver:
    description:
      - As in M(gpufleet.baremetal.provisioner_node), for all nodes that have none of their own.
      - Where neither the task nor its O(nodes) say anything of it, what each host's variable C(enroll_driver) says; of
        V(owners) in it those that all hosts name.
    type: dict
    default: {}
  erase:
    description: Ask for the disks to be erased, where a node has to be released on its way.
    type: bool
    default: false
  booted:
    description:
      - Where the provisioner boots nothing itself, its record is made right, and somebody else must then boot the
        machine. Such a node gets its verdict at once, with V(step) C(boot). Boot it, for instance with
        M(gpufleet.baremetal.pxe_boot), and watch it again with this option, under which its boot is waited for.
    type: bool
    default: false
  run_id:
    description: The run that asks. Filled in by the action on the controller.
    type: str
  slice:
    description: What a part of a wait on another machine may write, and where the part before it has left off. Filled
      in by the action on the controller.
    type: dict
seealso:
  - module: gpufleet.baremetal.provisioner_node
"""

EXAMPLES = r"""
- name: Wait for all nodes of the batch
  gpufleet.baremetal.provisioner_wait:
    until: deployed
    timeout: 1800
  run_once: true
  register: deployment

- name: Go on with those that made it
  ansible.builtin.assert:
    that: deployment.verdicts[inventory_hostname].ok
    fail_msg: "{{ deployment.verdicts[inventory_hostname].reason }}"
"""

RETURN = r"""
verdicts:
  description:
    - One for each host. C(step) is V(boot) where the machine must now be booted from the network, and empty otherwise.
    - C(boots) is V(false) where the provisioner boots no machine itself, so that one that is deployed and silent is
      booted through its BMC.
    - C(kind) is that of the error behind a verdict that is not the node's own (V(not_ours), V(config), V(unreachable),
      for instance), and empty else. Only the node's own quarantines it, see P(gpufleet.baremetal.quarantines#test).
  returned: success
  type: dict
  sample:
    gpu001:
      ok: true
      state: deployed
      provision_state: active
      provisioner_id: 4c4c4544-0038-3510-8052-b4c04f4d3132
      seconds: 412.7
      reason: ""
      step: ""
      boots: true
      kind: ""
polls:
  description: How many times the batch was looked at.
  returned: success
  type: int
summary:
  description: The last line of progress.
  returned: success
  type: str
  sample: 38/40 deployed, 2 not
steps:
  description: The steps by which nodes were sent on, for each host that was.
  returned: success
  type: dict
asked:
  description: The writes that were sent.
  returned: success
  type: list
  elements: str
events:
  description: What the ledger gets to know, beside intent and outcome.
  returned: success
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._leave import Leave
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.specs import WAIT_SPEC
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.watch import watch
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context


def main() -> None:
    module = AnsibleModule(argument_spec=WAIT_SPEC, supports_check_mode=True)
    lifeline = Leave(module.params["slice"])
    ctx = Context(check_mode=module.check_mode, diff=module._diff, lifeline=lifeline)
    try:
        result = watch(module.params, ctx)
    except FleetError as exc:
        module.fail_json(**exc.as_result())
    module.exit_json(**result.as_dict(ctx))


if __name__ == "__main__":
    main()
