# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What went wrong between us and a service that speaks HTTP: one table for all ports. PRIVATE to the collection.

A driver says who its peer is and what a person can set to reach it; which exception of the tree stands for a status
or a broken connection, and in what words, is the same for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    AuthFailed,
    BadAnswer,
    FleetError,
    Refused,
    Unreachable,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short

#: Told by what stands before the service, or by a service that is going up or down.
GATEWAY = frozenset({502, 503, 504})


def said(status: int, words: Any) -> str:
    """``HTTP 409: in use``, for the field ``seen``."""
    return f"HTTP {status}: {short(words)}".rstrip(": ")


@dataclass(frozen=True)
class Peer:
    """A service, by the name that a person knows it by, and what helps where it cannot be reached or refuses us."""

    name: str
    #: What to check where nothing answers, where its certificate is not trusted, and where it refuses the login.
    reach: str
    trust: str
    login: str
    #: Its name for what it is logged in with.
    key: str = "login"

    def silent(self, address: str, cause: Any) -> Unreachable:
        """No answer came."""
        return Unreachable(f"{self.name} does not answer", address=address, seen=short(cause), do=self.reach)

    def untrusted(self, address: str, cause: Any) -> Unreachable:
        """We ended the handshake."""
        return Unreachable(
            f"no trusted TLS connection to {self.name}",
            address=address,
            seen=short(cause),
            do=self.trust,
            details={"tls": True},
        )

    def login_refused(
        self, address: str, *, do: str = "", seen: str = "HTTP 401", details: dict[str, Any] | None = None
    ) -> AuthFailed:
        """401. Without ``seen`` nothing of its body is shown: some print the secret that they were given."""
        return AuthFailed(
            f"{self.name} refused the {self.key}",
            address=address,
            seen=seen,
            details=details,
            do=f"{do or self.login}; it was tried once and is not tried again",
        )

    def no_json(self, address: str, request: str, status: int, text: Any) -> BadAnswer:
        return BadAnswer(
            f"{request}: HTTP {status} whose body is no JSON",
            address=address,
            seen=short(text),
            do=f"is this URL really that of {self.name}, and not a proxy's?",
        )

    def refusal(self, address: str, method: str, path: str, status: int, seen: str) -> FleetError:
        """A status that is no success and has no meaning of its own: the service is down, or it says no.

        A write that failed with 5xx may have been done half, and is no outage that is waited out.
        """
        down = status in GATEWAY or (status >= 500 and method == "GET")
        kind = Unreachable if down else Refused
        details = {"status": status, **({"begun": f"{method} {path}"} if status >= 500 and not down else {})}
        return kind(f"{self.name} refused {method} {path}", address=address, seen=seen, details=details)
