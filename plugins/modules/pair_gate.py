#!/usr/bin/python
# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: pair_gate
short_description: Judge the nodes of a batch by what they carry between each other
version_added: "0.1.0"
description:
  - Measures, from one task, the nodes of a batch with each other. What the section C(network.speeds) of the SKU's
    profile names is measured port by port and in both directions, by C(ib_write_bw) or C(iperf3); what
    C(collective.fabric) names by nccl-tests or rccl-tests over the GPUs of two nodes, or of all.
  - Nodes of one profile make a ring within their leaf, so that each is in two pairs. A node passes that reaches what
    is wanted with a partner. One that reaches it with nobody fails, where one of its partners on its own leaf does with
    another node. Two that reach it with others and not with each other have a path between them that does not, and are
    V(inconclusive).
  - The wire is held against the line rate by a ring alone (C(NCCL_ALGO=RING), NVLS off), over two nodes, with the
    part of each rail that the profile asks for, and all rails must carry alike. With NVLS less goes over the wire
    than the figure says. All nodes together are held against a floor of their own, and what they do not reach says of
    none of them that it is the one.
  - A figure counts only where the kernels of both nodes saw the data leave and come in by the ports, and on one boot.
  - It loads both nodes of each pair. All pairs of a round run at the same time, and before each round every node is
    asked for anew - its lease, its evidence that no job runs there, and whether the machine that answers is the node.
  - Each command runs over its node's own connection and ends by itself, with all that it has started, also where the
    controller, the connection or the partner is gone. Nothing is left on a node. While it runs no other gate of this
    collection loads that node.
  - Nodes need C(timeout) of coreutils and C(flock) of util-linux, C(ip) of iproute2 for iperf3, perftest, iperf3 3.10
    or newer, and for collectives Open MPI, whose C(mpirun) reaches the other nodes over SSH without a password as the
    user who runs it.
  - Meant for C(run_once); each host then collects its own verdict with O(collect). Called by every host all the same,
    one worker measures and the others get its answer.
extends_documentation_fragment:
  - gpufleet.baremetal.attributes
  - gpufleet.baremetal.ledger
  - gpufleet.baremetal.batch
  - gpufleet.baremetal.verdict
attributes:
  check_mode:
    support: full
    details: It would load nodes and their network, so that nothing is run, and the verdict is V(inconclusive).
  diff_mode:
    support: none
options:
  nodes:
    description:
      - The nodes, each with C(host), and what it shall have instead of what the inventory says, its C(address) and
        its C(leaf), or of the options of this task, C(sysfs_path), C(boot_id_path), C(pci_path) and C(dmi_path).
      - The action fills it from the host variables of the live hosts of the batch.
    type: list
    elements: dict
  tests:
    description: What to measure, each by its name in the profile. Without any all that the profile has.
    type: list
    elements: str
  collect:
    description:
      - Measures nothing, and hands on the verdict of this host out of the result that is registered under this name.
    type: str
  address_variable:
    description:
      - The variable of a host with the address at which other nodes reach it, for the first word of perftest and for
        C(mpirun). Its name in the inventory where it has none. Ports that iperf3 measures are asked for their own.
      - A node that has not this address itself is C(inconclusive), and nothing is started at it.
    type: str
    default: ansible_host
  leaf_variable:
    description: The variable of a host that names its leaf. Hosts without one are taken for those of one leaf.
    type: str
    default: topology_leaf
  sku:
    description:
      - The SKU of all of them, whose profile is read. Without it each host has that of its variable C(gpufleet_sku).
    type: str
  profile:
    description: The SKU profile itself, for all of them; it is checked against the collection's schema.
    type: dict
  profile_path:
    description:
      - Folders of the site's own profiles, searched before those of the environment variable E(GPUFLEET_PROFILE_PATH)
        and before the collection's.
    type: list
    elements: path
  iperf3:
    description: The program that measures Ethernet ports.
    type: str
    default: iperf3
  ib_write_bw:
    description: The program of perftest that measures ports of RDMA devices.
    type: str
    default: ib_write_bw
  nccl_tests:
    description: The folder of the programs of nccl-tests or rccl-tests, built with MPI, the same on all nodes.
    type: path
  mpirun:
    description:
      - C(mpirun) of Open MPI with the options that the site needs, such as V(-x) and V(NCCL_IB_GID_INDEX=3), or the
        MCA parameters of its SSH.
    type: list
    elements: str
    default: [mpirun, --allow-run-as-root]
  timeout:
    description: Seconds that one collective may take.
    type: int
    default: 900
  sysfs_path:
    description: Where the kernel shows RDMA ports and network devices.
    type: path
    default: /sys
  pci_path:
    description: Where the kernel shows the PCI devices. By it gates keep off each other.
    type: path
    default: /sys/bus/pci/devices
  boot_id_path:
    description: Where a node's kernel tells the id of this boot. What was measured over a boot proves nothing.
    type: path
    default: /proc/sys/kernel/random/boot_id
  dmi_path:
    description:
      - Where a node shows who it is. A machine that no image_verify has proven in this run must tell here, as root,
        who the inventory says that it is.
    type: path
    default: /sys/class/dmi/id
author:
  - gpufleet.baremetal contributors (@gpufleet)
seealso:
  - module: gpufleet.baremetal.network_gate
  - module: gpufleet.baremetal.collective_gate
"""

EXAMPLES = r"""
- name: Measure the nodes of the batch with each other, all that their profile names
  gpufleet.baremetal.pair_gate:
  run_once: true
  register: paired

- name: Fail the nodes that did not pass
  gpufleet.baremetal.pair_gate:
    collect: paired
"""

RETURN = r"""
gate:
  description: V(pair_gate).
  returned: success
  type: str
  sample: pair_gate
verdicts:
  description:
    - For each host whether it passed (C(ok)), the C(verdict), and else the C(reason), C(findings) and C(remedy). The
      whole verdict is in the ledger. Beside it stands what the host's profile demands less than the shipped one
      (C(weakened)).
    - Without a C(verdict) nothing was judged; C(kind) is that of the error which stood in the way then (V(not_ours)
      or V(config), for instance).
  returned: where it measures
  type: dict
  sample:
    gpu001: {ok: true, verdict: pass, reason: "", findings: [], remedy: none, evidence_digest: "sha256:2c26b46b68ff"}
verdict:
  description: That of this host.
  returned: with O(collect)
  type: str
  sample: fail
msg:
  description: The verdict, the worst findings and the remedy in one sentence.
  returned: with O(collect)
  type: str
  sample: "pair_gate: fail. rail_write: mlx5_3/1: with gpu002: 11.2 Gb/s from gpu001. Remedy: field_diag"
findings:
  description: What is wrong, each with id, entity, text and remedy.
  returned: with O(collect)
  type: list
  elements: dict
  sample:
    - {id: pair.rail_write, entity: mlx5_3/1, text: "rail_write: mlx5_3/1: with gpu002: 11.2", remedy: field_diag}
checks:
  description: One entry a cell, each with id, entity, measured, wanted, unit, source and verdict.
  returned: with O(collect)
  type: list
  elements: dict
  sample:
    - id: pair.rail_write
      entity: mlx5_3/1
      measured: 391.2
      wanted: 368.0
      unit: Gb/s, ib_write_bw, 1 queue pairs of 8 MiB, the slower direction
      source: own choice
      verdict: pass
remedy:
  description: The heaviest remedy of the findings.
  returned: with O(collect)
  type: str
  sample: field_diag
weakened:
  description:
    - What the profile of the site demands less of this gate than the one that is shipped for the SKU, a row each with
      C(what), C(from), C(to), and the C(source) that the site's profile gives for it, or its own place for what it
      leaves out. A change of which nobody knows that it demands no less is among them. At most 50 are told.
  returned: with O(collect), where a profile of the site, or the option O(profile), demands less than a shipped one
  type: list
  elements: dict
  sample:
    - {what: gpu.count, from: 8, to: 7, source: ten nodes of this site}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Unsupported
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.specs import PAIR_GATE, PAIR_GATE_RULES


def main() -> None:
    module = AnsibleModule(argument_spec=PAIR_GATE, supports_check_mode=True, **PAIR_GATE_RULES)
    error = Unsupported(
        "only the controller has the connections of all hosts",
        do="run this task in a play, where its action does the work",
    )
    module.fail_json(**error.as_result())


if __name__ == "__main__":
    main()
