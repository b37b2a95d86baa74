# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Proves that the installed artifact works alone: the documentation of plugins and roles, the playbooks' syntax.

smoke.py DIRECTORY      with ANSIBLE_COLLECTIONS_PATH holding that one collection
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

COLLECTION = "gpufleet.baremetal"
PLUGIN_TYPES = ("modules", "inventory", "callback", "lookup", "filter", "test")


def output(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def plugin_names(root: Path, kind: str) -> set[str]:
    files = (root / "plugins" / kind).glob("*.py")
    return {f"{COLLECTION}.{file.stem}" for file in files if not file.stem.startswith("_")}


def check_plugins(root: Path) -> int:
    checked = 0
    for kind in PLUGIN_TYPES:
        names = plugin_names(root, kind)
        if names:
            found = json.loads(output("ansible-doc", "-t", kind.replace("modules", "module"), "--json", *sorted(names)))
            lost = {name for name in names if not found.get(name, {}).get("doc")}
            if lost:
                raise SystemExit(f"ansible-doc knows nothing of {sorted(lost)}")
            checked += len(names)
    return checked


def check_roles(root: Path) -> int:
    names = {f"{COLLECTION}.{folder.name}" for folder in (root / "roles").glob("*") if folder.is_dir()}
    if names:
        found = json.loads(output("ansible-doc", "-t", "role", "--json", *sorted(names)))
        lost = {name for name in names if not found.get(name, {}).get("entry_points")}
        if lost:
            raise SystemExit(f"roles without an argument spec: {sorted(lost)}")
    return len(names)


def check_playbooks(root: Path) -> int:
    names = [f"{COLLECTION}.{file.stem}" for file in sorted((root / "playbooks").glob("*.yml"))]
    # All in one process: most of what the check of one costs is Ansible's start.
    told = output("ansible-playbook", "--syntax-check", "-i", "localhost,", *names)
    read = re.findall(r"^playbook: .*?(\w+)(?:\.yml)?$", told, re.MULTILINE)
    lost = {*names} - {f"{COLLECTION}.{name}" for name in read}
    if lost:
        raise SystemExit(f"ansible-playbook has not read {sorted(lost)}")
    return len(names)


if __name__ == "__main__":
    directory = Path(sys.argv[1])
    plugins, roles, playbooks = check_plugins(directory), check_roles(directory), check_playbooks(directory)
    print(f"the installed artifact alone: {plugins} plugins, {roles} roles and {playbooks} playbooks load")
