# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""node_wait where nodes are reached by a jump host: it goes the way that Ansible's own connection will go."""

from __future__ import annotations

import shlex
import socket
import time
from collections.abc import Iterator
from typing import Any

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


def waited(words: list[str] | None, port: int) -> dict[str, Any]:
    node = {"host": "n1", "address": BEHIND, "port": port, "words": words}
    params = {"nodes": [node], "timeout": 1, "interval": 0.2, "connect_timeout": 2.0}
    ctx = Context()
    verdict: dict[str, Any] = wait_for_nodes(params, ctx).as_dict(ctx)["verdicts"]["n1"]
    return verdict


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
