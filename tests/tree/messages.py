# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The page on messages, written from the places that raise them, so that it tells no other ones.

`make messages` writes it; a rule of the tree asks whether it is what would be written.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ansible_collections.gpufleet.baremetal.plugins.module_utils._quarantine import WHOSE
from ansible_collections.gpufleet.baremetal.tests.tree.code import parsed
from ansible_collections.gpufleet.baremetal.tests.tree.listing import text
from ansible_collections.gpufleet.baremetal.tests.tree.literals import Source, common, constants_of, taken

PAGE = "docs/reference/troubleshooting.md"
HINT = "make messages writes it anew"
ERRORS = "plugins/module_utils/_errors.py"
_COLLECTION = "ansible_collections/gpufleet/baremetal"
_HEAD = """# Troubleshooting, by message

Written by `make messages` from the code. Look for a part of the message that has no name or number in it: those stand
here in CAPITALS. A message reads

    NODE (ADDRESS): what went wrong. Wanted: ... Seen: ... Do: the next step

and a failed task tells the same as data, in `error`, with its `kind`. This page has what went wrong and what to do, by
kind and then by part; where a message tells no step, what was wanted stands here. What a gate finds on a node is told
in [remedies](remedies.md), how a node goes on from each state in [lifecycle](lifecycle.md#the-way-back).

## Whose failure it is

| it is | what the playbooks do | who mends it |
|---|---|---|
| the node's | that is a verdict: the node is quarantined, with the finding | who works on the node, as \
[its remedy](remedies.md) says; then the command that the report shows |
| the site's | nobody is quarantined; the node stays in its state, with the reason | who keeps the inventory, its keys \
and images; then the same command again |
| a service's | nobody is quarantined; the node stays in its state, with the reason | who runs that service, or time; \
then the same command again |
| somebody else's | the node is left alone | who holds it, or another run that ends; some of it a person may force, \
with a reason that is recorded |
"""
_WHOSE = {"node": "the node's", "site": "the site's", "service": "a service's", "somebody else": "somebody else's"}
#: Of the kinds whose class says too little here.
_MEANS = {
    "deadline": "The time for it was over before its effect was seen",
    "error": "Something else",
    "missing_library": "A Python library that this task needs is not there",
}
#: Kinds that verdicts tell, and that no error has.
_OF_VERDICTS = {
    "artifact": "The image's artifact, its list or its signature is not what it must be, or cannot be read",
    "unproven": "Nothing on the node shows that it runs this deployment",
}
_LIBRARY, _PREFLIGHT, _ROOT, _OF_ROOT = "MissingLibrary", "Cause", "FleetError", "error"
_OF_A_PREFLIGHT = "What only a preflight tells"
#: The longest beginning of a path that fits says which part it is.
_PARTS = {
    "plugins/module_utils/_bmc": "BMC",
    "plugins/plugin_utils/_certificate": "BMC",
    "plugins/module_utils/_provisioner": "Provisioner",
    "plugins/module_utils/_scheduler": "Scheduler",
    "plugins/plugin_utils/_schedulers": "Scheduler",
    "plugins/module_utils/_gate": "Gates",
    "plugins/plugin_utils/_detached": "Gates",
    "plugins/module_utils/_trust": "Image and passport",
    "plugins/action/node_passport": "Image and passport",
    "plugins/action/image_verify": "Image and passport",
    "plugins/module_utils/_ledger": "Ledger",
    "plugins/action/ledger": "Ledger",
    "plugins/inventory": "Inventory",
    "plugins/plugin_utils/_inventory": "Inventory",
    "plugins/plugin_utils/_preflight": "Preflight",
    "plugins": "The run itself",
}


class Kind(NamedTuple):
    """A class of the exception tree."""

    kind: str
    means: str


class Message(NamedTuple):
    kind: str
    part: str
    what: str
    do: str


def page(root: Path) -> str:
    """The page of this tree."""
    kinds = kinds_of(root)
    found = sorted(set(messages(root, kinds)))
    told: dict[str, str] = {}
    for one in kinds.values():  # a class without a kind of its own comes after the one whose kind it has
        told.setdefault(one.kind, one.means)
    rows = [
        f"| `{kind}` | {_WHOSE[WHOSE[kind]]} | {means} |" for kind, means in sorted({**told, **_OF_VERDICTS}.items())
    ]
    lines = [_HEAD, "## What the kinds mean", "", "| kind | it is | it means |", "|---|---|---|", *rows]
    for kind in [*sorted(told), _OF_A_PREFLIGHT]:
        own = [one for one in found if one.kind == kind]
        lines += (
            ["", f"## {kind}", "", f"{told[kind]}." if kind in told else "Before anything is written."] if own else []
        )
        for part in dict.fromkeys(one.part for one in own):
            lines += ["", f"### {kind}: {part}" if kind in told else f"### {part}", ""]
            lines += [line_of(one) for one in merged(own, part)]
    return "\n".join([*lines, ""])


def merged(messages: list[Message], part: str) -> list[Message]:
    """One line a message: of two places that say the same, the one that says more of what to do."""
    best: dict[str, Message] = {}
    for one in messages:
        if one.part == part and len(one.do) >= len(best.get(one.what, one).do):
            best[one.what] = one
    return list(best.values())


def line_of(one: Message) -> str:
    mark = "``" if "`" in one.what else "`"
    return f"- {mark}{one.what}{mark}" + (f": {one.do}" if one.do else "")


def kinds_of(root: Path) -> dict[str, Kind]:
    """Class -> its kind, and what that means: as the tree in the file of errors says, or the class itself."""
    told = {}
    if (root / ERRORS).is_file():
        for line in text(root / ERRORS).splitlines():
            words = line.strip(" |+-").split(None, 1)
            if len(words) == 2 and line.startswith("     ") and words[0].isidentifier():
                told.setdefault(words[0], words[1])
    files = sorted(parsed(root, "plugins"), key=lambda one: one[0] != ERRORS)
    classes = [node for _name, tree in files for node in tree.body if isinstance(node, ast.ClassDef)]
    known: dict[str, Kind] = {}
    bases = {node.name: [base.id for base in node.bases if isinstance(base, ast.Name)] for node in classes}
    for node in classes:
        if node.name == _ROOT or _is_error(node.name, bases):
            means = told.get(node.name) or (ast.get_docstring(node) or "").partition("\n\n")[0]
            kind = _kind(node) or next((known[base].kind for base in bases[node.name] if base in known), "")
            if kind == _OF_ROOT and node.name != _ROOT:
                continue  # of inside: whoever catches it says what it means
            known[node.name] = Kind(kind, _MEANS.get(kind) or _sentence(means) or known_by(node, known))
    return known


def known_by(node: ast.ClassDef, known: dict[str, Kind]) -> str:
    return next((known[base.id].means for base in node.bases if isinstance(base, ast.Name) and base.id in known), "")


def _sentence(words: str) -> str:
    words = " ".join(words.split()).rstrip(".")
    return "" if words.startswith(":") else words[:1].upper() + words[1:]


def _is_error(name: str, bases: dict[str, list[str]]) -> bool:
    return any(base == _ROOT or _is_error(base, bases) for base in bases.get(name, ()))


def _kind(node: ast.ClassDef) -> str:
    for line in node.body:
        if isinstance(line, ast.Assign) and [name.id for name in line.targets if isinstance(name, ast.Name)] == [
            "kind"
        ]:
            return str(line.value.value) if isinstance(line.value, ast.Constant) else ""
    return ""


def messages(root: Path, kinds: dict[str, Kind]) -> Iterator[Message]:
    """What each call that makes an error says, as far as it is written there."""
    trees = [(name, tree) for name, tree in parsed(root, "plugins") if name != ERRORS]
    files = {f"{_COLLECTION}/{name}": constants_of(tree) for name, tree in trees}
    everywhere = common(files.values())
    for name, tree in trees:
        source = Source(tree, {**everywhere, **taken(tree, files)})
        for called, call in source.calls([*kinds, _PREFLIGHT]):
            kind = kinds[called].kind if called in kinds else _OF_A_PREFLIGHT
            yield from (Message(kind, part_of(name), *said) for said in told_by(source, called, call))


def told_by(source: Source, called: str, call: ast.Call) -> Iterator[tuple[str, str]]:
    """What went wrong and what to do, of one call; several where it is handed in by several callers."""
    at = 2 if called == _PREFLIGHT else 0
    if len(call.args) <= at:
        return
    named = {word.arg: word.value for word in call.keywords if word.arg}
    # A cause tells what was wanted and seen before it tells what to do.
    step = named.get("do") or (call.args[5] if called == _PREFLIGHT and len(call.args) > 5 else None)
    for what, do in source.pairs(call.args[at], step, call):
        if called == _LIBRARY:
            where = "in the Python that the message names"
            yield f"the Python library {what} is not installed", f"{where}, for instance: pip install {what}"
        elif any(word.islower() and len(word) > 3 for word in what.split()):
            wanted = source.texts(named["wanted"], call) if "wanted" in named and not do else []
            yield what, do or " / ".join(f"wanted: {said}" for said in wanted)


def part_of(name: str) -> str:
    return _PARTS[max((begin for begin in _PARTS if name.startswith(begin)), key=len)]


def messages_that_differ(root: Path) -> list[str]:
    """An operator who looks for a message finds it, and none that nobody tells any more."""
    kinds = kinds_of(root)
    if not any(messages(root, kinds)):
        return []
    unheard = [
        f"{one.kind}: of the kinds of errors none is so called" for one in kinds.values() if one.kind not in WHOSE
    ]
    if unheard:
        return unheard
    there = text(root / PAGE) if (root / PAGE).is_file() else ""
    wanted = page(root)
    lost = set(wanted.splitlines()) ^ set(there.splitlines())
    some = "; ".join(sorted((line for line in lost if line.strip()), key=lambda line: (line[:1] != "-", line))[:3])
    return [] if there == wanted else [f"{PAGE} is not what the code says; {HINT}: {some}"]


if __name__ == "__main__":
    (Path(sys.argv[1]) / PAGE).write_text(page(Path(sys.argv[1])), encoding="utf-8")
