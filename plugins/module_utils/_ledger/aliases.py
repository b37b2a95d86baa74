# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who is who in the ledger. PRIVATE to the collection.

What the inventory says of a machine is the claim of one of its hosts, until a peer confirms it. A claim lets the next
task find the node again, and no more: the host takes it back by saying something else, and where another host says the
same, nobody knows whose it is.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.connection import Connection
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.spelling import (
    JOINING,
    Pair,
    compared,
    normal,
    of_kind,
    other_serials,
    others_of,
    spelled,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._swap import SWAPPED, UNSAID
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event

with contextlib.suppress(ImportError):  # Connection says what is missing before anything here runs
    import sqlalchemy as sa

Row = Mapping[str, Any]
#: What the inventory says of another of its hosts now; None of one that it does not have, or cannot tell.
Says = Callable[[str], Optional[Sequence[Pair]]]

#: The kind of event that says what became of an alias, and the one for a claim that its host took back.
IDENTITY, CORRECTED = "identity", "corrected"
#: The source of an alias that no peer told.
INVENTORY = "inventory"
#: Those after which the node is another machine than the one that was imaged and judged.
SWAPS = (REPLACED, MOVED) = ("replaced", "moved")
_SHOWN = "kind, value, node_id, source, seen, host, confirmed_by, confirmed"
#: Nobody else writes now, and what is another node's here was given up by it.
_ALIAS = (
    "INSERT INTO aliases (kind, value, node_id, source, seen, host) VALUES (:kind, :value, :id, :source, :now, :host)"
    " ON CONFLICT (kind, value) DO UPDATE SET node_id = excluded.node_id, source = excluded.source,"
    " seen = excluded.seen, host = excluded.host, confirmed_by = '', confirmed = 0"
)
#: What is wrong with a host of which the inventory says nothing: no more than that.
NAMELESS = "nothing tells which machine this is"


def nobody(host: str) -> None:
    """No inventory is at hand."""


@dataclass(frozen=True)
class Asked:
    """A host, and what is known of it.

    inventory: is it the inventory that says so? What a peer says takes back no claim. node_id: named by the inventory.
    """

    name: str
    known: Sequence[Pair]
    node_id: str = ""
    inventory: bool = True
    says: Says = nobody


@dataclass(frozen=True)
class Whose:
    """node: whose the aliases are, if anybody's. missing: what is to be written as its own. dropped: rows that fall."""

    node: str | None
    missing: Sequence[Pair]
    dropped: Sequence[Row] = field(default=())


class Aliases(Connection):
    """The nodes of a ledger and their aliases."""

    def append_in(self, conn: Any, run_id: str, events: Iterable[tuple[str, Event]]) -> list[int]:
        raise NotImplementedError

    def identify(
        self,
        name: str,
        *,
        node_id: str = "",
        aliases: Sequence[Pair] = (),
        source: str = INVENTORY,
        create: bool = True,
        inventory: bool = True,
        says: Says = nobody,
        run_id: str = "",
    ) -> str:
        """The node's id; a node that nobody has seen gets one, and new aliases are added to a known one.

        :param aliases: pairs of kind and value; only the kinds in :data:`JOINING` tell machines apart.
        :param create: False only looks, and answers with an empty id for a node that nobody has seen.
        :param inventory, says: as of :class:`Asked`.
        :raises ConfigError: when two aliases belong to two nodes, two hosts are one, or there is nothing to know the
            node by.
        """
        asked = Asked(name, spelled(aliases), node_id, inventory, says)
        whose = self._owner(asked)
        # An id out of the inventory may be one that this ledger has never seen.
        seen = bool(whose.node) and (whose.node != node_id or self._exists(node_id))
        if not create or (seen and not whose.missing):
            return (whose.node or "") if seen else ""
        with self.transaction() as conn:
            self.alone_with_aliases(conn)
            # Looked at again, now that nobody else writes: another run may have been first.
            whose = self._owner(asked)
            self.drop(conn, run_id, whose.dropped, CORRECTED, {"host": name})
            return self._remember(conn, whose.node, name, whose.missing, source)

    def alone_with_aliases(self, conn: Any) -> None:
        """From here to the end of the caller's transaction nobody else writes an alias; SQLite has one writer."""
        if self.dialect == "postgresql":
            conn.execute(sa.text("SELECT pg_advisory_xact_lock(20863)"))

    # -- whose -------------------------------------------------------------------------------------------------

    def _owner(self, asked: Asked) -> Whose:
        """The node that the aliases belong to, if there is one, and the aliases that are not written as its own yet."""
        rows, stale = self._standing(asked, self._aliases(asked.known))
        found = {(row["kind"], row["value"]): row for row in rows}
        left = self._left_behind({pair: row["node_id"] for pair, row in found.items()}, asked)
        found = {pair: row for pair, row in found.items() if row["node_id"] not in left}
        found, parted = self._without_loose(asked, found)
        owners = {row["node_id"]: pair for pair, row in found.items() if pair[0] in JOINING}
        if asked.node_id:
            owners.setdefault(asked.node_id, ("node_id", asked.node_id))
        if len(owners) > 1:
            raise ConfigError(
                "its identities belong to different nodes in the ledger",
                node=asked.name,
                seen="; ".join(f"{pair[0]} {pair[1]} is node {owner}" for owner, pair in sorted(owners.items())),
                do=f"correct the serial or the MAC in the inventory; {SWAPPED}{self._twice(owners)}",
            )
        if not owners and not any(kind in JOINING for kind, value in asked.known):
            raise ConfigError(
                NAMELESS,
                node=asked.name,
                wanted="gpufleet_node_id, gpufleet_serial, gpufleet_system_uuid or gpufleet_boot_mac",
                do="add the serial, the system UUID or the boot MAC to the inventory; host names are no identity, nor"
                " is a MAC that has not twelve digits, or what stands for none",
            )
        told = {compared(pair) for pair in found}
        missing = [pair for pair in asked.known if compared(pair) not in told]
        missing += [pair for pair, row in found.items() if self._renamed(asked, row)]
        dropped = [*stale, *parted]
        return self._corrected(asked, Whose(next(iter(owners), None), missing, dropped), found)

    @staticmethod
    def _twice(owners: Mapping[str, Pair]) -> str:
        """What to do where one UUID is there in two spellings, each of a node of its own."""
        uuids = [pair for pair in owners.values() if pair[0] == "system_uuid"]
        if len(uuids) < 2 or len({compared(pair) for pair in uuids}) > 1:
            return ""
        return (
            "; of one UUID in two byte orders, take the one whose node is not this machine's from it: -e"
            " identity=retired -e identity_kind=system_uuid -e identity_value=THAT_UUID"
        )

    def _standing(self, asked: Asked, rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
        """Without what other hosts of the inventory claimed, and do not any more.

        :raises ConfigError: where another host says the same, or nobody knows whether this is that host renamed.
        """
        standing: list[Row] = []
        stale: list[Row] = []
        for row in rows:
            others = row["kind"] in JOINING and row["host"] not in ("", asked.name) and not asked.node_id
            says = asked.says(row["host"]) if others else None
            said = of_kind(spelled(says), row["kind"]) if says is not None else []
            if any(compared((row["kind"], one)) == compared((row["kind"], row["value"])) for one in said):
                raise _two_hosts(asked.name, row)
            # A UUID is said beside no serial, so that who names one now has not taken that back.
            silent = says is not None and not said and row["kind"] != "system_uuid"
            if (said or silent) and self._loose(row):
                stale.append(row)
                continue
            if others and says is None:
                self._demand_renamed(asked, row, rows)
            standing.append(row)
        return standing, stale

    def _demand_renamed(self, asked: Asked, row: Row, rows: Sequence[Row]) -> None:
        """A host that is gone was renamed, or another inventory has it: its boot port tells which.

        :raises ConfigError: where both name one, and another one each.
        """
        ours = of_kind(asked.known, "mac")
        if row["kind"] != "serial" or not ours or of_kind([(one["kind"], one["value"]) for one in rows], "mac"):
            return
        theirs = [one for one in self.aliases(row["node_id"]) if one["kind"] == "mac"]
        if theirs and all(one["host"] != asked.name for one in theirs) and not self.retired(row["node_id"]):
            raise _two_hosts(asked.name, row, f", with the boot MAC {theirs[0]['value']}")

    def _without_loose(self, asked: Asked, found: Mapping[Pair, Row]) -> tuple[dict[Pair, Row], list[Row]]:
        """Without this host's own claims on the node of another host, where something stronger says who it is, or that
        it is nobody's yet: they came with a serial that was mistyped."""
        serials = of_kind(asked.known, "serial")
        if not serials or asked.node_id or not asked.inventory:
            return dict(found), []
        its = next((row["node_id"] for pair, row in found.items() if pair[0] == "serial"), "")
        parted = [
            row
            for row in found.values()
            if row["node_id"] != its
            and row["host"] == asked.name
            and not row["confirmed_by"]
            and self._anothers(row["node_id"], asked.name, serials)
        ]
        return {pair: row for pair, row in found.items() if row not in parted}, parted

    def _anothers(self, node_id: str, name: str, serials: Sequence[str]) -> bool:
        """Is this the node of another host, by its serial?"""
        rows = [row for row in self.aliases(node_id) if row["kind"] == "serial"]
        own = other_serials([row["value"] for row in rows], serials)
        return own and all(row["host"] not in ("", name) for row in rows)

    def _renamed(self, asked: Asked, row: Row) -> bool:
        """Is it a claim of a host that is called otherwise now?"""
        return row["host"] != asked.name and self._loose(row)

    def _loose(self, row: Row) -> bool:
        """Was it never confirmed? What was in service under it was known by it."""
        return not row["confirmed_by"] and row["kind"] in JOINING and not self._served(row["node_id"])

    def _served(self, node_id: str) -> bool:
        sql = "SELECT 1 AS served FROM events WHERE node_id = :id AND kind = 'state' AND name = 'admitted' LIMIT 1"
        return bool(self._rows(sql, {"id": node_id}))

    def _corrected(self, asked: Asked, whose: Whose, found: Mapping[Pair, Row]) -> Whose:
        """What this host has said of the node, and does not any more, falls where nobody confirmed it.

        :raises ConfigError: where the node has another serial, and that was more than such a word.
        """
        kinds = {kind for kind, value in whose.missing if kind in JOINING}
        if not whose.node or not kinds:
            return whose
        rows = [row for row in self.aliases(whose.node) if row["kind"] in kinds]
        said = {compared(pair) for pair in asked.known}
        others = [row for row in rows if compared((row["kind"], row["value"])) not in said]
        own = [row for row in others if asked.inventory and row["host"] == asked.name and not row["confirmed_by"]]
        serials = [row for row in own if row["kind"] == "serial"]
        if serials and self._served(whose.node):
            own = [row for row in own if row["kind"] != "serial"]
        kept = [row["value"] for row in rows if row["kind"] == "serial" and row not in own]
        self._one_serial(asked.name, kept, of_kind(asked.known, "serial") if "serial" in kinds else [])
        return replace(whose, dropped=[*whose.dropped, *own])

    def _left_behind(self, found: Mapping[Pair, str], asked: Asked) -> frozenset[str]:
        """The retired nodes whose MAC, or UUID in another byte order, a machine has that is known to be another one."""
        serials = of_kind(asked.known, "serial")
        own = {owner for pair, owner in found.items() if pair[0] == "serial"}
        own |= {asked.node_id} if asked.node_id else set()
        living = {owner for pair, owner in found.items() if pair[0] == "system_uuid" and not self.retired(owner)}
        own |= living if len(living) == 1 and not serials else set()
        others = sorted({owner for owner in found.values() if owner not in own}) if own or serials else []
        retired = [owner for owner in others if self.retired(owner)]
        return frozenset(owner for owner in retired if own or other_serials(self.serials(owner), serials))

    def retired(self, node_id: str) -> bool:
        """Is the node out of the fleet?"""
        sql = "SELECT name FROM events WHERE node_id = :id AND kind = 'state' ORDER BY id DESC LIMIT 1"
        return [row["name"] for row in self._rows(sql, {"id": node_id})] == ["retired"]

    def _one_serial(self, name: str, known: Sequence[str], serials: Sequence[str]) -> None:
        """:raises ConfigError: where the node has a serial already, and this is none of them."""
        if not other_serials(known, serials):
            return
        raise ConfigError(
            "the ledger knows this node by another serial",
            node=name,
            wanted=f"serial {' or '.join(known)}",
            seen=f"serial {', '.join(serials)}",
            do="correct the serial, the boot MAC, the node id or the address of the BMC in the inventory; where it had"
            f" a serial that was mistyped and has none now, {UNSAID}; {SWAPPED}",
        )

    # -- rows --------------------------------------------------------------------------------------------------

    def serials(self, node_id: str) -> list[str]:
        """The serials that a node is known by."""
        return [row["value"] for row in self.aliases(node_id) if row["kind"] == "serial"]

    def owner(self, kind: str, value: str) -> str:
        """The id of the node that is known by this; empty for nobody's."""
        told = normal(kind, value)
        return next((str(row["node_id"]) for row in self._aliases([(kind, told)]) if told), "")

    def claimed_by(self, host: str) -> list[str]:
        """The nodes that a host of the inventory was, by its own word, without those that are out of the fleet."""
        rows = self._rows("SELECT DISTINCT node_id FROM aliases WHERE host = :host ORDER BY node_id", {"host": host})
        return [row["node_id"] for row in rows if not self.retired(row["node_id"])]

    def _exists(self, node_id: str) -> bool:
        return bool(self._rows("SELECT node_id FROM nodes WHERE node_id = :id", {"id": node_id}))

    def _aliases(self, pairs: Sequence[Pair]) -> list[dict[str, Any]]:
        """Their rows; of a serial that no node has as it is spelled here, those that have it in another case, and of a
        UUID those in each byte order: of two nodes that have one machine's, one would be drained and the other hit."""
        sql = f"SELECT {_SHOWN} FROM aliases WHERE value IN :values"
        rows = self._many(sql, "values", [value for kind, value in pairs] or [""], {})
        rows = [row for row in rows if (row["kind"], row["value"]) in set(pairs)]
        told = {(row["kind"], row["value"]) for row in rows}
        for kind in ("serial", "system_uuid"):
            due = [pair for pair in pairs if pair[0] == kind and (pair not in told or kind == "system_uuid")]
            other = [one for pair in due for one in others_of(pair)]
            sql = f"SELECT {_SHOWN} FROM aliases WHERE kind = '{kind}' AND lower(value) IN :values"
            more = self._many(sql, "values", other, {}) if other else []
            rows += [row for row in more if (row["kind"], row["value"]) not in told]
        return rows

    def _remember(self, conn: Any, node_id: str | None, name: str, pairs: Sequence[Pair], source: str) -> str:
        chosen = node_id or str(uuid.uuid4())
        conn.execute(
            sa.text("INSERT INTO nodes VALUES (:id, :name, :now) ON CONFLICT DO NOTHING"),
            {"id": chosen, "name": name, "now": time.time()},
        )
        for kind, value in pairs:
            written = {"kind": kind, "value": value, "id": chosen, "source": source, "now": time.time(), "host": name}
            conn.execute(sa.text(_ALIAS), written)
        return chosen

    def drop(self, conn: Any, run_id: str, rows: Iterable[Row], event: str, told: Mapping[str, Any]) -> None:
        """These are nobody's any more; the history of the node that had them says so."""
        for row in rows:
            pair = {"kind": row["kind"], "value": row["value"]}
            conn.execute(sa.text("DELETE FROM aliases WHERE kind = :kind AND value = :value"), pair)
            self.append_in(conn, run_id, [(row["node_id"], Event(IDENTITY, event, {**pair, **told}))])

    def confirm(self, node_id: str, pairs: Sequence[Pair], by: str) -> None:
        """A peer has said this of the machine itself: of what the node is known by, that is no mere claim any more."""
        told = {compared(pair) for pair in spelled(pairs)}
        open_ = [row for row in self.aliases(node_id) if not row["confirmed_by"]]
        due = [row for row in open_ if compared((row["kind"], row["value"])) in told]
        if not due:
            return
        sql = (
            "UPDATE aliases SET confirmed_by = :by, confirmed = :now"
            " WHERE kind = :kind AND value = :value AND node_id = :id AND confirmed_by = ''"
        )
        with self.transaction() as conn:
            for row in due:
                said = {"by": by, "now": time.time(), "kind": row["kind"], "value": row["value"], "id": node_id}
                conn.execute(sa.text(sql), said)

    def name(self, node_id: str) -> str:
        """By which host name a node was seen first; empty for a stranger."""
        rows = self._rows("SELECT name FROM nodes WHERE node_id = :id", {"id": node_id})
        return str(rows[0]["name"]) if rows else ""

    def values(self, kind: str, node_ids: Sequence[str]) -> dict[str, list[str]]:
        """What each of these nodes is known by of one kind, in one query."""
        sql = "SELECT node_id, value FROM aliases WHERE kind = :kind AND node_id IN :ids ORDER BY value"
        found: dict[str, list[str]] = {}
        for row in self._many(sql, "ids", [one for one in node_ids if one] or [""], {"kind": kind}):
            found.setdefault(str(row["node_id"]), []).append(str(row["value"]))
        return found

    def aliases(self, node_id: str) -> list[dict[str, Any]]:
        """All names of a node: rows of kind, value, node_id, source, seen, host, confirmed_by, confirmed."""
        return self._rows(f"SELECT {_SHOWN} FROM aliases WHERE node_id = :id ORDER BY kind, value", {"id": node_id})


def two_hosts(name: str, seen: str, do: str = "") -> ConfigError:
    return ConfigError(
        "two hosts of the inventory are one node in the ledger",
        node=name,
        wanted="a serial, a node id or a boot MAC that no other host has",
        seen=seen,
        do=do
        or "correct gpufleet_serial, gpufleet_node_id or gpufleet_boot_mac of one of them; where the nodes of a chassis"
        " share a serial, leave gpufleet_serial out and name gpufleet_boot_mac and gpufleet_bmc_system_id of each;"
        f" {SWAPPED}",
    )


def _two_hosts(name: str, row: Row, more: str = "") -> ConfigError:
    return two_hosts(name, f"{row['host']} is node {row['node_id']} too, by its {row['kind']} {row['value']}{more}")
