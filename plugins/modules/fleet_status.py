#!/usr/bin/python
# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: fleet_status
short_description: Tell where each node stands, and what to do next
version_added: "0.1.0"
description:
  - Reads lifecycle state, reason, remedy, hold, lease and passport of every host of the play from the ledger, in one
    task and a handful of queries.
  - Runs on the controller, where the ledger is; use it under C(run_once).
  - Reads only. A machine that the ledger has never seen is V(discovered), and stays unknown to it.
  - Each host is read in the ledger that a task of its own would use. Where some ledgers cannot be read, their hosts are
    V(unknown), and the others are told all the same; where none can, the task fails.
  - A host whose serial, MAC or node id contradict each other or the ledger is V(unknown) as well. One that has none of
    them may be a new machine, and is V(discovered).
extends_documentation_fragment:
  - gpufleet.baremetal.attributes
  - gpufleet.baremetal.ledger
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
options:
  hosts:
    description: The hosts to look at. All hosts of the play without it, those that have failed included.
    type: list
    elements: str
  report:
    description: Also show a summary for people, which fits a terminal.
    type: bool
    default: false
  title:
    description: The headline of that summary.
    type: str
    default: Fleet
  expire_within:
    description: Seconds; a node in service whose passport ends within them is told as due for a renewal.
    type: int
    default: 1209600
  issued_within:
    description: Seconds; a passport that was issued within them is told as fresh.
    type: int
    default: 0
author:
  - gpufleet.baremetal contributors (@gpufleet)
"""

EXAMPLES = r"""
- name: Show what is held, why, and what to do about it
  gpufleet.baremetal.fleet_status:
    report: true
    title: Rack 12
  run_once: true
  register: fleet

- name: Leave out what is admitted already
  ansible.builtin.meta: end_host
  when: fleet.nodes[inventory_hostname].state == "admitted"
"""

RETURN = r"""
nodes:
  description: By host name, where the node stands.
  returned: success
  type: dict
  contains:
    node_id:
      description: The ledger's id; empty for a machine that it has never seen.
      type: str
    state:
      description:
        - Lifecycle state; V(unknown) where the host's ledger cannot be read or does not tell which of its nodes the
          host is, and C(stopped) says why.
      type: str
      sample: quarantined
    event:
      description: Id of the event that brought the node into this state.
      type: int
    since:
      description: When that was, UTC.
      type: str
    run:
      description: The run that did it.
      type: str
    reason:
      description: Why, in words.
      type: str
      sample: "GPU 0000:1b:00.0: Xid 79, fallen off the bus"
    remedy:
      description: What is due.
      type: str
      sample: power_cycle
    admitted_before:
      description: Whether the node has ever been admitted.
      type: bool
    stopped:
      description: Why the newest run went no further with the node, where it says nothing of the node itself.
      type: str
    imaging_event:
      description: Id of the event that began the newest deploy; 0 where there was none.
      type: int
    imaging_at:
      description: When that was, in seconds since the epoch.
      type: float
    hold:
      description: The token of our hold at the scheduler, where there is one.
      type: str
    kept:
      description:
        - Why a person keeps the node out of service, as they told the playbook C(maintenance); empty where none does.
        - It is what the ledger was told. Who lifts such a hold in the scheduler itself tells nobody.
      type: str
    passport_expires:
      description: When its newest passport ends, UTC.
      type: str
    passport_due:
      description: Is the node in service, and has no passport that lasts longer than O(expire_within)?
      type: bool
      sample: false
    passport_fresh:
      description: Was its newest passport issued within O(issued_within)? Whether it is valid is not looked at.
      type: bool
      sample: false
    renewing:
      description:
        - Did a renewal of its passport leave it as it is? The playbook passports goes on with it, day2_recycle leaves
          it alone.
      type: bool
      sample: false
    lease:
      description: The run that works on it now.
      type: str
    next:
      description: The command that takes it on from here.
      type: str
lines:
  description: The summary for people.
  returned: success
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Unsupported
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.report import SPEC


def main() -> None:
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    error = Unsupported(
        "the ledger is on the controller",
        do="run this task without delegate_to; its action reads the ledger in the controller's own process",
    )
    module.fail_json(**error.as_result())


if __name__ == "__main__":
    main()
