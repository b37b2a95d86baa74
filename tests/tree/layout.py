# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Rules on how a port is laid out: packages by driver, and imports that point one way.

From below: the names, the contract and what drivers share, a driver, the registry, the verbs. Whatever reaches the
registry is a verb; an import for a type checker alone counts as one, since a reader follows it too.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path

from ansible_collections.gpufleet.baremetal.tests.tree.code import PACKAGE, imported, parsed
from ansible_collections.gpufleet.baremetal.tests.tree.listing import under

UTILS = "plugins/module_utils"
CONTRACT, REGISTRY, NAMES = "contract.py", "registry.py", "names.py"
START = PACKAGE.rsplit(".", 1)[0] + "."
LEVELS = ("names", "contract", "driver", "registry", "verb")

Graph = Mapping[str, frozenset[str]]


def file_of(full_name: str, known: set[str]) -> str:
    """The file that an import of this name reads; empty where it is none of ours."""
    if not full_name.startswith(START):
        return ""
    parts = full_name[len(START) :].split(".")
    for length in (len(parts), len(parts) - 1):
        stem = "/".join(parts[:length])
        for candidate in (f"{stem}.py", f"{stem}/__init__.py"):
            if candidate in known:
                return candidate
    return ""


@functools.cache
def graph(root: Path) -> Graph:
    """File -> the files of plugins/ that it imports, wherever in it the import stands."""
    trees = dict(parsed(root, "plugins"))
    known = set(trees)
    return {
        name: frozenset(filter(None, (file_of(full, known) for _line, full in imported(name, tree)))) - {name}
        for name, tree in trees.items()
    }


def reached(edges: Graph, start: str) -> set[str]:
    """Everything that a file imports, and what that imports."""
    seen: set[str] = set()
    open_ends = [start]
    while open_ends:
        fresh = edges.get(open_ends.pop(), frozenset()) - seen
        seen |= fresh
        open_ends += fresh
    return seen


def import_circles(root: Path) -> list[str]:
    """Two files that need each other are one file in two pieces."""
    edges = graph(root)
    circles = {
        frozenset(other for other in reached(edges, name) if name in reached(edges, other)) for name in sorted(edges)
    }
    return sorted(" and ".join(sorted(circle)) for circle in circles if circle)


def ports(root: Path) -> dict[str, set[str]]:
    """Port -> its drivers, each a package of its own beside the contract."""
    found: dict[str, set[str]] = {}
    for path in under(root, UTILS, suffix=".py"):
        parts = path.relative_to(root / UTILS).parts
        if len(parts) > 1 and parts[0].startswith("_"):
            found.setdefault(parts[0], set()).update(parts[1:-1][:1])
    return found


def flat_drivers(root: Path) -> list[str]:
    """What belongs to one driver lies in its package, and several files of one prefix are a package that is missing."""
    complaints = []
    for port, drivers in ports(root).items():
        stems = [path.stem for path in under(root, f"{UTILS}/{port}", suffix=".py") if path.parent.name == port]
        prefixes = [stem.partition("_")[0] for stem in stems if not stem.startswith("_")]
        for stem in stems:
            prefix = stem.partition("_")[0]
            if prefix in drivers:
                complaints.append(f"{UTILS}/{port}/{stem}.py belongs into the package {prefix}/ beside it")
            elif prefix and prefixes.count(prefix) > 1:
                complaints.append(f"{UTILS}/{port}/{stem}.py: several files begin with {prefix}, so make it a package")
    return complaints


def place(name: str) -> tuple[str, str]:
    """The port and the driver's package that a file lies in; empty where it lies in none."""
    parts = name.split("/")
    if not name.startswith(UTILS + "/") or len(parts) < 4:
        return "", ""
    return parts[2], parts[3] if len(parts) > 4 else ""


def level(edges: Graph, name: str) -> int:
    """How high a file of a port stands."""
    port, driver = place(name)
    if driver:
        return LEVELS.index("driver")
    by_name = {NAMES: "names", CONTRACT: "contract", REGISTRY: "registry"}.get(name.rsplit("/", 1)[1])
    if by_name:
        return LEVELS.index(by_name)
    verb = f"{UTILS}/{port}/{REGISTRY}" in reached(edges, name)
    return LEVELS.index("verb" if verb else "contract")


def inside(edges: Graph) -> Iterator[tuple[str, str]]:
    """Imports within one port."""
    for name, targets in sorted(edges.items()):
        port, _driver = place(name)
        yield from ((name, target) for target in sorted(targets) if port and place(target)[0] == port)


def arrows_up(root: Path) -> list[str]:
    """Within a port an import leads down, or stays on its level."""
    edges = graph(root)
    return [
        f"{name} ({LEVELS[level(edges, name)]}) imports {target} ({LEVELS[level(edges, target)]}), which lies above it"
        for name, target in inside(edges)
        if level(edges, name) < level(edges, target)
    ]


def drivers_that_meet(root: Path) -> list[str]:
    """A driver knows of itself, the contract and what lies beside it, and of no other driver."""
    return [
        f"{name} imports {target}, which is another driver's"
        for name, target in inside(graph(root))
        if place(name)[1] and place(target)[1] and place(name)[1] != place(target)[1]
    ]


def named_for(name: str, driver: str) -> bool:
    """Is this the part of a driver that must lie elsewhere: the doors of a gate, the reader of an inventory source?"""
    stem = name.rsplit("/", 1)[1].removesuffix(".py")
    return stem in (f"_inventory_{driver}", f"{driver}_gate") and place(name) == ("", "")


def drivers_past_the_registry(root: Path) -> list[str]:
    """The registry alone knows the drivers, so that a new one is one line there and nowhere else."""
    return [
        f"{name} imports {target}, which only {UTILS}/{place(target)[0]}/{REGISTRY} should"
        for name, targets in sorted(graph(root).items())
        for target in sorted(targets)
        if place(target)[1]
        and place(name) != place(target)
        and not (place(name) == (place(target)[0], "") and name.endswith("/" + REGISTRY))
        and not named_for(name, place(target)[1])
    ]
