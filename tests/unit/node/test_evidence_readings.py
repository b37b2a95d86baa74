# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is read on a node: as its tools say it, within bounds, and with no login."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._evidence import node
from ansible_collections.gpufleet.baremetal.plugins.module_utils._evidence.readings import READINGS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Result


def read(folder: Path, monkeypatch: pytest.MonkeyPatch, body: str, *names: str, timeout: float = 30.0) -> Result:
    for name in names:
        tool = folder / READINGS[name].argv[0]
        tool.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
        tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return node.node_evidence({"readings": list(names), "timeout": timeout}, Context())


def test_a_login_in_what_a_tool_prints_leaves_no_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = read(tmp_path, monkeypatch, "echo mount https://bob:s3cretword@nas/x", "pci").data["readings"]["pci"]
    assert "nas/x" in told["text"] and "s3cretword" not in told["text"] and told["rc"] == 0


def test_what_comes_after_the_time_is_over_is_said_to_be_untried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = read(tmp_path, monkeypatch, "sleep 5", "pci", "infiniband", timeout=0.5).data["readings"]
    assert [told[name]["ended"] for name in ("pci", "infiniband")] == ["timeout", "not tried"]
    assert told["infiniband"]["argv"] == ["ibstat"] and told["infiniband"]["rc"] is None


def test_a_node_has_not_all_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "_WAYS", ())
    told = read(tmp_path, monkeypatch, "", "os")
    assert told.data["boot_id"] and not told.changed
    found = node.node_evidence({"readings": ["amd_gpus"], "timeout": 5.0}, Context()).data["readings"]["amd_gpus"]
    assert found["ended"] == "missing" and found["text"] == ""


def test_what_a_machine_was_booted_with_leaves_it_without_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node, "_WAYS", ())
    line = "BOOT_IMAGE=/v assetkey=s3cretword agent.of.somebody=s3cretword root=/dev/x quiet"
    told = read(tmp_path, monkeypatch, f"echo '{line}'", "cmdline").data["readings"]["cmdline"]
    assert "s3cretword" not in told["text"] and "agent.of.somebody=" in told["text"] and "root=/dev/x" in told["text"]
    said = "OEM Strings\\n\\tString 1: what:s3cretword\\n\\nMemory Device\\n\\tSerial Number: 0815\\n"
    told = read(tmp_path, monkeypatch, f"printf '{said}'", "firmware").data["readings"]["firmware"]
    assert "s3cretword" not in told["text"] and "0815" in told["text"]
