# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Redfish driver. PRIVATE to the collection.

sushy carries the requests (link.py), and its objects work on the same link. What is read and written here
is read as the documents it is: sushy's classes raise outside their own exceptions on recorded BMCs (a null root, a
collection without members), drop what they do not know (a task behind 202, an error inside 200, a vendor's reset
types), and assume that all is allowed where a list is missing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import contract as c
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.quirks import Quirk, matching, names_fact
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish import answers, boot, select
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish import link as links
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish import task as tasks
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    BadAnswer,
    DeadlineExceeded,
    FleetError,
    Refused,
    Unsupported,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context

_POWER_STATES = {"On": c.ON, "Off": c.OFF, "PoweringOn": c.CHANGING, "PoweringOff": c.CHANGING, "Paused": c.CHANGING}
#: ResetTypes that do what a kind of set_power asks, best first. What is missing is done by the verb in two steps.
_RESET_TYPES = {
    c.POWER_ON: ("On",),
    c.FORCE_OFF: ("ForceOff",),
    c.GRACEFUL_OFF: ("GracefulShutdown",),
    c.RESTART: ("ForceRestart", "PowerCycle", "GracefulRestart"),
}
#: How often, and how long, a write is offered again to a BMC that says "not now".
_AGAIN_SECONDS = 5.0
_SETTLE_SECONDS = 10.0
_AGAIN_TIMEOUT = 180.0
_ROOT = "/redfish/v1/"


class _Seen(NamedTuple):
    at: float
    doc: dict[str, Any]
    etag: str


class RedfishBmc(c.Bmc):
    """One system of one Redfish service."""

    def __init__(self, params: Mapping[str, Any], ctx: Context) -> None:
        self.address = links.base_url(str(params["bmc_address"]))
        self._params = params
        self._ctx = ctx
        self._deadline = time.monotonic() + float(params.get("timeout") or 300.0)
        verify = params.get("bmc_verify_tls")
        self.link = links.Link(
            self.address,
            str(params["bmc_username"]),
            str(params["bmc_password"]),
            context=links.tls_context(params.get("bmc_ca_path") or None, verify is None or bool(verify)),
            wait=ctx.wait,
            deadline=self._deadline,
        )
        self._root: dict[str, Any] | None = None
        self._uri = ""
        self._seen: dict[str, _Seen] = {}
        self._settings: str | None = None
        self._wrote = False
        self._resets: tuple[str, ...] | None | bool = False
        self._quirks: dict[str, Quirk] | None = None

    # -- reading -----------------------------------------------------------------------------------------------

    @property
    def root(self) -> dict[str, Any]:
        """The service root."""
        if self._root is None:
            self._root = self.read(_ROOT)
        return self._root

    def read(self, uri: str) -> dict[str, Any]:
        return self.look(uri).doc

    def look(self, uri: str, *, max_age: float = 0.0) -> _Seen:
        """A resource and its tag. What was read less than ``max_age`` seconds ago, and before any write, will do."""
        seen = self._seen.get(uri)
        if seen is None or time.monotonic() - seen.at > max_age:
            answer = self.link.get(uri)
            doc = answers.document(answer, f"{self.address}{uri}")
            seen = _Seen(time.monotonic(), doc, str(answer.headers.get("ETag") or ""))
            self._seen[uri] = seen
        return seen

    @property
    def uri(self) -> str:
        """The machine's system, chosen once."""
        if not self._uri:
            wanted = str(self._params.get("bmc_system_id") or "")
            chosen = select.choose(
                self.root,
                self.read,
                wanted=wanted,
                serial=str(self._params.get("serial") or ""),
                mac=str(self._params.get("boot_mac") or ""),
                where=self.address,
            )
            self._uri = select.link(chosen) or wanted
            if self._uri not in self._seen:  # the resource calls itself by another name than its collection does
                self._seen[self._uri] = _Seen(time.monotonic(), chosen, "")
        return self._uri

    def system(self, *, max_age: float = boot.SAME_LOOK) -> dict[str, Any]:
        return self.look(self.uri, max_age=max_age).doc

    @property
    def settings(self) -> str:
        """Where the system's settings object lies; empty where it has none. It does not move."""
        if self._settings is None:
            self._settings = select.settings_uri(self.system())
        return self._settings

    def quirk(self, behaviour: str) -> Any:
        """The value of the row that fits this BMC; None where there is none."""
        if self._quirks is None:
            root, system = self.root, self.system()
            facts = {
                "manufacturer": system.get("Manufacturer"),
                "model": system.get("Model") or root.get("Product"),
                "vendor": root.get("Vendor"),
                "product": root.get("Product"),
                "service": root.get("Name"),
                "service_uuid": root.get("UUID"),
            }
            if names_fact("redfish", "firmware"):
                facts["firmware"] = self._bmc_firmware()
            self._quirks = matching("redfish", {key: str(value or "") for key, value in facts.items()})
        row = self._quirks.get(behaviour)
        return row.value if row else None

    def power_state(self) -> str:
        # The look that chose the system is the first one; every later one asks anew.
        system = self.system(max_age=0.0 if self._uri else boot.SAME_LOOK)
        return _POWER_STATES.get(str(system.get("PowerState")), c.UNKNOWN)

    def restart_marker(self) -> str:
        return str(self.system().get("LastResetTime") or "")

    def identity(self) -> c.Identity:
        doc = self.system()
        told = {key: str(doc.get(name) or "") for key, name in _IDENTITY.items()}
        return c.Identity(**told, bmc_firmware=self._bmc_firmware())

    def _bmc_firmware(self) -> str:
        managers = select.section(self.system(), "Links").get("ManagedBy")
        for item in managers if isinstance(managers, list) else []:
            try:
                return str(self.read(select.link(item)).get("FirmwareVersion") or "")
            except FleetError:
                continue
        return ""

    def capabilities(self) -> c.Capabilities:
        self.quirk("")
        state = boot.read_state(self, max_age=boot.SAME_LOOK)
        offered = self.reset_types()
        return c.Capabilities(
            protocol="redfish",
            power=None if offered is None else tuple(kind for kind in _RESET_TYPES if self._reset_type(kind)),
            boot_targets=None if state.targets is None else tuple(boot.NAMES.get(name, name) for name in state.targets),
            boot_modes=None if state.modes is None else tuple(name.lower() for name in state.modes),
            http_boot_uri=boot.takes_uri(self, state),
            shows_boot_override=self.quirk("boot_readback") != "blind",
            quirks=tuple(sorted(row.name for row in (self._quirks or {}).values())),
        )

    # -- power -------------------------------------------------------------------------------------------------

    def reset_types(self) -> tuple[str, ...] | None:
        """What the BMC lists, in the action or its ActionInfo; None where it lists nothing."""
        if self._resets is False:
            action = select.reset_action(self.system())
            listed = action.get("ResetType@Redfish.AllowableValues")
            if not isinstance(listed, list) and isinstance(action.get("@Redfish.ActionInfo"), str):
                try:
                    listed = _allowed_in(self.read(action["@Redfish.ActionInfo"]))
                except (Unsupported, BadAnswer):
                    listed = None
            self._resets = tuple(str(name) for name in listed) if isinstance(listed, list) else None
        return None if isinstance(self._resets, bool) else self._resets

    def _reset_type(self, kind: str) -> str:
        listed = self.reset_types()
        never = self.quirk("power_never") or ()
        names = ((self.quirk("power_names") or {}).get(kind), *_RESET_TYPES[kind])
        # A list that is missing allows the two that every machine has, and nothing else.
        allowed = ("On", "ForceOff") if listed is None else listed
        return next((name for name in names if name and name in allowed and name not in never), "")

    def set_power(self, kind: str, *, destructive: bool) -> str:
        name = self._reset_type(kind)
        if not name:
            raise Unsupported(
                f"this BMC offers no reset that does {kind}",
                address=self.address,
                wanted=" or ".join(_RESET_TYPES[kind]),
                seen=", ".join(self.reset_types() or ()) or "no list",
                do="use another state of redfish_power",
            )
        target = str(select.reset_action(self.system())["target"])
        again = float(self.quirk("power_on_again") or 0.0) if kind == c.POWER_ON else 0.0
        answer = self.write(
            "POST", target, {"ResetType": name}, f"ResetType={name}", destructive=destructive, settling=again
        )
        return c.WITHHELD if answer is None else c.SENT

    # -- boot --------------------------------------------------------------------------------------------------

    def boot_override(self) -> c.BootOverride:
        return boot.read_state(self, max_age=0.0 if self._wrote else boot.SAME_LOOK).override

    def check_boot(self, target: str, mode: str, uri: str) -> None:
        boot.check(self, boot.read_state(self, max_age=boot.SAME_LOOK), target, mode, uri)

    def set_boot_once(self, target: str, mode: str, uri: str) -> str:
        return boot.set_once(self, target, mode, uri)

    # -- writing -----------------------------------------------------------------------------------------------

    def write(
        self,
        method: str,
        uri: str,
        body: Mapping[str, Any],
        shown: str,
        *,
        destructive: bool,
        headers: Callable[[], dict[str, str]] = dict,
        settling: float = 0.0,
    ) -> Any:
        """Ask, send, follow the task; None where the gate said no. "Not now" is asked again, each time by the gate.

        :param shown: the body in words fit for a log.
        :param settling: seconds for which a conflict with a state that still settles counts as "not now".
        """
        what = f"{method} {self.address}{uri} {shown}"
        limit = min(max(settling, _AGAIN_TIMEOUT), max(0.0, self._deadline - time.monotonic()))

        def attempt() -> Any:
            if not self._ctx.may_write(what, destructive=destructive):
                return None
            tags = headers()
            self._wrote = True
            self._seen.clear()
            try:
                return self.link.send(method, uri, dict(body), tags)
            except c.NotNow as exc:
                return exc
            except Refused as exc:
                if settling and exc.details.get("meaning") == answers.SETTLING:
                    return exc
                raise

        answer = attempt()
        if isinstance(answer, FleetError):
            answer = self._offered_again(attempt, answer, limit)
        if answer is not None and answer.status_code == 202:
            tasks.follow(self.link, answer, self._ctx, deadline=self._deadline)
        return answer

    def _offered_again(self, attempt: Callable[[], Any], first: FleetError, limit: float) -> Any:
        pause = max(_AGAIN_SECONDS, first.after if isinstance(first, c.NotNow) else _SETTLE_SECONDS)
        problems: list[FleetError] = []

        def next_turn() -> Any:
            answer = attempt() if problems else first  # the wait begins with a pause
            if isinstance(answer, FleetError):
                problems.append(answer)
            return answer

        try:
            return self._ctx.wait(
                next_turn,
                lambda answer: not isinstance(answer, FleetError),
                timeout=limit,
                interval=pause,
                wanted="the BMC to take the request",
            )
        except DeadlineExceeded as exc:
            raise problems[-1] from exc

    def close(self) -> None:
        self.link.close()


_IDENTITY = {"serial": "SerialNumber", "uuid": "UUID", "manufacturer": "Manufacturer", "model": "Model"}


def _allowed_in(info: Mapping[str, Any]) -> list[Any] | None:
    parameters = info.get("Parameters")
    for item in parameters if isinstance(parameters, list) else []:
        if isinstance(item, dict) and item.get("Name") == "ResetType" and isinstance(item.get("AllowableValues"), list):
            return list(item["AllowableValues"])
    return None
