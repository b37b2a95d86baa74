#!/usr/bin/python
# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: servers_import
short_description: Read a list of servers as a site has it, and write a clean one
version_added: "0.1.0"
description:
  - Reads a list in CSV form, as spreadsheets and delivery lists have it, and refuses it as a whole where anything in it
    is wrong. Each mistake is told with its line, its column and the reason, all of them at once.
  - Columns may have the names that NetBox, vendors and other tools use. A byte order mark, semicolons, tabs and line
    ends of Windows are read; so are MACs with colons, dashes, dots or nothing between their digits.
  - What a spreadsheet has damaged is refused. Those are serials that became powers of ten (V(4.02E+11)) or dates, or
    lost their leading zeros, formulas, and errors such as V(#N/A). So are a serial, a MAC, an address or a name in two
    rows, and what boards say that have no serial.
  - The same code reads lists for the inventory plugin P(gpufleet.baremetal.fleet#inventory), with the same checks.
  - A list names the places of secrets and never a secret. A column of passwords is refused, and what should be a place
    and is none is not shown.
  - The playbook C(gpufleet.baremetal.import_servers) reports, writes a clean list, or enrols in the provisioner.
extends_documentation_fragment:
  - gpufleet.baremetal.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
notes:
  - It works through its action on the controller alone, where the list is. The module by itself fails and says so.
  - It works on one list; call it with C(run_once), or on C(localhost).
options:
  path:
    description: The list, a file on the controller. V(~) stands for the home, and C($NAME) for nothing but itself.
    type: str
    required: true
  delimiter:
    description: The character between cells, for a tab also V(tab); by default found in the header.
    type: str
    default: ""
  check_serials:
    description: Refuse serials of digits that seem to have lost their leading zeros.
    type: bool
    default: true
  password_lookup:
    description:
      - The template that reads a secret for a C(bmc_password_ref) without a kind. C(REF) in it stands for the
        reference. Mark the text C(!unsafe) where it is written, so that it is not read as a template of the task.
    type: str
    default: ""
  password_refs:
    description:
      - The references that may stand in C(bmc_password_ref), such as V(env:BMC_*) and V(file:/etc/gpufleet/bmc/*). An
        empty list permits none; without it any place can be named.
    type: list
    elements: str
  dest:
    description:
      - A clean list to write, with canonical columns and one spelling of each cell. The mode that it had stays.
      - Where there is one already, the servers of O(path) are added to it, or change their row in it. A row is known by
        serial, system UUID or MAC, never by a name. A cell that is empty in O(path) stays as it was.
      - All of it is written or nothing. What is wrong in either list, or only in both together, is refused before.
    type: path
  purge:
    description: Remove the servers from O(dest) of which O(path) does not speak.
    type: bool
    default: false
  sources:
    description:
      - Sources of the inventory plugin P(gpufleet.baremetal.fleet#inventory), with its options, that are compared with
        the list by serial, system UUID and MAC. They tell which servers nobody has found, and what was found that is in
        no list. Passwords and keys are templates with a lookup.
    type: list
    elements: dict
    default: []
  server:
    description:
      - The name of one server of the list, which is made a host of this run, with the host variables that an inventory
        would give it. Call it in a loop; the list is read once.
    type: str
  group:
    description: The group of the hosts that O(server) makes.
    type: str
    default: imported_servers
author: gpufleet.baremetal contributors (@gpufleet)
"""

EXAMPLES = r"""
- name: Is the delivery list sound?
  gpufleet.baremetal.servers_import:
    path: delivery.csv
    password_refs: ["env:BMC_*"]
    sources:
      - type: maas
        url: https://maas.example.com/MAAS
        api_key: "{{ lookup('ansible.builtin.env', 'MAAS_API_KEY') }}"
  delegate_to: localhost
  run_once: true

- name: Add it to the list that the inventory reads
  gpufleet.baremetal.servers_import:
    path: delivery.csv
    dest: /etc/gpufleet/servers.csv
    # in group_vars: site_lookup: !unsafe "{{ lookup('community.hashi_vault.vault_kv2_get', 'REF').secret.password }}"
    password_lookup: "{{ site_lookup }}"
  delegate_to: localhost
  run_once: true
"""

RETURN = r"""
servers:
  description: The servers of the list, in its order.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: The name of its host; the column C(name), else C(scheduler_node), else C(serial).
      type: str
      sample: gpu001
    where:
      description: The file and the line.
      type: str
      sample: delivery.csv:2
    cells:
      description: By canonical column, the one spelling of each cell. Of a secret it is the place.
      type: dict
      sample: {name: gpu001, serial: S4X0012K, boot_mac: "7c:c2:55:10:20:11", bmc_password_ref: "env:BMC_PASSWORD"}
merged:
  description: What becomes of O(dest), by the servers' names.
  returned: when O(dest) is given
  type: dict
  contains:
    new:
      description: Servers that it did not have.
      type: list
      elements: str
    changed:
      description: By name, the columns that differ.
      type: dict
      sample: {gpu001: [bmc_ip]}
    same:
      description: Servers whose row stays as it was.
      type: list
      elements: str
    kept:
      description: Servers of which O(path) does not speak.
      type: list
      elements: str
    removed:
      description: The same with O(purge).
      type: list
      elements: str
compared:
  description: The list beside what O(sources) have.
  returned: when O(sources) is given
  type: dict
  contains:
    missing:
      description: Servers of the list that no source has.
      type: list
      elements: str
      sample: [gpu014]
    unexpected:
      description: What the sources have that no row is about, by serial, system UUID, MACs and the BMC's address.
      type: list
      elements: str
      sample: ["serial S4X0099K, MAC 7c:c2:55:10:20:99"]
dest:
  description: The clean list.
  returned: when O(dest) is given
  type: str
lines:
  description: The same for people; it is shown as well.
  returned: success
  type: list
  elements: str
error:
  description: What was wrong. C(mistakes) has all lines, also those that the message leaves out.
  returned: failure
  type: dict
  sample: {kind: config, mistakes: ["delivery.csv:7:2: serial: '4.02E+11' is a number that a spreadsheet made of it"]}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Unsupported
from ansible_collections.gpufleet.baremetal.plugins.module_utils._servers import RULES, SPEC


def main() -> None:
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True, **RULES)
    error = Unsupported(
        "the list of servers is on the controller",
        do="run this task without delegate_to; its action reads the list in the controller's own process",
    )
    module.fail_json(**error.as_result())


if __name__ == "__main__":
    main()
