# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose a rack is: a run of Ansible's, for as long as that lives, and a program's that goes on without it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

SERVICES = Path(__file__).resolve().parents[3] / "roles" / "virtual_rack" / "files" / "services"
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
