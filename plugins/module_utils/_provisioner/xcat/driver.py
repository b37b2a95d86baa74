# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The xCAT driver. PRIVATE to the collection.

xCAT is asked by its commands, on the machine where the verb runs: its management node, or one with its client. How a
node is deployed and released by them :mod:`.order` tells. xCAT switches power and reverts none that others switch; it
knows neither holds nor owners, and our token in the comment is what our own runs obey.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _deployment as deployment
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import ways
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import (
    READY,
    Changes,
    NodeState,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.looked import looked
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.switching import OFF
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import BY_NAME, Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.xcat import (
    meanwhile,
    naming,
    notes,
    record,
    tables,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.xcat.cli import ALONE
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.xcat.order import XcatOrders


class XcatDriver(XcatOrders):
    """By its commands, by which it boots a machine as well."""

    name = "xcat"
    states_map = tables.STATES
    steps = tables.STEPS
    leads_to = tables.LEADS_TO
    destructive = tables.DESTRUCTIVE
    orders = tables.ORDERS
    image_needs = BY_NAME
    serial = True
    inspects = False
    erases = False
    deploy_proof = deployment.NONCE
    switches = True

    @classmethod
    def reached_by(cls, params: Mapping[str, Any]) -> type[XcatDriver]:
        return XcatServiceDriver if ways.by_service(params.get("provisioner_url")) else cls

    # -- the record --------------------------------------------------------------------------------------------

    def enrol(self, wanted: Wanted, node: NodeState | None) -> tuple[NodeState, Changes]:
        raw = node.raw if node is not None else {}
        after = record.fields(wanted, node.raw if node is not None else None)
        before = {key: raw.get(key, "") for key in after if node is not None}
        secret = self._new_password(wanted, node, after)
        logged = record.told_to_logs(wanted, self.address) if secret and self.cli.logs_secrets else None
        if logged is not None:
            raise logged
        shown = {**after, **({record.PASSWORD: f"{record.MASK} (changed)" if node else record.MASK} if secret else {})}
        before.update({record.PASSWORD: record.MASK} if secret and node is not None else {})
        makes = naming.wished(wanted)
        entry = {**after, **({record.PASSWORD: secret} if secret else {})}
        if makes and (node is None or naming.MADE_FROM & set(after)):
            entry["usercomment"] = notes.commented(raw, names=naming.DUE)
        if entry:
            self._set(wanted, node, entry)
        found = self._after(wanted, node, bool(entry))
        if makes and self._made_known(wanted, found, makes, new=node is None):
            before.update({naming.KEY: ""} if node is not None else {})
            shown[naming.KEY] = " ".join(makes)
            found = self._after(wanted, found if found.id else None, changed=True)
        return found, Changes(before, shown)

    def _after(self, wanted: Wanted, node: NodeState | None, changed: bool) -> NodeState:
        """The record after a write; in check mode the one that would be there."""
        if node is not None:
            return self.reread(node, wanted) if changed else node
        new = NodeState(id="", name=wanted.key, native=tables.DEFINED, state=READY)
        return new if self.ctx.check_mode else self.find(wanted) or new

    def _made_known(self, wanted: Wanted, node: NodeState, makes: list[str], *, new: bool) -> bool:
        """Tell those services of a node that is new, that has moved, or whose name does not resolve.

        :return: was, or would anything be done?
        :raises Refused: where its name does not resolve afterwards.
        """
        standing = not new and not naming.is_due(node.raw)
        if standing and naming.unresolved(self.cli, wanted, node.raw) is None:
            return False
        for command in makes:
            if self.ctx.may_write(f"{command} {wanted.key}", nodes=(wanted.host,)):
                naming.make(self.cli, wanted, wanted.key, command)
        if self.ctx.check_mode:
            return True
        why = naming.unresolved(self.cli, wanted, node.raw)
        if why is not None:
            raise why
        if naming.is_due(node.raw):
            self._comment(node, wanted, names="")
        return True

    def _new_password(self, wanted: Wanted, node: NodeState | None, after: Mapping[str, str]) -> str:
        """The BMC's, where it is to be written; empty where not."""
        secret = record.password(wanted)
        if node is None or not secret or not wanted.update_password:
            return secret if node is None or {"bmc", "bmcusername"} & set(after) else ""
        standing = self.cli.nodes([node.id], record.PASSWORD).get(node.id, {})
        return secret if standing.get(record.PASSWORD) != secret else ""

    def _set(self, wanted: Wanted, node: NodeState | None, entry: Mapping[str, str]) -> None:
        """One node's record, if it may be written. Its groups are those of by then, and what is to be added.

        :raises WrongMachine: where another node has its card, its BMC or its address, also in check mode.
        """
        verb, name = "chdef" if node is not None else "mkdef", wanted.key
        granted = self.ctx.may_write(f"{verb} -z {name} {' '.join(entry)}", nodes=(wanted.host,))
        if not granted:
            self._is_free(wanted, entry)
            return
        look = functools.partial(self._entry_now, wanted, node, entry)
        self._told(wanted, looked(self, look, lambda now: self._written(verb, {name: now})))

    def _is_free(self, wanted: Wanted, entry: Mapping[str, str]) -> None:
        if set(ALONE) & set(entry):
            self._free(wanted, entry, self.cards.now(entry))

    def _entry_now(self, wanted: Wanted, node: NodeState | None, entry: Mapping[str, str]) -> Mapping[str, str]:
        self._is_free(wanted, entry)
        if node is None:
            return entry
        now = self._as_judged(node, wanted).raw
        wished = {**now, **record.fields(wanted, now)}
        comment = {"usercomment": notes.commented(now, names=naming.DUE)} if "usercomment" in entry else {}
        return {**entry, **({"groups": wished["groups"]} if "groups" in entry else {}), **comment}

    # -- power -------------------------------------------------------------------------------------------------

    def power_of(self, node: NodeState) -> str:
        return self.cli.told([node.id], "rpower", "stat").get(node.id) or "unknown: its BMC says nothing to rpower"

    def switch(self, state: str, node: NodeState, wanted: Wanted) -> None:
        what = f"rpower {node.id} {state}"
        if self.ctx.may_write(what, destructive=state == OFF, nodes=(wanted.host,)):
            send = functools.partial(self._switched, "rpower", state)
            self._told(wanted, self._still_ours([(node, wanted)], send, None, self._may_still))

    def is_at_work(self, node: NodeState) -> bool:
        return node.native in tables.AT_WORK

    # -- marks -------------------------------------------------------------------------------------------------

    def annotate(self, node: NodeState, wanted: Wanted) -> Changes:
        words = record.words(node.raw.get("usercomment", ""))
        differing = {key: value for key, value in wanted.annotations.items() if words.marks.get(key, "") != value}
        if differing:
            self._comment(node, wanted, marks=differing)
        return Changes({key: words.marks.get(key, "") for key in differing}, differing)

    def hold(self, node: NodeState, token: str, wanted: Wanted) -> None:
        self._comment(node, wanted, hold=token)

    def lift(self, node: NodeState, wanted: Wanted) -> None:
        self._comment(node, wanted, hold="")

    def _comment(self, node: NodeState, wanted: Wanted, **changes: Any) -> None:
        """Into the comment as it stands once leave was given: people write there as well."""
        what = f"chdef -z {node.id} usercomment: {' '.join(changes)}"
        if not self.ctx.may_write(what, nodes=(wanted.host,)):
            return

        def look() -> Mapping[str, str]:
            now = self._as_judged(node, wanted).raw
            told = record.words(now.get("usercomment", "")).marks
            marks = {"marks": {**told, **changes["marks"]}} if "marks" in changes else {}
            return {"usercomment": notes.commented(now, **{**changes, **marks})}

        self._told(wanted, looked(self, look, lambda entry: self._written("chdef", {node.id: entry})))

    def _as_judged(self, node: NodeState, wanted: Wanted) -> NodeState:
        """As it stands now; what is deployed there matters to no comment.

        :raises Changed: where somebody has taken or held it since it was judged.
        """
        now = self.states([node.id]).get(node.id)
        standing = now.raw.get("provmethod", "") if now is not None else ""
        why = meanwhile.difference(node, now, wanted, self.address, standing)
        if why is not None:
            raise why
        return now if now is not None else node

    @staticmethod
    def _told(wanted: Wanted, wrong: Mapping[str, FleetError]) -> None:
        for why in wrong.values():
            raise why.located(node=wanted.host)


class XcatServiceDriver(XcatDriver):
    """By its web service, which has no word for ``rsetboot -u``: the machine's BMC is asked to boot it, by us."""

    owns_power = False
    steps = tables.STEPS_BY_OTHERS
