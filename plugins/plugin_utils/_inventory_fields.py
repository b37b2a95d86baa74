# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Host variables out of a source's own record, by JMESPath expressions of the site. PRIVATE to the collection.

An expression picks; it decides nothing. What it picks for a variable of the roles is checked like the cell of a list,
and whatever it is, it is text or data of the source, and never a template.
"""

from __future__ import annotations

import keyword
import re
import traceback
from collections.abc import Mapping, Sequence
from typing import Any

from ansible.vars.reserved import get_reserved_names
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, MissingLibrary
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _inventory_cells as cells
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _inventory_record as identity
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_columns import COLUMNS, is_secret
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_record import Record

_MISSING = ""
try:
    import jmespath
    from jmespath.exceptions import JMESPathError
except ImportError:
    _MISSING = traceback.format_exc()

#: Host variables that an expression may fill, each checked like the column of a list that fills it.
CHECKED: dict[str, str] = {
    variable: column
    for column, (variable, _aliases) in COLUMNS.items()
    if variable.startswith(("gpufleet_", "ansible_")) and column != cells.PASSWORD
}
#: Names of variables that mean something to Ansible or to the roles, and are free for nobody else.
_RESERVED = ("gpufleet_", "ansible_")
#: What ansible-core sets itself, or its templates read as a word of their own; nobody's variable can take their place.
_TAKEN = frozenset(get_reserved_names()) | frozenset(
    {
        "hostvars", "groups", "group_names", "inventory_hostname", "inventory_hostname_short", "inventory_dir",
        "inventory_file", "playbook_dir", "play_hosts", "omit", "vars", "environment", "role_name", "role_names",
        "role_path", "role_uuid", "parent_role_names", "parent_role_paths", "dependent_role_names",
        "play_role_names", "item", "loop", "lookup", "query", "q", "now", "undef", "self", "caller", "varargs",
        "kwargs", "super", "true", "false", "none",
    }
)  # fmt: skip
#: Variables whose text may be what a board says that has none.
_MAY_BE_NOTHING = {"gpufleet_serial": identity.serial, "gpufleet_system_uuid": identity.uuid}
_NO_WORD = re.compile(r"[^a-z0-9]+")
_OWN_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")


def without_secrets(value: Any) -> Any:
    """What a provisioner tells, less what its keys say is secret: the login of a BMC may stand there in clear, and no
    expression may pick it."""
    if isinstance(value, dict):
        return {key: without_secrets(one) for key, one in value.items() if not is_secret(_spelled(key))}
    return [without_secrets(one) for one in value] if isinstance(value, list) else value


def _spelled(key: Any) -> str:
    """As columns of a list are spelled."""
    return _NO_WORD.sub("_", str(key).lower()).strip("_")


class Fields:
    """The option ``fields`` of one source, compiled."""

    OPTION = "fields"

    def __init__(self, given: Any, where: str) -> None:
        """:raises ConfigError: for an expression that is none, or a variable that no source may fill."""
        self._where = where
        if given and _MISSING:
            raise MissingLibrary("jmespath", why="the option fields needs it", cause=_MISSING)
        if given and not isinstance(given, Mapping):
            raise self._error("", "a mapping of host variables to JMESPath expressions is wanted")
        self._compiled = {str(name): self._compile(str(name), given[name]) for name in given or {}}
        self._looked = False
        self._found: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._compiled)

    def _error(self, name: str, what: str, *, place: str = "") -> ConfigError:
        return ConfigError(f"{self.OPTION}{f', {name}' if name else ''}: {what}", node=place or self._where)

    def _compile(self, name: str, expression: Any) -> Any:
        if name not in CHECKED and (name.startswith(_RESERVED) or not _OWN_NAME.match(name)):
            raise self._error(name, f"no variable that a source may fill; these are {', '.join(sorted(CHECKED))}"
                              " and names of your own")  # fmt: skip
        if name in _TAKEN or keyword.iskeyword(name):
            raise self._error(name, "a name of Ansible's own; choose another one")
        if is_secret(name):
            raise self._error(name, "a secret has no place in an inventory")
        try:
            return jmespath.compile(expression)
        except (JMESPathError, TypeError, ValueError, AttributeError) as exc:
            first = str(exc).splitlines()[0] if str(exc) else type(exc).__name__
            raise self._error(name, f"{expression!r} is no JMESPath expression: {first}") from None

    def pick(self, raw: Mapping[str, Any], place: str) -> dict[str, Any]:
        """What the expressions find in a source's record; nothing is left out yet, and nothing is checked.

        :param place: of the record, for the message.
        """
        found = {}
        self._looked = True
        for name, compiled in self._compiled.items():
            try:
                found[name] = compiled.search(raw)
            except (JMESPathError, TypeError, ValueError, AttributeError) as exc:
                raise self._error(name, f"{compiled.expression!r} fails: {exc}", place=place) from None
        self._found.update(name for name, value in found.items() if value not in (None, "", [], {}))
        return found

    def in_vain(self) -> list[str]:
        """A line for each expression that found nothing in any record: most often a name in it is misspelt."""
        return [
            f"{self._where}: fields, {name}: {compiled.expression!r} found nothing in any of its records"
            for name, compiled in self._compiled.items()
            if self._looked and name not in self._found
        ]

    def fill(self, record: Record, picked: Mapping[str, Any]) -> Record:
        """The record with what was picked; where an expression found nothing, it stays as it was.

        :raises ConfigError: for what the variable cannot be, or where the source itself says that this is another
            machine, with the place of the record.
        """
        picked = {name: value for name, value in picked.items() if not is_nothing(name, value)}
        for name, value in picked.items():
            if value not in (None, ""):
                record.variables[name] = self._checked(name, value, record.where) if name in CHECKED else value
        self._agree(record, "gpufleet_serial", [record.serial], self._own(picked, record, "gpufleet_serial"))
        self._agree(record, "gpufleet_system_uuid", [record.system_uuid],
                    self._own(picked, record, "gpufleet_system_uuid"))  # fmt: skip
        record.serial = str(self._own(picked, record, "gpufleet_serial") or record.serial)
        record.system_uuid = str(self._own(picked, record, "gpufleet_system_uuid") or record.system_uuid)
        boot = self._own(picked, record, "gpufleet_boot_mac")
        self._agree(record, "gpufleet_boot_mac", [one for one in record.macs if one != _bmc_mac(record)], boot)
        record.macs = sorted({*record.macs, boot}) if boot else record.macs
        return record

    def _agree(self, record: Record, name: str, told: Sequence[str], picked: Any) -> None:
        """:raises ConfigError: where the source itself says that this is another machine; naming both."""
        known = {one.casefold() for one in told if one}
        if picked and known and str(picked).casefold() not in known:
            what = (
                f"{picked!r} was picked, and the source itself says {', '.join(map(repr, sorted(filter(None, told))))}"
            )
            raise self._error(name, what, place=record.where)

    @staticmethod
    def _own(picked: Mapping[str, Any], record: Record, name: str) -> Any:
        """What identifies the machine must be what its variable says."""
        return record.variables.get(name) if picked.get(name) else None

    def _checked(self, name: str, value: Any, place: str) -> Any:
        if isinstance(value, bool) or not isinstance(value, (str, int)):
            raise self._error(name, f"a text is wanted, and {cut(value, 60)!r} is none", place=place)
        text = str(value).strip()
        trouble = cells.problem(CHECKED[name], text)
        if trouble:
            raise self._error(name, trouble, place=place)
        return cells.value(CHECKED[name], text)


def _bmc_mac(record: Record) -> Any:
    """A list tells it among the MACs of a row, and it is no card that boots."""
    return record.variables.get(COLUMNS["bmc_mac"][0])


def is_nothing(name: str, value: Any) -> bool:
    """Is it what a board says that has no such thing?"""
    if name not in _MAY_BE_NOTHING or not isinstance(value, str):
        return False
    try:
        return not _MAY_BE_NOTHING[name](value)
    except ValueError:
        return False
