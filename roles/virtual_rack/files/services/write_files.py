# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make folders and write files told on standard input; what is right already is not touched.

Input: {"folders": [{"path", "mode"}], "files": [{"path", "mode", "content"}], "absent": [path]}

Ansible's own modules do the same one file at a time, and each pays for the start of an interpreter.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any


def set_mode(path: Path, mode: int) -> bool:
    if path.stat().st_mode & 0o7777 == mode:
        return False
    path.chmod(mode)
    return True


def make_folder(path: Path, mode: int) -> bool:
    made = not path.is_dir()
    path.mkdir(parents=True, exist_ok=True)
    return set_mode(path, mode) or made


def write_file(path: Path, mode: int, content: bytes) -> bool:
    if path.is_file() and not path.is_symlink() and path.read_bytes() == content:
        return set_mode(path, mode)
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    # Opened with its final mode: a secret is at no moment readable by others.
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with open(descriptor, "wb") as stream:
        stream.write(content)
    fresh.chmod(mode)
    fresh.replace(path)
    return True


def apply(wanted: dict[str, Any]) -> list[str]:
    changed = [
        entry["path"]
        for entry in wanted.get("folders", [])
        if make_folder(Path(entry["path"]), int(entry.get("mode", "0755"), 8))
    ]
    changed += [
        entry["path"]
        for entry in wanted.get("files", [])
        if write_file(Path(entry["path"]), int(entry.get("mode", "0644"), 8), entry["content"].encode())
    ]
    for name in wanted.get("absent", []):
        if Path(name).exists():
            Path(name).unlink()
            changed.append(name)
    return changed


def main() -> int:
    changed = apply(json.load(sys.stdin))
    print(json.dumps({"changed": bool(changed), "paths": changed}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
