#!/usr/bin/python
# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_history
short_description: Tell one node's story out of the ledger
version_added: "0.1.0"
description:
  - Tells what became of a node, an event in a line, the newest last; when, by which run, and by whom where a person
    answers for it.
  - Without O(of), the story of the machine that the host is now comes after those of the machines that it was before,
    which were replaced or retired.
  - Reads only, and asks nobody but the ledger.
extends_documentation_fragment:
  - gpufleet.baremetal.attributes
  - gpufleet.baremetal.ledger
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
notes:
  - It works through its action on the controller alone, which has the ledger. The module by itself fails and says so.
options:
  of:
    description:
      - A node that need be no host of the inventory any more, by its serial, MAC, system UUID, host name, or its id in
        the ledger. Also by what was its own once, until it was replaced or corrected.
      - Where several nodes had that name, each is told.
    type: str
  last:
    description: So many events of each node, the newest ones; V(0) for all.
    type: int
    default: 40
  all_kinds:
    description:
      - Also what was to be written, what was, and what was looked at on the way, that is the kinds C(intent),
        C(outcome), C(evidence), C(look) and C(measure).
    type: bool
    default: false
  report:
    description: Also show it to people, as wide as the terminal.
    type: bool
    default: false
seealso:
  - module: gpufleet.baremetal.fleet_status
  - module: gpufleet.baremetal.node_identity
author:
  - gpufleet.baremetal contributors (@gpufleet)
"""

EXAMPLES = r"""
- name: Show what became of the node
  gpufleet.baremetal.node_history:
    report: true

- name: Show what was the matter with a machine that was sold
  gpufleet.baremetal.node_history:
    of: S4X0012K
    last: 0
    report: true
  run_once: true
"""

RETURN = r"""
nodes:
  description: One story a node, the oldest node first; none for a host that the ledger has never seen.
  returned: success
  type: list
  elements: dict
  contains:
    node_id:
      description: The ledger's id of the node.
      type: str
      sample: 0b3a2f2e-0000-4000-8000-000000000001
    name:
      description: The host name by which the ledger saw it first.
      type: str
      sample: gpu001
    known_as:
      description: By what the ledger finds it now.
      type: list
      elements: str
      sample: [serial S4X0012K]
    state:
      description: Its lifecycle state, as the ledger has it.
      type: str
      sample: retired
    earlier:
      description: Are there events that O(last) leaves out?
      type: bool
    events:
      description: What became of it, the newest last.
      type: list
      elements: dict
      contains:
        id:
          description: Its number in the ledger.
          type: int
          sample: 4711
        at:
          description: When, UTC.
          type: str
          sample: "2026-11-23T01:42:00Z"
        run:
          description: The run that wrote it. Its id begins with the job, or with the name of the controller.
          type: str
          sample: awx-812-77-1204
        who:
          description: Who answers for it, where a person does.
          type: str
          sample: ""
        kind:
          description: The kind of event.
          type: str
          sample: state
        name:
          description: Its name.
          type: str
          sample: quarantined
        text:
          description: The same in words, on one line.
          type: str
          sample: "quarantined (was admitted): GPU 0000:1b:00.0: Xid 79; remedy: power_cycle"
lines:
  description: All of it for people.
  returned: success
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Unsupported
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.story import SPEC


def main() -> None:
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    error = Unsupported(
        "the ledger is on the controller",
        do="run this task without delegate_to; its action reads the ledger in the controller's own process",
    )
    module.fail_json(**error.as_result())


if __name__ == "__main__":
    main()
