# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes of a Base Command Manager as inventory records. PRIVATE to the collection.

cmsh is asked on the head node, as the driver asks it: one session for who there is, one for all their records, and one
for each kind of interface by which BCM reaches BMCs. What stands there people typed, so it is checked like the cells of
a list.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer, ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.bcm import record as raw
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.bcm.driver import BcmDriver
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_cells import checked
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_fields import Fields
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_record import Record

#: What a source may ask for, each one word or several, of which one must be so.
FILTERS = ("category", "image")
_OF = {"category": "category", "image": "softwareimage"}


def read_bcm(options: Mapping[str, Any], *, where: str, fields: Fields) -> list[Record]:
    """All physical nodes that the filters let through, checked in the order of their names.

    :raises FleetError: whatever keeps it from being complete.
    """
    wanted = _filters(options.get("query"), where)
    driver = BcmDriver({"provisioner_url": options.get("url")}, Context(node=where))
    _known(driver, wanted, where)
    cards = driver.cmsh.cards()
    _demand_names(list(cards), driver.address, where)
    nodes = driver.cmsh.nodes(sorted(cards))
    _demand_all(set(cards) - set(nodes), driver.address, where)
    nodes = {name: node for name, node in sorted(nodes.items()) if _is_wanted(node, wanted)}
    bmcs = driver.cmsh.bmcs(nodes)
    return [_filled(name, {**node, "bmc": bmcs.get(name, "")}, where, fields) for name, node in nodes.items()]


# -- which of them -------------------------------------------------------------------------------------------------


def _filters(query: Any, where: str) -> dict[str, tuple[str, ...]]:
    """:raises ConfigError: for what is no filter: read over, it would let more nodes through than were asked for."""
    given = query or {}
    if not isinstance(given, Mapping):
        raise ConfigError("query: a mapping is wanted", node=where, wanted=", ".join(FILTERS))
    unknown = sorted(set(map(str, given)) - set(FILTERS))
    if unknown:
        raise ConfigError(
            f"a source of type bcm has no filter {', '.join(unknown)}", node=where, wanted=", ".join(FILTERS)
        )
    return {key: _words(key, value, where) for key, value in given.items()}


def _words(key: str, value: Any, where: str) -> tuple[str, ...]:
    words = tuple(value) if isinstance(value, (list, tuple)) else (value,)
    if not words or any(not isinstance(word, str) or not word for word in words):
        raise ConfigError(f"query, {key}: a word is wanted, or a list of them", node=where)
    return words


def _known(driver: BcmDriver, wanted: Mapping[str, tuple[str, ...]], where: str) -> None:
    """:raises ConfigError: for a name that there is none of: misspelt, it would be an empty fleet."""
    lists = {"category": driver.needs.categories, "image": driver.needs.images}
    for key, names in wanted.items():
        known = lists[key]()
        unknown = [name for name in names if name not in known]
        if unknown:
            raise ConfigError(
                f"query, {key}: BCM has none of the name {', '.join(unknown)}",
                node=where,
                address=driver.address,
                wanted=f"one of {', '.join(sorted(known))}",
            )


def _is_wanted(node: Mapping[str, str], wanted: Mapping[str, tuple[str, ...]]) -> bool:
    return all(node.get(_OF[key]) in names for key, names in wanted.items())


def _demand_names(names: list[str], address: str, where: str) -> None:
    odd = [name for name in names if not raw.NAME.match(name)]
    if odd:
        raise ConfigError(
            "a node of BCM has a name that is a list of nodes to cmsh",
            node=where,
            address=address,
            seen=cut(", ".join(odd), 200),
            do="give it another name there",
        )


def _demand_all(missing: set[str], address: str, where: str) -> None:
    """Who was in the list and has no record any more was removed meanwhile, or the answer was not whole."""
    if missing:
        raise BadAnswer(
            "cmsh left out nodes that it had listed",
            node=where,
            address=address,
            seen=cut(", ".join(sorted(missing)), 200),
            do="run it again; somebody may have removed them just now",
        )


# -- one of them ---------------------------------------------------------------------------------------------------


def _filled(name: str, node: Mapping[str, str], where: str, fields: Fields) -> Record:
    place = f"{where}, node {name}"
    return fields.fill(_record(name, node, place), fields.pick({**node, "name": name}, place))


def _record(name: str, node: Mapping[str, str], place: str) -> Record:
    words = raw.words(node)
    serial = str(checked("serial", words.serial, f"the word gpufleet-serial in {raw.WORDS}", place) or "")
    card = str(checked("boot_mac", node["mac"], "mac", place) or "")
    address = "" if node["ip"] == "0.0.0.0" else node["ip"]
    variables: dict[str, Any] = {
        "gpufleet_serial": serial,
        "gpufleet_provisioner": "bcm",
        "gpufleet_provisioner_id": name,
        "gpufleet_boot_mac": card,
        "gpufleet_bmc_address": checked("bmc_ip", node["bmc"], f"ip of the interface {node['powercontrol']}", place),
        "ansible_host": checked("primary_ip", address, "ip", place),
        "bcm_category": node["category"],
        "bcm_image": node["softwareimage"],
        "bcm_status": node["status"],
        "bcm_closed": bool(node["closed"]),
        "bcm_next_install_mode": node["nextinstallmode"],
        "bcm_data_node": node["datanode"].lower() in ("yes", "true", "on", "1"),
        "bcm_comment": words.theirs,
        "bcm_hold": words.hold,
    }
    return Record(where=place, name=name, serial=serial, macs=[card] if card else [], variables=variables)
