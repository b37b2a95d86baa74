# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Imports every file of module_utils where there is nothing but Python and what an Ansible module brings along.

It is run as a program, since what is imported once stays imported: import_alone.py DIRECTORY_WITH_ansible_collections
"""

from __future__ import annotations

import importlib
import importlib.abc
import sys
import traceback
from pathlib import Path

PACKAGE = "ansible_collections.gpufleet.baremetal.plugins.module_utils"
# What a module finds on another machine
ALLOWED = ("ansible.module_utils", "ansible_collections")


class Blocker(importlib.abc.MetaPathFinder):
    """Refuses every library that is not Python's own."""

    def find_spec(self, fullname, path=None, target=None):
        top = fullname.split(".")[0]
        allowed = fullname == "ansible" or fullname.startswith(ALLOWED) or top in sys.stdlib_module_names
        if not allowed:
            raise ImportError(f"{fullname} is not to be had here")
        return None


def main() -> int:
    root = Path(sys.argv[1])
    sys.path.insert(0, str(root))
    sys.meta_path.insert(0, Blocker())
    folder = root / Path(*PACKAGE.split("."))
    failed = 0
    for file in sorted(folder.rglob("*.py")):
        name = ".".join([PACKAGE, *file.relative_to(folder).with_suffix("").parts]).removesuffix(".__init__")
        try:
            importlib.import_module(name)
        except Exception:
            failed += 1
            print(f"{name}: {traceback.format_exc(limit=-2)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
