#!/usr/bin/python
# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gate_outliers
short_description: Find nodes that are slower than their peers, or than they once were, out of the ledger
version_added: "0.1.0"
description:
  - Compares the speeds that gates have measured, and that are in the ledger, of all its nodes that have the same SKU,
    the same driver and were measured by the same test, tool and unit, place by place (GPU 3 with GPU 3). It measures
    nothing, and reads on the controller alone.
  - A figure is an outlier where it is worse than the median by more than C(3.5 * 1.4826 * MAD), the median of the
    distances from the median, and by more than 2 %, also where it is above the floor of the SKU's profile.
    A bandwidth is bad where it is low, a time where it is high.
  - At least eight peers must have the figure. With fewer the node is V(inconclusive), and the finding says how many
    there are. So it is where the newest look has no number, where nobody knows the driver, where node, driver or part
    is another one since, and where the node lacks what eight peers have.
  - Where the same part was measured eight times by the same test, its newest figures are held against its first ones
    too, by the same limits. Where most of its peers have drifted as well, something was changed for all, and no part is
    called bad.
  - Of a single host it is a gate, as any other in C(gate_more) of the role C(gate). The verdict
    is in the ledger, and an outlier fails its host.
  - With O(batch=true) it looks at all hosts of the play at once, under C(run_once). It fails none of them, and each
    finds its own verdict in RV(verdicts). Of outliers the ledger gets an event of the kind C(measure), which bars no
    node from service; so it does of those that are none any more.
extends_documentation_fragment:
  - gpufleet.baremetal.attributes
  - gpufleet.baremetal.ledger
attributes:
  check_mode:
    support: full
    details: Reads and judges, writes nothing, and fails no host.
  diff_mode:
    support: none
notes:
  - It works through its action on the controller alone, which has the ledger. The module by itself fails and says so.
  - Where more than half of all nodes are slow, the median is. The floors of the profile stay.
options:
  batch:
    description: Look at all hosts of the play, or at O(hosts).
    type: bool
    default: false
  hosts:
    description: The hosts to tell of with O(batch=true). All hosts of the play without it, also those that have failed.
    type: list
    elements: str
  fail_on:
    description:
      - Which verdicts fail the host. V(fail) fails it on an outlier, V(inconclusive) also where nothing can be told,
        V(never) on nothing.
      - With O(batch=true) it says for which of them C(ok) is false.
    type: str
    choices: [fail, inconclusive, never]
    default: fail
  peers:
    description: So many other nodes must have a figure; 8 or more.
    type: int
    default: 8
  days:
    description: What was measured before that many days is no figure any more.
    type: int
    default: 90
  report:
    description: Also show it to people, with O(batch=true).
    type: bool
    default: false
  title:
    description: The headline.
    type: str
    default: Outliers
seealso:
  - module: gpufleet.baremetal.fleet_status
  - plugin: gpufleet.baremetal.gate_outliers
    plugin_type: filter
author:
  - gpufleet.baremetal contributors (@gpufleet)
"""

EXAMPLES = r"""
- name: Show who is slower than its peers
  gpufleet.baremetal.gate_outliers:
    batch: true
    report: true
  run_once: true
  register: outliers

- name: Go no further with those
  ansible.builtin.fail:
    msg: "{{ outliers.verdicts[inventory_hostname].reason }}"
  when: not outliers.verdicts[inventory_hostname].ok

- name: Judge this node, after gates have measured it
  gpufleet.baremetal.gate_outliers:
"""

RETURN = r"""
verdict:
  description: What is proven.
  returned: without O(batch)
  type: str
  sample: fail
checks:
  description:
    - One entry a figure, C(gpu_bandwidth.bandwidth.host_to_device_memcpy_ce) for instance, and one that ends with
      C(.drift) where the part has a past; C(wanted) is the limit.
  returned: without O(batch)
  type: list
  elements: dict
  sample: []
findings:
  description:
    - What is wrong, or why nothing can be told. Of an outlier the remedy is C(retest), and C(field_diag) where the same
      part was one in the look before.
  returned: without O(batch)
  type: list
  elements: dict
  sample: []
remedy:
  description: The heaviest remedy of the findings.
  returned: without O(batch)
  type: str
  sample: retest
verdicts:
  description: By host.
  returned: with O(batch=true)
  type: dict
  contains:
    ok:
      description: Whether its verdict is none of those that O(fail_on) names.
      type: bool
    verdict:
      description: V(pass), V(fail) or V(inconclusive).
      type: str
    reason:
      description: The verdict in a sentence.
      type: str
    kind:
      description: What kind of error kept it from being judged; empty where none did.
      type: str
    findings:
      description: As of a single host.
      type: list
    remedy:
      description: As of a single host.
      type: str
    checks:
      description: Those that do not pass.
      type: list
    passed:
      description: How many do.
      type: int
counts:
  description: How many hosts have which verdict.
  returned: with O(batch=true)
  type: dict
  sample: {fail: 1, pass: 127, inconclusive: 0}
lines:
  description: The same for people, a row for all hosts of one cause.
  returned: with O(batch=true)
  type: list
  elements: str
  sample: ["Outliers: 128 nodes: 1 slower, 127 like their peers, 0 not to be judged"]
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Unsupported
from ansible_collections.gpufleet.baremetal.plugins.module_utils._outliers.specs import SPEC


def main() -> None:
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    error = Unsupported(
        "the ledger is on the controller",
        do="run this task without delegate_to; its action reads the ledger in the controller's own process",
    )
    module.fail_json(**error.as_result())


if __name__ == "__main__":
    main()
