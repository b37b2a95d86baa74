# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The MAAS driver. PRIVATE to the collection.

MAAS neither reverts power that others switch nor has a maintenance. A hold of ours is a line in the machine's
description, which people see and which outlives a release, and a lock where MAAS has one (deployed machines).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _deployment as deployment
from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import require
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError, NotProven, Unsupported
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import stored
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import Changes, NodeState, mac
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.maas import (
    bmcs,
    images,
    marks,
    record,
    tables,
    upload,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.maas.find import SYSTEM_ID, MaasReader
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.maas.prerequisites import lacking
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.meanwhile import Judged
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.stored import Opened, Stored
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.switching import OFF, ON
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Image, Wanted


class MaasDriver(MaasReader):
    name = "maas"
    states_map = tables.STATES
    steps = tables.STEPS
    leads_to = tables.LEADS_TO
    destructive = tables.DESTRUCTIVE
    orders = tables.ORDERS
    works = tables.WORKS
    busy = tables.BUSY
    settled = tables.SETTLED
    carrying = tables.CARRYING
    deploy_proof = deployment.NONCE
    takes_images = True
    image_proof = stored.DIGEST
    switches = True

    # -- the record --------------------------------------------------------------------------------------------

    def enrol(self, wanted: Wanted, node: NodeState | None) -> tuple[NodeState, Changes]:
        made, changes = self._create(wanted) if node is None else self._update(wanted, node)
        return self._tagged(wanted, made, changes)

    def _tagged(self, wanted: Wanted, node: NodeState, changes: Changes) -> tuple[NodeState, Changes]:
        """The site's tags bring kernel options, and say who takes a machine. Others than those wanted stay."""
        standing = [str(one) for one in node.raw.get("tag_names") or []]
        lacking = marks.lacking(wanted.extras, standing)
        if not lacking:
            return node, changes
        self._no(wanted, marks.untakeable(self.api, lacking))
        if node.id and not self.ctx.check_mode:
            for tag in lacking:
                marks.give(self.api, tag, node.id, wanted.host)
            node = self.reread(node, wanted)
            self._no(wanted, marks.not_given(node.raw, lacking))
        before = {**changes.before, "tags": standing}
        return node, Changes(before, {**changes.after, "tags": [*standing, *lacking]}, changes.deferred)

    def _create(self, wanted: Wanted) -> tuple[NodeState, Changes]:
        require({"boot_mac": wanted.boot_mac}, "boot_mac", node=wanted.host)
        name, _dot, domain = (wanted.name or wanted.key).partition(".")
        parameters = record.power_parameters(wanted)
        plain = {
            "hostname": name,
            "architecture": record.architecture(wanted),
            "mac_addresses": mac(wanted.boot_mac),
            "power_type": record.power_type(wanted),
            **marks.kernel(wanted.extras, {}),
        }
        if domain and not wanted.properties.get("domain") and domain in self._domains():
            plain["domain"] = domain
        if not self.ctx.check_mode:  # there `undeployable` says it, and who only looks, as an adoption does, goes on
            kind = images.kind_of(plain["architecture"])
            self._no(wanted, images.no_boot_image(self.api, images.listed(self.api), kind))
        self._no(wanted, marks.no_dpu(wanted.extras, plain["architecture"]))
        self._no(wanted, marks.unknown_there(self.api, wanted.extras))
        bmcs.demand_free(self, wanted, parameters, {}, "")
        # Left out, `commission` is true for administrators: the machine would be booted by being enrolled.
        fields = [*plain.items(), *marks.as_dpu(wanted.extras), *record.as_fields(parameters), ("commission", "false")]
        saying = f"hostname={name} mac_addresses={mac(wanted.boot_mac)}"
        raw = self.api.write("POST", "machines/", fields, saying=saying, host=wanted.host)
        after = {**plain, "power_parameters": record.shown(parameters)}
        if raw is None:
            native, state = tables.NUMBERS[tables.NEW]
            return NodeState(id="", name=name, native=native, state=state), Changes({}, after)
        node, changes = self._update(wanted, self._state(raw), power=False)
        return node, Changes(changes.before, {**after, **changes.after}, changes.deferred)

    def _domains(self) -> set[str]:
        """One that MAAS does not know is somebody else's to serve: the machine stands in MAAS's own then."""
        known = self.api.get("domains/")
        return {str(one.get("name")) for one in known or () if isinstance(one, dict)}

    def _update(self, wanted: Wanted, node: NodeState, *, power: bool = True) -> tuple[NodeState, Changes]:
        before: dict[str, Any] = {}
        after: dict[str, Any] = {}
        fields: list[tuple[str, str]] = []
        name = (wanted.name or wanted.key).partition(".")[0]
        if node.raw.get("status") == tables.NEW and node.name != name and not SYSTEM_ID.fullmatch(wanted.key):
            before["hostname"], after["hostname"] = node.name, name
            fields.append(("hostname", name))
        for field, value in {**record.fields(wanted), **marks.kernel(wanted.extras, node.raw)}.items():
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
        for field in set(after) & set(record.PATHS):
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
        if not wanted.bmc.get("bmc_address"):
            return []
        parameters = record.power_parameters(wanted)
        known = self.api.get(f"machines/{node.id}/", [("op", "power_parameters")])
        standing = known if isinstance(known, dict) else {}
        differing = {key: value for key, value in parameters.items() if str(standing.get(key, "")) != value}
        bmcs.demand_free(self, wanted, differing, standing, node.id)
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
        self._no(wanted, record.odd_keys(wanted.annotations))
        standing = node.raw.get("workload_annotations") or {}
        differing = {key: value for key, value in wanted.annotations.items() if str(standing.get(key, "")) != value}
        if not differing:
            return Changes()
        # A locked one takes none, also where the lock is our own hold.
        if node.raw.get("status") not in tables.ANNOTATABLE or node.raw.get("locked"):
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
        return {"image_current": current and not wanted.redeploy, "overridden": marks.overridden(node.raw, wanted)}

    def begun(self, node: NodeState) -> str:
        """Tests of a deployed machine leave its deployment as it was, and get a result of their own."""
        return f"{super().begun(node)}/{node.raw.get('current_testing_result_id')}"

    def undeployable(self, wanted: Wanted, node: NodeState | None) -> FleetError | None:
        odd = record.odd_keys(wanted.annotations) or marks.undeclared(node.raw if node else {}, wanted.extras)
        if odd is not None:
            return odd
        resources = images.listed(self.api)
        standing = node.raw.get("architecture") if node is not None else ""
        kind = images.kind_of(standing or record.architecture(wanted))
        return images.no_boot_image(self.api, resources, kind) or images.not_uploaded(self.api, resources, wanted, kind)

    @staticmethod
    def _no(wanted: Wanted, why: FleetError | None) -> None:
        if why is not None:
            raise why.located(node=wanted.host)

    def other_bytes(self, wanted: Wanted) -> str:
        """A stock image is MAAS's own, and of a custom one nothing but its SHA-256 tells whether it is the verified."""
        own = record.own_series(wanted.extras)
        if own:
            return f"driver.distro_series says by itself what is deployed: {own}"
        if wanted.image is not None and not wanted.image.sha256:
            return f"no sha256 in gpufleet_image: what lies at MAAS as custom/{wanted.image.label} may be any file"
        return ""

    def prerequisites(self, nodes: Sequence[tuple[Wanted, NodeState | None]]) -> list[tuple[str, FleetError]]:
        return list(lacking(self.api, nodes, self.undeployable))

    def start(self, step: str, node: NodeState, wanted: Wanted) -> None:
        fields = _FIELDS[step](self, wanted) if step in _FIELDS else []
        self._no(wanted, marks.undeclared(node.raw, wanted.extras))
        self._no(wanted, self._without_power(wanted) if step in tables.BOOTED else None)
        self._no(wanted, marks.not_erasable(node.raw) if step == tables.RELEASE and wanted.erase else None)
        if step == tables.DEPLOY:  # right before the order: what lies at MAAS may be another file by now
            self._no(wanted, self.undeployable(wanted, node))
        judged = Judged(self, node, wanted)
        if step == tables.DEPLOY and wanted.image is not None:
            with self.ctx.ordering(""):
                judged = self._acquire(node, wanted, wanted.image, judged)
        self.api.write(
            "POST",
            f"machines/{node.id}/",
            fields,
            op=step,
            saying=" ".join(f"{key}={value}" for key, value in fields if key != "user_data"),
            host=wanted.host,
            destructive=True,
            still=judged.demand,
        )

    def _without_power(self, wanted: Wanted) -> FleetError | None:
        host = str(wanted.extras.get("dpu_host") or "")
        if not host:
            return None
        raw = self._by_id(host) or self._by_name(host)
        return marks.without_power(host, self.power_of(self._state(raw)) if raw else None, self.address)

    def _acquire(self, node: NodeState, wanted: Wanted, image: Image, judged: Judged) -> Judged:
        """Take the machine and note beside it which deployment is about to begin.

        The note stands before the machine can be Deployed, so that a run that was killed knows its own deployment
        again. MAAS drops it with the release.

        :return: the machine as it is then.
        """
        if node.raw.get("status") == tables.READY_NUMBER:
            taken = self.api.write(
                "POST",
                "machines/",
                [("system_id", node.id)],
                op="allocate",
                saying=f"system_id={node.id}",
                host=wanted.host,
                destructive=True,
                still=judged.demand,
            )
            judged = judged if taken is None else Judged(self, self._state(taken), wanted)
        noted = record.noted(node.raw)
        fields = record.notes(image)
        if any(noted.get(key) != value for key, value in image.identity().items()):
            self.api.write(
                "POST",
                f"machines/{node.id}/",
                fields,
                op="set_workload_annotations",
                saying=" ".join(key for key, _value in fields),
                host=wanted.host,
                destructive=True,
                still=judged.demand,
            )
        return judged

    def _commission_fields(self, wanted: Wanted) -> list[tuple[str, str]]:
        return record.options(wanted.extras, tables.COMMISSION_OPTIONS)

    def _test_fields(self, wanted: Wanted) -> list[tuple[str, str]]:
        """``none`` is a word of commissioning alone; here it is no script, and without any MAAS runs its own."""
        given = record.options(wanted.extras, tables.TEST_OPTIONS)
        return [(key, value) for key, value in given if value != "none"]

    def _release_fields(self, wanted: Wanted) -> list[tuple[str, str]]:
        # Without a word on erasing: `erase=0` would erase, and so would how it is to be done, alone.
        how = record.options(wanted.extras, tables.ERASE_OPTIONS)
        return [("erase", "true"), *how] if wanted.erase else []

    def _deploy_fields(self, wanted: Wanted) -> list[tuple[str, str]]:
        series = record.series(wanted.image, wanted.extras)
        if not series:
            require({"image": None}, "image", node=wanted.host)
        told = record.user_data(wanted.image) if wanted.image is not None else []
        return [("distro_series", series), *record.options(wanted.extras, tables.DEPLOY_OPTIONS), *told]

    # -- power -------------------------------------------------------------------------------------------------

    def power_of(self, node: NodeState) -> str:
        """Asked of the BMC now; what stands in the record is what MAAS was told when it looked last.

        :raises Unsupported: of a machine whose power a person switches.
        """
        if node.raw.get("power_type") in tables.BY_HAND:
            raise Unsupported(
                "MAAS switches no power of this machine",
                node=node.name,
                address=self.address,
                seen=f"its power type is {node.raw.get('power_type') or 'not set'}",
                do="give it its BMC there (provisioner_node with state enrolled and update_password always); nothing"
                " was changed",
            )
        told = self.api.get(f"machines/{node.id}/", [("op", "query_power_state")])
        return str((told or {}).get("state") or "unknown")

    def demand_switchable(self, goals: Sequence[str], node: NodeState, wanted: Wanted) -> None:
        self._no(wanted, marks.not_startable(node.raw, self.address) if ON in goals else None)

    def switch(self, state: str, node: NodeState, wanted: Wanted) -> None:
        fields = [("stop_mode", "hard")] if state == OFF else []
        self.api.write(
            "POST",
            f"machines/{node.id}/",
            fields,
            op=f"power_{state}",
            saying=" ".join(f"{key}={value}" for key, value in fields),
            host=wanted.host,
            destructive=state == OFF,
            still=Judged(self, node, wanted).demand,
        )

    # -- images ------------------------------------------------------------------------------------------------

    def stored_image(self, wanted: Wanted) -> Stored:
        record.check(wanted)
        return upload.stored(self.api, wanted, self._image(wanted))

    def bring_image(self, wanted: Wanted, there: Stored, opened: Opened) -> None:
        upload.bring(self.api, self.ctx, wanted, self._image(wanted), there, opened)

    @staticmethod
    def _image(wanted: Wanted) -> Image:
        require({"image": wanted.image}, "image", node=wanted.host)
        return cast(Image, wanted.image)

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
    tables.TEST: MaasDriver._test_fields,
}
