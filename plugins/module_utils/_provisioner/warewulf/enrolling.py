# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's record at Warewulf, what it shares with others, and services of the server that must know it. PRIVATE."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import require
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import (
    READY,
    Changes,
    Driver,
    NodeState,
    mac,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.warewulf import (
    configure,
    fields,
    record,
    tables,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.warewulf.api import Record, WarewulfApi
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.warewulf.declared import Declared
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.warewulf.writes import Writes

Enrolled = tuple[NodeState, Changes]
#: Fields of a record that services are told.
_MADE_FROM = frozenset({"hwaddr", "ipaddr"})
_OF_BMC = frozenset({("ipmi", "ipaddr"), ("ipmi", "port")})
_OF_PROFILES = (tables.NO_IMAGE, tables.OF_PROFILE)
_RESTART = "a restart of the service since"


class Enrolling:
    """What is shared comes first, since a record may name it; services are told of a record that stands.

    :param is_free: raises where another node has the card or an address.
    """

    def __init__(self, driver: Driver, api: WarewulfApi, writes: Writes, is_free: Callable[..., None]) -> None:
        self._driver, self._api, self._writes, self._is_free = driver, api, writes, is_free

    def enrol(self, wanted: Wanted, node: Optional[NodeState]) -> Enrolled:
        shared = Declared(self._api, wanted).made()
        found, own = self._create(wanted) if node is None else self._change(wanted, node)
        return found, Changes({**shared.before, **own.before}, {**shared.after, **own.after})

    def _change(self, wanted: Wanted, node: NodeState) -> Enrolled:
        known, wishes = node.raw["node"], record.wishes(wanted)
        standing = record.standing(known, wanted)
        after = {key: value for key, value in wishes.items() if standing[key] != value}
        was, more = self._of_site(wanted, node.id)
        if not after and not more:
            return node, Changes()
        if _MADE_FROM & set(after) or _OF_BMC & set(more):
            self._is_free(wanted, but=node.id)
        device = record.device_of(known, wanted)
        told = Changes({**{key: standing[key] for key in after}, **fields.shown(was)}, {**after, **fields.shown(more)})

        def wish(own: Record) -> Record:
            own = record.with_fields(record.outdated(own, node.native), after, wanted, device)
            return fields.written(record.with_tags(own, self._due(wanted) if _MADE_FROM & set(after) else {}), more)

        hard = self._hits(known, after, more, follows=node.native in _OF_PROFILES)
        if not self._writes.change(wanted, node, wish, " ".join(told.after), hard=hard):
            return node, told
        return self._driver.reread(node, wanted), told

    def _hits(self, known: Record, after: Record, more: fields.Fields, *, follows: bool) -> bool:
        """Does a machine that may be at work lose its disks, or what it runs, with its next boot, whoever boots it?

        What it asked the server for last does not tell that it is in no service: it may boot anew, be refused a part
        and run on, or have its profile's image. Of one whose card comes into a record nobody knows what it runs.

        :param follows: has it the image of its profiles, and none of its own?
        """
        if fields.wipes(more):
            return True
        if not {"hwaddr", "profiles"} & set(after):
            return False
        names, profiles = after.get("profiles", known.get("profiles")), self._api.profiles()
        if fields.wiping(names, profiles):
            return True
        image, comes = record.image_of(known), record.inherited({"profiles": names}, profiles)
        if "hwaddr" in after:
            return bool(image or comes) or fields.wipes({(): known})
        return follows and comes not in ("", image)

    def _of_site(self, wanted: Wanted, name: str) -> tuple[fields.Fields, fields.Fields]:
        if not fields.KNOWN & set(wanted.extras):
            return {}, {}
        return fields.differing(self._api.node(name, "/raw") or {}, wanted)

    def _create(self, wanted: Wanted) -> Enrolled:
        require({"boot_mac": wanted.boot_mac}, "boot_mac", node=wanted.host)
        name = wanted.key
        told = {"profiles": ["default"], **record.wishes(wanted)}
        _before, more = fields.differing({}, wanted)
        new = record.with_fields({}, told, wanted, record.device_of({}, wanted))
        new = fields.written(record.with_tags(new, {record.RESTS: record.ENROLLED, **self._due(wanted)}), more)
        saying = f"hwaddr={mac(wanted.boot_mac)}"
        changes = Changes({}, {**told, **fields.shown(more)})
        state = NodeState(id="", name=name, native=tables.NO_IMAGE, state=READY)
        if not self._writes.create(wanted, name, new, saying, hard=self._hits({}, told, more, follows=True)):
            return state, changes
        return self._driver.find(wanted) or state, changes

    # -- services ----------------------------------------------------------------------------------------------

    @staticmethod
    def _due(wanted: Wanted) -> dict[str, str]:
        """Another node's turn may write the file before its own comes, and restart nothing."""
        names = configure.asked(wanted.extras)
        return {record.DUE: " ".join(names)} if names else {}

    def unserved(self, wanted: Wanted, node: NodeState) -> dict[str, str]:
        names = [name for name in configure.asked(wanted.extras) if name in self._due_of(node)]
        return {**dict.fromkeys(names, _RESTART), **self._services(wanted).lacking(self._entry(wanted, node))}

    def serve(self, wanted: Wanted, node: NodeState, lacking: Mapping[str, str], stands: float) -> Changes:
        due = self._due_of(node)
        if not due >= set(lacking):
            self._note(wanted, node, {*due, *lacking})
        for name in lacking:
            self._services(wanted).run(name, self._entry(wanted, node), stands)
        self._note(wanted, node, due - set(lacking))
        after = {f"configure {name}": lacks for name, lacks in lacking.items()}
        return Changes(dict.fromkeys(after, "without it"), after)

    def _services(self, wanted: Wanted) -> configure.Configured:
        return configure.Configured(self._driver, wanted.extras, wanted.host)

    @staticmethod
    def _due_of(node: NodeState) -> frozenset[str]:
        return record.due(node.raw.get("node") or {})

    def _note(self, wanted: Wanted, node: NodeState, due: Set[str]) -> None:
        """Which services are to be told of it still; of a node that check mode would have made there is no record."""
        if not node.id:
            return
        tag = {record.DUE: " ".join(sorted(due))}
        self._writes.change(wanted, node, lambda own: record.with_tags(own, tag), f"tag {record.DUE}={tag[record.DUE]}")

    @staticmethod
    def _entry(wanted: Wanted, node: NodeState) -> configure.Entry:
        """As the record has it; in check mode there may be none yet."""
        known: Any = node.raw.get("node") or {}
        device = record.devices(known).get(record.device_of(known, wanted), {})
        card = str(device.get("hwaddr") or wanted.boot_mac)
        return configure.Entry(mac(card), str(device.get("ipaddr") or wanted.extras.get("ipaddr") or ""))
