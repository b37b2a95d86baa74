# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Takes secrets out of what the ledger, results and reports may hold. PRIVATE to the collection."""

from __future__ import annotations

import re
from typing import Any

MASK = "********"

#: Names whose values are never written anywhere. BIOS attributes hold password hashes
#: (``SHA256SetupPassword`` on a recorded iDRAC9), environments hold tokens.
_SECRET_NAME = re.compile(
    r"passw|passphrase|secret|token|api_?key|private_?key|credential|authorization|salt$|hash$|community|chap", re.I
)
#: Names that match the above and are no secrets.
_HARMLESS = frozenset({"hold_token", "token_prefix", "passport_public_keys"})
_URL_LOGIN = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*://)[^/@\s:]*:[^/@\s]*@", re.I)


def redact(value: Any, *, secrets: frozenset[str] = frozenset()) -> Any:
    """A copy of a JSON-like value with secrets masked, by name, by URL form, and wherever a known one occurs."""
    if isinstance(value, dict):
        return {
            str(key): MASK
            if _SECRET_NAME.search(str(key)) and str(key) not in _HARMLESS and item not in (None, "", [], {})
            else redact(item, secrets=secrets)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [redact(item, secrets=secrets) for item in value]
    if isinstance(value, str):
        text = _URL_LOGIN.sub(lambda match: match.group("scheme") + MASK + "@", value)
        for secret in secrets:
            if secret:
                text = text.replace(secret, MASK)
        return text
    return value
