# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``provisioner_node`` on another machine: its module as a process of its own that knows its arguments alone, and the
action that ships it there. The drivers of these tests are known on both sides."""

from __future__ import annotations

import atexit
import functools
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, ClassVar, Optional

sys.path.insert(0, str(Path(__file__).resolve().parent))

from ansible_collections.gpufleet.baremetal.plugins.action import provisioner_node as action
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import registry
from ansible_collections.gpufleet.baremetal.plugins.modules import provisioner_node
from command_line.driver import CommandLineDriver
from task_queue.driver import OPTIONS, TaskQueueDriver

TESTS = Path(__file__).resolve().parents[2]


class There(action.ActionModule):
    """Each part leaves what it was given and its process id in the folder, and in ``until`` when its leave ends."""

    folder: ClassVar[Path]

    def _goes_elsewhere(self) -> bool:
        return True

    def _execute_module(self, *_args: Any, **options: Any) -> dict[str, Any]:
        args = {key: value for key, value in options["module_args"].items() if value is not None}
        until = (args.get("leave") or {}).get("until", 0)
        (self.folder / "until").write_text(str(until), encoding="ascii")
        return sent(args, self.folder / f"{len(parts(self.folder))}.part")


def parts(folder: Path) -> list[dict[str, Any]]:
    """What was sent, in its order."""
    files = sorted(folder.glob("*.part"), key=lambda path: int(path.stem))
    return [json.loads(path.read_text(encoding="utf-8")) for path in files]


class Machine:
    """One process that has imported the module, and forks for each that asks it: a second and a half of CPU each else.

    Whoever asks is told the process id first. Each runs in a session of its own, as what a killed run leaves behind.
    """

    def __init__(self) -> None:
        self._folder = tempfile.mkdtemp(prefix="gpufleet-there-", dir="/tmp")  # the path of a socket may not be long
        self._address = f"{self._folder}/socket"
        with socket.socket(socket.AF_UNIX) as listens:
            listens.bind(self._address)
            listens.listen(16)
            self._mine, theirs = socket.socketpair()
            env = {**os.environ, "PYTHONPATH": f"{TESTS}:{os.environ['PYTHONPATH']}", "_ANSIBLE_PROFILE": "legacy"}
            numbers = (listens.fileno(), theirs.fileno())
            argv = [sys.executable, __file__, *map(str, numbers)]
            self._process = subprocess.Popen(argv, env=env, pass_fds=numbers, stdin=subprocess.DEVNULL)
            theirs.close()
        atexit.register(self.close)

    def asked(self, args: dict[str, Any], note: Optional[Path]) -> dict[str, Any]:
        with socket.socket(socket.AF_UNIX) as asks, asks.makefile("rb") as told:
            asks.connect(self._address)
            pid = int(told.readline())
            if note is not None:
                note.write_text(json.dumps({"pid": pid, "args": args}), encoding="utf-8")
            given = {"ANSIBLE_MODULE_ARGS": {**args, "_ansible_no_log": False}}
            asks.sendall(f"{json.dumps(dict(os.environ))}\n{json.dumps(given)}".encode())
            asks.shutdown(socket.SHUT_WR)
            return dict(json.loads(told.read()))

    def close(self) -> None:
        self._mine.close()
        self._process.wait(60)
        shutil.rmtree(self._folder)


@functools.cache
def machine() -> Machine:
    """To be called first by the process of the tests, and not by a task that ends before the next one."""
    return Machine()


def sent(args: dict[str, Any], note: Optional[Path] = None) -> dict[str, Any]:
    """What the module over there says."""
    return machine().asked(args, note)


def serve(listens: socket.socket, theirs: socket.socket) -> None:
    """Until the tests end."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # who has ended is gone, as on another machine
    while listens in select.select([listens, theirs], [], [])[0]:
        asks, _address = listens.accept()
        with asks:
            if os.fork() == 0:
                one(asks)


def one(asks: socket.socket) -> None:
    """A run of the module, by itself."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    asks.sendall(f"{os.getpid()}\n".encode())
    os.dup2(asks.fileno(), 0)
    os.dup2(asks.fileno(), 1)
    env = json.loads(sys.stdin.buffer.readline())
    os.environ.clear()
    os.environ.update(env)
    status = 1
    try:
        provisioner_node.main()
    except SystemExit as ended:
        status = int(ended.code or 0)
    finally:
        sys.stdout.flush()
        os._exit(status)


def main() -> None:
    registry.register(CommandLineDriver)
    registry.register(TaskQueueDriver, OPTIONS)
    listens, theirs = (socket.socket(fileno=int(number)) for number in sys.argv[1:])
    del sys.argv[1:]  # each run reads its arguments from its input
    serve(listens, theirs)


if __name__ == "__main__":
    main()
