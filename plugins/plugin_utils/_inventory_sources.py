# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kinds of sources, their options, and how each is read. PRIVATE to the collection.

A new kind is one file with a function and one entry here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible.utils.display import Display
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_bcm import read_bcm
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_control import IRONIC_NAMES, NAMES, Control
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_csv import read_csv
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_fields import Fields
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_ironic import read_ironic
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_maas import read_maas
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_netbox import read_netbox
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_record import Record
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_warewulf import read_warewulf
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_xcat import read_xcat

display = Display()


def _told(fields: Fields, records: list[Record]) -> list[Record]:
    """The records, and a warning for each expression that nothing came of."""
    for line in fields.in_vain():
        display.warning(line)
    return records


def _bcm(options: Mapping[str, Any], where: str) -> list[Record]:
    fields = Fields(options.get("fields"), where)
    return _told(fields, read_bcm(options, where=where, fields=fields))


def _csv(options: Mapping[str, Any], where: str) -> list[Record]:
    if not options.get("path"):
        raise ConfigError("a source of type csv needs a path", node=where)
    refs = options.get("password_refs")
    if "password_refs" in options and not (isinstance(refs, list) and all(isinstance(ref, str) for ref in refs)):
        raise ConfigError("password_refs: a list of texts is wanted", node=where, do="write an empty one, [], for none")
    fields = Fields(options.get("fields"), where)
    records = read_csv(
        str(options["path"]),
        delimiter=str(options.get("delimiter") or ""),
        check_serials=bool(options.get("check_serials", True)),
        password_template=str(options.get("password_lookup") or ""),
        password_refs=refs,
        fields=fields,
    )
    return _told(fields, records)


def _ironic(options: Mapping[str, Any], where: str) -> list[Record]:
    control = Control(options.get("control_variables"), IRONIC_NAMES, where)
    fields = Fields(options.get("fields"), where)
    return _told(fields, read_ironic(options, where=where, fields=fields, control=control))


def _maas(options: Mapping[str, Any], where: str) -> list[Record]:
    control = Control(options.get("control_variables"), NAMES, where)
    fields = Fields(options.get("fields"), where)
    return _told(fields, read_maas(options, where=where, fields=fields, control=control))


def _warewulf(options: Mapping[str, Any], where: str) -> list[Record]:
    fields = Fields(options.get("fields"), where)
    return _told(fields, read_warewulf(options, where=where, fields=fields))


def _netbox(options: Mapping[str, Any], where: str) -> list[Record]:
    fields = Fields(options.get("fields"), where)
    return _told(fields, read_netbox(options, where=where, fields=fields))


def _xcat(options: Mapping[str, Any], where: str) -> list[Record]:
    fields = Fields(options.get("fields"), where)
    return _told(fields, read_xcat(options, where=where, fields=fields))


@dataclass(frozen=True)
class Kind:
    """options: what a source of this kind may say. shared: options that the plugin has for all sources of the kind,
    by the option's name in the source. remote: worth a cache."""

    read: Callable[[Mapping[str, Any], str], list[Record]]
    options: frozenset[str]
    shared: Mapping[str, str]
    remote: bool = True


KINDS: dict[str, Kind] = {
    "bcm": Kind(_bcm, frozenset({"url", "query"}), {"url": "bcm_url"}),
    "csv": Kind(
        _csv,
        frozenset({"path", "delimiter", "check_serials", "password_lookup", "password_refs"}),
        {},
        remote=False,
    ),
    "ironic": Kind(
        _ironic,
        frozenset({"url", "username", "password", "ca_path", "cloud", "query", "control_variables"}),
        {name: f"ironic_{name}" for name in ("url", "username", "password", "ca_path", "cloud")},
    ),
    "maas": Kind(
        _maas,
        frozenset({"url", "api_key", "ca_path", "query", "bmc", "timeout", "control_variables", "dpu_group"}),
        {name: f"maas_{name}" for name in ("url", "api_key", "ca_path")},
    ),
    "netbox": Kind(
        _netbox,
        frozenset({"url", "token", "ca_path", "query", "boot_interface"}),
        {name: f"netbox_{name}" for name in ("url", "token", "ca_path")},
    ),
    "warewulf": Kind(
        _warewulf,
        frozenset({"url", "username", "password", "ca_path", "query"}),
        {name: f"warewulf_{name}" for name in ("url", "username", "password", "ca_path")},
    ),
    "xcat": Kind(_xcat, frozenset({"url", "query"}), {}),
}
#: Options of every source.
COMMON = frozenset({"type", "name", "join_only", "fields"})
#: Options that are no part of what an answer depends on, and never of a cache's key.
SECRETS = frozenset({"password", "api_key", "token"})
#: Taken as they stand: templates for the host, and expressions of another language.
RAW = frozenset({"password_lookup", "fields"})


def check_source(source: Any, number: int) -> Kind:
    """The kind of a source, after a look at its options.

    :raises ConfigError: naming what is wrong.
    """
    label = f"source {number}"
    if not isinstance(source, dict) or source.get("type") not in KINDS:
        seen = source.get("type") if isinstance(source, dict) else type(source).__name__
        raise ConfigError("a source of no known type", node=label, wanted=f"type: {', '.join(KINDS)}", seen=str(seen))
    kind = KINDS[source["type"]]
    login_hosts = sorted(key for key in map(str, source) if key.endswith("login_host"))
    if login_hosts:
        raise ConfigError(
            "an inventory is read before there is a connection to any of its hosts, so no login host answers for it",
            node=f"{label} ({source['type']})",
            seen=", ".join(login_hosts),
            do="leave it out here, and set gpufleet_provisioner_login_host in group_vars for the tasks; list the nodes"
            " in a source of type csv, or run ansible-inventory --list --yaml --output FILE where the commands are, and"
            " give that file as the inventory",
        )
    unknown = sorted(set(source) - kind.options - COMMON)
    if unknown:
        raise ConfigError(
            f"unknown options: {', '.join(unknown)}",
            node=f"{label} ({source['type']})",
            wanted=", ".join(sorted(kind.options | COMMON)),
        )
    return kind


def beside(path: str, config: str) -> str:
    """A path as it is meant in a config file: relative to that file."""
    given = Path(path).expanduser()
    return str(given if given.is_absolute() else Path(config).resolve().parent / given)
