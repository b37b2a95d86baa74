# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ironic's own words, of an answer and about a node, without what its steps were given. PRIVATE to the collection.

Where a step cannot be done, Ironic prints it whole as Python does, arguments and all, and these may be passwords under
any name. Whoever reads of that need not be who gave them, so nothing here could be masked by its value.
"""

from __future__ import annotations

import json
import re
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._transport import said

_AGAIN = frozenset({409, 503})
NOT_SHOWN = "{not shown}"
#: Within braces: one that opens or closes, or a string as Python and JSON write it, whatever braces stand in it.
_PART = re.compile(r"""(?P<brace>[{}])|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^'"{}]+""", re.DOTALL)


def without_arguments(text: Any) -> str:
    """All that stands in braces left out; where they do not close, as in a text that was cut, all that follows."""
    kept, rest = [], str(text or "")
    while "{" in rest:
        before, _brace, inner = rest.partition("{")
        kept += [before, NOT_SHOWN]
        rest = inner[_end(inner) :]
    return "".join([*kept, rest])


def _end(inner: str) -> int:
    """Where the brace closes that stands before this."""
    depth, at = 1, 0
    while depth:
        part = _PART.match(inner, at)
        if part is None:
            return len(inner)
        depth += {"{": 1, "}": -1}.get(part["brace"], 0)
        at = part.end()
    return at


def locked_for_a_moment(answer: Any) -> bool:
    """NodeLocked is 409, NoFreeConductorWorker 503; both say so in their text (ironic/common/exception.py)."""
    if answer.status_code not in _AGAIN:
        return False
    text = reason(answer).lower()
    return "is locked by host" in text or "free conductor" in text or "no free conductor worker" in text


def reason(answer: Any) -> str:
    """Ironic's own words: ``error_message`` holds JSON, or JSON inside a string."""
    try:
        message = answer.json().get("error_message", "")
        if isinstance(message, str) and message.startswith("{"):
            message = json.loads(message)
        if isinstance(message, dict):
            message = message.get("faultstring", "")
    except (ValueError, AttributeError, RecursionError):
        message = answer.text
    return said(answer.status_code, without_arguments(message))
