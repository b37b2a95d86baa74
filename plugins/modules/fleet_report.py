#!/usr/bin/python
# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: fleet_report
short_description: Write down where a fleet stands and how it came there, as a page, as JSON, or for Prometheus
version_added: "0.1.0"
description:
  - Tells of every host of the play what M(gpufleet.baremetal.fleet_status) tells, by cause and by host. Beside it,
    the waves that were planned, begun, paused and halted, which runs worked on how many nodes and when, how long their
    stages took, which passports end next, and of each node its story, its passport, and what gates measured over time.
  - The page is one file of HTML. It loads nothing from anywhere, and shows what nodes and services said as text alone.
  - Runs on the controller, where the ledger is; use it under C(run_once).
  - Reads only, and writes nothing but these files, each whole or not at all.
extends_documentation_fragment:
  - gpufleet.baremetal.attributes
  - gpufleet.baremetal.ledger
attributes:
  check_mode:
    support: full
    details: Reads everything, and writes no file.
  diff_mode:
    support: none
options:
  path:
    description: The page, on the controller, readable by its owner alone.
    type: path
  data_path:
    description:
      - The same as JSON, readable by its owner alone.
      - It has what O(path) of M(gpufleet.baremetal.fleet_status) writes, and C(since), C(expiring), C(waves), C(runs),
        C(stages) and C(pages) besides.
      - C(waves) has C(now), as this module returns it under C(waves); C(runs), those that planned or began waves, the
        newest first; and C(marks), what people paused, resumed and reset, and which runs were halted before they began
        anything.
      - Each of C(waves.runs) has C(run), C(first), C(last) (empty while it goes on), C(images), C(planned) (how many
        C(waves) and C(nodes)), C(not_begun), C(withdrawn), C(halted) (C(at), C(reason), C(broken_off)), and C(waves),
        each with C(begun), C(ended), C(canary), C(image), C(nodes), C(outcomes), and C(hosts), of each of which
        C(outcome), C(at), C(state) and C(reason) are told.
    type: path
  metrics_path:
    description:
      - A file in the textfile folder of a Prometheus node exporter, readable by everybody. Its name must end with
        C(.prom) for the exporter to read it. It names hosts, states and images, and no reasons.
    type: path
  hosts:
    description: The hosts to tell of. All hosts of the play without it, those that have failed included.
    type: list
    elements: str
  title:
    description: The headline.
    type: str
    default: Fleet
  days:
    description: Over how many days, from now back, waves, runs and their durations are told.
    type: int
    default: 30
  details:
    description:
      - Of how many nodes story, passport and measurements are told; first of those with which something is to be done.
      - Each costs a few queries and some kilobytes.
    type: int
    default: 200
  expire_within:
    description: Seconds; a node in service whose passport ends within them is told as due for a renewal.
    type: int
    default: 1209600
  ask_scheduler:
    description: Ask the schedulers too, as M(gpufleet.baremetal.fleet_status) does. V(false) reads the ledger alone.
    type: bool
    default: true
seealso:
  - module: gpufleet.baremetal.fleet_status
  - module: gpufleet.baremetal.node_history
author:
  - gpufleet.baremetal contributors (@gpufleet)
"""

EXAMPLES = r"""
- name: Write a page that people look at, and a file that a node exporter reads
  gpufleet.baremetal.fleet_report:
    path: /var/lib/gpufleet/report.html
    metrics_path: /var/lib/node_exporter/textfile/gpufleet.prom
    title: Hall 2
  run_once: true

- name: Write the last week down for other programs
  gpufleet.baremetal.fleet_report:
    data_path: /var/lib/gpufleet/report.json
    days: 7
  run_once: true
"""

RETURN = r"""
written:
  description: The files that were written, or would be in check mode.
  returned: success
  type: list
  elements: str
  sample: [/var/lib/gpufleet/report.html]
states:
  description: How many nodes are in each state.
  returned: success
  type: dict
  sample: {admitted: 155, quarantined: 3}
not_told:
  description: The hosts of which nobody can tell where they stand; the report says why.
  returned: success
  type: list
  elements: str
  sample: []
waves:
  description: Of the waves that were begun within O(days), and of what lets none begin now.
  returned: success
  type: dict
  contains:
    waves:
      description: How many waves there were; those of the forty newest runs count.
      type: int
      sample: 4
    outcomes:
      description:
        - How many of their nodes came out how. C(through) are in service again; C(failed) were quarantined, or their
          run went no further with them; C(going) are on their way; C(left) were left on their way by a run that ended;
          C(untouched) are as they were.
        - The first that happened to a node since counts, and not where it stands now.
      type: dict
      sample: {through: 6, failed: 1, going: 0, left: 0, untouched: 0}
    paused:
      description: The hosts that are paused now.
      type: list
      elements: str
      sample: []
    images:
      description: Of each image that a wave was of, why its roll-out was broken off; empty where it goes on.
      type: dict
      sample: {gpu-golden 2026.11.2: ""}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Unsupported
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.report import REPORT


def main() -> None:
    module = AnsibleModule(
        argument_spec=REPORT,
        supports_check_mode=True,
        required_one_of=[["path", "data_path", "metrics_path"]],
    )
    error = Unsupported(
        "the ledger is on the controller",
        do="run this task without delegate_to; its action reads the ledger in the controller's own process",
    )
    module.fail_json(**error.as_result())


if __name__ == "__main__":
    main()
