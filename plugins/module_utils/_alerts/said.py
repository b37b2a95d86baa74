# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a monitor says of one node, whoever it is. PRIVATE to the collection.

It is a reason to look, and none to end anybody's jobs: what is launched looks at the node itself, and goes by that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer
from ansible_collections.gpufleet.baremetal.plugins.module_utils._text import one_line

#: What may be launched: day 2, which looks first and recycles what fails, or a look that writes nothing.
RECYCLE, LOOK = "recycle", "look"
WHAT = (RECYCLE, LOOK)
#: Of one message; what comes with more is no monitor of a fleet.
MOST = 1000
_LONGEST_CAUSE, _LONGEST_REASON = 80, 300
_ODD = re.compile(r"[^A-Za-z0-9._:/+-]+")


@dataclass(frozen=True)
class Said:
    """node: as the monitor calls it. cause: by which a repetition is known. do: one of WHAT, or empty for neither.

    at: when it was seen, in seconds since the epoch, where a message may be old. labels: None where a monitor has none.
    """

    node: str
    cause: str
    do: str
    source: str
    reason: str = ""
    at: Optional[float] = None
    labels: Optional[Mapping[str, Any]] = None


def cause_of(*words: Any) -> str:
    """One word, without anything that a name of an event may not have."""
    told = "-".join(one for one in (_ODD.sub("-", str(word)).strip("-") for word in words) if one)
    return told[:_LONGEST_CAUSE] or "unnamed"


def reason_of(*texts: Any) -> str:
    """The first text that says something, on one line."""
    told = next((text for text in texts if isinstance(text, str) and text.strip()), "")
    return one_line(told)[:_LONGEST_REASON]


def mapping(value: Any, what: str) -> Mapping[str, Any]:
    if isinstance(value, dict):
        return value
    raise unfit(what, "an object", value)


def listing(value: Any, what: str) -> Sequence[Any]:
    if isinstance(value, list) and len(value) <= MOST:
        return value
    raise unfit(what, f"a list of at most {MOST}", value)


def word(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""


def unfit(what: str, wanted: str, seen: Any) -> BadAnswer:
    shown = f"a list of {len(seen)}" if isinstance(seen, list) else type(seen).__name__
    return BadAnswer(f"{what} is not what a monitor sends", wanted=wanted, seen=shown, do="correct who sends it")
