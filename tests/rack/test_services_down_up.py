# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""rack-down leaves nothing behind, and a rack-up that cannot succeed says so before it starts anything."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import rack_services as rack

pytestmark = [pytest.mark.rack, pytest.mark.needs_root, pytest.mark.slow]

# Another rack under another name, such as one of a test, is none of this test's business.
TOLD = json.loads((rack.RACK / "rack.json").read_text(encoding="utf-8")) if (rack.RACK / "rack.json").exists() else {}
NODES = [node["name"] for node in TOLD.get("nodes", [])]
LINKS = {TOLD.get("bridge"), *(f"gfr-{name}" for name in NODES)}
NAMESPACES = {f"gfrack-{name}" for name in NODES}


def processes_of_the_rack() -> list[str]:
    """Processes that were started from the rack's folder or still hold it, this test's own family excepted."""
    marks = [mark.encode() for mark in (f"{rack.RACK}/", *NAMESPACES)]
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes()
            places = [os.readlink(entry / name).encode() for name in ("cwd", "root")]
        except OSError:
            continue
        if int(entry.name) in (os.getpid(), os.getppid()) or b"pytest" in command:
            continue
        if any(mark in text for mark in marks for text in [command, *places]):
            found.append(f"{entry.name} {command.decode(errors='replace')}")
    return found


def leftovers() -> dict[str, list[str]]:
    links = json.loads(subprocess.run(["ip", "-j", "link"], capture_output=True, text=True, check=True).stdout)
    names = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout.split()
    marks = [str(rack.RACK), *NAMESPACES]
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    return {
        "processes": processes_of_the_rack(),
        "links": [link["ifname"] for link in links if link["ifname"] in LINKS],
        "namespaces": [name for name in names if name in NAMESPACES],
        "mounts": [line for line in mounts if any(mark in line for mark in marks)],
    }


NOTHING: dict[str, list[str]] = {"processes": [], "links": [], "namespaces": [], "mounts": []}
IRONIC_PORT = 16385


@pytest.fixture(scope="module")
def down() -> Iterator[str]:
    """The rack is down while these tests run, and as it was afterwards; how rack-up is called for that."""
    maas = "MAAS=true" if "maas" in rack.status() else "MAAS=false"
    assert leftovers()["links"] and leftovers()["processes"], "the search has to find a running rack"
    done = rack.make("rack-down")
    assert done.returncode == 0, done.stdout + done.stderr
    yield maas
    done = rack.make("rack-up", maas)
    assert done.returncode == 0, done.stdout + done.stderr


def test_down_leaves_nothing_and_again_changes_nothing(down: str) -> None:
    assert leftovers() == NOTHING
    again = rack.make("rack-down")
    assert again.returncode == 0, again.stdout + again.stderr
    assert "changed=0" in again.stdout


def test_c5_a_port_that_is_taken_is_named_before_anything_is_started(down: str) -> None:
    with socket.socket() as other:
        # As a daemon does: connections of the Ironic that was just stopped may still be in TIME_WAIT.
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("0.0.0.0", IRONIC_PORT))
        other.listen()
        done = rack.make("rack-up", down)
    assert done.returncode != 0
    said = told(done)
    assert len(said) == 1, done.stdout
    for words in (f"Port {IRONIC_PORT} (TCP)", "Ironic needs", f"process {os.getpid()}: ", "virtual_rack_ironic_port"):
        assert words in said[0], said
    assert leftovers() == NOTHING


def told(done: subprocess.CompletedProcess[str]) -> list[str]:
    """What the tasks that failed the run had to say."""
    lines = [line.partition("FAILED! => ")[2] for line in done.stdout.splitlines() if "FAILED! => " in line]
    return [line for text in lines for line in str(json.loads(text)["msg"]).splitlines()]


def test_c5_of_two_rack_ups_at_once_the_second_says_that_there_is_a_first(down: str) -> None:
    with rack.making("rack-up", down) as first:
        holder = rack.RACK / "claim" / "holder.json"
        while not (holder.exists() and holder.read_text(encoding="utf-8")):  # it is made before it is written
            assert first.poll() is None, first.communicate()
            time.sleep(0.05)
        who = json.loads(holder.read_text(encoding="utf-8"))["pid"]
        second = rack.make("rack-up", down)
        assert second.returncode != 0
        said = told(second)
        assert len(said) == 1 and f"process {who}: " in said[0] and "Wait for its end" in said[0], second.stdout
        out, _err = first.communicate(timeout=300)
    assert first.returncode == 0, out
    assert not holder.exists()
    assert all(row["healthy"] for row in rack.status().values())
