# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The MAAS driver. PRIVATE to the collection.

MAAS neither reverts power that others switch nor has a maintenance. A hold of ours is a line in the machine's
description, which people see and which outlives a release, and a lock where MAAS has one (deployed machines).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import require
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    BadAnswer,
    NotProven,
    Refused,
    TrustError,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import maas_record as record
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import maas_tables as tables
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import (
    ABSENT,
    FAILED,
    OTHER,
    Changes,
    Driver,
    NodeState,
    Wanted,
    mac,
    own_extras,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.maas_api import MaasApi
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context

#: Machines a list request; one of them costs MAAS 40 ms and 49 kB.
BLOCK = 50
#: A region worker takes four requests at a time.
IN_FLIGHT = 4
#: The letters and digits that MAAS makes its ids of (provisioningserver/utils/znums.py).
_SYSTEM_ID = re.compile(r"[34678abcdefghkmnpqrstwxy]{6}")


class MaasDriver(Driver):
    name = "maas"
    states_map = tables.STATES
    steps = tables.STEPS
    leads_to = tables.LEADS_TO
    destructive = tables.DESTRUCTIVE

    def __init__(self, params: Mapping[str, Any], ctx: Context) -> None:
        super().__init__(ctx)
        self.api = MaasApi(params, ctx)
        self._owners = {str(name) for name in own_extras(params, self.name).get("owners") or []}
        self._me = ""

    def close(self) -> None:
        self.api.close()

    # -- reading -----------------------------------------------------------------------------------------------

    def find(self, wanted: Wanted) -> NodeState | None:
        record.check_extras(wanted.extras, wanted.host)
        raw = self._by_name(wanted.key) or self._by_id(wanted.key)
        if raw is None:
            return self._enlisted(wanted)
        self._same_machine(raw, wanted)
        return self._state(raw)

    def _by_name(self, key: str) -> dict[str, Any] | None:
        short = key.partition(".")[0]
        found = [
            one
            for one in self.api.machines([("hostname", short)])
            if one.get("hostname") == short and key in (short, one.get("fqdn"))
        ]
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
        if not _SYSTEM_ID.fullmatch(key):
            return None
        found: dict[str, Any] | None = self.api.get(f"machines/{key}/")
        return found

    def _enlisted(self, wanted: Wanted) -> NodeState | None:
        """A machine that booted from the network before it was enrolled stands there as New, by a made-up name."""
        if not wanted.boot_mac:
            return None
        address = mac(wanted.boot_mac)
        found = [one for one in self.api.machines([("mac_address", address)]) if address in record.macs(one)]
        if not found:
            return None
        node = self._state(found[0])
        if found[0].get("status") == tables.NEW and not node.owner:
            return node
        raise Refused(
            f"MAAS does not know {wanted.key}, but its MAC belongs to a machine there",
            node=wanted.host,
            address=self.api.address,
            wanted=f"MAC {address} free, or the machine's own id",
            seen=f"machine {node.name} ({node.id}), {node.native}",
            do=f"set gpufleet_provisioner_id: {node.id}, or correct gpufleet_boot_mac",
        )

    def _same_machine(self, raw: Mapping[str, Any], wanted: Wanted) -> None:
        known = record.serial(raw)
        problem = ""
        if wanted.serial and known and known != wanted.serial:
            problem = f"serial {known}, not {wanted.serial}"
        addresses = record.macs(raw)
        if wanted.boot_mac and addresses and mac(wanted.boot_mac) not in addresses:
            problem = f"no card with MAC {mac(wanted.boot_mac)}"
        if problem:
            raise Refused(
                "the provisioner's node is another machine",
                node=wanted.host,
                address=self.api.address,
                seen=f"machine {raw.get('hostname')} ({raw.get('system_id')}) has {problem}",
                do="correct gpufleet_provisioner_id, gpufleet_serial or gpufleet_boot_mac in the inventory",
            )

    def reread(self, node: NodeState, wanted: Wanted) -> NodeState:
        raw = self.api.get(f"machines/{node.id}/")
        return node.moved(ABSENT, ABSENT) if raw is None else self._state(raw)

    def resolve(self, wanted: Sequence[Wanted]) -> dict[str, str]:
        """Names are looked up once; later polls ask by system id."""
        names = {one.key: one.key.partition(".")[0] for one in wanted}
        found: dict[str, str] = {}
        for raw in self._blocks([("hostname", name) for name in sorted(set(names.values()))]):
            for key in (str(raw.get("hostname")), str(raw.get("fqdn"))):
                found[key] = str(raw["system_id"])
        left = [key for key in names if key not in found and _SYSTEM_ID.fullmatch(key)]
        for raw in self._blocks([("id", key) for key in left]):
            found[str(raw["system_id"])] = str(raw["system_id"])
        return {one.host: found[one.key] for one in wanted if one.key in found}

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
            raise BadAnswer("a machine without system_id or status", address=self.api.address, seen=str(raw)[:300])
        number = raw["status"]
        native, state = tables.NUMBERS.get(number, (f"status {number}", OTHER))
        hold = record.token_in(str(raw.get("description") or ""))
        error = str(raw.get("error_description") or "")
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
            inspection=tables.INSPECTIONS.get(raw.get("commissioning_status", -1), "pending"),
            raw=raw,
        )

    def _foreign(self, raw: Mapping[str, Any], hold: str) -> str:
        owner = str(raw.get("owner") or "")
        if raw.get("locked") and not hold:
            return f"locked by somebody else (owner: {owner or 'nobody'})"
        if raw.get("status") == tables.BROKEN:
            return f"marked broken: {raw.get('error_description') or raw.get('status_message') or 'no reason given'}"
        if owner and owner not in self._owners and owner != self._whoami():
            return f"owner is {owner}"
        return ""

    def _whoami(self) -> str:
        if not self._me:
            user = self.api.get("users/", [("op", "whoami")])
            if not isinstance(user, dict) or not user.get("username"):
                raise BadAnswer("MAAS does not say whose key this is", address=self.api.address, seen=str(user)[:200])
            self._me = str(user["username"])
        return self._me

    # -- the record --------------------------------------------------------------------------------------------

    def enrol(self, wanted: Wanted, node: NodeState | None) -> tuple[NodeState, Changes]:
        return self._create(wanted) if node is None else self._update(wanted, node)

    def _create(self, wanted: Wanted) -> tuple[NodeState, Changes]:
        require({"boot_mac": wanted.boot_mac}, "boot_mac", node=wanted.host)
        name = (wanted.name or wanted.key).partition(".")[0]
        parameters = record.power_parameters(wanted)
        plain = {
            "hostname": name,
            "architecture": record.architecture(wanted),
            "mac_addresses": mac(wanted.boot_mac),
            "power_type": record.power_type(wanted),
        }
        self._can_boot(plain["architecture"], wanted)
        # Left out, `commission` is true for administrators: the machine would be booted by being enrolled.
        fields = [*plain.items(), *record.as_fields(parameters), ("commission", "false")]
        saying = f"hostname={name} mac_addresses={mac(wanted.boot_mac)}"
        raw = self.api.write("POST", "machines/", fields, saying=saying, host=wanted.host)
        after = {**plain, "power_parameters": record.shown(parameters)}
        if raw is None:
            native, state = tables.NUMBERS[tables.NEW]
            return NodeState(id="", name=name, native=native, state=state), Changes({}, after)
        node, changes = self._update(wanted, self._state(raw), power=False)
        return node, Changes(changes.before, {**after, **changes.after}, changes.deferred)

    def _can_boot(self, architecture: str, wanted: Wanted) -> None:
        resources = self.api.get("boot-resources/")
        kind = architecture.partition("/")[0]
        known = {str(one.get("architecture", "")).partition("/")[0] for one in resources or [] if isinstance(one, dict)}
        if kind not in known:
            raise Refused(
                f"MAAS has no boot image for {kind}",
                node=wanted.host,
                address=self.api.address,
                seen=f"images for {', '.join(sorted(known)) or 'nothing'}",
                do="let MAAS import its images first; without one it takes no machine of that architecture",
            )

    def _update(self, wanted: Wanted, node: NodeState, *, power: bool = True) -> tuple[NodeState, Changes]:
        before: dict[str, Any] = {}
        after: dict[str, Any] = {}
        fields: list[tuple[str, str]] = []
        name = (wanted.name or wanted.key).partition(".")[0]
        if node.raw.get("status") == tables.NEW and node.name != name and not _SYSTEM_ID.fullmatch(wanted.key):
            before["hostname"], after["hostname"] = node.name, name
            fields.append(("hostname", name))
        for field, value in record.fields(wanted).items():
            if record.standing(node.raw, field) != value:
                before[field], after[field] = record.standing(node.raw, field), value
                fields.append((field, value))
        if power:
            fields += self._power_changes(wanted, node, before, after)
        if not fields:
            return node, Changes()
        raw = self.api.write(
            "PUT", f"machines/{node.id}/", fields, saying=" ".join(key for key, _value in fields), host=wanted.host
        )
        if raw is None:
            return node, Changes(before, after)
        written = self.reread(node, wanted)
        self._proven(written, after, wanted)
        return written, Changes(before, after)

    def _proven(self, node: NodeState, after: Mapping[str, Any], wanted: Wanted) -> None:
        """MAAS ignores fields that it does not know, with 200."""
        for field in set(after) & {theirs for theirs, _path in tables.PROPERTIES.values()}:
            if record.standing(node.raw, field) != after[field]:
                raise NotProven(
                    f"MAAS took the change of {field}, and it does not read back",
                    node=wanted.host,
                    wanted=str(after[field]),
                    seen=record.standing(node.raw, field),
                )

    def _power_changes(
        self, wanted: Wanted, node: NodeState, before: dict[str, Any], after: dict[str, Any]
    ) -> list[tuple[str, str]]:
        """The BMC's login, where it differs. The only read of secrets, and they stay in here."""
        settled = node.raw.get("status") in tables.POWER_SETTLED
        if not wanted.bmc.get("bmc_address") or (settled and not wanted.update_password):
            return []
        parameters = record.power_parameters(wanted)
        known = self.api.get(f"machines/{node.id}/", [("op", "power_parameters")])
        standing = known if isinstance(known, dict) else {}
        differing = {key: value for key, value in parameters.items() if str(standing.get(key, "")) != value}
        fields = record.as_fields(differing)
        kind = record.power_type(wanted)
        if node.raw.get("power_type") != kind:
            before["power_type"], after["power_type"] = node.raw.get("power_type"), kind
            fields = [("power_type", kind), *record.as_fields(parameters)]
            differing = parameters
        if differing:
            before["power_parameters"] = record.shown({key: standing.get(key) for key in differing})
            after["power_parameters"] = {
                key: f"{value} (changed)" if value == record.MASK else value
                for key, value in record.shown(differing).items()
            }
        return fields

    def annotate(self, node: NodeState, wanted: Wanted) -> Changes:
        standing = node.raw.get("workload_annotations") or {}
        differing = {key: value for key, value in wanted.annotations.items() if str(standing.get(key, "")) != value}
        if not differing:
            return Changes()
        if node.raw.get("status") not in tables.ANNOTATABLE:
            return Changes(deferred=tuple(sorted(differing)))
        self.api.write(
            "POST",
            f"machines/{node.id}/",
            list(differing.items()),
            op="set_workload_annotations",
            saying=" ".join(differing),
            host=wanted.host,
        )
        return Changes({key: standing.get(key, "") for key in differing}, differing)

    # -- steps -------------------------------------------------------------------------------------------------

    def facts(self, node: NodeState, wanted: Wanted) -> Mapping[str, bool]:
        series = record.series(wanted.image, wanted.extras)
        current = not series or record.same_series(series, record.running(node.raw))
        if current and wanted.image is not None:
            noted = record.noted(node.raw)
            current = wanted.image.is_noted(noted) if noted else not wanted.image.deploy_id
        return {"image_current": current and not wanted.redeploy}

    def start(self, step: str, node: NodeState, wanted: Wanted) -> None:
        fields = _FIELDS[step](self, wanted)
        if step == tables.DEPLOY and wanted.image is not None:
            self._acquire(node, wanted)
        self.api.write(
            "POST",
            f"machines/{node.id}/",
            fields,
            op=step,
            saying=" ".join(f"{key}={value}" for key, value in fields),
            host=wanted.host,
            destructive=True,
        )

    def _acquire(self, node: NodeState, wanted: Wanted) -> None:
        """Take the machine and note beside it which deployment is about to begin.

        The note stands before the machine can be Deployed, so that a run that was killed knows its own deployment
        again. MAAS drops it with the release.
        """
        if node.raw.get("status") == tables.READY_NUMBER:
            self.api.write(
                "POST",
                "machines/",
                [("system_id", node.id)],
                op="allocate",
                saying=f"system_id={node.id}",
                host=wanted.host,
                destructive=True,
            )
        noted = record.noted(node.raw)
        assert wanted.image is not None
        fields = record.notes(wanted.image)
        if any(noted.get(key) != value for key, value in wanted.image.identity().items()):
            self.api.write(
                "POST",
                f"machines/{node.id}/",
                fields,
                op="set_workload_annotations",
                saying=" ".join(key for key, _value in fields),
                host=wanted.host,
                destructive=True,
            )

    def _commission_fields(self, wanted: Wanted) -> list[tuple[str, str]]:
        return record.options(wanted.extras, tables.COMMISSION_OPTIONS)

    def _release_fields(self, wanted: Wanted) -> list[tuple[str, str]]:
        # Without a word on erasing: `erase=0` would erase.
        return [("erase", "true")] if wanted.erase else []

    def _deploy_fields(self, wanted: Wanted) -> list[tuple[str, str]]:
        series = record.series(wanted.image, wanted.extras)
        if not series:
            require({"image": None}, "image", node=wanted.host)
        if "distro_series" not in wanted.extras:
            self._uploaded(wanted)
        return [("distro_series", series), *record.options(wanted.extras, tables.DEPLOY_OPTIONS)]

    def _uploaded(self, wanted: Wanted) -> None:
        """MAAS verifies no signature: what it holds must be the very file that was verified."""
        image = wanted.image
        assert image is not None
        resources = self.api.get("boot-resources/") or []
        mine = [one for one in resources if one.get("name") in (image.label, f"custom/{image.label}")]
        if not mine:
            raise Refused(
                f"MAAS has no image {image.label}",
                node=wanted.host,
                address=self.api.address,
                do=f"upload it: maas PROFILE boot-resources create name=custom/{image.label} sha256=... content@=FILE",
            )
        if not image.sha256:
            return
        held = self.api.get(f"boot-resources/{mine[0]['id']}/") or {}
        newest = max((held.get("sets") or {"": {}}).items())[1]
        digests = {str(file.get("sha256")) for file in (newest.get("files") or {}).values()}
        if image.sha256 not in digests:
            raise TrustError(
                f"MAAS's image {image.label} is not the file that the inventory names",
                node=wanted.host,
                address=self.api.address,
                wanted=image.sha256,
                seen=", ".join(sorted(digests)) or "no file",
                do="upload the verified file under this name",
            )

    # -- holds -------------------------------------------------------------------------------------------------

    def hold(self, node: NodeState, token: str, wanted: Wanted) -> None:
        """The description first: a locked machine takes no change."""
        if node.hold != token:
            if node.raw.get("locked"):
                self._lock("unlock", node, wanted)
            self._describe(node, token, wanted)
        if node.raw.get("status") in tables.LOCKABLE and (node.hold != token or not node.raw.get("locked")):
            self._lock("lock", node, wanted)

    def lift(self, node: NodeState, wanted: Wanted) -> None:
        if node.raw.get("locked"):
            self._lock("unlock", node, wanted)
        self._describe(node, "", wanted)

    def _describe(self, node: NodeState, token: str, wanted: Wanted) -> None:
        text = record.with_token(str(node.raw.get("description") or ""), token)
        self.api.write(
            "PUT",
            f"machines/{node.id}/",
            [("description", text)],
            saying=f"description {f'with {token}' if token else 'without our token'}",
            host=wanted.host,
        )

    def _lock(self, op: str, node: NodeState, wanted: Wanted) -> None:
        self.api.write("POST", f"machines/{node.id}/", op=op, host=wanted.host)


_FIELDS = {
    tables.COMMISSION: MaasDriver._commission_fields,
    tables.DEPLOY: MaasDriver._deploy_fields,
    tables.RELEASE: MaasDriver._release_fields,
}
