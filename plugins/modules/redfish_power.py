#!/usr/bin/python
# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: redfish_power
short_description: Change a machine's power through its BMC and see it changed
version_added: "0.1.0"
description:
  - Brings a machine to the wanted power state through its BMC, by Redfish or by IPMI.
  - The state is read first, and nothing is sent where it is so already. After a write the state is read until it is
    the wanted one twice in a row; a BMC that says yes and does nothing makes the task fail.
  - A request whose answer is lost is never sent a second time; what came of it is read.
  - Everything but powering on a machine that is off can hit running work. It demands fresh evidence in the ledger
    that the node is drained or unknown to its scheduler, or O(force_reason).
author:
  - gpufleet.baremetal contributors (@gpufleet)
extends_documentation_fragment:
  - gpufleet.baremetal.attributes
  - gpufleet.baremetal.for_all
  - gpufleet.baremetal.ledger
  - gpufleet.baremetal.bmc
  - gpufleet.baremetal.machine
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
options:
  state:
    description:
      - V(on) powers the machine on.
      - V(off) asks the operating system to shut down and waits; the power is never cut.
      - V(graceful) asks it too, and cuts the power after O(graceful_timeout), or at once where the BMC offers no
        shutdown.
      - V(force_off) cuts the power.
      - V(cycle) cuts the power, sees the machine off, and powers it on; one that is off is powered on.
      - V(reset) restarts the machine in the way that its BMC offers, else as V(cycle). It is proven by an off or
        changing state in between, by what the BMC tells of restarts (the time of the last one, their number, or the
        stage of the start), or by the node's boot id; one that is off is powered on. Where none of these could be seen,
        which is known before anything is sent, it is done as V(cycle), and RV(notes) says so.
    type: str
    required: true
    choices: ["on", "off", force_off, graceful, cycle, reset]
  timeout:
    description: Seconds for the whole task.
    type: float
    default: 300
  graceful_timeout:
    description: Seconds that the operating system gets for its shutdown with O(state=graceful).
    type: float
    default: 120
  leave:
    description: Until when the module on another machine may write what could hit running work. Filled in by the action
      on the controller, for a task that is delegated.
    type: dict
seealso:
  - module: gpufleet.baremetal.pxe_boot
  - module: gpufleet.baremetal.bmc_info
notes:
  - Delegated to another machine, it writes there what could hit running work only within 20 seconds of a look at lease
    and evidence, up to 45 where the way there takes long. Past that it comes back for leave and goes on where it was.
  - On a node that a provisioner manages (C(gpufleet_provisioner) is set), power belongs to the provisioner. The node
    must be in maintenance under our own token first (M(gpufleet.baremetal.provisioner_node)); past a provisioner that
    has no maintenance only O(force_reason) leads.
"""

EXAMPLES = r"""
- name: Power the machines on
  gpufleet.baremetal.redfish_power:
    state: "on"

- name: Shut a drained machine down, and cut its power after five minutes
  gpufleet.baremetal.redfish_power:
    state: graceful
    graceful_timeout: 300
    timeout: 600

- name: Cycle a machine that no scheduler knows, through a jump host in the out-of-band network
  gpufleet.baremetal.redfish_power:
    bmc_address: https://10.1.2.3
    bmc_username: admin
    bmc_password: "{{ lookup('ansible.builtin.env', 'BMC_PASSWORD') }}"
    bmc_ca_path: /etc/pki/bmc-ca.pem
    state: cycle
    force_reason: new machine, not yet in any scheduler
  delegate_to: oob-jump.example.com

- name: Power all machines of the batch on
  gpufleet.baremetal.redfish_power:
    batch: true
    state: "on"
  run_once: true
  register: powered
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
before:
  description: The power state that was found.
  returned: always
  type: dict
  sample: {power: "off"}
after:
  description: The power state that was read back; in check mode the one that would be.
  returned: always
  type: dict
  sample: {power: "on"}
proof:
  description:
    - How the effect was seen. V(readback) is the power state itself. With O(state=reset) alone there are V(reset_time),
      the BMC's time of the last reset; V(reset_count), its number of restarts; V(start_stage), a machine that is at
      the beginning of its start again; V(boot), the node's own boot id; and V(none).
  returned: always
  type: str
  sample: readback
verdict:
  description:
    - V(pass), or V(inconclusive) where RV(proof) is V(none). The BMC took the restart, and the node, which alone could
      show it, answered before and does not answer any more when O(timeout) is over.
  returned: always
  type: str
  sample: pass
asked:
  description: The writes that were sent, each as peer and request, without secrets.
  returned: always
  type: list
  elements: str
  sample: ["POST https://10.1.2.3/redfish/v1/Systems/1/Actions/ComputerSystem.Reset ResetType=On"]
notes:
  description: What went otherwise than planned and was dealt with, for instance a shutdown that was not obeyed.
  returned: always
  type: list
  elements: str
  sample: []
evidence:
  description: What allowed a write that could hit running work; an event of the ledger, or the forced reason.
  returned: when such a write was sent
  type: str
  sample: event:4711
"""


from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.power import power
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.specs import POWER_SPEC
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._leave import LeaveOfOne
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context

ARGUMENT_SPEC = POWER_SPEC


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    line = LeaveOfOne(module.params["leave"])
    who = str(module.params.get("bmc_address") or "")
    ctx = Context(check_mode=module.check_mode, diff=module._diff, node=who, lifeline=line)
    try:
        result = power(module.params, ctx)
    except FleetError as exc:
        module.fail_json(**exc.as_result(), warnings=ctx.warnings, **line.told(ctx.asked))
    module.exit_json(**result.as_dict(ctx))


if __name__ == "__main__":
    main()
