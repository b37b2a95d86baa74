# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The process that ``suite.playbook`` forks runs of ansible-playbook from: playbook_server.py FD PROGRAM."""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import importlib.machinery
import json
import locale
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
import zipfile
from importlib import _bootstrap_external as importing  # where Python itself writes what it has compiled
from pathlib import Path
from types import SimpleNamespace
from typing import Any

# This file's folder is no place to import from.
sys.path.pop(0)

from ansible import constants  # noqa: E402
from ansible.cli.playbook import main as ansible_playbook  # noqa: E402
from ansible.config.manager import cleanup_tmp_file  # noqa: E402
from ansible.executor import module_common  # noqa: E402
from ansible.parsing.dataloader import DataLoader  # noqa: E402
from ansible.plugins import loader  # noqa: E402
from ansible.utils.collection_loader import _collection_finder  # noqa: E402

LOCAL_TMP = "DEFAULT_LOCAL_TMP"
#: Settings that each loader of plugins is made with.
FOLDERS = {f"DEFAULT_{kind.upper()}_PLUGIN_PATH": f"{kind}_loader" for kind in ("action", "callback", "connection")}
#: Seconds between two looks for a result, as ansible.cfg may say it. With Ansible's own, a thousandth, each second that
#: a run waits costs 40 ms of CPU, and many runs here wait.
BETWEEN_LOOKS = 0.01
#: Ansible compiles a collection's files anew in each run.
COLLECTION = "ansible_collections.gpufleet.baremetal"
ACTIONS = Path(__file__).resolve().parents[2] / "plugins" / "action"


#: Of these a run reads all that there are, with their documentation, before it looks at a play. It does so with "vars"
#: too, but leaves them out where somebody has read them before.
READ_WHOLE = ("connection", "shell", "become", "callback", "inventory")


class Compiled(zipfile.ZipFile):
    """What a module is sent with, and beside each file what Python would compile it to, each time that the module runs:
    half of what a short one costs. Another Python than this one reads the file itself.
    """

    def writestr(self, info: zipfile.ZipInfo, data: Any, *how: Any, **options: Any) -> None:  # type: ignore[override]
        super().writestr(info, data, *how, **options)
        if info.filename.endswith(".py"):
            code = compile(data, info.filename, "exec", dont_inherit=True)
            beside = zipfile.ZipInfo(f"{info.filename}c", info.date_time)
            beside.compress_type = info.compress_type
            super().writestr(beside, importing._code_to_hash_pyc(code, b"unasked.", False), *how, **options)


def read_uncopied(read: Any) -> Any:
    """Ansible keeps what it read of a file, and copies it for each reader: a sixth of a run's own work, and more than
    to read it again, which few files are."""

    @functools.wraps(read)
    def anew(self: DataLoader, file_name: str, cache: str = "all", unsafe: bool = False, **how: Any) -> Any:
        return read(self, file_name, cache="none", unsafe=True, **how)

    return anew


def compiled_once(loader_of: Any) -> Any:
    """The code of a collection's file as Python keeps it beside the file: Ansible compiles four hundred of them in each
    process, which is half of what its start costs."""
    compiled = loader_of.get_code

    @functools.wraps(compiled)
    def kept(self: Any, fullname: str) -> Any:
        path = self.get_filename(fullname)
        if not (path and path.endswith(".py") and os.path.isfile(path)):
            return compiled(self, fullname)
        return importlib.machinery.SourceFileLoader(fullname, path).get_code(fullname)

    return kept


def import_once() -> None:
    """The collection's own code, by the finder of collections; each run then installs a finder of its own.

    That finder reads its routing again, a third of a second for ansible-core's: the same text gives the same table.
    """
    read = functools.cache(_collection_finder._meta_yml_to_dict)
    _collection_finder._meta_yml_to_dict = lambda text, _content_id: read(text, None)
    of_any = _collection_finder._AnsibleCollectionPkgLoaderBase
    of_any.get_code = compiled_once(of_any)
    loader.init_plugin_loader()
    for kind in READ_WHOLE:
        list(getattr(loader, f"{kind}_loader").all(class_only=True))
    if os.environ.get("ANSIBLE_COLLECTIONS_PATH"):
        for path in ACTIONS.glob("[a-z]*.py"):
            importlib.import_module(f"{COLLECTION}.plugins.action.{path.stem}")
    _collection_finder._AnsibleCollectionFinder._remove()
    constants.DEFAULT_INTERNAL_POLL_INTERVAL = BETWEEN_LOOKS
    DataLoader.load_from_file = read_uncopied(DataLoader.load_from_file)  # type: ignore[method-assign]
    module_common.zipfile = SimpleNamespace(**{**vars(zipfile), "ZipFile": Compiled})


def read_again(names: set[str]) -> None:
    """The settings that these variables of the environment say. The import has seen none of them."""
    for setting, about in constants.config.get_configuration_definitions().items():
        if setting == LOCAL_TMP or any(one["name"] in names for one in about.get("env", ())):
            told = constants.config.get_config_value(setting, variables=vars(constants))
            setattr(constants, setting, told)
            if setting in FOLDERS:
                search_in(getattr(loader, FOLDERS[setting]), told)


def search_in(plugins: Any, folders: list[str]) -> None:
    """As if it had been made with these, but for the modules that it has read, which are kept by their path."""
    plugins.config, plugins._paths = folders, None
    plugins._plugin_path_cache.clear()
    plugins._searched_paths.clear()


def become_a_run(program: str, files: list[int], built: str) -> None:
    """What the interpreter would have found at its start.

    :param built: where modules lie that were made ready for a node, a quarter of a second each: all runs share them.
    """
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
    sys.path[:0] = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if "LC_ALL" in asked["again"]:
        locale.setlocale(locale.LC_ALL, "")
    # Each run has a folder of its own and removes it at its end; that of the import is not this run's to remove.
    atexit.unregister(cleanup_tmp_file)
    read_again({*asked["again"]})
    os.symlink(built, os.path.join(getattr(constants, LOCAL_TMP), "ansiballz_cache"))


def exit_status() -> int:
    try:
        ansible_playbook()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return 0


def end(status: int) -> None:
    """As an interpreter ends, but for taking apart what it shares with the process that it was forked from."""
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a person at the terminal: the runs end by it, and the tests
    channel, program = socket.socket(fileno=int(sys.argv[1])), sys.argv[2]
    import_once()
    gc.freeze()  # what is never collected is never copied into a run's own memory
    gc.set_threshold(50_000, 20, 20)  # a run ends before there is much to collect: a seventh of a short one
    built = tempfile.mkdtemp(prefix="gpufleet-modules-")
    atexit.register(shutil.rmtree, built, ignore_errors=True)
    while True:
        word, files, _flags, _address = socket.recv_fds(channel, 16, 3)
        if not word:
            return 0
        pid = os.fork()
        if not pid:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            channel.close()
            atexit.unregister(shutil.rmtree)
            become_a_run(program, files, built)
            end(exit_status())
        for number in files:
            os.close(number)
        channel.send(str(pid).encode())
        _pid, status = os.waitpid(pid, 0)
        channel.send(str(os.waitstatus_to_exitcode(status)).encode())


if __name__ == "__main__":
    sys.exit(main())
