# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes of our own making that are measured with each other: each is a folder, and its connection a shell."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.pair.gate import pair_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.registry import tests_between
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import wanted_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Event
from ansible_collections.gpufleet.baremetal.tests.unit.gate import cables, mpirun, nccl, perftest
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made

RAILS = {"name": "rail_write", "tool": "ib_write_bw", "links": "rails", "of_rate": 0.92, "seconds": 2, **cables.ABOUT}
RING = {
    "name": "wire", "program": "all_reduce_perf", "of": "pairs", "ports": list(cables.RAILS), "rate_gbps": 400,
    "of_rate": 0.92, "from_gib": 8, "to_gib": 16, **cables.ABOUT,
}  # fmt: skip
ALL = {
    "name": "whole", "program": "all_reduce_perf", "of": "all", "algorithm": "default", "nodes": 3, "minimum": 300,
    "ports": list(cables.RAILS), "from_gib": 8, "to_gib": 16, **cables.ABOUT,
}  # fmt: skip


def profile(
    *speeds: dict[str, Any], fabric: tuple[dict[str, Any], ...] = (), ports: tuple[str, ...] = cables.RAILS[1:]
) -> dict[str, Any]:
    plain = cables.profile(cables.links(ports=list(ports)))
    whole = {**plain, "network": {**plain["network"], **({"speeds": list(speeds)} if speeds else {})}}
    test = {"name": "all_reduce", "program": "all_reduce_perf", "algorithm": "ring", "from_gib": 8, "to_gib": 16}
    within = {"tests": [{**test, "minimum": 370, **cables.ABOUT}], "fabric": list(fabric)}
    return {**whole, "collective": within} if fabric else whole


class Lab:
    """devices: by host and device how perftest does there."""

    def __init__(
        self, folder: Path, *hosts: str, devices: Mapping[tuple[str, str], Mapping[str, Any]] | None = None
    ) -> None:
        self.folder, self.hosts = folder, hosts
        self.asked: list[str] = []
        self.mpirun: dict[str, Any] = {"calls": str(folder / "calls"), "hosts": {}}
        #: By those that take part what a collective of them reaches, and whether values arrive wrong.
        self.busbw: dict[str, float] = {}
        self.wrong = "0"
        self.addresses: dict[str, str] = {}
        #: Of hosts that have another profile than all the others.
        self.profiles: dict[str, Mapping[str, Any]] = {}
        net = f"127.{os.getpid() % 200 + 20}.{os.getpid() // 200 % 250}"
        for at, host in enumerate(hosts):
            home, address = folder / host, f"{net}.{at + 1}"
            for port in cables.RAILS:
                cables.rdma(home, port, **{"counters/port_xmit_data": 0, "counters/port_rcv_data": 0})
            (home / "boot_id").write_text(f"{host}-first\n", encoding="ascii")
            (home / "pci").mkdir()
            (home / "bin").mkdir()
            self.has(host, address)
            known = {name.partition("/")[0]: {"rate": 391.2} for name in cables.RAILS}
            known.update({device: dict(told) for (whose, device), told in (devices or {}).items() if whose == host})
            told = {"name": host, "bind": address, "sysfs": str(home / "sys"), "devices": known}
            (home / "perftest.json").write_text(json.dumps(told), encoding="utf-8")
            rails = {name.partition("/")[0]: 1.0 for name in cables.RAILS}
            self.mpirun["hosts"][address] = {"name": host, "sysfs": str(home / "sys"), "rails": rails}
        self.programs = {
            "ib_write_bw": made.program(folder / "ib_write_bw", f'exec {sys.executable} -SE {perftest.__file__} "$@"'),
            "mpirun": [sys.executable, "-SE", mpirun.__file__],
        }

    def has(self, host: str, address: str) -> None:
        """What its ``ip -o addr`` tells: this one, and its loopback."""
        line = f"2: eth0    inet {address}/8 scope global eth0\\n1: lo    inet 127.0.0.1/8 scope host lo\\n"
        made.program(self.folder / host / "bin" / "ip", f"printf '{line}'")

    def named(self, host: str, by: Mapping[str, str]) -> None:
        """The inventory calls it by its name, and so do these, each by what it resolves that to: else by its
        address."""
        address = self.addresses.setdefault(
            host, next(at for at, one in self.mpirun["hosts"].items() if one["name"] == host)
        )
        self.mpirun["hosts"][host] = self.of(host)
        self.mpirun["hosts"].pop(address, None)
        made.program(self.folder / host / "bin" / "uname", f"echo {host}")
        for other in self.hosts:
            known = by.get(other, address)
            body = f'[ "$2" = {host} ] && echo "{known} STREAM {host}"' if known else "exit 2"
            made.program(self.folder / other / "bin" / "getent", body)

    def of(self, host: str) -> dict[str, Any]:
        found: dict[str, Any] = next(one for one in self.mpirun["hosts"].values() if one["name"] == host)
        return found

    def look(self, commands: Mapping[str, str], seconds: float) -> dict[str, tuple[str, str]]:
        """All at once, each on its own node."""
        found: dict[str, tuple[str, str]] = {}

        def one(host: str, command: str) -> None:
            path = f"{self.folder / host / 'bin'}:{os.environ['PATH']}"
            own = {
                "PATH": path,
                "PERFTEST": str(self.folder / host / "perftest.json"),
                "MPIRUN": str(self.folder / "mpirun.json"),
            }
            done = subprocess.run(
                ["/bin/sh", "-c", command], env={**os.environ, **own}, capture_output=True, text=True, timeout=seconds
            )
            found[host] = (done.stdout, "" if done.returncode == 0 else f"rc {done.returncode}: {done.stderr}")

        threads = [threading.Thread(target=one, args=item) for item in commands.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.asked += commands.values()
        return found

    def params(self, profile: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        told = {**self.mpirun, "tables": {names: self._table(names) for names in self.busbw}}
        (self.folder / "mpirun.json").write_text(json.dumps(told), encoding="utf-8")
        addresses = {told["name"]: address for address, told in self.mpirun["hosts"].items()}
        options: dict[str, Any] = {
            "timeout": 20, "sysfs_path": "/sys", "pci_path": str(self.folder), "nccl_tests": "/opt/nccl-tests",
            "boot_id_path": "/proc/sys/kernel/random/boot_id", **self.programs, **more,
        }  # fmt: skip
        nodes = [
            {
                "host": host, "address": addresses[host], "leaf": "leaf1",
                "wanted": wanted_of(self.profiles.get(host, profile)),
                "sysfs_path": str(self.folder / host / "sys"), "boot_id_path": str(self.folder / host / "boot_id"),
                "pci_path": str(self.folder / host / "pci"),
            }
            for host in self.hosts
        ]  # fmt: skip

        def asks(wanted: Any, names: Any) -> Any:
            return tests_between(options, wanted, names)

        return {"nodes": nodes, "look": self.look, "asks": asks, **options}

    def _table(self, names: str) -> str:
        hosts, value = names.split(","), self.busbw[names]
        text = nccl.table(8 * len(hosts), busbw=(value, value), wrong=self.wrong)
        for at in range(8 * len(hosts)):
            text = text.replace(f"on node1 device {at:2} ", f"on {hosts[at // 8]} device {at % 8:2} ", 1)
        return text

    def judged(
        self, profile: Mapping[str, Any], *, ctx: Context | None = None, **more: Any
    ) -> dict[str, dict[str, Any]]:
        """The verdict of each host."""
        result = pair_gate(self.params(profile, **more), ctx or Context())
        self.events: list[Event] = result.events
        return dict(result.data["verdicts"])


def words(found: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    return {host: one["verdict"] or one["kind"] for host, one in found.items()}
