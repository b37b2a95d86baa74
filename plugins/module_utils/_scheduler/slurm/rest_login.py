# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who we are to slurmrestd: a JSON Web Token, which is renewed before it ends. PRIVATE to the collection."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import AuthFailed, ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import keep_secret

#: Seconds before a token's end from which it is not begun with any more.
_MARGIN = 60.0
_PATH = "gpufleet_scheduler_token_path"


class Login:
    """For one task. read: brings the token that holds now. user: whom the token is used for; its own user without."""

    def __init__(self, address: str, read: Callable[[], str], user: str) -> None:
        self._address, self._read, self._named = address, read, user
        self._lock = threading.Lock()
        self._take(read())

    def _take(self, token: str) -> None:
        keep_secret(token)
        claims = _claims(token)
        self.token, self._ends = token, claims.get("exp")
        self.user = self._named or str(claims.get("sun") or "")
        if not self.user:
            raise ConfigError(
                "the token does not say whose it is",
                address=self._address,
                wanted='a JSON Web Token with the claim "sun", as scontrol token makes it',
                do="name its user in gpufleet_scheduler_user",
            )

    def headers(self) -> dict[str, str]:
        """:raises AuthFailed: where the token has ended; it is not sent then."""
        with self._lock:
            if self._left() < _MARGIN:
                self._take(self._read())
            if self._left() <= 0:
                raise AuthFailed(
                    "the token for slurmrestd has ended",
                    address=self._address,
                    seen=f"it ended {-self._left():.0f} s ago by this machine's clock",
                    do=f"write a new one (scontrol token lifespan=...), and let something renew the file of {_PATH}",
                )
            return {"X-SLURM-USER-NAME": self.user, "X-SLURM-USER-TOKEN": self.token}

    def renewed(self, sent: str) -> bool:
        """Is there another token than the one that a refused request was sent with?"""
        with self._lock:
            if self.token == sent:
                self._take(self._read())
            return self.token != sent

    def _left(self) -> float:
        ends = self._ends
        known = isinstance(ends, (int, float)) and not isinstance(ends, bool)
        return float(ends) - time.time() if known and ends is not None else float("inf")


def _claims(token: str) -> Mapping[str, Any]:
    """What it says of itself; slurmctld judges whether that is true. Nothing of one that is no such token."""
    parts = token.split(".")
    try:
        content = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (IndexError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def reader(options: Mapping[str, Any], mint: Callable[[], str]) -> Callable[[], str]:
    """:param mint: makes one, where none is given."""
    path, text = str(options["scheduler_token_path"]), str(options["scheduler_token"])
    if path and text:
        raise ConfigError(
            "a token and a file with a token are both given",
            seen=f"gpufleet_scheduler_token and {_PATH}",
            do="leave one of them out",
        )
    if path:
        return lambda: plain(_content(path), path)
    return (lambda: plain(text, "gpufleet_scheduler_token")) if text else mint


def _content(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError(
            f"the file with the token cannot be read: {getattr(exc, 'strerror', '') or 'it is no plain text'}",
            seen=path,
            do=f"correct {_PATH}, or the rights of the file",
        ) from exc


def plain(text: str, where: str) -> str:
    """``scontrol token`` prints ``SLURM_JWT=`` before it."""
    token = text.strip()
    token = token[len("SLURM_JWT=") :] if token.startswith("SLURM_JWT=") else token
    if not token or any(ord(char) <= 32 or ord(char) > 126 for char in token):
        raise ConfigError("there is no token in it", seen=where, do=f"correct {where}")
    return token
