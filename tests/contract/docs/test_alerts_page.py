# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The page on alerts: what it has a reader write for the sender is all that the sender may need."""

from __future__ import annotations

import runpy
import subprocess
from pathlib import Path

import pytest
import yaml
from contract.docs.blocks import ROOT, blocks

PAGE, SENDER = "docs/how-to/react-to-alerts.md", "extensions/eda/senders/gpufleet_tell.py"


def test_the_sender_is_told_each_of_its_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [line for block in blocks(PAGE) for line in block.text.splitlines() if line.startswith("printf")]
    written = tmp_path / "tell.conf"
    typed = "\n".join(lines).replace("/etc/gpufleet/tell.conf", str(written))
    subprocess.run(["sh", "-euc", typed], check=True, timeout=30)
    monkeypatch.setenv("GPUFLEET_TELL_CONFIG", str(written))
    told = runpy.run_path(str(ROOT / SENDER))["settings"]()
    assert all(told.values()), told


def test_alertmanager_is_told_the_ca() -> None:
    [text] = [block.text for block in blocks(PAGE) if "webhook_configs" in block.text]
    [receiver] = yaml.safe_load(text)["receivers"]
    assert receiver["webhook_configs"][0]["http_config"]["tls_config"]["ca_file"]
