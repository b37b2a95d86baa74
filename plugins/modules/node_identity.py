#!/usr/bin/python
# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_identity
short_description: Show by what the ledger knows a node, and say what hardware was swapped
version_added: "0.1.0"
description:
  - A node is known by aliases, such as serial, system UUID and MACs. What the inventory says is a claim, until the BMC
    or the node itself confirms it; a claim ends where the inventory is corrected, and needs no module for that.
  - What was swapped is said with this module, by a person who knows it, for a reason. It is recorded in the ledger.
  - Nothing is written but to the ledger, for all aliases, states and events of a call in one transaction.
extends_documentation_fragment:
  - gpufleet.baremetal.attributes
  - gpufleet.baremetal.ledger
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
notes:
  - It works through its action on the controller alone, which has the ledger. The module by itself fails and says so.
  - All but V(present) takes the lease of each node that it changes. A node that another run works on is left to it, and
    with it the whole call.
  - All but V(present) asks what the other hosts of the inventory say now. What one of them still says is its own, and
    the call is refused, as it is where a node that it would change is a tenant's whom the run does not name.
options:
  state:
    description:
      - V(present) shows the aliases, and changes nothing.
      - V(replaced) says that a board or the whole chassis at this host's place was swapped, as O(part) tells. The
        inventory names the new one already.
      - V(moved) says that the part of O(kind) and O(value) came to this host's machine from another one. Both nodes go
        into quarantine where they were imaged or judged before, and are to be imaged and judged again. A GPU came from
        the machine whose newest passport named it last. A part that the ledger has in no machine is refused without
        O(force_reason), since the machine that gave it would go on serving.
      - V(retired) takes the alias of O(kind) and O(value) off whichever node has it. It is nobody's then. What nobody
        has, and nobody lost, is refused.
    type: str
    choices: [present, moved, replaced, retired]
    default: present
  part:
    description:
      - With V(board), the node goes on with its history under what the inventory names now. Where it was imaged or
        judged before, it goes into quarantine; no passport, verdict or deployment of before counts. So also where the
        sheet metal was swapped around the same boards.
      - With V(chassis), the whole machine was swapped. The node of the one that left is retired, the one that came
        has a node of its own. Where that served elsewhere before, it goes into quarantine. A hold of ours at the
        scheduler goes over to it.
    type: str
    choices: [board, chassis]
  kind:
    description:
      - Which kind of alias. A V(serial) can be V(retired), and not V(moved), since it goes with its chassis.
      - A V(gpu) is a GPU by its UUID as nvidia-smi tells it, C(GPU-) before it. It is not what a node is found by.
    type: str
    choices: [serial, system_uuid, mac, gpu]
  value:
    description: The alias, in any spelling. A MAC has twelve hexadecimal digits; one of zeros or of fs is none.
    type: str
  reason:
    description: Why, for instance the number of the ticket. Needed for all but V(present).
    type: str
  was:
    description:
      - A serial, UUID, MAC or id of the node that this host was before the swap. Needed only where the host's name in
        the inventory was another one then, or the host was several nodes.
    type: str
  bmc:
    description:
      - What M(gpufleet.baremetal.bmc_info) returned for this host. What it tells confirms what the inventory says;
        where it contradicts that, nothing is written.
    type: dict
  force_reason:
    description:
      - With V(retired), take away also what a peer has confirmed of a node in service. With V(moved), the part came
        out of a machine that the ledger does not have it in. With V(replaced) and V(moved), swap it in a node that is
        in service. The reason is recorded.
    type: str
seealso:
  - module: gpufleet.baremetal.bmc_info
  - module: gpufleet.baremetal.ledger_event
author:
  - gpufleet.baremetal contributors (@gpufleet)
"""

EXAMPLES = r"""
- name: Show by what the ledger knows the node
  gpufleet.baremetal.node_identity:

- name: See who is behind the BMC
  gpufleet.baremetal.bmc_info:
  register: bmc

- name: Go on with a node whose board was swapped
  gpufleet.baremetal.node_identity:
    state: replaced
    part: board
    reason: RMA 4711
    bmc: "{{ bmc }}"

- name: Take a network card over from another machine
  gpufleet.baremetal.node_identity:
    state: moved
    kind: mac
    value: "7c:c2:55:10:20:11"
    reason: swapped with gpu002, ticket 4712
"""

RETURN = r"""
node_id:
  description: The ledger's id of the node that the host is now; empty where the ledger knows none.
  returned: success
  type: str
  sample: 0b3a2f2e-0000-4000-8000-000000000001
name:
  description: The host name by which the ledger saw that node first.
  returned: success
  type: str
  sample: gpu001
aliases:
  description: By what the ledger knows the node.
  returned: success
  type: list
  elements: dict
  contains:
    kind:
      description: Which kind of alias.
      type: str
      sample: serial
    value:
      description: The alias.
      type: str
      sample: S4X0012K
    confirmed:
      description: Whether a peer has said the same; else it is a claim.
      type: bool
    confirmed_by:
      description: Who, C(bmc) or C(node); empty for a claim.
      type: str
      sample: bmc
    confirmed_at:
      description: When, in UTC; empty for a claim.
      type: str
      sample: "2026-11-23T01:42:00Z"
    source:
      description: Where it came from.
      type: str
      sample: inventory
    host:
      description: The host of the inventory that claimed it.
      type: str
      sample: gpu001
    since:
      description: Since when the node has it, in UTC.
      type: str
      sample: "2026-11-20T09:00:00Z"
inventory:
  description: What the inventory says now, by kind.
  returned: success
  type: dict
  sample: {serial: S4X0012K, mac: "7c:c2:55:10:20:11"}
bmc:
  description: What the BMC says now, as O(bmc) gave it.
  returned: success
  type: list
  elements: str
  sample: [serial S4X0012K]
differences:
  description: Where inventory, BMC and ledger do not say the same, in words.
  returned: success
  type: list
  elements: str
  sample: []
retired_node:
  description: The id of the node that was retired; empty where none was.
  returned: success
  type: str
  sample: ""
from_node:
  description: The id of the node that the alias was taken from; empty where nobody is known to have had it.
  returned: success
  type: str
  sample: ""
before:
  description: By name and id of each node that is touched, its aliases and its state.
  returned: success
  type: dict
  sample: {"gpu001 0b3a2f2e-0000-4000-8000-000000000001": [serial OLD (confirmed by bmc), state drained]}
after:
  description: The same afterwards; in check mode as it would be.
  returned: success
  type: dict
  sample: {"gpu001 0b3a2f2e-0000-4000-8000-000000000001": [serial NEW (confirmed by bmc), state quarantined]}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.identity import RULES, SPEC, node_identity
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context


def main() -> None:
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True, **RULES)
    ctx = Context(check_mode=module.check_mode, diff=module._diff)
    try:
        result = node_identity(module.params, ctx).as_dict(ctx)
    except FleetError as exc:
        module.fail_json(**exc.as_result())
    module.exit_json(**result)


if __name__ == "__main__":
    main()
