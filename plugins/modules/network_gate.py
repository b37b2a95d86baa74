#!/usr/bin/python
# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: network_gate
short_description: Judge a node by its network ports, their errors and where they lead
version_added: "0.1.0"
description:
  - Holds the ports of the node against the section C(network) of the SKU's profile. Each must be there and up, run at
    its rate and with all its lanes, and count no more errors in a while than the profile allows. It can also be held
    against the plan of the site, by what lldpd has heard on it.
  - A port that is up and runs below its rate fails the node, as does one that is not there.
  - Errors are counted from one look to the next. A counter that is at its end (C(link_downed) at 255) counts no more,
    so that it is V(inconclusive), and never no error.
  - Where the profile limits the bit error rate of a port, mlxlink is asked for it, and for the time of which it is.
    A rate of too few bits to tell the limit is V(inconclusive).
  - Without O(speeds) it sends nothing over the ports. It disturbs nobody then, and may look at a node in service.
  - With O(speeds) it measures what ports carry, each by itself and against its line rate. That fills them, so the node
    has to be drained. A speed counts only where the kernel saw the data leave by that very port.
  - It needs nothing on the node but the Python standard library, C(lldpctl) of lldpd 1.0 or newer where O(neighbours)
    is given, and iperf3 3.10 or newer or perftest where O(speeds) asks for them.
extends_documentation_fragment:
  - gpufleet.baremetal.attributes
  - gpufleet.baremetal.ledger
  - gpufleet.baremetal.gate
  - gpufleet.baremetal.verdict
attributes:
  check_mode:
    support: full
    details: It only looks; what O(speeds) names is not measured, and the verdict is V(inconclusive) then.
  diff_mode:
    support: none
options:
  tests:
    description:
      - The links to look at, each by its name in the profile. Without any it looks at all that the profile knows.
    type: list
    elements: str
  neighbours:
    description:
      - By port the switch and its port to which it must lead, such as V(leaf01 Ethernet1/1), both as lldpd names them,
        by name or by id, with a space between them. Each port that stands here must have heard just this neighbour.
      - Without it nobody asks where a port leads.
    type: dict
  lldpctl:
    description: The program of lldpd that tells its neighbours.
    type: str
    default: lldpctl
  mlxlink:
    description:
      - The program that tells bit error rates, of NVIDIA's firmware tools (C(mlxlink) of MFT, or C(mstlink)). It is
        run, as root, for the ports of links whose part of the profile names C(effective_ber) or C(symbol_ber), and for
        no others.
    type: str
    default: mlxlink
  speeds:
    description:
      - The speeds to measure, each by its name in the profile. Without any nothing is sent over the ports.
    type: list
    elements: str
  servers:
    description:
      - By port the address of a server that waits at the other end, such as V(10.0.0.9) or V(10.0.0.9:5202), and
        V([fd00::9]:5202).
      - Each Ethernet port that is measured must have an iperf3 that nobody else uses meanwhile. A port of an RDMA
        device that has none is measured against the next port of its links, on this very node.
    type: dict
  iperf3:
    description: The program that measures Ethernet ports.
    type: str
    default: iperf3
  ib_write_bw:
    description: The program of perftest that measures ports of RDMA devices.
    type: str
    default: ib_write_bw
  speed_timeout:
    description: Seconds that all of O(speeds) may take.
    type: int
    default: 900
  timeout:
    description: Seconds after which the gate ends lldpctl.
    type: int
    default: 60
  sysfs_path:
    description: Where the kernel shows RDMA ports and network devices.
    type: path
    default: /sys
author:
  - gpufleet.baremetal contributors (@gpufleet)
"""

EXAMPLES = r"""
- name: Fail a node with a port that is down, slow, or counts errors
  gpufleet.baremetal.network_gate:

- name: The same, and each cable is where the plan wants it
  gpufleet.baremetal.network_gate:
    neighbours:
      ens1f0np0: leaf01 Ethernet1/1
      ens2f0np0: leaf02 Ethernet1/1

- name: Measure each rail against the next one, on a node that is drained
  gpufleet.baremetal.network_gate:
    speeds: [rail_write]
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
  sample: "network_gate: fail. mlx5_3/1: 200 Gb/s, and the profile wants 400. Remedy: reseat"
checks:
  description: One entry a cell, each with id, entity, measured, wanted, unit, source and verdict.
  returned: always
  type: list
  elements: dict
  sample:
    - id: port_rate
      entity: mlx5_3/1
      measured: 200
      wanted: 400
      unit: Gb/s
      source: bill of materials 4711
      verdict: fail
findings:
  description: What is wrong, each with id, entity, text and remedy.
  returned: always
  type: list
  elements: dict
  sample:
    - id: port_rate
      entity: mlx5_3/1
      text: "mlx5_3/1: 200 Gb/s, and the profile wants 400"
      remedy: reseat
remedy:
  description:
    - The heaviest remedy of the findings, one of V(none), V(retest), V(remediate_config), V(reset_gpu), V(reboot),
      V(power_cycle), V(fabric), V(reseat), V(field_diag) and V(rma).
  returned: always
  type: str
  sample: reseat
tool:
  description: Name and version of what measured.
  returned: always
  type: dict
  sample: {name: kernel and lldpctl, version: ""}
argv:
  description: The first command that was run; empty where there was none.
  returned: always
  type: list
  elements: str
  sample: [lldpctl, -f, json0]
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
  description: SHA-256 over what the kernel told and the raw output, exit status included.
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
  sample: network_gate
kind:
  description:
    - V(profile_missing) or V(config) where nothing was measured, since the SKU has no profile, or one by which the gate
      cannot judge. That is the site's failure, for which no node is quarantined.
  returned: where the profile was in the way
  type: str
  sample: profile_missing
evidence_path:
  description: Where the raw outputs lie; empty without O(evidence_path).
  returned: when the ports were looked at
  type: str
  sample: /var/log/gpufleet/network.json
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network.gate import network_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.specs import NETWORK_GATE
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import refusal


def main() -> None:
    module = AnsibleModule(argument_spec=NETWORK_GATE, supports_check_mode=True)
    ctx = Context(check_mode=module.check_mode, diff=module._diff)
    try:
        result = network_gate(module.params, ctx).as_dict(ctx)
    except FleetError as exc:
        module.fail_json(**exc.as_result())
    if refusal(result, module.params["fail_on"], check_mode=module.check_mode):
        module.fail_json(**result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
