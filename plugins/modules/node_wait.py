#!/usr/bin/python
# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_wait
short_description: Wait until a whole batch of nodes answers over SSH
version_added: "0.1.0"
description:
  - Polls the SSH port of every node of the batch from one task, so that a long boot holds no fork for each host.
  - Meant for C(run_once); called by every host all the same, one worker polls and the others get its answer.
  - A node that stays silent gets a verdict of its own and never fails the batch.
  - A node's address and port are C(ansible_host) and C(ansible_port).
  - That a node answers does not prove that it was deployed; M(gpufleet.baremetal.image_verify) does.
extends_documentation_fragment:
  - gpufleet.baremetal.attributes
  - gpufleet.baremetal.ledger
  - gpufleet.baremetal.batch
attributes:
  check_mode:
    support: full
    details: Looks once and does not wait.
  diff_mode:
    support: none
options:
  timeout:
    description: Seconds until a node that has not answered is given up.
    type: int
    default: 900
  interval:
    description: Seconds between two looks at the nodes that have not answered yet.
    type: float
    default: 2.0
  connect_timeout:
    description: Seconds that one connection attempt may take.
    type: float
    default: 3.0
author:
  - gpufleet.baremetal contributors (@gpufleet)
"""

EXAMPLES = r"""
- name: Wait until the nodes of this batch have booted
  gpufleet.baremetal.node_wait:
    timeout: 1200
  run_once: true
  register: booted

- name: Stop the nodes that have not
  ansible.builtin.assert:
    that: booted.verdicts[inventory_hostname].ok
    fail_msg: "{{ booted.verdicts[inventory_hostname].reason }}"
    quiet: true
"""

RETURN = r"""
verdicts:
  description:
    - For each host whether it answered (C(ok)), after how many C(seconds), and else the C(reason).
    - C(kind) is that of the error behind a verdict that is not the node's own (V(not_ours), V(config), V(unreachable),
      for instance), and empty else. Only the node's own quarantines it, see P(gpufleet.baremetal.quarantines#test).
  returned: success
  type: dict
  sample:
    gpu001: {ok: true, seconds: 41.2, reason: "", kind: ""}
    gpu002: {ok: false, seconds: 900.0, reason: "10.0.0.12 port 22: timed out", kind: ""}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._node.reach import SPEC, wait_for_nodes
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context


def main() -> None:
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    ctx = Context(check_mode=module.check_mode)
    try:
        result = wait_for_nodes(module.params, ctx)
    except FleetError as exc:
        module.fail_json(**exc.as_result())
    module.exit_json(**result.as_dict(ctx))


if __name__ == "__main__":
    main()
