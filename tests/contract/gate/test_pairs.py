# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""pair_gate between two real ends: a network namespace each, with a sshd, a wire between them, and the real iperf3."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.tests.unit.gate import cables
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made
from contract.gate.test_detached import Site
from contract.jump_host import jump

pytestmark = pytest.mark.slow
#: The port of both ends.
PORT = "gfwire"
MISSING = jump.missing() or ("" if shutil.which("iperf3") and os.geteuid() == 0 else "needs iperf3 and root")


def ip(*words: str, space: str = "") -> None:
    subprocess.run(["ip", *(["-n", space] if space else []), *words], check=True, capture_output=True, timeout=30)


class Ends:
    """Two machines, as far as Ansible and each of them can tell."""

    def __init__(self, site: Site) -> None:
        self.site, self.number = site, os.getpid() % 4096
        self.spaces: dict[str, str] = {}

    @contextlib.contextmanager
    def up(self) -> Iterator[Ends]:
        with contextlib.ExitStack() as stack:
            for at, name in enumerate("ab"):
                self.spaces[name] = space = f"gfp{self.number}{name}"
                ip("netns", "add", space)
                stack.callback(ip, "netns", "del", space)
                ip("link", "set", "lo", "up", space=space)
                self._way_to(stack, name, at)
            first, second = self.spaces.values()
            ip("link", "add", PORT, "netns", first, "type", "veth", "peer", "name", PORT, "netns", second)
            for at, space in enumerate(self.spaces.values()):
                ip(
                    "addr",
                    "add",
                    f"198.19.{self.number // 64 % 256}.{self.number % 64 * 4 + 1 + at}/30",
                    "dev",
                    PORT,
                    space=space,
                )
                ip("link", "set", PORT, "up", space=space)
            yield self

    def _way_to(self, stack: contextlib.ExitStack, name: str, at: int) -> None:
        """An address at which the controller reaches it, and a sshd that waits there."""
        space, near, far = self.spaces[name], f"gfn{self.number}{name}", f"gff{self.number}{name}"
        net = f"198.18.{128 + self.number // 32 % 128}"
        low = self.number % 32 * 8 + at * 4
        ip("link", "add", near, "type", "veth", "peer", "name", far, "netns", space)
        ip("addr", "add", f"{net}.{low + 1}/30", "dev", near)
        ip("link", "set", near, "up")
        ip("addr", "add", f"{net}.{low + 2}/30", "dev", far, space=space)
        ip("link", "set", far, "up", space=space)
        self._serve(stack, name, space, f"{net}.{low + 2}")

    def _serve(self, stack: contextlib.ExitStack, name: str, space: str, address: str) -> None:
        keys = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gfp-", dir="/tmp")))
        for key in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(keys / key)], check=True)
        (keys / "known").write_text(f"{address} {(keys / 'host.pub').read_text()}", encoding="utf-8")
        (keys / "config").write_text(
            f"ListenAddress {address}:22\nHostKey {keys}/host\nAuthorizedKeysFile {keys}/user.pub\nPidFile none\n"
            "PasswordAuthentication no\nUsePAM no\nStrictModes no\nPermitRootLogin prohibit-password\n",
            encoding="utf-8",
        )
        Path("/run/sshd").mkdir(exist_ok=True)
        daemon = subprocess.Popen(
            ["ip", "netns", "exec", space, str(jump.SSHD), "-D", "-e", "-f", str(keys / "config")],
            stderr=subprocess.DEVNULL,
        )
        stack.callback(daemon.wait, timeout=20)
        stack.callback(daemon.terminate)
        _wait_for(address)
        home = self.site.host(
            name,
            ansible_connection="ssh",
            ansible_host=address,
            ansible_user="root",
            ansible_ssh_private_key_file=str(keys / "user"),
            ansible_ssh_common_args=(
                f"-F none -o UserKnownHostsFile={keys}/known -o StrictHostKeyChecking=yes -o IdentitiesOnly=yes"
                " -o ControlMaster=no"
            ),
        )
        (home / "pci").mkdir()

    def running(self) -> str:
        """What still runs on them beside the sshd."""
        found = []
        for space in self.spaces.values():
            pids = subprocess.run(["ip", "netns", "pids", space], capture_output=True, text=True, check=True).stdout
            for pid in pids.split():
                with contextlib.suppress(OSError):
                    found.append(Path(f"/proc/{pid}/comm").read_text(encoding="ascii").strip())
        return " ".join(one for one in found if not one.startswith("sshd"))


def _wait_for(address: str) -> None:
    end = time.monotonic() + 20
    while True:
        try:
            socket.create_connection((address, 22), timeout=1).close()
            return
        except OSError:
            assert time.monotonic() < end, "the sshd does not answer"
            time.sleep(0.05)


def task(of_rate: float, hosts: str, register: str) -> dict[str, Any]:
    links = cables.links("store", "ethernet", ports=[PORT], rate_gbps=1000)
    speed = {"name": "tcp", "tool": "iperf3", "links": "store", "of_rate": of_rate, "seconds": 1, **cables.ABOUT}
    places = "[{'host': item, 'dmi_path': hostvars[item].dmi, 'pci_path': hostvars[item].home ~ '/pci'}]"
    nodes = "".join(f"{places} + ".replace("item", f"'{host}'") for host in hosts)
    options = {
        "profile": {**made.profile(), "sku": "h100-sxm-8", "network": {"links": [links], "speeds": [speed]}},
        "nodes": "{{ " + nodes.removesuffix(" + ") + " }}",
        "force_reason": "a test of the test",
    }
    return {"gpufleet.baremetal.pair_gate": options, "run_once": True, "register": register}


def collect(register: str) -> dict[str, Any]:
    return {"gpufleet.baremetal.pair_gate": {"collect": register}, "ignore_errors": True}


@pytest.mark.skipif(bool(MISSING), reason=MISSING or "all there")
def test_two_nodes_are_measured_with_each_other_by_the_real_iperf3(tmp_path: Path) -> None:
    site = Site(tmp_path)
    with Ends(site).up() as ends:
        found = site.play(task(0.00001, "ab", "fast"), collect("fast"), task(1.0, "ab", "slow"), collect("slow"))
        assert ends.running() == ""
    for name in "ab":
        fast, slow = [one for one in found[name] if "checks" in one]
        [cell] = fast["checks"]
        assert fast["verdict"] == "pass", (fast["msg"], site.output)
        assert (cell["id"], cell["entity"], cell["wanted"]) == ("pair.tcp", PORT, 0.01) and cell["measured"] > 0.05
        # A profile of the name of a shipped one, which demands less.
        assert {"gpu.power", "gpu.memory"} <= {row["what"] for row in fast["weakened"]}
        assert (slow["verdict"], slow["remedy"], slow["failed"]) == ("inconclusive", "fabric", True), slow["msg"]
    with contextlib.closing(sqlite3.connect(tmp_path / "ledger.sqlite")) as ledger:
        rows = ledger.execute("SELECT name, kind FROM events WHERE name = 'pair_gate' ORDER BY id").fetchall()
    assert rows.count(("pair_gate", "verdict")) == 4 and rows.count(("pair_gate", "intent")) == 4
