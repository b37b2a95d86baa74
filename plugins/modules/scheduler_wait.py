#!/usr/bin/python
# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: scheduler_wait
short_description: Watch a batch of nodes until each is drained, or in service again
version_added: "0.1.0"
description:
  - One task for the whole batch, to be used with C(run_once). Each poll asks the scheduler once, whatever the number of
    nodes, and shows a line when something changed.
  - A node that does not get there is a verdict of its own, and never ends the batch. The task fails only for
    what concerns all nodes, such as a scheduler that does not answer until the deadline. Under C(run_once) that is each
    host's own verdict as well, since where such a task fails, Ansible drops all hosts but one, and rescues none.
  - The verdicts are those of the last poll. The ledger is told of each node what was seen then (C(drained),
    C(not_in_scheduler), C(in_service), C(not_drained) or C(foreign_hold)).
  - Where several hosts call it all the same, one of them polls and the others take its answer.
  - Delegated to another machine, each poll is sent there by itself. What it has seen is as old as the poll, and what a
    dead controller leaves behind there ends with the poll.
  - Of each entry of O(nodes) it knows C(host), C(scheduler_node), C(scheduler), the options by which that is reached
    but C(scheduler_token), C(known_token), C(known_author), C(known_runs), C(known_announced), C(known_uuids),
    C(known_incarnation), C(known_cluster), C(known_cluster_host), C(known_scheduler_at), C(known_left) and
    C(known_standing).
  - Where work has to be made to leave, as in Kubernetes, each poll asks what has not been asked yet. What is refused is
    told with its reason under C(waits), and asked again at the next poll. At the deadline nothing is ended by force;
    the node stays held, and the next run goes on. A hold of ours that went with the node's record is put on again.
author: gpufleet.baremetal contributors (@gpufleet)
extends_documentation_fragment:
  - gpufleet.baremetal.attributes
  - gpufleet.baremetal.ledger
  - gpufleet.baremetal.batch
  - gpufleet.baremetal.scheduler
attributes:
  check_mode:
    support: full
    description: Looks once, and says of each node that is not foreign that it would be waited for.
  diff_mode:
    support: none
options:
  until:
    description:
      - V(drained) means held by us, without work, and with nothing under way in the scheduler; or not known to the
        scheduler at all. A node that nobody holds, or that somebody else holds, is not waited for.
      - V(idle) means in service, with an agent that answers. A node that was given a job at once is as good.
    type: str
    choices: [drained, idle]
    default: drained
  over_keep:
    description:
      - A person asks, so a node that is held by a hold of the kind C(keep), made through us, is waited for as well. It
        is no proof that the node may be touched.
    type: bool
    default: false
  timeout:
    description: Seconds until the verdict is spoken of the nodes that are not there yet.
    type: float
    default: 3600
  interval:
    description: Seconds between two polls.
    type: float
    default: 15
  completing_timeout:
    description: Seconds after which it is told that a node without jobs is still being cleaned up by its scheduler.
    type: float
    default: 120
  slice:
    description: Where the look before this one has left off, and until when this one may make work leave from which
      nodes. Filled in by the action on the controller, for a task that is delegated.
    type: dict
requirements:
  - Slurm's commands C(scontrol) and C(squeue) on the machine that runs this, for O(scheduler=slurm)
  - Python library requests on the machine that runs this, for O(scheduler=kubernetes); PyYAML where it is a kubeconfig
seealso:
  - module: gpufleet.baremetal.scheduler_node
"""

EXAMPLES = r"""
- name: Wait until all jobs have ended
  gpufleet.baremetal.scheduler_wait:
    until: drained
    timeout: 86400
  run_once: true
  register: drained

- name: Go on with the nodes that are drained
  ansible.builtin.assert:
    that: drained.verdicts[inventory_hostname].ok
    fail_msg: "{{ drained.verdicts[inventory_hostname].reason }}"
"""

RETURN = r"""
until:
  description: What was waited for.
  returned: success
  type: str
verdicts:
  description:
    - One verdict a host, by its name in the inventory.
    - C(holds) is what M(gpufleet.baremetal.scheduler_node) returns under that name; C(waits) says by the id of a job
      why it does not leave, where the scheduler tells.
    - C(kind) is that of the error behind a verdict that is not the node's own (V(not_ours), V(config), V(unreachable),
      for instance), and empty else. Only the node's own quarantines it, see P(gpufleet.baremetal.quarantines#test).
  returned: success
  type: dict
  sample:
    gpu007:
      ok: false
      state: draining
      native: MIXED+DRAIN
      reason: "not within 60 s: 1 job(s) run: 4711"
      kind: not_ours
      seconds: 60.2
      jobs: ["4711"]
      owner: ours
      finding: ""
      holds: []
      waits: {}
not_ok:
  description: The hosts that did not get there.
  returned: success
  type: list
  elements: str
  sample: [gpu007]
events:
  description: What the ledger is told, one event a host.
  returned: success
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._leave import Leave
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.specs import WAIT
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.wait import scheduler_wait
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context


def main() -> None:
    module = AnsibleModule(argument_spec=WAIT, supports_check_mode=True)
    lifeline = Leave(module.params["slice"])
    ctx = Context(check_mode=module.check_mode, diff=module._diff, lifeline=lifeline)
    try:
        result = scheduler_wait(module.params, ctx)
    except FleetError as exc:
        module.fail_json(**exc.as_result())
    module.exit_json(**result.as_dict(ctx))


if __name__ == "__main__":
    main()
