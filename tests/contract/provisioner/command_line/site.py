# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command and its file, as the contract suite sees them."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from calls import lead
from contract.faults import GARBAGE, NO, OUTAGE, REFUSAL, Said, ToolFaults
from sites import Site

from . import driver, tool

WAYS = {
    OUTAGE: Said(1, err="ERROR: cannot reach the server\n"),
    GARBAGE: Said(0, out="<h1>Wartung</h1>\n"),
    "odd json": Said(0, out='{"nodes": 7}\n'),
    "silence": Said(0),
    "killed": Said(-9),
    REFUSAL: Said(1, err="ERROR: permission denied\n"),
    NO: Said(1, err="ERROR: invalid request\n"),
}


class CommandLineSite(Site):
    name = "imagectl"
    many_calls = True
    own_driver = driver.CommandLineDriver
    destructive_words = ("--image", "--no-image")

    def __init__(self, folder: Path) -> None:
        self._file = str(folder / "nodes.json")
        real = functools.partial(tool.main, self._file)
        self.faults = ToolFaults(folder, {"imagectl": real}, [r"^imagectl node (set|add)\b"], WAYS)
        tool.save(self._file, {"nodes": {}, "images": {f"gold-{version}": {} for version in ("1", "2")}})
        self.marks = (self.hold_by_somebody, self.owned_by_somebody)
        self._clock = 0.0

    def connection(self) -> dict[str, Any]:
        return {"provisioner": self.name, "provisioner_url": str(self.faults.path / "imagectl")}

    @contextlib.contextmanager
    def _changing(self, name: str) -> Iterator[dict[str, Any]]:
        content = tool.load(self._file)
        yield content["nodes"][name]
        tool.save(self._file, content)

    def _record(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = tool.load(self._file)["nodes"][name]
        return found

    def hold_by_somebody(self, name: str) -> None:
        with self._changing(name) as node:
            node["tags"]["held by"] = "Anna, who swaps a DIMM"

    def owned_by_somebody(self, name: str) -> None:
        with self._changing(name) as node:
            node["tags"]["owner"] = "tenant-7"

    def keep(self, name: str) -> None:
        """A person holds it through us."""
        with self._changing(name) as node:
            node["tags"][driver.HOLD] = "gpufleet:r1+keep:Anna swaps a fan"

    def remove(self, name: str) -> None:
        content = tool.load(self._file)
        del content["nodes"][name]
        tool.save(self._file, content)

    def other_serial(self, name: str, serial: str) -> None:
        with self._changing(name) as node:
            node["tags"][driver.SERIAL] = serial

    def other_card(self, name: str, mac: str) -> None:
        with self._changing(name) as node:
            node["hwaddr"] = mac

    def forget_serial(self, name: str) -> None:
        with self._changing(name) as node:
            del node["tags"][driver.SERIAL]

    def strand(self, name: str) -> None:
        with self._changing(name) as node:
            node["discoverable"] = True

    def stage(self, name: str, stage: str) -> None:
        """The node has asked for something; the tool notes when it saw it last."""
        with self._changing(name) as node:
            self._clock += 1.0
            node.update(stage=stage, sent=node["image"], seen=self._clock)

    def stumbles(self) -> tuple[dict[str, Any], str, str]:
        options = {**self.new(), "image": self.image()}
        lead(options, "ready")
        lead(options, "deployed")
        self.stage(options["name"], "error")
        return options, "deployed", "not served: it asked for"

    def fails_to_deploy(self, options: dict[str, Any]) -> str:
        lead(options, "deployed")
        self.stage(options["name"], "error")
        return f"it asked for {options['image']['named']}, which is not there"

    def undeployable(self) -> tuple[tuple[dict[str, Any], str], ...]:
        return (({"image": {**self.image("2"), "named": "gold-9"}}, "no image gold-9"),)

    def many(self, count: int) -> list[str]:
        names = [self.new()["name"] for _number in range(count)]
        content = tool.load(self._file)
        for name in names:
            content["nodes"][name] = {"hwaddr": "", "image": "", "tags": {}, "stage": "", "sent": "", "seen": 0.0}
        tool.save(self._file, content)
        return names

    def native(self, name: str) -> str:
        node = self._record(name)
        return f"{node['image']} {node['stage']}"

    def boot(self, name: str) -> None:
        assert self._record(name)["image"], "nothing to boot"
        self.stage(name, "running")

    def deployments(self) -> int:
        return sum(" --image " in call.what for call in self.faults.calls)
