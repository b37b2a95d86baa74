# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A gate that goes on by itself on its node, while nobody holds a connection for it. PRIVATE to the collection.

``<folder>/<job>.job`` says who works on it (pid, start time, boot id), ``<folder>/<job>.json`` what came of it; both
appear whole or not at all. A worker that is gone without the second file was killed, and proves nothing. Room for that
file is kept from the start, so that a disk that is full at the end takes no verdict away; what is too large for it is
told as unwritten.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import errno
import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Callable, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer, ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.apart import OK, REPORT_SECONDS, detach
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.names import DETACHED
from ansible_collections.gpufleet.baremetal.plugins.module_utils._locks import locked, own_folder
from ansible_collections.gpufleet.baremetal.plugins.module_utils._proc import boot_id as this_boot
from ansible_collections.gpufleet.baremetal.plugins.module_utils._proc import process_start
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import FAIL, now_utc, seconds_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._wait import wait_until

SCHEMA = 1
#: In the place of a verdict: what was in the way of writing it.
UNWRITTEN = "unwritten"
#: In the place of one of days: none goes on here to be ended; or one does that was asked for in other words.
NO_SOAK, ANOTHER = "no_soak", "another_soak"
#: What a job writes, each file also as the draft of it; the last is its own.
_KINDS = tuple(f".{kind}{draft}" for kind in ("asked", "soak", "spare", "json", "job") for draft in (".new", ""))
#: A job's name becomes a file's name.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")
_LIMIT = 4 * 1024 * 1024
#: A verdict as old as this says little of the node now: the same job is then run once more.
STALE_SECONDS = 3600.0
#: Times are of whole seconds.
_TICK = 2.0
#: Room for an answer; that of a node with eight GPUs takes a third of it.
_ROOM = 128 * 1024
#: What the kernel says where a disk is full.
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
#: Whoever starts a job lets go of the lock after that; what takes longer hangs.
_LOCK_SECONDS = 60.0


def start(
    gate: str,
    params: Mapping[str, Any],
    work: Callable[[], Mapping[str, Any]],
    *,
    limit: float,
    profile: Mapping[str, Any],
    started: str = "",
    again: Callable[[Mapping[str, Any], Mapping[str, Any]], bool] = lambda _known, _told: False,
    begins: Callable[[], object] = lambda: None,
    stale: float = STALE_SECONDS,
    report: float = REPORT_SECONDS,
) -> dict[str, Any]:
    """Start the job, or join the one of this name, running or ended.

    :param work: gives the verdict; whatever goes wrong in it must be part of that.
    :param limit: seconds after which the work ends by itself.
    :param started: when the gate began, which the verdict says as well.
    :param again: is one that is known to be run once more? Asked with its file, and with its answer, empty without one.
    :param begins: writes down what whoever joins it must find, before anybody can.
    :param stale: seconds after which an answer says nothing any more.
    :param report: seconds within which the worker has to report itself; later it is told not to begin.
    :returns: what the job's file says, with ``joined``.
    :raises ConfigError: where the folder is not ours alone.
    :raises BadAnswer: where a file of this job cannot be what it claims to be.
    """
    name = str(params.get("job") or "")
    if not _NAME.match(name):
        raise ConfigError("no name for the job", seen=repr(name), wanted="letters, digits, dots and dashes")
    place = str(params["state_dir"])
    with _told_of_room(place), alone_in(_folder(place)) as folder:
        found = known(folder, name)
        if found is not None and not again(found, told(folder, name)) and not _stale(folder, name, stale):
            return {**found, "joined": True}
        about = _begins(folder, gate, params, limit=limit, profile=profile, started=started)
        begins()
        detach(lambda say: _worker(folder, about, work, say), report)
        found = known(folder, name)
    if found is None:
        raise BadAnswer("the job did not start", seen="its worker left no word of itself")
    return {**found, "joined": False}


def here(
    gate: str,
    params: Mapping[str, Any],
    work: Callable[[], Mapping[str, Any]],
    *,
    limit: float,
    profile: Mapping[str, Any],
    started: str = "",
    begins: Callable[[], object] = lambda: None,
    **_joins: Any,
) -> dict[str, Any]:
    """The same in this process, which nobody waits for but the scheduler whose job it is: what ends that ends this."""
    place = str(params["state_dir"])
    with _told_of_room(place), alone_in(_folder(place)) as folder:
        about = _begins(folder, gate, params, limit=limit, profile=profile, started=started)
        begins()
    _worker(folder, about, work, lambda _word: None)
    return {**about, "joined": False}


def _begins(
    folder: str, gate: str, params: Mapping[str, Any], *, limit: float, profile: Mapping[str, Any], started: str
) -> dict[str, Any]:
    """What the file of a job says that begins now, in the place of any earlier one of its name."""
    name = str(params["job"])
    for leftover in (_answer(folder, name), _record(folder, name)):
        with suppress(FileNotFoundError):
            os.unlink(leftover)
    boot = boot_id(str(params["boot_id_path"]))
    about = {"schema": SCHEMA, "gate": gate, "job": name, "boot_id": boot, "started": started or now_utc()}
    about.update(limit=limit, profile=dict(profile))
    _sweep(folder, name, boot)
    _keep_room(folder, name)
    return about


def boot_id(path: str) -> str:
    """The id of this boot.

    :raises ConfigError: without it nobody could tell whether the node was rebooted meanwhile.
    """
    found = this_boot(path)
    if not found:
        raise ConfigError("the boot id cannot be read", seen=path)
    return found


def _record(folder: str, name: str) -> str:
    return os.path.join(folder, f"{name}.job")


def _answer(folder: str, name: str) -> str:
    return os.path.join(folder, f"{name}.json")


def _folder(path: str) -> str:
    """The folder of the jobs. Whoever else could write there could write a pass."""
    return own_folder(path, "the jobs", denied="run as root: become", foreign="find out who made it, and remove it")


@contextmanager
def _told_of_room(folder: str) -> Iterator[None]:
    """:raises ConfigError: where there is no room for the job's files, or they cannot be written there."""
    try:
        yield
    except OSError as exc:
        if exc.errno not in NO_ROOM:
            raise ConfigError(
                "the job's files cannot be written on the node",
                wanted=f"files in {folder}",
                seen=f"{exc.strerror or exc}" + (f": {exc.filename}" if exc.filename else ""),
                do="look at that file system there: is it read-only, or does its drive fail? Then run again",
            ) from exc
        raise ConfigError(
            "there is no room on the node for the job's files",
            wanted=f"{_ROOM // 1024} KiB in {folder}",
            seen=str(exc.strerror),
            do="make room there, then run again",
        ) from exc


@contextmanager
def alone_in(folder: str, timeout: float = _LOCK_SECONDS) -> Iterator[str]:
    """One starter at a time: a second one then finds the first one's job.

    :raises DeadlineExceeded: where another one, which hangs, does not let go.
    """
    path = os.path.join(folder, ".lock")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        wait_until(
            lambda: locked(descriptor),
            bool,
            timeout=timeout,
            interval=0.1,
            wanted=f"no other start of a job holds {path}",
            seen=lambda _free: "it is held",
            do="look on the node for who holds it (fuser), and why that hangs; then run again",
        )
        yield folder
    finally:
        os.close(descriptor)


def known(folder: str, name: str) -> Optional[dict[str, Any]]:
    """What is known of this job; nothing where it was never started."""
    path = _record(folder, name)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise BadAnswer("the job's file cannot be read", seen=f"{path}: {exc.strerror}") from exc
    with os.fdopen(descriptor, "rb") as file:
        foreign = os.fstat(file.fileno()).st_uid != os.geteuid()
        content = file.read(_LIMIT)
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        found = None
    if foreign or not isinstance(found, dict) or found.get("schema") != SCHEMA or found.get("job") != name:
        raise BadAnswer("the job's file is not what we wrote", seen=path, do="remove it, and run again")
    return found


def told(folder: str, name: str) -> dict[str, Any]:
    """Its answer; empty where there is none that can be read."""
    try:
        with open(_answer(folder, name), "rb") as file:
            found = json.loads(file.read(_LIMIT))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def word(found: Mapping[str, Any]) -> str:
    """The verdict of such an answer; empty where it has none."""
    verdict = found.get("verdict")
    return str(verdict.get("verdict") or "") if isinstance(verdict, dict) else ""


def alive(found: Mapping[str, Any], boot: str) -> bool:
    """Does the process that works on this job still live, on this boot? Another one may have its number by now."""
    return (
        found.get("boot_id") == boot
        and bool(found.get("pid_start"))
        and (process_start(int(found["pid"])) == found["pid_start"])
    )


def living(folder: str, gate: str, boot: str) -> list[str]:
    """The names of this gate's jobs that go on; none where no job was ever begun."""
    with _told_of_room(folder):
        names = _names(folder)
    found = ((name, known(folder, name)) for name in names if name.startswith(gate.removesuffix("_gate") + "-"))
    return [name for name, one in found if one and alive(one, boot)]


def _names(folder: str) -> list[str]:
    with suppress(FileNotFoundError):
        return sorted(one[: -len(".job")] for one in os.listdir(folder) if one.endswith(".job"))
    return []


def _sweep(folder: str, name: str, boot: str) -> None:
    """Remove what other jobs have left of whose end nobody asks any more: they were killed, or ended long ago."""
    for other in _names(folder):
        with suppress(OSError, BadAnswer):
            about = known(folder, other)
            if other != name and about is not None and not alive(about, boot):
                _remove(folder, other, DETACHED.get(str(about.get("gate")), STALE_SECONDS))


def _remove(folder: str, name: str, stale: float) -> None:
    """All files of this job, unless one of them is younger than that."""
    paths = [os.path.join(folder, name + kind) for kind in _KINDS]
    there = [path for path in paths if os.path.lexists(path)]
    if time.time() - max(os.lstat(path).st_mtime for path in there) > stale:
        for path in there:  # that by which it is found comes last
            os.unlink(path)


def _stale(folder: str, name: str, seconds: float) -> bool:
    """Has it ended long ago, by its own word, or in the future, by a clock that was set back since? Only a failure is
    none the less one then. A file that cannot be read is for whoever collects it to refuse."""
    found = told(folder, name)
    verdict = found.get("verdict")
    ended = seconds_of(verdict.get("ended")) if isinstance(verdict, dict) else None
    if ended is None:
        return False
    age = time.time() - ended
    return age > seconds or (age < -_TICK and word(found) != FAIL)


def _draft(path: str) -> int:
    return os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _keep_room(folder: str, name: str) -> None:
    """What the answer will be written into, with its blocks.

    :raises OSError: where there is no room for it; a file system that can promise none promises none.
    """
    descriptor = _draft(_answer(folder, name))
    try:
        os.posix_fallocate(descriptor, 0, _ROOM)
    except OSError as exc:
        if exc.errno in NO_ROOM:
            raise
    finally:
        os.close(descriptor)


def _write(path: str, content: Mapping[str, Any]) -> None:
    """The whole file or none, also where the machine loses power; into the room that was kept, where there is some."""
    with os.fdopen(_draft(path), "wb", buffering=0) as file:
        left = memoryview(json.dumps(content, default=str).encode())
        while left:
            left = left[file.write(left) or 0 :]
        file.truncate()
        os.fsync(file.fileno())
    os.replace(f"{path}.new", path)


def _worker(
    folder: str, about: Mapping[str, Any], work: Callable[[], Mapping[str, Any]], say: Callable[[bytes], None]
) -> None:
    pid = os.getpid()
    _write(_record(folder, about["job"]), {**about, "pid": pid, "pid_start": process_start(pid)})
    try:
        say(OK)
    except OSError:  # whoever began it is gone, and has told nobody of it
        os.unlink(_record(folder, about["job"]))
        return
    verdict = work()
    head = {key: about[key] for key in ("schema", "gate", "job", "boot_id")}
    answer = _answer(folder, about["job"])
    try:
        _write(answer, {**head, "verdict": verdict})
    except OSError as exc:  # silence would be taken for a kill
        _write(answer, {**head, UNWRITTEN: str(exc.strerror)})
