# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The process that ``suite.playbook`` forks runs of ansible-playbook from: playbook_server.py FD PROGRAM."""

from __future__ import annotations

import atexit
import importlib
import json
import os
import signal
import socket
import sys
import tempfile
from pathlib import Path

# This file's folder is no place to import from.
sys.path.pop(0)

from ansible import constants  # noqa: E402
from ansible.cli.playbook import main as ansible_playbook  # noqa: E402
from ansible.config.manager import cleanup_tmp_file  # noqa: E402
from ansible.plugins.loader import init_plugin_loader  # noqa: E402
from ansible.utils.collection_loader._collection_finder import _AnsibleCollectionFinder  # noqa: E402

LOCAL_TMP = "DEFAULT_LOCAL_TMP"
#: Ansible compiles a collection's files anew in each run.
COLLECTION = "ansible_collections.gpufleet.baremetal"
ACTIONS = Path(__file__).resolve().parents[2] / "plugins" / "action"


def import_once() -> None:
    """The collection's own code, by the finder of collections; each run then installs a finder of its own."""
    if not os.environ.get("ANSIBLE_COLLECTIONS_PATH"):
        return
    init_plugin_loader()
    for path in ACTIONS.glob("[a-z]*.py"):
        importlib.import_module(f"{COLLECTION}.plugins.action.{path.stem}")
    _AnsibleCollectionFinder._remove()


def become_a_run(program: str, files: list[int]) -> None:
    """What the interpreter would have found at its start."""
    words, out, err = files
    with open(os.dup(words), encoding="utf-8") as file:
        file.seek(0)
        asked = json.load(file)
    os.dup2(out, 1)
    os.dup2(err, 2)
    for number in files:
        os.close(number)
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    tempfile.tempdir = None
    sys.argv = [program, *asked["argv"]]
    # Each run has a folder of its own and removes it at its end; that of the import is not this run's to remove.
    atexit.unregister(cleanup_tmp_file)
    setattr(constants, LOCAL_TMP, constants.config.get_config_value(LOCAL_TMP, variables=vars(constants)))


def main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a person at the terminal: the runs end by it, and the tests
    channel, program = socket.socket(fileno=int(sys.argv[1])), sys.argv[2]
    import_once()
    while True:
        word, files, _flags, _address = socket.recv_fds(channel, 16, 3)
        if not word:
            return 0
        pid = os.fork()
        if not pid:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            channel.close()
            become_a_run(program, files)
            ansible_playbook()
            return 0
        for number in files:
            os.close(number)
        channel.send(str(pid).encode())
        _pid, status = os.waitpid(pid, 0)
        channel.send(str(os.waitstatus_to_exitcode(status)).encode())


if __name__ == "__main__":
    sys.exit(main())
