# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What people are told of outliers: those of one cause in one row. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._folded import folded, in_order
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.summary import wrapped
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import FAIL, INCONCLUSIVE, PASS

_WORDS = {FAIL: "slower", PASS: "like their peers", INCONCLUSIVE: "not to be judged"}
#: So many texts of one node are shown; the ledger, or the result, has them all.
_TEXTS = 4


def counts(verdicts: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    found = dict.fromkeys(_WORDS, 0)
    for one in verdicts.values():
        found[one["verdict"]] += 1
    return found


def table(title: str, verdicts: Mapping[str, Mapping[str, Any]], width: int) -> list[str]:
    """By host name, what each verdict says beside a pass; outliers first."""
    total = ", ".join(f"{count} {_WORDS[word]}" for word, count in counts(verdicts).items())
    lines = wrapped("", f"{title}: {len(verdicts)} nodes: {total}", width)
    rows: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for host in in_order(verdicts):
        one = verdicts[host]
        texts = list(dict.fromkeys(finding["text"] for finding in one["findings"]))
        more = [f"and {len(texts) - _TEXTS} more"] if len(texts) > _TEXTS else []
        if one["verdict"] != PASS:
            rows.setdefault((one["verdict"], one["remedy"], (*texts[:_TEXTS], *more)), []).append(host)
    for (word, remedy, told), hosts in sorted(rows.items(), key=lambda row: (row[0][0] != FAIL, -len(row[1]))):
        head = f"  {word:<12}  {len(hosts):>4}  "
        lines += ["", *wrapped(head, folded(hosts), width)]
        for text in told:
            lines += wrapped(" " * len(head), text, width)
        lines += wrapped(" " * len(head), f"remedy: {remedy}", width) if word == FAIL else []
    return lines
