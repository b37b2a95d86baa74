#!/usr/bin/python
# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gate_profile
short_description: Make the profile of a new model from nodes that are known to be good
version_added: "0.1.0"
description:
  - A SKU without a profile is inconclusive in every gate. This makes one of what nodes of that SKU show, each number
    with its source, date and conditions, as a file that the gates read.
  - With O(state=seen) it looks at the host over its own connection; C(nvidia-smi) tells GPUs, memory, PCIe, power, MIG,
    ECC and NVLinks, and the kernel which devices it knows. With O(state=present), once on the controller, it makes the
    profile of all these looks.
  - Floors of the sections C(gpu_bandwidth) and C(collective) come from the newest verdicts of
    M(gpufleet.baremetal.gpu_bandwidth_gate) and M(gpufleet.baremetal.collective_gate) on these nodes in the ledger,
    where those passed. A floor lies O(margin) per cent under the slowest node.
  - The section C(hardware) comes from what M(gpufleet.baremetal.hardware_verify) was told (O(hardware)).
  - The section C(dcgm), and limits of counts, no look tells. They stay as they are in a profile that is replaced, or
    are those of O(like).
  - Each node is judged by the rules of the gates. One with a finding is no known-good node, and is refused with it; so
    is one that is quarantined, or whose newest verdict of another gate is V(fail). Nodes that differ are refused with
    node, field and both values. A tool that is absent, or prints nothing, is a finding. In the end each node is held
    against the profile that was made of it.
  - The playbook C(gpufleet.baremetal.gate_profile) does all of it.
extends_documentation_fragment:
  - gpufleet.baremetal.attributes
  - gpufleet.baremetal.ledger
attributes:
  check_mode:
    support: full
    details: Looks, judges and tells the profile, and writes no file.
  diff_mode:
    support: full
notes:
  - With O(state=present) it works through its action on the controller alone. Call it with C(run_once).
options:
  state:
    description:
      - V(seen) looks at the host, and judges nothing. V(present) makes the profile.
    type: str
    choices: [seen, present]
    default: present
  nvidia_smi:
    description: The nvidia-smi program on the node. For O(state=seen).
    type: str
    default: nvidia-smi
  timeout:
    description: Seconds for all calls of nvidia-smi together. For O(state=seen).
    type: int
    default: 120
  pci_path:
    description: Where the node's kernel shows its PCI devices. For O(state=seen).
    type: path
    default: /sys/bus/pci/devices
  dmi_path:
    description:
      - Where the node shows who it is. The machine that answers must be the node, as for every gate. For O(state=seen).
    type: path
    default: /sys/class/dmi/id
  hardware:
    description: RV(gpufleet.baremetal.hardware_verify#module:hardware) of the same node. For O(state=seen).
    type: dict
  looks:
    description: By host, what O(state=seen) has told of it. Needed for O(state=present).
    type: dict
  sku:
    description:
      - The name of the profile, as C(gpufleet_sku) will have it, from which it is taken. Needed for O(state=present).
    type: str
  title:
    description: What a person calls this model. Needed for O(state=present).
    type: str
  dest:
    description:
      - The folder of the site's profiles. By default the first of O(profile_path), else of the environment variable
        E(GPUFLEET_PROFILE_PATH). The collection's own is refused.
    type: path
  profile_path:
    description: Folders of the site's own profiles, before those of the collection.
    type: list
    elements: path
  margin:
    description: How many per cent a floor lies under the slowest figure of all nodes.
    type: float
    default: 5
  gpu_count:
    description:
      - How many GPUs each node was ordered with. By default what the column C(gpu_count) of the site's list says.
    type: int
  leave_out:
    description:
      - Cells of the section C(gpu_state), and parts of the section C(hardware), that the profile shall not have, since
        this model does not tell them, or since nodes may differ in them.
      - Uncorrected errors, failed repairs and slowed clocks refuse a node all the same.
    type: list
    elements: str
    default: []
  like:
    description:
      - A SKU whose profile has what no look tells, its section C(dcgm) and the limits of counts. Take one whose GPUs
        can run the same tests.
    type: str
  beside_known:
    description: Make the profile although another one knows the device id of these GPUs.
    type: bool
    default: false
  replace:
    description:
      - Write over a profile that is there. Without it one that says another thing is an error that tells what differs.
        One that says the same stays as it is, with its sources and dates.
    type: bool
    default: false
author:
  - gpufleet.baremetal contributors (@gpufleet)
"""

EXAMPLES = r"""
- name: Ask each BMC what the machine consists of
  gpufleet.baremetal.hardware_verify:
    sku: ""
  register: parts

- name: Look at each node
  gpufleet.baremetal.gate_profile:
    state: seen
    hardware: "{{ parts.hardware }}"
  register: seen

- name: Make the profile of all of them
  gpufleet.baremetal.gate_profile:
    sku: h100-nvl-2
    title: Two H100 NVL cards in a server of ours
    dest: /etc/gpufleet/profiles
    like: h100-sxm-8
    looks: "{{ dict(ansible_play_hosts_all | zip(ansible_play_hosts_all | map('extract', hostvars, 'seen'))) }}"
  run_once: true
"""

RETURN = r"""
node:
  description: The host that was looked at.
  returned: success, with O(state=seen)
  type: str
  sample: gpu001
runs:
  description: What each call of nvidia-smi printed, and how it ended.
  returned: success, with O(state=seen)
  type: list
  elements: dict
  sample:
    - {argv: [nvidia-smi, -q, -x], rc: 0, ended: exit, seconds: 1.2, stdout: "<?xml ...", stderr: ""}
on_bus:
  description: The device ids of all that NVIDIA has made in the machine, as the kernel knows them.
  returned: success, with O(state=seen)
  type: list
  elements: str
  sample: ["2330", "2330", "22a3"]
hardware:
  description: The option O(hardware), as it was given.
  returned: success, with O(state=seen)
  type: dict
  sample:
    bmc: {cpu_sockets: 2, memory_gib: 2048.0, gpu_count: 8}
path:
  description: The file of the profile.
  returned: success, with O(state=present)
  type: str
  sample: /etc/gpufleet/profiles/h100-nvl-2.yaml
sku:
  description: The SKU.
  returned: success, with O(state=present)
  type: str
  sample: h100-nvl-2
profile:
  description: The profile, as gates take it by their option C(profile). In check mode too.
  returned: success, with O(state=present)
  type: dict
  sample:
    schema: 1
    sku: h100-nvl-2
    title: Two H100 NVL cards in a server of ours
    gpu:
      count:
        value: 2
        source: nvidia-smi, driver 580.105.08, on gpu001, gpu002
        date: "2026-11-26"
        conditions: measured on 2 nodes of this site; all that nvidia-smi and the kernel know
digest:
  description: The digest of the profile, as verdicts and passports name it.
  returned: success, with O(state=present)
  type: str
  sample: "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
left_out:
  description: The cells that the section C(gpu_state) could have, and has not, each with the reason.
  returned: success, with O(state=present)
  type: dict
  sample: {retired_pages: nvidia-smi does not tell it of these GPUs}
floors:
  description: The floors that were made of measurements in the ledger.
  returned: success, with O(state=present)
  type: list
  elements: str
  sample: ["gpu_bandwidth.device_to_device_memcpy_read_ce: 352.64, of gpu001, gpu002"]
differences:
  description: What a profile that was there says differently.
  returned: success, with O(state=present)
  type: list
  elements: str
  sample: ["gpu.power.value: 600 (the file), 700 (these nodes)"]
error:
  description:
    - What was wrong. C(findings) has, by node, what keeps it from being a known-good node; C(differences) the fields in
      which nodes differ, or in which the profile that is there says another thing.
  returned: failure
  type: dict
  sample:
    kind: not_proven
    findings: {gpu003: ["GPU 3 (0000:13:00): a row remap failed"]}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Unsupported
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.names import SEEN
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.registry import LOOKS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.specs import GATE_PROFILE, GATE_PROFILE_RULES


def main() -> None:
    module = AnsibleModule(argument_spec=GATE_PROFILE, supports_check_mode=True, **GATE_PROFILE_RULES)
    if module.params["state"] != SEEN:
        error = Unsupported(
            "the profiles are on the controller",
            do="run this task without delegate_to; its action makes the profile in the controller's own process",
        )
        module.fail_json(**error.as_result())
    module.exit_json(changed=False, **LOOKS.ask(module.params))


if __name__ == "__main__":
    main()
