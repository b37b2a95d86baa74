#!/usr/bin/python
# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: hardware_verify
short_description: Hold what a machine consists of against what was ordered
version_added: "0.1.0"
description:
  - Asks the machine's BMC over Redfish, and the provisioner for what its inspection found, and compares processors,
    memory, GPUs, network ports, drives and firmware with what is expected. It reads only, and runs nothing on the node.
  - What is expected comes from the site's list of servers (the columns C(cpu_count), C(cpu_model), C(memory_gib),
    C(gpu_count), C(nic_count) and C(drive_count)), from O(expected), and from the SKU's profile (count and PCI device
    ids of its GPUs, and its sections C(hardware) and C(firmware)). Where list and profile differ, the task fails; that
    is a mistake of the site, and no verdict on the node.
  - The verdict is V(fail) where whoever tells a thing tells another one than is expected, more or fewer. Of two that
    differ, one of whom is right, it is V(inconclusive); let the provisioner inspect the node anew.
  - What nobody tells is passed over, as many BMCs know of no GPUs; where a profile's section C(hardware) or C(firmware)
    names it, the verdict is V(inconclusive). So it is where the BMC, or the provisioner's record, tells parts and has
    neither serial nor UUID or MAC in common with the inventory (of a record, the BMC's address counts as well).
  - What was passed over answers no failure, which stands until the same thing is told as it is expected.
  - A BMC that contradicts the inventory ends the task, with error kind V(wrong_machine); its parts say nothing of this
    node.
  - Memory may differ by 2 %. A processor is the model that is wanted where all its words with a digit are told.
author: gpufleet.baremetal contributors (@gpufleet)
requirements:
  - sushy >= 5.1, and what the provisioner's driver needs
  - netaddr >= 1.0
extends_documentation_fragment:
  - gpufleet.baremetal.attributes
  - gpufleet.baremetal.bmc
  - gpufleet.baremetal.for_all
  - gpufleet.baremetal.ledger
  - gpufleet.baremetal.machine
  - gpufleet.baremetal.provisioner
  - gpufleet.baremetal.verdict
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
notes:
  - It works through its action on the controller alone, which has profile and list. Where a jump host reaches the BMCs,
    delegate M(gpufleet.baremetal.bmc_info) with C(hardware=true) to it, and give its result as O(bmc).
options:
  provisioner_id:
    description: The node's name or id at the provisioner. Taken from C(gpufleet_provisioner_id), else O(name).
    type: str
  name:
    description: The name of the node at the provisioner; by default the host's in the inventory.
    type: str
  sku:
    description:
      - The node's SKU, whose profile counts. Taken from the host variable C(gpufleet_sku). Without it the list alone
        counts.
    type: str
  profile_path:
    description: Folders of the site's own profiles, before those of the collection.
    type: list
    elements: str
  expected:
    description:
      - What is expected, over what the site's list says. Keys are C(cpu_sockets), C(cpu_threads), C(cpu_model),
        C(memory_gib), C(gpu_count), C(nic_count) and C(drive_count).
    type: dict
    default: {}
  bmc:
    description: The result of M(gpufleet.baremetal.bmc_info) with C(hardware=true), in place of a look at the BMC.
    type: dict
  timeout:
    description: Seconds for the look at the BMC.
    type: float
    default: 180
"""

EXAMPLES = r"""
- name: Is this the machine that was ordered?
  gpufleet.baremetal.hardware_verify:

- name: A machine that is in no list
  gpufleet.baremetal.hardware_verify:
    expected:
      gpu_count: 8
      memory_gib: 2048
      cpu_model: Xeon Platinum 8480CL
"""

RETURN = r"""
verdicts:
  description:
    - With O(batch=true), and then alone beside C(changed). One verdict a host, by its name in the inventory. C(ok)
      tells whether it goes on, C(result) is what a task of that host's own would return.
    - Of one that is not C(ok), C(reason) says why. M(gpufleet.baremetal.host_verdict) reads it.
  returned: with O(batch=true)
  type: dict
  sample:
    gpu001: {ok: true, changed: false, reason: "", kind: "", result: {verdict: pass}}
verdict:
  description: V(pass), V(fail) or V(inconclusive).
  returned: success, and where the verdict fails the host
  type: str
  sample: fail
checks:
  description: One row for each thing that was expected and told, or that the profile demands; see the page on verdicts.
  returned: as RV(verdict)
  type: list
  elements: dict
  sample:
    - id: gpu_count
      entity: node
      measured: "7 (bmc)"
      wanted: 8
      unit: ""
      source: "profile h100-sxm-8: NVIDIA HGX baseboard with eight GPUs"
      verdict: fail
findings:
  description: What is wrong, and what helps.
  returned: as RV(verdict)
  type: list
  elements: dict
  sample:
    - id: hardware:gpu_count
      entity: node
      text: "gpu_count: 7 (bmc); wanted is 8 (profile h100-sxm-8: NVIDIA HGX baseboard with eight GPUs)"
      remedy: reseat
remedy:
  description: The heaviest remedy of the findings.
  returned: as RV(verdict)
  type: str
  sample: reseat
hardware:
  description: What each tells, by who tells it. What one does not tell is null.
  returned: as RV(verdict)
  type: dict
  sample:
    bmc: {cpu_sockets: 2, memory_gib: 2048.0, gpu_count: 7}
bmc_unread:
  description: What of the BMC could not be read, and why. A count of which a part is missing is null.
  returned: as RV(verdict)
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Unsupported
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verified import SPEC


def main() -> None:
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    error = Unsupported(
        "profile and list are on the controller",
        do="run this task without delegate_to; where a jump host reaches the BMC, give bmc, what bmc_info told there",
    )
    module.fail_json(**error.as_result())


if __name__ == "__main__":
    main()
