# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Unpacks one collection of others, and nothing else, out of the PyPI package 'ansible' that a lock file names.

others_collections.py LOCK DIRECTORY NAMESPACE.NAME
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path


def locked(lock: Path) -> str:
    lines = [line.strip() for line in lock.read_text(encoding="utf-8").splitlines()]
    return next(line for line in lines if line and not line.startswith("#"))


def main() -> None:
    requirement, target = locked(Path(sys.argv[1])), Path(sys.argv[2])
    wanted = f"ansible_collections/{sys.argv[3].replace('.', '/')}/"
    stamp = target / ".lock"
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == requirement:
        return
    shutil.rmtree(target, ignore_errors=True)
    download = target / ".download"
    download.mkdir(parents=True)
    print(f"{target}: fetching {requirement}")
    pip = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "-q", "--no-deps"]
    subprocess.run([*pip, "-d", str(download), requirement], check=True)
    with zipfile.ZipFile(next(download.glob("*.whl"))) as wheel:
        wheel.extractall(target, [name for name in wheel.namelist() if name.startswith(wanted)])
    shutil.rmtree(download)
    stamp.write_text(requirement, encoding="utf-8")


if __name__ == "__main__":
    main()
