# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers, as Warewulf's API words them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Answer:
    code: int
    body: bytes = b""
    kind: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()


def told(value: Any, code: int = 200) -> Answer:
    return Answer(code, json.dumps(value).encode() + b"\n")


def invalid(words: str) -> Answer:
    return told({"status": "INVALID_ARGUMENT", "error": f"invalid argument: {words}"}, 400)


def not_found(words: str) -> Answer:
    return told({"status": "NOT_FOUND", "error": f"not found: {words}"}, 404)


def plain(code: int, words: str, *headers: tuple[str, str]) -> Answer:
    return Answer(code, f"{words}\n".encode(), "text/plain; charset=utf-8", headers)


def failed(words: str) -> Answer:
    """An error that nobody has given a kind."""
    return told({"error": words}, 500)
