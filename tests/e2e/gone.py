# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How each service of the rack is taken away and given back: stopped, so that it is silent, or ended, so that it
refuses.

A service that is stopped takes connections and answers none of them, as one behind a switch that went down, or on a
host that thrashes; one that is ended refuses them, as while it is restarted. Only processes of the rack are touched, by
their ids. Where none of them runs, nothing was taken away, and that is said.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import lab
from strange_world import SERVICES as ENDED_BY

sys.path.insert(0, str(lab.CHECKOUT / "roles" / "virtual_rack" / "files" / "services"))
import supervise  # noqa: E402

#: Gives back what was taken away.
Back = Callable[[], object]
HOWS = (SILENT, REFUSED) = ("silent", "refused")
SSHD = ["/usr/sbin/sshd", "-D", "-e", "-f", "/etc/ssh/sshd_config"]


class NothingThere(Exception):
    """No process of the service ran: nothing was taken away."""


def take(service: str, how: str) -> Back:
    """A service of the rack, or ``bmc:gpu001``, ``sshd:gpu002``, ``ledger``; NothingThere where none runs."""
    kind, _colon, node = service.partition(":")
    return {"bmc": _bmc, "sshd": _sshd, "ledger": _ledger}.get(kind, _service)(node or kind, how)


def _service(name: str, how: str) -> Back:
    leader = int(json.loads((lab.RACK / "run" / f"{name}.json").read_text(encoding="utf-8"))["pid"])
    if how == SILENT:
        return _stopped(lambda: _session(leader))
    # Those that are told to end write down what they know, and take their own children along.
    told = ENDED_BY.get(name, signal.SIGTERM)
    _signalled([leader] if told == signal.SIGTERM else _session(leader), told)
    lab.wait_for(lambda: not _session(leader), 30, f"{name} has ended")
    return lambda: _started(name)


def _started(name: str) -> None:
    """This one alone: another may be away for longer."""
    [service] = [one for one in supervise.load(lab.RACK / "run", lab.RACK / "services.json") if one.name == name]
    service.start()
    service.wait_healthy()


def _bmc(node: str, how: str) -> Back:
    pid = int(json.loads((lab.RACK / "nodes" / node / "bmc.json").read_text(encoding="utf-8"))["pid"])
    if how == SILENT:
        return _stopped(lambda: [pid])
    _signalled([pid], signal.SIGKILL)
    return lambda: lab.revive_bmc(node)


def _sshd(node: str, how: str) -> Back:
    """A node that is booted meanwhile has an sshd of its new system; one without a system has none."""
    if how == SILENT:
        return _stopped(lambda: _sshds(node))
    running = _sshds(node)
    if not running:
        raise NothingThere(f"no sshd runs on {node}")
    init = next(parent for parent in map(_parent, running) if parent not in running)
    lab.kill_sshd(node)
    return lambda: _sshd_again(node, init)


def _sshd_again(node: str, init: int) -> None:
    if node not in _command(init) or _sshds(node):
        return
    inside = ["nsenter", "--target", str(init), "--mount", "--uts", "--net", "--pid", "--time"]
    subprocess.Popen(
        [*inside, "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", *SSHD],
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _ledger(_name: str, how: str) -> Back:
    """Another process has the file locked; a file refuses nobody."""
    assert how == SILENT, how
    connection = sqlite3.connect(lab.RACK / "ledger.sqlite", isolation_level=None, check_same_thread=False, timeout=30)
    connection.execute("BEGIN EXCLUSIVE")
    return connection.close


def _stopped(processes: Callable[[], Iterable[int]]) -> Back:
    """What is started meanwhile is another's."""
    stopped = _signalled(processes(), signal.SIGSTOP)
    return lambda: _signal(stopped, signal.SIGCONT)


def _signalled(processes: Iterable[int], number: int) -> list[int]:
    """Those that were told; NothingThere where that is none."""
    told = _signal(processes, number)
    if not told:
        raise NothingThere("none of its processes runs")
    return told


def _signal(processes: Iterable[int], number: int) -> list[int]:
    return [pid for pid in processes if _lives(pid) and _sent(pid, number)]


def _sent(pid: int, number: int) -> bool:
    """A process may end between the look at it and the signal."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def _lives(pid: int) -> bool:
    """One that ended, and whose end nobody took note of yet, serves nobody any more."""
    stat = _stat(Path(f"/proc/{pid}/stat"))
    return bool(stat) and stat[0] not in "ZX"


def _session(leader: int) -> list[int]:
    """Processes that live in the session which a service has opened."""
    stats = {int(path.parent.name): _stat(path) for path in Path("/proc").glob("[0-9]*/stat")}
    return [pid for pid, stat in stats.items() if stat and stat[0] not in "ZX" and int(stat[3]) == leader]


def _sshds(node: str) -> list[int]:
    inside = subprocess.run(["ip", "netns", "pids", f"gfrack-{node}"], check=True, capture_output=True, text=True)
    return [pid for pid in map(int, inside.stdout.split()) if "sshd" in _command(pid)]


def _command(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def _parent(pid: int) -> int:
    return int(_stat(Path(f"/proc/{pid}/stat"))[1])


def _stat(path: Path) -> list[str]:
    with suppress(OSError):
        return path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    return []
