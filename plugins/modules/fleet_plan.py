#!/usr/bin/python
# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: fleet_plan
short_description: Say which nodes may be taken out of service when, in waves within budgets
version_added: "0.1.0"
description:
  - Reads from ledger and schedulers what is out of service now, whoever took it, and lays the nodes of O(hosts) out in
    waves. The canary goes first, then growing waves, and no wave takes more out of service than O(budgets) have left.
  - In each wave nodes that are idle come first, then those that are out of service already, and last those whose jobs
    have run longest, where the scheduler tells that (Slurm does). The same state gives the same plan.
  - A node that is out of service already counts in its budgets whether it is in a wave or not, and takes no more of
    them. Nodes that were never in service are no part of any budget. One of which nobody can tell is out.
  - A node that a person keeps, a tenant has, another run works on, somebody else holds, or that is paused is in no
    wave.
  - Runs on the controller, where the ledger is; use it under C(run_once). All hosts have one ledger.
  - Changes no node. It records in the ledger what it planned, began, paused or reset; check mode tells the same, and
    records nothing.
extends_documentation_fragment:
  - gpufleet.baremetal.attributes
  - gpufleet.baremetal.ledger
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
options:
  state:
    description:
      - V(planned) lays out the waves. V(begun) says which of O(hosts) may go now, and records that they do.
      - V(begun) reads all anew. It judges the waves that this run has begun before by where their nodes stand, so that
        it is for a run that has ended with those. Until one node has come through, no more than O(canary) may go.
      - V(paused) has no wave begin with these hosts until V(resumed). Where O(hosts) are all hosts of the inventory,
        hosts that are added later are paused as well. What has begun goes on.
      - V(reset) says that what was found out of the images that O(hosts) are to run, or in any waves with them, was
        mended. What was broken off goes on, and begins with a canary anew.
    type: str
    choices: [planned, begun, paused, resumed, reset]
    default: planned
  hosts:
    description: The nodes that are to go. All hosts of the play without it, those that have failed included.
    type: list
    elements: str
  fleet:
    description: The hosts of which the budgets are counted. All hosts of the inventory without it, whatever the limit.
    type: list
    elements: str
  budgets:
    description:
      - How many nodes may be out of service at once. C(fleet) is for all of O(fleet); any other key is a host variable,
        such as C(gpufleet_failure_domain) or C(gpufleet_tenant), and counts for all hosts that have one value there,
        each value by itself. A host whose variable is a list is counted for each of its values.
      - C(topology_leaf) and C(topology_block) are such variables too. A host without one is counted where
        M(gpufleet.baremetal.topology_info) saw it last, for each leaf switch and for its NVLink domain.
      - Each is a number of nodes (V(2)), a percentage of its nodes (V(10%)), or both, of which the lesser counts, as a
        mapping with C(nodes) and C(percent). A percentage is rounded down, and is one node at least unless it is 0.
    type: dict
    default: {fleet: "10%"}
  elsewhere:
    description:
      - Count in O(budgets) also the nodes that this ledger has in service, or once had, and the inventory does not, as
        those of other slices of a job, and of other controllers. Each budget then holds twice, for the nodes of the
        inventory and for all of the ledger, each percentage of as many nodes.
      - Another domain than the fleet has those of which a run that had them in its inventory has told that they are
        there; each run that plans or begins waves tells it.
      - Such a node is out where the ledger says so. Its scheduler is not asked.
      - With V(false), and where O(fleet) is given, the budgets are for this part of the fleet alone.
    type: bool
    default: true
  windows:
    description:
      - When a wave may begin; always without it. Each has C(from) and C(to) as V(22:00), C(days) of V(mon) to V(sun)
        (all without it), and C(zone) as V(Europe/Berlin) (UTC without it). One whose end is before its beginning ends
        on the next day. What has begun goes on after its end.
    type: list
    elements: dict
    default: []
  canary:
    description: How many nodes the first wave has. Where one of them is not in service again, no further one begins.
    type: int
    default: 1
  growth:
    description: How many times as many nodes the next wave may have.
    type: float
    default: 2.0
  failures:
    description:
      - How many of the nodes that have ended may not be in service again, as a limit of O(budgets). Where they are
        more, no further wave begins. A percentage is rounded down, and may come to none.
      - A node that its run was stopped at before it was drained has failed as well, unless somebody else holds it.
    type: str
    default: "10%"
  same_finding:
    description:
      - So many nodes that failed with one finding (V(dcgm:80)), or one kind of error, let no further wave begin,
        however few of all that have ended they are. V(0) for however many.
      - Counted are the nodes of which O(failures) is counted, and without O(rollout) those of the last O(recent_hours).
    type: int
    default: 3
  recent_failures:
    description:
      - So many nodes that failed within O(recent_hours), in whatever waves of whatever runs, let no further wave begin
        where they are more than O(failures) of those that ended in these hours. V(0) for however many.
      - With O(rollout) in waves of the image alone.
    type: int
    default: 3
  recent_hours:
    description: How long that time is.
    type: float
    default: 24.0
  remember:
    description:
      - Without O(rollout), what failed in waves of earlier runs, and is not in service again, counts in O(failures)
        whenever that was, until V(reset); what they brought back counts among those that have ended. Each run begins
        with a canary of its own.
      - Nodes that the inventory has no more are not counted.
    type: bool
    default: false
  rollout:
    description:
      - Go on with a roll-out. What any wave of an earlier run has shown of the images that O(hosts) are to run counts
        as if this run had begun it. Nodes that were admitted since prove that the image works; those that were not, and
        were told why, keep further waves from beginning until V(reset). What a killed run left half-way goes first.
      - An image is known by name and version of the host variable C(gpufleet_image), and by the digest of the whole
        declaration that P(gpufleet.baremetal.rollout_digest#filter) gives.
      - Nodes that failed and are in the inventory no more count as well. While another run has a canary on its way, no
        wave begins.
    type: bool
    default: false
  reason:
    description: Why it is paused, resumed or reset, for people.
    type: str
  by:
    description: Who pauses, resumes or resets.
    type: str
  report:
    description: Also show it, as a table that fits a terminal.
    type: bool
    default: false
  title:
    description: The headline of that table.
    type: str
    default: Waves
seealso:
  - module: gpufleet.baremetal.fleet_status
author:
  - gpufleet.baremetal contributors (@gpufleet)
"""

EXAMPLES = r"""
- name: Show who would go when, with no more than one node of a power feed out at once
  gpufleet.baremetal.fleet_plan:
    budgets:
      fleet: {nodes: 8, percent: 10}
      gpufleet_failure_domain: 1
    report: true
  run_once: true
  register: plan

- name: Take what may go now
  gpufleet.baremetal.fleet_plan:
    state: begun
    hosts: "{{ ansible_play_batch }}"
    budgets:
      fleet: {nodes: 8, percent: 10}
      gpufleet_failure_domain: 1
  run_once: true
  register: wave

- name: Leave the others for a later run
  ansible.builtin.meta: end_host
  when: inventory_hostname not in wave.order

- name: Begin no wave before somebody says so
  gpufleet.baremetal.fleet_plan:
    state: paused
    reason: training run until Friday
    by: alice
  run_once: true
"""

RETURN = r"""
waves:
  description: The hosts of each wave, in their order; with O(state=begun) one wave, or none.
  returned: O(state=planned) and O(state=begun)
  type: list
  elements: list
  sample: [[gpu001], [gpu002, gpu003]]
limits:
  description: The same, each as C(--limit) of C(ansible-playbook) takes it.
  returned: O(state=planned) and O(state=begun)
  type: list
  elements: str
  sample: [gpu001, "gpu002,gpu003"]
order:
  description: All hosts of the waves, one wave after the other; empty where no wave may begin now.
  returned: O(state=planned) and O(state=begun)
  type: list
  elements: str
  sample: [gpu001, gpu002, gpu003]
sizes:
  description: How many of them each wave has, as C(serial) takes it; empty where no wave may begin now.
  returned: O(state=planned) and O(state=begun)
  type: list
  elements: int
  sample: [1, 2]
left:
  description: By host, why it is in no wave.
  returned: O(state=planned) and O(state=begun)
  type: dict
  sample:
    gpu004: "no room in gpufleet_failure_domain pdu12a: 1 of 8 are out of service, and 1 may be"
images:
  description: With O(rollout) the image that O(hosts) are to run, as waves call it, by name, version and the beginning
    of its digest; else empty.
  returned: O(state=planned) and O(state=begun)
  type: list
  elements: str
  sample: [gpu-golden 2026.11.2 0123456789ab]
halted:
  description: Why no wave may begin now, such as a pause, a window that is closed, or a canary that failed; else empty.
  returned: O(state=planned) and O(state=begun)
  type: str
  sample: ""
broken_off:
  description: Is it what the waves before have shown that lets none begin, and neither a pause nor a window?
  returned: O(state=planned) and O(state=begun)
  type: bool
  sample: false
ansible_stats:
  description:
    - What C(ansible.builtin.set_stats) returns, called C(gpufleet_waves). Why no wave may begin now, in short, and
      whether it is what the waves before have shown. An automation controller hands it to the jobs that follow in a
      workflow, and may tell it to people where the job fails.
  returned: O(state=planned) and O(state=begun)
  type: dict
  sample:
    aggregate: false
    data:
      gpufleet_waves: {halted: "the canary gpu001 is not in service again", broken_off: true}
    per_host: false
out:
  description: The hosts that are out of service now.
  returned: O(state=planned) and O(state=begun)
  type: list
  elements: str
  sample: [gpu004]
out_elsewhere:
  description: The nodes of other inventories that are out of service now, and count in the budgets.
  returned: O(state=planned) and O(state=begun)
  type: list
  elements: str
  sample: ["gpu104 (not in the inventory)"]
budgets:
  description: What each budget has left, domain by domain.
  returned: O(state=planned) and O(state=begun)
  type: list
  elements: dict
  contains:
    budget:
      description: Its key in O(budgets).
      type: str
      sample: gpufleet_failure_domain
    value:
      description: The domain; empty for the fleet. It ends with C(with other inventories) where nodes of these count.
      type: str
      sample: pdu12a
    nodes:
      description: How many nodes it has.
      type: int
      sample: 8
    out:
      description: How many of them are out of service now.
      type: int
      sample: 1
    may:
      description: How many may be.
      type: int
      sample: 1
    room:
      description: How many more may be.
      type: int
      sample: 0
through:
  description: The nodes of this run's waves that are in service again.
  returned: O(state=planned) and O(state=begun)
  type: list
  elements: str
  sample: []
failed_before:
  description: The nodes of this run's waves that are not.
  returned: O(state=planned) and O(state=begun)
  type: list
  elements: str
  sample: []
marked:
  description: The hosts that are paused or resumed now, and were not before.
  returned: O(state=paused) and O(state=resumed)
  type: list
  elements: str
  sample: [gpu001, gpu002]
lines:
  description: The same for people.
  returned: success
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Unsupported
from ansible_collections.gpufleet.baremetal.plugins.module_utils._waves.specs import RULES, SPEC


def main() -> None:
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True, **RULES)
    error = Unsupported(
        "the ledger is on the controller",
        do="run this task without delegate_to; its action reads the ledger in the controller's own process",
    )
    module.fail_json(**error.as_result())


if __name__ == "__main__":
    main()
