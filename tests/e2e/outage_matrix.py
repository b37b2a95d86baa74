# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every service of the rack is taken away at every stage, for 5 and for 60 s, silent and refusing: make outages

One run meets as many outages as fit into it, each of another service. One that ends early leaves the rest to later
runs. What a run did is told of each outage that it met, and that it got beyond.

    outage_matrix.py [--minutes 60] [--only WORDS] [--needed] [--anew] [--write]

What was tried is remembered in build/e2e/outages.jsonl and not tried again, unless something was wrong with it or the
run ended before it could be told.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import counts
import lab
import outages
from gone import HOWS, REFUSED
from outage_page import WRONG, outcomes, remembered, written
from outages import PREFLIGHT, Outage

RESULTS = lab.CHECKOUT / "build" / "e2e" / "outages.jsonl"
PAGE = lab.CHECKOUT / "docs" / "reference" / "outages.md"
SERVICES = ("ironic", "boot-http", "slurmctld", "munged", "bmc:gpu001", "bmc:gpu004", "sshd:gpu002", "ledger")
SECONDS = (5.0, 60.0)
#: From the hold to the readmission both playbooks go the same way.
COMMON = (
    "Read power, identity and capabilities from the BMC",
    "Hold the node at its scheduler",
    "Wait until the batch is drained",
    "Verify the golden image before it goes anywhere",
    "Record that imaging begins",
    "Start the deploy",
    "Wait until the batch is deployed",
    "Wait until the batch answers over SSH",
    "Prove that the declared image runs",
    "Read the kernel log since the node was imaged",
    "Run the DCGM diagnostics",
    "Wait until the diagnostics of the batch have ended",
    "Issue the passport",
    "Verify the passport",
    "Lift our hold",
    "Wait until the scheduler sees the batch answer",
    "Record that the node is admitted",
    "Show where each node stands",
)
ENROLMENT = ("Make the node known to its provisioner and start it towards ready", "Wait until the batch is ready")
STAGES = {
    "day0_bringup": ("Read where each node stands", PREFLIGHT, *COMMON[:3], *ENROLMENT, *COMMON[3:]),
    "day2_recycle": ("Read where each node stands", "Read the kernel log since admission", *COMMON),
}
ARGS = {"day0_bringup": (), "day2_recycle": ("-e", '{"day2_recycle_all": true}')}
#: What each stage asks, of the two BMCs and of any node either. These are tried first.
BMC, SLURM = ("bmc:gpu001", "bmc:gpu004"), ("slurmctld", "munged", "ledger")
ASKS = {
    "Read where each node stands": SLURM,
    PREFLIGHT: ("ironic", "boot-http", *BMC, *SLURM),
    "Read power, identity and capabilities from the BMC": (*BMC, "ledger"),
    "Hold the node at its scheduler": SLURM,
    "Wait until the batch is drained": SLURM,
    "Make the node known to its provisioner and start it towards ready": ("ironic", "ledger"),
    "Wait until the batch is ready": ("ironic", *BMC),
    "Verify the golden image before it goes anywhere": ("boot-http",),
    "Record that imaging begins": ("ledger",),
    "Start the deploy": ("ironic", *BMC, *SLURM),
    "Wait until the batch is deployed": ("ironic", "boot-http", *BMC),
    "Wait until the batch answers over SSH": ("boot-http", "sshd:gpu002"),
    "Prove that the declared image runs": ("boot-http", "sshd:gpu002", "ledger"),
    "Read the kernel log since the node was imaged": ("sshd:gpu002",),
    "Read the kernel log since admission": ("sshd:gpu002",),
    "Run the DCGM diagnostics": ("sshd:gpu002", "slurmctld"),
    "Wait until the diagnostics of the batch have ended": ("sshd:gpu002",),
    "Issue the passport": ("ledger", "sshd:gpu002"),
    "Verify the passport": ("ledger", "sshd:gpu002"),
    "Lift our hold": SLURM,
    "Wait until the scheduler sees the batch answer": ("slurmctld", "munged"),
    "Record that the node is admitted": ("ledger",),
    "Show where each node stands": SLURM,
}
#: No run meets more of them: what it did is told of each.
AT_ONCE = {5.0: 8, 60.0: 6}


def cells(playbook: str) -> Iterator[Outage]:
    for stage, service, seconds, how in product(STAGES[playbook], SERVICES, SECONDS, HOWS):
        if (service, how) == ("ledger", REFUSED):  # a file refuses nobody
            continue
        if playbook == "day0_bringup" and service.startswith("sshd") and not _after_the_deploy(stage):
            continue  # no system runs yet
        yield Outage(stage, service, seconds, how)


def _after_the_deploy(stage: str) -> bool:
    return COMMON.index(stage) >= COMMON.index("Wait until the batch answers over SSH") if stage in COMMON else False


def chosen(left: Sequence[Outage], stages: Sequence[str]) -> list[Outage]:
    """As many of what is left as one run can meet, in their order, each at a stage of its own and all as long.

    Each is of a service of its own, too: the second of two would find it away still, or just come back.
    """
    first = left[0]
    found = [first]
    for one in left[1:]:
        alike = one.seconds == first.seconds and one.stage not in {other.stage for other in found}
        apart = one.service not in {other.service for other in found}
        if alike and apart and len(found) < AT_ONCE[first.seconds]:
            found.append(one)
    return sorted(found, key=lambda one: stages.index(one.stage))


def still_left(left: Sequence[Outage], asked: Sequence[Outage], line: dict[str, Any]) -> list[Outage]:
    """Without what the run has told of; one that told nothing of what was asked would do so again and again."""
    told = {outage for _playbook, outage in outcomes([line], STAGES)}
    done = told & set(asked) or set(asked)
    return [one for one in left if one not in done]


def rounds(playbook: str, left: list[Outage], end: float, undisturbed: dict[str, Any]) -> None:
    failures = 0
    while left and time.time() < end:
        asked = chosen(left, STAGES[playbook])
        if playbook == "day0_bringup" or failures:
            lab.new_rack()
            if playbook != "day0_bringup":
                assert lab.play("day0_bringup").rc == 0
        played = outages.play(playbook, ARGS[playbook], asked, undisturbed)
        run, met, wrong = played.run, played.met, played.wrong
        failures = len(wrong)
        told = {"playbook": playbook, "met": [vars(one) for one in met], "rc": run.rc, "seconds": run.seconds}
        told["ended"] = [vars(one) for one in played.ended]
        through = outages.passed(run)
        told |= {"passed": [stage for stage in STAGES[playbook] if stage in through], "wrong": wrong}
        left = still_left(left, asked, told)
        with RESULTS.open("a", encoding="utf-8") as file:
            file.write(json.dumps(told) + "\n")
        print(
            f"{playbook}: {'; '.join(map(str, met))}: exit {run.rc}, {run.seconds:.0f} s",
            *wrong,
            sep="\n  ",
            flush=True,
        )
        if run.rc or wrong:
            RESULTS.with_name(f"outages-{int(time.time())}.out").write_text(run.output, encoding="utf-8")


def done_already() -> list[dict[str, Any]]:
    return [json.loads(line) for line in RESULTS.read_text(encoding="utf-8").splitlines()] if RESULTS.exists() else []


def seen_before(anew: bool) -> tuple[dict[tuple[str, Outage], str], int]:
    """What the page says of runs elsewhere: as it was before the first run here, whose results it has by now."""
    kept = RESULTS.with_name("outages-before.md")
    if anew:
        RESULTS.unlink(missing_ok=True)
        kept.write_text("", encoding="utf-8")
    elif not RESULTS.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    return remembered(kept.read_text(encoding="utf-8") if kept.exists() else "", SERVICES)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=600)
    parser.add_argument("--only", default="", help="words that must all be in an outage, such as: slurmctld silent 60")
    parser.add_argument("--playbooks", default=",".join(STAGES), help="those to play")
    parser.add_argument("--needed", action="store_true", help="only where the stage asks the service")
    parser.add_argument("--anew", action="store_true", help="try again what was tried before")
    parser.add_argument("--write", action="store_true", help=f"write the results into {PAGE.name}")
    asked = parser.parse_args()
    before = seen_before(asked.anew)
    end = time.time() + 60 * asked.minutes
    known = {key for key, word in {**before[0], **outcomes(done_already(), STAGES)}.items() if word != WRONG}
    for playbook in asked.playbooks.split(","):
        left = [
            one
            for one in cells(playbook)
            if all(word in str(one) for word in asked.only.split()) and (playbook, one) not in known
        ]
        random.Random(4711).shuffle(left)
        left.sort(key=lambda one: (one.seconds, one.service not in ASKS[one.stage]))
        if asked.needed:
            left = [one for one in left if one.service in ASKS[one.stage]]
        if left and time.time() < end:
            rounds(playbook, left, end, undisturbed(playbook))
    if asked.write:
        of_each = {playbook: list(cells(playbook)) for playbook in STAGES}
        PAGE.write_text(written(done_already(), STAGES, SERVICES, of_each, before, ASKS), encoding="utf-8")


def undisturbed(playbook: str) -> dict[str, Any]:
    """What a run does that nobody disturbs."""
    lab.new_rack()
    for name in dict.fromkeys(["day0_bringup", playbook]):
        before = counts.counters()
        run = lab.play(name, *ARGS[name])
        assert run.rc == 0, run.tail()
    return counts.done_since(before)


if __name__ == "__main__":
    main()
