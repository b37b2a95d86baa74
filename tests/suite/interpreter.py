# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A Python for modules of a run that has very many: interpreter.py FD FOLDER.

Most of what a short module costs is what it imports, so a process imports that once, and each module is a fork of it.
``Interpreter.program`` is what a playbook names as its interpreter: it hands over its arguments, its folder, its
environment and its three files, and ends as the fork has. What is sent there is what Ansible sends, whole.
"""

from __future__ import annotations

import atexit
import functools
import importlib
import json
import os
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

#: Of Ansible itself, which sends the same files along; nothing of a collection.
IMPORTED = ("ansible.module_utils.basic", "ansible.module_utils.urls", "yaml", "http.cookiejar", "zipfile", "runpy")
CLIENT = """#!{python} -SEs
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as asks:
    asks.connect({address!r})
    told = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(asks, [len(told).to_bytes(8, "big")], [0, 1, 2])
    asks.sendall(told)
    status = asks.recv(8)
sys.exit(int(status or 1))
"""


class Interpreter:
    """The process, while it is needed."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="gpufleet-python-", dir="/tmp"))  # of a socket: no long path
        address = str(self._folder / "socket")
        self.program = self._folder / "python"
        self.program.write_text(CLIENT.format(python=sys.executable, address=address), encoding="utf-8")
        self.program.chmod(0o755)
        with socket.socket(socket.AF_UNIX) as listens:
            listens.bind(address)
            listens.listen(16)
            self._mine, theirs = socket.socketpair()
            numbers = (listens.fileno(), theirs.fileno())
            clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "ANSIBLE"))}
            argv = [sys.executable, __file__, *map(str, numbers)]
            self._process = subprocess.Popen(argv, env=clean, pass_fds=numbers, stdin=subprocess.DEVNULL)
            theirs.close()

    def close(self) -> None:
        self._mine.close()
        self._process.wait(60)
        shutil.rmtree(self._folder)


@functools.cache
def _one() -> Interpreter:
    made = Interpreter()
    atexit.register(made.close)
    return made


def forking() -> str:
    """The one of this process, which ends with it, as a playbook names it."""
    return str(_one().program)


def serve(listens: socket.socket, theirs: socket.socket) -> None:
    """Until the tests end. Each fork is waited for, so that what it used counts as used by the tests."""
    begun: set[int] = set()
    while listens in select.select([listens, theirs], [], [])[0]:
        asks, _address = listens.accept()
        with asks:
            pid = os.fork()
            if not pid:
                run(asks)
        begun.add(pid)
        begun -= {one for one in begun if os.waitpid(one, os.WNOHANG)[0]}
    for one in begun:
        os.waitpid(one, 0)


def run(asks: socket.socket) -> None:
    """One module, which ends as by itself."""
    size, files, _flags, _address = socket.recv_fds(asks, 8, 3)
    text = asks.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL)
    argv, folder, env = json.loads(text)
    for place, number in enumerate(files):
        os.dup2(number, place)
        os.close(number)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    sys.argv[:] = argv
    status = 1
    try:
        runpy.run_path(argv[0], run_name="__main__")
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        asks.sendall(str(status).encode())
        os._exit(status)


def main() -> None:
    sys.path.pop(0)  # this file's folder is no place to import from
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for name in IMPORTED:
        importlib.import_module(name)
    serve(*(socket.socket(fileno=int(number)) for number in sys.argv[1:]))


if __name__ == "__main__":
    main()
