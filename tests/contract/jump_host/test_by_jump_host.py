# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""node_wait where nodes are reached by a jump host: it goes the way that Ansible's own connection will go."""

from __future__ import annotations

import shlex
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jump
import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._node.reach import wait_for_nodes
from ansible_collections.gpufleet.baremetal.plugins.module_utils._quarantine import quarantines
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context

#: Where nobody answers who comes straight. The jump host has it as a name of its own.
BEHIND = "node-behind.invalid"


@pytest.fixture
def by(ssh: dict[str, Any]) -> Iterator[Any]:
    """The options of a connection that goes by this sshd, to a place that it alone knows."""

    def options(to: str = "127.0.0.1:%p", port: Any = None) -> list[str]:
        key, place = ssh["ansible_ssh_private_key_file"], str(ssh["ansible_host"])
        login = ["ssh", "-p", str(port or ssh["ansible_port"]), "-i", str(key), "-o", "BatchMode=yes"]
        login += ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-W", to, place]
        return ["-o", f"ProxyCommand={shlex.join(login).replace(shlex.quote(to), to)}"]

    yield options


@pytest.fixture
def settings(ssh: dict[str, Any], tmp_path: Path) -> list[str]:
    """A file of settings by which OpenSSH finds the node behind the jump host, and may log in to both."""
    known = "StrictHostKeyChecking no\n UserKnownHostsFile /dev/null"
    key = f"IdentityFile {ssh['ansible_ssh_private_key_file']}\n IdentitiesOnly yes\n BatchMode yes"
    (tmp_path / "ssh_config").write_text(
        f"Host {BEHIND}\n HostName {ssh['ansible_host']}\n"
        f"Host jump\n HostName {ssh['ansible_host']}\n Port {ssh['ansible_port']}\n"
        f"Host *\n {known}\n {key}\n",
        encoding="utf-8",
    )
    return ["-F", str(tmp_path / "ssh_config")]


def waited(words: list[str] | None, port: int, address: str = BEHIND) -> dict[str, Any]:
    node = {"host": "n1", "address": address, "port": port, "words": words}
    params = {"nodes": [node], "timeout": 1, "interval": 0.2, "connect_timeout": 2.0}
    ctx = Context()
    verdict: dict[str, Any] = wait_for_nodes(params, ctx).as_dict(ctx)["verdicts"]["n1"]
    return verdict


@contextmanager
def greeting(text: bytes) -> Iterator[int]:
    """The port of something behind the jump host that says this to everybody, and closes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _peer = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.sendall(text)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield int(listener.getsockname()[1])
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(timeout=5)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def test_a_node_behind_a_jump_host_answers_by_it(ssh: dict[str, Any], by: Any) -> None:
    verdict = waited(by(), int(ssh["ansible_port"]))
    assert verdict["ok"], verdict
    straight = waited([], int(ssh["ansible_port"]))
    assert not straight["ok"], "nobody leads to it"


def test_a_node_that_its_jump_host_does_not_reach_is_silent_itself(by: Any) -> None:
    verdict = waited(by(), free_port())
    assert not verdict["ok"] and verdict["kind"] == "" and "by its jump host" in verdict["reason"], verdict
    assert quarantines(verdict)


def test_a_jump_host_that_is_away_says_nothing_of_the_node(ssh: dict[str, Any], by: Any) -> None:
    begun = time.monotonic()
    verdict = waited(by(port=free_port()), int(ssh["ansible_port"]))
    assert not verdict["ok"] and verdict["kind"] == "unreachable" and not quarantines(verdict), verdict
    assert time.monotonic() - begun < 60


def test_by_a_proxy_jump_a_node_answers_and_a_silent_one_is_silent_itself(
    ssh: dict[str, Any], settings: list[str]
) -> None:
    verdict = waited([*settings, "-J", "jump"], int(ssh["ansible_port"]))
    assert verdict["ok"], verdict
    silent = waited([*settings, "-o", "ProxyJump=jump"], free_port())
    assert not silent["ok"] and quarantines(silent), "the jump host's own greeting is not the node's"
    assert "refused" in silent["reason"], silent


@pytest.mark.parametrize("word", ["none", ""], ids=["none", "unset"])
def test_a_jump_host_that_is_taken_back_leads_nowhere(ssh: dict[str, Any], settings: list[str], word: str) -> None:
    words = ["-o", f"ProxyCommand={word}"] if word else []
    verdict = waited([*words, *settings], int(ssh["ansible_port"]))
    assert not verdict["ok"] and "jump host" not in verdict["reason"], verdict


@pytest.mark.parametrize("said", [b"", b"220 mail\r\n"], ids=["closes", "says something else"])
def test_a_jump_host_greets_and_what_is_behind_it_is_no_ssh_server(settings: list[str], said: bytes) -> None:
    with greeting(said) as port:
        verdict = waited([*settings, "-J", "jump"], port)
    assert not verdict["ok"] and not quarantines(verdict), verdict


def test_a_jump_host_that_does_not_know_the_node_says_nothing_of_it(settings: list[str]) -> None:
    unknown = ["-o", "HostName=nobody-knows-it.invalid"]
    verdict = waited([*unknown, *settings, "-J", "jump"], 22)
    assert not verdict["ok"] and not quarantines(verdict), verdict


def test_a_connection_that_is_kept_open_is_not_gone_by(ssh: dict[str, Any], settings: list[str]) -> None:
    """By it nobody would greet anew, and what Ansible keeps open outlives the node."""
    port = str(ssh["ansible_port"])
    with tempfile.TemporaryDirectory(prefix="gpufleet-ssh-", dir="/tmp") as folder:
        kept = ["-o", "ControlMaster=auto", "-o", "ControlPersist=60", "-o", f"ControlPath={folder}/kept"]
        words = [*kept, *settings, "-J", "jump"]
        subprocess.run(["ssh", *words, "-p", port, BEHIND, "true"], check=True, timeout=60, stderr=subprocess.DEVNULL)
        try:
            assert Path(folder, "kept").exists()
            verdict = waited(words, int(port))
        finally:
            end = ["ssh", *words, "-p", port, "-O", "exit", BEHIND]
            subprocess.run(end, check=True, timeout=60, stderr=subprocess.DEVNULL)
    assert verdict["ok"], verdict


def test_options_that_openssh_does_not_take_are_a_setting_and_no_silence(settings: list[str]) -> None:
    port = free_port()
    assert quarantines(waited(settings, port, "127.0.0.1")), "what refuses is silent itself"
    verdict = waited([*settings, "-o", "ProxyJmp=jump"], port, "127.0.0.1")
    assert not verdict["ok"] and verdict["kind"] == "config" and not quarantines(verdict), verdict


@pytest.mark.slow
@pytest.mark.parametrize("place", ["ansible.cfg", "environment", "variable"])
def test_a_jump_host_is_seen_wherever_ansible_reads_it(
    ssh: dict[str, Any], settings: list[str], tmp_path: Path, place: str
) -> None:
    said = shlex.join([*settings, "-J", "jump"])
    variable = {"ansible_ssh_common_args": said} if place == "variable" else {}
    node = {"ansible_host": BEHIND, "ansible_port": ssh["ansible_port"], **variable}
    site = jump.Site(tmp_path, ssh, Path(sys.executable), **node)
    (tmp_path / "ansible.cfg").write_text(f"[ssh_connection]\nssh_common_args = {said}\n", encoding="utf-8")
    site.environment = {
        "ansible.cfg": {"ANSIBLE_CONFIG": str(tmp_path / "ansible.cfg")},
        "environment": {"ANSIBLE_SSH_COMMON_ARGS": said},
        "variable": {},
    }[place]
    wait = {"timeout": 5, "interval": 0.2, "connect_timeout": 2.0}
    (result,) = site.run({"gpufleet.baremetal.node_wait": wait}, here=True)
    assert result["verdicts"]["node1"]["ok"], result
