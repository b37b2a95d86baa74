# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Loads SKU profiles on the controller. PRIVATE to the collection.

A profile is looked for in the site's own folders first, then in the collection's. It is checked against its schema,
and an error names file and line. Nodes get the checked mapping; they have neither PyYAML nor jsonschema.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._checked_file import (
    Kept,
    in_words,
    line_of,
    problems,
    read_checked,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import json_digest

#: Folders of the site's own profiles, separated by colons.
VARIABLE = "GPUFLEET_PROFILE_PATH"
_SKU = re.compile(r"[a-z0-9][a-z0-9._-]*\Z")
_SUFFIXES = (".yaml", ".yml")
_WHAT = "a profile"


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


def load(sku: str, folders: Sequence[Path], schema: Path, kept: Optional[Kept] = None) -> Profile:
    """The profile of a SKU.

    :param kept: profiles that were found right before, and are not checked again.

    :raises ProfileMissing: naming the file to write.
    :raises ConfigError: naming file and line, when the first profile found is not valid. A broken profile of the site
        never falls back to ours.
    """
    named(sku)
    for folder in folders:
        for suffix in _SUFFIXES:
            path = folder / f"{sku}{suffix}"
            if path.is_file():
                return read(path, sku, schema, kept)
    near = _near(sku, folders)
    raise ProfileMissing(
        f"the SKU {sku} has no profile",
        seen="looked in " + ", ".join(str(folder) for folder in folders),
        do=f"{near}write {_to_write(sku, folders)}; docs/reference/profiles.md shows how, and the playbook"
        " gate_profile makes one from nodes that are known to be good",
    )


def named(sku: str) -> str:
    """The SKU, which is the name of a file.

    :raises ConfigError: where it cannot be one.
    """
    if not _SKU.match(sku):
        raise ConfigError(
            f"the SKU {sku!r} is no name of a profile",
            wanted="lower-case letters, digits, dot, dash and underscore, for instance h100-sxm-8",
            do="correct gpufleet_sku",
        )
    return sku


def _near(sku: str, folders: Sequence[Path]) -> str:
    """A slip of the keys is likelier than a machine that nobody knows."""
    known = {
        path.stem for folder in folders if folder.is_dir() for path in folder.iterdir() if path.suffix in _SUFFIXES
    }
    near = difflib.get_close_matches(sku, sorted(known), 1, 0.8)
    return f"did you mean {near[0]}? Else " if near else ""


def _to_write(sku: str, folders: Sequence[Path]) -> str:
    """The file that is missing: in the first folder of the site, for the collection's own is replaced by updates."""
    name = sku + _SUFFIXES[0]
    if len(folders) > 1:
        return str(folders[0] / name)
    return f"{name} in a folder of your own, and name that folder in the option profile_path or in {VARIABLE}"


def read(path: Path, sku: str, schema: Path, kept: Optional[Kept] = None) -> Profile:
    """One profile file, checked."""
    data = read_checked(path, schema, what=_WHAT, page="docs/reference/profiles.md", kept=kept)
    if data["sku"] != sku:
        raise ConfigError(f"{path}:{line_of(path, ['sku'])}: the profile is of {data['sku']}", wanted=f"sku: {sku}")
    if path.parent != schema.parent.parent / "profiles":
        _dated(path, data)
    return Profile(sku, str(path), json_digest(data), data)


def _dated(path: Path, data: Any) -> None:
    """A figure of the site's was not measured on a day that is none, or is yet to come: whoever copied it made that up.

    A day more is taken, since it begins elsewhere before it does here.
    """
    last = date.today() + timedelta(days=1)
    for place, told in _dates(data, ()):
        try:
            wrong = date.fromisoformat(told) > last
        except ValueError:
            wrong = True
        if wrong:
            where = ".".join(map(str, place))
            raise ConfigError(
                f"{path}:{line_of(path, place)}: {where} is no day until today", wanted="YYYY-MM-DD", seen=told
            )


def _dates(value: Any, place: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], str]]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        if key == "date" and isinstance(inner, str):
            yield (*place, key), inner
        else:
            yield from _dates(inner, (*place, key))


def check(data: Any, schema: Path) -> None:
    """A profile that the task itself wrote down.

    :raises ConfigError: naming the place in it.
    """
    errors = problems(data, schema, _WHAT)
    if errors:
        told = "; ".join(in_words(error, _WHAT) for error in errors[:5])
        raise ConfigError(f"the option profile is no valid profile: {told}")
