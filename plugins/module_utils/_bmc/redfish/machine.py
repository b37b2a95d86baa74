# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One system of one Redfish service: reads it, and writes to it. PRIVATE to the collection.

The capabilities (power.py, boot.py, identity.py) stand on it; it knows none of them. What is read is taken as the
documents it is: sushy's classes raise outside their own exceptions on recorded BMCs (a null root, a collection
without members), drop what they do not know (a vendor's reset types), and assume that all is allowed where a list is
missing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import contract as c
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.quirks import Quirk, matching, names_fact
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish import answers, quirks, select
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish import link as links
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish import task as tasks
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish.pin import Pin, demand_tls
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    BadAnswer,
    DeadlineExceeded,
    FleetError,
    Refused,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context

#: What was read so many seconds ago, with no write since, is one look at the machine together with the next read.
SAME_LOOK = 1.0
#: How often, and how long, a write is offered again to a BMC that says "not now".
_AGAIN_SECONDS = 5.0
_SETTLE_SECONDS = 10.0
_AGAIN_TIMEOUT = 180.0
_ROOT = "/redfish/v1/"


class Seen(NamedTuple):
    """A resource, its tag, and when it was read."""

    at: float
    doc: dict[str, Any]
    etag: str


class Machine:
    """The machine as its Redfish service shows it."""

    def __init__(self, params: Mapping[str, Any], ctx: Context) -> None:
        self.address = links.base_url(str(params["bmc_address"]))
        self._params = params
        self._ctx = ctx
        self._deadline = time.monotonic() + float(params.get("timeout") or 300.0)
        verify, ca_path = params.get("bmc_verify_tls"), params.get("bmc_ca_path") or None
        self.pin = Pin(str(params.get("bmc_tls_fingerprint") or ""), self.address)
        # A certificate that is fixed needs nobody to vouch for it; an authority that is named is asked all the same.
        by_authority = (verify is None or bool(verify)) and (bool(ca_path) or not self.pin.vouches)
        if by_authority:
            demand_tls(self.address)
        self.link = links.Link(
            self.address,
            str(params["bmc_username"]),
            str(params["bmc_password"]),
            context=links.tls_context(ca_path, by_authority),
            auth=str(params.get("bmc_auth") or ""),
            pin=self.pin,
            wait=ctx.wait,
            deadline=self._deadline,
            silence=float(params.get("silence") or links.READ_SECONDS),
        )
        self._root: dict[str, Any] | None = None
        self._uri = ""
        self._seen: dict[str, Seen] = {}
        self._settings: str | None = None
        self._quirks: dict[str, Quirk] | None = None
        #: Whether anything was sent: what was seen before it is no news any more.
        self.wrote = False

    # -- reading -----------------------------------------------------------------------------------------------

    @property
    def root(self) -> dict[str, Any]:
        """The service root."""
        if self._root is None:
            self._root = self.read(_ROOT)
        return self._root

    def read(self, uri: str) -> dict[str, Any]:
        return self.look(uri).doc

    def look(self, uri: str, *, max_age: float = 0.0) -> Seen:
        """A resource and its tag. What was read less than ``max_age`` seconds ago, and before any write, will do."""
        seen = self._seen.get(uri)
        if seen is None or time.monotonic() - seen.at > max_age:
            answer = self.link.get(uri)
            doc = answers.document(answer, f"{self.address}{uri}")
            # Some tell the tag in the header, some in the document alone.
            seen = Seen(time.monotonic(), doc, str(answer.headers.get("ETag") or doc.get("@odata.etag") or ""))
            self._seen[uri] = seen
        return seen

    @property
    def uri(self) -> str:
        """The machine's system, chosen once."""
        if not self._uri:
            asked = ("bmc_system_id", "serial", "system_uuid", "boot_mac")
            wanted, serial, system_uuid, mac = (str(self._params.get(name) or "") for name in asked)
            chosen = select.choose(
                self.root,
                self.read,
                wanted=wanted,
                serial=serial,
                system_uuid=system_uuid,
                mac=mac,
                where=self.address,
            )
            self._uri = select.link(chosen)
            if self._uri not in self._seen:  # the resource calls itself by another name than its collection does
                self._seen[self._uri] = Seen(time.monotonic(), chosen, str(chosen.get("@odata.etag") or ""))
        return self._uri

    def system(self, *, max_age: float = SAME_LOOK) -> dict[str, Any]:
        return self.look(self.uri, max_age=max_age).doc

    @property
    def settings(self) -> str:
        """Where the system's settings object lies; empty where it has none. It does not move."""
        if self._settings is None:
            found = select.settings_uri(self.system())
            self._settings = found if select.within(found, self.uri) else ""
        return self._settings

    def manager_uri(self) -> str:
        """The manager of the system, of several the first that can be read; empty where there is none."""
        managers = select.section(self.system(), "Links").get("ManagedBy")
        for item in managers if isinstance(managers, list) else []:
            try:
                self.look(select.link(item), max_age=SAME_LOOK)
            except FleetError:
                continue
            return select.link(item)
        return ""

    def bmc_firmware(self) -> str:
        uri = self.manager_uri()
        return str(self.look(uri, max_age=SAME_LOOK).doc.get("FirmwareVersion") or "") if uri else ""

    # -- what is known of its kind -----------------------------------------------------------------------------

    def rows(self) -> dict[str, Quirk]:
        """The rows of quirks.py that fit this BMC, by behaviour."""
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
            if names_fact(quirks.QUIRKS, "firmware"):
                facts["firmware"] = self.bmc_firmware()
            self._quirks = matching(quirks.QUIRKS, {key: str(value or "") for key, value in facts.items()})
        return self._quirks

    def quirk(self, behaviour: str) -> Any:
        """The value of the row that fits this BMC; None where there is none."""
        row = self.rows().get(behaviour)
        return row.value if row else None

    def _demand_ours(self, uri: str) -> None:
        """:raises BadAnswer: where the BMC has led us to a place that is no part of the machine's system."""
        if not select.within(uri.removeprefix(self.address), self.uri):
            raise BadAnswer(
                "the BMC leads to what is no part of the machine's system",
                address=self.address,
                wanted=self.uri,
                seen=short(uri, 200),
            )

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
        self._demand_ours(uri)
        what = f"{method} {self.address}{uri} {shown}"
        limit = min(max(settling, _AGAIN_TIMEOUT), max(0.0, self._deadline - time.monotonic()))

        def attempt() -> Any:
            if not self._ctx.may_write(what, destructive=destructive):
                return None
            tags = headers()
            self.wrote = True
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

    @property
    def late(self) -> bool:
        """Is the time of this task over?"""
        return time.monotonic() > self._deadline

    def close(self) -> None:
        left = self.link.close()
        if left:
            self._ctx.warnings.append(left)
