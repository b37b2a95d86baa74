# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file of a site's profile: where it lies, who else knows its GPUs, and how it is written. PRIVATE."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _private as private
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, MissingLibrary, NotProven
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import profiles
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.over_shipped import MARK
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.shown import named
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import json_digest
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._in_force import OWN_PROFILES, PROFILE_SCHEMA

try:
    import yaml
except ImportError:
    HAS_YAML = False
else:
    HAS_YAML = True

_SUFFIXES = (".yaml", ".yml")
_MODE = 0o644


def folders(params: Mapping[str, Any]) -> list[Path]:
    """Where gates look, in their order: the task's own, the environment's, the collection's."""
    return profiles.search_path(params.get("profile_path") or [], OWN_PROFILES)


def folder_of(params: Mapping[str, Any]) -> Path:
    """Where the site has its profiles.

    :raises ConfigError: where it has no such folder, or none is named. An update replaces the collection's own.
    """
    of_the_site = [one for one in folders(params) if one != OWN_PROFILES]
    named_in = [Path(params["dest"])] if params.get("dest") else of_the_site[:1]
    if not named_in:
        raise ConfigError(
            "nobody says where the site has its profiles",
            do=f"give dest, or name that folder in profile_path or in the variable {profiles.VARIABLE}",
        )
    if not named_in[0].is_dir():
        raise ConfigError("the folder of the site's profiles is none", address=str(named_in[0]), do="make it")
    if named_in[0].resolve() == OWN_PROFILES.resolve():
        raise ConfigError(
            "an update of the collection replaces what is written there",
            address=str(named_in[0]),
            do="give a folder of the site's own as dest",
        )
    return named_in[0]


def file_of(folder: Path, sku: str) -> Path:
    """The file of a SKU there, whether it is there already or not."""
    places = [folder / f"{sku}{suffix}" for suffix in _SUFFIXES]
    return next((place for place in places if place.is_file()), places[0])


def whose(device: str, places: Iterable[Path], besides: Path) -> list[str]:
    """The profiles that know this GPU, each with its file.

    :raises ConfigError: for a profile that cannot be read: nobody knows what it is about.
    """
    all_of = list(dict.fromkeys(places))
    files = [path for folder in all_of for path in sorted(folder.glob("*")) if path.suffix in _SUFFIXES]
    wholes = [path for path in files if not path.stem.endswith(MARK)]
    read = [profiles.read(path, path.stem, PROFILE_SCHEMA) for path in wholes if path != besides]
    changed = {path.stem for path in wholes if profiles.over(path.stem, all_of, PROFILE_SCHEMA)} - {besides.stem}
    read += [profiles.load(sku, all_of, PROFILE_SCHEMA) for sku in sorted(changed)]
    return [f"{one.sku} ({one.path})" for one in read if device in one.data["gpu"]["device_ids"]["value"]]


def in_force(path: Path, sku: str, places: Sequence[Path]) -> str:
    """What keeps the gates from using the file as it stands; empty where nothing does."""
    if path.parent.resolve() not in [place.resolve() for place in places]:
        return f"no gate looks in {path.parent}: name it in profile_path or in the variable {profiles.VARIABLE}"
    first = next(place for place in places if file_of(place, sku).is_file() or place.resolve() == path.parent.resolve())
    other = file_of(first, sku)
    if first.resolve() != path.parent.resolve():
        return f"the gates use {other}, which comes before it"
    over = profiles.over(sku, places, PROFILE_SCHEMA)
    return f"the gates use it with what {over} says over it" if over else ""


def text_of(profile: Mapping[str, Any], nodes: Iterable[str], date: str) -> str:
    """As a person would write it.

    :raises MissingLibrary: without PyYAML.
    """
    if not HAS_YAML:
        raise MissingLibrary("PyYAML", why="a profile is YAML")
    plain = json.loads(json.dumps(profile))  # the words of a task are of a type of Ansible's own
    body: str = yaml.dump(
        plain, Dumper=_dumper(), sort_keys=False, width=120, allow_unicode=True, default_flow_style=False
    )
    return f"---\n# Made by gate_profile on {date}, of what {named(nodes)} showed.\n{body}"


def _dumper() -> Any:
    class Indented(yaml.SafeDumper):
        """Lists stand below their key, and nothing is said by a reference."""

        def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
            return super().increase_indent(flow, False)

        def ignore_aliases(self, data: Any) -> bool:
            return True

    return Indented


def write(path: Path, text: str, profile: Mapping[str, Any]) -> None:
    """The whole file or none of it, with the mode that it had; read back as the gates will read it.

    :raises ConfigError: where it cannot be written. :raises NotProven: where another one stands there afterwards.
    """
    try:
        mode = stat.S_IMODE(os.stat(path).st_mode) if path.exists() else _MODE
        private.write(str(path), text, mode)
    except OSError as exc:
        raise ConfigError(f"the profile cannot be written: {exc.strerror}", address=str(path)) from exc
    if profiles.read(path, str(profile["sku"]), PROFILE_SCHEMA).digest != json_digest(profile):
        raise NotProven("the profile was written, and another one stands there", address=str(path), do="run again")
