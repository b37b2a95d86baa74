# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A site that is not ours alone: who else is there, what happens in between, and what must hold after every run.

gpu001 works for another controller with a ledger of its own, and has a job. gpu002 is that controller's as well, and a
person has drained it. gpu003 and gpu004 are in our inventory alone. All four are in the inventory of each run. So they
are in that of the other controller, whose runs come in between. A colleague has a copy of ours with mistakes in it.
"""

from __future__ import annotations

import json
import random
import re
import shlex
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import counts
import lab
from reset_button import reset
from strange_world import MISTAKEN, ROWS, SERVICES, answers, away, mistaken_inventory

THEIRS = ("gpu001", "gpu002")
OURS = ("gpu003", "gpu004")
ANOTHER_LEDGER = f"gpufleet_ledger_url=sqlite:///{lab.RACK}/another.sqlite"
MEMTEST = "alice: memtest"
SERVING = ("IDLE", "MIXED", "ALLOCATED")
#: Whatever breaks here: it shows in the kernel log, and in the number of GPUs.
FAULT = "xid79"
ALL = ("-e", '{"day2_recycle_all": true}')


def extra(**values: Any) -> tuple[str, ...]:
    return ("-e", json.dumps(values))


#: A job may run for a day, and nobody waits for it here.
IMPATIENT = extra(drain_timeout=15)
DEST = {"gate_profile_dest": str(lab.RACK / "profiles")}
LIST = {"import_servers_path": str(lab.RACK / "servers.csv")}
#: Every playbook that a user has, with what it is told.
PLAYBOOKS: tuple[tuple[str, ...], ...] = (
    *(("day0_bringup",),) * 2,
    *(("day2_recycle",),) * 4,
    *(("day2_recycle", *ALL),) * 2,
    ("drain",),
    ("reimage",),
    ("revalidate",),
    ("readmit",),
    # The rack's profiles do not say how to soak: it is stopped before anything is held.
    ("burn_in",),
    # The rack's Slurm has no partition whose jobs give way: nothing is begun.
    ("verify_idle", *extra(verify_idle_queue="verify")),
    # To adopt in earnest is a person's word that these nodes are ours.
    ("adopt", "--check"),
    ("passports",),
    ("passports", *extra(passports_renew=True, passports_all=True, passports_all_hours=0)),
    ("maintenance", *extra(maintenance="on", maintenance_why="ticket 4711")),
    ("maintenance", *extra(maintenance="off", maintenance_readmit=True)),
    ("maintenance", *extra(maintenance="off")),
    # These only read, whatever they find.
    *(("preflight",), ("status",), ("identity",), ("ledger",), ("history",), ("topology",)),
    *(
        ("waves", *extra(waves=what, waves_why="a walk", waves_by="carol"))
        for what in ("show", "pause", "resume", "reset")
    ),
    ("day2_recycle", *extra(day2_recycle_all=True, day2_recycle_waves=True)),
    ("rollout",),
    ("evidence", *extra(evidence_folder=str(lab.RACK / "evidence"))),
    ("report", *extra(report_page=str(lab.RACK / "report.html"))),
    ("gate_profile", "--check", *extra(gate_profile_sku="h100-of-ours", gate_profile_title="As ours", **DEST)),
    *(("import_servers", *extra(import_servers=what, **LIST), "--check") for what in ("report", "enrol")),
    # To somewhere that does not answer.
    ("migrate_provisioner", *extra(migrate_to={"provisioner": "maas", "provisioner_url": "http://127.0.0.1:9/MAAS"})),
)
LIMITS: tuple[tuple[str, ...], ...] = ((), (), (), OURS, OURS, *((node,) for node in lab.NODES), ("gpu002", "gpu003"))
#: How often a service goes away in the middle of a run, the other controller runs, a colleague's inventory is taken.
OUTAGES, THEIR_RUNS, MISTAKES = 0.2, 0.1, 0.2
#: With the inventory that has mistakes in it.
MISTAKEN_LIMITS: tuple[tuple[str, ...], ...] = ((), *((row,) for row in ROWS))
#: What the other controller runs over all four nodes. Ours are strangers there, as its are to us.
FOR_OTHERS: tuple[tuple[str, ...], ...] = (("day0_bringup",), ("day2_recycle",), ("passports",), ("adopt", "--check"))
#: So many commands may lead back into service.
FEW = 4


@dataclass
class Site:
    """The rack, and what somebody who looks at it from outside knows."""

    jobs: dict[str, str] = field(default_factory=dict)
    #: Drained by a person meanwhile, with the text.
    drained: dict[str, str] = field(default_factory=dict)
    #: Reserved by a person for maintenance.
    reserved: set[str] = field(default_factory=set)
    #: Nodes that are broken, or were and are judged by that still: only these may end in quarantine. With each the boot
    #: that has logged it, and how many failures our ledger had of the node before.
    broken: dict[str, tuple[str, int]] = field(default_factory=dict)
    #: How often a person's button made a node boot from the network: what runs from memory does so at each boot.
    by_hand: dict[str, int] = field(default_factory=dict)
    #: How many states of each node in our ledger were judged.
    judged: dict[str, int] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)

    # -- what happens in between -------------------------------------------------------------------------------

    def job(self, node: str) -> None:
        """Somebody's job, where the scheduler gives it work."""
        if node in self.jobs or node in self.reserved or lab.node_state(node)["state"] not in SERVING:
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

    def person_reserves(self, node: str) -> None:
        if lab.node_state(node) == {"state": "IDLE", "reason": ""}:
            when = ("starttime=now", "duration=120", "users=root", "flags=maint,ignore_jobs", f"nodes={node}")
            lab.slurm("scontrol", "create", "reservation", f"reservationname=alice-{node}", *when)
            lab.wait_for(lambda: "MAINT" in lab.node_state(node)["state"], 30, "the reservation begins")
            self.reserved.add(node)

    def reservation_ends(self, node: str) -> None:
        if node in self.reserved:
            lab.slurm("scontrol", "delete", f"reservationname=alice-{node}")
            lab.wait_for(lambda: "MAINT" not in lab.node_state(node)["state"], 30, "the reservation ends")
            self.reserved.discard(node)

    def breaks(self, node: str) -> None:
        """A GPU falls off the bus; only a node in service shows it to day 2."""
        if lab.node_state(node)["state"] in SERVING:
            _boot, failures = self.broken.get(node, ("", counts.failures(node)))
            lab.fault(node, FAULT)
            self.broken[node] = (boot_of(node), failures)

    def is_mended(self, node: str) -> None:
        """What its kernel has logged on this boot stays there."""
        lab.fault(node, "none")
        if node in self.broken:
            self.broken[node] = (boot_of(node), self.broken[node][1])

    def no_network_boot(self, node: str) -> None:
        """It starts what it has on its disk. Nobody can tell whose fault that is, so it is held, and no more."""
        lab.fault(node, "ignore_netboot")

    def boots_anew(self, node: str) -> None:
        """Somebody presses the reset button of a node that nobody works on, and that no person keeps past us. One that
        drains may have its job still, and that would be lost by this button."""
        free = node not in self.jobs and node not in self.kept()
        if free and answers(node) and "DRAIN" in lab.node_state(node)["state"]:
            before = counts.network_boots(node)
            reset(node)
            lab.wait_for(lambda: answers(node), 60, f"{node} answers again")
            self.by_hand[node] = self.by_hand.get(node, 0) + counts.network_boots(node) - before

    # -- what must hold ----------------------------------------------------------------------------------------

    def runs(self, number: str) -> bool:
        return "JobState=RUNNING" in lab.slurm("scontrol", "-o", "show", "job", number)

    def kept(self) -> tuple[str, ...]:
        """Nodes of ours that a person keeps from every run."""
        return tuple(sorted({*self.drained, *self.reserved}))

    def wrong(self, others: dict[str, Any]) -> list[str]:
        """Everything that may not be, in words.

        :param others: by node, the world of whatever the run may not touch, as it was before the run.
        """
        found = [f"job {job} on {node} was lost" for node, job in self.jobs.items() if not self.runs(job)]
        for node, before in others.items():
            if settled(node, before) != before:
                found.append(f"{node} is not the run's, and was touched: {before} became {counts.world(node)}")
        report = lab.verbs_on(OURS, [("fleet_status", {})])[OURS[0]][0]["nodes"]
        for node in OURS:
            found += self._wrong_of(node, report.get(node, {}))
        return found

    def _wrong_of(self, node: str, shown: dict[str, Any]) -> list[str]:
        found = []
        slurm, states = lab.node_state(node), counts.events_of("state")[node]
        found += self._wrong_of_its_health(node, states)
        imaged, booted = states.count("imaging"), counts.network_boots(node) - self.by_hand.get(node, 0)
        if booted > imaged:
            found.append(f"{node} booted {booted} times from the network, and the ledger tells of {imaged} deployments")
        if slurm["state"] in SERVING:
            found += self._wrong_of_a_serving_one(node, states)
        elif states and slurm["reason"].startswith("gpufleet:") and not shown.get("next"):
            found.append(f"{node} is held ({slurm}), and nobody is told what to do next: {shown}")
        return found

    def _wrong_of_its_health(self, node: str, states: list[str]) -> list[str]:
        """What became of it since this was asked last. One that was broken is judged anew when it is admitted, and has
        no excuse from then on."""
        found = []
        for state in states[self.judged.get(node, 0) :]:
            if state == "admitted" and FAULT in lab.faults_of(node):
                found.append(f"{node} is broken and was admitted")
            elif state == "admitted":
                self.broken.pop(node, None)
            elif state == "quarantined" and node not in self.broken:
                found.append(f"{node} is healthy and was quarantined")
        self.judged[node] = len(states)
        boot, failures = self.broken.get(node, ("", 0))
        unseen = FAULT not in lab.faults_of(node) and counts.failures(node) == failures
        if boot and unseen and boot_of(node) != boot:  # nobody has looked, and its log is gone
            del self.broken[node]
        return found

    def _wrong_of_a_serving_one(self, node: str, states: list[str]) -> list[str]:
        if not states:
            return [f"{node} serves, and our ledger has never heard of it"]
        if states[-1] != "admitted":
            return [f"{node} serves, and the ledger has it as {states[-1]}"]
        rows = counts.ledger_rows(
            "SELECT name, envelope FROM passports JOIN nodes USING (node_id) ORDER BY passports.id"
        )
        issued = [envelope for name, envelope in rows if name.partition(".")[0] == node]
        if not issued:
            return [f"{node} serves without a passport"]
        boot = boot_of(node)
        return [] if boot in counts.payload(issued[-1]) else [f"{node} serves on boot {boot}, which nobody judged"]


def settled(node: str, before: dict[str, Any]) -> dict[str, Any]:
    """The node's world, once a scheduler that was away has heard of the node again."""
    end = time.monotonic() + 60
    while counts.world(node)["slurm"] != before["slurm"] and time.monotonic() < end:
        time.sleep(0.5)
    return counts.world(node)


def boot_of(node: str) -> str:
    """The boot that the node runs, by the rack's own record."""
    boots = (lab.RACK / "nodes" / node / "boots.jsonl").read_text(encoding="utf-8").splitlines()
    return str(json.loads(boots[-1])["boot_id"])


def strange_site() -> Site:
    """Two nodes brought up by somebody else, one of them with a job and one drained; two that nobody has used."""
    lab.new_rack()
    (lab.RACK / "another.sqlite").unlink(missing_ok=True)
    for name in re.findall(r"ReservationName=(\S+)", lab.slurm("scontrol", "-o", "show", "reservation")):
        lab.slurm("scontrol", "delete", f"reservationname={name}")
    mistaken_inventory()
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
        "person reserves": site.person_reserves,
        "reservation ends": site.reservation_ends,
        "breaks": site.breaks,
        "mended": site.is_mended,
        "ignores network boots": site.no_network_boot,
        "boots anew": site.boots_anew,
    }


def step(site: Site, chance: random.Random) -> None:
    """Perhaps something happens, then somebody runs a playbook; first of all day 0, of the whole inventory.

    :raises AssertionError: naming what went wrong, and all that was done before it.
    """
    if not site.told:
        return played(site, Asked(("day0_bringup",)))
    if chance.random() < 0.6:
        what, node = chance.choice(sorted(happenings(site))), chance.choice(OURS)
        site.told.append(f"{what}: {node}")
        happenings(site)[what](node)
    outage = (chance.choice(sorted(SERVICES)), chance.uniform(1, 8), chance.uniform(2, 8))
    away_then = outage if chance.random() < OUTAGES else None
    who = chance.random()
    if who < THEIR_RUNS:
        return played(site, Asked((*chance.choice(FOR_OTHERS), "-e", ANOTHER_LEDGER), spared=OURS, outage=away_then))
    if who < THEIR_RUNS + MISTAKES:
        asked = Asked(chance.choice(PLAYBOOKS), chance.choice(MISTAKEN_LIMITS), inventory=MISTAKEN, outage=away_then)
        return played(site, asked)
    return played(site, Asked(chance.choice(PLAYBOOKS), chance.choice(LIMITS), outage=away_then))


@dataclass(frozen=True)
class Asked:
    """A playbook, and how it is run. spared: what it may not touch, beside what a person keeps."""

    playbook: tuple[str, ...]
    limit: tuple[str, ...] = ()
    spared: tuple[str, ...] = THEIRS
    inventory: str = "inventory"
    outage: tuple[str, float, float] | None = None

    def __str__(self) -> str:
        where = "" if self.inventory == "inventory" else f" -i {self.inventory}"
        gone = "" if self.outage is None else " while {} is away after {:.0f} s for {:.0f} s".format(*self.outage)
        return f"{' '.join(self.playbook)} --limit {','.join(self.limit) or 'all'}{where}{gone}"

    def play(self) -> lab.Run:
        args = [*self.playbook[1:], *IMPATIENT, *(["--limit", ",".join(self.limit)] if self.limit else [])]
        with away(*self.outage) if self.outage else nullcontext():
            return lab.play(self.playbook[0], *args, inventory=self.inventory)


def played(site: Site, asked: Asked) -> None:
    others = {node: counts.world(node) for node in {*asked.spared, *site.kept()}}
    told = {node: (counts.written(node), counts.intents(node)) for node in OURS}
    site.told.append(str(asked))
    run = asked.play()
    site.told[-1] += f": exit {run.rc} after {run.seconds:.0f} s"
    print("\n".join(site.told[-2:]), flush=True)
    agreed(site, site.wrong(others) + [line for node in OURS for line in untold(node, *told[node])], run)


def untold(node: str, written: dict[str, int], intents: int) -> list[str]:
    """Writes to peers of which our ledger does not even tell that they were meant."""
    if counts.intents(node) > intents:
        return []
    more = {peer: count - written[peer] for peer, count in counts.written(node).items() if count > written[peer]}
    return [f"{node}: {count} writes reached its {peer}, and the ledger tells of none" for peer, count in more.items()]


def agreed(site: Site, wrong: list[str], run: lab.Run) -> None:
    story = "\n".join(f"{number:3}  {line}" for number, line in enumerate(site.told, 1))
    assert not wrong, "\n".join([*wrong, "", "What was done:", story, "", run.tail()])


def all_is_well_again(site: Site) -> None:
    """Whoever kept or broke a node of ours is done with it; what its report tells, run as told, brings it back."""
    for node in OURS:
        for over in (site.job_ends, site.person_resumes, site.reservation_ends, site.is_mended):
            over(node)
        for left in reversed(range(FEW + 1)):
            shown = lab.verbs_on((node,), [("fleet_status", {})])[node][0]["nodes"][node]
            if shown["state"] == "admitted" and shown["served"] == "yes":
                break
            if not left:
                agreed(site, [f"{node} did not come back by what it was told: {shown}"], lab.Run(0, "", 0.0))
            _program, playbook, *args = shlex.split(shown["next"])
            limit = args[args.index("--limit") + 1]
            told = args[args.index("--limit") + 2 :]
            assert limit == node, shown
            played(site, Asked((playbook.rpartition(".")[2], *told), (limit,)))
