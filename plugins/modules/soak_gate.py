#!/usr/bin/python
# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: soak_gate
short_description: Judge a node by what its GPUs show under load for hours or days
version_added: "0.1.0"
description:
  - Loads all GPUs of the node with the burns of the section C(gpu_burn) of the SKU's profile, round after round, and
    looks at them at the interval of its section C(soak) meanwhile. Power, temperatures and clocks, errors of memory and
    NVLinks, rows that were remapped and time spent slowed down become a series, which takes no more room however long
    it lasts.
  - What fails ends it at once - a wrong result or a slow GPU in a round, a look that fails
    M(gpufleet.baremetal.gpu_state_gate), a failure in the kernel log, a figure beyond its limit. The verdict has the
    figures of each GPU and the digest of the series, which stays on the node.
  - Time counts only between two good looks. A gap between them that is longer than the profile lets pass, a clock that
    was set, and more reboots or kills than it lets pass are V(inconclusive), and the next start begins anew.
  - With O(detached) it goes on by itself, as a scope of systemd where systemd runs, and needs no controller.
    M(gpufleet.baremetal.gate_wait) watches a whole batch of them. After a reboot or a kill, or what could not be
    measured, the same start goes on from what was soaked until then; each time it was cut off is counted. Where the
    kernel log of that boot was not read to its end, as after a reset or a crash, the hours begin anew. Where the hours
    are over and the log could not be read, the same start runs one more round in that boot, and judges all.
  - It takes the node's lease and demands evidence that no job runs there.
  - It needs nothing on the node but gpu-burn, nvidia-smi and the Python standard library.
extends_documentation_fragment:
  - gpufleet.baremetal.attributes
  - gpufleet.baremetal.ledger
  - gpufleet.baremetal.gate
  - gpufleet.baremetal.verdict
attributes:
  check_mode:
    support: full
    details: It would load the GPUs, so that nothing is started, and its verdict is V(inconclusive).
  diff_mode:
    support: none
options:
  hours:
    description:
      - How long the GPUs must have been under load, all parts of the soak together, at most 600.
      - A soak that runs, or has passed, goes on when it is asked for more hours, and is refused fewer.
    type: float
    default: 24.0
  tests:
    description: The burns of the profile to run in turn. Without any, all that it knows.
    type: list
    elements: str
  stop:
    description:
      - Ends the soak that goes on by itself, and waits until it has written its verdict, which is V(inconclusive)
        then. The next start goes on from what was soaked.
      - Without O(job) it is the one that was begun last by the ledger, by whatever O(tests) and profile. Where
        none goes on the task has RV(no_soak), and no verdict.
    type: bool
    default: false
  cut_off:
    description:
      - How often this soak was cut off. The node counts that as well, and the greater number counts, for a node whose
        O(state_dir) is in memory forgets its crashes.
      - The action counts in the ledger how often M(gpufleet.baremetal.gate_wait) found it killed, or its node rebooted.
    type: int
    default: 0
  timeout:
    description: Seconds after which it ends in any case. Without it, the hours, a fifth of them and half an hour.
    type: int
  gpu_burn:
    description: The gpu-burn program.
    type: str
    default: gpu_burn
  compare:
    description:
      - Its compare kernel, C(compare.ptx) or C(compare.fatbin). Without it gpu-burn looks in the working directory.
    type: path
  nvidia_smi:
    description: The nvidia-smi program.
    type: str
    default: nvidia-smi
  pci_path:
    description: Where the kernel lists the PCI devices, of which the gate counts the GPUs of the SKU.
    type: path
    default: /sys/bus/pci/devices
  detached:
    description:
      - Goes on in a process of its own on the node, and returns at once. What comes of it is a matter for
        M(gpufleet.baremetal.gate_wait), then for O(collect).
      - A second start of the same O(job) joins the first while it runs, and finds its verdict for two weeks after it
        has passed or failed. One that was cut off, or came to no verdict, is gone on with. A failure that is in the
        ledger already is not told again; the next start measures anew.
      - While a soak of another O(job) goes on, none is begun or found, and the task fails with no verdict on the node.
    type: bool
    default: false
  job:
    description:
      - Name of the job of O(detached), which is the name of its files.
      - Without it the action derives one from what the ledger knows of the node's last imaging, validation or drain, or
        of a soak that failed since, from O(tests) and the profile.
    type: str
  state_dir:
    description:
      - Folder of the jobs and their series on the node, which must outlive a reboot. It is made for the task's user
        alone, and refused where anybody else could write there.
    type: path
    default: /var/lib/gpufleet-soak
  collect:
    description:
      - Name of a registered result of M(gpufleet.baremetal.gate_wait). Nothing is run, and the node is not asked; this
        host's verdict is read from the ledger, where the wait recorded it, and fails the host by O(fail_on).
      - Mutually exclusive with O(detached).
    type: str
  source:
    description: Where the kernel log is read from, as in M(gpufleet.baremetal.kernel_log_gate).
    type: str
    choices: [auto, kmsg, journal, file]
    default: auto
  path:
    description: The file of O(source=file), or another device than C(/dev/kmsg).
    type: path
  journalctl:
    description: The journalctl program.
    type: str
    default: journalctl
  uptime_path:
    description: Where the kernel tells its uptime.
    type: path
    default: /proc/uptime
  kmsg_path:
    description: The kernel's own ring.
    type: path
    default: /dev/kmsg
  pstore_path:
    description: Where the kernel keeps records of its crashes over a boot.
    type: path
    default: /sys/fs/pstore
  pstore_archive:
    description: Where systemd-pstore moves these records.
    type: path
    default: /var/lib/systemd/pstore
author:
  - gpufleet.baremetal contributors (@gpufleet)
seealso:
  - module: gpufleet.baremetal.gate_wait
  - module: gpufleet.baremetal.gpu_burn_gate
"""

EXAMPLES = r"""
- name: Begin to soak for two days, or go on with it
  gpufleet.baremetal.soak_gate:
    hours: 48
    gpu_burn: /opt/gpu-burn/gpu_burn
    compare: /opt/gpu-burn/compare.ptx
    detached: true
  register: started

- name: Wait for the whole batch in one task
  gpufleet.baremetal.gate_wait:
    gate: soak_gate
    after: started
    interval: 60
    grace: 1800
  run_once: true
  register: soaked

- name: Fail the hosts that did not pass
  gpufleet.baremetal.soak_gate:
    hours: 48
    collect: soaked
"""

RETURN = r"""
job:
  description: Name of the job.
  returned: with O(detached) or O(stop)
  type: str
  sample: soak-2c26b46b68ffc68ff99b453c1d304134
joined:
  description: Whether the job was there already, running or ended.
  returned: with O(detached) or O(stop)
  type: bool
no_soak:
  description: That no soak goes on there, by the ledger or by the node itself. A note in the ledger says so, too.
  returned: with O(stop), where that is so
  type: bool
after_event:
  description: The number of the ledger's newest event when the job began, or an earlier one; 0 without any.
  returned: with O(detached) or O(stop)
  type: int
looked_at:
  description: When that was, in seconds since the epoch by the ledger's clock. Ages of verdicts begin here.
  returned: with O(detached) or O(stop)
  type: float
  sample: 1793613120.52
pid:
  description: The process on the node that runs the soak; with it come C(pid_start), C(boot_id), C(limit),
    C(state_dir) and C(boot_id_path), from which M(gpufleet.baremetal.gate_wait) recognises it.
  returned: with O(detached) or O(stop)
  type: int
verdict:
  description: V(pass) only if everything that the profile requires was measured and passes.
  returned: always, without O(detached) and O(stop)
  type: str
  sample: fail
msg:
  description: The verdict, the worst findings and the remedy in one sentence.
  returned: always, without O(detached) and O(stop)
  type: str
  sample: "soak_gate: fail. GPU 5: 12 wrong results in burn. Remedy: field_diag"
checks:
  description: One entry a cell, each with id, entity, measured, wanted, unit, source and verdict.
  returned: always, without O(detached) and O(stop)
  type: list
  elements: dict
  sample:
    - id: temperature.max
      entity: GPU 5
      measured: 93.0
      wanted: 88.0
      unit: C
      source: of the site
      verdict: fail
findings:
  description: What is wrong, each with id, entity, text and remedy.
  returned: always, without O(detached) and O(stop)
  type: list
  elements: dict
  sample:
    - id: burn.errors
      entity: GPU 5
      text: "GPU 5: 12 wrong results in burn"
      remedy: field_diag
remedy:
  description:
    - The heaviest remedy of the findings, one of V(none), V(retest), V(remediate_config), V(reset_gpu), V(reboot),
      V(power_cycle), V(fabric), V(reseat), V(field_diag) and V(rma).
  returned: always, without O(detached) and O(stop)
  type: str
  sample: field_diag
tool:
  description: Name and version of what measured.
  returned: always, without O(detached) and O(stop)
  type: dict
  sample: {name: soak, version: ""}
argv:
  description: What was asked for, with the loads, the seconds, and the unit of systemd in which it went on by itself.
  returned: always, without O(detached) and O(stop)
  type: list
  elements: str
  sample: [soak, burn, "86400", gpufleet-soak-1-4711.scope]
started:
  description: When the gate began, UTC.
  returned: always, without O(detached) and O(stop)
  type: str
  sample: "2026-11-20T10:00:00Z"
ended:
  description: When it ended, UTC.
  returned: always, without O(detached) and O(stop)
  type: str
  sample: "2026-11-20T10:00:04Z"
duration:
  description: How many seconds it took.
  returned: always, without O(detached) and O(stop)
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
  description: SHA-256 over the digests of what load, looks and kernel log have shown.
  returned: always, without O(detached) and O(stop)
  type: str
  sample: "sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"
profile:
  description: SKU and digest of the profile that was applied.
  returned: always, without O(detached) and O(stop)
  type: dict
  sample: {sku: h100-sxm-8, digest: "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}
schema:
  description: Version of this shape.
  returned: always, without O(detached) and O(stop)
  type: int
  sample: 1
gate:
  description: Name of the gate.
  returned: always, without O(detached) and O(stop)
  type: str
  sample: soak_gate
kind:
  description:
    - V(profile_missing) or V(config) where nothing was measured, since the SKU has no profile, or one by which the gate
      cannot judge. That is the site's failure, for which no node is quarantined.
  returned: where the profile was in the way
  type: str
  sample: profile_missing
evidence_path:
  description: Where the raw outputs lie; empty without O(evidence_path).
  returned: where it ran to its end within the task
  type: str
  sample: /var/log/gpufleet/soak.json
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError, Unsupported
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.registry import SOAK_GATE as soak_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.specs import SOAK_GATE as SPEC
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import refusal


def main() -> None:
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    ctx = Context(check_mode=module.check_mode, diff=module._diff)
    if module.params["collect"]:
        module.fail_json(**Unsupported("the ledger is on the controller", do="use the action").as_result())
    try:
        result = soak_gate(module.params, ctx).as_dict(ctx)
    except FleetError as exc:
        module.fail_json(**exc.as_result())
    if "verdict" in result and refusal(result, module.params["fail_on"], check_mode=module.check_mode):
        module.fail_json(**result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
