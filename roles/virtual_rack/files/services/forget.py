# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Remove what provisioner, scheduler and ledger remember of a stopped rack.

Keys, images and logs stay: they are dear to make, or what one wants to read afterwards. So does the ledger, aside.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path

# Below the rack's folder. Ironic's web root holds the images too, which stay.
FOLDERS = ("faults", "ironic", "maas", "nodes", "slurm/munge", "slurm/run", "slurm/spool")
KEPT_IN_WEB_ROOT = "images"
LEDGER = "ledger.sqlite*"


def remove(path: Path) -> bool:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif path.exists() or path.is_symlink():
        path.unlink()
    else:
        return False
    return True


def forget(rack: Path) -> list[str]:
    web_root = rack / "ironic" / "http"
    changed = []
    doomed = [rack / name for name in FOLDERS if name != "ironic"]
    doomed += [path for path in (rack / "ironic").glob("*") if path != web_root]
    doomed += [path for path in web_root.glob("*") if path.name != KEPT_IN_WEB_ROOT]
    changed += [str(path) for path in doomed if remove(path)]
    return changed + set_ledger_aside(rack)


def set_ledger_aside(rack: Path) -> list[str]:
    """The last one is kept, in the place of the one before."""
    ledger = sorted(rack.glob(LEDGER))
    if ledger:
        previous = rack / "previous"
        remove(previous)
        previous.mkdir()
        for path in ledger:
            path.rename(previous / path.name)
    return [str(path) for path in ledger]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rack", type=Path, required=True)
    changed = forget(parser.parse_args().rack)
    print(json.dumps({"changed": bool(changed), "removed": changed}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
