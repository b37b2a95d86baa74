# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Copies the collection's files, those of git and those that it would take, to a place where tools accept them.

ansible-test works in .../ansible_collections/<namespace>/<name> only, and reads every file that it finds there;
a build of the artifact must not see what a test left behind. A second copy touches only what has changed.
"""

from __future__ import annotations

import fnmatch
import os
import shutil
import subprocess
import sys
from pathlib import Path

import yaml

NAMESPACE = Path("ansible_collections") / "gpufleet" / "baremetal"


def wanted_files(checkout: Path, shipped: bool = False) -> list[str]:
    """Tracked files and those that are neither tracked nor ignored, without the deleted ones; or what is shipped."""
    command = ["git", "-C", str(checkout), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.decode().split("\0")
    found = {name for name in names if name and os.path.lexists(checkout / name)}
    left_out = ignored_by_build(checkout) if shipped else []
    return sorted(name for name in found if not any(matches(name, pattern) for pattern in left_out))


def ignored_by_build(checkout: Path) -> list[str]:
    """The patterns of galaxy.yml for what ansible-galaxy leaves out of the artifact."""
    patterns: list[str] = yaml.safe_load((checkout / "galaxy.yml").read_text(encoding="utf-8"))["build_ignore"]
    return patterns


def matches(name: str, pattern: str) -> bool:
    """As ansible-galaxy has it: a pattern takes a file, or a folder with all that is in it."""
    path = Path(name)
    return any(fnmatch.fnmatch(part.as_posix(), pattern) for part in (path, *path.parents))


def same(source: Path, target: Path) -> bool:
    if source.is_symlink() or target.is_symlink() or not target.is_file():
        return False
    ours, theirs = source.stat(), target.stat()
    return (ours.st_size, ours.st_mtime_ns, ours.st_mode) == (theirs.st_size, theirs.st_mtime_ns, theirs.st_mode)


def copy(checkout: Path, root: Path, shipped: bool = False) -> Path:
    """Makes root/ansible_collections/gpufleet/baremetal equal to the checkout, or to what it ships, and returns it."""
    tree = root / NAMESPACE
    names = wanted_files(checkout, shipped)
    for name in names:
        source, target = checkout / name, tree / name
        if same(source, target):
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        if os.path.lexists(target):
            target.unlink()
        shutil.copy2(source, target, follow_symlinks=False)
    remove_others(tree, set(names))
    return tree


def remove_others(tree: Path, keep: set[str]) -> None:
    """What the checkout lost must not be tested on; tests/output belongs to ansible-test."""
    for folder, folders, files in os.walk(tree, topdown=True):
        relative = Path(folder).relative_to(tree)
        folders[:] = [name for name in folders if (relative / name).as_posix() not in (".git", "tests/output")]
        for name in files:
            if (relative / name).as_posix() not in keep:
                (Path(folder) / name).unlink()
    for folder, _folders, _files in os.walk(tree, topdown=False):
        if ".git" not in Path(folder).relative_to(tree).parts and not os.listdir(folder):
            os.rmdir(folder)


def track(tree: Path) -> None:
    """ansible-test asks git for the list of files, and an outer repository would ignore this whole directory."""
    repository = tree / ".git"
    # Named outright: were it broken, git would take the outer repository and stage the user's work.
    git = ["git", f"--git-dir={repository}", f"--work-tree={tree}"]
    if not (repository / "HEAD").is_file():
        subprocess.run(["git", "init", "-q", str(tree)], check=True)
    subprocess.run([*git, "add", "-A"], check=True, cwd=tree)


if __name__ == "__main__":
    made = copy(Path.cwd(), Path(sys.argv[1]))
    track(made)
    print(made)
