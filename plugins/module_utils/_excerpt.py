# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Others' words, cut to the length of a message. PRIVATE to the collection.

What is masked at the end of a task is found whole or not at all: of a secret that a cut went through, the beginning
would stay. So whoever shortens a text does it here, where secrets are masked before the cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.redact import (
    MASK,
    discreet,
    names_a_secret,
    redact,
)

_LENGTH = 500
#: Shorter ones stand in words by chance, and are masked at the end of the task.
_SHORTEST = 4
_known: set[str] = set()


def keep_secret(*secrets: str) -> None:
    """From now on this process shows none of them in an excerpt. Told by whoever logs in, and by the door."""
    _known.update(secret for secret in secrets if len(secret) >= _SHORTEST)


def whole(value: Any) -> str:
    """The text with every secret masked: those that were told, and logins by their form."""
    secrets = frozenset(_known)
    if isinstance(value, (dict, list)):
        return str(redact(value, secrets=secrets))  # by their names, too
    return discreet(value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value), secrets)


def about_secrets(arguments: Sequence[Any]) -> list[Any]:
    """What a peer's message is about: beside the name of a password stands what was sent for it."""
    if not any(names_a_secret(str(one)) for one in arguments):
        return list(arguments)
    return [one if names_a_secret(str(one)) else MASK for one in arguments]


def cut(value: Any, length: int) -> str:
    """Its beginning, as it stands."""
    return whole(value)[:length]


def tail(value: Any, length: int) -> str:
    """Its end, as it stands."""
    return whole(value)[-length:]


def short(value: Any, length: int = _LENGTH) -> str:
    """A peer's words on one line, and not too many of them."""
    text = " ".join(whole(value).split())
    return text if len(text) <= length else text[: length - 3] + "..."
