# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""U1: a node whose host key nobody knows would be imaged and then never be reached; it is told before."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _preflight_ssh as ssh
from sound_site import SoundSite

SITE = "site"
UNKNOWN = "nobody here knows the node's host key"


@pytest.fixture
def nodes(site: SoundSite) -> SoundSite:
    """Three nodes, with a file of known hosts that is empty, and nothing of this machine's own settings."""
    (site.folder / "known").touch()
    del site.shared["ansible_host_key_checking"]
    site.shared["ansible_ssh_common_args"] = (
        f"-F /dev/null -o UserKnownHostsFile={site.folder / 'known'} -o GlobalKnownHostsFile=/dev/null"
    )
    for number, host in enumerate(site.hosts, 1):
        site.hosts[host]["ansible_host"] = f"10.10.12.{number}"
    return site


def public_key(folder: Path) -> str:
    argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "host_key")]
    subprocess.run(argv, check=True, capture_output=True)
    return (folder / "host_key.pub").read_text(encoding="utf-8").strip()


def test_u1_host_keys_that_nobody_knows_are_one_line_with_the_way_out(nodes: SoundSite) -> None:
    [cause] = nodes.told(ssh.look)
    assert (cause["kind"], len(cause["hosts"])) == (SITE, 3) and cause["what"].startswith(UNKNOWN), cause
    assert "@cert-authority" in cause["do"] and "docs/how-to/host-keys.md" in cause["do"]
    assert (Path(__file__).resolve().parents[3] / "docs" / "how-to" / "host-keys.md").is_file()


def test_u1_names_in_capital_letters_are_one_line_as_well(nodes: SoundSite) -> None:
    """OpenSSH tells them in small ones."""
    nodes.hosts = {f"GPU-Rack1-{number}": {} for number in range(1, 4)}
    [cause] = nodes.told(ssh.look)
    assert len(cause["hosts"]) == 3 and "gpu-rack1-1" in cause["wanted"], cause


def test_u1_a_ca_of_host_keys_is_one_line_for_all(nodes: SoundSite) -> None:
    known = nodes.folder / "known"
    known.write_text(f"@cert-authority 10.10.12.* {public_key(nodes.folder)}\n", encoding="utf-8")
    assert nodes.told(ssh.look) == []
    nodes.hosts["gpu002"]["ansible_port"] = 2222
    assert nodes.told(ssh.look) == [], "where no line has the port OpenSSH takes one without it"
    nodes.hosts["gpu003"] |= {"ansible_port": 2222, "ansible_host": "10.10.13.3"}
    [cause] = nodes.told(ssh.look)
    assert cause["hosts"] == ["gpu003"] and "[10.10.13.3]:2222" in cause["wanted"]


@pytest.mark.parametrize("said", ["ansible_port", "ansible_ssh_port", "ANSIBLE_REMOTE_PORT"])
def test_u1_a_port_and_an_address_are_read_wherever_ansible_reads_them(
    nodes: SoundSite, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    known = nodes.folder / "known"
    known.write_text(f"@cert-authority [10.10.12.*]:2222 {public_key(nodes.folder)}\n", encoding="utf-8")
    if said.isupper():
        monkeypatch.setenv(said, "2222")
    else:
        nodes.shared[said] = "2222"
    nodes.hosts["gpu002"] = {"ansible_ssh_host": "10.10.12.2"}
    assert nodes.told(ssh.look) == []
    nodes.hosts["gpu002"] = {"ansible_ssh_host": "10.10.13.2"}
    [cause] = nodes.told(ssh.look)
    assert cause["hosts"] == ["gpu002"] and "[10.10.13.2]:2222" in cause["wanted"]


@pytest.mark.parametrize("file", ["User", "Global"])
def test_u1_a_line_counts_by_the_name_under_which_openssh_looks_and_in_either_file(nodes: SoundSite, file: str) -> None:
    """The how-to names the file of the machine; and behind a port forward the hosts have aliases."""
    key = public_key(nodes.folder)
    known = nodes.folder / "theirs"
    known.write_text(f"10.10.12.* {key}\nrack7 {key}\n", encoding="utf-8")
    other = "Global" if file == "User" else "User"
    args = f"-F /dev/null -o {file}KnownHostsFile={known} -o {other}KnownHostsFile=/dev/null"
    nodes.shared["ansible_ssh_common_args"] = args
    assert nodes.told(ssh.look) == []
    nodes.shared["ansible_ssh_common_args"] = f"{args} -o HostKeyAlias=rack7"
    nodes.hosts["gpu001"] = {"ansible_host": "127.0.0.1", "ansible_port": 2201}
    assert nodes.told(ssh.look) == []
    nodes.shared["ansible_ssh_common_args"] = f"{args} -o HostKeyAlias=rack8"
    [cause] = nodes.told(ssh.look)
    assert len(cause["hosts"]) == 3 and "a line for rack8 in" in cause["wanted"], cause


def test_u1_a_key_of_one_node_is_of_that_node_alone(nodes: SoundSite) -> None:
    (nodes.folder / "known").write_text(f"10.10.12.1 {public_key(nodes.folder)}\n", encoding="utf-8")
    [cause] = nodes.told(ssh.look)
    assert cause["hosts"] == ["gpu002", "gpu003"]


@pytest.mark.parametrize(
    "settings",
    [
        {"ansible_host_key_checking": False},
        {"ansible_ssh_extra_args": "-o StrictHostKeyChecking=accept-new"},
        {"ansible_ssh_extra_args": "-o KnownHostsCommand=/bin/true"},
        {"ansible_ssh_extra_args": "-o VerifyHostKeyDNS=yes"},
        {"ansible_connection": "local"},
    ],
    ids=["not checked", "the first one counts", "a command knows", "the DNS knows", "no SSH"],
)
def test_u1_where_openssh_takes_an_unknown_key_nothing_is_told(nodes: SoundSite, settings: dict[str, Any]) -> None:
    nodes.shared.update(settings)
    assert nodes.told(ssh.look) == []


def test_u2_a_key_for_ssh_that_openssh_does_not_take_is_told(nodes: SoundSite) -> None:
    nodes.shared["ansible_host_key_checking"] = False
    key = nodes.folder / "id"
    nodes.shared["ansible_ssh_private_key_file"] = str(key)
    [cause] = nodes.told(ssh.look)
    assert (cause["kind"], len(cause["hosts"])) == (SITE, 3) and "cannot be read" in cause["what"]
    key.touch()
    for mode in (0o644, 0o640):
        key.chmod(mode)
        [cause] = nodes.told(ssh.look)
        assert "may be read by others" in cause["what"] and cause["do"].startswith("chmod 600")
    key.chmod(0o600)
    assert nodes.told(ssh.look) == []


def test_u8_a_port_that_is_none_is_that_hosts(nodes: SoundSite) -> None:
    nodes.shared["ansible_host_key_checking"] = False
    nodes.hosts["gpu002"]["ansible_port"] = "ssh"
    [cause] = nodes.told(ssh.look)
    assert (cause["kind"], cause["hosts"]) == (SITE, ["gpu002"]) and "ssh" in cause["seen"], cause


def test_u8_options_that_openssh_does_not_know_are_told(nodes: SoundSite) -> None:
    nodes.shared["ansible_ssh_extra_args"] = "-o StrictHostKeyCheking=no"
    [cause] = nodes.told(ssh.look)
    assert cause["what"] == "OpenSSH does not take its options" and "stricthostkeycheking" in cause["seen"].lower()
