#!/usr/bin/python
# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gate_idle
short_description: Run a gate on idle nodes, in jobs of their scheduler that give way to any other
version_added: "0.1.0"
description:
  - Sends, from one task, a job to each idle node of the batch whose newest verdict is old, the oldest first and so many
    at once as O(at_once) says. The job has the node for itself, runs the gate there as it would run anywhere, and
    writes what it found into a file that the controller reads over the host's own connection, has judged like that of
    any detached gate, and takes away.
  - Nothing is taken out of service. The scheduler displaces such a job as soon as anybody's needs the node, and it does
    not come back by itself.
  - Only the file of a job that ended by itself and well is believed. A job that was displaced, cancelled, cut off by
    its limit or lost says nothing of its node, whatever its exit code is, and the ledger has no verdict of it.
  - A pass or a failure goes to the ledger as if the gate had returned it. This module holds no node and repairs none;
    see the playbook C(verify_idle).
  - Left alone are nodes that are held, drained, reserved or planned for by the scheduler, that have a job, that another
    run works on, or whose newest verdict of this gate is younger than O(older_than).
  - A job ends at once where somebody holds its node, or another run of ours takes it. No lease is kept meanwhile, so
    that no other run waits for a verification. A drain of ours that finds such a job ends it.
  - After a failure nothing new is begun, so that whoever holds that node comes to it soon.
  - However this task ends, its jobs are cancelled. What a run left that was killed is cancelled by the next one on the
    same controller, or ends by its own time limit.
  - Before anything is begun it is shown that jobs of O(queue) give way. With Slurm that is a partition with
    C(PreemptMode=CANCEL) or C(REQUEUE), C(GraceTime=0), and a C(PriorityTier) below that of each other partition which
    has the node, and C(PreemptType=preempt/partition_prio). A node of which that is not so is left alone.
  - Meant for C(run_once); called by every host all the same, one worker does the work and the others get its answer.
extends_documentation_fragment:
  - gpufleet.baremetal.attributes
  - gpufleet.baremetal.ledger
  - gpufleet.baremetal.batch
  - gpufleet.baremetal.scheduler
attributes:
  check_mode:
    support: full
    details: Says which nodes would be verified now, and submits nothing.
  diff_mode:
    support: none
options:
  gate:
    description: The gate that is run.
    type: str
    choices: [dcgm_gate]
    default: dcgm_gate
  options:
    description:
      - Options of that gate, for instance C(level). C(level), C(tests), C(timeout), C(busy_timeout),
        C(localise_timeout), C(health), C(dcgmi), C(pci_path), C(state_dir) and C(boot_id_path) may be given.
    type: dict
    default: {}
  queue:
    description: Where the jobs are sent, which the site keeps for jobs that give way; with Slurm a partition.
    type: str
    required: true
  at_once:
    description: So many nodes are verified at a time, at most.
    type: int
    default: 8
  older_than:
    description: Seconds; a node whose newest verdict of this gate is younger, and no inconclusive one, is left alone.
    type: float
    default: 604800
  timeout:
    description: Seconds after which no job of this call goes on, and none is begun.
    type: float
    default: 7200
  start_timeout:
    description: Seconds within which a job must have started; one that has not is cancelled.
    type: float
    default: 120
  interval:
    description: Seconds between two looks.
    type: float
    default: 10
  look_timeout:
    description: Seconds that one look at one node may take.
    type: float
    default: 20
  python:
    description:
      - The interpreter on the nodes, Python 3.9 or newer. A host's own C(ansible_python_interpreter) goes first where
        it is an absolute path.
    type: str
    default: /usr/bin/python3
  sku:
    description: The hardware model, which names the profile. Without it C(gpufleet_sku) of each host.
    type: str
  profile:
    description: The profile itself, in place of a file.
    type: dict
  profile_path:
    description:
      - Folders that are searched for the profile before those in E(GPUFLEET_PROFILE_PATH) and before the shipped ones.
    type: list
    elements: path
  dmi_path:
    description: Where Linux shows what the firmware says of the machine.
    type: path
    default: /sys/class/dmi/id
requirements:
  - Slurm's commands C(scontrol), C(squeue), C(sbatch) and C(scancel) on the controller, which run as root there, so
    that the jobs run as root on the nodes
author:
  - gpufleet.baremetal contributors (@gpufleet)
seealso:
  - module: gpufleet.baremetal.dcgm_gate
  - module: gpufleet.baremetal.gate_wait
"""

EXAMPLES = r"""
- name: Verify what is idle and was last verified a week ago or more
  gpufleet.baremetal.gate_idle:
    queue: verify
    options:
      level: 2
  run_once: true
  register: verified

- name: Show what failed
  ansible.builtin.debug:
    msg: "{{ verified.verdicts[inventory_hostname].reason }}"
  when: verified.verdicts[inventory_hostname].verdict == "fail"
"""

RETURN = r"""
gate:
  description: The gate that was run.
  returned: success
  type: str
  sample: dcgm_gate
verdicts:
  description:
    - For each host what came of it. C(came_to) is V(judged), or else V(skipped) where nothing was begun, V(displaced)
      where other work took the node, V(yielded) where the job was ended for a hold, another run or the end of this
      call, V(cut) where it ended without a result, and V(foretold) in check mode.
    - C(verdict) is the gate's where C(came_to) is V(judged); only then has the ledger one, under C(event). C(reason)
      says why else, C(job) which job it was, C(seconds) how long it took.
    - C(kind) is that of the error behind a host that was left alone, where it was one.
  returned: success
  type: dict
  sample:
    gpu001: {ok: true, verdict: pass, came_to: judged, job: "4711", seconds: 912.4, reason: "", findings: [],
      remedy: none, kind: "", event: 4711}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Unsupported
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.specs import IDLE


def main() -> None:
    module = AnsibleModule(argument_spec=IDLE, supports_check_mode=True)
    error = Unsupported(
        "only the controller has the connections of all hosts",
        do="run this task in a play, where its action does the work",
    )
    module.fail_json(**error.as_result())


if __name__ == "__main__":
    main()
