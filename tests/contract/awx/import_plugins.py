# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Imports each plugin as ansible-core does, and each library that any of them imports, where it may be guarded.

It is run as a program, by the Python that is looked at: import_plugins.py FOLDER_WITH_ansible_collections
"""

from __future__ import annotations

import ast
import importlib
import sys
import traceback
from pathlib import Path

from ansible.plugins.loader import init_plugin_loader

PACKAGE = "ansible_collections.gpufleet.baremetal.plugins"


def libraries(files: list[Path]) -> set[str]:
    found = set()
    for path in files:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {one.name for one in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module)
    return {name for name in found if name.partition(".")[0] not in sys.stdlib_module_names | {"ansible_collections"}}


def main() -> int:
    root = Path(sys.argv[1])
    init_plugin_loader([str(root)])
    folder = root / Path(*PACKAGE.split("."))
    files = sorted(folder.rglob("*.py"))
    parts = [file.relative_to(folder).with_suffix("").parts for file in files]
    plugins = [".".join([PACKAGE, *one]).removesuffix(".__init__") for one in parts]
    asked = sorted(libraries(files))
    failed = 0
    for name in [*plugins, *asked]:
        try:
            importlib.import_module(name)
        except Exception:
            failed += 1
            print(f"{name}: {traceback.format_exc(limit=-2)}")
    print(f"{len(plugins)} plugins and {len(asked)} modules of libraries, {failed} of them not to be had")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
