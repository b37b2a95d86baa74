# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Takes secrets out of what the ledger, results and reports may hold. PRIVATE to the collection."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any
from urllib.parse import quote, unquote

MASK = "********"

#: Names whose values are never written anywhere. BIOS attributes hold password hashes
#: (``SHA256SetupPassword`` on a recorded iDRAC9), environments hold tokens.
_SECRET_NAME = re.compile(
    r"passw|passphrase|_pass$|pwd|secret|token|api_?key|private_?key|credential|authorization|cookie|salt$|hash$"
    r"|community|chap",
    re.I,
)
#: Names that match the above and are no secrets.
_HARMLESS = frozenset({"hold_token", "token_prefix", "passport_public_keys"})
_URL_LOGIN = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*://)[^/@\s:]*:(?P<password>[^/@\s]*)@", re.I)
#: What peers echo of a request's headers.
_HTTP_LOGIN = re.compile(r"\b(?P<scheme>Basic|Bearer)\s+[A-Za-z0-9+/=._~-]{8,}")


def redact(value: Any, *, secrets: frozenset[str] = frozenset()) -> Any:
    """A copy of a JSON-like value with secrets masked, by name, by URL form, and wherever a known one occurs."""
    if isinstance(value, dict):
        return {
            mask(str(key), secrets): MASK
            if _SECRET_NAME.search(str(key)) and str(key) not in _HARMLESS and item not in (None, "", [], {})
            else redact(item, secrets=secrets)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [redact(item, secrets=secrets) for item in value]
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, (int, float)):
        return MASK if str(value) in secrets else value
    # Whatever else there is would be written as text in the end.
    return discreet(value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value), secrets)


def discreet(text: str, secrets: frozenset[str]) -> str:
    """The text without logins in URLs and headers, whose they may be, and without the known secrets."""
    text = _URL_LOGIN.sub(lambda match: match.group("scheme") + MASK + "@", text)
    return mask(_HTTP_LOGIN.sub(lambda match: f"{match.group('scheme')} {MASK}", text), secrets)


def passwords_in(value: Any) -> frozenset[str]:
    """The passwords of the URLs in a JSON-like value: the server that they are for may repeat them."""
    if isinstance(value, dict):
        return frozenset().union(*map(passwords_in, value.values()))
    if isinstance(value, (list, tuple)):
        return frozenset().union(*map(passwords_in, value))
    found = {match.group("password") for match in _URL_LOGIN.finditer(value)} if isinstance(value, str) else set()
    return frozenset(form for word in found if word for form in (word, unquote(word)))


def mask(text: str, secrets: frozenset[str]) -> str:
    """The text without the known secrets, also as a URL or as JSON would spell them."""
    for form in _spellings(secrets):
        text = text.replace(form, MASK)
    return text


@lru_cache(maxsize=8)
def _spellings(secrets: frozenset[str]) -> tuple[str, ...]:
    spelled = {form for secret in secrets if secret for form in (secret, quote(secret, safe=""), _in_json(secret))}
    # The longest first: a secret that begins like another one would leave its end behind.
    return tuple(sorted(spelled, key=len, reverse=True))


def _in_json(secret: str) -> str:
    return json.dumps(secret)[1:-1]
