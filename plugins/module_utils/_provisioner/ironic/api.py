# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests to Ironic, through the session of openstacksdk. PRIVATE to the collection.

The SDK's own calls repeat a 409 five times before they say anything (15.5 s); here a node that a conductor has
locked for a moment is asked again under the verb's own wait, and every other 409 is told at once.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import require
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bounded import bounded_session
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    BadAnswer,
    ConfigError,
    FleetError,
    MissingLibrary,
    Refused,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut, keep_secret
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.ironic import cloud as clouds
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.ironic.tables import (
    MICROVERSION,
    RUNBOOK_VERSION,
    SERVICE_VERSION,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.ironic.words import (
    locked_for_a_moment,
    reason,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._transport import Clock, Peer, cause, said, short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context

_MISSING: str | None = None
try:
    import requests
    from keystoneauth1 import adapter, http_basic, noauth, session
    from keystoneauth1 import exceptions as ksa
except ImportError:
    _MISSING = traceback.format_exc()

#: Seconds for one answer; clouds.yaml may set others (api_timeout).
TIMEOUT = 60.0
#: A conductor holds a node's lock for as long as one action on its BMC takes.
LOCK_TIMEOUT = 60.0
LOCK_INTERVAL = 1.0
#: Ironic gives at most so many nodes an answer ([api] max_limit).
PAGE = 1000

#: API version -> the release that brought it.
_SINCE = {
    MICROVERSION: "Ironic 21.4 (2023.1)",
    SERVICE_VERSION: "Ironic 23.0 (2023.2)",
    RUNBOOK_VERSION: "Ironic 26.1 (2024.2)",
}

#: Of a refusal that says which right is lacking.
FORBIDDEN = 403
#: So does Ironic 39.0 with 500, where a right is for logins of the whole system alone (oslo_policy, InvalidScope).
_OF_THE_SYSTEM = "requires a scope of"
#: Told by one that is there, and asks for patience.
_LATER = frozenset({408, 425, 429})
_PEER = Peer(
    "Ironic",
    reach="check gpufleet_provisioner_url, the network, and that Ironic runs",
    trust="set gpufleet_provisioner_ca_path to the CA that vouches for it",
    login="check gpufleet_provisioner_username and gpufleet_provisioner_password",
    setting="gpufleet_provisioner_url",
)


class IronicApi:
    """GET, and writes that ask first."""

    def __init__(self, params: Mapping[str, Any], ctx: Context) -> None:
        if _MISSING:
            raise MissingLibrary("openstacksdk", why="it speaks to Ironic", cause=_MISSING)
        self._ctx = ctx
        self.clock = Clock()
        self._timeout = TIMEOUT
        #: What a person can set, where there is a Keystone, is another.
        self._peer = clouds.IRONIC if params.get("provisioner_cloud") else _PEER
        #: With a Keystone before it, or without one.
        self._sdk: Any = self._cloud(params) if params.get("provisioner_cloud") else None
        self._plain: Any = None if self._sdk else self._standalone(params)

    @cached_property
    def project(self) -> str:
        """Whose nodes this login sees; empty without a Keystone, which is asked for it."""
        return self._told_by_keystone(lambda cloud: clouds.project(cloud.session)) if self._sdk else ""

    @cached_property
    def _client(self) -> Any:
        """What the requests go through. Keystone is asked where the first one is made, so that it is waited for."""
        return self._plain or self._found_there()

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
        plain = bounded_session(requests.Session())
        verify = _PEER.verified_by(url, params.get("provisioner_ca_path"), "gpufleet_provisioner_ca_path")
        if user:
            _PEER.demand_tls(url)
        http = session.Session(auth=auth, session=plain, verify=verify, timeout=TIMEOUT, redirect=False)
        return adapter.Adapter(http, service_type="baremetal", endpoint_override=endpoint)

    def _cloud(self, params: Mapping[str, Any]) -> Any:
        name = str(params["provisioner_cloud"])
        try:
            cloud = clouds.load_cloud()(name)
        except Exception as exc:  # the SDK's configuration errors have no common class
            file = clouds.named()
            raise ConfigError(
                f"clouds.yaml has no usable cloud {name}: {exc}",
                node=self._ctx.node,
                do=f"correct {file}, which OS_CLIENT_CONFIG_FILE names"
                if file
                else "correct clouds.yaml: here, in ~/.config/openstack, or in /etc/openstack",
            ) from exc
        self.address = self._name = name
        # The library sets none, and a worker would wait for a frozen peer without an end.
        cloud.session.timeout = self._timeout = float(cloud.session.timeout or TIMEOUT)
        cloud.session.redirect = False
        login, verify = cloud.config.get_auth_args(), cloud.config.get_requests_verify_args()[0]
        secrets, auth_url = clouds.secrets_of(login), login.get("auth_url")
        keep_secret(*secrets)
        if auth_url:
            clouds.KEYSTONE.verified_by(
                str(auth_url), verify if isinstance(verify, str) else "", "cacert in clouds.yaml"
            )
        plain = getattr(cloud.session, "session", None)
        if isinstance(plain, requests.Session):
            # clouds.yaml says whom to trust
            bounded_session(plain, clouds.Leading(self._asked_at, with_login=bool(auth_url or secrets)))
        return cloud

    def _asked_at(self, url: str) -> Peer:
        return clouds.IRONIC if url.startswith(f"{self.address}/") else clouds.KEYSTONE

    def _found_there(self) -> Any:
        endpoint = self._told_by_keystone(lambda cloud: cloud.endpoint_for("baremetal")).rstrip("/")
        if not endpoint:
            raise ConfigError(
                f"the cloud {self.address} has no service baremetal",
                node=self._ctx.node,
                wanted="an endpoint of it in the catalog, for the region and interface of that cloud",
                seen=self._asked_for(),
                do="correct region_name and interface of the cloud in clouds.yaml, if it does have one",
            )
        self.address = endpoint
        endpoint = endpoint if endpoint.endswith("/v1") else f"{endpoint}/v1"
        return adapter.Adapter(self._sdk.session, service_type="baremetal", endpoint_override=endpoint)

    def _told_by_keystone(self, ask: Callable[[Any], Any]) -> str:
        login = self._sdk.config.get_auth_args()
        where = str(login.get("auth_url") or self.address)
        try:
            return str(ask(self._sdk) or "")
        except BadAnswer as exc:
            raise exc.located(address=where) from exc
        except ksa.Unauthorized as exc:
            do = clouds.refused_for(self._sdk.config.config.get("auth_type", ""), login)
            raise clouds.KEYSTONE.login_refused(where, do=do) from exc
        except (ksa.NotFound, ksa.MethodNotAllowed, ksa.DiscoveryFailure, ksa.InvalidResponse) as exc:
            raise self._nobody_there(where, exc) from exc
        except ksa.HttpError as exc:
            raise clouds.KEYSTONE.refusal(where, "GET", "the catalog", exc.http_status, short(exc)) from exc
        except ksa.ClientException as exc:
            raise clouds.KEYSTONE.unreached(where, exc, cause(exc), timeout=self._timeout) from exc

    def _nobody_there(self, where: str, exc: Exception) -> FleetError:
        """Who says 4xx to the question who it is, or shows a page, is no Keystone; one that is away raises the same."""
        seen = _not_by_keystone(exc)
        if not seen:
            return clouds.KEYSTONE.unreached(where, exc, cause(exc), timeout=self._timeout)
        return ConfigError(
            "no Keystone is there",
            node=self._ctx.node,
            address=where,
            seen=seen,
            do=f"correct auth_url of the cloud {self._name} in clouds.yaml",
        )

    def _asked_for(self) -> str:
        region, interface = self._sdk.config.get_region_name(), self._sdk.config.get_interface("baremetal")
        return f"region_name {region or 'not set'}, interface {interface or 'not set'}"

    # -- reading -----------------------------------------------------------------------------------------------

    def get(self, path: str, **query: Any) -> Any:
        """The JSON of an answer; None on 404."""
        answer = self._send("GET", path, params={key: value for key, value in query.items() if value})
        if answer.status_code == 404:
            return None
        return self._json(answer, "GET", path)

    def shown(self, path: str, **query: Any) -> Any:
        """The same; None as well where this login has no right to see it."""
        try:
            return self.get(path, **query)
        except Refused as exc:
            if exc.details.get("status") != FORBIDDEN:
                raise
            return None

    def listed(self, path: str, key: str, **query: Any) -> list[dict[str, Any]]:
        """All members of a list; Ironic cuts it into pages of a thousand."""
        found: list[dict[str, Any]] = []
        marker = ""
        before: set[str] = set()
        while True:
            page = self.get(path, limit=PAGE, marker=marker, **query)
            if not isinstance(page, dict) or not isinstance(page.get(key), list):
                raise self._peer.no_list(self.address, f"GET {path}", page)
            found.extend(page[key])
            if not page.get("next") or not page[key]:
                return found
            marker = str(page[key][-1].get("uuid") or "")
            if not marker:  # asked without it, the same page would come for ever
                raise BadAnswer(f"GET {path} has members without uuid", address=self.address)
            if marker in before:  # and so it would with one that was asked with
                raise BadAnswer(
                    f"GET {path} brings a page again", address=self.address, seen=f"after {cut(marker, 60)}"
                )
            before.add(marker)

    # -- writing -----------------------------------------------------------------------------------------------

    def write(
        self,
        method: str,
        path: str,
        *,
        body: Any,
        saying: str,
        host: str,
        destructive: bool = False,
        version: str = MICROVERSION,
        still: Callable[[], None] = lambda: None,
    ) -> Any:
        """One write, if it may be sent; returns its JSON, or None where there is none or in check mode.

        :param still: raises where it is not to be sent any more. Leave to write may have been waited for: it is asked
            right before it is sent, and each time that the node was locked before.

        A node that a conductor has locked for a moment is asked again; ``saying`` is the write without secrets.
        """
        what = f"{method} {self.address}/v1{path} {saying}".rstrip()

        def send() -> Any:
            still()
            return self._send(method, path, json=body, microversion=version)

        answer = self._ctx.written(
            what,
            send,
            lambda got: not locked_for_a_moment(got),
            destructive=destructive,
            nodes=(host,),
            timeout=LOCK_TIMEOUT,
            interval=LOCK_INTERVAL,
            wanted=f"{method} {path} taken",
            seen=reason,
            do="the node's conductor is busy with it; see 'reservation' of the node, and run again",
        )
        if answer is None:
            return None
        return self._json(answer, method, path) if answer.content else self._judged(answer, method, path)

    # -- one request -------------------------------------------------------------------------------------------

    def _send(self, method: str, path: str, **kwargs: Any) -> Any:
        self._known_to_keystone()
        answer = self._sent(method, path, **kwargs)
        if answer.status_code == 401 and self._sdk and self._sdk.session.invalidate():
            # Its token was revoked, or has ended by another clock. Nothing was done with it.
            self._known_to_keystone()
            answer = self._sent(method, path, **kwargs)
        return answer

    def _known_to_keystone(self) -> None:
        """A token that ends soon is renewed here: what hinders it is Keystone's, and Ironic knows nothing of it."""
        if self._sdk:
            self._told_by_keystone(lambda cloud: clouds.project(cloud.session))

    def _sent(self, method: str, path: str, **kwargs: Any) -> Any:
        try:
            return self.clock.timed(
                lambda: self._client.request(
                    path,
                    method,
                    raise_exc=False,
                    allow_reauth=False,
                    status_code_retries=0,
                    connect_retries=0,
                    headers={"Accept": "application/json"},
                    **{"microversion": MICROVERSION, **kwargs},
                )
            )
        except BadAnswer as exc:
            raise exc.located(address=self.address) from exc
        except ksa.ClientException as exc:
            raise self._no_answer(exc) from exc

    def _no_answer(self, exc: Exception) -> FleetError:
        if isinstance(exc, ksa.Unauthorized):
            return self._peer.login_refused(self.address)
        return self._peer.unreached(self.address, exc, cause(exc), timeout=self._timeout)

    def _json(self, answer: Any, method: str, path: str) -> Any:
        self._judged(answer, method, path)
        try:
            return answer.json()
        except (ValueError, RecursionError) as exc:
            raise self._peer.no_json(
                self.address,
                f"{method} {path}",
                answer.status_code,
                answer.text,
                kind=answer.headers.get("Content-Type"),
            ) from exc

    def _judged(self, answer: Any, method: str, path: str) -> None:
        if answer.status_code < 300:
            return
        if answer.status_code == 401:
            raise self._peer.login_refused(self.address)
        if answer.status_code == 406:
            wanted = answer.request.headers.get("X-OpenStack-Ironic-API-Version") or MICROVERSION
            raise Refused(
                f"this Ironic does not speak API version {wanted}",
                address=self.address,
                seen=reason(answer),
                do=f"{_SINCE.get(wanted, _SINCE[MICROVERSION])} or newer is needed",
            )
        if answer.status_code == FORBIDDEN or (answer.status_code == 500 and _OF_THE_SYSTEM in reason(answer)):
            raise Refused(
                f"Ironic lets this login not do it: {method} {path}",
                address=self.address,
                wanted="a login that has the right named below",
                seen=reason(answer),
                details={"status": FORBIDDEN},
                do="give its user, in its project, a role that Ironic's policy grants that right, or use another login;"
                " this was not done",
            )
        if answer.status_code < 400:
            raise BadAnswer(
                f"{method} {path}: HTTP {answer.status_code}, a redirect, which is not followed with a login",
                address=self.address,
                seen=short(answer.headers.get("Location", "")),
                details=self._peer.elsewhere(),
                do=f"correct {self._peer.setting}: scheme, host and port",
            )
        raise self._peer.refusal(self.address, method, path, answer.status_code, reason(answer))

    def close(self) -> None:
        http = getattr((self._sdk or self._plain).session, "session", None)
        if http is not None:
            http.close()


def _not_by_keystone(exc: Exception) -> str:
    """What somebody answered who is no Keystone; empty where nobody may have answered, or for now."""
    told = [one for one in (exc, exc.__context__) if one is not None]
    refused = next((one for one in told if isinstance(one, ksa.HttpError)), None)
    if refused is not None:
        final = 400 <= refused.http_status < 500 and refused.http_status not in _LATER
        return f"HTTP {refused.http_status}" if final else ""
    page = next((one.response for one in told if isinstance(one, ksa.InvalidResponse)), None)
    if page is not None:
        return said(page.status_code, page.text)
    # Raised by the library while it handled nothing: it read an answer, and found no version of Keystone's in it.
    read = next((one for one in reversed(told) if isinstance(one, ksa.DiscoveryFailure)), None)
    return said(200, read) if read is not None and read.__context__ is None and read is told[-1] else ""
