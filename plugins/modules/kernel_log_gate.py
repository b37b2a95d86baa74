#!/usr/bin/python
# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kernel_log_gate
short_description: Judge a node by the errors in its kernel log
version_added: "0.1.0"
description:
  - Reads the kernel log of this boot from C(/dev/kmsg), else from the journal, and looks for what NVIDIA's driver
    reports there - Xid of GPUs, SXid of NVSwitches, GPUs that fell off the bus, and crashes of the kernel.
  - It looks as well for errors of PCIe (AER, DPC), machine checks, reports of the firmware, memory (EDAC), CPUs, NVMe
    drives, arrays, network adapters, drivers that give a GPU up and AMD's GPUs. What was corrected is told, and fails
    the node only where it goes on and on.
  - It fails closed. A log that cannot be read, is empty, lost records, begins after the start of the window, ends
    before now, or is of another boot is V(inconclusive), and so is an unknown SKU.
  - Each GPU is blamed once, for the first error that is no consequence of another. An Xid that the catalogue does not
    know is a failure. What an application did wrong is reported and does not fail the node.
  - Nothing but the Python standard library is needed on the node.
extends_documentation_fragment:
  - gpufleet.baremetal.attributes
  - gpufleet.baremetal.ledger
  - gpufleet.baremetal.gate
  - gpufleet.baremetal.verdict
attributes:
  check_mode:
    support: full
    details: It only reads.
  diff_mode:
    support: none
options:
  source:
    description:
      - Where the log is. V(auto) is V(kmsg), and V(journal) where that cannot be read or has lost the window's start.
      - V(file) reads O(path) as text in any of the usual forms (dmesg, dmesg -T, journalctl, syslog, kmsg records).
    type: str
    choices: [auto, kmsg, journal, file]
    default: auto
  path:
    description: The file of O(source=file), or another device than C(/dev/kmsg).
    type: path
  since:
    description:
      - The start of the window - V(boot), a time in ISO 8601, or a number of seconds before now.
      - The action on the controller sets it to the last imaging of the node in the ledger, as seconds before now, which
        holds whatever the node's clock says; without one, to V(boot), and the verdict claims no more than that.
      - A start before this boot means the whole of this boot.
    type: str
  timeout:
    description: Seconds for journalctl.
    type: int
    default: 60
  uptime_path:
    description: Where the kernel tells its uptime.
    type: path
    default: /proc/uptime
  kmsg_path:
    description:
      - The kernel's own ring. It ends now, so a journal or a file is whole only where it reaches into it; what the ring
        shows counts as well.
    type: path
    default: /dev/kmsg
  pstore_path:
    description: Where the kernel keeps records of its crashes over a boot. Folders in it are looked into as well.
    type: path
    default: /sys/fs/pstore
  pstore_archive:
    description: Where systemd-pstore moves these records.
    type: path
    default: /var/lib/systemd/pstore
  journalctl:
    description: The journalctl program.
    type: str
    default: journalctl
author:
  - gpufleet.baremetal contributors (@gpufleet)
"""

EXAMPLES = r"""
- name: Fail a node that logged a fault since it was imaged
  gpufleet.baremetal.kernel_log_gate:

- name: Look at the last hour alone
  gpufleet.baremetal.kernel_log_gate:
    since: "3600"
    fail_on: never
  register: kernel_log
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
  sample: "kernel_log_gate: fail. GPU 0000:9b:00: fallen off the bus (Xid 79). Remedy: power_cycle"
checks:
  description: One entry a cell, each with id, entity, measured, wanted, unit, source and verdict.
  returned: always
  type: list
  elements: dict
  sample:
    - id: "xid:79"
      entity: "GPU 0000:9b:00"
      measured: 2
      wanted: 0
      unit: messages
      source: NVIDIA Xid catalogue
      verdict: fail
findings:
  description: What is wrong, each with id, entity, text and remedy.
  returned: always
  type: list
  elements: dict
  sample:
    - {id: "xid:79", entity: "GPU 0000:9b:00", text: "GPU 0000:9b:00: fallen off the bus (Xid 79)", remedy: power_cycle}
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
  sample: {name: kmsg, version: ""}
argv:
  description: The command that was run, or the place that was read.
  returned: always
  type: list
  elements: str
  sample: [/dev/kmsg]
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
  sample: kernel_log_gate
kind:
  description:
    - V(profile_missing) or V(config) where nothing was measured, since the SKU has no profile, or one by which the gate
      cannot judge. That is the site's failure, for which no node is quarantined.
  returned: where the profile was in the way
  type: str
  sample: profile_missing
window:
  description: What was read - source, start, boot id, number of records, first and last record.
  returned: when a log was read
  type: dict
  sample:
    source: kmsg
    since: "2026-11-20T09:00:00Z"
    boot_id: 3f0d4c4e-0a9e-4f7c-8f0e-2f6f4b1d9a51
    records: 1204
    first: 0.0
    last: 812.4
evidence_path:
  description: Where the raw log lies; empty without O(evidence_path).
  returned: when a log was read
  type: str
  sample: /var/log/gpufleet/kernel.log
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log.gate import kernel_log_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.specs import KERNEL_LOG_GATE
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import refusal


def main() -> None:
    module = AnsibleModule(argument_spec=KERNEL_LOG_GATE, supports_check_mode=True)
    ctx = Context(check_mode=module.check_mode, diff=module._diff)
    try:
        result = kernel_log_gate(module.params, ctx).as_dict(ctx)
    except FleetError as exc:
        module.fail_json(**exc.as_result())
    if refusal(result, module.params["fail_on"], check_mode=module.check_mode):
        module.fail_json(**result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
