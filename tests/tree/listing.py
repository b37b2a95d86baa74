# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What holds for the whole tree of files. Each rule takes the root of a tree and gives a list of complaints.

A rule that cannot complain proves nothing, so test_rules_can_fail.py feeds each of them a tree that breaks it.
"""

from __future__ import annotations

import functools
import os
import re
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.gpufleet.baremetal.tests import recorded

# In two parts, or REUSE takes this line for a header
HEADER = "# SPDX-License-Identifier" + ": GPL-3.0-or-later"
# Where the built-in rack lives: its folder, addresses, ports, serials and names.
RACK = re.compile(
    r"gpufleet-rack|gfrack|virtual[_-]rack|rack-fault|127\.77\.|10\.77\.0\.|52:54:00:77|5ac00000|16385|15240|\bstand-?ins?\b",
    re.IGNORECASE,
)
RACK_ROLE = "virtual_rack"
# A page, and the heading in it; and what in a page is no text of its own.
_LINK = re.compile(r"\]\(([^)#\s]*)#?([^)\s]*)[^)]*\)")
_FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)


@functools.cache
def files(root: Path) -> list[Path]:
    """The files of the project: git's, and those that git would take; all of them where there is no repository."""
    if not (root / ".git").exists():
        return sorted(path for path in root.rglob("*") if path.is_file())
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.decode().split("\0")
    return sorted({root / name for name in names if name and (root / name).is_file()})


def under(root: Path, *folders: str, suffix: str = "") -> list[Path]:
    starts = tuple(str(root / folder) + os.sep for folder in folders)
    return [path for path in files(root) if str(path).startswith(starts) and path.name.endswith(suffix)]


@functools.cache
def text(path: Path) -> str:
    """The file's text; what is no text says nothing."""
    return path.read_bytes().decode("utf-8", errors="replace")


class Ansibles(yaml.SafeLoader):
    """YAML as Ansible reads it: a text that is no template says so by a tag."""


Ansibles.add_constructor("!unsafe", lambda loader, node: loader.construct_scalar(node))  # type: ignore[arg-type]


def loaded(path: Path) -> Any:
    return yaml.load(text(path), Ansibles)


def matching_lines(path: Path, pattern: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text(path).splitlines(), 1):
        if pattern.search(line):
            yield number, line.strip()


def knows_of_the_rack(root: Path) -> list[str]:
    """No plugin, and no role but the rack's own, may know of the rack: they would work on it and nowhere else."""
    places = under(root, "plugins", "roles")
    outside = [path for path in places if path.relative_to(root).parts[:2] != ("roles", RACK_ROLE)]
    return [
        f"{path.relative_to(root)}:{number}: {line}" for path in outside for number, line in matching_lines(path, RACK)
    ]


def private_words() -> list[str]:
    """What names the machine, the checkout or the account on which the tests run, rather than the project."""
    words = [str(recorded.CHECKOUT)]
    data = recorded.home()
    words += [str(data), f"{data.parent.name}/{data.name}", f"../{data.parent.name}"] if data else []
    # Root's home is a place of every node; a person's is not.
    words += [str(Path.home())] if Path.home().parent != Path("/") else []
    hosts = [socket.gethostname()]
    hosts += [re.sub(r"^\w+://|[/:].*$", "", os.environ.get(name, "")) for name in ("PIP_INDEX_URL", "http_proxy")]
    return words + [host for host in hosts if len(host) > 5 and host != "localhost"]


def private_places(root: Path) -> list[str]:
    """The project speaks of itself alone."""
    pattern = re.compile("|".join(map(re.escape, private_words())))
    return [
        f"{path.relative_to(root)}:{number}: {line}"
        for path in files(root)
        for number, line in matching_lines(path, pattern)
    ]


def without_header(root: Path) -> list[str]:
    """Each Python file says whose it is and under which licence."""
    python = under(root, "plugins", "roles", "tests", "make", "extensions", suffix=".py")
    return [str(path.relative_to(root)) for path in python if HEADER not in text(path).splitlines()[:6]]


def yaml_without_start(root: Path) -> list[str]:
    yaml = [path for path in files(root) if path.suffix in (".yml", ".yaml")]
    return [str(path.relative_to(root)) for path in yaml if not text(path).startswith(("---\n", "# "))]


def dead_links(root: Path) -> list[str]:
    """A page that is linked to within the project is there, and has the heading that the link leads to."""
    complaints = []
    for path in files(root):
        if path.suffix != ".md":
            continue
        for target, heading in _LINK.findall(text(path)):
            there = (path.parent / target).resolve() if target else path.resolve()
            if re.match(r"\w+:", target) or (not target and not heading):
                continue
            if not there.exists():
                complaints.append(f"{path.relative_to(root)}: {target}")
            elif heading and there.suffix == ".md" and heading not in headings(text(there)):
                complaints.append(f"{path.relative_to(root)}: {target}#{heading}: no such heading")
    return complaints


@functools.cache
def headings(page: str) -> frozenset[str]:
    """By what a link leads to them, as the site that the repository is on makes it: small letters, without what is no
    letter, digit, minus or underscore, and a minus for each blank."""
    told = re.findall(r"^#+ +(.+?) *$", _FENCED.sub("", page), re.MULTILINE)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", line).lower() for line in told)
    return frozenset(re.sub(r"[^\w\- ]", "", line).replace(" ", "-") for line in plain)
