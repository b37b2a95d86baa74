# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What holds for every file of the collection, those included that are yet to be written."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.gpufleet.baremetal.tests.tree import (
    answers,
    awx,
    awx_page,
    code,
    heard,
    layout,
    leads,
    listing,
    messages,
    names,
    of_all,
    parts,
    quarantine,
    role_variables,
)

ROOT = Path(__file__).resolve().parents[2]
IMPORT_ALONE = Path(__file__).with_name("import_alone.py")

RULES = (
    listing.knows_of_the_rack,
    listing.private_places,
    listing.without_header,
    listing.yaml_without_start,
    listing.dead_links,
    code.too_long,
    code.long_modules,
    code.long_in_the_middle,
    code.sleeps,
    code.fails_below_main,
    code.bare_excepts,
    code.not_for_old_python,
    code.ports_that_meet,
    code.cut_by_hand,
    code.words_of_the_verdict_again,
    layout.flat_drivers,
    layout.arrows_up,
    layout.drivers_that_meet,
    layout.drivers_past_the_registry,
    layout.import_circles,
    names.names_that_compute,
    names.half_drivers,
    names.power_that_is_not_told,
    leads.leads_untold,
    names.options_unheard_of,
    names.spelled_again,
    names.fragments_that_differ,
    names.sources_that_differ,
    names.pages_that_lack_names,
    names.readme_that_lacks_names,
    names.gates_without_a_part,
    names.settings_unheard_of,
    parts.without_action,
    parts.bad_examples,
    parts.outside_groups,
    parts.untested,
    parts.incomplete_roles,
    parts.plays_of_other_strategies,
    parts.options_that_nobody_checks,
    parts.bare_switches,
    parts.machines_of_nobody,
    heard.playbooks_that_do_not_listen,
    of_all.options_of_nobody,
    parts.bad_locks,
    parts.environments_that_differ,
    answers.modules_that_nodes_answer,
    quarantine.kinds_listed_again,
    quarantine.asserts_that_quarantine,
    messages.messages_that_differ,
    role_variables.roles_that_do_not_tell,
    role_variables.variables_of_nobody,
    awx.templates_that_do_not_fit,
    awx_page.awx_page_that_differs,
)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_rule(rule):
    complaints = rule(ROOT)
    assert not complaints, "\n" + "\n".join(complaints)


def import_alone(collections: Path) -> subprocess.CompletedProcess[str]:
    """In a Python that has Ansible but is told of no other path than the tree's own."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    command = [sys.executable, "-P" if sys.version_info >= (3, 11) else "-s", str(IMPORT_ALONE), str(collections)]
    return subprocess.run(command, env=clean, capture_output=True, text=True, timeout=300, check=False)


def test_u9_each_role_declares_what_it_reads_of_a_host_and_one_that_reads_more_is_told(tmp_path):
    """For each role of a site, in what ansible-doc shows and in its README; with this collection's own roles."""
    found = []
    for reads_more in (False, True):
        root = tmp_path / str(reads_more)
        for folder in ("roles", "docs/reference"):
            shutil.copytree(ROOT / folder, root / folder)
        tasks = root / "roles" / "hold" / "tasks" / "main.yml"
        with tasks.open("a", encoding="utf-8") as file:
            file.write("\n# {{ gpufleet_bmc_system_id }}\n" if reads_more else "")
        found.append(role_variables.roles_that_do_not_tell(root))
    files = ("roles/hold/meta/argument_specs.yml", "roles/hold/README.md")
    assert found[0] == [] and [one.partition(":")[0] for one in found[1]] == list(files), found


def test_module_utils_imports_without_any_library(tmp_path):
    space = tmp_path / "ansible_collections" / "gpufleet"
    space.mkdir(parents=True)
    (space / "baremetal").symlink_to(ROOT)
    done = import_alone(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_unguarded_import_is_found(tmp_path):
    folder = tmp_path / "ansible_collections" / "gpufleet" / "baremetal" / "plugins" / "module_utils"
    folder.mkdir(parents=True)
    (folder / "_good.py").write_text("try:\n    import requests\nexcept ImportError:\n    requests = None\n")
    assert import_alone(tmp_path).returncode == 0
    (folder / "_bad.py").write_text("import requests\n")
    done = import_alone(tmp_path)
    assert done.returncode == 1
    assert "_bad" in done.stdout and "_good" not in done.stdout
