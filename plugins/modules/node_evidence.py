#!/usr/bin/python
# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_evidence
short_description: Read what a node's own tools say of it, for whoever repairs it
version_added: "0.1.0"
description:
  - Runs commands that only look, of the kernel, of the GPUs, of ports and drives, and returns what they print.
  - It judges nothing and changes nothing. M(gpufleet.baremetal.evidence_bundle) packs it for the maker of a part.
  - The machine that answers has to be the node, by its serial or system UUID; another one is refused and not read.
author:
  - gpufleet.baremetal contributors (@gpufleet)
extends_documentation_fragment:
  - gpufleet.baremetal.attributes
  - gpufleet.baremetal.ledger
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
options:
  readings:
    description: What to read. A tool that the node has not is told as missing, and is no failure.
    type: list
    elements: str
    choices:
      - system
      - os
      - cmdline
      - uptime
      - kernel_log
      - kernel_log_before
      - kernel_ring
      - firmware
      - pci
      - memory_errors
      - gpus
      - gpu_topology
      - gpu_links
      - gpu_link_errors
      - gpu_driver
      - gpu_diagnostics
      - amd_gpus
      - amd_gpu_state
      - ports
      - infiniband
      - drives
      - services
    default:
      - system
      - os
      - cmdline
      - uptime
      - kernel_log
      - kernel_log_before
      - kernel_ring
      - firmware
      - pci
      - memory_errors
      - gpus
      - gpu_topology
      - gpu_links
      - gpu_link_errors
      - gpu_driver
      - gpu_diagnostics
      - amd_gpus
      - amd_gpu_state
      - ports
      - infiniband
      - drives
      - services
  timeout:
    description:
      - Seconds for all of it. Each command has a limit of its own, so that a tool that hangs on a GPU that is gone
        hides nothing of what the others say.
    type: float
    default: 300
  dmi_path:
    description: Where the node shows what its firmware says of the machine.
    type: path
    default: /sys/class/dmi/id
notes:
  - As root (C(become)) it has the serials of boards and modules and the whole kernel log.
seealso:
  - module: gpufleet.baremetal.evidence_bundle
  - module: gpufleet.baremetal.kernel_log_gate
"""

EXAMPLES = r"""
- name: Read what the node says of itself
  gpufleet.baremetal.node_evidence:
  become: true
  register: node

- name: Read its GPUs alone
  gpufleet.baremetal.node_evidence:
    readings: [gpus, gpu_links, gpu_link_errors]
  become: true
"""

RETURN = r"""
boot_id:
  description: The boot in which it was read.
  returned: success
  type: str
  sample: 3a2f0b6e-8f5d-4c57-9c0e-0f8a6f1f2d11
readings:
  description: What came back, by the name of the reading.
  returned: success
  type: dict
  contains:
    argv:
      description: The command.
      type: list
      elements: str
      sample: [nvidia-smi, -q]
    what:
      description: What it tells.
      type: str
      sample: state of each NVLink
    ended:
      description:
        - V(exit); V(timeout) where it took too long and was ended; V(flood) where it said more than 2 MiB; V(missing)
          where the node has no such tool; V(denied) where it could not be started; V(not tried) where the time was
          over.
      type: str
      sample: exit
    rc:
      description: Its exit status; null where it never ran.
      type: int
      sample: 0
    seconds:
      description: How long it took.
      type: float
      sample: 1.4
    text:
      description: What it printed, with secrets masked.
      type: str
      sample: "GPU 0: NVIDIA H100 80GB HBM3"
    errors:
      description: The beginning of what it printed as errors.
      type: str
      sample: ""
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._evidence.node import node_evidence
from ansible_collections.gpufleet.baremetal.plugins.module_utils._evidence.specs import NODE
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context


def main() -> None:
    module = AnsibleModule(argument_spec=NODE, supports_check_mode=True)
    ctx = Context(check_mode=module.check_mode, diff=module._diff)
    try:
        result = node_evidence(module.params, ctx)
    except FleetError as exc:
        module.fail_json(**exc.as_result())
    module.exit_json(**result.as_dict(ctx))


if __name__ == "__main__":
    main()
