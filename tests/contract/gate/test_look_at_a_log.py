# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A training is run on a node that is drained alone; the log of one is read on a node in service, and proves less."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._quarantine import quarantines
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.question import covers
from ansible_collections.gpufleet.baremetal.tests.unit.gate import trained
from contract.gate.test_doors import PLAYBOOK, Site

pytestmark = pytest.mark.skipif(not PLAYBOOK.exists(), reason="ansible-playbook is not installed beside this Python")

GATE = "gpufleet.baremetal.training_gate"


def asked(site: Site, options: dict[str, Any]) -> dict[str, Any]:
    site.hosts["gpu001"]["healthy"] = options
    return {GATE: {key: f"{{{{ healthy.{key} }}}}" for key in options}}


def test_a_log_is_read_of_a_node_in_service_and_a_training_is_not_run_there(tmp_path: Path) -> None:
    site = Site(tmp_path)
    home = site.host("gpu001")
    assert site.play(asked(site, trained.left(home)))["gpu001"]["verdict"] == "pass"
    refused = site.play(asked(site, trained.params(home)))["gpu001"]
    assert refused["error"]["kind"] == "evidence_missing" and not (home / "calls").exists()
    [(_host, _name, told)] = site.events()
    assert told["asked"]["tests"] == ["gpt"] and site.events("intent") == []
    whole = {**told["asked"], "tests": ["gpt", "gpt_run"]}
    assert covers(whole, told["asked"]) and not covers(told["asked"], whole)


@pytest.mark.parametrize(
    ("how", "options", "verdict", "condemned"),
    [
        ({"body": "echo ModuleNotFoundError: apex; exit 1"}, {}, "inconclusive", False),
        ({}, {"command": ["/nonexistent"]}, "inconclusive", False),
        ({}, {"profile": trained.profile(trained.row(step_ms=None))}, "inconclusive", False),
        ({"text": trained.log({5: trained.line(5, "nan")})}, {}, "fail", True),
        ({"body": "echo No space left on device", "text": f"{trained.ECC}\n", "rc": 1}, {}, "fail", True),
        ({"body": "echo NET/IB : Got completion with error 12; echo ImportError: x; exit 1"}, {}, "inconclusive", True),
        ({"body": "exit 1"}, {}, "inconclusive", True),
        ({"body": "echo ImportError: x; exit 1"}, {"pci_path": "/proc/self/task"}, "inconclusive", True),
    ],
)
def test_what_the_site_lacks_quarantines_no_node(
    how: dict[str, Any], options: dict[str, Any], verdict: str, condemned: bool, tmp_path: Path
) -> None:
    site = Site(tmp_path)
    home = site.host("gpu001")
    found = site.play(asked(site, {**trained.params(home, **how), **options, "force_reason": "a test"}))["gpu001"]
    assert (found["verdict"], quarantines(found)) == (verdict, condemned), found["msg"]


def test_neither_or_both_of_command_and_log_is_an_error_before_anything_is_done(tmp_path: Path) -> None:
    site = Site(tmp_path)
    home = site.host("gpu001")
    both = {**trained.params(home), "log": trained.left(home)["log"]}
    for options in (both, {key: value for key, value in both.items() if key not in ("command", "log")}):
        assert "command" in site.play(asked(site, options))["gpu001"]["msg"]
    assert site.events() == [] and not (home / "calls").exists()
