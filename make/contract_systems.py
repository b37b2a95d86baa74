# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What only a system itself can say of a site: its version, and which machines a tag or a prefix stands for.

No driver lists machines that nobody has named, so each system is asked in its own words here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError

UNTOLD = "not told by this interface"


@dataclass(frozen=True)
class Selector:
    """Exactly one of them is not empty."""

    tag: str = ""
    prefix: str = ""

    def __str__(self) -> str:
        return f"tag {self.tag}" if self.tag else f"names that begin with {self.prefix}"

    def takes(self, name: str, tags: Mapping[str, Any] | list[str] | tuple[str, ...]) -> bool:
        if self.prefix:
            return name.startswith(self.prefix)
        key, equals, value = self.tag.partition("=")
        if isinstance(tags, Mapping) and equals:
            return str(tags.get(key)) == value
        return self.tag in tags


#: Name of a machine -> its id there.
Machines = dict[str, str]


def _maas(driver: Any, selector: Selector) -> Machines:
    query = [("tags", selector.tag)] if selector.tag else []
    found = ((one["hostname"], one["system_id"], one.get("tag_names") or []) for one in driver.api.machines(query))
    return {name: key for name, key, tags in found if selector.takes(name, tags)}


def _ironic(driver: Any, selector: Selector) -> Machines:
    found = driver.api.listed("/nodes", "nodes", fields="uuid,name,traits")
    told = ((one.get("name") or one["uuid"], one["uuid"], one.get("traits") or []) for one in found)
    return {name: key for name, key, traits in told if selector.takes(name, traits)}


def _warewulf(driver: Any, selector: Selector) -> Machines:
    found = driver.api.nodes()
    return {name: name for name, one in found.items() if selector.takes(name, one.get("tags") or {})}


def _xcat(driver: Any, selector: Selector) -> Machines:
    names = sorted(driver.cli.nodes([]))
    if selector.tag:
        records, _unread = driver.cli.read(names)
        groups = {name: [part.strip() for part in one.get("groups", "").split(",")] for name, one in records.items()}
        return {name: name for name in groups if selector.takes(name, groups[name])}
    return {name: name for name in names if selector.takes(name, ())}


def _bcm(driver: Any, selector: Selector) -> Machines:
    names = sorted(driver.cmsh.cards())
    found = driver.cmsh.nodes(names) if selector.tag else {}
    categories = {name: [one.get("category", "")] for name, one in found.items()} if selector.tag else {}
    return {name: name for name in names if selector.takes(name, categories.get(name, []))}


def _pxe(driver: Any, selector: Selector) -> Machines:
    found = driver.cli.nodes()
    return {name: name for name, one in found.items() if selector.takes(name, one.get("marks") or {})}


def _untold(driver: Any) -> str:
    return UNTOLD


def _maas_version(driver: Any) -> str:
    return str(driver.api.get("version/")["version"])


def _ironic_version(driver: Any) -> str:
    told = driver.api.get("/v1") or {}
    return f"API {told['version']['version']}" if told.get("version") else UNTOLD


def _warewulf_version(driver: Any) -> str:
    """Its REST API does not tell, but for the description of itself."""
    try:
        told = driver.api._get("docs/openapi.json")
    except FleetError:
        return UNTOLD
    return str((told.get("info") or {}).get("version") or UNTOLD) if isinstance(told, dict) else UNTOLD


def _xcat_version(driver: Any) -> str:
    """Its web service lists objects, and has no word for that."""
    if driver.cli.address.startswith("http"):
        return UNTOLD
    found = re.search(r"[Vv]ersion (\S+)", driver.cli.run("lsdef", "-v").out)
    return found[1] if found else UNTOLD


@dataclass(frozen=True)
class System:
    machines: Callable[[Any, Selector], Machines]
    version: Callable[[Any], str]
    #: What a tag is there.
    tag: str


SYSTEMS: Mapping[str, System] = {
    "bcm": System(_bcm, _untold, "category"),
    "ironic": System(_ironic, _ironic_version, "trait"),
    "maas": System(_maas, _maas_version, "tag"),
    "pxe": System(_pxe, _untold, "mark, or mark=value"),
    "warewulf": System(_warewulf, _warewulf_version, "tag, or tag=value"),
    "xcat": System(_xcat, _xcat_version, "group"),
}
