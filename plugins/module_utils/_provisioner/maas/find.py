# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finding machines in MAAS, and what their records say. PRIVATE to the collection."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    BadAnswer,
    NotOurs,
    Refused,
    WrongMachine,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut
from ansible_collections.gpufleet.baremetal.plugins.module_utils._hardware import Hardware
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import many, said
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import (
    ABSENT,
    FAILED,
    OTHER,
    Driver,
    Found,
    Network,
    NodeState,
    mac,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.maas import record, tables
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.maas.api import MaasApi
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.maas.prerequisites import may_not
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import (
    KNOWN_THERE,
    Wanted,
    own_extras,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context

#: Machines a list request; one of them costs MAAS 40 ms and 49 kB.
BLOCK = 50
#: A region worker takes four requests at a time.
IN_FLIGHT = 4
#: The letters and digits that MAAS makes its ids of (provisioningserver/utils/znums.py).
SYSTEM_ID = re.compile(r"[34678abcdefghkmnpqrstwxy]{6}")


class MaasReader(Driver):
    """The reading half of the driver."""

    bmc_at_hand = False

    def __init__(self, params: Mapping[str, Any], ctx: Context) -> None:
        super().__init__(ctx)
        self.api = MaasApi(params, ctx)
        self._owners = set(said.listed(own_extras(params, self.name), "owners"))
        self._me, self._sees_all = "", True

    def close(self) -> None:
        self.api.close()

    @property
    def ahead(self) -> tuple[float, float] | None:  # type: ignore[override]
        return self.api.clock.ahead

    @property
    def address(self) -> str:
        return self.api.address

    def find(self, wanted: Wanted) -> NodeState | None:
        record.check(wanted)
        raw = self._by_id(wanted.key) or self._by_name(wanted.key)
        if raw is not None:
            return self._state(raw)
        found = self._enlisted(wanted)
        if found is None:
            self._demand_sight(wanted)
        return found

    def _demand_sight(self, wanted: Wanted) -> None:
        """:raises Refused: where a machine that is not shown may be there all the same."""
        self.whoami()
        if not self._sees_all:
            raise may_not(self.address, self._me).located(node=wanted.host)

    def find_many(self, wanted: Sequence[Wanted]) -> Found:
        """By their names, and those that no name finds by their cards: a request for each fifty of them."""
        known, twice = self._named(wanted)
        cards = sorted({mac(one.boot_mac) for one in wanted if one.boot_mac and one.host not in known})
        enlisted = {address: raw for raw in self._blocks([("mac_address", one) for one in cards])
                    for address in record.macs(raw)}  # fmt: skip

        def found(one: Wanted) -> NodeState | None:
            record.check(one)
            if one.host in known:
                return self._state(known[one.host])
            if one.key in twice:
                return self.find(one)
            address = mac(one.boot_mac) if one.boot_mac else ""
            if address in enlisted:
                return self._of_card(one, address, enlisted[address])
            self._demand_sight(one)
            return None

        return many.each(wanted, found)

    def _by_name(self, key: str) -> dict[str, Any] | None:
        """By its short name, which is one machine's over all domains of MAAS: the inventory may have it in another."""
        short = _short(key)
        named = [one for one in self.api.machines([("hostname", short)]) if one.get("hostname") == short]
        found = [one for one in named if one.get("fqdn") == key] or named
        if len(found) > 1:
            names = ", ".join(str(one.get("fqdn")) for one in found)
            raise Refused(
                f"MAAS has {len(found)} machines called {key}",
                address=self.api.address,
                seen=names,
                do="set gpufleet_provisioner_id to the full name or the system id",
            )
        return found[0] if found else None

    def _by_id(self, key: str) -> dict[str, Any] | None:
        if not SYSTEM_ID.fullmatch(key):
            return None
        found: dict[str, Any] | None = self.api.get(f"machines/{key}/")
        return found

    def _enlisted(self, wanted: Wanted) -> NodeState | None:
        """A machine that booted from the network before it was enrolled stands there as New, by a made-up name."""
        if not wanted.boot_mac:
            return None
        address = mac(wanted.boot_mac)
        found = [one for one in self.api.machines([("mac_address", address)]) if address in record.macs(one)]
        return self._of_card(wanted, address, found[0]) if found else None

    def _of_card(self, wanted: Wanted, address: str, raw: dict[str, Any]) -> NodeState:
        node = self._state(raw)
        if raw.get("status") == tables.NEW and not node.owner:
            return node
        raise WrongMachine(
            f"MAAS does not know {wanted.key}, but its MAC belongs to a machine there",
            node=wanted.host,
            address=self.api.address,
            wanted=f"MAC {address} free, or the machine's own id",
            seen=f"machine {node.name} ({node.id}), {node.native}",
            do=KNOWN_THERE,
        )

    def serials(self, node: NodeState, *, ask: bool) -> Mapping[str, str]:
        found = record.serial(node.raw)
        return {"found by commissioning": found} if found else {}

    def network(self, node: NodeState, *, ask: bool) -> Network:
        """Commissioning finds all cards; a machine that was never looked at has the one it was enrolled with."""
        links = [link for card in node.raw.get("interface_set") or [] for link in card.get("links") or []]
        addresses = frozenset(str(link["ip_address"]) for link in links if link.get("ip_address"))
        return Network(frozenset(record.macs(node.raw)), addresses, complete=True)

    def bmc(self, node: NodeState) -> tuple[str, str]:
        """Only an administrator's key is told that."""
        try:
            told = self.api.get(f"machines/{node.id}/", [("op", "power_parameters")])
        except (NotOurs, Refused):
            return "", ""
        known = told if isinstance(told, dict) else {}
        return bmc_in(known)

    def hardware(self, node: NodeState) -> Hardware | None:
        """Of a machine that was commissioned; what nobody has looked at is there as MAAS fills it in."""
        if node.inspection != "passed":
            return None
        return record.hardware_in(node.raw, self.api.get(f"nodes/{node.id}/devices/"))

    def reread(self, node: NodeState, wanted: Wanted) -> NodeState:
        raw = self.api.get(f"machines/{node.id}/")
        return node.moved(ABSENT, ABSENT) if raw is None else self._state(raw)

    def resolve(self, wanted: Sequence[Wanted]) -> dict[str, str]:
        """Names are looked up once; later polls ask by system id."""
        return {host: str(raw["system_id"]) for host, raw in self._named(wanted)[0].items()}

    def _named(self, wanted: Sequence[Wanted]) -> tuple[dict[str, dict[str, Any]], set[str]]:
        """By host its machine; and the names that several machines have."""
        names = {one.key: _short(one.key) for one in wanted}
        found: dict[str, dict[str, Any]] = {}
        twice: set[str] = set()
        for raw in self._blocks([("hostname", name) for name in sorted(set(names.values()))]):
            for key in (str(raw.get("hostname")), str(raw.get("fqdn"))):
                twice |= {key} if found.get(key, raw)["system_id"] != raw["system_id"] else set()
                found[key] = raw
        # Two machines of one name in two domains: which one is meant, nobody can tell.
        found = {key: raw for key, raw in found.items() if key not in twice}
        left = [key for key in names if key not in found and SYSTEM_ID.fullmatch(key)]
        for raw in self._blocks([("id", key) for key in left]):
            found[str(raw["system_id"])] = raw
        known = {one.host: found.get(one.key) or found.get(names[one.key]) for one in wanted}
        return {host: raw for host, raw in known.items() if raw}, {key for key in names if {key, names[key]} & twice}

    def states(self, ids: Sequence[str]) -> dict[str, NodeState]:
        return {str(raw["system_id"]): self._state(raw) for raw in self._blocks([("id", one) for one in ids])}

    def _blocks(self, filters: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
        """Machines by one filter's values. Requests in threads beat no lifeline, so they are not repeated here."""
        blocks = [list(filters[at : at + BLOCK]) for at in range(0, len(filters), BLOCK)]
        if len(blocks) < 2:
            return [raw for block in blocks for raw in self.api.machines(block, patient=False)]
        with ThreadPoolExecutor(min(IN_FLIGHT, len(blocks))) as pool:
            answers = list(pool.map(lambda block: self.api.machines(block, patient=False), blocks))
        return [raw for answer in answers for raw in answer]

    def _state(self, raw: Any) -> NodeState:
        if not isinstance(raw, dict) or not raw.get("system_id") or not isinstance(raw.get("status"), int):
            raise BadAnswer("a machine without system_id or status", address=self.api.address, seen=cut(raw, 300))
        number = raw["status"]
        native, state = tables.NUMBERS.get(number, (f"status {number}", OTHER))
        hold = record.token_in(str(raw.get("description") or ""))
        # MAAS keeps it for ever: of a machine that is well again it is the reason of last time.
        error = str(raw.get("error_description") or "") if state == FAILED or number == tables.BROKEN else ""
        if state == FAILED:
            error = error or str(raw.get("status_message") or "")
        return NodeState(
            id=str(raw["system_id"]),
            name=str(raw.get("hostname") or ""),
            native=native,
            state=state,
            power=str(raw.get("power_state") or ""),
            last_error=error,
            # Where MAAS can lock, the line alone is a hold half taken or half lifted.
            maintenance=bool(hold) and (bool(raw.get("locked")) or number not in tables.LOCKABLE),
            hold=hold,
            foreign=self._foreign(raw, hold),
            owner=str(raw.get("owner") or ""),
            stamp="/".join(str(raw.get(f"current_{kind}_result_id")) for kind in ("commissioning", "installation")),
            image=record.deployed_image(raw),
            deploy_id=record.noted(raw).get("deploy_id", ""),
            # One that was deployed keeps its system where it fails its tests.
            deploy_failed=number == tables.DEPLOY_FAILED
            or (number == tables.FAILED_TESTING and bool(raw.get("osystem"))),
            inspection=tables.INSPECTIONS.get(raw.get("commissioning_status", -1), "pending"),
            raw=raw,
        )

    def carries(self, node: NodeState) -> bool:
        return super().carries(node) and bool(node.raw.get("osystem"))

    def boots(self, node: NodeState) -> str:
        """What failed to be looked at rests; what is taken for somebody does not, whatever it runs."""
        if node.raw.get("status") in tables.AT_REST:
            return ""
        return super().boots(node) or ("" if node.raw.get("status") == tables.READY_NUMBER else "it is allocated")

    def marks(self, node: NodeState) -> Mapping[str, str]:
        return record.marks(node.raw)

    def _foreign(self, raw: Mapping[str, Any], hold: str) -> str:
        owner = str(raw.get("owner") or "")
        if raw.get("locked") and not hold:
            return f"locked by somebody else (owner: {owner or 'nobody'})"
        if raw.get("status") == tables.BROKEN:
            return f"marked broken: {raw.get('error_description') or raw.get('status_message') or 'no reason given'}"
        if owner and owner not in self._owners and owner != self.whoami():
            return f"owner is {owner}"
        return ""

    def whoami(self) -> str:
        if not self._me:
            user = self.api.get("users/", [("op", "whoami")])
            if not isinstance(user, dict) or not user.get("username"):
                raise BadAnswer("MAAS does not say whose key this is", address=self.api.address, seen=cut(user, 200))
            self._me, self._sees_all = str(user["username"]), user.get("is_superuser") is not False
        return self._me


def _short(name: str) -> str:
    return name.partition(".")[0]


def bmc_in(parameters: Mapping[str, Any]) -> tuple[str, str]:
    """Of a machine's power parameters: the BMC's address, and its system."""
    return str(parameters.get("power_address") or ""), str(parameters.get("node_id") or "")
