# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests to MAAS: API 2.0 with OAuth 1.0 PLAINTEXT. PRIVATE to the collection.

What is known of it, and why the code is as it is:

* A nonce may be used once and a redirect cannot be signed again: every try is signed anew, redirects are errors.
* An address without its trailing slash is 404.
* Bodies are form-urlencoded: a JSON body is read by some operations and silently ignored by others, and an empty
  multipart body is 400.
* Booleans are the words ``true`` and ``false``; ``0`` means true to half of the operations.
* The body of a 401 prints the key's secret. It is looked at, and never shown.
* 409 with Retry-After is a database conflict, and the only 409 to repeat.
"""

from __future__ import annotations

import secrets
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import require
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bounded import (
    BoundedAdapter,
    TooSlow,
    asked,
    bounded_session,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    BadAnswer,
    ConfigError,
    FleetError,
    MissingLibrary,
    NotOurs,
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

#: Seconds for one answer: fifty machines take MAAS 2 to 10 s, a deployment's preseed 3.
TIMEOUT = 120.0
#: MAAS itself tries a conflicting transaction for 90 s.
AGAIN_TIMEOUT = 120.0
AGAIN_INTERVAL = 5.0

_PEER = Peer(
    "MAAS",
    reach="check gpufleet_provisioner_url, the network, and that MAAS runs",
    trust="set gpufleet_provisioner_ca_path to the CA that vouches for it",
    login="check gpufleet_provisioner_api_key",
    setting="gpufleet_provisioner_url",
    key="API key",
)

Fields = Sequence[tuple[str, str]]


def authorization(key: str) -> str:
    """The header of one request. The key is ``consumer:token:secret``."""
    consumer, token, secret = key.split(":")
    parts = {
        "oauth_version": "1.0",
        "oauth_signature_method": "PLAINTEXT",
        "oauth_consumer_key": consumer,
        "oauth_token": token,
        "oauth_signature": f"&{secret}",
        "oauth_nonce": secrets.token_hex(16),
        "oauth_timestamp": str(int(time.time())),
    }
    return "OAuth " + ", ".join(f'{name}="{quote(value, safe="")}"' for name, value in parts.items())


class MaasApi:
    """GET, and writes that ask first."""

    def __init__(self, params: Mapping[str, Any], ctx: Context, *, timeout: float = TIMEOUT, longer: str = "") -> None:
        """:param longer: what a person does where an answer takes longer than timeout, if anything sets that."""
        if _MISSING:
            raise MissingLibrary("requests", why="it speaks to MAAS", cause=_MISSING)
        require(params, "provisioner_url", "provisioner_api_key", node=ctx.node)
        self._ctx = ctx
        self.clock = Clock()
        self._key = str(params["provisioner_api_key"]).strip()
        if self._key.count(":") != 2:
            raise ConfigError(
                "the MAAS API key has not the form consumer:token:secret",
                node=ctx.node,
                do="copy it whole from the user's page in MAAS, or from `maas apikey`",
            )
        keep_secret(self._key, *self._key.split(":"))
        self.address = str(params["provisioner_url"]).rstrip("/").removesuffix("/api/2.0")
        self._verify = _PEER.verified_by(
            self.address, params.get("provisioner_ca_path"), "gpufleet_provisioner_ca_path"
        )
        _PEER.demand_tls(self.address)
        self._timeout, self._longer = timeout, longer
        self._of_thread = threading.local()
        self._sessions: list[Any] = []

    # -- reading -----------------------------------------------------------------------------------------------

    def get(
        self, path: str, query: Fields = (), *, patient: bool = True, each: Callable[[Any], Any] | None = None
    ) -> Any:
        """The JSON of an answer; None on 404. ``patient`` repeats what MAAS asks to be repeated, ``each`` makes of each
        element of a list what is kept of it."""
        answer = self._patiently(path, query, each) if patient else self._send("GET", path, query, (), each)
        if answer.status_code == 404:
            return None
        self._judged(answer, "GET", path)
        return self._json(answer, "GET", path)

    def machines(self, query: Fields, *, patient: bool = True) -> list[dict[str, Any]]:
        """A list of machines, by a filter that MAAS knows (an unknown one is 400)."""
        found = self.get("machines/", query, patient=patient)
        if not isinstance(found, list) or not all(_is_machine(one) for one in found):
            raise self._no_machines(found)
        return found

    def each_machine(self, query: Fields, kept: Callable[[dict[str, Any]], Any]) -> list[Any]:
        """What is kept of each, made as they come: a large site's machines are never in memory all at once."""

        def checked(one: Any) -> Any:
            if not _is_machine(one):
                raise self._no_machines(one)
            return kept(one)

        found = self.get("machines/", query, each=checked)
        if not isinstance(found, list):
            raise self._no_machines(found)
        return found

    def _no_machines(self, found: Any) -> FleetError:
        return _PEER.no_list(self.address, "GET machines/", found)

    # -- writing -----------------------------------------------------------------------------------------------

    def write(
        self,
        method: str,
        path: str,
        fields: Fields = (),
        *,
        op: str = "",
        saying: str = "",
        host: str,
        destructive: bool = False,
        still: Callable[[], None] = lambda: None,
    ) -> Any:
        """One write, if it may be sent; its JSON, or None in check mode. ``saying`` is the write without secrets.

        :param still: raises where it is not to be sent any more; asked right before it is sent, and sent again.
        """
        query: Fields = [("op", op)] if op else []
        words = " ".join(part for part in (f"op={op}" if op else "", saying) if part)
        what = f"{method} {self.address}/api/2.0/{path} {words}".rstrip()

        def send() -> Any:
            still()
            return self._send(method, path, query, fields)

        answer = self._ctx.written(
            what,
            send,
            lambda got: not _asks_again(got),
            destructive=destructive,
            nodes=(host,),
            **_patience(method, path),
        )
        if answer is None:
            return None
        if answer.status_code == 403 and not answer.text.strip():
            raise self._forbidden(path, op)
        if answer.status_code == 404:
            raise Refused(f"MAAS does not know {path}", address=self.address, seen=_words(answer))
        self._judged(answer, method, path)
        return self._json(answer, method, path)

    def send_piece(self, path: str, data: bytes) -> None:
        """A piece of a file, for which its caller has asked leave. Sent once: who reads back knows whether it came."""
        answer = self._send("PUT", path, (), data)
        if answer.status_code == 403 and not answer.text.strip():
            raise self._forbidden(path, "")
        self._judged(answer, "PUT", path)

    def _forbidden(self, path: str, op: str) -> FleetError:
        """MAAS says nothing with its 403: the machine's record tells which of three reasons it is, if it is shown to
        this key, as another one's machine is to administrators alone."""
        machine: Any = None
        with suppress(Refused):
            machine = self.get("/".join(path.split("/")[:2]) + "/") if path.startswith("machines/") else None
        seen = "HTTP 403 without a word"
        if isinstance(machine, dict):
            seen = f"locked: {bool(machine.get('locked'))}, owner: {machine.get('owner') or 'nobody'}"
            if machine.get("locked"):
                return NotOurs(
                    f"MAAS refused {op or 'the change'}: the machine is locked",
                    address=self.address,
                    seen=seen,
                    do="ask whoever locked it; nothing was changed",
                )
        return Refused(
            f"MAAS refused {op or 'the change'}: the key's user is neither the machine's owner nor an administrator",
            address=self.address,
            seen=seen,
            do="use the API key of the owner or of an administrator",
        )

    # -- one request -------------------------------------------------------------------------------------------

    def _patiently(self, path: str, query: Fields, each: Callable[[Any], Any] | None) -> Any:
        return self._ctx.wait(
            lambda: self._send("GET", path, query, (), each),
            lambda got: not _asks_again(got),
            **_patience("GET", path),
        )

    def _session(self, listed: bool) -> Any:
        """One a thread: a requests session is not made for two. Lists that are read by elements may be larger."""
        name = "listed" if listed else "whole"
        session = getattr(self._of_thread, name, None)
        if session is None:
            session = bounded_session(requests.Session(), BoundedAdapter(listed=listed))
            setattr(self._of_thread, name, session)
            self._sessions.append(session)
        return session

    def _send(
        self,
        method: str,
        path: str,
        query: Fields,
        fields: Fields | bytes,
        each: Callable[[Any], Any] | None = None,
    ) -> Any:
        if not path.endswith("/"):
            raise ValueError(f"a MAAS address ends with a slash: {path}")
        try:
            return self.clock.timed(
                lambda: asked(
                    self._session(each is not None),
                    method,
                    f"{self.address}/api/2.0/{path}",
                    address=self.address,
                    each=each,
                    params=list(query),
                    data=fields if isinstance(fields, bytes) else list(fields) or None,
                    headers={
                        "Authorization": authorization(self._key),
                        "Accept": "application/json",
                        **({"Content-Type": "application/octet-stream"} if isinstance(fields, bytes) else {}),
                    },
                    timeout=self._timeout,
                    verify=self._verify,
                    allow_redirects=False,
                )
            )
        except requests.exceptions.RequestException as exc:
            failed = _PEER.unreached(self.address, exc, cause(exc), timeout=self._timeout)
            if failed.details.get("slow") and self._longer:
                failed.do = f"{self._longer}; or {failed.do}"
            raise failed from exc
        except TooSlow as exc:
            exc.do = f"{self._longer}; or {exc.do}" if self._longer else exc.do
            raise

    def _judged(self, answer: Any, method: str, path: str) -> None:
        code = answer.status_code
        if code < 300:
            return
        if code == 401:
            raise self._unauthorised(answer)
        if code < 400:
            raise BadAnswer(
                f"{method} {path}: HTTP {code}, a redirect, which a signed request cannot follow",
                address=self.address,
                seen=short(answer.headers.get("Location", "")),
                details=_PEER.elsewhere(),
                do="correct gpufleet_provisioner_url: scheme, host, and the path /MAAS",
            )
        raise _PEER.refusal(self.address, method, path, code, _words(answer))

    def _unauthorised(self, answer: Any) -> FleetError:
        late = "expired timestamp" in answer.text.lower()
        clock = "check the clock of this machine against that of MAAS: it is more than 5 minutes slow"
        # The body holds the secret of the key. Nothing of it goes further than this.
        return _PEER.login_refused(self.address, do=clock if late else "")

    def _json(self, answer: Any, method: str, path: str) -> Any:
        if answer.status_code == 204 or not answer.content:
            return {}
        try:
            return answer.json()
        except (ValueError, RecursionError) as exc:
            raise _PEER.no_json(
                self.address,
                f"{method} {path}",
                answer.status_code,
                answer.text,
                kind=answer.headers.get("Content-Type"),
            ) from exc

    def close(self) -> None:
        for session in self._sessions:
            session.close()


def _is_machine(found: Any) -> bool:
    return isinstance(found, dict) and "system_id" in found


def _patience(method: str, path: str) -> dict[str, Any]:
    return {
        "timeout": AGAIN_TIMEOUT,
        "interval": AGAIN_INTERVAL,
        "wanted": f"MAAS takes {method} {path}",
        "seen": _words,
        "do": "look at MAAS's own log: it stays in conflict, or no rack controller is connected",
    }


def _asks_again(answer: Any) -> bool:
    return answer.status_code in (409, 503) and "Retry-After" in answer.headers


def _words(answer: Any) -> str:
    """What MAAS says. Never used for a 401."""
    return said(answer.status_code, "" if answer.status_code == 401 else answer.text)
