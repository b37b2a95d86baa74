# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Trees that break the rules on ports and names, each beside one of the same kind that does not."""

from __future__ import annotations

from ansible_collections.gpufleet.baremetal.tests.tree import code, layout, leads, names, parts

PORT = f"{layout.UTILS}/_provisioner"
INSIDE = f"{code.PACKAGE}.module_utils._provisioner"
LIST = """OPTION = "provisioner"
OPTIONS: dict[str, object] = {"provisioner_url": {"type": "str"}, "provisioner_key": {"type": "str"}}
DRIVERS: dict[str, tuple[str, ...]] = {"ironic": ("provisioner_url",), "maas": ("provisioner_url", "provisioner_key")}
"""
LEADS = """LEADS = {"ironic": ("provisioner_url",), "maas": ("provisioner_url",)}
"""
FRAGMENT = '''class ModuleDocFragment:
    DOCUMENTATION = """
options:
  provisioner: {choices: [ironic, maas]}
  provisioner_url: {type: str}
  provisioner_key: {type: str}
"""
'''
VARIABLES = """| `gpufleet_provisioner` | `ironic` or `maas` |
| `gpufleet_provisioner_url` | its API |
| `gpufleet_provisioner_key` | its key |
"""
PAGE = """## provisioner

| `ironic` | `gpufleet_provisioner_url` |
| `maas` | `gpufleet_provisioner_url`, `gpufleet_provisioner_key` |

## gate
"""
PLUGIN = "DOCUMENTATION = 'options: {sources: {suboptions: {type: {choices: [csv, maas]}}}}'\n"
KINDS = "KINDS: dict[str, object] = {'csv': 1, 'maas': 2}\n"
#: What a role and a playbook take, and what a look at settings knows of it.
SETTINGS = {
    "roles/gate/meta/argument_specs.yml": "---\nargument_specs: {main: {options: {gate_level: {type: int}}}}\n",
    "playbooks/a.yml": "---\n# ansible-playbook a -e a_why=x\n- hosts: all\n  vars: {a_made: '{{ a_why }}'}\n",
    "plugins/plugin_utils/_known_names.py": (
        "ROLES = {'gate': {'gate_level': {'type': 'int'}}}\nPLAYBOOKS = {'a': ('a_why',)}\n"
    ),
}
#: A role with a switch, and what depends on it.
SWITCHED = {
    "roles/gate/meta/argument_specs.yml": "argument_specs: {main: {options: {gate_on: {type: bool}, gate_x: {}}}}\n",
    "roles/gate/tasks/main.yml": "---\n- when: [gate_on | bool, not (gate_on | bool) or gate_x]\n",
}
#: A port with two drivers, and everything that names them.
SOUND = {
    f"{PORT}/names.py": f"{LIST}{LEADS}",
    f"{PORT}/contract.py": f"from {INSIDE} import names\n",
    f"{PORT}/shared.py": f"from {INSIDE}.contract import Driver\n",
    f"{PORT}/ironic/driver.py": f"from {INSIDE}.contract import Driver\nfrom {INSIDE}.shared import x\n",
    f"{PORT}/maas/driver.py": f"from {INSIDE}.maas import api\nKEYS = ('provisioner_url', 'provisioner_key')\n",
    f"{PORT}/maas/api.py": f"from {INSIDE}.contract import Driver\n",
    f"{PORT}/registry.py": f"from {INSIDE}.ironic import driver\nfrom {INSIDE}.maas.driver import Maas\n"
    "DRIVERS: dict[str, object] = {'ironic': driver, 'maas': Maas}\n",
    f"{PORT}/node.py": f"from {INSIDE}.registry import DRIVERS\nfrom {INSIDE}.shared import x\n",
    "plugins/plugin_utils/_inventory_maas.py": f"from {INSIDE}.maas.api import Api\n",
    "plugins/doc_fragments/provisioner.py": FRAGMENT,
    names.SOURCES: KINDS,
    names.SOURCE_PLUGIN: PLUGIN,
    names.VARIABLES: VARIABLES,
    names.DRIVERS_PAGE: PAGE,
    names.README: "| provisioners | OpenStack Ironic, MAAS 3 |\n",
}
GATE = f"{layout.UTILS}/_gate"
GATES = {
    f"{GATE}/names.py": "DRIVERS = {'dcgm': 'dcgm_gate', 'fio': 'fio_gate'}\n",
    f"{GATE}/dcgm/gate.py": "",
    f"{GATE}/fio/gate.py": "",
    "plugins/modules/dcgm_gate.py": f"from {code.PACKAGE}.module_utils._gate.dcgm.gate import run\n",
    "plugins/modules/fio_gate.py": "",
    names.DRIVERS_PAGE: "## gate\n\n| `dcgm` | `dcgm_gate` |\n| `fio` | `fio_gate` |\n",
    names.GATES_PAGE: "`dcgm_gate` and `fio_gate`.\n\n## dcgm_gate\n\n`dcgm_gate` runs\n\n## fio_gate\n",
}


def but(**changes: str) -> dict[str, str]:
    """The sound tree with some files of the port changed; two underscores are a folder, and a dot comes last."""
    return {**SOUND, **{f"{PORT}/{name.replace('__', '/')}.py": content for name, content in changes.items()}}


def changed(path: str, old: str, new: str, tree: dict[str, str] | None = None) -> dict[str, str]:
    tree = tree or SOUND
    assert old in tree[path]
    return {**tree, path: tree[path].replace(old, new)}


#: A rule, a tree that breaks it, a word of the complaint.
BROKEN = (
    (layout.flat_drivers, but(maas_find=""), "belongs into the package maas/"),
    (layout.flat_drivers, but(maas=""), "belongs into the package maas/"),
    (layout.flat_drivers, but(xcat_api="", xcat_find=""), "make it a package"),
    (layout.arrows_up, but(names=f"{LIST}from {INSIDE}.contract import Driver\n"), "names.py (names) imports"),
    (layout.arrows_up, but(contract=f"def f():\n    from {INSIDE}.maas.api import Api\n"), "contract.py (contract)"),
    (layout.arrows_up, but(shared="from . import registry\n"), "shared.py (verb)"),
    (layout.arrows_up, but(maas__find=f"from {INSIDE}.node import deploy\n"), "find.py (driver) imports"),
    (layout.drivers_that_meet, but(ironic__find=f"from {INSIDE}.maas.api import Api\n"), "another driver's"),
    (layout.drivers_past_the_registry, but(node=f"from {INSIDE}.maas.api import Api\n"), "which only"),
    (
        layout.drivers_past_the_registry,
        {**SOUND, "plugins/action/maas_boot.py": f"from {INSIDE}.maas.api import Api\n"},
        "plugins/action/maas_boot.py",
    ),
    (layout.import_circles, but(maas__api=f"from {INSIDE}.maas.driver import Maas\n"), "api.py and"),
    (
        layout.import_circles,
        but(contract=f"from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from {INSIDE} import shared\n"),
        "contract.py and",
    ),
    (names.names_that_compute, but(names=f"{LIST}ALL = sorted(DRIVERS)\n"), "names.py:4"),
    (names.names_that_compute, but(names=f"import os\n{LIST}"), "names.py:1"),
    (names.half_drivers, but(xcat__driver=""), "xcat has no line in plugins"),
    (names.half_drivers, but(registry="DRIVERS: dict[str, object] = {'ironic': 1}\n"), "maas has no line in plugins"),
    (names.half_drivers, changed(f"{PORT}/names.py", '"maas"', '"xcat"'), "maas has no line in DRIVERS"),
    (names.half_drivers, changed(f"{PORT}/names.py", '"maas"', '"xcat"'), "xcat has no package"),
    (
        names.half_drivers,
        {**GATES, "plugins/modules/fio_gate.py": "", f"{GATE}/nccl/gate.py": ""},
        "nccl has no module",
    ),
    (names.power_that_is_not_told, but(maas__driver="class Maas:\n    owns_power = False\n"), "the driver maas differ"),
    (names.power_that_is_not_told, but(names=f"{LIST}POWERLESS = {{'ironic'}}\n"), "the driver ironic differ"),
    (
        names.power_that_is_not_told,
        but(maas__driver="class Maas:\n    holds = False\n"),
        "NO_MAINTENANCE and the driver",
    ),
    (leads.leads_untold, but(names=f"{LIST}{LEADS.replace('maas', 'xcat')}"), "LEADS has no row for the driver maas"),
    (leads.leads_untold, but(names=f"{LIST}{LEADS.replace('maas', 'xcat')}"), "xcat, which is no driver"),
    (
        leads.leads_untold,
        but(names=f"{LIST}{LEADS.replace('_url', '_key')}"),
        "LEADS has provisioner_key, which the driver ironic does not take",
    ),
    (names.options_unheard_of, but(ironic__api="KEY = 'provisioner_key'\n"), "reads provisioner_key"),
    (names.options_unheard_of, changed(f"{PORT}/names.py", '("provisioner_url",)', '("url",)'), "ironic takes url"),
    (names.spelled_again, but(shared="parts = {'ironic', 'maas'}\n"), "spells drivers of _provisioner"),
    (names.spelled_again, {**GATES, "plugins/a.py": "x = ['dcgm_gate', 'fio_gate', 'b']\n"}, "drivers of _gate"),
    (
        names.fragments_that_differ,
        changed("plugins/doc_fragments/provisioner.py", "[ironic, maas]", "[ironic]"),
        "the choices of provisioner lack maas",
    ),
    (
        names.fragments_that_differ,
        changed("plugins/doc_fragments/provisioner.py", "[ironic, maas]", "[maas, ironic, xcat]"),
        "the choices of provisioner are not",
    ),
    (
        names.fragments_that_differ,
        changed("plugins/doc_fragments/provisioner.py", "  provisioner_key: {type: str}\n", ""),
        "no option provisioner_key",
    ),
    (
        names.fragments_that_differ,
        changed("plugins/doc_fragments/provisioner.py", "  provisioner_key:", "  other:"),
        "other is not in",
    ),
    (names.sources_that_differ, changed(names.SOURCES, "'maas'", "'xcat'"), "xcat is no provisioner"),
    (names.sources_that_differ, changed(names.SOURCE_PLUGIN, "[csv, maas]", "[csv]"), "offers the types"),
    (names.pages_that_lack_names, changed(names.VARIABLES, " or `maas`", ""), "lacks maas"),
    (names.pages_that_lack_names, changed(names.VARIABLES, "provisioner_key", "other"), "no row for gpufleet_prov"),
    (names.pages_that_lack_names, changed(names.DRIVERS_PAGE, "| `maas`", "| maas"), "no row for maas"),
    (names.pages_that_lack_names, changed(names.DRIVERS_PAGE, "`, `gpufleet_provisioner_key`", "`"), "row of maas"),
    (names.pages_that_lack_names, changed(names.DRIVERS_PAGE, "| `ironic`", "| `xcat` | |\n| `ironic`"), "xcat is no"),
    (names.pages_that_lack_names, changed(names.DRIVERS_PAGE, "| `fio`", "| fio", GATES), "no row for fio"),
    (names.readme_that_lacks_names, changed(names.README, "MAAS", "xCAT"), "provisioners lacks maas"),
    (names.readme_that_lacks_names, changed(names.README, "provisioners", "others"), "provisioners lacks ironic"),
    (names.gates_without_a_part, changed(names.GATES_PAGE, "## fio_gate", "## fio", GATES), "no part on the gate fio"),
    (
        names.gates_without_a_part,
        {
            **changed(f"{GATE}/names.py", "'fio'", "'nccl': 'nccl_gate', 'fio'", GATES),
            names.GATES_PAGE: GATES[names.GATES_PAGE] + "## nccl_gate\n",
        },
        "lacks nccl_gate, the gate nccl",
    ),
)
CASES = tuple((rule, tree, word, GATES if f"{GATE}/names.py" in tree else SOUND) for rule, tree, word in BROKEN) + (
    (
        names.settings_unheard_of,
        {**SETTINGS, "plugins/plugin_utils/_known_names.py": "ROLES = {'gate': {}}\nPLAYBOOKS = {}\n"},
        "it takes {'gate_level': {'type': 'int'}}",
        SETTINGS,
    ),
    (
        names.settings_unheard_of,
        {**SETTINGS, "playbooks/a.yml": "---\n# ansible-playbook a -e a_why=x\n- hosts: all\n  vars: {a_on: false}\n"},
        "PLAYBOOKS, a",
        SETTINGS,
    ),
    (
        names.settings_unheard_of,
        {
            **SETTINGS,
            "playbooks/b.yml": "---\n- hosts: all\n  tasks:\n    - x:\n        report: true\n        title: Day 9\n",
        },
        "ARTIFACTS: the reports of playbooks leave gpufleet_day_9",
        SETTINGS,
    ),
    (
        parts.bare_switches,
        changed("roles/gate/tasks/main.yml", "[gate_on | bool", "[gate_on", SWITCHED),
        "'gate_on'",
        SWITCHED,
    ),
    (
        parts.bare_switches,
        changed("roles/gate/tasks/main.yml", "(gate_on | bool)", "gate_on", SWITCHED),
        "gate_on",
        SWITCHED,
    ),
)
