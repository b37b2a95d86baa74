# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Five nodes on loopback that greet as an SSH server does, and plays over them."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from suite import playbook

CHECKOUT = Path(__file__).resolve().parents[3]
PLAYBOOK = Path(sys.executable).with_name("ansible-playbook")
CALLBACKS = CHECKOUT / "tests" / "contract" / "scheduler" / "callback"
HOSTS = ("n1", "n2", "n3", "n4", "n5")


class Node:
    """Counts who came; greets, or stays silent."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.greeted = 0
        self._silent = 0
        self._hanging = False
        self._kept: list[socket.socket] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def silent_for(self, looks: int) -> None:
        """The next so many that come are told nothing."""
        self._silent = looks

    def hang(self) -> None:
        self._hanging = True

    def greet_again(self) -> None:
        self._hanging = False

    def talks_to(self, pid: int) -> bool:
        """Has this process a connection to here?"""
        inodes = set()
        with contextlib.suppress(OSError):
            for entry in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    inodes.add(os.readlink(entry).partition("[")[2].rstrip("]"))
        lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
        mine = {line.split()[9] for line in lines if line.split()[2].endswith(f":{self.port:04X}")}
        return bool(mine & inodes)

    def stop(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(timeout=5)
        for connection in self._kept:
            connection.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _peer = self._listener.accept()
            except OSError:
                return
            self.greeted += 1
            if self._hanging:
                self._kept.append(connection)
                continue
            with connection, contextlib.suppress(OSError):
                if self.greeted > self._silent:
                    connection.sendall(b"SSH-2.0-node\r\n")


@contextlib.contextmanager
def nodes_of(names: Sequence[str]) -> Iterator[dict[str, Node]]:
    nodes = {name: Node() for name in names}
    try:
        yield nodes
    finally:
        for node in nodes.values():
            node.stop()


class Refusing:
    """A provisioner that knows nobody's key."""

    def __init__(self) -> None:
        self.requests = 0
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.requests += 1
                self.send_response(401)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                return

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/MAAS"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Fleet:
    """Plays over the nodes; the connection of every host leads nowhere, so that only the watcher reaches a node."""

    def __init__(self, folder: Path, nodes: Mapping[str, Node]) -> None:
        self.folder = folder
        hosts = {
            name: {"ansible_host": "127.0.0.1", "ansible_port": node.port, "gpufleet_serial": f"S{name}"}
            for name, node in nodes.items()
        }
        shared = {"gpufleet_ledger_url": f"sqlite:///{folder}/ledger.sqlite"}
        (folder / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": hosts, "vars": shared}}))

    def refusing_provisioner(self) -> Refusing:
        return Refusing()

    def play(
        self,
        *tasks: Mapping[str, Any],
        forks: int = 5,
        files: Mapping[str, Any] | None = None,
        environment: Mapping[str, str] | None = None,
        **play: Any,
    ) -> dict[str, list[dict[str, Any]]]:
        """What each host was told, in the tasks' order; a task of run_once counts for the host that ran it."""
        for name, content in (files or {}).items():
            (self.folder / name).write_text(yaml.safe_dump(content))
        env = {**self._written(tasks, environment, play), "ANSIBLE_LOCAL_TEMP": str(self.folder / "home")}
        done = playbook.run(["-i", "hosts.yml", "--forks", str(forks), "play.yml"], cwd=self.folder, env=env)
        text = done.stdout + done.stderr
        assert done.returncode == 0, text
        found: dict[str, list[dict[str, Any]]] = {}
        for line in text.splitlines():
            if line.startswith("RESULT "):
                told = json.loads(line[7:])
                found.setdefault(told["host"], []).append(told["result"])
        return dict(sorted(found.items()))

    def _written(
        self, tasks: Sequence[Mapping[str, Any]], environment: Mapping[str, str] | None, play: Mapping[str, Any]
    ) -> dict[str, str]:
        """Writes the play; the environment in which it runs."""
        book = [{"hosts": "all", "gather_facts": False, "strategy": "linear", **play, "tasks": list(tasks)}]
        (self.folder / "play.yml").write_text(yaml.safe_dump(book))
        return {
            **{key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")},
            "ANSIBLE_COLLECTIONS_PATH": str(CHECKOUT / "build" / "collections"),
            "ANSIBLE_STDOUT_CALLBACK": "gpufleet_json",
            "ANSIBLE_CALLBACK_PLUGINS": str(CALLBACKS),
            **(environment or {}),
        }

    @contextlib.contextmanager
    def start(self, *tasks: Mapping[str, Any], forks: int, **play: Any) -> Iterator[subprocess.Popen[str]]:
        """A run that can be killed: the program itself."""
        env = {**self._written(tasks, None, play), "ANSIBLE_HOME": str(self.folder / "home")}
        argv = [str(PLAYBOOK), "-i", "hosts.yml", "--forks", str(forks), "play.yml"]
        run = subprocess.Popen(
            argv, cwd=self.folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        try:
            yield run
        finally:
            if run.poll() is None:
                run.kill()
            run.wait(timeout=30)
            assert run.stdout
            run.stdout.close()


def process_table(parent: int) -> set[int]:
    """A process and its children."""
    found = {parent}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                if int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == parent:
                    found.add(int(entry.name))
    return found
