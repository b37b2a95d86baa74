# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A few words of the site's over a whole profile, which an update still reaches. PRIVATE to the collection.

What the site's file says it says itself: a number that it changes does not keep the source and the date of ours.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._checked_file import line_of, problems
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut

#: What the name of such a file has behind the SKU.
MARK = ".site"
#: Keys by which a row is known, the first that it has.
_NAMES = ("name", "id")
#: What takes a row away.
_ABSENT = "absent"
#: What a changed figure says anew.
_OWN = ("source", "date")
#: A step of a place: how the file is walked there, and how a person calls it.
Place = tuple[tuple[Any, str], ...]


def file_of(sku: str, folders: Sequence[Path], suffixes: Sequence[str]) -> Optional[Path]:
    """The first of the site's; one that leads nowhere is one that cannot be read."""
    places = [folder / f"{sku}{MARK}{suffix}" for folder in folders for suffix in suffixes]
    return next((place for place in places if os.path.lexists(place)), None)


def digest_of(schema: Path, whole: str, text: str) -> str:
    """By what it is known that this was found right before: it holds over that profile and by that schema alone."""
    return hashlib.sha256(b"\0".join([schema.read_bytes(), b"over " + whole.encode(), text.encode()])).hexdigest()


def merged(whole: Mapping[str, Any], said: Mapping[str, Any], path: Path, schema: Path, what: str) -> dict[str, Any]:
    """The profile with the words of the site's file over it.

    :raises ConfigError: naming that file, its line and the place.
    """
    file = _File(path)
    data = file.mapping(whole, said, ())
    errors = problems(data, schema, what)
    if errors:
        told = [(file.at(_place_in(said, data, error.absolute_path)), error.message) for error in errors[:5]]
        raise ConfigError("; ".join(f"{at}: {cut(message, 200)}" for at, message in told))
    return data


@dataclass(frozen=True)
class _File:
    path: Path

    def at(self, place: Place) -> str:
        called = ".".join(name for _step, name in place) or "profile"
        return f"{self.path}:{line_of(self.path, [step for step, _name in place])}: {called}"

    def mapping(self, before: Mapping[str, Any], said: Mapping[str, Any], place: Place) -> dict[str, Any]:
        after = dict(before)
        for key, value in said.items():
            here = (*place, (key, key))
            if value is not None:
                after[key] = self._value(before.get(key), value, here)
            elif after.pop(key, None) is None:
                raise ConfigError(f"{self.at(here)}: there is none that could be taken away")
        self._demand_own_source(before, after, said, place)
        return after

    def _value(self, before: Any, said: Any, place: Place) -> Any:
        if isinstance(before, Mapping) and isinstance(said, Mapping):
            return self.mapping(before, said, place)
        if _are_rows(before) and _are_rows(said):
            return self._rows(before, said, place)
        return said

    def _rows(self, before: Sequence[Any], said: Sequence[Any], place: Place) -> list[Any]:
        after = dict(enumerate(before))
        for number, row in enumerate(said):
            here = (*place, (number, _name(row)))
            known = self._known(before, said, row, here)
            if _ABSENT in row:
                del after[self._to_go(known, row, here)]
            elif known is None:
                after[len(before) + number] = row
            else:
                after[known] = self.mapping(before[known], row, here)
        return list(after.values())

    def _known(self, before: Sequence[Any], said: Sequence[Any], row: Mapping[str, Any], here: Place) -> Optional[int]:
        """Which row of the profile this one is about."""
        same = [at for at, one in enumerate(before) if _name(one) == _name(row)]
        if len(same) > 1 or [_name(one) for one in said].count(_name(row)) > 1:
            raise ConfigError(f"{self.at(here)}: two rows are called so, and nobody knows which one is meant")
        return same[0] if same else None

    def _to_go(self, known: Optional[int], row: Mapping[str, Any], here: Place) -> int:
        if known is None:
            raise ConfigError(f"{self.at(here)}: there is none that could be taken away")
        if row[_ABSENT] is not True or len(row) > 2:
            raise ConfigError(f"{self.at(here)}: a row is taken away by its name and absent: true, and says no more")
        return known

    def _demand_own_source(
        self, before: Mapping[str, Any], after: Mapping[str, Any], said: Mapping[str, Any], place: Place
    ) -> None:
        """:raises ConfigError: where what we have said of our number would stand beside the site's."""
        lacking = [key for key in _OWN if said.get(key) is None]
        if "source" in before and lacking and _itself(before) != _itself(after):
            raise ConfigError(
                f"{self.at(place)}: it says another thing than the profile below it, and not its own {lacking[0]}",
                wanted=" and ".join(_OWN),
                do="write where the site has it from, and of which day",
            )


def _itself(value: Any) -> Any:
    """What a figure says itself: of a part that has a source of its own, no more than that it is there."""
    if isinstance(value, Mapping):
        return {key: "source" in one or _itself(one) if _mapping(one) else _itself(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_name(one) if _mapping(one) and "source" in one else _itself(one) for one in value]
    return value


def _mapping(value: Any) -> bool:
    return isinstance(value, Mapping)


def _are_rows(value: Any) -> bool:
    """Rows with names; any other list is one value."""
    return isinstance(value, list) and bool(value) and all(_mapping(one) and _name(one) for one in value)


def _name(row: Mapping[str, Any]) -> str:
    return str(next((row[key] for key in _NAMES if key in row), ""))


def _place_in(said: Any, data: Any, place: Sequence[Any]) -> Place:
    """Where in the site's file that stands of which the schema complains in the merged profile, as far as it does."""
    found: list[tuple[Any, str]] = []
    for part in place:
        data = data[part]
        step, name = (part, str(part)) if isinstance(part, str) else _row_in(said, data, part)
        found.append((step, name))
        said = _inner(said, step)
    return tuple(found)


def _row_in(said: Any, row: Any, number: int) -> tuple[Any, str]:
    """A row stands elsewhere in the site's file than in the profile, under the same name."""
    if not _mapping(row) or not _name(row):
        return number, str(number)
    names = [_name(one) for one in said] if _are_rows(said) else []
    return (names.index(_name(row)) if _name(row) in names else None), _name(row)


def _inner(said: Any, step: Any) -> Any:
    try:
        return said[step]
    except (KeyError, IndexError, TypeError):
        return None
