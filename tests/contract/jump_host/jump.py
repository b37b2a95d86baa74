# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A second machine, as far as Ansible can tell: a real sshd, and interpreters that have what a module declares."""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import json
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from suite import playbook

CHECKOUT = Path(__file__).resolve().parents[3]
MODULES = "ansible_collections.gpufleet.baremetal.plugins.modules"
FRAGMENTS = "ansible_collections.gpufleet.baremetal.plugins.doc_fragments"
PLAYBOOK = Path(sys.executable).with_name("ansible-playbook")
ADDRESS = "127.0.0.1"
SSHD = Path(shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") or "/usr/sbin/sshd")


def missing() -> str:
    """Why there is no jump host here; empty where there is one."""
    if not SSHD.exists() or not shutil.which("ssh") or not shutil.which("ssh-keygen"):
        return "needs sshd, ssh and ssh-keygen (Debian packages openssh-server and openssh-client)"
    return ""


def declared(module: str, word: str = "") -> list[str]:
    """The Python libraries that a module's documentation asks for, with the least version; ``word`` picks lines."""
    documentation = yaml.safe_load(importlib.import_module(f"{MODULES}.{module}").DOCUMENTATION)
    names = [name.rpartition(".")[2] for name in documentation["extends_documentation_fragment"]]
    fragments = [importlib.import_module(f"{FRAGMENTS}.{name}").ModuleDocFragment.DOCUMENTATION for name in names]
    declared_by = [documentation, *map(yaml.safe_load, fragments)]
    lines = [line for part in declared_by for line in part.get("requirements", []) if word in line]
    assert lines or not word, f"{module} declares nothing for {word}"
    return [match.group(0) for line in lines if (match := re.match(r"([A-Za-z0-9_.-]+) >= ([0-9.]+)", line))]


def bare_python(folder: Path, requirements: list[str]) -> Path:
    """An interpreter that has these distributions and what they themselves require, and nothing else.

    They are the tests' own, which are those of the lock file, so that nothing is fetched.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    target = next((folder / "lib").glob("python*/site-packages"))
    found: set[str] = set()
    for requirement in requirements:
        name, least = requirement.split(" >= ")
        have = importlib.metadata.version(name)
        assert _parts(have) >= _parts(least), f"{name} {have} is older than what is declared: {least}"
        _needed(name, found)
    for name in found:
        files = importlib.metadata.files(name) or []
        for entry in {file.parts[0] for file in files if file.parts[0] not in ("..", "__pycache__")}:
            source = Path(str(importlib.metadata.distribution(name).locate_file(entry)))
            if source.exists() and not (target / entry).exists():
                (target / entry).symlink_to(source)
    return folder / "bin" / "python"


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def _needed(name: str, found: set[str]) -> None:
    """A distribution and all that it requires, as their own metadata says."""
    name = re.sub(r"[-_.]+", "-", name).lower()
    if name in found:
        return
    try:
        wanted = importlib.metadata.requires(name) or []
    except importlib.metadata.PackageNotFoundError:
        return  # required on other systems or Pythons only
    found.add(name)
    for requirement in wanted:
        if "extra ==" not in requirement:
            _needed(re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0], found)


def served(folder: Path) -> Iterator[dict[str, Any]]:
    """What a fixture yields: a server while its tests run, which are skipped where none can be had."""
    if missing():
        pytest.skip(missing())
    with sshd(folder) as variables:
        yield variables


@contextlib.contextmanager
def sshd(folder: Path) -> Iterator[dict[str, Any]]:
    """A server with keys of its own; gives the host variables that lead there."""
    folder.mkdir(mode=0o700)
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    with socket.socket() as probe:
        probe.bind((ADDRESS, 0))
        port = probe.getsockname()[1]
    (folder / "known").write_text(f"[{ADDRESS}]:{port} {(folder / 'host.pub').read_text()}")
    (folder / "config").write_text(
        f"ListenAddress {ADDRESS}:{port}\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/user.pub\nPidFile none\n"
        "PasswordAuthentication no\nUsePAM no\nStrictModes no\nPermitRootLogin prohibit-password\n"
        # What a home of this machine says to each shell (of pyenv, say) costs more than what is asked for there.
        f"Subsystem sftp internal-sftp\nSetEnv HOME={folder}\n"
    )
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # sshd's own place to lock itself in
    # The path of a socket may have 107 bytes, which pytest's own folders come close to.
    sockets = tempfile.mkdtemp(prefix="gpufleet-ssh-", dir="/tmp")
    daemon = subprocess.Popen([str(SSHD), "-D", "-e", "-f", str(folder / "config")], stderr=subprocess.DEVNULL)
    try:
        _wait_for_port(port)
        yield {
            "ansible_connection": "ssh", "ansible_host": ADDRESS, "ansible_port": port,
            "ansible_ssh_private_key_file": str(folder / "user"),
            "ansible_ssh_common_args": (
                f"-F none -o UserKnownHostsFile={folder}/known -o StrictHostKeyChecking=yes -o IdentitiesOnly=yes"
                f" -o ControlMaster=auto -o ControlPersist=5 -o ControlPath={sockets}/%C"
            ),
        }  # fmt: skip
    finally:
        for one in Path(sockets).iterdir():  # a connection that is kept outlives the test by the seconds of its setting
            subprocess.run(
                ["ssh", "-F", "none", "-O", "exit", "-o", f"ControlPath={one}", ADDRESS],
                check=False,
                capture_output=True,
            )
        daemon.terminate()
        daemon.wait(timeout=20)
        shutil.rmtree(sockets, ignore_errors=True)


def _wait_for_port(port: int) -> None:
    end = time.monotonic() + 10
    while True:
        try:
            socket.create_connection((ADDRESS, port), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


class Site:
    """One node, the jump host, and the controller's ledger. What is shipped stays on the jump host to be looked at."""

    def __init__(self, folder: Path, ssh: Mapping[str, Any], python: Path, **node: Any) -> None:
        self.folder = folder
        self.name = "node1"
        self.ledger = folder / "ledger-of-the-controller.sqlite"
        self.remote = folder / "on-the-jump-host"
        self.node = {
            # The node itself is never connected to: whatever tried would fail.
            "ansible_host": "127.0.0.250", "gpufleet_serial": "SN0001", "gpufleet_boot_mac": "52:54:00:00:00:01",
            "gpufleet_ledger_url": f"sqlite:///{self.ledger}", **node,
        }  # fmt: skip
        #: More nodes, for tasks that serve several.
        self.others: dict[str, dict[str, Any]] = {}
        self.jump = {**ssh, "ansible_python_interpreter": str(python), "ansible_remote_tmp": str(self.remote)}
        self.output = ""
        self.environment: dict[str, str] = {}

    def run(self, *tasks: Mapping[str, Any], here: bool = False, check: bool = False) -> list[dict[str, Any]]:
        """The results of the tasks, which go to the jump host; ``here`` runs them in the worker."""
        there = {} if here else {"delegate_to": "jump"}
        asked = [
            {**task, **there, "register": f"r{number}", "ignore_errors": True, "ignore_unreachable": True}
            for number, task in enumerate(tasks)
        ]
        content = "{{ [" + ", ".join(f"r{number}" for number in range(len(asked))) + "] | to_json }}"
        keep = {
            "ansible.builtin.copy": {"dest": str(self.folder / "results.json"), "mode": "0600", "content": content},
            "vars": {
                "ansible_connection": "local", "ansible_python_interpreter": sys.executable,
                "ansible_remote_tmp": str(self.folder / "here"),
            },
            "check_mode": False, "diff": False, "no_log": True, "delegate_to": "localhost",
        }  # fmt: skip
        nodes = {self.name: self.node, **self.others}
        book = [{"hosts": list(nodes), "gather_facts": False, "strategy": "linear", "tasks": [*asked, keep]}]
        hosts = {"all": {"hosts": {**nodes, "jump": self.jump}}}
        (self.folder / "book.yml").write_text(yaml.safe_dump(book))
        (self.folder / "hosts.yml").write_text(yaml.safe_dump(hosts))
        (self.folder / "nothing.pem").touch()
        environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")},
            "ANSIBLE_COLLECTIONS_PATH": str(CHECKOUT / "build" / "collections"),
            "ANSIBLE_ACTION_PLUGINS": str(CHECKOUT / "tests" / "contract" / "action"),
            "ANSIBLE_LOCAL_TEMP": str(self.folder / "home"), "ANSIBLE_KEEP_REMOTE_FILES": "true",
            "ANSIBLE_LOCALHOST_WARNING": "false", "LC_ALL": "C.UTF-8",
            "REQUESTS_CA_BUNDLE": str(self.folder / "nothing.pem"), "HTTPS_PROXY": "http://127.0.0.1:9",
            **self.environment,
        }  # fmt: skip
        flags = ["-vvv", "--diff", *(["--check"] if check else [])]
        done = playbook.run(["-i", "hosts.yml", "book.yml", *flags], cwd=self.folder, env=environment, timeout=180)
        self.output = done.stdout + done.stderr
        assert done.returncode == 0, self.output[-6000:]
        results: list[dict[str, Any]] = json.loads((self.folder / "results.json").read_text())
        return results

    def shipped(self) -> list[str]:
        """The text of everything that arrived on the jump host so far."""
        files = [path for path in self.remote.rglob("*") if path.is_file()]
        return [path.read_text(encoding="utf-8", errors="replace") for path in files]

    def events(self) -> list[tuple[str, str]]:
        if not self.ledger.exists():
            return []
        with self._opened() as ledger:
            return list(ledger.execute("SELECT kind, name FROM events ORDER BY id"))

    def data(self, kind: str, name: str) -> list[dict[str, Any]]:
        with self._opened() as ledger:
            rows = ledger.execute("SELECT data FROM events WHERE kind = ? AND name = ? ORDER BY id", (kind, name))
            return [json.loads(row[0]) for row in rows]

    def _opened(self) -> contextlib.closing[sqlite3.Connection]:
        """Closed at once: whoever reads the file while it is open here takes SQLite's locks away from this process."""
        return contextlib.closing(sqlite3.connect(self.ledger))
