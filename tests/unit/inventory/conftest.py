# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A folder with an inventory in it, and a way to ask ansible-inventory about it."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

CHECKOUT = Path(__file__).resolve().parents[3]
# In a checkout the link that 'make setup' makes; under ansible-test the tree that it works in.
LINKED = CHECKOUT / "build" / "collections"
COLLECTIONS = LINKED if LINKED.is_dir() else CHECKOUT.parents[2]
PLUGIN = "gpufleet.baremetal.fleet"


def _load(name: str) -> Any:
    path = Path(__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


ironic_api = _load("ironic_list_server")
forked_inventory = _load("forked_inventory")
_forks: Any = None


def pytest_collection_finish(session: pytest.Session) -> None:
    """Before the first test: ansible-test forks for each, and what one of them starts is not the next one's."""
    global _forks
    if _forks is None and any("site" in getattr(item, "fixturenames", ()) for item in session.items):
        _forks = forked_inventory.Forks(Path(tempfile.mkdtemp(prefix="gpufleet-inventory-")))


def pytest_sessionfinish() -> None:
    if _forks is not None:
        _forks.close()
        shutil.rmtree(_forks.folder, ignore_errors=True)


class Answer:
    def __init__(self, done: subprocess.CompletedProcess[str]) -> None:
        self.rc = done.returncode
        self.text = done.stdout + done.stderr
        self.errors = " ".join(done.stderr.split())
        self.data: dict[str, Any] = json.loads(done.stdout) if done.stdout.startswith("{") else {}

    @property
    def hosts(self) -> dict[str, dict[str, Any]]:
        hosts: dict[str, dict[str, Any]] = self.data["_meta"]["hostvars"]
        return hosts


class Site:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder / "gpu.fleet.yml"
        self.env: dict[str, str] = {}

    def write(self, name: str, content: str | bytes) -> Path:
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def configure(self, *sources: Mapping[str, Any], **options: Any) -> None:
        content = {"plugin": PLUGIN, "sources": [dict(source) for source in sources], **options}
        self.config.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")

    def ask(
        self,
        *argv: str,
        ok: bool = True,
        config: Path | None = None,
        program: str = "ansible-inventory",
        itself: bool = False,
    ) -> Answer:
        """ansible-inventory --list as an automation controller calls it: what cannot be parsed is an error.

        It, or the ``program`` that is asked for, runs in a fork of a process that has imported it; with ``itself`` the
        program itself is started.
        """
        command = [program, "-i", str(config or self.config), *(argv or ("--list", "--export"))]
        env = {key: value for key, value in os.environ.items() if not key.startswith(("GPUFLEET_", "ANSIBLE_"))}
        env.update(
            ANSIBLE_COLLECTIONS_PATH=str(COLLECTIONS),
            ANSIBLE_INVENTORY_UNPARSED_FAILED="True",
            ANSIBLE_HOME=str(self.folder / "home"),
            ANSIBLE_NOCOLOR="1",
        )
        env.update(self.env)
        answer = Answer((self._started if itself else _forks.run)(command, env, self.folder))
        assert (answer.rc == 0) == ok, answer.text[-3000:]
        return answer

    @staticmethod
    def _started(command: list[str], env: dict[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
        path = Path(sys.executable).with_name(command[0])
        return subprocess.run(
            [str(path), *command[1:]], env=env, capture_output=True, text=True, timeout=120, check=False, cwd=folder
        )


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.fixture
def ironic() -> Iterator[Any]:
    server = ironic_api.IronicLists()
    server.start()
    yield server
    server.close()
