# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Rules on modules, roles, playbooks and the collection's own metadata."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.gpufleet.baremetal.tests.tree.listing import text, under

COLLECTION = "gpufleet.baremetal"
NO_ACTION = "has no action plugin"
TASK_WORDS = {
    *("name", "when", "register", "loop", "loop_control", "vars", "tags", "notify", "environment", "module_defaults"),
    *("delegate_to", "run_once", "until", "retries", "delay", "throttle", "become", "no_log", "check_mode", "diff"),
    *("changed_when", "failed_when", "ignore_errors"),
}
ROLE_WORDS = ("import_role", "include_role")
_BETWEEN_CONDITIONS = re.compile(r"\b(?:and|or|not)\b")
# A lock line: an exact version and nothing else, neither an address nor a path.
PIN = re.compile(r"^[A-Za-z0-9._-]+(\[[a-z,]+\])?==[A-Za-z0-9.+!]+$")


def modules(root: Path) -> list[Path]:
    return [path for path in under(root, "plugins/modules", suffix=".py") if not path.stem.startswith("_")]


def blocks(path: Path) -> dict[str, str]:
    """The documentation blocks of a plugin or of a fragment's class, by name."""
    found = {}
    for node in ast.walk(ast.parse(text(path))):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            found.update({name.id: node.value.value for name in node.targets if isinstance(name, ast.Name)})
    return found


def documentation(path: Path) -> dict[str, Any]:
    return yaml.safe_load(blocks(path).get("DOCUMENTATION", "")) or {}


def options(root: Path, path: Path) -> set[str]:
    """The names of a module's options, those of its fragments and all aliases included."""
    docs = [documentation(path)]
    wanted = docs[0].get("extends_documentation_fragment") or []
    for full_name in [wanted] if isinstance(wanted, str) else wanted:
        if full_name.startswith(COLLECTION + "."):
            fragment, _dot, part = full_name[len(COLLECTION) + 1 :].partition(".")
            found = blocks(root / "plugins" / "doc_fragments" / f"{fragment}.py")
            docs.append(yaml.safe_load(found.get(part.upper() or "DOCUMENTATION", "")) or {})
    names: set[str] = set()
    for doc in docs:
        for name, option in (doc.get("options") or {}).items():
            names |= {name, *(option.get("aliases") or [])}
    return names


def without_action(root: Path) -> list[str]:
    """A verb has two doors. A module with one says why in its notes: "This module has no action plugin, since ..."."""
    complaints = []
    for path in modules(root):
        notes = " ".join(map(str, documentation(path).get("notes") or []))
        if not (root / "plugins" / "action" / path.name).is_file() and NO_ACTION not in notes:
            complaints.append(f"{path.stem} has no action plugin and no note that says why")
    return complaints


def bad_examples(root: Path) -> list[str]:
    complaints = []
    for path in modules(root):
        try:
            tasks = yaml.safe_load(blocks(path).get("EXAMPLES", ""))
        except yaml.YAMLError as error:
            complaints.append(f"{path.stem}: EXAMPLES is no YAML: {error}")
            continue
        if not isinstance(tasks, list) or not tasks:
            complaints.append(f"{path.stem}: EXAMPLES is no list of tasks")
            continue
        complaints += [f"{path.stem}: {fault}" for fault in example_faults(root, path, tasks)]
    return complaints


def example_faults(root: Path, path: Path, tasks: list[Any]) -> list[str]:
    own = f"{COLLECTION}.{path.stem}"
    faults, used = [], False
    known = options(root, path)
    for task in tasks:
        if not isinstance(task, dict) or "name" not in task:
            faults.append(f"an example without a name: {task}")
            continue
        actions = [word for word in task if word not in TASK_WORDS]
        if len(actions) != 1 or actions[0].count(".") != 2:
            faults.append(f"{task['name']!r} names not one module in full: {actions}")
        if own in task:
            used = True
            faults += [f"{task['name']!r}: no option {name}" for name in sorted(set(task[own] or {}) - known)]
    return faults if used else [*faults, "no example uses the module"]


def outside_groups(root: Path) -> list[str]:
    """Every module is in one action group, and a group names modules that exist."""
    groups = yaml.safe_load(text(root / "meta" / "runtime.yml")).get("action_groups") or {}
    grouped = [name for names in groups.values() for name in names]
    existing = {path.stem for path in modules(root)}
    complaints = [f"{name} is in no action group of meta/runtime.yml" for name in sorted(existing - set(grouped))]
    complaints += [f"meta/runtime.yml names {name}, which is no module" for name in sorted(set(grouped) - existing)]
    return complaints + [f"{name} is in two action groups" for name in sorted(set(grouped)) if grouped.count(name) > 1]


def untested(root: Path) -> list[str]:
    """Every module, callback, inventory plugin and role is named by a test."""
    tests = "\n".join(text(path) for path in under(root, "tests", "extensions") if path.suffix in (".py", ".yml"))
    plugins = under(root, "plugins/modules", "plugins/callback", "plugins/inventory", suffix=".py")
    names = {path.stem for path in plugins} | {path.name for path in roles(root)}
    return sorted(name for name in names if not re.search(rf"\b{name}\b", tests))


def roles(root: Path) -> list[Path]:
    return sorted({root.joinpath(*path.relative_to(root).parts[:2]) for path in under(root, "roles")})


def incomplete_roles(root: Path) -> list[str]:
    complaints = []
    for role in roles(root):
        for needed in ("README.md", "meta/main.yml", "meta/argument_specs.yml", "tasks/main.yml"):
            if not (role / needed).is_file():
                complaints.append(f"{role.name} has no {needed}")
        spec = role / "meta" / "argument_specs.yml"
        entries = (yaml.safe_load(text(spec)) or {}).get("argument_specs") or {} if spec.is_file() else {}
        for entry, content in entries.items():
            lost = [word for word in ("short_description", "description") if not (content or {}).get(word)]
            complaints += [f"{role.name}: entry point {entry} has no {word}" for word in lost]
            options_of_entry = (content or {}).get("options") or {}
            silent = [name for name, option in options_of_entry.items() if not option.get("description")]
            complaints += [f"{role.name}: option {name} has no description" for name in silent]
            complaints += _not_in_its_readme(role, options_of_entry)
    return complaints


def _not_in_its_readme(role: Path, names: Iterable[str]) -> list[str]:
    """A README names each option, or says where they stand."""
    readme = text(role / "README.md") if (role / "README.md").is_file() else ""
    lost = [] if "meta/argument_specs.yml" in readme else [name for name in names if name not in readme]
    return [f"{role.name}: option {name} is not in its README.md" for name in lost]


def plays_of_other_strategies(root: Path) -> list[str]:
    """Under another strategy than linear, run_once runs once a host, and a batch is polled by each of its hosts."""
    complaints = []
    for path in under(root, "playbooks", suffix=".yml"):
        if path.parent != root / "playbooks":
            continue
        for play in yaml.safe_load(text(path)) or []:
            if "hosts" in play and play.get("strategy") != "linear":
                complaints.append(f"{path.name}: {play.get('name')} does not say strategy: linear")
    return complaints


def options_that_nobody_checks(root: Path) -> list[str]:
    """A role that a playbook tells not to look at its options: the play's first task has looked, for all hosts."""
    complaints = []
    for path in under(root, "playbooks", suffix=".yml"):
        tasks = [task for play in yaml.safe_load(text(path)) or [] for task in tasks_of([play]) if "hosts" not in task]
        if any("gpufleet.baremetal.preflight" in task for task in tasks):
            continue
        looks = [task.get("gpufleet.baremetal.fleet_status") or {} for task in tasks]
        checked = {role for look in looks for role in look.get("settings_of") or []}
        includes = [task.get(f"ansible.builtin.{way}_role") or {} for task in tasks for way in ("import", "include")]
        trusted = {str(one["name"]).rpartition(".")[2] for one in includes if one.get("rolespec_validate") is False}
        complaints += [f"{path.name}: nothing looks at the options of {role}" for role in sorted(trusted - checked)]
    return complaints


def tasks_of(things: Any) -> Iterator[dict[str, Any]]:
    """The tasks of a play's lists, those in blocks included."""
    for thing in things or []:
        yield thing
        for part in ("pre_tasks", "tasks", "post_tasks", "handlers", "block", "rescue", "always"):
            yield from tasks_of(thing.get(part))


def bare_switches(root: Path) -> list[str]:
    """``-e name=false`` gives a text, which ansible-core 2.19 refuses as a condition."""
    return [
        f"{path.relative_to(root)}: the condition {condition!r} wants `| bool`"
        for role in roles(root)
        for path in under(root, f"roles/{role.name}/tasks", f"roles/{role.name}/handlers", suffix=".yml")
        for task in tasks_of(yaml.safe_load(text(path)))
        for condition in _conditions(task)
        if condition in switches(role)
    ]


def switches(role: Path) -> set[str]:
    """The options of a role that are on or off."""
    spec = role / "meta" / "argument_specs.yml"
    main = yaml.safe_load(text(spec))["argument_specs"].get("main", {}) if spec.is_file() else {}
    return {name for name, option in (main.get("options") or {}).items() if option.get("type") == "bool"}


def _conditions(task: Mapping[str, Any]) -> Iterator[str]:
    """What a task depends on, each part by itself."""
    said = task.get("when", [])
    for one in said if isinstance(said, list) else [said]:
        yield from (part.strip("( )") for part in _BETWEEN_CONDITIONS.split(str(one)))


def machines_of_nobody(root: Path) -> list[str]:
    """Whoever proves the machine of a node passes on who it is as its BMC says: another one answers just as well."""
    complaints = []
    for path in under(root, "playbooks", suffix=".yml"):
        for task in tasks_of(yaml.safe_load(text(path))):
            named = [task.get(f"ansible.builtin.{word}") or task.get(word) or {} for word in ROLE_WORDS]
            said = re.sub(r"\s", "", str((task.get("vars") or {}).get("baseline_bmc_identity", "")))
            if f"{COLLECTION}.baseline" in [one.get("name") for one in named] and said != "{{oob_ready_bmc.identity}}":
                complaints.append(f"{path.name}: {task.get('name')!r} does not pass on oob_ready_bmc.identity")
    return complaints


def requirements(path: Path) -> set[str]:
    """Names of the packages that a requirements file asks for, what it includes included."""
    names = set()
    for line in text(path).splitlines():
        line = line.split("#")[0].strip()
        if line.startswith("-r "):
            names |= requirements(path.parent / line[3:].strip())
        elif line:
            names.add(re.split(r"[\[<>=!~; ]", line)[0].lower().replace("_", "-"))
    return names


def bad_locks(root: Path) -> list[str]:
    complaints = []
    for path in under(root, "requirements", suffix=".lock"):
        lines = [line for line in text(path).splitlines() if line and not line.startswith("#")]
        complaints += [f"{path.name}: no exact version alone: {line}" for line in lines if not PIN.match(line)]
        source = path.with_suffix(".in")
        lost = requirements(source) - requirements(path) if source.is_file() else {"its .in file"}
        complaints += [f"{path.name} lacks {name}" for name in sorted(lost)]
    return complaints


def environments_that_differ(root: Path) -> list[str]:
    """An execution environment gets what the tests ran with."""
    ours, theirs = (requirements(root / name) for name in ("requirements/collection.in", "meta/ee-requirements.txt"))
    return sorted(ours ^ theirs)
