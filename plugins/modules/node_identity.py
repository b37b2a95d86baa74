#!/usr/bin/python
# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_identity
short_description: Read on a node who it is, and hold it against its BMC and its profile
version_added: "0.1.0"
description:
  - Reads the serial, the system UUID, the boot id and the GPUs of the machine on the machine itself.
  - The serial and the UUID must be what the BMC says, and the GPUs must be as many and as large as the SKU profile
    says. What cannot be read is inconclusive.
  - Runs on the node with Python's standard library alone.
extends_documentation_fragment:
  - gpufleet.baremetal.attributes
  - gpufleet.baremetal.ledger
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
options:
  serial:
    description: The chassis serial that the BMC says. Taken from the host variable C(gpufleet_serial).
    type: str
  system_uuid:
    description: The system UUID that the BMC says; not compared without it.
    type: str
  sku:
    description: The name of the SKU profile. Taken from the host variable C(gpufleet_sku).
    type: str
  profile_path:
    description: Folders with profiles of the site's own, searched before the collection's.
    type: list
    elements: path
  profile:
    description: The profile itself. The action on the controller finds it by O(sku).
    type: dict
  dmi_path:
    description: Where the kernel shows DMI.
    type: path
    default: /sys/class/dmi/id
  nvidia_smi:
    description: The C(nvidia-smi) to ask.
    type: path
    default: nvidia-smi
  timeout:
    description: Seconds that C(nvidia-smi) may take.
    type: int
    default: 60
  fail_on:
    description:
      - The verdict from which on the task fails. V(inconclusive) fails on anything but a pass, V(fail) lets an
        inconclusive verdict through to the caller, V(never) leaves the judgement to the caller.
    type: str
    choices: [fail, inconclusive, never]
    default: inconclusive
author:
  - gpufleet.baremetal contributors (@gpufleet)
"""

EXAMPLES = r"""
- name: Make sure that this is the machine that its BMC says
  gpufleet.baremetal.node_identity:
    system_uuid: 5ac00000-0000-4000-8000-000000000001
  register: who
"""

RETURN = r"""
verdict:
  description: C(pass), C(fail) or C(inconclusive).
  returned: success
  type: str
checks:
  description: What was compared, each with id, entity, measured, wanted, unit, source and verdict.
  returned: success
  type: list
  elements: dict
findings:
  description: What did not pass, each with id, entity, text and remedy.
  returned: success
  type: list
  elements: dict
remedy:
  description: The remedy of the first finding; C(none) without one.
  returned: success
  type: str
identity:
  description: What the machine says of itself.
  returned: success
  type: dict
  contains:
    serial:
      description: Chassis serial.
      type: str
    system_uuid:
      description: System UUID, in lower case.
      type: str
    manufacturer:
      description: Its vendor.
      type: str
    model:
      description: Its model.
      type: str
    kernel:
      description: Release of the running kernel.
      type: str
    boot_id:
      description: The kernel's id of this boot.
      type: str
    uptime:
      description: Seconds since this boot.
      type: float
    clock:
      description: The node's clock, seconds since the epoch.
      type: float
    gpus:
      description: Its GPUs, each with uuid, name, memory_mib and pci.
      type: list
      elements: dict
    gpu_problem:
      description: Why the list of GPUs cannot be trusted; empty where it can.
      type: str
tool:
  description: Name and version of what measured.
  returned: success
  type: dict
started:
  description: When it began, UTC.
  returned: success
  type: str
ended:
  description: When it ended, UTC.
  returned: success
  type: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._node.identity import SPEC, identify
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context


def main() -> None:
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    ctx = Context(check_mode=module.check_mode)
    try:
        result = identify(module.params, ctx)
    except FleetError as exc:
        module.fail_json(**exc.as_result())
    module.exit_json(**result.as_dict(ctx))


if __name__ == "__main__":
    main()
