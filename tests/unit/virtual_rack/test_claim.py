# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose a rack is: a run of Ansible's, for as long as that lives, and a program's that goes on without it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

ROLE = Path(__file__).resolve().parents[3] / "roles" / "virtual_rack"
SERVICES = ROLE / "files" / "services"
CLAIM = [sys.executable, str(SERVICES / "claim.py")]

#: Its name makes a run of Ansible of it: it calls what it is told through a program between them, as Ansible does, and
#: tells how that ended; it lives until its standard input is closed.
RUN = """
import json, subprocess, sys
between = "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:]).returncode)"
done = subprocess.run([sys.executable, "-c", between, *sys.argv[1:]], stdout=2, stdin=subprocess.DEVNULL)
print(json.dumps(done.returncode), flush=True)
sys.stdin.read()
"""


@contextmanager
def run_of_ansible(folder: Path, *argv: str) -> Iterator[tuple[int, int]]:
    """While it lives: its process, and the exit status of the program that it has called."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ansible-playbook").write_text(RUN, encoding="utf-8")
    command = [sys.executable, str(folder / "ansible-playbook"), *argv]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdin and run.stdout
        try:
            yield run.pid, json.loads(run.stdout.readline())
        finally:
            run.stdin.close()


def said(*argv: str) -> tuple[int, str]:
    done = subprocess.run([*CLAIM, *argv], capture_output=True, text=True, check=False, timeout=30)
    return done.returncode, done.stderr


@pytest.mark.parametrize("way", ["a", "a path with blanks", "/".join(["long" * 10] * 8)])
def test_c8_a_claim_is_the_run_s_wherever_its_command_lies(tmp_path: Path, way: str) -> None:
    rack = tmp_path / "rack"
    take = [*CLAIM, "take", "--rack", str(rack)]
    with run_of_ansible(tmp_path / way, *take) as (holder, status):
        assert status == 0
        assert json.loads((rack / "claim" / "holder.json").read_text(encoding="utf-8"))["pid"] == holder
        with run_of_ansible(tmp_path / "other", *take) as (_other, refused):
            assert refused == 1, "two runs work on one rack"
    with run_of_ansible(tmp_path / "other", *take) as (_other, status):
        assert status == 0, "the claim has ended with its run"


def test_c8_a_claim_that_no_run_could_hold_is_refused(tmp_path: Path) -> None:
    status, words = said("take", "--rack", str(tmp_path))
    assert status == 1 and "No run of Ansible called this" in words, words
    assert not (tmp_path / "claim" / "holder.json").exists()


#: Starts a service that lives on, tells both processes, and works on until it may end.
WORKS = """
import os, subprocess, sys, time
folder = sys.argv[1]
service = subprocess.Popen(["sleep", "60"], start_new_session=True)
with open(folder + "/new", "w", encoding="ascii") as told:
    told.write(f"{os.getpid()} {service.pid}")
os.rename(folder + "/new", folder + "/told")
while not os.path.exists(folder + "/end"):
    time.sleep(0.02)
"""


def soon(path: Path) -> str:
    end = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < end, path
        time.sleep(0.02)
    return path.read_text(encoding="ascii")


def test_c11_what_a_killed_run_had_begun_keeps_others_off_until_it_ends(tmp_path: Path) -> None:
    rack, script = tmp_path / "rack", tmp_path / "ansible-playbook"
    script.write_text(RUN, encoding="utf-8")
    take = [*CLAIM, "take", "--rack", str(rack)]
    program = [sys.executable, "-c", WORKS, str(tmp_path)]
    run = subprocess.Popen([sys.executable, str(script), *CLAIM, "work", "--rack", str(rack), "--", *program])
    pid, service = map(int, soon(tmp_path / "told").split())
    try:
        run.kill()
        run.wait()
        with run_of_ansible(tmp_path / "next", *take) as (_pid, status):
            assert status == 1
        status, words = said("work", "--rack", str(rack), "--", "/bin/true")
        assert status == 1 and f"still works on the rack in {rack}" in words and f"process {pid}: " in words, words
        (tmp_path / "end").touch()
        end = time.monotonic() + 30
        while said("work", "--rack", str(rack), "--", "/bin/true")[0]:
            assert time.monotonic() < end, "the service that it started holds the lock"
        os.kill(service, 0)
    finally:
        (tmp_path / "end").touch()
        os.kill(service, signal.SIGKILL)


def test_c11_a_program_is_started_with_what_it_is_told(tmp_path: Path) -> None:
    argv = [*CLAIM, "work", "--rack", str(tmp_path), "--", "/bin/sh", "-c", 'cat; echo "$@"; exit 3', "sh", "--", "a b"]
    done = subprocess.run(argv, input="in\n", capture_output=True, text=True, check=False, timeout=30)
    assert (done.returncode, done.stdout) == (3, "in\n-- a b\n"), done.stderr


#: Programs that change nothing of the rack, and the two that see to their claim themselves.
WITHOUT = ("preflight.py", "claim.py", "empty.py", "supervise.py status", "rackctl.py status")


def commands(tasks: list[dict[str, Any]]) -> Iterator[str]:
    for task in tasks:
        for inner in ("block", "rescue", "always"):
            yield from commands(task.get(inner, []))
        if "ansible.builtin.command" in task:
            words = [task["ansible.builtin.command"]["argv"], *(task.get("vars") or {}).values()]
            yield re.sub(r"--run-dir .*?/run ", "", " ".join(w if isinstance(w, str) else " ".join(w) for w in words))


def test_c11_every_program_of_the_role_that_changes_the_rack_holds_its_claim() -> None:
    found = [
        command
        for path in sorted((ROLE / "tasks").glob("*.yml"))
        for command in commands(yaml.safe_load(path.read_text(encoding="utf-8")))
    ]
    held = [command for command in found if command.startswith("{{ virtual_rack_work + program")]
    assert len(held) == 10, held
    others = [re.sub(r"[{}]", "", command) for command in found if command not in held]
    assert [command for command in others if not any(name in command for name in WITHOUT)] == []
