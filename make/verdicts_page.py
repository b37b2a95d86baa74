# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page on what the gates say of recorded outputs, written by make verdicts WRITE=1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "recorded-outputs.md"
BEGIN, END = "<!-- written by make verdicts WRITE=1 -->\n", "<!-- end of what it writes -->\n"


def write(reports: Sequence[Mapping[str, Any]], counts: str, *, page: Path = PAGE) -> None:
    """Replace the table of the page, and leave the words around it."""
    text = page.read_text(encoding="utf-8")
    before, _begin, rest = text.partition(BEGIN)
    _old, _end, after = rest.partition(END)
    rows = "\n".join(_row(one) for one in reports)
    head = "| output | wanted | gate | finding | how they compare |\n|---|---|---|---|---|"
    page.write_text(f"{before}{BEGIN}\n{counts}.\n\n{head}\n{rows}\n\n{END}{after}", encoding="utf-8")


def _row(one: Mapping[str, Any]) -> str:
    got = f"`{one['got']}`" if one.get("got") else "–"
    finding = f"`{one['finding']}`" if one.get("finding") else ""
    cells = (f"`{one['file']}`", one["wanted"] or "–", got, finding, one["status"])
    return "| " + " | ".join(str(cell).replace("|", "/") for cell in cells) + " |"
