# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""ansible-inventory, ansible and ansible-playbook in forks of one process that has imported them.

What they cost to start is paid once. Each runs the program's own main function, in a process of its own, with the
environment that it is given. Some tests use the program itself all the same; see conftest.py.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any, NoReturn

LIMIT_SECONDS = 120
PROGRAMS = {
    "ansible-inventory": ("ansible.cli.inventory", "InventoryCLI"),
    "ansible": ("ansible.cli.adhoc", "AdHocCLI"),
    "ansible-playbook": ("ansible.cli.playbook", "PlaybookCLI"),
}


class Forks:
    """The process that forks, and how it is asked. A test that is forked itself shares it with its parent."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        env = {key: value for key, value in os.environ.items() if not key.startswith(("GPUFLEET_", "ANSIBLE_"))}
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            env={**env, "ANSIBLE_HOME": str(folder / "home"), "ANSIBLE_NOCOLOR": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=folder,
        )

    def run(self, argv: list[str], env: dict[str, str], cwd: Path) -> subprocess.CompletedProcess[str]:
        assert self._process.stdin and self._process.stdout
        paths = [self.folder / name for name in ("stdout", "stderr")]
        asked = {"argv": argv, "env": env, "cwd": str(cwd), "files": list(map(str, paths))}
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        ready, _none, _nothing = select.select([self._process.stdout], [], [], LIMIT_SECONDS)
        assert ready, f"{argv} did not end within {LIMIT_SECONDS} s"
        status = int(self._process.stdout.readline())
        out, err = (path.read_text(encoding="utf-8") for path in paths)
        return subprocess.CompletedProcess(argv, status, out, err)

    def close(self) -> None:
        self._process.kill()
        self._process.wait(timeout=10)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                pipe.close()


def become(asked: dict[str, Any]) -> NoReturn:
    """The rest of this process is the program."""
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, path in enumerate(asked["files"], 1):
        os.dup2(os.open(path, flags, 0o600), number)
    status: Any = 1
    try:
        from ansible import constants

        # It was read in another environment.
        importlib.reload(constants)
        module, name = PROGRAMS[asked["argv"][0]]
        getattr(importlib.import_module(module), name).cli_executor(asked["argv"])
        status = 0
    except SystemExit as ended:
        status = ended.code
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    atexit._run_exitfuncs()
    os._exit(status if isinstance(status, int) else 0 if status is None else 1)


def read_once() -> None:
    """Two large files of ansible-core, a third of a second each run: the same file gives the same table."""
    finder = importlib.import_module("ansible.utils.collection_loader._collection_finder")
    routing = functools.cache(finder._meta_yml_to_dict)
    vars(finder)["_meta_yml_to_dict"] = lambda text, _content_id: routing(text, None)
    importlib.import_module("ansible.plugins.loader").init_plugin_loader()
    importlib.import_module("ansible_collections.ansible.builtin")
    finder._AnsibleCollectionFinder._remove()
    for name in [name for name in sys.modules if name.partition(".")[0] == "ansible_collections"]:
        del sys.modules[name]  # a run finds its collections where its own environment says
    manager = importlib.import_module("ansible.config.manager")
    options = functools.cache(functools.partial(manager.ConfigManager._read_config_yaml_file, None))
    options(str(Path(manager.__file__).with_name("base.yml")))
    manager.ConfigManager._read_config_yaml_file = lambda _self, path: options(path)


def serve() -> None:
    # What the program and the sources import, without this collection itself: that is what is tested.
    programs = [module for module, _name in PROGRAMS.values()]
    for name in (*programs, "openstack.connection", "requests", "cryptography.x509"):
        importlib.import_module(name)
    read_once()
    gc.freeze()  # what is never collected is never copied into a run's own memory
    answers = os.fdopen(os.dup(1), "w")
    # Nobody but the answers goes there.
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            become(json.loads(line))
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        answers.write(f"{status}\n")
        answers.flush()


if __name__ == "__main__":
    serve()
