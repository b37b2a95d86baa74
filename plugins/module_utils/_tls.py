# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why no TLS came about with a peer, in words that say what to mend. PRIVATE to the collection.

What OpenSSL says of a certificate leaves out its dates, and of a port without TLS it says "wrong version number". So
the peer is greeted once more: nothing is sent to it on that connection, and nothing that it shows is believed.
"""

from __future__ import annotations

import os
import re
import socket
import ssl
import time
from calendar import timegm
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, Unreachable
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.redact import MASK

_SECONDS = 2.0
_BLANK = re.compile(r"\s")
_URL = re.compile(r"(https?)://[^\s/]+")
#: Of a certificate as X.509 has it: the sequence of the two times between which it is valid, before whatever else of it
#: could look like that.
_TIME = rb"(?:\x17\x0d(\d{12})Z|\x18\x0f(\d{14})Z)"
_VALID = re.compile(rb"\x30[\x1e-\x22]" + _TIME + _TIME)
#: In what broke on a plain connection: something did answer.
_ANSWERED = re.compile(r"BadStatusLine|RemoteDisconnected|IncompleteRead|Connection aborted|reset by peer", re.I)


def authorities(path: Any, setting: str) -> str | bool:
    """What ``verify`` of a request is to be: a file or folder of authorities, or the system's own where none is named.

    :raises ConfigError: naming the setting, where there are none: a library tells that as its own error, or waits.
    """
    if not path:
        return True
    try:
        kind = "capath" if os.path.isdir(path) else "cafile"
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(**{kind: str(path)})
    except OSError as exc:  # ssl.SSLError is one
        raise ConfigError(
            f"the file of certificate authorities cannot be used: {exc.strerror or exc}",
            wanted="a PEM file on the machine that asks",
            seen=str(path),
            do=f"correct {setting}",
        ) from exc
    return str(path)


def demand_url(url: str, setting: str, *, of_a_file: bool = False) -> None:
    """
    :param of_a_file: whose name may have blanks in it: they are sent in quotes.
    :raises ConfigError: naming the setting, where it cannot be asked at all: nobody waits for that.
    """
    try:
        parts = urlsplit(url)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        sound = sound and not _BLANK.search(parts.netloc if of_a_file else url)
        sound = sound and "\\" not in parts.netloc  # what one library takes for a host, another takes for its login
    except ValueError:  # its port is none, or a bracket is never closed
        sound = False
    if not sound:
        raise ConfigError(
            f"{setting} is no address of a service",
            wanted="http:// or https://, the host, and a port and path where it needs them",
            seen=short(_without_login(url), 200),
            do=f"correct {setting}",
        )


def _without_login(url: str) -> str:
    """Of what is no URL nobody can say where its login begins, so all is cut that may be one; and a query, which may
    hold a token. A password may have a "?" in it: then neither end of it is known, and nothing is shown."""
    before, at, rest = url.rpartition("@")
    return MASK if "?" in before else (MASK + at if at else "") + rest.partition("?")[0]


def untrusting(exc: BaseException) -> bool:
    """True where it was we who ended the handshake, over a certificate: waiting does not make it trusted.

    Another TLS error may come after a request was sent, or of a front whose service is being restarted.
    """
    seen: Any = exc
    for _depth in range(8):
        if isinstance(seen, ssl.SSLCertVerificationError):
            return True
        seen = getattr(seen, "reason", None) or seen.__cause__ or (seen.args[0] if seen.args else None)
        if not isinstance(seen, BaseException):
            return "CERTIFICATE_VERIFY_FAILED" in str(exc)
    return False


class Asked(NamedTuple):
    """What came to nothing. peer: its name. setting: the variable that holds its address. words: what was told."""

    peer: str
    address: str
    setting: str
    words: str

    @property
    def url(self) -> str:
        """Scheme and place, out of an address that may have more around it; empty where it has none."""
        found = _URL.search(self.address)
        return found[0] if found else ""


def why(asked: Asked) -> Unreachable | None:
    """Nothing where it was not TLS, or no more can be said."""
    if asked.url.startswith("http:"):
        return _past_tls(asked)
    for mark, told in _MARKS.items():
        if asked.url and re.search(mark, asked.words, re.I):
            return told(asked)
    return None


def _expired(asked: Asked) -> Unreachable:
    ends, now = _ends(shown(asked.url)), time.time()
    past = ends is not None and ends <= now
    return Unreachable(
        f"a certificate with which {asked.peer} shows who it is has expired",
        address=asked.address,
        seen=f"{f'expired on {_utc(ends or 0)}, and ' if past else ''}here it is {_utc(now)}",
        do="renew it there (its own, or its authority's); or set this machine's clock, if that is what is wrong",
        details=_DETAILS,
    )


def _early(asked: Asked) -> Unreachable:
    return Unreachable(
        f"the certificate of {asked.peer} is not valid yet",
        address=asked.address,
        seen=f"here it is {_utc(time.time())}",
        do="look at this machine's clock, and at that of whoever made the certificate",
        details=_DETAILS,
    )


def _another_name(asked: Asked) -> Unreachable:
    said = re.search(r"certificate is not valid for '?([^'\s)]+?)'?\.?(?:['\s)]|$)", asked.words)
    return Unreachable(
        f"the certificate of {asked.peer} is for another name",
        address=asked.address,
        seen=f"not valid for {said[1] if said else urlsplit(asked.url).hostname}",
        do=f"write a name of that certificate into {asked.setting}, or have one made that is for this name",
        details=_DETAILS,
    )


def _plain(asked: Asked) -> Unreachable:
    return Unreachable(
        f"{asked.peer} speaks no TLS there",
        address=asked.address,
        seen=short(asked.words),
        do=f"correct the port in {asked.setting}; or write http://, if it is to be asked without TLS",
        details=_DETAILS,
    )


def _past_tls(asked: Asked) -> Unreachable | None:
    if not _ANSWERED.search(asked.words) or not _speaks_tls(asked.url):
        return None
    return Unreachable(
        f"{asked.peer} speaks TLS there, and was asked without",
        address=asked.address,
        seen=short(asked.words),
        do=f"write https:// into {asked.setting}",
        details=_DETAILS,
    )


@lru_cache(maxsize=256)
def _speaks_tls(url: str) -> bool:
    """Once for a place: one that is asked again and again while it is away is not greeted each time."""
    return shown(url) is not None


_DETAILS = {"tls": True}
_MARKS: Mapping[str, Callable[[Asked], Unreachable]] = {
    "certificate has expired": _expired,
    "certificate is not yet valid": _early,
    "(hostname|IP address) mismatch|doesn't match": _another_name,
    "wrong.version.number|http.request|record.layer.failure|packet.length.too.long": _plain,
}


def shown(url: str) -> bytes | None:
    """The certificate that whoever is there shows, believed or not; None where nobody speaks TLS."""
    parts = urlsplit(url)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        place = (str(parts.hostname or ""), parts.port or {"http": 80}.get(parts.scheme, 443))
        plain = socket.create_connection(place, timeout=_SECONDS)
        with plain, context.wrap_socket(plain, server_hostname=place[0]) as greeted:
            return greeted.getpeercert(binary_form=True)
    except (OSError, ValueError):  # ssl.SSLError is an OSError
        return None


def _ends(certificate: bytes | None) -> float | None:
    """When it ends; None where that cannot be read."""
    found = _VALID.search(certificate or b"")
    if found is None:
        return None
    of_two, long = (found[3] or b"").decode(), (found[4] or b"").decode()
    # Two digits of a year, as RFC 5280 has them.
    full = long or f"{'20' if of_two < '50' else '19'}{of_two}"
    return float(timegm(time.strptime(full, "%Y%m%d%H%M%S")))


def _utc(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))
