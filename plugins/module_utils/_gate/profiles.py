# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Loads SKU profiles on the controller. PRIVATE to the collection.

A profile is looked for in the site's own folders first, then in the collection's. Over it lies what the site's file
SKU.site.yaml says, where there is one (over_shipped.py). Either is checked, and an error names file and line. Nodes get
the checked mapping; they have neither PyYAML nor jsonschema.
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
    mapping_of,
    problems,
    read_checked,
    text_of,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.over_shipped import (
    MARK,
    digest_of,
    file_of,
    merged,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import json_digest

#: Folders of the site's own profiles, separated by colons.
VARIABLE = "GPUFLEET_PROFILE_PATH"
_SKU = re.compile(r"[a-z0-9][a-z0-9._-]*\Z")
_SUFFIXES = (".yaml", ".yml")
_WHAT = "a profile"
_PAGE = "docs/reference/profiles.md"


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
    """The profile of a SKU: the first that is whole, and over it the first file of the site's that says what differs.

    :param kept: profiles that were found right before, and are not checked again.

    :raises ProfileMissing: naming the file to write.
    :raises ConfigError: naming file and line, when the first found of either is not valid. A broken file of the site
        never falls back to ours.
    """
    named(sku)
    for folder in folders:
        for suffix in _SUFFIXES:
            path = folder / f"{sku}{suffix}"
            if path.is_file():
                return _with_the_sites(read(path, sku, schema, kept), folders, schema, kept)
    near, alone = _near(sku, folders), over(sku, folders, schema)
    lies = f"; {alone} is no whole profile, and lies over one" if alone else ""
    raise ProfileMissing(
        f"the SKU {sku} has no profile",
        seen="looked in " + ", ".join(str(folder) for folder in folders) + lies,
        do=f"{near}write {_to_write(sku, folders)}; docs/reference/profiles.md shows how, and the playbook"
        " gate_profile makes one from nodes that are known to be good",
    )


def named(sku: str) -> str:
    """The SKU, which is the name of a file.

    :raises ConfigError: where it cannot be one.
    """
    if not _SKU.match(sku) or sku.endswith(MARK):
        raise ConfigError(
            f"the SKU {sku!r} is no name of a profile",
            wanted="lower-case letters, digits, dot, dash and underscore, not ending in .site, for instance h100-sxm-8",
            do="correct gpufleet_sku",
        )
    return sku


def _near(sku: str, folders: Sequence[Path]) -> str:
    """A slip of the keys is likelier than a machine that nobody knows."""
    files = [path for folder in folders if folder.is_dir() for path in folder.iterdir() if path.suffix in _SUFFIXES]
    known = {path.stem for path in files if not path.stem.endswith(MARK)}
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
    data = read_checked(path, schema, what=_WHAT, page=_PAGE, kept=kept)
    if data["sku"] != sku:
        raise ConfigError(f"{path}:{line_of(path, ['sku'])}: the profile is of {data['sku']}", wanted=f"sku: {sku}")
    if path.parent != _shipped(schema):
        _dated(path, data)
    return Profile(sku, str(path), json_digest(data), data)


def _shipped(schema: Path) -> Path:
    """The folder of the profiles that come with a schema."""
    return schema.parent.parent / "profiles"


def over(sku: str, folders: Sequence[Path], schema: Path) -> Optional[Path]:
    """The site's file that lies over the whole profile. An update replaces the collection's folder: none is there."""
    of_the_site = [folder for folder in folders if folder.resolve() != _shipped(schema).resolve()]
    return file_of(sku, of_the_site, _SUFFIXES)


def _with_the_sites(whole: Profile, folders: Sequence[Path], schema: Path, kept: Optional[Kept]) -> Profile:
    site = over(whole.sku, folders, schema)
    if site is None:
        return whole
    text = text_of(site, _WHAT)
    digest = digest_of(schema, whole.digest, text)
    data = None if kept is None else kept.get(digest)
    if data is None:
        data = _merged(whole, text, site, schema)
        if kept is not None:
            kept.put(digest, data)
    return Profile(whole.sku, str(site), json_digest(data), data)


def _merged(whole: Profile, text: str, site: Path, schema: Path) -> dict[str, Any]:
    _tree, said = mapping_of(text, site, _WHAT, _PAGE)
    of = said.get("sku", whole.sku)
    if of != whole.sku:
        raise ConfigError(f"{site}:{line_of(site, ['sku'])}: the profile is of {of}", wanted=f"sku: {whole.sku}")
    _dated(site, said)
    return merged(whole.data, said, site, schema, _WHAT)


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
