# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parameters as MAAS reads them, with what it overlooks."""

from __future__ import annotations

import email.parser
import email.policy
import json
from typing import Any, Optional
from urllib.parse import parse_qsl

from .answers import Answer, AnswerError

#: These read request.POST, which a JSON body leaves empty; the others read request.data.
READS_POST = frozenset({"deploy", "mark_broken", "mark_fixed", "power_on", "power_off", "allocate", "lock", "unlock"})
_TRUE = frozenset({"true", "t", "yes", "y", "on", "1"})
_FALSE = frozenset({"false", "f", "no", "n", "off", "0"})


class Params:
    """The query and the body of one request."""

    def __init__(self, query: str, body: bytes, content_type: str) -> None:
        self.query = parse_qsl(query, keep_blank_values=True)
        self.body = body
        kind = content_type.partition(";")[0].strip().lower()
        self.is_json = kind == "application/json"
        self.form = self._form(kind, body, content_type)

    @staticmethod
    def _form(kind: str, body: bytes, content_type: str) -> list[tuple[str, str]]:
        if kind == "application/json":
            told = json.loads(body or b"{}")
            return [
                (key, str(item))
                for key, value in told.items()
                for item in (value if isinstance(value, list) else [value])
            ]
        if kind == "multipart/form-data":
            fields = _multipart(body, content_type)
            if not fields:
                # No body, no type: what clients of MAAS 3.6 and later ran into with `release`.
                raise AnswerError(Answer(400))
            return fields
        if kind == "application/octet-stream":
            return []
        return parse_qsl(body.decode("utf-8", errors="replace"), keep_blank_values=True)

    @property
    def op(self) -> str:
        return dict(self.query).get("op") or ("" if self.is_json else dict(self.form).get("op", ""))

    def for_op(self, op: str) -> Form:
        if self.is_json and op in READS_POST:
            return Form([])
        return Form([(key, value) for key, value in self.form if key != "op"])

    def filters(self) -> list[tuple[str, str]]:
        return [(key, value) for key, value in self.query if key != "op"]


class Form:
    """A body's fields. What no operation asks for is ignored in silence."""

    def __init__(self, fields: list[tuple[str, str]]) -> None:
        self.fields = fields

    def get(self, key: str, default: str = "") -> str:
        return dict(self.fields).get(key, default)

    def has(self, key: str) -> bool:
        return key in dict(self.fields)

    def all(self, key: str) -> list[str]:
        return [value for name, value in self.fields if name == key]

    def below(self, prefix: str) -> dict[str, str]:
        return {key[len(prefix) :]: value for key, value in self.fields if key.startswith(prefix)}

    def django_bool(self, key: str, default: bool = False) -> bool:
        """A BooleanField: only the word false is false, ``0`` is true."""
        if not self.has(key):
            return default
        value = self.get(key)
        return {"true": True, "false": False}.get(value.lower(), bool(value))

    def string_bool(self, key: str) -> bool:
        """A formencode StringBool: here ``0`` is false."""
        value = self.get(key, "false").lower()
        if value not in _TRUE | _FALSE:
            raise AnswerError(Answer.text(400, f"Invalid {key}: Value should be 'true' or 'false'"))
        return value in _TRUE


def _multipart(body: bytes, content_type: str) -> list[tuple[str, str]]:
    head = f"Content-Type: {content_type}\r\n\r\n".encode()
    message: Any = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + body)
    fields: list[tuple[str, str]] = []
    for part in message.iter_parts() if message.is_multipart() else []:
        name: Optional[str] = part.get_param("name", header="content-disposition")
        if name:
            fields.append(
                (str(name), part.get_content().strip("\r\n") if part.get_content_maintype() == "text" else "")
            )
    return fields
