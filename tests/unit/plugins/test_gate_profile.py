# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gate_profile on the controller: what the ledger says of the nodes, and whose file is written."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.action import gate_profile
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.profiles import VARIABLE
from ansible_collections.gpufleet.baremetal.tests.unit.gate import nodes

from .doors import Door

NEW = {"pci/pci_device_id": "29BC10DE"}


class Site:
    """A folder of profiles, and two nodes of a new model."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.profiles = folder, folder / "profiles"
        self.profiles.mkdir()
        self.looks = {node: nodes.look(node, nodes.document(NEW), on_bus=["29bc"] * 8) for node in ("gpu002", "gpu003")}
        self.hosts = {"gpu002": {"gpufleet_serial": "GF0002"}, "gpu003": {"gpufleet_serial": "GF0003"}}
        self.path = self.profiles / "new-8.yaml"

    def door(self, **args: Any) -> Door:
        how = {name: args.pop(name) for name in ("check_mode", "diff") if name in args}
        given = {"sku": "new-8", "title": "A new model", "dest": str(self.profiles), "looks": self.looks, **args}
        return Door(
            self.folder,
            lambda params, ctx: None,  # type: ignore[arg-type, return-value]
            base=gate_profile.ActionModule,
            name="gate_profile",
            own_spec=gate_profile.GATE_PROFILE,
            args={name: value for name, value in given.items() if value is not None},
            hostvars=self.hosts,
            **how,
        )

    def make(self, **args: Any) -> dict[str, Any]:
        return self.door(**args).run()

    def known(self, node: str, kind: str, name: str, data: dict[str, Any]) -> None:
        """The ledger knows this of a node."""
        door = self.door()
        door.run()
        with sqlite3.connect(door.ledger) as ledger:
            ledger.execute(
                "INSERT OR IGNORE INTO nodes (node_id, name, created) VALUES (?, ?, strftime('%s', 'now'))",
                (node, node),
            )
            ledger.execute(
                "INSERT INTO events (node_id, run_id, at, kind, name, data)"
                " VALUES (?, 'r', strftime('%s', 'now'), ?, ?, ?)",
                (node, kind, name, json.dumps(data)),
            )
        self.hosts[node]["gpufleet_node_id"] = node


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_check_mode_tells_the_profile_and_writes_none(site: Site) -> None:
    dry = site.make(check_mode=True, diff=True)
    assert dry["changed"] and dry["diff"]["before"] == "" and not site.path.exists()
    done = site.make()
    assert (
        done["changed"] and done["profile"] == dry["profile"] and site.path.read_text("utf-8") == dry["diff"]["after"]
    )
    assert done["path"] == str(site.path) and done["digest"].startswith("sha256:")
    again = site.make()
    assert not again["changed"] and again["digest"] == done["digest"] and again["differences"] == []


def test_a_file_that_says_another_thing_needs_a_word(site: Site) -> None:
    site.make()
    site.path.write_text(site.path.read_text("utf-8").replace("value: 700", "value: 650"), encoding="utf-8")
    kept = site.path.read_text("utf-8")
    for dry in (False, True):
        refused = site.make(check_mode=dry)
        assert refused["failed"] and refused["error"]["kind"] == "config" and site.path.read_text("utf-8") == kept
        assert refused["error"]["differences"] == ["gpu.power.value: 650 (the file), 700 (these nodes)"]
    done = site.make(replace=True, diff=True)
    assert done["changed"] and done["differences"] == refused["error"]["differences"] and done["diff"]["before"] == kept
    site.path.write_text("schema: 1\n", encoding="utf-8")
    assert f"{site.path}:1" in site.make(replace=True)["msg"], "nobody knows what a broken one says"


@pytest.mark.parametrize("check_mode", [True, False])
def test_a_link_is_no_place_of_a_profile(site: Site, check_mode: bool) -> None:
    kept = site.folder / "kept.yaml"
    site.path.symlink_to(kept)
    assert "the profile would take the place of a link" in site.make(check_mode=check_mode)["msg"]
    assert site.path.is_symlink() and not kept.exists()


def test_gpus_that_another_profile_knows_need_a_word(site: Site) -> None:
    site.make()
    site.path.rename(site.profiles / "older-8.yaml")
    older = site.profiles / "older-8.yaml"
    older.write_text(older.read_text("utf-8").replace("sku: new-8", "sku: older-8"), encoding="utf-8")
    refused = site.make()
    assert refused["failed"] and "older-8 (" in refused["error"]["seen"] and not site.path.exists()
    done = site.make(beside_known=True)
    assert done["changed"] and any("older-8" in line for line in done["warnings"])


def test_what_the_ledger_says_of_a_node_counts(site: Site) -> None:
    site.known("gpu002", "verdict", "gpu_bandwidth_gate", nodes.bandwidth(371.2))
    done = site.make(replace=True)
    assert done["floors"] == ["gpu_bandwidth.device_to_device_memcpy_read_ce: 352.64, of gpu002"], done
    site.known("gpu003", "verdict", "kernel_log_gate", nodes.bandwidth(1, verdict="fail"))
    refused = site.make(replace=True)
    assert refused["error"]["kind"] == "not_proven" and list(refused["error"]["findings"]) == ["gpu003"]
    site.known("gpu003", "verdict", "kernel_log_gate", nodes.bandwidth(1, verdict="inconclusive"))
    assert site.make(replace=True).get("failed") is None
    site.known("gpu002", "state", "quarantined", {"reason": "a fan"})
    refused = site.make(replace=True)
    assert refused["error"]["findings"] == {"gpu002": ["it is quarantined"]}
    site.known("gpu002", "state", "validating", {})
    assert site.make(replace=True).get("failed") is None


@pytest.mark.parametrize(
    ("look", "word"),
    [
        ({"unreachable": True, "msg": "no route"}, "gpu002: no route"),
        ({"failed": True, "msg": "another machine answers", "runs": []}, "gpu002: another machine answers"),
        ({}, "gpu002: no look"),
        (None, "gpu002: no look"),
        (nodes.look("gpu009"), "gpu002: the look is of gpu009"),
    ],
)
def test_a_node_that_was_not_looked_at_is_in_the_way(site: Site, look: Any, word: str) -> None:
    site.looks["gpu002"] = look
    refused = site.make()
    assert refused["failed"] and word in refused["msg"] and not site.path.exists()


def test_what_was_ordered_counts_whoever_says_it(site: Site) -> None:
    assert "gpu002: 8 GPUs, and 10 were ordered" in site.make(gpu_count=10)["msg"]
    site.hosts["gpu002"]["csv_gpu_count"] = "9"
    refused = site.make()
    assert refused["error"]["findings"] == {"gpu002": ["8 GPUs, and 9 were ordered"]}
    site.hosts["gpu002"]["csv_gpu_count"] = "nine"
    assert "csv_gpu_count is no number" in site.make()["msg"]


def test_the_file_goes_where_the_gates_look_and_a_place_where_none_looks_is_told(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert any("no gate looks in" in line for line in site.make(check_mode=True)["warnings"])
    assert "nobody says where" in site.make(dest=None)["msg"]
    monkeypatch.setenv(VARIABLE, str(site.profiles))
    done = site.make(dest=None)
    assert done["path"] == str(site.path) and not any("no gate" in line for line in done["warnings"])
    other = tmp_path / "other"
    other.mkdir()
    later = site.make(dest=str(other), profile_path=[str(site.profiles), str(other)], beside_known=True)
    assert any(f"the gates use {site.path}" in line for line in later["warnings"])


def test_what_cannot_be_written_is_told(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_how: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(gate_profile.files.private, "write", full)
    assert "the profile cannot be written: No space left on device" in site.make()["msg"]
    monkeypatch.setattr(
        gate_profile.files.private,
        "write",
        lambda path, text, mode: site.path.write_text(text.replace("value: 700", "value: 1"), "utf-8"),
    )
    assert "another one stands there" in site.make()["msg"]
