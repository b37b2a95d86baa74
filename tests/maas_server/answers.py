# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What MAAS answers: JSON, text, or nothing at all."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

_JSON = "application/json; charset=utf-8"
_TEXT = "text/plain; charset=utf-8"


@dataclass
class Answer:
    code: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)

    @classmethod
    def json(cls, value: Any, code: int = 200) -> Answer:
        return cls(code, json.dumps(value, indent=4).encode(), {"Content-Type": _JSON})

    @classmethod
    def form_error(cls, errors: dict[str, list[str]]) -> Answer:
        """Of a form: 400 with JSON, on one line."""
        return cls(400, json.dumps(errors).encode(), {"Content-Type": _JSON})

    @classmethod
    def text(cls, code: int, text: str, content_type: str = _TEXT) -> Answer:
        return cls(code, text.encode(), {"Content-Type": content_type})

    @classmethod
    def forbidden(cls) -> Answer:
        """Locked, not the owner, no administrator: which one, MAAS does not say."""
        return cls.text(403, "")


class AnswerError(Exception):
    """Ends a request with this answer."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.code)
        self.answer = answer


def conflict(text: str) -> AnswerError:
    return AnswerError(Answer.text(409, text))
