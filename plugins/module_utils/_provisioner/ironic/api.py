# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests to Ironic, through the session of openstacksdk. PRIVATE to the collection.

The SDK's own calls repeat a 409 five times before they say anything (15.5 s); here a node that a conductor has
locked for a moment is asked again under the verb's own wait, and every other 409 is told at once.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import require
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    BadAnswer,
    ConfigError,
    FleetError,
    MissingLibrary,
    Refused,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import keep_secret
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.ironic.tables import MICROVERSION
from ansible_collections.gpufleet.baremetal.plugins.module_utils._transport import Peer, said, short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context

_MISSING: str | None = None
try:
    import requests
    from keystoneauth1 import adapter, http_basic, noauth, session
    from keystoneauth1 import exceptions as ksa
    from openstack import connect as cloud_connect
except ImportError:
    _MISSING = traceback.format_exc()

#: Seconds for one answer.
TIMEOUT = 60.0
#: A conductor holds a node's lock for as long as one action on its BMC takes.
LOCK_TIMEOUT = 60.0
LOCK_INTERVAL = 1.0
#: Ironic gives at most so many nodes an answer ([api] max_limit).
PAGE = 1000

_AGAIN = frozenset({409, 503})
_PEER = Peer(
    "Ironic",
    reach="check gpufleet_provisioner_url, the network, and that Ironic runs",
    trust="set gpufleet_provisioner_ca_path to the CA that vouches for it",
    login="check gpufleet_provisioner_username and gpufleet_provisioner_password (or the cloud in clouds.yaml)",
)


class IronicApi:
    """GET, and writes that ask first."""

    def __init__(self, params: Mapping[str, Any], ctx: Context) -> None:
        if _MISSING:
            raise MissingLibrary("openstacksdk", why="it speaks to Ironic", cause=_MISSING)
        self._ctx = ctx
        self.project = ""
        self._client = self._cloud(params) if params.get("provisioner_cloud") else self._standalone(params)

    def _standalone(self, params: Mapping[str, Any]) -> Any:
        require(params, "provisioner_url", node=self._ctx.node)
        url = str(params["provisioner_url"]).rstrip("/")
        self.address = url
        endpoint = url if url.endswith("/v1") else f"{url}/v1"
        user, password = params.get("provisioner_username"), params.get("provisioner_password")
        if bool(user) != bool(password):
            raise ConfigError(
                "Ironic needs a user and a password, or neither",
                node=self._ctx.node,
                do="set gpufleet_provisioner_username and gpufleet_provisioner_password",
            )
        keep_secret(str(password or ""))
        auth = http_basic.HTTPBasicAuth(endpoint, user, password) if user else noauth.NoAuth(endpoint)
        plain = requests.Session()
        plain.trust_env = False  # REQUESTS_CA_BUNDLE and proxies of the environment decide nothing here
        verify = str(params["provisioner_ca_path"]) if params.get("provisioner_ca_path") else True
        http = session.Session(auth=auth, session=plain, verify=verify, timeout=TIMEOUT, redirect=False)
        return adapter.Adapter(http, service_type="baremetal", endpoint_override=endpoint)

    def _cloud(self, params: Mapping[str, Any]) -> Any:
        name = str(params["provisioner_cloud"])
        try:
            cloud = cloud_connect(cloud=name, load_envvars=False)
        except Exception as exc:  # the SDK's configuration errors have no common class
            raise ConfigError(
                f"clouds.yaml has no usable cloud {name}: {exc}",
                node=self._ctx.node,
                do="correct clouds.yaml: here, in ~/.config/openstack, or in /etc/openstack",
            ) from exc
        self.address = name
        plain = getattr(cloud.session, "session", None)
        if isinstance(plain, requests.Session):
            plain.trust_env = False  # clouds.yaml says whom to trust
        try:
            endpoint = str(cloud.endpoint_for("baremetal") or "").rstrip("/")
            self.project = str(cloud.session.get_project_id() or "")
        except ksa.ClientException as exc:
            raise self._no_answer(exc) from exc
        if not endpoint:
            raise ConfigError(f"the cloud {name} has no service baremetal", node=self._ctx.node)
        self.address = endpoint
        endpoint = endpoint if endpoint.endswith("/v1") else f"{endpoint}/v1"
        return adapter.Adapter(cloud.session, service_type="baremetal", endpoint_override=endpoint)

    # -- reading -----------------------------------------------------------------------------------------------

    def get(self, path: str, **query: Any) -> Any:
        """The JSON of an answer; None on 404."""
        answer = self._send("GET", path, params={key: value for key, value in query.items() if value})
        if answer.status_code == 404:
            return None
        return self._json(answer, "GET", path)

    def listed(self, path: str, key: str, **query: Any) -> list[dict[str, Any]]:
        """All members of a list; Ironic cuts it into pages of a thousand."""
        found: list[dict[str, Any]] = []
        marker = ""
        while True:
            page = self.get(path, limit=PAGE, marker=marker, **query)
            if not isinstance(page, dict) or not isinstance(page.get(key), list):
                raise BadAnswer(f"GET {path} has no list {key!r}", address=self.address, seen=short(page))
            found.extend(page[key])
            if not page.get("next") or not page[key]:
                return found
            marker = str(page[key][-1].get("uuid") or "")
            if not marker:  # asked without it, the same page would come for ever
                raise BadAnswer(f"GET {path} has members without uuid", address=self.address)

    # -- writing -----------------------------------------------------------------------------------------------

    def write(self, method: str, path: str, *, body: Any, saying: str, host: str, destructive: bool = False) -> Any:
        """One write, if it may be sent; returns its JSON, or None where there is none or in check mode.

        A node that a conductor has locked for a moment is asked again; ``saying`` is the write without secrets.
        """
        what = f"{method} {self.address}/v1{path} {saying}".rstrip()
        answer = self._ctx.written(
            what,
            lambda: self._send(method, path, json=body),
            lambda got: not _locked_for_a_moment(got),
            destructive=destructive,
            nodes=(host,),
            timeout=LOCK_TIMEOUT,
            interval=LOCK_INTERVAL,
            wanted=f"{method} {path} taken",
            seen=_reason,
            do="the node's conductor is busy with it; see 'reservation' of the node, and run again",
        )
        if answer is None:
            return None
        return self._json(answer, method, path) if answer.content else self._judged(answer, method, path)

    # -- one request -------------------------------------------------------------------------------------------

    def _send(self, method: str, path: str, **kwargs: Any) -> Any:
        try:
            return self._client.request(
                path,
                method,
                raise_exc=False,
                microversion=MICROVERSION,
                status_code_retries=0,
                connect_retries=0,
                headers={"Accept": "application/json"},
                **kwargs,
            )
        except ksa.ClientException as exc:
            raise self._no_answer(exc) from exc

    def _no_answer(self, exc: Exception) -> FleetError:
        if isinstance(exc, ksa.Unauthorized):
            return _PEER.login_refused(self.address)
        told = _PEER.untrusted if isinstance(exc, ksa.SSLError) else _PEER.silent
        return told(self.address, str(exc).partition("\n")[0])

    def _json(self, answer: Any, method: str, path: str) -> Any:
        self._judged(answer, method, path)
        try:
            return answer.json()
        except ValueError as exc:
            raise _PEER.no_json(self.address, f"{method} {path}", answer.status_code, answer.text) from exc

    def _judged(self, answer: Any, method: str, path: str) -> None:
        if answer.status_code < 300:
            return
        if answer.status_code == 401:
            raise _PEER.login_refused(self.address)
        if answer.status_code == 406:
            raise Refused(
                f"this Ironic does not speak API version {MICROVERSION}",
                address=self.address,
                seen=_reason(answer),
                do="Ironic 21.4 (2023.1) or newer is needed",
            )
        raise _PEER.refusal(self.address, method, path, answer.status_code, _reason(answer))

    def close(self) -> None:
        http = getattr(self._client.session, "session", None)
        if http is not None:
            http.close()


def _locked_for_a_moment(answer: Any) -> bool:
    """NodeLocked is 409, NoFreeConductorWorker 503; both say so in their text (ironic/common/exception.py)."""
    if answer.status_code not in _AGAIN:
        return False
    text = _reason(answer).lower()
    return "is locked by host" in text or "free conductor" in text or "no free conductor worker" in text


def _reason(answer: Any) -> str:
    """Ironic's own words: ``error_message`` holds JSON, or JSON inside a string."""
    try:
        message = answer.json().get("error_message", "")
        if isinstance(message, str) and message.startswith("{"):
            message = json.loads(message)
        if isinstance(message, dict):
            message = message.get("faultstring", "")
    except (ValueError, AttributeError):
        message = answer.text
    return said(answer.status_code, message)
