# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes to one node's own record at Warewulf: held against what was judged, sent, and read back. PRIVATE.

Nobody keeps a record for us between the judgement and the write, and leave to write may take its time. So who has the
node is looked up right before each write, however often that was done before.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from urllib.parse import quote

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Changed, Refused
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import meanwhile
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import NodeState
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.warewulf import record
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.warewulf.api import Record, WarewulfApi


def path_of(name: str) -> str:
    return f"nodes/{quote(name, safe='')}"


class Writes:
    """Each of them is one request."""

    def __init__(self, api: WarewulfApi) -> None:
        self._api = api

    def create(self, wanted: Wanted, name: str, new: Record, saying: str, *, hard: bool) -> bool:
        """A record where there is none; False in check mode."""
        path, body = path_of(name), {"node": new}
        if not self._api.write("PUT", path, body, saying=saying, host=wanted.host, destructive=hard, new=True):
            return False
        self._proven(wanted, name, {}, new)
        return True

    def change(
        self,
        wanted: Wanted,
        node: NodeState,
        wish: Callable[[Record], Record],
        saying: str,
        *,
        hard: bool = False,
        image: str | None = None,
    ) -> bool:
        """Merged into the record, or, where more than tags is to be taken away, which a merge cannot, in its place.

        :param image: the image that the node must have by then.
        """
        before = self._own(wanted, node.id)
        after = wish(copy.deepcopy(before))
        changed = record.differing(before, after)
        if not changed:
            self.demand_as_judged(wanted, node, image)
            return True
        merged = record.only_adds(before, after)
        method, body = ("PATCH", record.merging(before, changed)) if merged else ("PUT", after)

        def last() -> None:
            self.demand_as_judged(wanted, node, image)
            if not merged:
                self._as_read(wanted, node.id, before)

        path, body = path_of(node.id), {"node": body}
        if not self._api.write(method, path, body, saying=saying, host=wanted.host, destructive=hard, last=last):
            return False
        self._proven(wanted, node.id, before, after)
        return True

    def _own(self, wanted: Wanted, name: str) -> Record:
        return self._there(wanted, name, self._api.node(name, "/raw"))

    def _there(self, wanted: Wanted, name: str, found: Record | None) -> Record:
        if found is None:
            raise meanwhile.gone("Warewulf", name, wanted, self._api.address)
        return found

    def demand_as_judged(self, wanted: Wanted, node: NodeState, image: str | None) -> None:
        """What a profile says of it counts as well."""
        judged = _whose(node.raw["node"], image)
        found = self._there(wanted, node.id, self._api.node(node.id))
        now = _whose(found, image if image is None else record.image_of(found))
        changed = meanwhile.difference(judged, now, wanted, self._api.address)
        if changed is not None:
            raise changed

    def _as_read(self, wanted: Wanted, name: str, before: Record) -> None:
        """What is sent takes the record's place, with all that others have written since."""
        others = record.differing(before, self._own(wanted, name))
        if others:
            raise Changed(
                "somebody has changed the node's record while it was being written",
                node=wanted.host,
                address=self._api.address,
                wanted="the record as it was read",
                seen=f"another {', '.join(others)}",
                do="run again",
            )

    def _proven(self, wanted: Wanted, name: str, before: Record, after: Record) -> None:
        """Warewulf loses one of two writes that come at once, and takes with 200 what it does not know."""
        now = self._own(wanted, name)
        lost = record.lost(before, after, now)
        if lost:
            raise Refused(
                "Warewulf took the change, and it is not there",
                node=wanted.host,
                address=self._api.address,
                wanted=", ".join(lost),
                seen="the record without it: somebody else wrote at the same time, or it refuses the value",
                do="let nobody else write to this server meanwhile, and run again",
            )


def _whose(found: Record, image: str | None) -> dict[str, str]:
    """What says who has the node and which machine it is, with this image where one is given."""
    own = record.tags(found)
    told = {key: own.get(key, "") for key in (record.HOLD, record.OWNER)}
    told.update(mac=", ".join(sorted(record.macs(found))), bmc=record.of_bmc(found.get("ipmi")))
    return told if image is None else {**told, "image name": image}
