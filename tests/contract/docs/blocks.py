# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The blocks of the pages that tell a reader what to write and what to type."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
README, RACK, FIRST = "README.md", "docs/how-to/own-rack.md", "docs/how-to/before-the-first-run.md"
WEEK, UPGRADE, BROKEN = "docs/tutorial/first-week.md", "docs/how-to/upgrade.md", "docs/how-to/quarantined-node.md"
#: What writes to servers is typed on the built-in rack: tests/e2e/reader.py.
ON_THE_RACK = [(README, 8), (RACK, 4), (RACK, 5), (FIRST, 0), (FIRST, 2), (UPGRADE, 2), (BROKEN, 1)]
ON_THE_RACK += [(WEEK, number) for number in range(3)]
#: What is typed against nodes with an sshd of their own: test_host_keys.py.
HOST_KEYS = "docs/how-to/host-keys.md"
WITH_SSHD = [(HOST_KEYS, number) for number in range(4)]
#: One of a list's items is set in as far as its text.
_FENCE = re.compile(r"^( *)```(\w*)$")
_NOT_RUN = re.compile(r"^<!-- not run: (.+) -->$")
_INLINE = re.compile(r"`([^`]+)`")
_FILE = re.compile(r"[\w./]+\.(?:yml|csv|cfg)")


@dataclass(frozen=True)
class Block:
    """One of a page, and what the page says of it: the file that it is, or why nobody runs it here."""

    page: str
    number: int
    language: str
    text: str
    file: str
    not_run: str

    @property
    def commands(self) -> str:
        """What a reader types: all of it, or what stands behind a prompt."""
        if self.language != "console":
            return self.text
        typed, goes_on = [], False
        for line in self.text.splitlines():
            if line.startswith("$ ") or goes_on:
                typed.append(line.removeprefix("$ "))
                goes_on = line.endswith("\\")
        return "\n".join(typed) + "\n"

    def __str__(self) -> str:
        return f"{self.page}, block {self.number}"


def pages() -> list[str]:
    found = [
        ROOT / "README.md",
        *sorted((ROOT / "docs/tutorial").glob("*.md")),
        *sorted((ROOT / "docs/how-to").glob("*")),
    ]
    return [path.relative_to(ROOT).as_posix() for path in found]


def blocks(page: str) -> list[Block]:
    return list(_blocks(page, (ROOT / page).read_text(encoding="utf-8").splitlines()))


def _blocks(page: str, lines: list[str]) -> Iterator[Block]:
    number, before = 0, 0
    for at, line in enumerate(lines):
        fence = _FENCE.match(line) if at >= before else None
        if not fence:
            continue
        end = lines.index(f"{fence[1]}```", at + 1)
        content = [inner.removeprefix(fence[1]) + "\n" for inner in lines[at + 1 : end]]
        told = [text.strip() for text in lines[before:at] if text.strip()]
        mark = _NOT_RUN.match(told[-1]) if told else None
        yield Block(page, number, fence[2], "".join(content), _file(told, fence[2]), mark[1] if mark else "")
        number, before = number + 1, end + 1


def _file(told: list[str], language: str) -> str:
    """The last thing that the text before it quotes, if that is a file of this language."""
    quoted = _INLINE.findall(" ".join(told))
    known = {"yaml", "csv", "ini"}
    return quoted[-1] if language in known and quoted and _FILE.fullmatch(quoted[-1]) else ""
