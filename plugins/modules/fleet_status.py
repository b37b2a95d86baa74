#!/usr/bin/python
# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: fleet_status
short_description: Tell where each node stands by ledger and scheduler, and what to do next
version_added: "0.1.0"
description:
  - Reads lifecycle state, reason, remedy, hold, lease and passport of every host of the play from the ledger, in one
    task and a handful of queries.
  - Asks the schedulers of these hosts as well, each of them once for all of its own, unless O(ask_scheduler=false).
    What the ledger calls admitted, and its scheduler does not serve, is not told as V(admitted).
  - Runs on the controller, where the ledger is; use it under C(run_once).
  - Reads only, and writes nothing but the file of O(path). A machine that the ledger has never seen is V(discovered),
    and stays unknown to it.
  - Each host is read in the ledger that a task of its own would use. Where some ledgers cannot be read, their hosts are
    V(unknown), and the others are told all the same; where none can, the task fails.
  - A host that was moved to another provisioner than its C(gpufleet_provisioner), or is on its way there, is V(unknown)
    too, and RV(nodes) says under C(stopped) which lines of the inventory are to be changed.
  - A host whose serial, MAC or node id contradict each other or the ledger is V(unknown) as well. One that has none of
    them may be a new machine, and is V(discovered).
extends_documentation_fragment:
  - gpufleet.baremetal.attributes
  - gpufleet.baremetal.ledger
attributes:
  check_mode:
    support: full
  diff_mode:
    support: partial
    details: Shows what O(foretell) foretells.
options:
  hosts:
    description: The hosts to look at. All hosts of the play without it, those that have failed included.
    type: list
    elements: str
  report:
    description: Also show a summary for people, which fits a terminal.
    type: bool
    default: false
  title:
    description: The headline of that summary.
    type: str
    default: Fleet
  by_cause:
    description:
      - Summarize by cause rather than by host. Hosts that stand in one state for one reason, and that one command takes
        on from there, are one row, however many they are. What each of them has of its own, such as its name or the
        address of its BMC, is no part of the reason.
    type: bool
    default: false
  path:
    description:
      - Also write what is told, by cause and by host, to this file on the controller, as JSON and readable by its owner
        alone. It is replaced as a whole. Check mode writes none.
    type: path
  expire_within:
    description: Seconds; a node in service whose passport ends within them is told as due for a renewal.
    type: int
    default: 1209600
  issued_within:
    description: Seconds; a passport that was issued within them is told as fresh.
    type: int
    default: 0
  ask_scheduler:
    description:
      - Ask the schedulers too. Of a host whose scheduler does not answer, or is not named, nobody can say that it is in
        service; where the ledger says so, it is told as V(unknown).
      - V(false) reads the ledger alone, and asks nobody else.
    type: bool
    default: true
  proof:
    description:
      - Look of each node in service whether a renewal could sign a new passport for it, see RV(nodes.unproven). It is
        looked at always of those whose passport is due.
      - Of a node that is drained, quarantined or in validation it is told whether it runs another image than is
        declared now.
      - It reads the history of each such node in the ledger.
    type: bool
    default: false
  foretell:
    description:
      - Names of registered results. Of each host that has all of them, and of which none failed, RV(nodes.foretold) is
        told, and shown in place of where it stands.
      - It is for the end of a play in check mode. Name what its last tasks registered before it comes to what cannot be
        there yet, such as a node that runs its image.
    type: list
    elements: str
    default: []
  foretell_way:
    description:
      - The states through which such a host would go. Without it those of its way into service, by day 0 or day 2.
    type: list
    elements: str
  noted:
    description:
      - Names of registered results of M(gpufleet.baremetal.ledger_event). In check mode, which records nothing, hosts
        are told as if these had been recorded; otherwise they are in the ledger, and nothing else is read.
    type: list
    elements: str
    default: []
  settings_of:
    description:
      - Names of roles of this collection. Before anything else is done, their options are held against what they may
        be, for all hosts at once; what a role does not take ends the run, named with the hosts that have it.
      - A play that begins so may include these roles with C(rolespec_validate=false), and spares each host a task a
        role.
    type: list
    elements: str
    default: []
author:
  - gpufleet.baremetal contributors (@gpufleet)
"""

EXAMPLES = r"""
- name: Show what is held, why, and what to do about it
  gpufleet.baremetal.fleet_status:
    report: true
    title: Rack 12
  run_once: true
  register: fleet

- name: Show the whole fleet in a few rows, and write it down for other programs
  gpufleet.baremetal.fleet_status:
    report: true
    by_cause: true
    path: /var/lib/gpufleet/status.json
  run_once: true

- name: Leave out what is admitted already
  ansible.builtin.meta: end_host
  when: fleet.nodes[inventory_hostname].state == "admitted"
"""

RETURN = r"""
nodes:
  description: By host name, where the node stands.
  returned: success
  type: dict
  contains:
    node_id:
      description: The ledger's id; empty for a machine that it has never seen.
      type: str
    state:
      description:
        - Lifecycle state, by ledger and scheduler together.
        - V(unknown) where the host's ledger cannot be read or does not tell which of its nodes the host is, or the
          scheduler of an admitted node cannot be asked; C(stopped) says why.
        - V(draining) also where a run of ours holds an admitted node, and did not come to record it.
        - V(unserved) where somebody else holds an admitted node, or its scheduler does not have it in service;
          C(reason) says which.
      type: str
      sample: quarantined
    recorded:
      description: The state that the ledger has, whatever the scheduler says.
      type: str
      sample: quarantined
    served:
      description:
        - Does its scheduler have it in service? V(yes), V(no), or V(unknown) where that did not answer. Empty where the
          node belongs to no scheduler, or was never to serve and does not.
      type: str
    held_by:
      description:
        - Whose the hold at its scheduler is, V(ours), V(scheduler) or V(foreign); V(free) without one, empty where it
          was not asked. A hold that a person made through us is V(foreign).
      type: str
    event:
      description: Id of the event that brought the node into the state that the ledger has.
      type: int
    since:
      description: When that was, UTC.
      type: str
    run:
      description: The run that did it.
      type: str
    reason:
      description: Why, in words.
      type: str
      sample: "GPU 0000:1b:00.0: Xid 79, fallen off the bus"
    remedy:
      description:
        - What is due.
        - Where the same finding of the same part came back after a recycle, that is more than its own, and V(rma)
          after two of them.
      type: str
      sample: power_cycle
    attempts:
      description: How many recycles ended in quarantine since the node was last in service.
      type: int
      sample: 1
    left:
      description:
        - Why day 2 leaves a node that is out of service to people, unless somebody says otherwise; empty where it does
          not.
        - A recycle is not the remedy of its quarantine, or was tried often enough, or helped often enough and not for
          long; or the node was adopted, and no run has imaged it since; or a person has it burned in, or no end of its
          soak is known.
      type: str
      sample: "no run is the remedy rma: apply it first"
    flaps:
      description:
        - How often the node was recycled for a failure lately, where that is as often as C(gpufleet_flap_recycles)
          within C(gpufleet_flap_days) says, 3 within 30 days without them; empty where it is less. A recycle that
          ended before its imaging began is none. Where it fails once more, day 2 holds it, and leaves it to a person.
      type: str
      sample: "3 recycles within 30 days"
    failing:
      description:
        - Whether the run that took the node out of service has seen it fail, as day 2 says with the states C(draining)
          and C(drained). Of one that was taken out for a roll-out, or drained for a person, it is V(false).
      type: bool
      sample: false
    admitted_before:
      description: Whether the node was admitted or adopted, and not retired since.
      type: bool
    stopped:
      description: Why the newest run went no further with the node, where it says nothing of the node itself.
      type: str
    deploy_id:
      description: Id of the newest deployment that began; empty where there was none since the node was retired.
      type: str
    deploy_resume:
      description:
        - Id of the deployment to go on with, of a node that is imaging or validating. Empty where a look at the node
          did not find that this deployment reached it, so that the next run deploys anew.
      type: str
    imaging_at:
      description: When that was, in seconds since the epoch.
      type: float
    hold:
      description: The token of our hold at the scheduler, where there is one.
      type: str
    hardware:
      description:
        - What M(gpufleet.baremetal.hardware_verify) has said of the machine's parts when it looked last, V(pass),
          V(fail) or V(inconclusive); empty where it never did.
        - The playbook C(day2_recycle) has it look again, before the image is written, where it was no V(pass).
      type: str
      sample: pass
    outlier:
      description:
        - What M(gpufleet.baremetal.gate_outliers) has found of the node when it looked last, where it found it slower
          than its peers, or than it once was; empty elsewhere, and where the node was imaged since.
      type: str
    unheard:
      description:
        - Why its scheduler tells nothing of a node that is not in service by the ledger, such as another cluster's
          scheduler that was asked; empty where it told, or was not asked.
      type: str
      sample: ""
    kept:
      description:
        - Why a person keeps the node out of service, as they told the playbook C(maintenance); empty where none does.
        - It is what its scheduler says, where that was asked; else what the ledger was told.
      type: str
    passport_expires:
      description: When its newest passport ends, UTC.
      type: str
    adopted:
      description:
        - Does the node run what it ran when it was adopted? It was not imaged since, nor admitted on a passport.
      type: bool
      sample: false
    stranger:
      description:
        - Does it work for somebody else, as far as the ledger knows? No playbook but adopt goes on with it.
        - Its scheduler says so, or the newest run has found it, and nothing has come of the node since.
      type: bool
      sample: false
    unrecorded:
      description: Had its provisioner no record of it when it was adopted? C(next) names what enrols it there.
      type: bool
      sample: false
    passport_due:
      description:
        - Is the node in service, and has no passport that lasts longer than O(expire_within)? Never of one that works
          as it was adopted, of which C(next) says what is due.
      type: bool
      sample: false
    unproven:
      description:
        - Why no renewal can sign a new passport of a node in service, namely that the ledger has nothing that proves
          the deployment by which the node was imaged, or that C(gpufleet_image) declares another image than the one of
          its passport; empty where nothing stands in the way, or it was not asked for.
        - It is asked where RV(nodes.passport_due) or RV(nodes.renewing) is true, or with O(proof), and then also of a
          node that is drained, quarantined or in validation, of which it tells another image alone. C(next) then images
          the node.
      type: str
      sample: ""
    passport_fresh:
      description: Was its newest passport issued within O(issued_within)? Whether it is valid is not looked at.
      type: bool
      sample: false
    renewing:
      description:
        - Did a renewal of its passport leave it as it is? The playbook passports goes on with it, day2_recycle leaves
          it alone.
      type: bool
      sample: false
    tenant:
      description:
        - The tenant whose node it is, as C(gpufleet_tenant) says, where this run does not name them by
          C(gpufleet_for_tenant); empty for a node that no tenant has, or whose tenant is named.
      type: str
    lease:
      description: The run that works on it now, as far as nobody can see that it is dead.
      type: str
    busy:
      description: Is that another run than the one that asks?
      type: bool
      sample: false
    way:
      description:
        - The states that C(day0_bringup) or C(day2_recycle) records on its way into service, from where it stands. Both
          ask here for each of them; whether one of them takes the node up is told by the other values.
        - Empty where no run brings it into service, V(retired) or V(unknown).
      type: list
      elements: str
      sample: [enrolled, imaging, validating, admitted]
    foretold:
      description:
        - The same in words, of a host that has come through all that a run in check mode can do with it; empty of
          any other one, and without O(foretell).
      type: str
      sample: "discovered (new to ironic) -> enrolled -> imaging (gpu-golden 2026.11.1) -> validating -> admitted"
    next:
      description: The command that takes it on from here; in a job of an automation controller, the template to launch.
      type: str
groups:
  description: The same by cause, the most urgent first.
  returned: with O(by_cause) or O(path)
  type: list
  elements: dict
  contains:
    state:
      description: The state in which these hosts are.
      type: str
      sample: quarantined
    cause:
      description:
        - Why, in words. Of what differs from host to host it has one example and a number, or the span of times.
      type: str
      sample: "GPU 0000:1b:00.0 (and 2 more): Xid 79, fallen off the bus"
    count:
      description: How many hosts they are.
      type: int
      sample: 3
    hosts:
      description: Their names.
      type: list
      elements: str
      sample: [gpu001, gpu002, gpu007]
    folded:
      description: The same as Slurm writes it.
      type: str
      sample: "gpu[001-002,007]"
    remedy:
      description: What is due.
      type: str
      sample: power_cycle
    left:
      description: Why day 2 leaves them to people.
      type: str
      sample: ""
    next:
      description: The command that takes all of them on from here; empty where there is none.
      type: str
ansible_stats:
  description:
    - What C(ansible.builtin.set_stats) returns, called C(gpufleet_) and the title in lower case, such as
      C(gpufleet_day_2). How many nodes there are, how many in each state, and at how many a run stopped; the first ten
      hosts of each state in which something is to be done, and of those at which a run stopped. An automation
      controller hands it to the jobs that follow in a workflow. It is of the moment, and of the last slice; where nodes
      stand is in the ledger.
  returned: with O(report=true)
  type: dict
  sample:
    aggregate: false
    data:
      gpufleet_status:
        nodes: 200
        states: {admitted: 153, discovered: 45, quarantined: 2}
        stopped: 1
        hosts: {quarantined: [gpu017, gpu033], stopped: [gpu033]}
    per_host: false
lines:
  description: The summary for people.
  returned: success
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Unsupported
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.report import SPEC


def main() -> None:
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    error = Unsupported(
        "the ledger is on the controller",
        do="run this task without delegate_to; its action reads the ledger in the controller's own process",
    )
    module.fail_json(**error.as_result())


if __name__ == "__main__":
    main()
