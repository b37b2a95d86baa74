#!/usr/bin/python
# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: pxe_boot
short_description: Boot a machine from the network once, and prove it
version_added: "0.1.0"
description:
  - Sets a one-time network boot through the machine's BMC, by Redfish or by IPMI, and powers or restarts the machine
    if asked to.
  - The override is read first, and nothing is sent where it is set already. After a write it is read back. A task that
    fails after that takes it away again, by Redfish and by IPMI, or names the machine on which it may still stand.
  - Some BMCs cannot show an override that they took. There the node's own boot is the proof, a new boot id with
    C(BOOTIF) of O(boot_mac) in its kernel's command line; without it the result is inconclusive, which fails.
  - What is armed decides the next start, whoever asks for that, and a machine that is off may be one that its scheduler
    has put to sleep or wakes for a job. So to arm a machine, or to start one that is armed, demands fresh evidence in
    the ledger that the node is drained or unknown to its scheduler, or O(force_reason), whatever its power is.
  - O(target=none) takes a one-time override away, whoever has set it, and reads that back. It needs no such evidence.
  - The machine is recognised before that, by O(serial), O(system_uuid) or O(boot_mac), also where it is off or is left
    running, since what is set now decides its next start. O(force_reason) goes past that.
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
  target:
    description:
      - V(pxe), or V(uefi_http) for UEFI's boot over HTTP (Redfish alone).
      - V(none) leaves no one-time override standing; nothing is sent where none does. One that lasts stays as it is.
        It changes no power. A BMC that cannot show an override is sent the request each time.
    type: str
    choices: [pxe, uefi_http, none]
    default: pxe
  mode:
    description:
      - The firmware's mode for this boot. V(keep) leaves it as it is.
      - IPMI has no word for that. V(keep) repeats the mode of the override that is in force; where none is, it is
        V(uefi).
      - A BMC that does not tell the mode, or cannot switch it, refuses the other two.
    type: str
    choices: [uefi, legacy, keep]
    default: keep
  http_boot_uri:
    description:
      - What to boot with O(target=uefi_http). Few BMCs take it; without it the machine asks DHCP.
    type: str
  power:
    description:
      - V(none) leaves the machine's power alone. V(on) powers it on if it is off. V(restart) cuts its power first.
    type: str
    choices: [none, "on", restart]
    default: none
  prove:
    description:
      - V(readback) takes what the BMC shows, and nothing else. V(boot) demands the node's own boot, and takes several
        minutes on real machines. V(auto) takes the first, and the second where the BMC cannot show it.
    type: str
    choices: [auto, readback, boot]
    default: auto
  accept_inconclusive:
    description: Do not fail where the effect could not be seen; RV(verdict) then says V(inconclusive).
    type: bool
    default: false
  leave:
    description: Until when the module on another machine may write what could hit running work. Filled in by the action
      on the controller, for a task that is delegated.
    type: dict
  timeout:
    description: Seconds for the whole task, a boot that is to be proven included.
    type: float
    default: 900
seealso:
  - module: gpufleet.baremetal.redfish_power
  - module: gpufleet.baremetal.bmc_info
notes:
  - Delegated to another machine, it writes there what could hit running work only within 20 seconds of a look at lease
    and evidence, up to 45 where the way there takes long. Past that it comes back for leave and goes on where it was.
  - On a node that a provisioner manages (C(gpufleet_provisioner) is set), the boot belongs to the provisioner. The
    node must be in maintenance under our own token first (M(gpufleet.baremetal.provisioner_node)); past a provisioner
    that has no maintenance only O(force_reason) leads.
  - Delegated to another machine, it cannot prove a boot by the node.
  - With O(power=on) a machine that is on stays on, and the override waits for its next boot.
"""

EXAMPLES = r"""
- name: See that no job runs on the machines, and that none is given to them
  gpufleet.baremetal.scheduler_wait:
    until: drained
  run_once: true

- name: Boot the machines from the network
  gpufleet.baremetal.pxe_boot:
    power: "on"

- name: Restart a drained machine into UEFI's network boot, and wait until the node itself shows it
  gpufleet.baremetal.pxe_boot:
    mode: uefi
    power: restart
    prove: boot
    timeout: 1800

- name: Take the override away that a task before has left
  gpufleet.baremetal.pxe_boot:
    target: none

- name: Set the override of one machine, named in the task
  gpufleet.baremetal.pxe_boot:
    bmc_protocol: ipmi
    bmc_address: 10.1.2.3
    bmc_username: admin
    bmc_password: "{{ lookup('ansible.builtin.env', 'BMC_PASSWORD') }}"
    mode: uefi

- name: Boot all machines of the batch from the network that the task before has powered off
  gpufleet.baremetal.redfish_power:
    batch: true
    state: force_off
  run_once: true
  register: powered_off

- name: Boot them from the network
  gpufleet.baremetal.pxe_boot:
    batch: true
    after: [powered_off]
    power: "on"
  run_once: true
  register: booting
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
  description: The power state and the boot override that were found.
  returned: always
  type: dict
  sample: {power: "off", boot: {enabled: disabled, target: None, mode: uefi, uri: ""}}
after:
  description: The power state and the boot override after the write, before the boot consumed it.
  returned: always
  type: dict
  sample: {power: "on", boot: {enabled: once, target: pxe, mode: uefi, uri: ""}}
proof:
  description: How the effect was seen. V(readback) by the BMC, V(boot) by the node, V(none) not at all.
  returned: always
  type: str
  sample: readback
verdict:
  description: V(pass), or V(inconclusive) where nothing showed the effect, as in check mode.
  returned: always
  type: str
  sample: pass
booted_at:
  description: When the machine's power came on for that boot, in seconds since 1970 by the clock of the machine that
    runs the task; V(0) where it did not. M(gpufleet.baremetal.provisioner_wait) takes it from here.
  returned: always
  type: float
  sample: 1795165415.2
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
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.boot import pxe_boot
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.specs import PXE_SPEC
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._leave import LeaveOfOne
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context

ARGUMENT_SPEC = PXE_SPEC


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    line = LeaveOfOne(module.params["leave"])
    who = str(module.params.get("bmc_address") or "")
    ctx = Context(check_mode=module.check_mode, diff=module._diff, node=who, lifeline=line)
    try:
        result = pxe_boot(module.params, ctx)
    except FleetError as exc:
        module.fail_json(**exc.as_result(), warnings=ctx.warnings, **line.told(ctx.asked))
    module.exit_json(**result.as_dict(ctx))


if __name__ == "__main__":
    main()
