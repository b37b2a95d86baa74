#!/usr/bin/python
# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: bmc_info
short_description: What a machine's BMC says of it
version_added: "0.1.0"
description:
  - Reads power, boot override, identity and capabilities of a machine through its BMC, by Redfish or by IPMI.
  - It logs in once, and sends no write.
author:
  - gpufleet.baremetal contributors (@gpufleet)
extends_documentation_fragment:
  - gpufleet.baremetal.attributes
  - gpufleet.baremetal.for_all
  - gpufleet.baremetal.bmc
  - gpufleet.baremetal.machine
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
options:
  macs:
    description:
      - Whether to read the MAC addresses of the machine's network cards too. That takes a request for each card, port
        and boot option, which on large machines is some dozens.
    type: bool
    default: true
  hardware:
    description:
      - Whether to read what the machine consists of, its processors, memory, GPUs and drives. That takes a request for
        each of them. With O(macs) the ports of its network cards are counted as well.
    type: bool
    default: false
    version_added: "0.1.0"
  firmware:
    description:
      - Components whose firmware is wanted with O(hardware), each by its C(Id) in the BMC's FirmwareInventory. V(bios)
        and V(bmc) are told without it.
    type: list
    elements: str
    default: []
    version_added: "0.1.0"
  timeout:
    description: Seconds for the whole task.
    type: float
    default: 60
seealso:
  - module: gpufleet.baremetal.redfish_power
  - module: gpufleet.baremetal.pxe_boot
"""

EXAMPLES = r"""
- name: See who is behind the BMC
  gpufleet.baremetal.bmc_info:
  register: bmc

- name: It is the machine that the inventory means
  ansible.builtin.assert:
    that: "'serial' in bmc.machine.agrees"

- name: See who is behind all BMCs of the batch
  gpufleet.baremetal.bmc_info:
    batch: true
  run_once: true
  register: bmcs

- name: Those of the machines that the inventory means
  ansible.builtin.assert:
    that: "'serial' in bmcs.verdicts[inventory_hostname].result.machine.agrees"
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
address:
  description: The BMC that was asked.
  returned: always
  type: str
  sample: https://10.1.2.3
power:
  description: V(on), V(off), V(changing) or V(unknown).
  returned: always
  type: str
  sample: "on"
boot:
  description: The boot override as the BMC shows it; null where it has none.
  returned: always
  type: dict
  sample: {enabled: disabled, target: None, mode: uefi, uri: ""}
identity:
  description:
    - Serial number (of a Dell system its service tag), UUID, maker, model and the BMC's firmware; an empty string for
      what it does not tell.
  returned: always
  type: dict
  sample:
    serial: ABC1234
    uuid: 4c4c4544-0038-3510-8052-b4c04f4d3132
    manufacturer: Supermicro
    model: SYS-821GE-TNHR
    bmc_firmware: 11.01.01
machine:
  description:
    - The machine held against O(serial), O(system_uuid) and O(boot_mac), as each verb that writes does it. C(agrees)
      and C(contradicts) name those of them that do; C(lacks) has C(boot_mac) where nothing agrees, and the BMC lists
      ports of makers without it, and C(unproven) where nothing agrees, and it lists no such port at all, or speaks
      IPMI, which has no word for them; unless the ledger knows that MAC's machine by the serial that the BMC tells.
      C(serial) is the one that agrees as the BMC spells it, else the machine's own.
    - Where nothing agrees, as of a host of which the inventory names a BMC alone, and a ledger is there, C(known_as)
      tells what the ledger has of the machine of that serial, namely the C(name) under which it saw it first, its
      C(state), whether this host has C(begun) with it and no more than held it, and whether it is any C(other) than a
      new one of this host. It is empty of one that the ledger does not know.
  returned: always
  type: dict
  sample: {serial: ABC1234, agrees: [serial], contradicts: [], lacks: [], unproven: []}
tls_fingerprint:
  description: SHA-256 of the certificate that the BMC showed; empty over IPMI and plain HTTP.
  returned: always
  type: str
  sample: 3f0c8ae4c3a8b1f6d2b7d7b4bb3a6a0f5d1a9c1be0e3b0f6a1d5c7e9f0a2b4c6
macs:
  description:
    - The MAC addresses that the BMC tells of the machine, each with every place where it stands (the resource, and the
      property in it), and whether it is a locally administered one, as of the BMC's own USB NIC. They are the union of
      the system's interfaces, its boot options, and the functions and ports of its network adapters. Null over IPMI,
      which has no word for them.
  returned: when O(macs) is true
  type: list
  elements: dict
  sample:
    - mac: b8:3f:d2:90:97:c4
      sources: ["/redfish/v1/Systems/1/EthernetInterfaces/1#/PermanentMACAddress"]
      locally_administered: false
macs_unread:
  description: What of these places could not be read, and why. Where this is not empty there may be more addresses.
  returned: when O(macs) is true
  type: list
  elements: str
  sample: []
hardware:
  description:
    - What the BMC tells of the machine's parts. What it does not tell is null, and so is a count of which a part could
      not be read. A machine that is off may tell less. Null over IPMI.
  returned: when O(hardware) is true
  type: dict
  sample:
    cpu_sockets: 2
    cpu_threads: 224
    cpu_model: Intel(R) Xeon(R) Platinum 8480CL
    memory_gib: 2048.0
    gpu_count: 8
    gpu_devices: ["2330", "2330", "2330", "2330", "2330", "2330", "2330", "2330"]
    nic_count: 10
    drive_count: 10
    firmware: {bios: "1.1.3", bmc: "23.11.09"}
hardware_unread:
  description: What of it could not be read, and why.
  returned: when O(hardware) is true
  type: list
  elements: str
  sample: []
capabilities:
  description:
    - What the BMC offers, null where it does not say, whether it shows a boot override that it took, and the known
      quirks that apply to it.
  returned: always
  type: dict
  sample:
    protocol: redfish
    power: ["on", force_off, graceful_off, restart]
    boot_targets: [pxe, uefi_http, Hdd]
    boot_modes: null
    http_boot_uri: false
    shows_boot_override: true
    quirks: []
"""


from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.info import info
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.specs import INFO_SPEC
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context

ARGUMENT_SPEC = INFO_SPEC


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    ctx = Context(check_mode=module.check_mode, diff=module._diff, node=str(module.params.get("bmc_address") or ""))
    try:
        result = info(module.params, ctx)
    except FleetError as exc:
        module.fail_json(**exc.as_result(), warnings=ctx.warnings)
    module.exit_json(**result.as_dict(ctx))


if __name__ == "__main__":
    main()
