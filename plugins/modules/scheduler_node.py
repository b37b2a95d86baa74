#!/usr/bin/python
# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: scheduler_node
short_description: Hold a node in its scheduler, resume it, or look at it
version_added: "0.1.0"
description:
  - Takes a node out of its scheduler's hands and gives it back, and never touches what somebody else holds.
  - A hold carries a token, C(gpufleet:<run>:<why>), as its reason. A hold is ours when the run in the token is one
    that our ledger knows for this node; where the scheduler overwrote the reason with a finding of its own, the
    ledger's record of the hold counts. Any other held node is foreign, also one that carries the token of another
    site's controller. It is reported, and left alone.
  - Everything that is written is read back. A node that was changed between the look at it and the write is looked
    at and judged anew; nothing is written to what was not judged.
  - Slurm's own mark counts as nobody's only where its whole reason is one that slurmctld writes, and SlurmUser wrote
    it. FAIL, a drain without a reason, and a reservation with the flag MAINT that has begun are somebody's.
  - That the scheduler does not know a name is no proof that nothing runs on the node. Where it has a node whose name,
    short name, host name or address is one of this host's, and where the ledger has admitted the node before, the task
    fails with that near match. C(gpufleet_scheduler=none) says that a node belongs to no scheduler.
  - Which node of the scheduler a machine is, its adoption or a hold of ours has fixed, once it came as far as its
    gates. Under another name nothing is written and nothing told to the ledger (error kind C(wrong_machine)), unless
    the machine calls itself so. The task asks it, with its serial, over the host's own connection where it is not
    delegated. Or a person says so, with O(force_reason). The new name counts from then on. So it is with the first
    hold of a machine that our runs have imaged, where the node of that name is at work and the machine was never
    admitted, or where the node is called otherwise than the host, by its names and addresses in the scheduler too. The
    first hold of any other machine takes no such node where the scheduler has another one of the host's name or
    address. It is not asked for its own name where the node is called like the host, since most new machines are
    silent, and for long. A whole name counts before what is alike up to the first dot. To give such a machine work
    asks for the same, but that its node may be at work. One that was admitted and never held is the node as which it
    was seen in service right before that.
  - Each hold and adoption notes of which cluster the node is, for Slurm its C(ClusterName) with the first
    C(SlurmctldHost), for Kubernetes the uid of its namespace C(kube-system). What another cluster says of a node of
    this name is no evidence. Nothing is written then, and the task fails with error kind C(wrong_machine), until a
    person says with O(moved_to) that the machine has moved.
  - Each call tells the ledger what it saw (C(drained), C(not_in_scheduler), C(in_service), C(not_drained) or
    C(foreign_hold)), which is what destructive tasks ask for.
author: gpufleet.baremetal contributors (@gpufleet)
extends_documentation_fragment:
  - gpufleet.baremetal.attributes
  - gpufleet.baremetal.for_all
  - gpufleet.baremetal.ledger
  - gpufleet.baremetal.scheduler
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
options:
  state:
    description:
      - V(held) keeps new work away; work that runs goes on. It returns at once; wait for the drain with
        M(gpufleet.baremetal.scheduler_wait). A hold of ours that says the same is kept as it is, whichever run took
        it; where O(why) differs, the reason is replaced. A hold of the kind C(quarantine) stays as it is.
      - V(resumed) lifts a hold of ours, once the node's agent answers its scheduler, then waits until the node is in
        service, and makes sure that it stays there. By the ledger the node needs a passport that has not expired and
        is newer than its last imaging and its last quarantine, a state from which C(admitted) is allowed, and no
        failure that stands against it; or O(force_reason). A last look of this run that is older than 600 s is renewed
        over the host's own connection, where the task is not delegated. The kernel log is read anew then, by
        M(gpufleet.baremetal.kernel_log_gate) with what C(module_defaults) say for it, and has to pass. A node that all
        topologies lack which its partitions of Slurm go by would stand idle for good, and is refused without
        O(force_reason); a topology in a form that cannot be read is told in C(warnings), and refuses nobody.
        M(gpufleet.baremetal.topology_file) writes it. slurmrestd cannot be asked for that.
      - V(present) only looks.
    type: str
    choices: [held, resumed, present]
    default: present
  moved_to:
    description:
      - With O(state=present) and O(force_reason), that the machine has moved to this cluster, in the words in which the
        refusal names it, such as V(slurm beta of ctl2). It has to be the one that is asked, and to know the node.
      - A reason alone says nothing of the cluster.
    type: str
  scheduler_node:
    description:
      - The node's name in the scheduler, for Slurm its C(NodeName), for Kubernetes that of its object.
      - Taken from the host variable C(gpufleet_scheduler_node), else the host's name in the inventory.
    type: str
  name:
    description: The name to use where O(scheduler_node) is not set. The action fills in the host's name.
    type: str
  called:
    description:
      - What the machine calls itself, as a task before has asked it. For O(state=present) alone.
      - RV(rather) tells whether the scheduler has another node that may be meant by that.
    type: str
  why:
    description: Why the node is held, in a few words; it becomes the end of the token.
    type: str
    default: maintenance
  kind:
    description:
      - What O(state=held) holds the node for. A hold of the kind V(work) is a run's own.
      - One of the kind V(keep) is a person's, made through this collection, and C(+keep) stands in its token. No run
        lifts it, takes it for its own work or counts it as proof that the node may be touched, unless O(over_keep).
    type: str
    choices: [work, keep]
    default: work
  over_keep:
    description:
      - A person asks, so a hold of the kind V(keep) that was made through us counts as ours. O(state=held) puts one of
        O(kind) in its place, O(state=resumed) lifts it.
      - With O(kind=keep) it is needed only where a person keeps the node already, for another reason.
      - For a person's own tasks. A playbook that runs by a schedule must not set it.
    type: bool
    default: false
  seen_event:
    description:
      - The event that the caller's look at the ledger found as the one that brought the node into its state, as
        C(fleet_status) returns it under C(event). Where the ledger has a newer one, another run has worked on the node
        since, and nothing is written. Read under the node's lease.
      - Without it a node is held, or resumed, whatever became of it since anybody looked.
    type: int
  trial:
    description:
      - With O(state=resumed), whether a job of ours runs on the node before anybody else's can land there. The node is
        reserved for us while it is still held, the resume lets the job start, and the reservation is deleted once the
        job has ended well, on this very node, and what it wrote there (below C(/var/tmp)) was read over the host's own
        connection. Where the task has none, as with O(batch), the job's own exit status has to do.
      - A node whose job fails, does not end within O(timeout) or runs elsewhere is held again, before its reservation
        is deleted. The reservation's name is C(gpufleet:<run>:trial-<node>), and it has no end. What a run has left
        that was killed counts as a hold of ours, and the next resume takes it away, whatever this option says.
      - V(auto) resumes the node without where that cannot be done. So it is with a way to the scheduler that runs no
        jobs (slurmrestd, Kubernetes), a node in somebody else's reservation, a partition, account or QOS that takes no
        job of this login, C(MinJobAge) below 30 s, and a task that is delegated. RV(trial) says why. With V(always)
        the node stays held then, and the task fails.
    type: str
    choices: [never, auto, always]
    default: never
  timeout:
    description: Seconds to wait for the node's agent when O(state=resumed), and for the job of O(trial).
    type: float
    default: 300
  interval:
    description: Seconds between two looks.
    type: float
    default: 2
  run_id:
    description: The run in the token. Filled by the action.
    type: str
  known_token:
    description: The token of the hold that the ledger says was taken and not released. Filled by the action.
    type: str
  known_author:
    description: Who set that hold, as the scheduler told it then. Filled by the action.
    type: str
  known_runs:
    description:
      - The runs of ours that may have held this node since the newest hold that the ledger knows. Filled by the action.
    type: list
    elements: str
  known_announced:
    description:
      - The tokens of holds that such runs announced since the newest hold that the ledger knows. Filled by the action.
      - A run that was killed right after it had written one of them told nobody.
    type: list
    elements: str
  known_as:
    description: What else the node is called or reached by in the inventory, or calls itself. Filled by the action.
    type: list
    elements: str
  known_heard:
    description:
      - What the machine that answers calls itself, where nothing shows that it is the node. Filled by the action.
      - Such a name only speaks against a hold or a resume.
    type: list
    elements: str
  known_called:
    description:
      - What the machine calls itself, where that is its node's name only up to the first dot. Filled by the action.
      - It shows that it is the node where the scheduler has no other one that could be meant. Where another one bears
        it as a whole, the machine is that one, also where the host is called like the node.
    type: str
  known_own:
    description:
      - What the machine was heard to call itself by this run, or by the last look before a resume. Filled by the
        action.
      - Where the scheduler has another node of that name, nothing is held or resumed, and the task fails with error
        kind V(wrong_machine). A person's O(force_reason) counts before a hold, and is remembered.
    type: str
  lacks:
    description: What the node lacks by the ledger to be given work. Filled by the action.
    type: str
  looked_ago:
    description:
      - For how many seconds the last look at the node has been over, by the ledger. Filled by the action.
      - A node that by its scheduler was booted since then stays held, and fails with error kind V(evidence_missing).
    type: float
  looked_boot:
    description:
      - The boot that the last look saw (C(boot_id)). Filled by the action.
      - Where the scheduler tells no time of boot, the node itself is asked for its boot, over the host's own
        connection, right before the resume and right after it. One that runs another boot, does not answer, or cannot
        be asked since the task is delegated, stays held, and fails with error kind V(evidence_missing).
    type: str
  looked_gpus:
    description:
      - How many GPUs the last look has counted on the node. Filled by the action.
      - One with some is not resumed before its scheduler knows of them, where that tells of GPUs, as Kubernetes does.
    type: int
  known_admitted:
    description: Whether the ledger has admitted this node and not retired it since. Filled by the action.
    type: bool
  known_here:
    description:
      - Whether the ledger knows this node from work of ours, admitted, adopted or held. Filled by the action.
      - A node at work that it does not know is somebody else's, and O(state=held) fails with error kind V(not_adopted).
    type: bool
  known_scheduler_node:
    description: The scheduler's node that the machine is by the ledger. Filled by the action.
    type: str
  known_renamed:
    description: What shows that the machine is another node of the scheduler now. Filled by the action.
    type: str
  known_uuids:
    description:
      - The system UUIDs by which the ledger knows the machine. Filled by the action.
      - Where the scheduler tells that of the machine its node runs on, as Kubernetes does, and it is another one,
        nothing is held or resumed, and the task fails with error kind V(wrong_machine).
    type: list
    elements: str
  known_incarnation:
    description:
      - In which record of the node the scheduler had the hold that the ledger knows. Filled by the action.
      - Where that was deleted and made anew, as an object of Kubernetes may be by a reimage, nobody has lifted the
        hold. It is put on again before O(state=resumed) goes on.
    type: str
  known_cluster:
    description:
      - Of which cluster the machine is a node by the ledger. Filled by the action.
      - Where another one is asked, nothing is held or resumed, and the task fails with error kind V(wrong_machine),
        until O(moved_to) says that it has moved.
    type: str
  known_cluster_host:
    description: Its controller's machine, since two clusters may be called alike. Filled by the action.
    type: str
  known_scheduler_at:
    description: What tells a cluster from others that has no name. Filled by the action.
    type: str
  known_standing:
    description: Holds of ours that nobody has lifted in a scheduler that the machine has left, each with C(token) and
      C(author). Filled by the action.
    type: list
    elements: dict
  known_others:
    description: The other machines that are a node of this name by the ledger, each with C(host) and which scheduler's,
      where this machine is about to become it. Filled by the action.
    type: list
    elements: dict
  known_left:
    description: Was the hold that the ledger knows taken in a scheduler that the machine has left since, or before it
      was retired? Its words are still held against those that stand, and nothing else. Filled by the action.
    type: bool
  leave:
    description: Until when the module on another machine may write, and what an earlier part of this call has ordered.
      Filled in by the action on the controller, for a task that is delegated.
    type: dict
requirements:
  - Slurm's commands C(scontrol) and C(squeue), for O(trial) also C(sbatch) and C(scancel), on the machine that runs
    this or on O(scheduler_login_host), for O(scheduler=slurm)
  - Python library requests on the machine that runs this, for O(scheduler=kubernetes); PyYAML where it is a kubeconfig
notes:
  - Delegated to another machine, it writes there only within 20 seconds of a look at the lease and at what the node
    needs to be given work, up to 45 where the way there takes long. Past that it comes back for leave and goes on.
  - A node is held with DRAIN and not with DOWN, because C(ReturnToService) readmits a node that is down, and never one
    that is drained.
  - A node of Kubernetes is held with a taint that carries the run and an annotation that carries the token. The cordon
    beside them is a courtesy, since anybody may lift it.
seealso:
  - module: gpufleet.baremetal.scheduler_wait
"""

EXAMPLES = r"""
- name: Keep new jobs away
  gpufleet.baremetal.scheduler_node:
    state: held
    why: reimage

- name: Keep the node for the technicians, whatever runs meanwhile
  gpufleet.baremetal.scheduler_node:
    state: held
    kind: keep
    why: disk swap, ticket 4711

- name: Give the node back, and wait until the scheduler sees it answer
  gpufleet.baremetal.scheduler_node:
    state: resumed
    timeout: 600

- name: Hold a node of Kubernetes
  gpufleet.baremetal.scheduler_node:
    state: held
    why: reimage
    scheduler: kubernetes
    scheduler_url: https://k8s.example.com:6443
    scheduler_ca_path: /etc/gpufleet/k8s-ca.crt
    scheduler_token_path: /run/gpufleet/k8s-token

- name: Ask a cluster that only the login node can reach
  gpufleet.baremetal.scheduler_node:
    state: present
    scheduler: slurm
    scheduler_conf: /etc/slurm/slurm.conf
    scheduler_node: gpu007
  delegate_to: login1
  register: seen

- name: Hold all nodes of the batch
  gpufleet.baremetal.scheduler_node:
    batch: true
    state: held
    why: reimage
  run_once: true
  register: hold

- name: Each host reads its own verdict
  ansible.builtin.assert:
    that: hold.verdicts[inventory_hostname].ok
    fail_msg: "{{ hold.verdicts[inventory_hostname].reason }}"
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
scheduler_node:
  description: The name that the scheduler was asked for.
  returned: success
  type: str
  sample: gpu007
cluster_host:
  description: The machine that the cluster's configuration names first for its controller.
  returned: for Slurm by its commands
  type: str
  sample: ctl1
cluster:
  description: Which scheduler was asked, by its kind and what it calls itself, for Kubernetes the uid of a namespace.
  returned: where it tells
  type: str
  sample: slurm alpha
scheduler_at:
  description: What tells it from others where it has no name. Its address, for Kubernetes with a digest of its CA.
  returned: where it is reached by a URL
  type: str
  sample: https://slurm.example.com:6820
state:
  description:
    - Where the node is. V(drained) means held, without work, and with nothing under way; V(absent) that the scheduler
      does not know it. In check mode what it would be.
  returned: success
  type: str
  sample: draining
native:
  description: The state in the scheduler's own words.
  returned: success
  type: str
  sample: MIXED+DRAIN
reason:
  description: The reason that stands in the scheduler.
  returned: success
  type: str
  sample: "gpufleet:ctl1-4242-99:reimage"
owner:
  description:
    - Whose the hold is, V(free) where there is none, V(ours), V(scheduler) where the scheduler itself took the node
      down, or V(foreign).
  returned: success
  type: str
  sample: ours
foreign:
  description: Somebody else holds the node.
  returned: success
  type: bool
holds:
  description:
    - Everything that keeps new work away from the node, each with its C(text), its C(author) and C(since) when it is
      there, its C(form) in the scheduler's terms (such as C(drain) or C(maintenance reservation)), its C(kind) where
      it carries a token of this collection, and its C(owner), V(ours), V(scheduler) or V(foreign).
    - One that is foreign makes the node foreign.
  returned: success
  type: list
  elements: dict
  sample:
    - text: "gpufleet:ctl1-4242-99:reimage"
      author: root
      since: "2026-11-21T23:35:20"
      kind: work
      form: drain
      owner: ours
rather:
  description:
    - Which other node of the scheduler the machine may be by O(called), and by which of its names; empty where that is
      the node's own name, or no other's.
    - A whole name counts before what is alike up to the first dot.
  returned: O(state=present)
  type: str
  sample: gpu007.hpc.example.com
answers:
  description: The scheduler sees the node's agent answer.
  returned: success
  type: bool
booted:
  description: When the node's agent says that it booted, in the scheduler's own words; empty where that is not known.
  returned: success
  type: str
booted_at:
  description: The same in seconds since the epoch, by the clock of where this ran; 0 where the scheduler does not tell
    what time it is there, or tells of a boot by no time.
  returned: O(state=present); 0 without O(called)
  type: float
  sample: 1764324778.0
finding:
  description: What the scheduler itself found wrong with the node, such as too little memory.
  returned: success
  type: str
blocks_resume:
  description: Why the scheduler would refuse a resume, or why it would be wrong, whoever holds the node.
  returned: success
  type: list
  elements: str
waits_for:
  description: What is still under way although no job runs, for instance V(COMPLETING).
  returned: success
  type: str
jobs:
  description: Ids of the jobs on the node.
  returned: success
  type: list
  elements: str
trial:
  description: What came of O(trial). C(made) tells whether a job of ours has run well there, C(job) its id, C(why) why
    there was none. Empty where none was asked for, or nothing was to be resumed.
  returned: success
  type: dict
  sample:
    made: true
    why: ""
    job: "4711"
before:
  description: State and reason before.
  returned: success
  type: dict
after:
  description: State and reason afterwards, read back; in check mode predicted.
  returned: success
  type: dict
asked:
  description: Every write that was sent.
  returned: success
  type: list
  elements: str
events:
  description: What the ledger is told.
  returned: success
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._leave import LeaveOfAll
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.node import scheduler_node
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.specs import NODE
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context


def main() -> None:
    module = AnsibleModule(argument_spec=NODE, supports_check_mode=True)
    name = module.params["scheduler_node"] or module.params["name"] or ""
    line = LeaveOfAll(module.params["leave"])
    ctx = Context(check_mode=module.check_mode, diff=module._diff, node=name, lifeline=line, begun=line.begun)
    params = {**module.params, "looked_ago": line.aged(module.params["looked_ago"])}
    try:
        result = scheduler_node(params, ctx)
    except FleetError as exc:
        module.fail_json(**exc.as_result(), **line.told(ctx.asked, ctx.begun))
    module.exit_json(**result.as_dict(ctx))


if __name__ == "__main__":
    main()
