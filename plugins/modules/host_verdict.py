#!/usr/bin/python
# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: host_verdict
short_description: Read what tasks for all hosts say of this one
version_added: "0.1.0"
description:
  - A task with C(batch=true), or one that waits for a whole batch, never fails for the trouble of one host. Here each
    host reads its own verdict, and fails by it as it would by a task of its own, with the same message, kind of error,
    findings and remedy. A rescue so tells by the test P(gpufleet.baremetal.quarantines#test) whose failure it is.
  - The results of several stages may be read at once. The first one that is not good is what is told.
  - It fails closed. A host of which a result says nothing was not served, and fails.
extends_documentation_fragment:
  - gpufleet.baremetal.attributes
  - gpufleet.baremetal.ledger
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
    details: The tasks that are read have told what they change.
options:
  of:
    description:
      - Names of registered results, in the order in which they are read, each with the words that are told before the
        reason where it is not good; no words where the reason speaks for itself.
      - A result of a task of this host's own is read as well.
    type: dict
    required: true
  stops:
    description:
      - Those of O(of) that are no verdict about the node, whatever kind they tell. That a job still runs says nothing
        against the machine, for instance.
    type: list
    elements: str
    default: []
  refusal:
    description: Why the host stops here although all of O(of) are good; empty where nothing speaks against it.
    type: str
    default: ""
author:
  - gpufleet.baremetal contributors (@gpufleet)
seealso:
  - plugin: gpufleet.baremetal.quarantines
    plugin_type: test
"""

EXAMPLES = r"""
- name: Hold all nodes
  gpufleet.baremetal.scheduler_node:
    batch: true
    state: held
    why: firmware
  run_once: true
  register: hold

- name: Wait until their jobs have ended
  gpufleet.baremetal.scheduler_wait:
    after: [hold]
  run_once: true
  register: drained

- name: Each host reads its own verdicts
  gpufleet.baremetal.host_verdict:
    of:
      hold: ""
      drained: Not drained
    stops: [drained]
  register: here
"""

RETURN = r"""
results:
  description: By the names in O(of), what a task of this host's own would have returned.
  returned: success
  type: dict
  sample: {hold: {state: drained, changed: true}}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Unsupported
from ansible_collections.gpufleet.baremetal.plugins.module_utils._own_verdict import SPEC


def main() -> None:
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    error = Unsupported(
        "what was registered is on the controller",
        do="run this task in a play, where its action reads it",
    )
    module.fail_json(**error.as_result())


if __name__ == "__main__":
    main()
