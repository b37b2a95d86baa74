# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs on a node: Python 3.9, and nothing beside the standard library and this collection."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import names
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made

PLUGINS = made.CHECKOUT / "plugins"
OURS = "ansible_collections.gpufleet.baremetal.plugins.module_utils."
#: The profile loader reads YAML, on the controller.
ON_THE_CONTROLLER = {"profiles.py"}
NODE_SIDE = sorted(
    [path for path in (PLUGINS / "module_utils" / "_gate").rglob("*.py") if path.name not in ON_THE_CONTROLLER]
    + [PLUGINS / "module_utils" / name for name in ("_verdict.py", "_process.py", "_proc.py")]
    + [PLUGINS / "modules" / f"{module}.py" for module in names.DRIVERS.values()]
)


def imported(tree: ast.AST) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


@pytest.mark.parametrize("path", NODE_SIDE, ids=lambda path: path.name)
def test_parses_as_python_3_9(path: Path) -> None:
    ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 9))


@pytest.mark.parametrize("path", NODE_SIDE, ids=lambda path: path.name)
def test_imports_the_standard_library_and_this_collection_alone(path: Path) -> None:
    for name in imported(ast.parse(path.read_text(encoding="utf-8"))):
        known = name.split(".")[0] in sys.stdlib_module_names or name.startswith(OURS)
        assert known or name == "ansible.module_utils.basic", name
        assert not name.endswith("_gate.profiles"), "the profile loader stays on the controller"
