# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests to the API server of Kubernetes, as plain JSON. PRIVATE to the collection.

What is known of it (measured with 1.36), and why the code is as it is:

* Each refusal is a ``Status`` object. A 404 without one comes of a proxy, and says nothing of a node.
* A merge patch with ``resourceVersion`` and ``uid`` is compare and swap: 409 where the object has changed, 422 where it
  is another object of that name. A JSON patch says 422 without a word for both, and for a mistake of ours.
* A mistyped field is taken with 200, but with ``fieldValidation=Strict``.
* Server-side apply makes a node of a mistyped name, and wipes the taints of others: it is never used.
* A list is asked for in pages, which costs a fifth of the memory. A token of a page ends after some minutes: 410, and
  the whole list is asked for anew.
* 429 is three things. Of a read it is the server's own throttle.
* Objects are read as JSON. The classes of the client library take seven times the memory and three times the time.
"""

from __future__ import annotations

import hashlib
import os
import ssl
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Optional, TypeVar

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _tls as tls
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bounded import BoundedAdapter, asked, bounded_session
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    AuthFailed,
    BadAnswer,
    ConfigError,
    FleetError,
    MissingLibrary,
    Refused,
    Unreachable,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.kubernetes.access import Access
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.kubernetes.answer import STATUS, Answer
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.kubernetes.login import Login
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.kubernetes.tables import MANAGER
from ansible_collections.gpufleet.baremetal.plugins.module_utils._transport import (
    GATEWAY,
    Peer,
    cause,
    in_clear,
    is_here,
    short,
)

_MISSING: str | None = None
try:
    import requests
except ImportError:
    _MISSING = traceback.format_exc()

#: Seconds for one answer: 5,000 nodes in pages of 500 take less than half a second each.
TIMEOUT = 60.0
#: Objects of one page, how often a list is begun anew whose pages have expired, and pages of one list: Kubernetes is
#: made for 150,000 pods (its page on large clusters).
PAGE, TIMES, PAGES = 500, 3, 2000
_MERGE = "application/merge-patch+json"

PEER = Peer(
    "Kubernetes",
    reach="check the address of the API server (gpufleet_scheduler_url, or the kubeconfig) and the network to it",
    trust="name the authority that vouches for the API server in gpufleet_scheduler_ca_path, or in the kubeconfig",
    login="check the token or the client certificate: kubectl auth whoami",
    setting="gpufleet_scheduler_url, or server in the kubeconfig",
)


Read = TypeVar("Read")


class Api:
    """One object serves one task; each thread has a connection of its own."""

    def __init__(self, access: Access, *, timeout: float = TIMEOUT) -> None:
        if _MISSING:
            raise MissingLibrary("requests", why="it speaks to Kubernetes", cause=_MISSING)
        self.address, self._access, self._timeout = access.address, access, timeout
        tls.demand_url(self.address, PEER.setting)
        if access.ca_path:
            tls.authorities(access.ca_path, "gpufleet_scheduler_ca_path")
        self._login = Login(access)
        #: When it answered last, by its own clock and in its words; empty where it does not tell.
        self.date = ""
        self._no_secret_in_clear()
        self._context = _context(access) if self.address.startswith("https:") else None
        self._of_thread = threading.local()

    @property
    def authority(self) -> str:
        """A digest of what vouches for the API server, which each cluster has of its own; empty where that is nobody in
        particular."""
        pem, path = self._access.ca_pem, self._access.ca_path
        if path and os.path.isfile(path):
            with open(path, encoding="utf-8", errors="replace") as file:
                pem = file.read()
        told = "".join(pem.split())
        return f"sha256:{hashlib.sha256(told.encode()).hexdigest()[:32]}" if told else ""

    # -- reading -----------------------------------------------------------------------------------------------

    def get(self, path: str) -> dict[str, Any] | None:
        """An object; None where the API server says that there is none."""
        answer = self.ask("GET", path)
        if answer.code == 404 and answer.reason == "NotFound" and answer.content.get("kind") == STATUS:
            return None
        return self._object(answer, f"GET {path}")

    def listed(self, path: str, read: Callable[[dict[str, Any]], Optional[Read]], **query: str) -> list[Read]:
        """What ``read`` keeps of each object of a list, which stood so at one moment; of None, nothing is kept. A page
        is let go before the next one is asked for.

        :raises Unreachable: where its pages expire each time before they are all read.
        """
        for _time in range(TIMES):
            with suppress(_Expired):
                return [one for page in self._pages(path, query) for one in map(read, page) if one is not None]
        raise Unreachable(
            f"GET {path}: the pages of the list expire before they are all read",
            address=self.address,
            seen="HTTP 410",
            do="run again, when the API server is less busy",
        )

    def _pages(self, path: str, query: Mapping[str, str]) -> Iterator[list[dict[str, Any]]]:
        token, seen = "", {""}
        for _page in range(PAGES):
            answer = self.ask("GET", path, {**query, "limit": str(PAGE), **({"continue": token} if token else {})})
            if answer.code == 410:
                raise _Expired
            if answer.code == 404:
                raise self._not_served("GET", path, answer.words)
            page = self._object(answer, f"GET {path}")
            items, about = page.get("items"), page.get("metadata")
            if not isinstance(items, list) or not all(isinstance(one, dict) for one in items):
                raise PEER.no_list(self.address, f"GET {path}", page)
            if not isinstance(about, dict) or not str(page.get("kind")).endswith("List"):
                raise PEER.no_list(self.address, f"GET {path}", page)
            yield items
            token = str(about.get("continue") or "")
            if not token:
                return
            if token in seen:
                break
            seen.add(token)
        raise BadAnswer(
            f"GET {path}: the pages of the list do not come to an end",
            address=self.address,
            wanted=f"at most {PAGES} pages, each once",
            seen=short(token, 60),
            do=f"correct {PEER.setting}, if another program than Kubernetes answers there",
        )

    def _object(self, answer: Answer, request: str) -> dict[str, Any]:
        if answer.code == 200 and answer.content.get("kind") != STATUS:
            return answer.content
        if answer.code == 429:
            raise Unreachable(
                f"{request}: the API server is too busy to answer us",
                address=self.address,
                seen=answer.words,
                do="run again; look at the API server's priority levels where this goes on",
            )
        method, _blank, path = request.partition(" ")
        raise PEER.refusal(self.address, method, path, answer.code, answer.words)

    # -- writing -----------------------------------------------------------------------------------------------

    def patch(self, path: str, body: Mapping[str, Any]) -> Answer:
        """Once, whatever comes of it: only what a mistake of ours or the login makes of it is raised here."""
        query = {"fieldManager": MANAGER, "fieldValidation": "Strict"}
        return self.ask("PATCH", path, query, body, kind=_MERGE)

    def post(self, path: str, body: Mapping[str, Any]) -> Answer:
        return self.ask("POST", path, {}, body)

    # -- one request -------------------------------------------------------------------------------------------

    def ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        *,
        kind: str = "application/json",
    ) -> Answer:
        """What the API server said, whatever it is; a token that was renewed meanwhile is tried once.

        :raises AuthFailed: 401, and 403 by the rules of access; Unreachable; BadAnswer.
        """
        sent = self._login.token
        answer = self._send(method, path, query, body, kind, sent)
        if answer.status_code == 401:
            renewed = self._login.renewed(sent)
            if renewed:
                answer = self._send(method, path, query, body, kind, renewed)
        self.date = str(answer.headers.get("Date") or "")
        return self._judged(answer, method, path)

    def _judged(self, answer: Any, method: str, path: str) -> Answer:
        code, request = answer.status_code, f"{method} {path}"
        if code == 401:
            raise PEER.login_refused(self.address)
        if 300 <= code < 400:
            raise BadAnswer(
                f"{request}: HTTP {code}, a redirect, which is not followed with a login",
                address=self.address,
                seen=short(answer.headers.get("Location", "")),
                details=PEER.elsewhere(),
                do=f"correct {PEER.setting}",
            )
        try:
            content = answer.json()
        except (ValueError, RecursionError) as exc:
            if code in GATEWAY or code >= 400:
                raise self._no_words(method, path, code) from exc
            kind = answer.headers.get("Content-Type")
            raise PEER.no_json(self.address, request, code, answer.text, kind=kind) from exc
        if not isinstance(content, dict) or "kind" not in content:
            raise BadAnswer(
                f"{request}: not what an API server answers",
                address=self.address,
                seen=short(content),
                details=PEER.elsewhere(),
                do=f"correct {PEER.setting}, if another program than Kubernetes answers there",
            )
        told = Answer(code, content)
        if told.of_access:
            raise self._forbidden(told)
        return told

    def _no_words(self, method: str, path: str, code: int) -> FleetError:
        """A refusal without a Status is one of whatever stands before the API server."""
        if code == 403:
            return AuthFailed(
                f"something before the API server refused {method} {path}", address=self.address, seen="HTTP 403"
            )
        if code == 404:
            return self._not_served(method, path, "HTTP 404 without a Status of Kubernetes")
        return PEER.refusal(self.address, method, path, code, f"HTTP {code}")

    def _not_served(self, method: str, path: str, seen: str) -> NotServed:
        return NotServed(
            f"{method} {path}: nothing is served there",
            address=self.address,
            seen=seen,
            details=PEER.elsewhere(),
            do=f"correct {PEER.setting}",
        )

    def _forbidden(self, answer: Answer) -> FleetError:
        return Forbidden(
            "Kubernetes does not let us do that",
            address=self.address,
            seen=answer.words,
            do="grant it: extensions/kubernetes/rbac.yaml has all that the collection asks for",
        )

    def _send(self, method: str, path: str, query: Mapping[str, str] | None, body: Any, kind: str, token: str) -> Any:
        headers = {"Accept": "application/json", "User-Agent": MANAGER}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        if body is not None:
            headers["Content-Type"] = kind
        try:
            return asked(
                self._session(),
                method,
                self.address + path,
                address=self.address,
                params=dict(query or {}),
                json=body,
                headers=headers,
                timeout=self._timeout,
                allow_redirects=False,
            )
        except requests.exceptions.RequestException as exc:
            raise PEER.unreached(self.address, exc, cause(exc), timeout=self._timeout) from exc

    def _session(self) -> Any:
        """One a thread: a requests session is not made for two."""
        session = getattr(self._of_thread, "session", None)
        if session is None:
            session = bounded_session(requests.Session())
            session.proxies = _proxies(self.address, self._access.proxy)
            if self._context is not None:
                session.mount("https://", _Adapter(self._context, self._access.name))
            self._of_thread.session = session
        return session

    def _no_secret_in_clear(self) -> None:
        """:raises ConfigError: where a login would cross the network without TLS."""
        if self._login.token and in_clear(self.address):
            raise ConfigError(
                "a token would go to the API server in clear",
                address=self.address,
                do=f"write https:// into {PEER.setting}",
            )


class NotServed(BadAnswer):
    """No list at that path: another program answers there, or this API server does not know that group or version."""


class Forbidden(AuthFailed):
    """The API server's own word that its rules of access do not let this login do that."""


class _Expired(Exception):
    """The token of a page has ended."""


class _Adapter(BoundedAdapter):  # type: ignore[misc]
    """TLS by one context, made once: with a certificate of ours, and with no authority but those that were named."""

    def __init__(self, context: ssl.SSLContext, name: str) -> None:
        self._tls = {"ssl_context": context, **({"server_hostname": name, "assert_hostname": name} if name else {})}
        super().__init__()

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        kwargs.update(self._tls)
        super().init_poolmanager(*args, **kwargs)

    def proxy_manager_for(self, proxy: str, **kwargs: Any) -> Any:
        kwargs.update(self._tls)
        return super().proxy_manager_for(proxy, **kwargs)

    def cert_verify(self, conn: Any, url: str, verify: Any, cert: Any) -> None:
        """The library would add the authorities that it brings along."""
        conn.cert_reqs = "CERT_REQUIRED"


def _context(access: Access) -> ssl.SSLContext:
    """:raises ConfigError: where authorities or certificate are none."""
    try:
        path, folder = access.ca_path or None, os.path.isdir(access.ca_path)
        file, folders = (None, path) if folder else (path, None)
        context = ssl.create_default_context(cafile=file, capath=folders, cadata=access.ca_pem or None)
        if access.cert:
            _load(context, access.cert, access.key)
    except (OSError, ValueError) as exc:  # ssl.SSLError is an OSError
        raise ConfigError(
            "the certificates of the kubeconfig cannot be used",
            address=access.address,
            seen=short(getattr(exc, "strerror", "") or str(exc)),
            do="write them anew: PEM, and the key without a password",
        ) from exc
    return context


def _load(context: ssl.SSLContext, cert: str, key: str) -> None:
    """OpenSSL takes a key from a file alone: it is the owner's, and there for as long as that takes."""
    with tempfile.TemporaryDirectory(prefix="gpufleet-") as folder:
        path = os.path.join(folder, "login.pem")
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            file.write(f"{cert.rstrip()}\n{key}")
        context.load_cert_chain(path, password=_no_password)


def _no_password() -> str:
    """Or OpenSSL would ask whoever sits at the terminal."""
    raise ValueError("the key has a password")


def _proxies(address: str, named: str) -> dict[str, str]:
    """What the kubeconfig names; else what the environment says for this address, as kubectl does: never for this
    machine itself."""
    if named:
        return {"http": named, "https": named}
    return {} if is_here(address) else dict(requests.utils.get_environ_proxies(address, no_proxy=None))


def demand_taken(answer: Answer, address: str, request: str) -> None:
    """:raises FleetError: where a write was not taken, for no reason that has a meaning of its own."""
    if answer.code in (200, 201, 202):
        return
    method, _blank, path = request.partition(" ")
    if answer.code == 422:
        raise Refused(
            f"{request}: Kubernetes does not take that",
            address=address,
            seen=answer.words,
            do="this is a defect of the collection, or a webhook of the site's forbids it",
        )
    raise PEER.refusal(address, method, path, answer.code, answer.words)
