# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each rule complains of the tree that breaks it, and of nothing in one that does not."""

from __future__ import annotations

import ast
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.tests import recorded
from ansible_collections.gpufleet.baremetal.tests.tree import (
    cases_of_awx,
    cases_of_failures,
    cases_of_ports,
    code,
    heard,
    listing,
    messages,
    of_all,
    parts,
    role_variables,
)
from ansible_collections.gpufleet.baremetal.tests.tree.test_tree import RULES

LICENCE = listing.HEADER + "\n"
ADDRESS = ".".join(("10", "77", "0", "11"))
MODULE = '''#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
DOCUMENTATION = """
module: thing
options: {state: {type: str, aliases: [wanted]}}
"""
EXAMPLES = """
%s
"""
'''
GOOD_EXAMPLE = "- name: Do it\n  gpufleet.baremetal.thing: {state: on}"
ROLE = {
    "roles/gate/README.md": "The gate.",
    "roles/gate/meta/main.yml": "---\n",
    "roles/gate/tasks/main.yml": "---\n",
    "roles/gate/meta/argument_specs.yml": "---\nargument_specs: {main: {short_description: x, description: [x]}}\n",
}
TRUSTS = """---
- hosts: all
  tasks:
  - gpufleet.baremetal.fleet_status: {{settings_of: [{}]}}
  - block:
    - ansible.builtin.import_role: {{name: gpufleet.baremetal.drain, rolespec_validate: false}}
    - ansible.builtin.import_role: {{name: gpufleet.baremetal.quarantine}}
"""
BEGINS = "---\n- hosts: all\n  tasks:\n    - ansible.builtin.fail:\n    - gpufleet.baremetal.%s:\n"
OF_ALL = {
    "plugins/action/redfish_power.py": "class ActionModule(ForAll, PastProvisioner):",
    "plugins/modules/redfish_power.py": 'DOCUMENTATION = "options: {graceful_timeout: {}, %s: {}}"',
}
README, SPEC = "roles/gate/README.md", "roles/gate/meta/argument_specs.yml"
_SPEC_OF_ONE = (
    "---\nargument_specs: {main: {short_description: x, description: [x], options: {gate_one: {description: [x]}}}}\n"
)
PROVED = """---
- name: A
  tasks:
    - block:
        - name: Prove
          ansible.builtin.import_role: {name: gpufleet.baremetal.baseline}
          vars: {baseline_bmc_identity: "%s"}
"""
OURS = "ansible_collections.gpufleet.baremetal.plugins"
TREE_OF_ERRORS = 'class FleetError:\n    kind = "error"\n\nclass Refused(FleetError):\n    kind = "refused"\n'
LONG_FUNCTION = "def long():\n" + "    pass\n" * code.LONGEST_FUNCTION
LONG_FILE = "def short():\n    pass\n" + "x = 1\n" * code.MOST_LINES
LONG_MODULE = "def short():\n    pass\n" + "x = 1\n" * code.MOST_LINES_OF_A_MODULE
LONG_DOCS = 'def main():\n    pass\nDOCUMENTATION = """' + "\n" * code.MOST_LINES + '"""\n'

# A rule, a tree that breaks it, a word of the complaint, and a tree of the same kind that does not break it.
CASES = (
    (listing.knows_of_the_rack, {"plugins/a.py": f"X = '{ADDRESS}'"}, ADDRESS, {"tests/a.py": f"X = '{ADDRESS}'"}),
    (
        listing.knows_of_the_rack,
        {"roles/join/tasks/main.yml": "path: /var/lib/gpufleet-rack"},
        "join",
        {"roles/virtual_rack/tasks/main.yml": "path: /var/lib/gpufleet-rack"},
    ),
    (listing.private_places, {"docs/a.md": f"see {recorded.CHECKOUT}"}, "docs/a.md", {"docs/a.md": "see ../b.md"}),
    (listing.without_header, {"plugins/a.py": "import os\n"}, "plugins/a.py", {"plugins/a.py": LICENCE}),
    (listing.yaml_without_start, {"a.yml": "x: 1\n"}, "a.yml", {"a.yml": "---\nx: 1\n"}),
    (
        listing.dead_links,
        {"docs/a.md": "see [there](how-to/b.md#part)"},
        "how-to/b.md",
        {"docs/a.md": "see [there](b.md#part) and [that](https://example.com/c.md)", "docs/b.md": "# Part\n"},
    ),
    (
        listing.dead_links,
        {"docs/a.md": "see [there](b.md#a-part-of-it)", "docs/b.md": "# Part\n"},
        "b.md#a-part-of-it: no such heading",
        {"docs/a.md": "see [there](#2-a-part-of-it)\n\n## 2. A `part` of [it](a.md)\n"},
    ),
    (code.too_long, {"plugins/a.py": LONG_FUNCTION}, "long has", {"plugins/a.py": LONG_DOCS}),
    (code.too_long, {"plugins/a.py": LONG_FILE}, "lines without", {"plugins/a.py": "x = 1\n" * 500}),
    (
        code.long_modules,
        {"plugins/modules/a.py": LONG_MODULE},
        "a.py: 202 lines",
        {"plugins/modules/a.py": LONG_DOCS, "plugins/action/a.py": LONG_MODULE},
    ),
    (
        code.long_in_the_middle,
        {"plugins/a.py": LONG_FUNCTION + "def short():\n    pass\n"},
        "half of all functions",
        {"plugins/a.py": LONG_FUNCTION + "def short():\n    pass\n" * 2},
    ),
    (
        code.sleeps,
        {"plugins/action/a.py": "import time\ntime.sleep(1)\n"},
        "a.py:2",
        {code.THE_WAIT: "import time\ntime.sleep(1)\n"},
    ),
    (
        code.fails_below_main,
        {"plugins/modules/a.py": "def run(module):\n    module.fail_json(msg='no')\n"},
        "a.py:2",
        {"plugins/modules/a.py": "def main():\n    module.fail_json(msg='no')\n"},
    ),
    (
        code.fails_below_main,
        {"plugins/module_utils/a.py": "def main(module):\n    module.fail_json(msg='no')\n"},
        "a.py:2",
        {"plugins/module_utils/a.py": "def main():\n    raise ValueError\n"},
    ),
    (
        code.bare_excepts,
        {"plugins/a.py": "try:\n    x = 1\nexcept:\n    pass\n"},
        "a.py:3",
        {"plugins/a.py": "try:\n    x = 1\nexcept OSError:\n    pass\n"},
    ),
    (
        code.cut_by_hand,
        {"plugins/action/a.py": "seen = text[:200]\n"},
        "a.py:1",
        {"plugins/action/a.py": "seen = cut(text, 200)\nname = digest[:24]\nlast = found[-1:]\nrest = found[one:]\n"},
    ),
    (
        code.cut_by_hand,
        {"plugins/action/a.py": "x = 1\nseen = text[-300:]\n"},
        "a.py:2",
        {"plugins/action/a.py": "seen = tail(text, 300)\n"},
    ),
    (
        code.words_of_the_verdict_again,
        {code.VERDICT: "NODE = 'node'\n", "plugins/module_utils/_gate/a.py": "ENDED, NODE = 'ended', 'node'\n"},
        "a.py:1: NODE",
        {code.VERDICT: "NODE = 'node'\n", "plugins/a.py": "NODE = spec()\nWHERE = 'node'\n"},
    ),
    (
        code.not_for_old_python,
        {"plugins/module_utils/a.py": "match x:\n    case 1:\n        pass\n"},
        "a.py:3",
        {"plugins/action/a.py": "match x:\n    case 1:\n        pass\n"},
    ),
    (
        code.ports_that_meet,
        {
            "plugins/module_utils/_bmc/a.py": f"from {code.PACKAGE}.module_utils._gate import verdict\n",
            "plugins/module_utils/_gate/verdict.py": "",
        },
        "_bmc imports",
        {
            "plugins/module_utils/_bmc/a.py": f"from {code.PACKAGE}.module_utils._ledger import store\n",
            "plugins/module_utils/_ledger/store.py": "",
        },
    ),
    (
        code.ports_that_meet,
        {"plugins/module_utils/_bmc/a.py": "from .._gate import one\n", "plugins/module_utils/_gate/one.py": ""},
        "_bmc imports",
        {"plugins/module_utils/_bmc/a.py": "from . import redfish\n", "plugins/module_utils/_bmc/redfish.py": ""},
    ),
    (
        code.ports_that_meet,
        {"plugins/module_utils/a.py": f"import {code.PACKAGE}.plugin_utils.door\n"},
        "lies above",
        {"plugins/plugin_utils/a.py": f"import {code.PACKAGE}.plugin_utils.door\n"},
    ),
    (
        parts.without_action,
        {"plugins/modules/thing.py": MODULE},
        "thing has no action",
        {"plugins/modules/thing.py": MODULE, "plugins/action/thing.py": ""},
    ),
    (
        parts.without_action,
        {"plugins/modules/thing.py": "DOCUMENTATION = 'notes: [It is fast.]'\n"},
        "thing has no action",
        {"plugins/modules/thing.py": f"DOCUMENTATION = 'notes: [This module {parts.NO_ACTION}, since.]'\n"},
    ),
    (
        parts.bad_examples,
        {"plugins/modules/thing.py": MODULE % "- name: Do it\n  gpufleet.baremetal.thing: {stat: on}"},
        "no option stat",
        {"plugins/modules/thing.py": MODULE % GOOD_EXAMPLE},
    ),
    (
        parts.bad_examples,
        {"plugins/modules/thing.py": MODULE % "- name: [unclosed"},
        "no YAML",
        {"plugins/modules/thing.py": MODULE % GOOD_EXAMPLE.replace("state", "wanted")},
    ),
    (
        parts.bad_examples,
        {"plugins/modules/thing.py": MODULE % "- name: Other\n  ansible.builtin.debug: {msg: x}"},
        "no example uses",
        {"plugins/modules/thing.py": MODULE % (GOOD_EXAMPLE + "\n- name: Other\n  ansible.builtin.debug: {msg: x}")},
    ),
    (
        parts.outside_groups,
        {"plugins/modules/thing.py": MODULE, "meta/runtime.yml": "---\naction_groups: {bmc: [gone]}\n"},
        "thing is in no action group",
        {"plugins/modules/thing.py": MODULE, "meta/runtime.yml": "---\naction_groups: {bmc: [thing]}\n"},
    ),
    (
        parts.untested,
        {"plugins/modules/thing.py": MODULE, "tests/unit/test_other.py": "something"},
        "thing",
        {"plugins/modules/thing.py": MODULE, "tests/unit/test_thing.py": "import thing\n"},
    ),
    (parts.incomplete_roles, {**ROLE, "roles/join/README.md": "x"}, "join has no", ROLE),
    (
        parts.incomplete_roles,
        {**ROLE, "roles/gate/meta/argument_specs.yml": "---\nargument_specs: {main: {short_description: x}}\n"},
        "no description",
        ROLE,
    ),
    (
        parts.incomplete_roles,
        {**ROLE, SPEC: _SPEC_OF_ONE},
        "not in its README",
        {**ROLE, SPEC: _SPEC_OF_ONE, README: "gate_one"},
    ),
    (
        parts.plays_of_other_strategies,
        {"playbooks/a.yml": "---\n- name: A\n  hosts: all\n"},
        "strategy",
        {"playbooks/a.yml": "---\n- name: A\n  hosts: all\n  strategy: linear\n"},
    ),
    (
        parts.machines_of_nobody,
        {"playbooks/a.yml": PROVED % "{{ omit }}"},
        "'Prove' does not pass on oob_ready_bmc.identity",
        {"playbooks/a.yml": PROVED % "{{ oob_ready_bmc.identity }}"},
    ),
    (
        heard.playbooks_that_do_not_listen,
        {"playbooks/a.yml": BEGINS % "held", "plugins/action/held.py": "pass"},
        "a.yml: it begins with held, which",
        {"playbooks/a.yml": BEGINS % "held", "plugins/action/held.py": "heard(self)"},
    ),
    (
        heard.playbooks_that_do_not_listen,
        {"playbooks/a.yml": PROVED % "x", "plugins/action/bmc_info.py": "heard(self)"},
        "a.yml: it begins with the role baseline",
        {"playbooks/history.yml": BEGINS % "node_history"},
    ),
    *(
        (
            of_all.options_of_nobody,
            {path: told.replace("%s", "of_tomorrow") for path, told in broken.items()},
            word,
            {path: told.replace("%s", "serial") for path, told in OF_ALL.items()},
        )
        for broken, word in (
            (OF_ALL, "of_tomorrow is neither"),
            (
                {path: told.replace("graceful_timeout", "state") for path, told in OF_ALL.items()},
                "OF_ALL names graceful_timeout, which",
            ),
        )
    ),
    (
        parts.bad_locks,
        {"requirements/a.in": "sushy\n", "requirements/a.lock": "sushy @ file:///tmp/sushy.whl\n"},
        "no exact version",
        {"requirements/a.in": "sushy>=5\n", "requirements/a.lock": "sushy==5.14.0\n"},
    ),
    (
        parts.bad_locks,
        {"requirements/a.in": "sushy\npyghmi\n", "requirements/a.lock": "sushy==5.14.0\n"},
        "lacks pyghmi",
        {"requirements/a.in": "SQLAlchemy[x]>=2\n", "requirements/a.lock": "sqlalchemy==2.1.9\n"},
    ),
    (
        parts.environments_that_differ,
        {"requirements/collection.in": "sushy\n", "meta/ee-requirements.txt": "requests\n"},
        "sushy",
        {"requirements/collection.in": "sushy\n", "meta/ee-requirements.txt": "sushy>=5\n"},
    ),
    (
        messages.messages_that_differ,
        {messages.ERRORS: TREE_OF_ERRORS, "plugins/a.py": 'Refused(f"{who} said no to this")', messages.PAGE: "old"},
        "`WHO said no to this`",
        {messages.ERRORS: TREE_OF_ERRORS, "plugins/a.py": 'print("nothing is raised here")'},
    ),
    *(
        (
            messages.messages_that_differ,
            {messages.ERRORS: TREE_OF_ERRORS, messages.PAGE: "old", "plugins/b.py": 'KEY = "other"', **told},
            word,
            {messages.ERRORS: TREE_OF_ERRORS, "plugins/b.py": 'KEY = "other"'},
        )
        for told, word in (
            ({"plugins/a.py": 'KEY, X = "own", "x"\nRefused(f"they said {KEY}")'}, "`they said own`"),
            ({"plugins/a.py": 'KEY = "own"', "plugins/c.py": 'Refused(f"they said {KEY}")'}, "`they said KEY`"),
            (
                {
                    "plugins/c.py": 'KEY = "own"',
                    "plugins/a.py": f"from {OURS}.b import KEY\nRefused(f'they said {{KEY}}')",
                },
                "`they said other`",
            ),
        )
    ),
    (
        messages.messages_that_differ,
        {messages.ERRORS: TREE_OF_ERRORS.replace("refused", "vain"), "plugins/a.py": 'Refused("they said no")'},
        "vain",
        {messages.ERRORS: TREE_OF_ERRORS, "plugins/a.py": "X = 1"},
    ),
    (
        parts.options_that_nobody_checks,
        {"playbooks/a.yml": TRUSTS.format("hold")},
        "a.yml: nothing looks at the options of drain",
        {"playbooks/a.yml": TRUSTS.format("hold, drain")},
    ),
    (
        role_variables.roles_that_do_not_tell,
        {**ROLE, "roles/gate/tasks/main.yml": "---\n- name: A\n  gpufleet.baremetal.bmc_info:\n"},
        SPEC,
        ROLE,
    ),
    (
        role_variables.roles_that_do_not_tell,
        {**ROLE, "roles/gate/tasks/main.yml": '---\n- name: A\n  x: "{{ gpufleet_serial }}"\n'},
        "no row for gpufleet_serial",
        {**ROLE, "roles/gate/tasks/main.yml": '---\n- name: A\n  x: "{{ gpufleet_is_none_of_ours }}"\n'},
    ),
    (
        role_variables.variables_of_nobody,
        {"plugins/plugin_utils/_certificate.py": "SERIAL = 'gpufleet_serial'\n"},
        "_certificate.py: names host variables",
        {"plugins/plugin_utils/_certificate.py": "X = 1\n", "plugins/action/bmc_info.py": ""},
    ),
    (
        role_variables.variables_of_nobody,
        {role_variables.PAGE: "| `gpufleet_serial` | the serial |\n"},
        "no row for gpufleet_boot_mac",
        {"docs/reference/a.md": ""},
    ),
    *cases_of_failures.CASES,
    *cases_of_ports.CASES,
    *cases_of_awx.CASES,
)


def test_a_variable_that_a_file_takes_by_a_constant_of_another_counts() -> None:
    """By its name, as the tenant for whom a run works, and as a part of a module; its own strings count as they are."""
    assert {"gpufleet_tenant", "gpufleet_for_tenant"} <= role_variables.read_by("plugin_utils", "_tenant")
    there: Any = ModuleType("there")
    there.names, there.OTHER = ModuleType("names"), "gpufleet_sku"
    there.names.SERIAL, there.names.UNUSED = "gpufleet_serial", "gpufleet_image"
    tree = ast.parse("from here import names\nfrom here import A as OTHER\nx = names.SERIAL, OTHER, names.MISSING")
    assert sorted(role_variables.of_others(tree, there)) == ["gpufleet_serial", "gpufleet_sku"]


def grow(root: Path, tree: dict[str, str]) -> Path:
    for name, content in tree.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    return root


@pytest.mark.parametrize(("rule", "broken", "word", "sound"), CASES, ids=lambda value: getattr(value, "__name__", ""))
def test_the_rule_tells_broken_from_sound(tmp_path, rule, broken, word, sound):
    complaints = rule(grow(tmp_path / "broken", broken))
    assert any(word in complaint for complaint in complaints), complaints
    assert rule(grow(tmp_path / "sound", sound)) == []


def test_every_rule_is_shown_to_fail():
    assert set(RULES) == {rule for rule, _broken, _word, _sound in CASES}
