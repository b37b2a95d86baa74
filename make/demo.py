# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Day 0 and day 2 on the built-in rack, with a fault between them, as a person would do it by hand.

    demo.py RACK_DIRECTORY      with ansible-playbook on PATH, as root

The rack is up. Each step is a command that can be typed; what must come of it is asked of Slurm, not of our own words.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, NamedTuple

OUTPUT = Path("build/demo")
NODES = ("gpu001", "gpu002", "gpu003", "gpu004")
FAULTY = "gpu003"
FAULT = "xid79"
FINDING = "Xid 79"
JOB_SECONDS = 25
OURS = "gpufleet:"
IN_SERVICE = ("idle", "mixed", "allocated", "completing")
SETTINGS = {
    "ANSIBLE_STDOUT_CALLBACK": "gpufleet.baremetal.fleet_progress",
    "ANSIBLE_CALLBACKS_ENABLED": "gpufleet.baremetal.host_tasks",
    "ANSIBLE_LOCALHOST_WARNING": "false",
}


class Wrong(Exception):
    """The rack is not as it should be at this point of the demonstration."""


class Slurm:
    """What Slurm itself says."""

    def __init__(self, rack: Path) -> None:
        self.environment = {**os.environ, "SLURM_CONF": str(rack / "slurm" / "slurm.conf")}

    def ask(self, *command: str) -> str:
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Wrong(f"{' '.join(command)}: {done.stderr.strip()}")
        return done.stdout.strip()

    def nodes(self) -> dict[str, tuple[str, str]]:
        """State and reason of each node."""
        lines = self.ask("sinfo", "-h", "-N", "-o", "%N|%T|%E").splitlines()
        return {name: (state, reason) for name, state, reason in (line.strip().split("|", 2) for line in lines)}

    def submit(self, node: str, seconds: int) -> str:
        job = ("--parsable", "-J", "training", "-n", "1", "-D", "/", "-o", "/dev/null", f"--wrap=exec sleep {seconds}")
        return self.ask("sbatch", "-w", node, *job)

    def job_state(self, number: str) -> str:
        words = self.ask("scontrol", "-o", "show", "job", number).split()
        return next(word.partition("=")[2] for word in words if word.startswith("JobState="))


class Step(NamedTuple):
    title: str
    seconds: float


def say(text: str) -> None:
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n{text}", flush=True)


def playbook(name: str, rack: Path) -> int:
    command = ["ansible-playbook", f"gpufleet.baremetal.{name}", "-i", str(rack / "inventory")]
    print("$ " + " ".join(command), flush=True)
    report = str(OUTPUT / f"host-tasks-{name}.json")
    settings = {**SETTINGS, "GPUFLEET_HOST_TASKS_PATH": report}
    return subprocess.run(command, env={**os.environ, **settings}, check=False).returncode


def fault(kind: str) -> None:
    command = ["make", "-s", "rack-fault", f"NODE={FAULTY}", f"FAULT={kind}"]
    print("$ " + " ".join(command), flush=True)
    subprocess.run(command, check=True)


def wanted(true: bool, otherwise: str) -> None:
    if not true:
        raise Wrong(otherwise)


def ledger(rack: Path) -> dict[str, dict[str, Any]]:
    """What the collection remembers of each node."""
    path = OUTPUT.resolve() / "nodes.json"
    state = str(Path(__file__).with_name("demo_state.yml"))
    command = ["ansible-playbook", state, "-i", str(rack / "inventory"), "-e", f"demo_path={path}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Wrong(f"the ledger cannot be read: {done.stdout}{done.stderr}")
    found: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return found


def all_in_service(rack: Path, slurm: Slurm) -> None:
    other = {name: node["state"] for name, node in ledger(rack).items() if node["state"] != "admitted"}
    wanted(not other, f"not admitted: {other}")
    found = slurm.nodes()
    bad = {name: found.get(name) for name in NODES if found.get(name, ("missing", ""))[0] not in IN_SERVICE}
    wanted(not bad, f"Slurm has not all nodes in service: {bad}")


def day0(rack: Path, slurm: Slurm) -> None:
    wanted(playbook("day0_bringup", rack) == 0, "day 0 failed")
    all_in_service(rack, slurm)


def day2_with_fault(rack: Path, slurm: Slurm) -> None:
    """The faulty node has a job, which must come to its end before the node is touched."""
    job = slurm.submit(FAULTY, JOB_SECONDS)
    deadline = time.monotonic() + 20
    while slurm.job_state(job) != "RUNNING":
        wanted(time.monotonic() < deadline, f"job {job} does not start: {slurm.job_state(job)}")
        time.sleep(0.3)
    print(f"Slurm job {job} runs on {FAULTY} for {JOB_SECONDS} s")
    fault(FAULT)
    wanted(playbook("day2_recycle", rack) != 0, f"day 2 let {FAULTY} pass with {FAULT}")
    wanted(slurm.job_state(job) == "COMPLETED", f"job {job} was not left to finish: {slurm.job_state(job)}")
    state, reason = slurm.nodes()[FAULTY]
    wanted(state.startswith("drain") and reason.startswith(OURS), f"{FAULTY} is not held: {state} ({reason})")
    node = ledger(rack)[FAULTY]
    wanted(node["state"] == "quarantined", f"{FAULTY} is {node['state']} and not quarantined")
    wanted(FINDING in node["reason"], f"the reason does not name the finding: {node['reason']}")
    wanted(node["remedy"] not in ("", "none", None), "no remedy is named")
    print(f"Slurm says: {FAULTY} is {state}, {reason}; job {job} has COMPLETED")


def day2_without_fault(rack: Path, slurm: Slurm) -> None:
    fault("none")
    wanted(playbook("day2_recycle", rack) == 0, f"day 2 did not readmit {FAULTY}")
    all_in_service(rack, slurm)


STEPS: tuple[tuple[str, Callable[[Path, Slurm], None]], ...] = (
    ("Day 0: four nodes from a reachable BMC to admitted by Slurm", day0),
    (f"Day 2: {FAULTY} has {FAULT}; it is drained, reimaged, refused and kept out", day2_with_fault),
    (f"Day 2 again, the fault lifted: {FAULTY} comes back", day2_without_fault),
)


def summary(done: list[Step], slurm: Slurm) -> None:
    say("Summary")
    for step in done:
        print(f"  {step.seconds:6.1f} s  {step.title}")
    print("  Slurm now:")
    for name, (state, reason) in sorted(slurm.nodes().items()):
        print(f"    {name}  {state}  {'' if reason == 'none' else reason}".rstrip())
    print("  Look further:  make rack-status, make rack-down; the same again:  make demo")


def main() -> int:
    rack = Path(sys.argv[1])
    slurm = Slurm(rack)
    done: list[Step] = []
    for title, action in STEPS:
        say(title)
        start = time.monotonic()
        try:
            action(rack, slurm)
        except (Wrong, subprocess.CalledProcessError) as error:
            print(f"\nThe demonstration failed: {error}", file=sys.stderr)
            return 1
        done.append(Step(title, time.monotonic() - start))
    summary(done, slurm)
    return 0


if __name__ == "__main__":
    sys.exit(main())
