# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The programs that a machine has on which nothing but some packages was installed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

_FIELDS = ("Package", "Essential", "Priority", "Pre-Depends", "Depends", "Provides")
_FORMAT = "\t".join(f"${{{name}}}" for name in _FIELDS) + "\n"
_PLACES = (Path("/usr/bin"), Path("/usr/sbin"))
_LISTED = ("/bin/", "/sbin/", "/usr/bin/", "/usr/sbin/")


def listed(bindep: Path) -> list[str]:
    """What bindep reads in its list for this system."""
    argv = [str(Path(sys.executable).with_name("bindep")), "-l", "newline", "-f", str(bindep)]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()


def link_programs(folder: Path, asked: Iterable[str]) -> None:
    """Into the folder, those of the packages, of all that these need, and of what each Debian has."""
    folder.mkdir(parents=True)
    packages = sorted(_needed(asked))
    told = subprocess.run(["dpkg-query", "-L", *packages], capture_output=True, text=True, check=True).stdout
    theirs = {Path(line).resolve() for line in told.splitlines() if line.startswith(_LISTED)}
    for path in (one for place in _PLACES for one in sorted(place.iterdir())):
        # A name that leads to one of them, by /etc/alternatives too
        if path.resolve() in theirs and path.is_file() and not (folder / path.name).exists():
            (folder / path.name).symlink_to(path)


def _needed(asked: Iterable[str]) -> set[str]:
    rows = subprocess.run(["dpkg-query", "-W", "-f", _FORMAT], capture_output=True, text=True, check=True).stdout
    known = {row[0]: dict(zip(_FIELDS, row)) for row in (line.split("\t") for line in rows.splitlines())}
    provided = {name: one for one, told in known.items() for name in _names(told["Provides"])}
    base = [one for one, told in known.items() if told["Essential"] == "yes" or told["Priority"] == "required"]
    seen: set[str] = set()
    todo = [*asked, *base]
    while todo:
        one = todo.pop()
        one = one if one in known else provided.get(one, "")
        if one and one not in seen:
            seen.add(one)
            todo += [*_names(known[one]["Pre-Depends"]), *_names(known[one]["Depends"])]
    assert not set(asked) - seen, f"not installed: {sorted(set(asked) - seen)}"
    return seen


def _names(told: str) -> Iterator[str]:
    """Each name of it, of alternatives all: those that are not installed lead nowhere."""
    for word in told.replace("|", ",").split(","):
        if word.strip():
            yield word.split()[0].partition(":")[0]
