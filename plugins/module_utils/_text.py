# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a stranger wrote, as it may be shown. PRIVATE to the collection.

A node, a BMC, a provisioner or a source may send what a terminal acts on: escape sequences that colour, move the cursor
or write what nobody typed, marks that turn the direction of a line, characters that nobody sees. None of it is dropped
silently: it is spelled out, so that whoever reads a result, a ledger's row or a log sees that it was there.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any

#: Controls (C1 as well), marks of direction and of width zero, halves of characters, dividers of lines and paragraphs.
UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
#: Line breaks and tabs stay: they are part of what programs print.
_SUSPECT = re.compile(r"[^\n\t\x20-\x7e]")


def unseen(char: str) -> bool:
    """Does a terminal act on it, or does nobody see it?"""
    return unicodedata.category(char) in UNSEEN


def harmless(text: str) -> str:
    r"""The text with each control spelled out, ``\x1b`` for instance; line breaks and tabs stay as they are."""
    return text if text.isprintable() else _SUSPECT.sub(_spelled, text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """The same for where one line is wanted, such as a scheduler's reason: a run of controls is one blank."""
    if text.isprintable():
        return text.strip()
    marked = "".join("\n" if unseen(char) else char for char in text)
    return re.sub("\n+", " ", marked).strip()


def harmless_all(value: Any) -> Any:
    """A copy of a JSON-like value with each text in it harmless, those of its keys, too."""
    if isinstance(value, dict):
        return {harmless_all(key): harmless_all(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [harmless_all(item) for item in value]
    return harmless(value) if isinstance(value, str) else value


def _spelled(found: re.Match[str]) -> str:
    char = found[0]
    if not unseen(char):
        return char
    number = ord(char)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
