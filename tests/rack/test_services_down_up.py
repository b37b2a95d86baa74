# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""rack-down leaves nothing behind, and rack-up after it is quick."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import rack_services as rack

pytestmark = [pytest.mark.rack, pytest.mark.needs_root, pytest.mark.slow]

# A rack on a fresh machine, everything downloaded: the whole demonstration has four minutes.
UP_SECONDS = 40

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


def test_down_leaves_nothing_and_up_is_quick() -> None:
    maas = "MAAS=true" if "maas" in rack.status() else "MAAS=false"
    assert leftovers()["links"] and leftovers()["processes"], "the search has to find a running rack"
    done = rack.make("rack-down")
    assert done.returncode == 0, done.stdout + done.stderr
    try:
        assert leftovers() == {"processes": [], "links": [], "namespaces": [], "mounts": []}
        again = rack.make("rack-down")
        assert again.returncode == 0, again.stdout + again.stderr
        assert "changed=0" in again.stdout
    finally:
        started = time.monotonic()
        done = rack.make("rack-up", maas)
        took = time.monotonic() - started
    assert done.returncode == 0, done.stdout + done.stderr
    assert took < UP_SECONDS
