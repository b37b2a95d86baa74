#!/usr/bin/python
# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: storage_gate
short_description: Judge a node by the health and the speed of its NVMe drives
version_added: "0.1.0"
description:
  - Holds the NVMe drives of the node against the section C(storage) of the SKU's profile, how many there are of each
    kind and how large, what each tells of its health (C(nvme smart-log)), and how fast it is (C(fio)).
  - The counters of a drive are believed, and no word that a tool makes of them. A drive that does not answer tells no
    zero, so that it is V(inconclusive).
  - A speed is measured at a place on the drive. What lies beneath the place is asked of the kernel for the very file
    that is then measured. A mount point where nothing is mounted, a file system in memory, an overlay, and a drive that
    is not the wanted one are no such place, and the kernel must have seen the bytes go over the drive.
  - In a directory it measures on a file that has no name, of which nothing is left however the gate ends, and which
    never takes more than half of the free room. A device is only read.
  - It loads the drives. It takes the node's lease and demands evidence that no job runs there, but for
    O(tests=[health]), which only looks.
  - It needs nothing on the node but nvme-cli, fio 3 with libaio, and the Python standard library. It has to be root.
extends_documentation_fragment:
  - gpufleet.baremetal.attributes
  - gpufleet.baremetal.ledger
  - gpufleet.baremetal.gate
  - gpufleet.baremetal.verdict
attributes:
  check_mode:
    support: full
    details: It would load the drives, so that it is not run, and its verdict is V(inconclusive), but for a mere look.
  diff_mode:
    support: none
options:
  tests:
    description:
      - The speeds to measure, each by its name in the profile. Without any it measures all that the profile knows.
      - The look at the drives is made in any case; V(health) alone is that look, and nothing else.
    type: list
    elements: str
  places:
    description:
      - Where to measure, each a directory on a drive, or on the array over all drives of a kind, or a block device,
        which is only read. The profile says of each speed which of them it wants, the kernel on which drive it is.
      - Without a place on a drive its speeds are not measured, and the gate is V(inconclusive).
    type: list
    elements: path
  nvme:
    description: The nvme program of nvme-cli, 1.x or 2.x.
    type: str
    default: nvme
  fio:
    description: The fio program, 3.0 or newer.
    type: str
    default: fio
  timeout:
    description: Seconds after which the gate ends its tools.
    type: int
    default: 1800
  sysfs_path:
    description: Where the kernel shows the drives, and what lies beneath each device.
    type: path
    default: /sys
author:
  - gpufleet.baremetal contributors (@gpufleet)
"""

EXAMPLES = r"""
- name: Fail a node with a drive that is missing, worn or slow
  gpufleet.baremetal.storage_gate:
    places: [/scratch/nvme0, /scratch/nvme1]

- name: Look at the drives of a node that is in service
  gpufleet.baremetal.storage_gate:
    tests: [health]
"""

RETURN = r"""
verdict:
  description: V(pass) only if everything that the profile requires was measured and passes.
  returned: always
  type: str
  sample: fail
msg:
  description: The verdict, the worst findings and the remedy in one sentence.
  returned: always
  type: str
  sample: "storage_gate: fail. 3 of 4 drives data of 3840 GB. Remedy: power_cycle"
checks:
  description: One entry a cell, each with id, entity, measured, wanted, unit, source and verdict.
  returned: always
  type: list
  elements: dict
  sample:
    - id: percentage_used
      entity: data 2
      measured: 3
      wanted: 80
      unit: "%"
      source: maintenance contract of the site
      verdict: pass
findings:
  description: What is wrong, each with id, entity, text and remedy.
  returned: always
  type: list
  elements: dict
  sample:
    - id: drive_count
      entity: data
      text: 3 of 4 drives data of 3840 GB
      remedy: power_cycle
remedy:
  description:
    - The heaviest remedy of the findings, one of V(none), V(retest), V(remediate_config), V(reset_gpu), V(reboot),
      V(power_cycle), V(fabric), V(reseat), V(field_diag) and V(rma).
  returned: always
  type: str
  sample: power_cycle
tool:
  description: Name and version of what measured.
  returned: always
  type: dict
  sample: {name: fio and nvme, version: "3.33"}
argv:
  description: The first command that was run; the others are in the evidence.
  returned: always
  type: list
  elements: str
  sample: [nvme, smart-log, /dev/nvme0, --output-format=json]
started:
  description: When the gate began, UTC.
  returned: always
  type: str
  sample: "2026-11-20T10:00:00Z"
ended:
  description: When it ended, UTC.
  returned: always
  type: str
  sample: "2026-11-20T10:00:04Z"
duration:
  description: How many seconds it took.
  returned: always
  type: float
  sample: 4.2
weakened:
  description:
    - What the profile of the site demands less of this gate than the one that is shipped for the SKU, a row each with
      C(what), C(from), C(to), and the C(source) that the site's profile gives for it, or its own place for what it
      leaves out. A change of which nobody knows that it demands no less is among them. At most 50 are told.
  returned: where a profile of the site, or the option O(profile), demands less than a shipped one of the same SKU
  type: list
  elements: dict
  sample:
    - {what: gpu.count, from: 8, to: 7, source: ten nodes of this site}
evidence_digest:
  description: SHA-256 over the raw outputs, exit statuses included.
  returned: always
  type: str
  sample: "sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"
profile:
  description: SKU and digest of the profile that was applied.
  returned: always
  type: dict
  sample: {sku: h100-sxm-8, digest: "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}
schema:
  description: Version of this shape.
  returned: always
  type: int
  sample: 1
gate:
  description: Name of the gate.
  returned: always
  type: str
  sample: storage_gate
kind:
  description:
    - V(profile_missing) or V(config) where nothing was measured, since the SKU has no profile, or one by which the gate
      cannot judge. That is the site's failure, for which no node is quarantined.
  returned: where the profile was in the way
  type: str
  sample: profile_missing
evidence_path:
  description: Where the raw outputs lie; empty without O(evidence_path).
  returned: when the drives were looked at
  type: str
  sample: /var/log/gpufleet/storage.json
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.specs import STORAGE_GATE
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.storage.gate import storage_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import refusal


def main() -> None:
    module = AnsibleModule(argument_spec=STORAGE_GATE, supports_check_mode=True)
    ctx = Context(check_mode=module.check_mode, diff=module._diff)
    try:
        result = storage_gate(module.params, ctx).as_dict(ctx)
    except FleetError as exc:
        module.fail_json(**exc.as_result())
    if refusal(result, module.params["fail_on"], check_mode=module.check_mode):
        module.fail_json(**result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
