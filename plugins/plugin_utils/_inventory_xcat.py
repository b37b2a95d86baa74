# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes of an xCAT as inventory records. PRIVATE to the collection.

It is asked by ``lsdef``, as its driver asks it, on the machine where the inventory is read: the management node, or one
with xCAT's client. The password of a BMC is never asked for, since that command prints it in clear.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.xcat import record as raw
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.xcat.driver import XcatDriver
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_cells import checked
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_fields import Fields
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_record import Record

#: What a source may ask for: xCAT itself filters by groups.
FILTERS = ("group",)


def read_xcat(options: Mapping[str, Any], *, where: str, fields: Fields) -> list[Record]:
    """All nodes of these groups, or all of them, in the order of their names.

    :raises FleetError: whatever keeps it from being complete.
    """
    groups = _groups(options.get("query"), where)
    if not options.get("url"):
        raise ConfigError("a source of type xcat needs url, the folder of xCAT's commands", node=where,
                          do="set it in the source, for instance /opt/xcat")  # fmt: skip
    driver = XcatDriver({"provisioner_url": options["url"]}, Context(node=where))
    try:
        names = sorted(driver.cli.members(groups))
        found = driver.cli.nodes(names) if names else {}
    finally:
        driver.close()
    return [_filled(name, found[name], where, fields) for name in sorted(found)]


def _groups(query: Any, where: str) -> list[str]:
    """:raises ConfigError: for what is no filter: read over, it would let more nodes through than were asked for."""
    given = query or {}
    if not isinstance(given, Mapping) or set(map(str, given)) - set(FILTERS):
        raise ConfigError("query: of type xcat it has the key group alone", node=where, wanted="group: gpu")
    told = given.get("group", [])
    groups = [str(one) for one in (told if isinstance(told, (list, tuple)) else [told])]
    for one in groups:
        if not raw.NAME.match(one):
            raise ConfigError(f"query, group: {one!r} is no name of a group", node=where)
    return groups


def _filled(name: str, node: Mapping[str, str], where: str, fields: Fields) -> Record:
    place = f"{where}, node {name}"
    return fields.fill(_record(name, node, place), fields.pick({**node, "name": name}, place))


def _record(name: str, node: Mapping[str, str], place: str) -> Record:
    macs = [checked("boot_mac", one, "mac", place) for one in _first_words(node.get("mac", ""))]
    words = raw.words(node.get("usercomment", ""))
    bmc = checked("bmc_ip", node.get("bmc", ""), "bmc", place)
    serial = checked("serial", node.get("serial", ""), "serial", place)
    variables: dict[str, Any] = {
        "gpufleet_serial": serial,
        "gpufleet_provisioner": "xcat",
        "gpufleet_provisioner_id": name,
        "gpufleet_boot_mac": macs[0] if macs else None,
        "ansible_host": checked("primary_ip", next(iter(_first_words(node.get("ip", ""))), ""), "ip", place),
        "gpufleet_bmc_address": bmc,
        "gpufleet_bmc_username": checked("bmc_user", node.get("bmcusername", ""), "bmcusername", place) if bmc else "",
        "xcat_groups": raw.groups(node),
        "xcat_status": node.get("status"),
        "xcat_provmethod": node.get("provmethod"),
        "xcat_arch": node.get("arch"),
        "xcat_mgt": node.get("mgt"),
        "xcat_comment": words.theirs,
        "xcat_hold": words.hold,
        "xcat_foreign": raw.foreign(node),
    }
    return Record(where=place, name=name, serial=serial, macs=sorted(set(macs)), variables=variables)


def _first_words(text: str) -> list[str]:
    """``aa:bb:..!eth0|cc:dd:..!*NOIP*``: one value or more, each with the name of what has it."""
    return [word for word in (one.partition("!")[0].strip() for one in text.split("|")) if word]
