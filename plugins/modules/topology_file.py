#!/usr/bin/python
# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: topology_file
short_description: Write the topology that Slurm or Kubernetes goes by, checked, and have it read
version_added: "0.1.0"
description:
  - Writes C(topology.conf) or C(topology.yaml) of Slurm from what the inventory plans and the nodes have shown, has
    slurmctld read it, and reads back what it goes by.
  - Nothing is written before all is checked, for Slurm checks next to nothing. Each node of the cluster must be in one
    leaf, or in one block, and in no other; one that is in none would stand idle for good. No name may be one that Slurm
    does not know. Switches may not be in a circle, which ends slurmctld.
  - The file is replaced as a whole. One that somebody else wrote is left alone without O(force_reason).
  - Where slurmctld does not take it, or does not go by it, the file that was there before is put back and read again,
    and the task fails. A broken file that stays would end slurmctld at its next start.
  - Until slurmctld was seen to go by the new file, the former one lies beside it, with C(.before) behind its name, so
    that it is put back after a run that was killed as well. What somebody else has written there meanwhile is left
    alone.
  - What is in force already is neither written nor read again.
  - For Kubernetes it writes labels of the nodes, by which Kueue and others place pods. They are C(gpufleet.io/leaf),
    C(gpufleet.io/switch-1) for the switch right above the leaf and so on, and C(gpufleet.io/nvlink-domain); no other
    label is read or written. A node that is in none keeps no label of these, which a warning tells, and is not refused.
    A node object that is made anew has lost them, so run it again then.
extends_documentation_fragment:
  - gpufleet.baremetal.attributes
  - gpufleet.baremetal.ledger
  - gpufleet.baremetal.scheduler
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
notes:
  - Run it once for all hosts, on the machine that runs slurmctld, by C(delegate_to) with C(become) where that is not
    the controller. What it writes is recorded in the ledger for the host that runs the task.
  - For Slurm it works with its commands, not with slurmrestd.
  - A new C(TopologyPlugin) needs a restart of slurmctld, which ends at once where the file is not there yet. So write
    it first, with O(reconfigure=false).
options:
  format:
    description:
      - Which form. V(conf) is C(topology.conf), with one topology, of a C(TopologyPlugin) in C(slurm.conf). V(yaml) is
        C(topology.yaml) of Slurm 25.05 and later, with several, among which partitions choose; where it lies,
        C(topology.conf) is not read.
      - V(labels) are those of Kubernetes.
    type: str
    choices: [conf, yaml, labels]
    default: conf
  path:
    description: Where the file of Slurm is; beside C(slurm.conf), as slurmctld tells its place, without it.
    type: path
  hosts:
    description:
      - Whose places are read where a topology has no C(units). All hosts of the inventory without it, whatever the
        limit, since a file without some nodes leaves these out of service.
      - Hosts of another scheduler are passed over.
    type: list
    elements: str
  topologies:
    description: What is written.
    type: list
    elements: dict
    default: [{kind: tree}]
    suboptions:
      name:
        description: Its name, by which partitions choose it. Needed with O(format=yaml).
        type: str
      kind:
        description: V(tree) of switches, or V(block) of NVLink domains.
        type: str
        choices: [tree, block]
        default: tree
      default:
        description: Of several, is it the cluster's own?
        type: bool
        default: false
      units:
        description:
          - By name of each leaf, or block, the nodes that it has, as a list of their names in Slurm.
          - Without it each host of O(hosts) tells its own by the host variable C(topology_leaf) or C(topology_block).
            One without that variable is where M(gpufleet.baremetal.topology_info) saw it last, if that was at one leaf.
            A host whose variable and whose last look differ is refused without O(force_reason), as are hosts of one
            block that were seen in several NVLink domains, and those of two that were seen in one.
          - A leaf is written by the name that its switch tells of itself, also where the variable has its id. Of a pair
            that is one switch to its nodes the variable is a list, and V([leaf01, leaf02]) becomes C(leaf01_leaf02).
            A switch that would be in two leaves is refused like that, and a name by which several switches call
            themselves.
        type: dict
      switches:
        description:
          - By name of each switch above the leaves, a list of what is right below it. One, C(fabric), over all leaves
            without it. To name all spines gains nothing, and slows Slurm down.
        type: dict
      sizes:
        description:
          - The numbers of nodes that blocks are planned in and joined to, each twice the one before or four times, and
            so on. V([18]) without it. V([16]) leaves two nodes of an NVL72 to spare.
        type: list
        elements: int
      most:
        description: How many nodes one block may have. An NVL72 has 18 trays.
        type: int
        default: 18
  reconfigure:
    description: Have slurmctld read the file, and read back what it goes by. Without it the file is written alone.
    type: bool
    default: true
  timeout:
    description: Seconds until slurmctld must go by it.
    type: float
    default: 60
  interval:
    description: Seconds between two looks.
    type: float
    default: 1
seealso:
  - module: gpufleet.baremetal.topology_info
  - module: gpufleet.baremetal.fleet_plan
author:
  - gpufleet.baremetal contributors (@gpufleet)
"""

EXAMPLES = r"""
- name: Have Slurm go by the leaves that the inventory plans, and that nodes were seen at
  gpufleet.baremetal.topology_file:
  run_once: true

- name: Leaves and NVLink domains, between which partitions choose, on slurmctld's own machine
  gpufleet.baremetal.topology_file:
    format: yaml
    topologies:
      - name: leaves
        default: true
      - name: nvl72
        kind: block
        sizes: [18, 36]
  delegate_to: slurmctl01
  become: true
  run_once: true

- name: Label the nodes of Kubernetes by leaf, switch and NVLink domain
  gpufleet.baremetal.topology_file:
    format: labels
    topologies:
      - switches:
          pod1: [leaf01, leaf02]
      - name: nvl72
        kind: block
  run_once: true
"""

RETURN = r"""
path:
  description: The file, or the address of the API server.
  returned: success
  type: str
  sample: /etc/slurm/topology.conf
units:
  description: By name of each topology, the leaves or blocks and how many nodes each has.
  returned: success
  type: dict
  sample: {"": {leaf01: 32, leaf02: 32}}
in_force:
  description: Was it read back from slurmctld? In check mode, would it be?
  returned: success
  type: bool
  sample: true
was_amiss:
  description: Where slurmctld went by another topology before.
  returned: success
  type: list
  elements: str
  sample: ["leaf02 has gpu[033-063]"]
before:
  description: A digest of the file as it was; empty where there was none.
  returned: success
  type: dict
  sample: {}
after:
  description: A digest of the file as it is; in check mode as it would be.
  returned: success
  type: dict
  sample: {digest: "sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"}
asked:
  description: The writes that were sent.
  returned: success
  type: list
  elements: str
  sample: ["write /etc/slurm/topology.conf; scontrol reconfigure"]
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.map import topology_file
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.specs import TOPOLOGY
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context


def main() -> None:
    module = AnsibleModule(argument_spec=TOPOLOGY, supports_check_mode=True)
    ctx = Context(check_mode=module.check_mode, diff=module._diff)
    try:
        result = topology_file(module.params, ctx).as_dict(ctx)
    except FleetError as exc:
        module.fail_json(**exc.as_result())
    module.exit_json(**result)


if __name__ == "__main__":
    main()
