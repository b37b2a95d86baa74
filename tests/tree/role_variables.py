# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which host variables each role reads: what its tasks spell, and what the verbs that they call take from the host.

`make role-variables` writes it into the roles' argument specs and READMEs, and a rule of the tree asks whether it is
what would be written. The specs have it as an entry point of its own, ``host_variables``, which only ``ansible-doc``
reads: in ``main`` Ansible would template each value, secrets and all, for each host and each role, which was measured
to cost ten milliseconds of a host-task.
"""

from __future__ import annotations

import ast
import functools
import importlib
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._preflight_settings import OWN, TYPES
from ansible_collections.gpufleet.baremetal.tests.tree.code import nodes, tree_of
from ansible_collections.gpufleet.baremetal.tests.tree.listing import text, under
from ansible_collections.gpufleet.baremetal.tests.tree.names import OF_THE_HOST as ENTRY
from ansible_collections.gpufleet.baremetal.tests.tree.names import VARIABLES as PAGE
from ansible_collections.gpufleet.baremetal.tests.tree.parts import COLLECTION, ROLE_WORDS, roles, tasks_of

PACKAGE = "ansible_collections.gpufleet.baremetal.plugins"
HINT = "make role-variables writes it anew"
HEADING = "## Host variables it reads\n\n"
#: A role of the project's own rack is no part of a site.
_OF_NO_SITE = ("virtual_rack",)
_NAME, _PREFIX = re.compile(r"\bgpufleet_[a-z_]+\b"), "gpufleet_"
#: What every verb reads to know whose node it is and where its history lies.
OF_EVERY_VERB = ("_door", "_variables", "_tenant")
#: What those read that look at a hold anew, each before the writes that it permits.
OF_PROOFS = ("_proof", "_schedulers", "_holds")
OF_MAINTENANCE = ("_maintained",)
#: Their variables are the options of the verb, or of the port whose batch it watches.
BY_OPTION = frozenset(["_door", "_batch_hosts", "_for_all"])
#: These read variables for no role: a look at all of them, the sources of inventories, lists of names, and which hosts
#: are no nodes.
_OF_NO_ROLE = re.compile(r"_preflight.*|_inventory_.*|_known_names|_services")


# -- what code reads ---------------------------------------------------------------------------------------------------


@functools.cache
def module(folder: str, name: str) -> ModuleType:
    return importlib.import_module(f"{PACKAGE}.{folder}.{name}")


@functools.cache
def read_by(folder: str, name: str) -> frozenset[str]:
    """The host variables that a file of ours names, one by one or as all of a list."""
    there = module(folder, name)
    tree = ast.parse(text(Path(str(there.__file__))))
    found = {node.value for node in nodes(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    found |= set(of_others(tree, there))
    found |= {word for words in _of_lists(tree, there, name in BY_OPTION) for word in words}
    return frozenset(found & OWN)


def of_others(tree: ast.Module, there: ModuleType) -> Iterator[str]:
    """Constants of other files that this one uses, by their own name or as a part of a module: what they are."""
    imports = {
        alias.asname or alias.name for node in nodes(tree) if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    for node in nodes(tree):
        if isinstance(node, ast.Name) and node.id in imports:
            known: Any = getattr(there, node.id, None)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in imports:
            whole = getattr(there, node.value.id, None)
            known = getattr(whole, node.attr, None) if isinstance(whole, ModuleType) else None
        else:
            continue
        if isinstance(known, str):
            yield known


def _of_lists(tree: ast.Module, there: ModuleType, by_option: bool) -> Iterator[list[str]]:
    """``f"gpufleet_{name}" for name in (...)``: what the list is, as the file itself would read it."""
    for text_of_parts, source in _composed(tree):
        try:
            values = eval(compile(ast.Expression(source), "<list>", "eval"), vars(there))
        except NameError:
            if not by_option:
                raise ValueError(f"{there.__name__}:{text_of_parts.lineno}: of which list?") from None
            continue
        yield [_PREFIX + value for value in ([values] if isinstance(values, str) else values)]


def _composed(tree: ast.Module) -> Iterator[tuple[ast.JoinedStr, ast.expr]]:
    """Each name that is put together, and what its variable part comes from."""
    of_name: dict[ast.JoinedStr, dict[str, ast.expr]] = {}
    for node in nodes(tree):
        pairs = [(one.target, one.iter) for one in getattr(node, "generators", ())]
        pairs += [(node.target, node.iter)] if isinstance(node, ast.For) else []
        for target, source in pairs:
            for inner in ast.walk(node) if isinstance(target, ast.Name) else ():
                if isinstance(inner, ast.JoinedStr):
                    of_name.setdefault(inner, {})[target.id] = source
    for node in nodes(tree):
        if isinstance(node, ast.JoinedStr) and len(node.values) == 2 and isinstance(node.values[1], ast.FormattedValue):
            head, part = node.values[0], node.values[1].value
            if isinstance(head, ast.Constant) and head.value == _PREFIX:
                known = of_name.get(node, {})
                yield node, known.get(part.id, part) if isinstance(part, ast.Name) else part


@functools.cache
def classes(verb: str) -> tuple[type, ...]:
    """The verb's action and what it is made of, less what all of them are made of."""
    own = module("action", verb).ActionModule.__mro__
    return tuple(one for one in own if one.__module__.startswith(PACKAGE) and not one.__module__.endswith("._door"))


def read_by_verb(verb: str, given: frozenset[str] = frozenset()) -> set[str]:
    """What a task takes from the host that calls this verb.

    :param given: the options that the task itself says.
    """
    action = module("action", verb).ActionModule
    found = {_PREFIX + name for name in action.SPEC if name in action.FILLED and name not in given}
    found |= set(getattr(action, "HOST_VARS", {}).values()) & OWN
    port = getattr(action, "PORT", None)
    found |= {_PREFIX + name for name in (port.OPTION, *port.OPTIONS)} if port else set()
    files = [tuple(one.__module__.rsplit(".", 2)[1:]) for one in classes(verb)]
    proves = action.TOUCHES or getattr(action, "LOADS", False) or _calls(verb, "_prove_anew")
    beside = (*OF_EVERY_VERB, *(OF_PROOFS if proves else ()), *(OF_MAINTENANCE if action.PAST_PROVISIONER else ()))
    for folder, name in [*files, *(("plugin_utils", one) for one in beside)]:
        found |= read_by(folder, name)
    return found


def _calls(verb: str, name: str) -> bool:
    return any(name in text(Path(str(sys.modules[one.__module__].__file__))) for one in classes(verb))


# -- what roles read ---------------------------------------------------------------------------------------------------


def read_by_role(root: Path, role: str) -> set[str]:
    found: set[str] = set()
    for path in under(root, f"roles/{role}/tasks", f"roles/{role}/defaults", suffix=".yml"):
        content = yaml.safe_load(text(path))
        found |= set(_NAME.findall(text(path))) & OWN
        for task in tasks_of(content) if isinstance(content, list) else ():
            found |= read_by_task(root, task)
    return found


def read_by_task(root: Path, task: Mapping[str, Any]) -> set[str]:
    found: set[str] = set()
    for word, said in task.items():
        if word.startswith(COLLECTION + "."):
            found |= read_by_verb(word.rpartition(".")[2], frozenset(said or ()))
        elif word.rpartition(".")[2] in ROLE_WORDS:
            found |= read_by_role(root, str(said["name"]).rpartition(".")[2])
    return found


# -- how it is told ----------------------------------------------------------------------------------------------------


def meanings(root: Path) -> dict[str, str]:
    """What the page says of each variable, as ansible-doc shows it."""
    found = {}
    rows = text(root / PAGE).splitlines() if (root / PAGE).is_file() else []
    for row in rows:
        if row.startswith("| `gpufleet_"):
            names, _bar, meaning = row.strip("| ").partition(" | ")
            meaning = re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", meaning)
            meaning = re.sub(r"[,.;] [Ss]ee below$", "", re.sub(r"`([^`]+)`", r"C(\1)", meaning.strip()))
            said = meaning[:1].upper() + meaning[1:].rstrip(".") + "."
            found.update(dict.fromkeys(re.findall(r"`(\w+)`", names), said))
    return found


def form(name: str) -> dict[str, Any]:
    kind = TYPES.get(name, {})
    return {"type": "str", **{key: kind[key] for key in ("type", "elements", "choices", "default") if key in kind}}


def entry(root: Path, role: str) -> str:
    """The entry point of a role's argument specs, as text; empty where it reads none."""
    said, names = meanings(root), sorted(read_by_role(root, role))
    content = {
        "short_description": "What the role reads of a host's variables",
        "description": [
            "No tasks, and nothing to call. They are listed here for ansible-doc; Ansible compares what the role is"
            " given with the entry point C(main) alone.",
            f"M({COLLECTION}.preflight) tells what is wrong with them, of all hosts at once. Which of them a site needs"
            " depends on its provisioner, its scheduler and its BMCs.",
        ],
        "options": {name: {"description": said.get(name, ""), **form(name)} for name in names},
    }
    told = yaml.safe_dump({ENTRY: content}, sort_keys=False, width=115, allow_unicode=True)
    return "".join(f"  {line}\n" for line in told.splitlines() if names)


def part_of_readme(root: Path, role: str) -> str:
    names = ", ".join(f"`{name}`" for name in sorted(read_by_role(root, role)))
    where = f"`ansible-doc -t role {COLLECTION}.{role}` and [Host variables](../../{PAGE}) say what each is."
    return f"{HEADING}{names}\n\n{where}\n\n"


def written(root: Path, role: Path) -> Iterator[tuple[Path, str]]:
    """Each file of a role that names them, as it would be written."""
    spec, readme = role / "meta" / "argument_specs.yml", role / "README.md"
    head = text(spec).partition(f"  {ENTRY}:\n")[0]
    yield spec, head.rstrip("\n") + "\n" + entry(root, role.name)
    before, _heading, after = text(readme).partition(HEADING)
    rest = after.partition("\n## ")[2]
    if HEADING in text(readme):
        yield readme, f"{before}{part_of_readme(root, role.name)}## {rest}"


def of_a_site(root: Path) -> list[Path]:
    return [role for role in roles(root) if role.name not in _OF_NO_SITE]


# -- rules -------------------------------------------------------------------------------------------------------------


def roles_that_do_not_tell(root: Path) -> list[str]:
    """U9: each role declares the host variables that its tasks and their verbs read, those and no others."""
    complaints = []
    for role in of_a_site(root):
        spec = role / "meta" / "argument_specs.yml"
        if not spec.is_file() or not (role / "README.md").is_file():
            continue  # the rule on incomplete roles says so
        silent = sorted(read_by_role(root, role.name) - set(meanings(root)))
        complaints += [f"{PAGE}: no row for {name}, which the role {role.name} reads" for name in silent]
        complaints += [
            f"{path.relative_to(root)}: not the host variables that the role reads; {HINT}"
            for path, wanted in written(root, role)
            if text(path) != wanted
        ]
    return complaints


def variables_of_nobody(root: Path) -> list[str]:
    """Whatever names a host variable is counted to some verb, and the page has each variable that there is."""
    folder = "plugins/plugin_utils"
    verbs = [path.stem for path in under(root, "plugins/action", suffix=".py") if not path.stem.startswith("_")]
    counted = {one.__module__.rpartition(".")[2] for verb in verbs for one in classes(verb)}
    counted |= {*OF_EVERY_VERB, *OF_PROOFS, *OF_MAINTENANCE}
    complaints = [
        f"{folder}/{path.name}: names host variables, and no verb is known to read them by it"
        for path in under(root, folder, suffix=".py")
        if path.stem not in counted and not _OF_NO_ROLE.fullmatch(path.stem) and _NAME.search(_code(path))
        if read_by("plugin_utils", path.stem)
    ]
    if (root / PAGE).is_file():
        complaints += [f"{PAGE}: no row for {name}" for name in sorted(OWN - set(meanings(root)))]
    return complaints


def _code(path: Path) -> str:
    return ast.unparse(tree_of(path))


if __name__ == "__main__":
    for one in of_a_site(Path(sys.argv[1]).resolve()):
        for file, content in written(Path(sys.argv[1]).resolve(), one):
            file.write_text(content, encoding="utf-8")
