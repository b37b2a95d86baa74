# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads a site's YAML file and holds it against its schema; what is wrong is told with file, line and key.

PRIVATE to the collection. On the controller: nodes have neither PyYAML nor jsonschema.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Optional, Protocol

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, MissingLibrary
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut

try:
    import yaml
except ImportError:
    HAS_YAML = False
else:
    HAS_YAML = True
    #: Each gate of each host reads the profile: in C a tenth of 13 ms.
    _LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

try:
    import jsonschema
except ImportError:
    HAS_JSONSCHEMA = False
else:
    HAS_JSONSCHEMA = True


class Kept(Protocol):
    """Whoever knows what files have been found right before, by the digest of a file and its schema."""

    def get(self, digest: str) -> Optional[dict[str, Any]]: ...

    def put(self, digest: str, data: Mapping[str, Any]) -> None: ...


def read_checked(path: Path, schema: Path, *, what: str, page: str, kept: Optional[Kept] = None) -> dict[str, Any]:
    """The file's mapping.

    :param what: what the file is, with its article. page: where a person reads how it looks.
    :param kept: what was found right before, and is not parsed and checked again.
    :raises ConfigError: naming file, line and key.
    """
    text = text_of(path, what)
    if kept is None:
        return _checked(text, path, schema, what, page)
    digest = hashlib.sha256(schema.read_bytes() + b"\0" + text.encode()).hexdigest()
    known = kept.get(digest)
    if known is None:
        known = _checked(text, path, schema, what, page)
        kept.put(digest, known)
    return known


def text_of(path: Path, what: str) -> str:
    """:raises ConfigError: where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError(f"{what} cannot be read: {exc}", address=str(path)) from exc


def _checked(text: str, path: Path, schema: Path, what: str, page: str) -> dict[str, Any]:
    tree, data = mapping_of(text, path, what, page)
    errors = problems(data, schema, what)
    if errors:
        raise ConfigError("; ".join(f"{path}:{_line(tree, e.absolute_path)}: {in_words(e, what)}" for e in errors[:5]))
    return data


def mapping_of(text: str, path: Path, what: str, page: str) -> tuple[Any, dict[str, Any]]:
    """The tree, which knows its lines, and the mapping that it is.

    :raises ConfigError: where it is none, or says a key twice.
    """
    if not HAS_YAML:
        raise MissingLibrary("PyYAML", why=f"{what} is YAML")
    try:
        tree, data = _parsed(text, path)
    except (yaml.YAMLError, ValueError) as exc:  # the latter of a day that is none, written without quotes
        mark = getattr(exc, "problem_mark", None)
        told = getattr(exc, "problem", None) or getattr(exc, "reason", "") or str(exc)
        raise ConfigError(f"{path}:{mark.line + 1 if mark else 1}: no valid YAML: {told}") from exc
    if tree is None or not isinstance(data, dict):
        raise ConfigError(f"{path}:1: {what} is a mapping", do=f"{page} shows how it looks")
    # Dates are the only YAML type that JSON lacks; as text they mean the same.
    return tree, json.loads(json.dumps(data, default=str))


def _parsed(text: str, path: Path) -> tuple[Any, Any]:
    """The tree, which knows its lines, and what it says. What is none is told in the words of the slower parser, which
    knows the line at a file's end as well."""
    try:
        return _read_by(_LOADER, text, path)
    except yaml.YAMLError:
        return _read_by(yaml.SafeLoader, text, path)


def _read_by(kind: Any, text: str, path: Path) -> tuple[Any, Any]:
    """Read once for both. Keys are counted before that: what is made of the tree puts merged ones (<<) into it, beside
    those that take their place."""
    loader = kind(text)
    try:
        tree = loader.get_single_node()
        _no_key_twice(tree, path)
        return tree, None if tree is None else loader.construct_document(tree)
    finally:
        loader.dispose()


def problems(data: Any, schema: Path, what: str) -> list[Any]:
    """What the schema complains about, in the order of places.

    :raises MissingLibrary: without jsonschema.
    """
    if not HAS_JSONSCHEMA:
        raise MissingLibrary("jsonschema", why=f"{what} is checked against its schema")
    whole = json.loads(schema.read_text(encoding="utf-8"))
    found = list(jsonschema.Draft202012Validator(whole).iter_errors(data))
    telling = [error for error in found if not _misleads(error, whole)] or found
    return sorted(telling, key=lambda error: list(map(str, error.absolute_path)))


def _misleads(error: Any, whole: Mapping[str, Any]) -> bool:
    """Where one key is missing or wrong, the schema calls those beside it unexpected, although it knows them."""
    return error.validator == "unevaluatedProperties" and set(error.instance) <= _keys(error.schema, whole)


def _keys(schema: Any, whole: Mapping[str, Any]) -> set[str]:
    """The keys that a part of a schema knows, wherever in it they stand."""
    if not isinstance(schema, Mapping):
        return set()
    found = set(schema.get("properties") or {})
    name = str(schema.get("$ref") or "").rpartition("/")[2]
    inner = [*schema.get("allOf", []), schema.get("then"), schema.get("else"), whole.get("$defs", {}).get(name)]
    return found.union(*(_keys(one, whole) for one in inner))


def in_words(error: Any, what: str) -> str:
    place = ".".join(str(part) for part in error.absolute_path) or what.rpartition(" ")[2]
    return f"{place}: {cut(error.message, 200)}"


def line_of(path: Path, place: Iterable[Any]) -> int:
    """The line at which a key stands, in a file that was read before."""
    return _line(yaml.compose(path.read_text(encoding="utf-8"), Loader=_LOADER), place)


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
            if isinstance(key, yaml.ScalarNode):  # no other kind is taken for a key
                if key.value in seen:
                    raise ConfigError(f"{path}:{key.start_mark.line + 1}: the key {key.value} stands twice")
                seen.add(key.value)
            _no_key_twice(value, path)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _no_key_twice(item, path)
