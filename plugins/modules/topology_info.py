#!/usr/bin/python
# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: topology_info
short_description: See where a node is in the network, and hold that against the plan
version_added: "0.1.0"
description:
  - Asks which leaf switches the node's ports lead to, by LLDP, or by InfiniBand and what C(ibnetdiscover) has printed,
    and which NVLink domain its GPUs are in.
  - What was seen is remembered in the ledger. M(gpufleet.baremetal.topology_file) writes Slurm's topology by it, and
    M(gpufleet.baremetal.fleet_plan) takes it for failure domains.
  - Where the plan says where the node is, the verdict is V(fail) if a port leads elsewhere, and V(inconclusive) if
    nobody could tell. A failure is in the way of a passport, so that a node with a wrong cable is not admitted, until
    the same question passes.
  - Without a plan it looks alone, and gives no verdict.
extends_documentation_fragment:
  - gpufleet.baremetal.attributes
  - gpufleet.baremetal.ledger
  - gpufleet.baremetal.verdict
attributes:
  check_mode:
    support: full
    details: It only looks.
  diff_mode:
    support: none
notes:
  - On the node it needs C(lldpctl) of lldpd 1.0 or newer, or C(nvidia-smi) of driver 550 or newer, and nothing else.
    Adapters whose firmware speaks LLDP itself hide it from lldpd.
  - It judges through its action on the controller; the module by itself returns what it saw.
options:
  sources:
    description:
      - What is asked. V(lldp) is lldpd on the node, V(nvlink) is C(nvidia-smi) there, and V(infiniband) are its ports'
        GUIDs, looked up in O(infiniband_file).
    type: list
    elements: str
    choices: [lldp, nvlink, infiniband]
    default: [lldp, nvlink]
  ports:
    description:
      - The ports that count, such as V(ens1f0np0) or V(mlx5_0/1); C(*) stands for anything. All of them without it.
      - Where each of a node's eight rails has a leaf of its own, name one rail here, since Slurm knows one leaf a node.
    type: list
    elements: str
  lldp_file:
    description: On the controller what C(lldpctl -f json0) has printed on this node, in place of asking it.
    type: path
  nvlink_file:
    description:
      - On the controller what C(nvidia-smi --query-gpu=fabric.clusterUuid,fabric.cliqueId,fabric.state,fabric.status
        --format=csv,noheader) has printed on this node, in place of asking it.
    type: path
  infiniband_file:
    description:
      - On the controller what C(ibnetdiscover) has printed on one node of the fabric, or on the machine of its subnet
        manager. It is one for all nodes, and read once a run.
    type: path
  guids:
    description: The GUIDs of the node's InfiniBand ports, in place of asking it.
    type: list
    elements: str
  leaf:
    description:
      - The leaf that the plan has the node at, by name or id; of several any will do, as for a pair that is one switch
        to the node. The host variable C(topology_leaf) without it.
    type: list
    elements: str
  domain:
    description: The NVLink domain that the plan has the node in, as C(ClusterUUID.CliqueId).
    type: str
  lldpctl:
    description: The program of lldpd that tells its neighbours.
    type: str
    default: lldpctl
  nvidia_smi:
    description: The program that tells of the GPUs.
    type: str
    default: nvidia-smi
  sysfs_path:
    description: Where the kernel shows InfiniBand ports.
    type: path
    default: /sys
  timeout:
    description: Seconds after which each program is ended.
    type: int
    default: 60
  told:
    description: For the action alone, which fills it with what the files say.
    type: dict
seealso:
  - module: gpufleet.baremetal.topology_file
  - module: gpufleet.baremetal.network_gate
author:
  - gpufleet.baremetal contributors (@gpufleet)
"""

EXAMPLES = r"""
- name: Remember which leaf and which NVLink domain the node is at, and fail it where the plan has another leaf
  gpufleet.baremetal.topology_info:

- name: The same of one InfiniBand rail
  gpufleet.baremetal.topology_info:
    sources: [infiniband, nvlink]
    ports: [mlx5_0/1]
    infiniband_file: /var/lib/gpufleet/ibnetdiscover.txt
"""

RETURN = r"""
neighbours:
  description: Each port and the switch that it leads to, by name and by id.
  returned: success
  type: list
  elements: dict
  sample:
    - port: ens1f0np0
      leaf: leaf01
      leaf_id: "00:00:5e:00:53:01"
leaves:
  description: The names of these switches.
  returned: success
  type: list
  elements: str
  sample: [leaf01]
domain:
  description: The NVLink domain of all its GPUs, C(ClusterUUID.CliqueId); empty where they are in none.
  returned: success
  type: str
  sample: 9c6f5af3-53bf-49b5-a436-b66766c413c3.4026
guids:
  description: The GUID of each InfiniBand port; returned by the module itself, not by its action.
  returned: without the action
  type: dict
  sample: {mlx5_0/1: e09d730300074bd8}
unread:
  description: By source, why it told nothing.
  returned: success
  type: dict
  sample: {nvlink: "nvidia-smi: missing"}
verdict:
  description: V(pass), V(fail) or V(inconclusive) by the plan; empty without one.
  returned: success
  type: str
  sample: fail
msg:
  description: The verdict, the worst findings and the remedy in one sentence.
  returned: with a plan
  type: str
  sample: "topology_info: fail. ens1f0np0 leads to leaf02, and the plan has the node at leaf01. Remedy: fabric"
checks:
  description: One entry a cell, each with id, entity, measured, wanted, unit, source and verdict.
  returned: with a plan
  type: list
  elements: dict
findings:
  description: What is wrong, each with id, entity, text and remedy.
  returned: with a plan
  type: list
  elements: dict
remedy:
  description: The heaviest remedy of the findings.
  returned: with a plan
  type: str
  sample: fabric
tool:
  description: Name and version of what judged.
  returned: with a plan
  type: dict
  sample: {name: topology_info, version: "1"}
argv:
  description: Empty, since several programs were run, or none.
  returned: with a plan
  type: list
  elements: str
  sample: []
started:
  description: When the look began, UTC.
  returned: with a plan
  type: str
  sample: "2026-11-29T10:00:00Z"
ended:
  description: When it ended, UTC.
  returned: with a plan
  type: str
  sample: "2026-11-29T10:00:01Z"
duration:
  description: How many seconds it took.
  returned: with a plan
  type: float
  sample: 4.2
evidence_digest:
  description: SHA-256 over what was seen.
  returned: with a plan
  type: str
  sample: "sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"
profile:
  description: Empty, since no profile of a SKU says where a node is.
  returned: with a plan
  type: dict
  sample: {sku: "", digest: ""}
schema:
  description: Version of this shape.
  returned: with a plan
  type: int
  sample: 1
gate:
  description: Who judged.
  returned: with a plan
  type: str
  sample: topology_info
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._topology.info import topology_info
from ansible_collections.gpufleet.baremetal.plugins.module_utils._topology.specs import SPEC
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context


def main() -> None:
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    ctx = Context(check_mode=module.check_mode, diff=module._diff)
    try:
        result = topology_info(module.params, ctx).as_dict(ctx)
    except FleetError as exc:
        module.fail_json(**exc.as_result())
    module.exit_json(**result)


if __name__ == "__main__":
    main()
