# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of outages: by stage and service, what became of a run."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from gone import HOWS
from outages import Outage

HEAD = """# What an outage does to a run

`make outages` takes each service of the [built-in rack](../tutorial/first-run.md) away while a run comes to a stage,
gives it back after 5 or after 60 seconds, and writes here what it last saw (`make outages WRITE=1`). A service that
is *silent* is stopped: it takes connections and answers none. One that *refuses* has ended, and is started again.
Several are away in one run where that is possible, each of another service, so that a run which an earlier one ended
comes to the later ones another time.

Of each run it was asked that no healthy node is quarantined; that it goes on, or ends and names the service and what
to do; that the command which its report names then brings all nodes into service; and that no node is imaged twice,
unless the outage met the imaging itself. Where a run went on, what reached BMCs, Ironic, Slurm and the ledger is what
an undisturbed run sends there.

In a cell stand 5 s silent, 5 s refused, 60 s silent, 60 s refused; one sign alone stands for all four:

| sign | meaning |
|---|---|
| on | the run went on; in a run that something else ended later, a later stage was through by then |
| ends | the run ended and named the service, and the next run completed it |
| **wrong** | something of the above did not hold in the run that met it |
| ? | not tried, or the run ended before it could be told |
| - | does not apply: before its deployment a node of day 0 has no sshd, and the ledger, a file, refuses nobody |

`bmc:gpu001` speaks Redfish and `bmc:gpu004` IPMI. The ledger is a SQLite file, which another process has locked. A run
names Slurm for slurmctld and for munged: one that met both and ended by one of them has **ends** for each.

"""
#: Four in a cell.
ORDER = tuple((seconds, how) for seconds in (5.0, 60.0) for how in HOWS)
ON, ENDS, WRONG = "on", "ends", "**wrong**"
UNTRIED, NONE = "?", "-"
_RUNS = re.compile(r"^Seen in (\d+) runs:", re.MULTILINE)
#: By playbook and outage, what became of the run.
Seen = Mapping[tuple[str, Outage], str]


def outcomes(
    results: Sequence[Mapping[str, Any]], stages: Mapping[str, Sequence[str]]
) -> dict[tuple[str, Outage], str]:
    """The last one of each outage, where a run could tell one."""
    found = {}
    for line in results:
        for one in line["met"]:
            word = _outcome(line, one, stages[line["playbook"]])
            if word:
                found[line["playbook"], Outage(**one)] = word
    return found


def _outcome(line: Mapping[str, Any], one: dict[str, Any], stages: Sequence[str]) -> str:
    """Of a run that ended, nobody knows what it would have done after its end."""
    if line["wrong"]:
        return WRONG
    if line["rc"] and one in line["ended"]:
        return ENDS
    behind = max(map(stages.index, line["passed"]), default=-1) if line["rc"] else len(stages)
    return ON if stages.index(one["stage"]) < behind else ""


def remembered(page: str, services: Sequence[str]) -> tuple[dict[tuple[str, Outage], str], int]:
    """What a page says that was written before, wherever that was seen, and in how many runs."""
    found, playbook = {}, ""
    for line in page.splitlines():
        playbook = line.removeprefix("## ") if line.startswith("## ") else playbook
        stage, *row = (
            [one.strip() for one in line.strip("|").split("|")] if playbook and line.startswith("| ") else [""]
        )
        for service, told in zip(services, row if stage != "stage" else ()):
            words = zip(ORDER, told.split() if " " in told else ())
            tried = [(way, word) for way, word in words if word in (ON, ENDS, WRONG)]
            found.update({(playbook, Outage(stage, service, *way)): word for way, word in tried})
    runs = _RUNS.search(page)
    return found, int(runs[1]) if runs else 0


def written(
    results: Sequence[Mapping[str, Any]],
    stages: Mapping[str, Sequence[str]],
    services: Sequence[str],
    applying: Mapping[str, Sequence[Outage]],
    before: tuple[Seen, int] = ({}, 0),
    asks: Mapping[str, Collection[str]] | None = None,
) -> str:
    """The whole page; applying: by playbook, the outages that there are; before: as another page tells it; asks: by
    stage, the services that it asks."""
    seen = {**before[0], **outcomes(results, stages)}
    shares = (share(playbook, seen, applying[playbook], asks or {}) for playbook in stages)
    wrong = sum(1 for word in seen.values() if word == WRONG)
    lines = [HEAD + f"Seen in {before[1] + len(results)} runs: {'; '.join(shares)}; something was wrong with {wrong}."]
    for playbook, of_it in stages.items():
        lines += ["", f"## {playbook}", "", *table(playbook, of_it, services, seen, applying[playbook])]
    return "\n".join(lines) + "\n"


def share(playbook: str, seen: Seen, applying: Sequence[Outage], asks: Mapping[str, Collection[str]]) -> str:
    """How many were tried, and how many of those where the stage asks the service that is away."""
    asked = [one for one in applying if one.service in asks.get(one.stage, ())]
    tried, of_asked = (sum((playbook, one) in seen for one in some) for some in (applying, asked))
    where = f", {of_asked} of the {len(asked)} where the stage asks the service" if asked else ""
    return f"{tried} of {len(applying)} outages of {playbook} tried{where}"


def table(
    playbook: str, stages: Sequence[str], services: Sequence[str], seen: Seen, applying: Sequence[Outage]
) -> Iterator[str]:
    words = {one: seen.get((playbook, one), UNTRIED) for one in applying}
    yield f"| stage | {' | '.join(services)} |"
    yield f"|---|{'---|' * len(services)}"
    for stage in stages:
        yield f"| {stage} | {' | '.join(cell(stage, service, words) for service in services)} |"


def cell(stage: str, service: str, words: Mapping[Outage, str]) -> str:
    four = [words.get(Outage(stage, service, *way), NONE) for way in ORDER]
    return " ".join(four) if set(four) - {UNTRIED, NONE} else four[0]
