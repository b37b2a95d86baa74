# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How often gate_outliers' rule, a fixed -5 % and three sigma each accept a slow node, and reject a healthy one.

    outliers.py [--runs 1000] [--write]

Nothing is measured: the figures of a fleet are drawn, each row of a table with a seed of its own, so that the same row
comes out again wherever it is computed. --write puts the tables into docs/reference/outliers.md, from which
tests/unit/outliers computes some rows anew.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import fmean, stdev

from ansible_collections.gpufleet.baremetal.plugins.module_utils._outliers.rule import LOW, PEERS, limit_of

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "outliers.md"
BEGIN, END = "<!-- written by make bench-outliers -->\n", "<!-- end of what it writes -->\n"
SIZES = (8, 9, 16, 32, 128, 1024)
LOSSES = (1, 2, 3, 4, 5, 6, 7, 8)
#: How far healthy nodes differ among each other, as per cent of the mean.
SPREADS = (0.5, 1.0)
#: Of 32 nodes, so many slow ones, each by so much.
MANY, MANY_OF, MANY_LOSSES = (1, 3, 8, 12), 32, (4, 8)
RUNS = 1000

Rule = Callable[[Sequence[float]], float]
NOBODY = float("-inf")


def ours(values: Sequence[float]) -> float:
    """Below it a node is rejected; with too few peers nobody is judged."""
    limit = limit_of(values, LOW) if len(values) > PEERS else None
    return NOBODY if limit is None else limit.at


def fixed(values: Sequence[float]) -> float:
    return fmean(values) * 0.95


def three_sigma(values: Sequence[float]) -> float:
    return fmean(values) - 3 * stdev(values)


RULES: dict[str, Rule] = {"gate_outliers": ours, "-5 %": fixed, "3 sigma": three_sigma}


def counted(nodes: int, spread: float, slow: int, loss: int, runs: int = RUNS) -> dict[str, tuple[float, float]]:
    """By rule which part of the slow nodes it accepts, and of the healthy ones it rejects, each as per cent."""
    chance = random.Random(f"{nodes} {spread} {slow} {loss}")
    accepted, rejected = dict.fromkeys(RULES, 0), dict.fromkeys(RULES, 0)
    for _ in range(runs):
        values = [chance.gauss(100.0, spread) for _ in range(nodes)]
        values[:slow] = [value * (1 - loss / 100) for value in values[:slow]]
        for name, rule in RULES.items():
            limit = rule(values)
            accepted[name] += sum(value >= limit for value in values[:slow])
            rejected[name] += sum(value < limit for value in values[slow:])
    return {
        name: (100 * accepted[name] / (runs * slow), 100 * rejected[name] / (runs * (nodes - slow))) for name in RULES
    }


def shown(value: float) -> str:
    """Nothing at all is told apart from what is rare."""
    return "0" if not value else f"{value:.0f}" if value >= 10 else f"{value:.2g}" if value >= 0.01 else "<0.01"


def row(nodes: int, spread: float, runs: int = RUNS) -> tuple[str, str]:
    """One size of fleet: what is accepted by loss, and what is rejected by rule."""
    found = [counted(nodes, spread, 1, loss, runs) for loss in LOSSES]
    none = nodes <= PEERS

    def cell(one: dict[str, tuple[float, float]]) -> str:
        return " / ".join("–" if none and name == "gate_outliers" else shown(one[name][0]) for name in RULES)

    worst = {name: fmean(one[name][1] for one in found) for name in RULES}
    rejected = ["–" if none and name == "gate_outliers" else shown(worst[name]) for name in RULES]
    return f"| {nodes} | {' | '.join(map(cell, found))} |", f"| {nodes} | {' | '.join(rejected)} |"


def row_of_many(slow: int, loss: int, runs: int = RUNS) -> str:
    found = counted(MANY_OF, SPREADS[0], slow, loss, runs)
    cells = [f"{shown(found[name][0])} / {shown(found[name][1])}" for name in RULES]
    return f"| {slow} of {MANY_OF}, each by {loss} % | {' | '.join(cells)} |"


def tables(runs: int) -> str:
    parts = []
    for spread in SPREADS:
        accepted, rejected = zip(*(row(nodes, spread, runs) for nodes in SIZES), strict=True)
        heads = [f"-{loss} %" for loss in LOSSES]
        parts += [
            f"Healthy nodes differ by {spread:g} %, one node is slow. Slow nodes that are accepted, in per cent,",
            f"{' / '.join(RULES)}:\n",
            *table(["nodes", *heads], accepted),
            "Healthy nodes that are rejected beside it, in per cent:\n",
            *table(["nodes", *RULES], rejected),
        ]
    parts.append("Several are slow, and healthy ones differ by 0.5 %. Accepted / rejected, in per cent:\n")
    parts += table(["slow", *RULES], (row_of_many(slow, loss, runs) for loss in MANY_LOSSES for slow in MANY))
    return "\n".join(parts)


def table(heads: Sequence[str], rows: Iterable[str]) -> list[str]:
    return [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads), *rows, ""]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    told = tables(asked.runs)
    print(told)
    if asked.write:
        page = PAGE.read_text(encoding="utf-8")
        before, _begin, rest = page.partition(BEGIN)
        after = rest.partition(END)[2]
        PAGE.write_text(f"{before}{BEGIN}\n{told}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
