# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests to Warewulf's REST API and to its list of who fetched what. PRIVATE to the collection.

What is known of it, and why the code is as it is:

* The API came with 4.6.1, and what is asked of it here with 4.6.3. Where it is not enabled its addresses are 404 in
  plain words; of a node that is not there the 404 is JSON. Only the second one says that there is no such node.
* 401 is a wrong login. 403 comes before any login: the API takes no address but those of its allowed subnets, and where
  it is told to demand TLS, no plain HTTP.
* A field that it does not know is taken with 200, and is nothing.
* Each write loads nodes.conf, changes it and saves it, without a lock: of two at once one may be lost, though both were
  answered 200. So they are sent one at a time, and read back.
* ``/status`` is open to all, and is kept in memory alone.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import require
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bounded import asked, bounded_session
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    AuthFailed,
    BadAnswer,
    FleetError,
    MissingLibrary,
    Refused,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import keep_secret
from ansible_collections.gpufleet.baremetal.plugins.module_utils._transport import Clock, Peer, cause, said, short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context

_MISSING: str | None = None
try:
    import requests
except ImportError:
    _MISSING = traceback.format_exc()

#: Seconds for one answer. Overlays are built while it is waited for.
TIMEOUT = 120.0

_PEER = Peer(
    "Warewulf",
    reach="check gpufleet_provisioner_url, the network, and that warewulfd runs",
    trust="set gpufleet_provisioner_ca_path to the CA that vouches for it (the server's warewulf.crt)",
    login="check gpufleet_provisioner_username and gpufleet_provisioner_password against the server's auth.conf",
    setting="gpufleet_provisioner_url",
)
#: Fields of a node's record, by which an answer is known as one. All of them may be absent.
_FIELDS = frozenset(
    (
        *("profiles", "comment", "cluster name", "image name", "ipxe template", "runtime overlay", "system overlay"),
        *("kernel", "ipmi", "init", "root", "network devices", "tags", "primary network", "disks", "filesystems"),
        *("resources", "asset key", "discoverable"),
    )
)

_STATUS = "status"

Record = dict[str, Any]


class Seen(NamedTuple):
    """What a node asked the server for last: the server's time, the stage, and what was sent."""

    at: int = 0
    stage: str = ""
    sent: str = ""


class WarewulfApi:
    """GET, and writes that ask first."""

    def __init__(self, params: Mapping[str, Any], ctx: Context, *, timeout: float = TIMEOUT) -> None:
        if _MISSING:
            raise MissingLibrary("requests", why="it speaks to Warewulf", cause=_MISSING)
        require(params, "provisioner_url", "provisioner_username", "provisioner_password", node=ctx.node)
        self._ctx = ctx
        user, password = (str(params[f"provisioner_{key}"]) for key in ("username", "password"))
        keep_secret(password)
        self.address = str(params["provisioner_url"]).rstrip("/").removesuffix("/api")
        self.clock = Clock()
        #: Seconds by which its clock was ahead of ours when it was last asked what nodes asked for.
        self.ahead = 0.0
        self._timeout = timeout
        self._session = bounded_session(requests.Session())
        self._session.auth = requests.auth.HTTPBasicAuth(user.encode(), password.encode())
        ca_path = params.get("provisioner_ca_path")
        self._session.verify = _PEER.verified_by(self.address, ca_path, "gpufleet_provisioner_ca_path")
        _PEER.demand_tls(self.address)

    # -- reading -----------------------------------------------------------------------------------------------

    def nodes(self) -> dict[str, Record]:
        """All nodes, each with what its profiles say."""
        return self._many("nodes/")

    def profiles(self) -> dict[str, Record]:
        return self._many("profiles/")

    def node(self, name: str, part: str = "") -> Record | None:
        """One node with what its profiles say; with ``/raw`` what stands in its own record."""
        path = f"nodes/{quote(name, safe='')}{part}"
        return self._one(path, self._get(path), _FIELDS)

    def overlays(self, name: str) -> dict[str, Record]:
        """Which overlays a node has, and when the image of them was made."""
        path = f"nodes/{quote(name, safe='')}/overlays"
        found = self._one(path, self._get(path), {"system overlay", "runtime overlay"})
        return {} if found is None else found

    def images(self) -> dict[str, Record]:
        return self._many("images/")

    def image(self, name: str) -> Record | None:
        path = f"images/{quote(name, safe='')}"
        return self._one(path, self._get(path), {"buildtime"})

    def overlay(self, name: str) -> Record | None:
        """Which files an overlay has, and whether the site has made it."""
        path = f"overlays/{quote(name, safe='')}"
        return self._one(path, self._get(path), {"files", "site"})

    def overlay_file(self, name: str, path: str) -> str:
        """What stands in a file that the overlay has; its path is decoded twice there."""
        asked_for = f"overlays/{quote(name, safe='')}/file?path={quote(quote(path, safe=''), safe='')}"
        found = self._one(asked_for, self._get(asked_for), {"contents"})
        return str((found or {}).get("contents") or "")

    def seen(self) -> dict[str, Seen]:
        """What each node asked for last."""
        found = self._answered("GET", _STATUS, api=False)
        nodes = found.get("nodes") if isinstance(found, dict) else None
        if not isinstance(nodes, dict) or not all(isinstance(one, dict) for one in nodes.values()):
            raise self._odd("GET status", found)
        return {str(name): _seen(one) for name, one in nodes.items()}

    def _get(self, path: str) -> Any:
        return self._answered("GET", path)

    def _many(self, path: str) -> dict[str, Record]:
        found = self._get(path)
        if not isinstance(found, dict) or not all(isinstance(one, dict) for one in found.values()):
            raise self._odd(f"GET {path}", found)
        for one in found.values():
            _hide(one)
        return found

    def _one(self, path: str, found: Any, fields: frozenset[str] | set[str]) -> Record | None:
        if found is None:
            return None
        if not isinstance(found, dict) or (found and not fields & set(found)):
            raise self._odd(f"GET {path}", found)
        _hide(found)
        return found

    def _odd(self, request: str, found: Any) -> FleetError:
        """Nothing of a record is shown: it may hold the password of a BMC."""
        return BadAnswer(
            f"{request}: not what Warewulf answers",
            address=self.address,
            wanted="its records",
            seen=f"a mapping with {len(found)} keys" if isinstance(found, dict) else type(found).__name__,
            do=f"correct {_PEER.setting}, if another program than Warewulf answers there",
        )

    # -- writing -----------------------------------------------------------------------------------------------

    def write(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        saying: str = "",
        host: str,
        destructive: bool = False,
        new: bool = False,
        last: Callable[[], None] | None = None,
        timeout: float = 0.0,
    ) -> bool:
        """One write; False in check mode. What it answers is not believed: who writes reads back.

        :param new: only where there is nothing of that name yet.
        :param last: looks once more, after the leave to write has come.
        :param timeout: seconds for its answer, where it takes longer than others.
        """
        what = f"{method} {self.address}/api/{path} {saying}".rstrip()
        if not self._ctx.may_write(what, destructive=destructive, nodes=(host,)):
            return False
        if last is not None:
            last()
        self._ctx.renew()
        self._ctx.allowed.clear()
        headers = {"If-None-Match": "*"} if new else None
        if self._answered(method, path, body, headers, timeout=timeout) is None:
            raise Refused(f"Warewulf does not know {path}", address=self.address, seen="HTTP 404")
        return True

    # -- one request -------------------------------------------------------------------------------------------

    def _answered(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        *,
        api: bool = True,
        timeout: float = 0.0,
    ) -> Any:
        """The JSON of an answer; None where it says that there is no such thing."""
        try:
            answer = self.clock.timed(
                lambda: asked(
                    self._session,
                    method,
                    f"{self.address}/{'api/' if api else ''}{path}",
                    address=self.address,
                    json=body,
                    headers=headers or {},
                    timeout=timeout or self._timeout,
                    allow_redirects=False,
                )
            )
        except requests.exceptions.RequestException as exc:
            raise _PEER.unreached(self.address, exc, cause(exc), timeout=timeout or self._timeout) from exc
        code = answer.status_code
        if code == 404 and _says_not_found(answer):
            return None
        if code >= 300:
            raise self._judged(answer, method, path)
        if path == _STATUS:
            self.ahead = self.clock.ahead[0] if self.clock.ahead else 0.0
        return self._json(answer, f"{method} {path}") if method == "GET" else True

    def _json(self, answer: Any, request: str) -> Any:
        try:
            return answer.json()
        except (ValueError, RecursionError) as exc:
            raise _PEER.no_json(
                self.address, request, answer.status_code, "", kind=answer.headers.get("Content-Type")
            ) from exc

    def _judged(self, answer: Any, method: str, path: str) -> FleetError:
        code = answer.status_code
        if code == 401:
            return _PEER.login_refused(self.address)
        if code == 403 and method != "GET":  # who is not let in is not let read before this
            return Refused(
                f"this login may read at Warewulf, and not write: {method} {path}",
                address=self.address,
                wanted="the right to write",
                seen="HTTP 403",
                do="Warewulf's API has no rights of its own: let the proxy, or whatever else stands before it, pass on"
                " PUT, PATCH, POST and DELETE; this was not done",
            )
        if code == 403:
            return AuthFailed(
                "Warewulf's API takes no requests from here",
                address=self.address,
                seen="HTTP 403",
                do="in the server's warewulf.conf add this machine to 'allowed subnets' under 'api', and restart"
                " warewulfd; where TLS is demanded there, say https and its TLS port in gpufleet_provisioner_url",
            )
        if code == 404 and method == "GET":
            return BadAnswer(
                f"{method} {path}: nothing is served there",
                address=self.address,
                seen="HTTP 404",
                details=_PEER.elsewhere(),
                do="say 'enabled: true' under 'api' in the server's warewulf.conf and restart warewulfd (its API came"
                f" with 4.6.1, this part of it with 4.6.3), or correct {_PEER.setting}",
            )
        if code < 400:
            return BadAnswer(
                f"{method} {path}: HTTP {code}, a redirect, which is not followed with a login",
                address=self.address,
                seen=short(answer.headers.get("Location", "")),
                details=_PEER.elsewhere(),
                do=f"correct {_PEER.setting}: scheme, host and port",
            )
        return _PEER.refusal(self.address, method, path, code, said(code, _words(answer)))

    def close(self) -> None:
        self._session.close()


def _seen(one: Mapping[str, Any]) -> Seen:
    at = one.get("last seen")
    return Seen(at if isinstance(at, int) else 0, str(one.get("stage") or ""), str(one.get("sent") or ""))


def _hide(found: Record) -> None:
    """The password of a BMC that stands in a record is shown by no message from now on."""
    ipmi = found.get("ipmi")
    if isinstance(ipmi, dict) and ipmi.get("password"):
        keep_secret(str(ipmi["password"]))


def _says_not_found(answer: Any) -> bool:
    """JSON of the API, and not the words of a server that has no API."""
    try:
        told = answer.json()
    except (ValueError, RecursionError):
        return False
    return isinstance(told, dict) and "error" in told


def _words(answer: Any) -> str:
    try:
        told = answer.json()
    except (ValueError, RecursionError):
        return str(answer.text)
    return str(told.get("error") or "") if isinstance(told, dict) else ""
