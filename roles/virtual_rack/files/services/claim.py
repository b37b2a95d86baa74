# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One run at a time works on a rack, and a rack is started only where its ports are free.

    claim.py take --rack DIR [--ports JSON]
    claim.py release --rack DIR
    claim.py work --rack DIR -- COMMAND ...

The claim belongs to the run of Ansible that this program was called by, and ends with it: a claim whose holder is gone
is no claim. A program that goes on where its run is killed holds a lock of its own, and to its end: whatever of the
role changes a rack is started by ``work``, or takes that lock itself (:func:`working`).
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from ports import command_of, taken, words_of
from supervise import boot_id, process_stat, start_time

HOLDER = "holder.json"
WORKER = "worker"


class Claimed(Exception):
    """Somebody else works on this rack, or has its ports."""


def this_run() -> int:
    """The run of Ansible that this was called by: of the nearest ancestors of that name the outermost, no worker.

    0 where a person has called it, or its run has ended.
    """
    pid, found = os.getppid(), 0
    while pid > 1 and (is_ansible(pid) or not found):
        found = pid if is_ansible(pid) else found
        fields = process_stat(pid)
        pid = int(fields[1]) if fields else 0
    return found


def is_ansible(pid: int) -> bool:
    """Whether it is one of Ansible's commands, called by itself or through its interpreter, wherever that lies."""
    words = words_of(pid)
    called = [Path(word).name for word in (words[:3] if words[1:2] == ["-m"] else words[:2])]
    # Under ansible-test there are only tests: it plays nothing.
    return any(name.startswith("ansible") and not name.startswith(("ansible-test", "ansible_test")) for name in called)


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


def refuse_another(rack: Path, file: Path, run: int) -> None:
    """
    :raises Claimed: where another run than this holds the claim.
    """
    other = living_holder(file)
    if other and other["pid"] != run:
        raise in_the_way(rack, f"Another run works on the rack in {rack}", other["since"], other["pid"])


def in_the_way(rack: Path, what: str, since: float, pid: int) -> Claimed:
    clock = time.strftime("%H:%M:%S", time.localtime(since))
    return Claimed(f"{what} since {clock}: process {pid}: {command_of(pid)}. Wait for its end.")


def worker_lock(rack: Path) -> int:
    """The descriptor that holds the lock of whoever works on the rack by itself.

    :raises Claimed: where somebody else has it, such as a program whose run was killed.
    """
    handle = os.open(rack / "claim" / WORKER, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        with os.fdopen(handle, encoding="ascii") as file:
            pid = int(file.read() or 0)
            since = os.fstat(file.fileno()).st_mtime
        raise in_the_way(rack, f"A run that has ended still works on the rack in {rack}", since, pid) from None
    return handle


def begin_to_work(rack: Path) -> int:
    """The descriptor of the lock of whoever works on the rack by itself, with this process told in it.

    :raises Claimed: where another run holds the claim, or another program works on.
    """
    with holder_file(rack) as file:
        refuse_another(rack, file, this_run())
        handle = worker_lock(rack)
        os.truncate(handle, 0)
        os.write(handle, str(os.getpid()).encode("ascii"))
    return handle


@contextmanager
def working(rack: Path) -> Iterator[None]:
    """For as long as this process works on the rack, whatever becomes of the run that called it.

    :raises Claimed: where another run holds the claim, or another program works on.
    """
    handle = begin_to_work(rack)
    try:
        yield
    finally:
        os.close(handle)


def work(rack: Path, command: list[str]) -> NoReturn:
    """Become this program, with the lock: it ends with the program. What that starts as a process of its own has none.

    :raises Claimed: where another run holds the claim, or another program works on.
    """
    os.set_inheritable(begin_to_work(rack), True)
    os.execv(command[0], command)


def take(rack: Path, wanted: list[dict[str, Any]], run: int) -> None:
    """
    :raises Claimed: also where no run is there to take it: a claim that nobody's end ends would keep everybody off, and
        one of whoever stands between this program and its run ends with that at once.
    """
    if not run:
        do = "Use make rack-up, rack-empty or rack-down, or the role in a playbook"
        raise Claimed(f"No run of Ansible called this, and only a run can claim the rack in {rack}. {do}.")
    with holder_file(rack) as file:
        refuse_another(rack, file, run)
        os.close(worker_lock(rack))
        told = {"pid": run, "start_time": start_time(run), "boot_id": boot_id(), "since": time.time()}
        file.write_text(json.dumps(told), encoding="utf-8")
    trouble = [line for line in (taken(port, own_sessions(rack)) for port in wanted) if line]
    if trouble:
        raise Claimed("\n".join(trouble))


def release(rack: Path, run: int) -> None:
    if not rack.exists():
        return
    with holder_file(rack) as file:
        if living_holder(file).get("pid") in (None, run):
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
    own, command = _split(sys.argv[1:])
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("verb", choices=["take", "release", "work"])
    parser.add_argument("--rack", type=Path, required=True)
    parser.add_argument("--ports", type=json.loads, default=[])
    asked = parser.parse_args(own)
    if (asked.verb == "work") != bool(command):
        parser.error("a command after -- belongs to work, and work needs one")
    actions: dict[str, Callable[[], None]] = {
        "take": lambda: take(asked.rack, asked.ports, this_run()),
        "release": lambda: release(asked.rack, this_run()),
        "work": lambda: work(asked.rack, command),
    }
    try:
        actions[asked.verb]()
    except (Claimed, OSError) as trouble:
        print(trouble, file=sys.stderr)
        return 1
    return 0


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    cut = words.index("--") if "--" in words else len(words)
    return words[:cut], words[cut + 1 :]


if __name__ == "__main__":
    sys.exit(main())
