#!/usr/bin/python
# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gate_wait
short_description: Wait until the detached gates of a whole batch have ended
version_added: "0.1.0"
description:
  - Watches, from one task, the gates that a task before it started with C(detached) on every node of the batch. A
    diagnostic of half an hour so holds one fork, and not one for each node.
  - Each look is one small shell command over each host's own connection, with the host's own connection and become
    variables.
  - Keywords such as C(remote_user) hold for all hosts as they are for the host that runs the task; what differs from
    host to host belongs into a variable such as C(ansible_user).
  - A password of C(-k) or C(-K) is handed on to the hosts that have none of their own, unless the host that runs the
    task has one of its own in its place, which nobody else is told.
  - The verdict is taken as the gate wrote it on the node, after its shape, gate, job, boot and profile were checked on
    the controller, and goes to the ledger as if the gate had returned it.
  - It fails closed. A gate that was killed, a node that was rebooted or falls silent, a file that is not what the gate
    writes, and a gate that does not end are V(inconclusive). None of them ends the batch.
  - The nodes' leases are kept meanwhile.
  - Meant for C(run_once); called by every host all the same, one worker looks and the others get its answer.
extends_documentation_fragment:
  - gpufleet.baremetal.attributes
  - gpufleet.baremetal.ledger
  - gpufleet.baremetal.batch
attributes:
  check_mode:
    support: full
    details: Waits for nothing, as nothing was started, and is V(inconclusive) without failing anybody.
  diff_mode:
    support: none
options:
  after:
    description:
      - Names of the registered results of the tasks that started the gates, most often one. The hosts for which all of
        them are there, and neither failed nor skipped, are waited for.
      - Required, unless O(nodes) is given.
    type: list
    elements: str
  gate:
    description: The gate that was started.
    type: str
    choices: [dcgm_gate, soak_gate]
    default: dcgm_gate
  timeout:
    description:
      - Seconds after which a gate that has not ended is inconclusive. Without it the limit that the gate itself was
        started with, and two minutes more.
    type: int
  interval:
    description: Seconds between two looks. In the first 20 seconds they are 2 seconds apart, for gates that end soon.
    type: float
    default: 15.0
  grace:
    description: Seconds that a node may be silent before its verdict is inconclusive.
    type: int
    default: 120
  look_timeout:
    description: Seconds that one look at one node may take.
    type: float
    default: 20.0
author:
  - gpufleet.baremetal contributors (@gpufleet)
seealso:
  - module: gpufleet.baremetal.dcgm_gate
  - module: gpufleet.baremetal.soak_gate
"""

EXAMPLES = r"""
- name: Start the diagnostics
  gpufleet.baremetal.dcgm_gate:
    level: 3
    detached: true
  register: started

- name: Wait until they have ended on all nodes of the batch
  gpufleet.baremetal.gate_wait:
    after: started
  run_once: true
  register: diagnosed

- name: Fail the nodes that did not pass
  gpufleet.baremetal.dcgm_gate:
    collect: diagnosed
"""

RETURN = r"""
gate:
  description: The gate that was waited for.
  returned: success
  type: str
  sample: dcgm_gate
verdicts:
  description:
    - For each host whether it passed (C(ok)), the C(verdict), after how many C(seconds) of waiting, and else the
      C(reason), C(findings) and C(remedy). C(event) is the id of the whole verdict in the ledger.
    - Without a C(verdict) nothing was judged; C(kind) is that of the error which stood in the way then (V(not_ours),
      V(unreachable), for instance).
  returned: success
  type: dict
  sample:
    gpu001: {ok: true, verdict: pass, seconds: 912.4, reason: "", findings: [], remedy: none, event: 4711}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Unsupported
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.specs import GATE_WAIT


def main() -> None:
    module = AnsibleModule(argument_spec=GATE_WAIT, supports_check_mode=True)
    error = Unsupported(
        "only the controller has the connections of all hosts",
        do="run this task in a play, where its action does the work",
    )
    module.fail_json(**error.as_result())


if __name__ == "__main__":
    main()
