# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""``ansible-playbook`` for tests that run it again and again.

Two thirds of a short run go into importing ansible-core, so a process with this environment imports it once, and each
run is a fork of it. It is the same code in a process of its own. A run is not started so where a test kills it or
looks at its processes, and the tests on the rack and from end to end start the program itself.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Optional

#: Whose ansible-core runs, where a test has no environment of its own.
PYTHON = Path(sys.executable)


def _program(python: Path) -> Path:
    return python.with_name("ansible-playbook")


PROGRAM = _program(PYTHON)
SERVER = Path(__file__).with_name("playbook_server.py")
#: What Python and ansible-core read at their start. PATH is none of it: a program is looked for when it is called, and
#: many a test has one in a folder of its own.
AT_START = ("ANSIBLE_", "_ANSIBLE_", "PYTHON", "LC_", "LANG", "LD_", "HOME", "NO_COLOR", "TERM")
#: What of it each run reads again (see playbook_server.become_a_run), so that runs which differ in nothing else share
#: one import. What ansible-core takes into a class or a function while it is imported may not stand here.
OF_A_RUN = frozenset(
    {
        "ANSIBLE_ACTION_PLUGINS",
        "ANSIBLE_BECOME_ALLOW_SAME_USER",
        "ANSIBLE_CALLBACKS_ENABLED",
        "ANSIBLE_CALLBACK_PLUGINS",
        "ANSIBLE_CONNECTION_PLUGINS",
        "ANSIBLE_DEPRECATION_WARNINGS",
        "ANSIBLE_FORKS",
        "ANSIBLE_HOST_KEY_CHECKING",
        "ANSIBLE_INVENTORY_UNPARSED_WARNING",
        "ANSIBLE_KEEP_REMOTE_FILES",
        "ANSIBLE_LOCALHOST_WARNING",
        "ANSIBLE_LOCAL_TEMP",
        "ANSIBLE_REMOTE_TEMP",
        "ANSIBLE_SHOW_CUSTOM_STATS",
        "ANSIBLE_SSH_COMMON_ARGS",
        "ANSIBLE_STDOUT_CALLBACK",
        "LC_ALL",
        "PYTHONPATH",
    }
)
#: Most tests share one environment, and a file may have another; one for each that ever was would fill the memory.
MOST = 2
#: Seconds until a run has begun.
BEGUN = 300


class Starter:
    """One process that has imported ansible-core, and forks."""

    def __init__(self, environment: Mapping[str, str], python: Path) -> None:
        self._here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with there:
            argv = [str(python), str(SERVER), str(there.fileno()), str(_program(python))]
            self._process = subprocess.Popen(
                argv, env=dict(environment), pass_fds=[there.fileno()], stdin=subprocess.DEVNULL
            )

    def run(self, asked: Mapping[str, Any], files: Sequence[int], timeout: float) -> int:
        """The exit status; negative for a signal, as subprocess has it."""
        with tempfile.TemporaryFile() as words:
            words.write(json.dumps(asked).encode())
            words.flush()
            socket.send_fds(self._here, [b"run"], [words.fileno(), *files])
            pid = self._begun()
            self._here.settimeout(timeout)
            try:
                return int(self._told())
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                self._here.settimeout(60)
                self._told()
                raise

    def _begun(self) -> int:
        """Its process. The first run waits for all that the server imports, which takes a busy machine minutes."""
        self._here.settimeout(BEGUN)
        try:
            return int(self._told())
        except TimeoutError:
            # What it tells from now on would be taken for the answer to the next one.
            self._process.kill()
            raise

    def ended(self) -> bool:
        return self._process.poll() is not None

    def _told(self) -> bytes:
        told = self._here.recv(64)
        assert told, "the process that starts ansible-playbook has ended"
        return told

    def close(self) -> None:
        self._here.close()
        self._process.wait(timeout=60)


_starters: dict[str, Starter] = {}


def _starter(environment: Mapping[str, str], python: Path) -> Starter:
    key = json.dumps([str(python), *sorted(environment.items())])
    if key in _starters and _starters[key].ended():
        _starters.pop(key).close()
    starter = _starters.pop(key, None)
    while starter is None and len(_starters) >= MOST:
        _starters.pop(next(iter(_starters))).close()
    # The last: the first is the one that nobody has asked for longest.
    _starters[key] = starter or Starter(environment, python)
    return _starters[key]


@functools.cache
def _home() -> str:
    folder = tempfile.mkdtemp(prefix="gpufleet-ansible-", dir="/tmp")  # sockets lie there: their paths may not be long
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@atexit.register
def close() -> None:
    """Ends them all, so that what they used counts as used by this process."""
    while _starters:
        _starters.popitem()[1].close()


def run(
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: Optional[Path] = None,
    timeout: float = 600,
    python: Path = PYTHON,
) -> subprocess.CompletedProcess[str]:
    """As subprocess.run() of ansible-playbook with these arguments does it, with its output captured as text.

    :param python: of the environment whose program it is.

    ANSIBLE_HOME is settled by the import. A test that has a folder for temporary files says so by ANSIBLE_LOCAL_TEMP.
    """
    env = {"ANSIBLE_HOME": _home(), **env}
    lasting = {name: value for name, value in env.items() if name.startswith(AT_START) and name not in OF_A_RUN}
    again = sorted(OF_A_RUN & {*env})
    asked = {"argv": list(argv), "cwd": str(cwd or Path.cwd()), "env": env, "again": again}
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        status = _starter(lasting, python).run(asked, [out.fileno(), err.fileno()], timeout)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode())
    return subprocess.CompletedProcess([str(_program(python)), *argv], status, *texts)
