# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Trees that break the rules on whose failure what is, and trees that keep them; for test_rules_can_fail.py."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.baremetal.tests.tree import answers, quarantine

RESCUED = """---
- name: A
  hosts: all
  tasks:
    - name: B
      block:
        - name: {}
          ansible.builtin.assert:
            that: true
      rescue:
        - name: C
          ansible.builtin.import_role:
            name: gpufleet.baremetal.quarantine
"""

CASES: list[tuple[Any, dict[str, str], str, dict[str, str]]] = [
    (
        answers.modules_that_nodes_answer,
        {"roles/a/tasks/main.yml": "---\n- block:\n  - name: A\n    ansible.builtin.ping:\n"},
        "roles/a/tasks/main.yml: A is ping, whose answer a node gives",
        {"roles/a/tasks/main.yml": "---\n- name: A\n  ansible.builtin.raw: 'true'\n"},
    ),
    (
        answers.modules_that_nodes_answer,
        {"playbooks/a.yml": "---\n- hosts: all\n  tasks:\n  - name: A\n    ansible.builtin.command: 'true'\n"},
        "playbooks/a.yml: A is command, whose answer a node gives",
        {"playbooks/a.yml": "---\n- hosts: localhost\n  tasks:\n  - name: A\n    ansible.builtin.command: 'true'\n"},
    ),
    (
        quarantine.kinds_listed_again,
        {"roles/a/tasks/main.yml": '---\n- name: A\n  when: x.kind not in ["", "trust", "deadline"]\n'},
        "roles/a/tasks/main.yml: deadline, trust",
        {"roles/a/tasks/main.yml": '---\n- name: A\n  when: x.kind == "trust" or x is not quarantines\n'},
    ),
    (
        quarantine.kinds_listed_again,
        {"roles/a/defaults/main.yml": "---\na_kinds:\n- trust\n- not_proven\n"},
        "roles/a/defaults/main.yml: not_proven, trust",
        {"playbooks/a.yml": "---\n- name: A deadline is not trust\n"},
    ),
    (
        quarantine.kinds_listed_again,
        {"plugins/action/a.py": "KINDS = {'trust': 1, 'deadline': 2}\n"},
        "plugins/action/a.py:1: deadline, trust",
        {quarantine.LIST: "KINDS = ('trust', 'deadline')\n"},
    ),
    (
        quarantine.asserts_that_quarantine,
        {"roles/a/tasks/main.yml": "---\n- name: A level\n  ansible.builtin.assert:\n    that: level > 1\n"},
        "roles/a/tasks/main.yml: the assert A level would quarantine its node",
        {"roles/a/tasks/main.yml": "---\n- name: A level\n  ansible.builtin.fail:\n  when: level < 1\n"},
    ),
    (
        quarantine.asserts_that_quarantine,
        {"playbooks/a.yml": RESCUED.format("a setting")},
        "playbooks/a.yml: the assert a setting would quarantine its node",
        {"playbooks/a.yml": RESCUED.format("Say that the node answers nobody")},
    ),
]
