# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who asks: OAuth 1.0 PLAINTEXT with the key's three parts, and the answers of MAAS to what it does not like."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from typing import Optional
from urllib.parse import unquote

from .answers import Answer, AnswerError
from .config import User

#: A timestamp may be this old; one in the future may be anything.
THRESHOLD = 300
_NEEDED = (
    "oauth_consumer_key",
    "oauth_token",
    "oauth_signature",
    "oauth_signature_method",
    "oauth_timestamp",
    "oauth_nonce",
)
_PART = re.compile(r'\s*([a-z_]+)="?([^",]*)"?\s*')


class Doorkeeper:
    def __init__(self, users: tuple[User, ...], clock: Callable[[], float] = time.time) -> None:
        self._users = {}
        for user in users:
            consumer, token, secret = user.key.split(":")
            self._users[consumer] = (user, token, secret)
        self._nonces: set[tuple[str, str]] = set()
        self._lock = threading.Lock()
        self.clock = clock

    def user(self, header: Optional[str]) -> Optional[User]:
        """Who this is; None without any authorization.

        :raises AnswerError: 401.
        """
        if not header:
            return None
        kind, _space, rest = header.partition(" ")
        parts = {match[1]: unquote(match[2]) for match in map(_PART.fullmatch, rest.split(",")) if match}
        if kind != "OAuth" or any(not parts.get(name) for name in _NEEDED):
            raise AnswerError(Answer.text(401, "Forbidden"))
        known = self._users.get(parts["oauth_consumer_key"])
        if known is None or known[1] != parts["oauth_token"]:
            raise _refused("Invalid API key.")
        return self._checked(parts, *known)

    def _checked(self, parts: dict[str, str], user: User, token: str, secret: str) -> User:
        now = int(self.clock())
        given = int(parts["oauth_timestamp"])
        if now - given > THRESHOLD:
            raise _refused(
                f"'Expired timestamp: given {given} and now {now} has a greater difference than threshold {THRESHOLD}'"
            )
        with self._lock:
            nonce = (token, parts["oauth_nonce"])
            if nonce in self._nonces:
                raise _refused(f"'Nonce already used: {parts['oauth_nonce']}'")
            self._nonces.add(nonce)
        if parts["oauth_signature_method"] != "PLAINTEXT" or parts["oauth_signature"] != f"&{secret}":
            # As MAAS does: the secret that would have been right stands in the body.
            raise _refused(f"'Invalid signature. Expected signature base string: &{secret}'")
        return user


def _refused(text: str) -> AnswerError:
    answer = Answer.text(401, f"Authorization Error: {text}", content_type="text/html; charset=utf-8")
    answer.headers["WWW-Authenticate"] = 'OAuth realm="OAuth"'
    return AnswerError(answer)
