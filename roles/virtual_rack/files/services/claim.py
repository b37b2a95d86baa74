# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One run at a time works on a rack, and a rack is started only where its ports are free.

    claim.py take --rack DIR [--ports JSON]
    claim.py release --rack DIR

The claim belongs to the run of Ansible that this program was called by, and ends with it: a claim whose holder is gone
is no claim.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ports import command_of, taken
from supervise import boot_id, process_stat, start_time

HOLDER = "holder.json"


class Claimed(Exception):
    """Somebody else works on this rack, or has its ports."""


def this_run() -> int:
    """The run of Ansible that this was called by: of the nearest ancestors of that name the outermost, no worker."""
    pid, found = os.getppid(), 0
    while pid > 1 and (is_ansible(pid) or not found):
        found = pid if is_ansible(pid) else found
        fields = process_stat(pid)
        pid = int(fields[1]) if fields else 0
    return found or os.getppid()


def is_ansible(pid: int) -> bool:
    """Whether it is one of Ansible's commands, called by itself or through its interpreter."""
    return any(Path(word).name.startswith("ansible") for word in command_of(pid).split()[:2])


@contextmanager
def holder_file(rack: Path) -> Iterator[Path]:
    """The file that names the holder; nobody else reads or writes it meanwhile."""
    folder = rack / "claim"
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield folder / HOLDER
    finally:
        os.close(handle)


def living_holder(file: Path) -> dict[str, Any]:
    """Who holds the claim; empty where nobody does, or the holder is gone."""
    try:
        holder: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    alive = holder["boot_id"] == boot_id() and start_time(holder["pid"]) == holder["start_time"]
    return holder if alive else {}


def take(rack: Path, wanted: list[dict[str, Any]]) -> None:
    run = this_run()
    with holder_file(rack) as file:
        other = living_holder(file)
        if other and other["pid"] != run:
            since = time.strftime("%H:%M:%S", time.localtime(other["since"]))
            raise Claimed(
                f"Another run works on the rack in {rack} since {since}: process {other['pid']}:"
                f" {command_of(other['pid'])}. Wait for its end."
            )
        told = {"pid": run, "start_time": start_time(run), "boot_id": boot_id(), "since": time.time()}
        file.write_text(json.dumps(told), encoding="utf-8")
    trouble = [line for line in (taken(port, own_sessions(rack)) for port in wanted) if line]
    if trouble:
        raise Claimed("\n".join(trouble))


def release(rack: Path) -> None:
    if not rack.exists():
        return
    with holder_file(rack) as file:
        if living_holder(file).get("pid") in (None, this_run()):
            file.unlink(missing_ok=True)


def own_sessions(rack: Path) -> set[int]:
    """Each service and each BMC leads a session of its own."""
    found = set()
    for record in (*(rack / "run").glob("*.json"), *(rack / "nodes").glob("*/bmc.json")):
        try:
            found.add(int(json.loads(record.read_text(encoding="utf-8"))["pid"]))
        except (OSError, ValueError, KeyError):
            continue
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("verb", choices=["take", "release"])
    parser.add_argument("--rack", type=Path, required=True)
    parser.add_argument("--ports", type=json.loads, default=[])
    asked = parser.parse_args()
    try:
        if asked.verb == "take":
            take(asked.rack, asked.ports)
        else:
            release(asked.rack)
    except Claimed as trouble:
        print(trouble, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
