# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the page on host keys prints, typed as it stands against nodes with an sshd of their own.

Of the page's words only what is the reader's own is another: the names and addresses of the nodes, the key that
ssh-keygen has printed, and where the node's key lies.
"""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from contract.docs.blocks import HOST_KEYS, blocks
from contract.jump_host.jump import SSHD, missing
from suite import playbook

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(missing()), reason=missing())]

MAKE_CA, SIGN, KNOWN, SEEN_ONCE = (block.text.strip() for block in blocks(HOST_KEYS))
MINE, OTHER = "127.0.0.17", "127.0.0.18"
REFUSED, TAKEN = "Host key verification failed", "no user"


class Node:
    """An sshd on both addresses: who sits at another one's address answers there as well."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as probe:
            probe.bind((MINE, 0))
            self.port = probe.getsockname()[1]
        self.key = folder / "ssh_host_ed25519_key"
        self.new_key()
        self._daemon: Any = None

    def new_key(self) -> None:
        """As a node has it that was just imaged."""
        for path in (self.key, self.key.with_suffix(".pub"), Path(f"{self.key}-cert.pub")):
            path.unlink(missing_ok=True)
        typed("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.key))

    def signed(self, command: str) -> None:
        """By the page's own command, where ssh-keygen finds the files."""
        words = command.replace("/etc/ssh/ssh_host_ed25519_key.pub", str(self.key) + ".pub").split()
        typed(*words, cwd=self.folder)

    def boot(self) -> None:
        self.halt()
        lines = [f"ListenAddress {one}:{self.port}" for one in (MINE, OTHER)]
        lines += [f"HostKey {self.key}", "PidFile none", "PasswordAuthentication no", "UsePAM no", "StrictModes no"]
        certificate = Path(f"{self.key}-cert.pub")
        lines += [f"HostCertificate {certificate}"] if certificate.exists() else []
        (self.folder / "sshd_config").write_text("\n".join([*lines, ""]), encoding="utf-8")
        Path("/run/sshd").mkdir(exist_ok=True)
        command = [str(SSHD), "-D", "-e", "-f", str(self.folder / "sshd_config")]
        self._daemon = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 20
        while socket.socket().connect_ex((OTHER, self.port)) and time.monotonic() < end:
            time.sleep(0.05)

    def halt(self) -> None:
        if self._daemon is not None:
            self._daemon.terminate()
            self._daemon.wait(timeout=20)
            self._daemon = None


def typed(*words: str, **more: Any) -> str:
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False, **more)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path)
    yield node
    node.halt()


def reached(node: Node, address: str, **variables: Any) -> bool:
    """Does Ansible get as far as the login there? Nobody may log in: who the machine is comes before that."""
    known = {"ansible_ssh_common_args": f"-o GlobalKnownHostsFile={node.folder}/ssh_known_hosts", **variables}
    # A developer's own settings of OpenSSH, and keys that they know, must not decide.
    own = f"-F none -o UserKnownHostsFile={node.folder}/known_hosts -o BatchMode=yes -o IdentitiesOnly=yes"
    host = {"ansible_host": address, "ansible_port": node.port, "ansible_ssh_extra_args": own, **known}
    host |= {"ansible_user": "nobody", "ansible_ssh_private_key_file": "/nonexistent"}
    (node.folder / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": {"gpu017": host}}}), encoding="utf-8")
    play = {"hosts": "all", "gather_facts": False, "tasks": [{"ansible.builtin.ping": {}}]}
    (node.folder / "ping.yml").write_text(yaml.safe_dump([play]), encoding="utf-8")
    environment = {"PATH": "/usr/bin:/bin", "ANSIBLE_LOCAL_TEMP": str(node.folder / "t")}
    done = playbook.run(["-i", "hosts.yml", "ping.yml"], environment, cwd=node.folder)
    assert ("Permission denied" in done.stdout) != (REFUSED in done.stdout), done.stdout + done.stderr
    return REFUSED not in done.stdout


@pytest.fixture
def of_the_ca(node: Node) -> str:
    """The line of the page, with the key of a CA that was made as the page says."""
    typed(*_words(MAKE_CA), cwd=node.folder, input="\n\n")
    public = (node.folder / "host_ca.pub").read_text(encoding="utf-8").split()
    line = KNOWN.replace("gpu*.example.com,10.10.*", "gpu*.example.com,127.0.0.*").replace("AAAA...", public[1])
    (node.folder / "ssh_known_hosts").write_text(line + "\n", encoding="utf-8")
    return SIGN.replace("gpu017.example.com,10.10.12.17", f"gpu017.example.com,{MINE}")


def _words(command: str) -> list[str]:
    """As a shell takes them apart."""
    return typed("sh", "-c", f'for word in {command}; do echo "$word"; done').splitlines()


def test_u1_one_line_of_a_ca_knows_each_node_that_is_imaged_and_none_that_answers_for_another(
    node: Node, of_the_ca: str
) -> None:
    for _imaged in range(2):
        node.new_key()
        node.signed(of_the_ca)
        node.boot()
        assert reached(node, MINE), "a key that nobody has seen"
        assert not reached(node, OTHER), "it is signed for its own address"
    node.new_key()
    node.boot()
    assert not reached(node, MINE), "nobody has signed it"


def test_u1_a_certificate_without_names_is_good_for_every_node_as_the_page_warns(node: Node, of_the_ca: str) -> None:
    assert f" -n gpu017.example.com,{MINE}" in of_the_ca
    node.signed(of_the_ca.replace(f" -n gpu017.example.com,{MINE}", ""))
    node.boot()
    assert reached(node, MINE) and reached(node, OTHER)


def test_u1_a_key_that_was_seen_once_is_demanded_until_it_is_removed(node: Node) -> None:
    variables = yaml.safe_load(SEEN_ONCE)
    node.boot()
    assert not reached(node, MINE, ansible_ssh_common_args=""), "nobody knows it, and nothing else is set"
    assert reached(node, MINE, **variables)
    node.new_key()
    node.boot()
    assert not reached(node, MINE, **variables), "imaged anew, or another machine"
    typed("ssh-keygen", "-R", f"[{MINE}]:{node.port}", "-f", str(node.folder / "known_hosts"))
    assert reached(node, MINE, **variables)
