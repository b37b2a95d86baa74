# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Rules that hold everything which spells a driver's name against the one list of its port, ``_<port>/names.py``.

Whoever adds a driver writes its package, a line in the registry and a line in that list; these rules say what else
names the port's drivers and has not heard of it yet.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.gpufleet.baremetal.tests.tree import layout
from ansible_collections.gpufleet.baremetal.tests.tree.code import nodes, parsed, tree_of
from ansible_collections.gpufleet.baremetal.tests.tree.listing import files, text, under
from ansible_collections.gpufleet.baremetal.tests.tree.parts import blocks, documentation

FRAGMENTS = "plugins/doc_fragments"
VARIABLES, DRIVERS_PAGE = "docs/reference/host-variables.md", "docs/reference/drivers.md"
GATES_PAGE = "docs/reference/gates.md"
README = "README.md"
SOURCES, SOURCE_PLUGIN = "plugins/plugin_utils/_inventory_sources.py", "plugins/inventory/fleet.py"
#: A source of rows that no provisioner keeps.
PLAIN_SOURCES = ("csv", "netbox")


@dataclass(frozen=True)
class Port:
    """A port's list. option: the option that names the driver; empty for gates, each of which is a module."""

    port: str
    option: str
    options: Mapping[str, Any]
    drivers: Mapping[str, Any]

    @property
    def file(self) -> str:
        return f"{layout.UTILS}/{self.port}/{layout.NAMES}"


def constants(tree: ast.Module) -> dict[str, Any]:
    """What a file assigns, where it is plain data."""
    found: dict[str, Any] = {}
    for node in tree.body:
        target = node.target if isinstance(node, ast.AnnAssign) else None
        target = node.targets[0] if isinstance(node, ast.Assign) else target
        if isinstance(target, ast.Name) and isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value:
            try:
                found[target.id] = ast.literal_eval(node.value)
            except ValueError:
                continue
    return found


def files_of_names(root: Path) -> list[Path]:
    return [path for path in under(root, layout.UTILS, suffix=layout.NAMES) if path.name == layout.NAMES]


def lists(root: Path) -> Iterator[Port]:
    """The ports that have a list."""
    for path in files_of_names(root):
        said = constants(tree_of(path))
        port = path.parent.name
        yield Port(port, said.get("OPTION", ""), said.get("OPTIONS", {}), said.get("DRIVERS", {}))


def names_that_compute(root: Path) -> list[str]:
    """The lists are plain data: whatever wants to know a name may read them, a test without Ansible too."""
    complaints = []
    for path in files_of_names(root):
        shown = path.relative_to(root)
        for node in tree_of(path).body:
            words = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
            data = isinstance(node, (ast.Assign, ast.AnnAssign)) and constants(ast.Module([node], []))
            if not (words or future or data):
                complaints.append(f"{shown}:{node.lineno}: neither words nor plain data")
    return complaints


def registered(root: Path, port: Port) -> set[str]:
    """The keys of DRIVERS in the port's registry; for gates, the drivers whose module is there."""
    if not port.option:
        return {name for name, module in port.drivers.items() if (root / f"plugins/modules/{module}.py").is_file()}
    path = root / layout.UTILS / port.port / layout.REGISTRY
    for node in tree_of(path).body if path.is_file() else ():
        target = node.target if isinstance(node, ast.AnnAssign) else None
        if isinstance(target, ast.Name) and target.id == "DRIVERS" and isinstance(node.value, ast.Dict):
            return {key.value for key in node.value.keys if isinstance(key, ast.Constant)}
    return set()


def half_drivers(root: Path) -> list[str]:
    """A driver is a package, a line in the registry and a line in the list: all three or none."""
    complaints = []
    packages = layout.ports(root)
    for port in lists(root):
        registry = f"no line in {layout.UTILS}/{port.port}/{layout.REGISTRY}" if port.option else "no module"
        where = {
            f"no package {layout.UTILS}/{port.port}/": packages.get(port.port, set()),
            registry: registered(root, port),
            f"no line in DRIVERS of {port.file}": set(port.drivers),
        }
        everywhere = set().union(*where.values())
        complaints += [
            f"{port.port}: the driver {driver} has {lack}"
            for driver in sorted(everywhere)
            for lack, here in where.items()
            if driver not in here
        ]
    return complaints


def power_that_is_not_told(root: Path) -> list[str]:
    """Where a driver switches no power, or has no maintenance, the list says so: the verbs of the BMC read it there."""
    return [
        *(told_otherwise(root, ("POWERLESS", "POWERLESS_BY_SERVICE"), "owns_power", "who switches power")),
        *(told_otherwise(root, ("NO_MAINTENANCE",), "holds", "who keeps a hold of ours")),
    ]


def told_otherwise(root: Path, lists_of: tuple[str, ...], attribute: str, what: str) -> list[str]:
    """Of one of these lists each driver is, or of none."""
    complaints = []
    for port in lists(root):
        known = constants(tree_of(root / port.file))
        told = [driver for name in lists_of for driver in known.get(name, set())]
        for driver in port.drivers:
            tree = root / layout.UTILS / port.port / driver
            classes = [
                node
                for path in sorted(tree.glob("*.py"))
                for node in nodes(tree_of(path))
                if isinstance(node, ast.ClassDef)
            ]
            said = any(constants(ast.Module(one.body, [])).get(attribute) is False for one in classes)
            if told.count(driver) != said:
                complaints.append(f"{port.file}: {' and '.join(lists_of)} and the driver {driver} differ on {what}")
    return complaints


def strings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in nodes(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def options_unheard_of(root: Path) -> list[str]:
    """A driver reads the options that the list gives it, and the list gives it no option that the port has not."""
    complaints = []
    for port in lists(root):
        if not port.option:
            continue
        for driver, taken in port.drivers.items():
            unknown = sorted(set(taken) - set(port.options))
            complaints += [f"{port.file}: {driver} takes {name}, which is no option" for name in unknown]
        for name, tree in parsed(root, f"{layout.UTILS}/{port.port}"):
            taken = port.drivers.get(layout.place(name)[1])
            if taken is not None:
                complaints += [
                    f"{name}:{line}: reads {word}, which {port.file} does not give this driver"
                    for line, word in strings(tree)
                    if word in port.options and word not in taken
                ]
    return complaints


def spelled_again(root: Path) -> list[str]:
    """No second list: code that wants the port's drivers reads the first."""
    complaints = []
    ports = list(lists(root))
    for name, tree in parsed(root, "plugins"):
        if name.endswith("/" + layout.NAMES):
            continue
        for node in nodes(tree):
            if not isinstance(node, (ast.List, ast.Tuple, ast.Set)):
                continue
            words = {item.value for item in node.elts if isinstance(item, ast.Constant)}
            complaints += [
                f"{name}:{node.lineno}: spells drivers of {port.port} anew; read {port.file}"
                for port in ports
                if len(words & set(port.drivers)) > 1 or len(words & gate_modules(port)) > 1
            ]
    return complaints


def gate_modules(port: Port) -> set[str]:
    return set() if port.option else {str(module) for module in port.drivers.values()}


def fragments_that_differ(root: Path) -> list[str]:
    """The fragment that documents a port's connection has its options, and offers its drivers."""
    fragments = [
        (path, (yaml.safe_load(blocks(path).get("DOCUMENTATION", "")) or {}).get("options") or {})
        for path in under(root, FRAGMENTS, suffix=".py")
    ]
    complaints = []
    for port in lists(root):
        if not port.option:
            continue
        documented = [(path, options) for path, options in fragments if port.option in options]
        if not documented:
            complaints.append(f"no fragment in {FRAGMENTS} documents {port.option}")
        for path, options in documented:
            shown = path.relative_to(root)
            wanted = {port.option, *port.options}
            complaints += [f"{shown}: no option {name} as in {port.file}" for name in sorted(wanted - set(options))]
            complaints += [f"{shown}: {name} is not in {port.file}" for name in sorted(set(options) - wanted)]
            choices = options[port.option].get("choices") or []
            lost = [driver for driver in port.drivers if driver not in choices]
            if lost:
                complaints.append(f"{shown}: the choices of {port.option} lack {', '.join(lost)}")
            elif choices != list(port.drivers):
                complaints.append(f"{shown}: the choices of {port.option} are not {', '.join(port.drivers)}")
    return complaints


def keys_of(path: Path, name: str) -> list[str]:
    """The keys of a mapping that a file assigns, whatever its values are."""
    for node in tree_of(path).body if path.is_file() else ():
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == name:
            keys = node.value.keys if isinstance(node.value, ast.Dict) else []
            return [key.value for key in keys if isinstance(key, ast.Constant)]
    return []


def sources_that_differ(root: Path) -> list[str]:
    """Each kind of inventory source is a provisioner of the list, or a plain one; the plugin documents them all."""
    kinds = keys_of(root / SOURCES, "KINDS")
    known = {
        *PLAIN_SOURCES,
        *(driver for port in lists(root) if port.option == "provisioner" for driver in port.drivers),
    }
    complaints = [f"{SOURCES}: the kind {kind} is no provisioner" for kind in kinds if kind not in known]
    if (root / SOURCE_PLUGIN).is_file():
        options = documentation(root / SOURCE_PLUGIN).get("options") or {}
        offered = options.get("sources", {}).get("suboptions", {}).get("type", {}).get("choices")
        if offered != kinds:
            complaints.append(f"{SOURCE_PLUGIN}: offers the types {offered}, and {SOURCES} has {kinds}")
    return complaints


def rows(root: Path, page: str) -> list[str]:
    path = root / page
    return [line for line in text(path).splitlines() if line.startswith("|")] if path.is_file() else []


def pages_that_lack_names(root: Path) -> list[str]:
    """Pages whose tables name one driver of a port name all of them; the reference has each driver and each option."""
    complaints = []
    for port in lists(root):
        if not port.option:
            complaints += drivers_page(root, port, {driver: (module,) for driver, module in port.drivers.items()}, "")
            continue
        complaints += drivers_page(root, port, port.drivers, "gpufleet_")
        named = " ".join(rows(root, VARIABLES))
        for option in (port.option, *port.options):
            if f"`gpufleet_{option}`" not in named:
                complaints.append(f"{VARIABLES}: no row for gpufleet_{option}")
        complaints += [fault for path in files(root) if path.suffix == ".md" for fault in short_rows(root, path, port)]
    return complaints


def short_rows(root: Path, path: Path, port: Port) -> list[str]:
    """Rows about the variable that names the driver, and that name some drivers but not all."""
    complaints = []
    shown = path.relative_to(root).as_posix()
    for row in rows(root, shown):
        named = set(re.findall(r"`([^`]+)`", row))
        lost = set(port.drivers) - named
        if f"gpufleet_{port.option}" in named and len(lost) < len(port.drivers) and lost:
            complaints.append(f"{shown}: the row of gpufleet_{port.option} lacks {', '.join(sorted(lost))}")
    return complaints


def readme_that_lacks_names(root: Path) -> list[str]:
    """The table of what is supported names each driver, in plain words."""
    named = {row.split("|")[1].strip().lower(): row.lower() for row in rows(root, README)}
    return [
        f"{README}: the row of {title} lacks {driver}"
        for port in lists(root)
        for title in [f"{port.port.strip('_')}s"]
        for driver in port.drivers
        if driver.replace("_", " ") not in named.get(title, "")
    ]


def gates_without_a_part(root: Path) -> list[str]:
    """The page on gates has a part for each, and where it lists some it lists all."""
    complaints = []
    for port in lists(root):
        modules = {} if port.option else {str(module): driver for driver, module in port.drivers.items()}
        page = text(root / GATES_PAGE) if modules and (root / GATES_PAGE).is_file() else ""
        listed = [set(re.findall(r"`([^`]+)`", part)) & set(modules) for part in re.split(r"\n\n|\n(?=\|)", page)]
        short = set().union(*(set(modules) - found for found in listed if len(found) > 1))
        for module, driver in modules.items():
            if f"## {module}\n" not in page:
                complaints.append(f"{GATES_PAGE}: no part on the gate {driver}, ## {module}")
            if module in short:
                complaints.append(f"{GATES_PAGE}: what lists gates lacks {module}, the gate {driver}")
    return complaints


def drivers_page(root: Path, port: Port, drivers: Mapping[str, Any], prefix: str) -> list[str]:
    """Below the heading of the port, a row for each driver, which names what it takes and nothing else of the port."""
    heading = f"## {port.port.strip('_')}"
    path = root / DRIVERS_PAGE
    part = text(path).partition(f"{heading}\n")[2].partition("\n## ")[0] if path.is_file() else ""
    table = {row.split("`")[1]: set(row.split("`")[3::2]) for row in part.splitlines() if row.startswith("| `")}
    complaints = [
        f"{DRIVERS_PAGE}, {heading}: {name} is no driver of {port.file}" for name in sorted(set(table) - set(drivers))
    ]
    for driver, taken in drivers.items():
        if driver not in table:
            complaints.append(f"{DRIVERS_PAGE}, {heading}: no row for {driver}")
            continue
        wanted, named = {prefix + name for name in taken}, {word for word in table[driver] if word.startswith(prefix)}
        if wanted != named:
            complaints.append(f"{DRIVERS_PAGE}, {heading}: the row of {driver} names not just {', '.join(taken)}")
    return complaints


#: What roles and playbooks take, as a look at settings knows it.
KNOWN_NAMES = "plugins/plugin_utils/_known_names.py"
_GIVEN = re.compile(r"-e (?:'\{\"|\{\"|)?(\w+)(?==|\": )|[{,] ?\"(\w+)\": ")
#: The entry point of a role that lists what it reads of a host, see role_variables.py.
OF_THE_HOST = "host_variables"
#: A role of the project's own rack is no part of a site's settings.
_OF_NO_SITE = ("virtual_rack",)


def options_of_roles(root: Path) -> dict[str, dict[str, Any]]:
    """Role -> its options, as its argument specs have them: of what form each is, and nothing else."""
    found: dict[str, dict[str, Any]] = {}
    for path in under(root, "roles", suffix="argument_specs.yml"):
        role = path.relative_to(root).parts[1]
        for entry, content in (yaml.safe_load(text(path)).get("argument_specs") or {}).items():
            if entry == OF_THE_HOST:
                continue
            for name, option in (content.get("options") or {}).items() if role not in _OF_NO_SITE else ():
                form = {key: option[key] for key in ("type", "elements", "choices") if key in option}
                found.setdefault(role, {})[name] = form
    return found


def options_of_playbooks(root: Path) -> dict[str, tuple[str, ...]]:
    """Playbook -> what a person may give it: what its head shows with -e, and what its plays set to begin with."""
    found = {}
    for path in under(root, "playbooks", suffix=".yml"):
        head = "\n".join(line for line in text(path).splitlines() if line.startswith("#"))
        names = {name for pair in _GIVEN.findall(head) for name in pair if name}
        for play in yaml.safe_load(text(path)) or []:
            said = (play.get("vars") or {}).items() if isinstance(play, dict) else ()
            names |= {name for name, value in said if "{{" not in str(value)}
        own = {name for name in names if not name.startswith(("gpufleet_", "ansible_", *_OF_NO_SITE))}
        if own and path.parent == root / "playbooks":
            found[path.stem] = tuple(sorted(own))
    return found


def artifacts_of_playbooks(root: Path) -> set[str]:
    """What the reports of playbooks leave for other jobs, each called after its title; and what plans of waves do."""
    told = "".join(text(path) for path in under(root, "playbooks", suffix=".yml"))
    titles = re.findall(r"^ +report: true\n(?: +\w+: .*\n)*? +title: (.+)$", told, re.M)
    of_plans = {"gpufleet_waves"} if "gpufleet.baremetal.fleet_plan:" in told else set()
    return of_plans | {"gpufleet_" + re.sub(r"[^a-z0-9]+", "_", title.lower()) for title in titles}


def settings_unheard_of(root: Path) -> list[str]:
    """A variable that a role or a playbook takes, and a look at settings does not know, would be told as misspelt."""
    path = root / KNOWN_NAMES
    said = constants(tree_of(path)) if path.is_file() else {}
    complaints = []
    for name, taken in (("ROLES", options_of_roles(root)), ("PLAYBOOKS", options_of_playbooks(root))):
        known = said.get(name, {})
        for owner in sorted(set(taken) | set(known)):
            if taken.get(owner) != known.get(owner):
                complaints.append(
                    f"{KNOWN_NAMES}: {name}, {owner}: has {known.get(owner)}, and it takes {taken.get(owner)}"
                )
    artifacts = artifacts_of_playbooks(root)
    if artifacts != set(said.get("ARTIFACTS", ())):
        complaints.append(f"{KNOWN_NAMES}: ARTIFACTS: the reports of playbooks leave {', '.join(sorted(artifacts))}")
    page = text(root / VARIABLES) if (root / VARIABLES).is_file() else ""
    lost = [name for name in said.get("OF_A_RUN", ()) if name not in page]
    return complaints + [f"{VARIABLES}: nothing on {name}" for name in lost]
