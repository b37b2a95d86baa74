# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Loads SKU profiles on the controller. PRIVATE to the collection.

A profile is looked for in the site's own folders first, then in the collection's. It is checked against its schema,
and an error names file and line. Nodes get the checked mapping; they have neither PyYAML nor jsonschema.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, MissingLibrary
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import json_digest

try:
    import yaml
except ImportError:
    HAS_YAML = False
else:
    HAS_YAML = True

try:
    import jsonschema
except ImportError:
    HAS_JSONSCHEMA = False
else:
    HAS_JSONSCHEMA = True

#: Folders of the site's own profiles, separated by colons.
VARIABLE = "GPUFLEET_PROFILE_PATH"
_SKU = re.compile(r"[a-z0-9][a-z0-9._-]*\Z")
_SUFFIXES = (".yaml", ".yml")


class ProfileMissing(ConfigError):
    """No profile of this SKU in any folder."""

    kind = "profile_missing"


@dataclass(frozen=True)
class Profile:
    sku: str
    path: str
    digest: str
    data: dict[str, Any]


def search_path(given: Iterable[str], own: Path) -> list[Path]:
    """The folders in their order: those of the task, of the environment, of the collection."""
    environment = [part for part in os.environ.get(VARIABLE, "").split(":") if part]
    return [Path(folder).expanduser() for folder in [*given, *environment]] + [own]


def load(sku: str, folders: Sequence[Path], schema: Path) -> Profile:
    """The profile of a SKU.

    :raises ProfileMissing: naming the file to write.
    :raises ConfigError: naming file and line, when the first profile found is not valid. A broken profile of the site
        never falls back to ours.
    """
    if not _SKU.match(sku):
        raise ConfigError(
            f"the SKU {sku!r} is no name of a profile",
            wanted="lower-case letters, digits, dot, dash and underscore, for instance h100-sxm-8",
            do="correct gpufleet_sku",
        )
    for folder in folders:
        for suffix in _SUFFIXES:
            path = folder / f"{sku}{suffix}"
            if path.is_file():
                return read(path, sku, schema)
    raise ProfileMissing(
        f"the SKU {sku} has no profile",
        seen="looked in " + ", ".join(str(folder) for folder in folders),
        do=f"write {_to_write(sku, folders)}; docs/reference/profiles.md shows how",
    )


def _to_write(sku: str, folders: Sequence[Path]) -> str:
    """The file that is missing: in the first folder of the site, for the collection's own is replaced by updates."""
    name = sku + _SUFFIXES[0]
    if len(folders) > 1:
        return str(folders[0] / name)
    return f"{name} in a folder of your own, and name that folder in the option profile_path or in {VARIABLE}"


def read(path: Path, sku: str, schema: Path) -> Profile:
    """One profile file, checked."""
    if not HAS_YAML:
        raise MissingLibrary("PyYAML", why="SKU profiles are YAML")
    if not HAS_JSONSCHEMA:
        raise MissingLibrary("jsonschema", why="SKU profiles are checked against their schema")
    try:
        text = path.read_text(encoding="utf-8")
        tree = yaml.compose(text, Loader=yaml.SafeLoader)
        data = yaml.safe_load(text)
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError(f"the profile cannot be read: {exc}", address=str(path)) from exc
    except yaml.MarkedYAMLError as exc:
        line = exc.problem_mark.line + 1 if exc.problem_mark else 1
        raise ConfigError(f"{path}:{line}: no valid YAML: {exc.problem}") from exc
    if tree is None or not isinstance(data, dict):
        raise ConfigError(f"{path}:1: a profile is a mapping", do="docs/reference/profiles.md shows how it looks")
    _no_key_twice(tree, path)
    # Dates are the only YAML type that JSON lacks; as text they mean the same.
    data = json.loads(json.dumps(data, default=str))
    checker = jsonschema.Draft202012Validator(json.loads(schema.read_text(encoding="utf-8")))
    errors = sorted(checker.iter_errors(data), key=lambda error: list(map(str, error.absolute_path)))
    if errors:
        raise ConfigError("; ".join(f"{path}:{_line(tree, e.absolute_path)}: {_words(e)}" for e in errors[:5]))
    if data["sku"] != sku:
        raise ConfigError(f"{path}:{_line(tree, ['sku'])}: the profile is of {data['sku']}", wanted=f"sku: {sku}")
    return Profile(sku, str(path), json_digest(data), data)


def check(data: Any, schema: Path) -> None:
    """A profile that the task itself wrote down.

    :raises ConfigError: naming the place in it.
    """
    if not HAS_JSONSCHEMA:
        raise MissingLibrary("jsonschema", why="SKU profiles are checked against their schema")
    checker = jsonschema.Draft202012Validator(json.loads(schema.read_text(encoding="utf-8")))
    errors = list(checker.iter_errors(data))
    if errors:
        raise ConfigError("the option profile is no valid profile: " + "; ".join(_words(error) for error in errors[:5]))


def _words(error: Any) -> str:
    place = ".".join(str(part) for part in error.absolute_path) or "profile"
    return f"{place}: {cut(error.message, 200)}"


def _line(node: Any, path: Iterable[Any]) -> int:
    """The line of what the schema complains about, or of the nearest thing around it."""
    line = node.start_mark.line + 1
    for part in path:
        if isinstance(node, yaml.MappingNode):
            pairs = {key.value: (key, value) for key, value in node.value}
            if part not in pairs:
                break
            line, node = pairs[part][0].start_mark.line + 1, pairs[part][1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = node.start_mark.line + 1
        else:
            break
    return int(line)


def _no_key_twice(node: Any, path: Path) -> None:
    """YAML would take the last of two; in a file of limits that is a trap."""
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if key.value in seen:
                raise ConfigError(f"{path}:{key.start_mark.line + 1}: the key {key.value} stands twice")
            seen.add(key.value)
            _no_key_twice(value, path)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _no_key_twice(item, path)
