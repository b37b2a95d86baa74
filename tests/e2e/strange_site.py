# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A site that is not ours alone: who else is there, what happens in between, and what must hold after every run.

gpu001 works for another controller with a ledger of its own, and has a job. gpu002 is that controller's as well, and a
person has drained it. gpu003 and gpu004 are in our inventory alone. All four are in the inventory of each run.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import counts
import lab

THEIRS = ("gpu001", "gpu002")
OURS = ("gpu003", "gpu004")
ANOTHER_LEDGER = f"gpufleet_ledger_url=sqlite:///{lab.RACK}/another.sqlite"
MEMTEST = "alice: memtest"
SERVING = ("IDLE", "MIXED", "ALLOCATED")
ALL = ("-e", '{"day2_recycle_all": true}')


def extra(**values: Any) -> tuple[str, ...]:
    return ("-e", json.dumps(values))


#: A job may run for a day, and nobody waits for it here.
IMPATIENT = extra(drain_timeout=15)
#: Every playbook that a user has, with what it is told.
PLAYBOOKS: tuple[tuple[str, ...], ...] = (
    *(("day0_bringup",),) * 2,
    *(("day2_recycle",),) * 4,
    *(("day2_recycle", *ALL),) * 2,
    ("drain",),
    ("reimage",),
    ("revalidate",),
    ("readmit",),
    ("passports",),
    ("passports", *extra(passports_renew=True, passports_all=True, passports_all_hours=0)),
    ("maintenance", *extra(maintenance="on", maintenance_why="ticket 4711")),
    ("maintenance", *extra(maintenance="off", maintenance_readmit=True)),
    ("maintenance", *extra(maintenance="off")),
)
LIMITS: tuple[tuple[str, ...], ...] = ((), (), (), OURS, OURS, *((node,) for node in lab.NODES), ("gpu002", "gpu003"))


@dataclass
class Site:
    """The rack, and what somebody who looks at it from outside knows."""

    jobs: dict[str, str] = field(default_factory=dict)
    #: Drained by a person meanwhile, with the text.
    drained: dict[str, str] = field(default_factory=dict)
    #: Nodes that were broken at some time: only these may end in quarantine.
    broken: set[str] = field(default_factory=set)
    told: list[str] = field(default_factory=list)

    # -- what happens in between -------------------------------------------------------------------------------

    def job(self, node: str) -> None:
        """Somebody's job, where the scheduler gives it work."""
        if node in self.jobs or lab.node_state(node)["state"] not in SERVING:
            return
        asked = ("sbatch", "--parsable", "-w", node, "--output=/dev/null", "--wrap", "sleep 3600")
        number = lab.slurm(*asked).strip()
        lab.wait_for(lambda: self.runs(number), 30, f"job {number} runs")
        self.jobs[node] = number

    def job_ends(self, node: str) -> None:
        if node in self.jobs:
            lab.slurm("scancel", self.jobs.pop(node))

    def person_drains(self, node: str) -> None:
        if lab.node_state(node) == {"state": "IDLE", "reason": ""}:
            lab.slurm("scontrol", "update", f"nodename={node}", "state=drain", f"reason={MEMTEST}")
            self.drained[node] = MEMTEST

    def person_resumes(self, node: str) -> None:
        if self.drained.pop(node, None):
            lab.slurm("scontrol", "update", f"nodename={node}", "state=resume")

    def breaks(self, node: str) -> None:
        """A GPU falls off the bus; only a node in service shows it to day 2."""
        if lab.node_state(node)["state"] in SERVING:
            self.broken.add(node)
            lab.fault(node, "xid79")

    def is_mended(self, node: str) -> None:
        lab.fault(node, "none")

    def no_network_boot(self, node: str) -> None:
        self.broken.add(node)
        lab.fault(node, "ignore_netboot")

    # -- what must hold ----------------------------------------------------------------------------------------

    def runs(self, number: str) -> bool:
        return "JobState=RUNNING" in lab.slurm("scontrol", "-o", "show", "job", number)

    def wrong(self, theirs: dict[str, Any]) -> list[str]:
        """Everything that may not be, in words. ``theirs``: the others' world as it was before the run."""
        found = [f"job {job} on {node} was lost" for node, job in self.jobs.items() if not self.runs(job)]
        if counts.world(*THEIRS) != theirs:
            found.append(f"what is not ours was touched: {theirs} became {counts.world(*THEIRS)}")
        for node, why in self.drained.items():
            if lab.node_state(node)["reason"] != why:
                found.append(f"a person's hold of {node} was lifted: {lab.node_state(node)}")
        report = lab.verbs_on(OURS, [("fleet_status", {})])[OURS[0]][0]["nodes"]
        for node in OURS:
            found += self._wrong_of(node, report.get(node, {}))
        return found

    def _wrong_of(self, node: str, shown: dict[str, Any]) -> list[str]:
        found = []
        slurm, states = lab.node_state(node), counts.events_of("state")[node]
        if "quarantined" in states and node not in self.broken:
            found.append(f"{node} is healthy and was quarantined")
        imaged, booted = states.count("imaging"), counts.network_boots(node)
        if booted > imaged:
            found.append(f"{node} booted {booted} times from the network, and the ledger tells of {imaged} deployments")
        serves = slurm["state"] in SERVING and states
        if serves:
            found += self._wrong_of_a_serving_one(node, states)
        elif states and slurm["reason"].startswith("gpufleet:") and not shown.get("next"):
            found.append(f"{node} is held ({slurm}), and nobody is told what to do next: {shown}")
        return found

    def _wrong_of_a_serving_one(self, node: str, states: list[str]) -> list[str]:
        if states[-1] != "admitted":
            return [f"{node} serves, and the ledger has it as {states[-1]}"]
        rows = counts.ledger_rows(
            "SELECT envelope FROM passports JOIN nodes USING (node_id)"
            f" WHERE name = '{node}' ORDER BY passports.id DESC LIMIT 1"
        )
        boot = boot_of(node)
        if not rows:
            return [f"{node} serves without a passport"]
        return [] if boot in counts.payload(str(rows[0][0])) else [f"{node} serves on boot {boot}, which nobody judged"]


def boot_of(node: str) -> str:
    """The boot that the node runs, by the rack's own record."""
    boots = (lab.RACK / "nodes" / node / "boots.jsonl").read_text(encoding="utf-8").splitlines()
    return str(json.loads(boots[-1])["boot_id"])


def strange_site() -> Site:
    """Two nodes brought up by somebody else, one of them with a job and one drained; two that nobody has used."""
    lab.new_rack()
    (lab.RACK / "another.sqlite").unlink(missing_ok=True)
    run = lab.play("day0_bringup", "--limit", ",".join(THEIRS), "-e", ANOTHER_LEDGER)
    assert run.rc == 0, run.tail()
    site = Site()
    site.job("gpu001")
    lab.slurm("scontrol", "update", "nodename=gpu002", "state=drain", f"reason={MEMTEST}")
    return site


def happenings(site: Site) -> dict[str, Callable[[str], None]]:
    return {
        "job": site.job,
        "job ends": site.job_ends,
        "person drains": site.person_drains,
        "person resumes": site.person_resumes,
        "breaks": site.breaks,
        "mended": site.is_mended,
        "ignores network boots": site.no_network_boot,
    }


def step(site: Site, chance: random.Random) -> None:
    """Perhaps something happens, then somebody runs a playbook; first of all day 0, of the whole inventory.

    :raises AssertionError: naming what went wrong, and all that was done before it.
    """
    if not site.told:
        return played(site, ("day0_bringup",), ())
    if chance.random() < 0.6:
        what, node = chance.choice(sorted(happenings(site))), chance.choice(OURS)
        site.told.append(f"{what}: {node}")
        happenings(site)[what](node)
    return played(site, chance.choice(PLAYBOOKS), chance.choice(LIMITS))


def played(site: Site, asked: tuple[str, ...], limit: tuple[str, ...]) -> None:
    playbook, *args = asked
    theirs = counts.world(*THEIRS)
    site.told.append(f"{playbook} {' '.join(args)} --limit {','.join(limit) or 'all'}")
    run = lab.play(playbook, *args, *IMPATIENT, *(("--limit", ",".join(limit)) if limit else ()))
    site.told[-1] += f": exit {run.rc} after {run.seconds:.0f} s"
    print("\n".join(site.told[-2:]), flush=True)
    wrong = site.wrong(theirs)
    story = "\n".join(f"{number:3}  {line}" for number, line in enumerate(site.told, 1))
    assert not wrong, "\n".join([*wrong, "", "What was done:", story, "", run.tail()])
