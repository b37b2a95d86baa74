# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes in service that the ledger does not know, under whole playbooks: left alone, and adopted on proof alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.tests.contract.node.in_service import Nodes, in_service

pytestmark = pytest.mark.slow

ADOPT = "gpufleet.baremetal.adopt -i INVENTORY --limit gpu001"
MAINTENANCE = ("-e", '{"maintenance": "on", "maintenance_why": "disk swap"}')


@pytest.fixture
def strangers(tmp_path: Path) -> Iterator[Nodes]:
    """In service for somebody, and an empty ledger: a first use, another user, a typo in its address."""
    with in_service(tmp_path) as nodes:
        for part in tmp_path.glob("ledger.sqlite*"):
            part.unlink()
        web = "http://127.0.0.1:9"  # where nobody answers
        image = {"name": "gpu-golden", "version": "1", "url": f"{web}/i", "manifest_url": f"{web}/m"}
        nodes.shared["gpufleet_image"] = {**image, "checksums_url": f"{web}/c", "signature_url": f"{web}/s"}
        yield nodes


def untouched(nodes: Nodes) -> bool:
    calls = json.loads(nodes.world.read_text(encoding="utf-8"))["calls"]
    asked = any(call[:2] == ["scontrol", "update"] for call in calls)
    return not asked and not any(bmc.writes for bmc in nodes.bmcs.values())


@pytest.mark.parametrize("book", [("day0_bringup",), ("drain",), ("maintenance", *MAINTENANCE)])
def test_j7_no_playbook_takes_what_serves_for_others(strangers: Nodes, book: tuple[str, ...]) -> None:
    told = strangers.book(*book, ok=False)
    assert untouched(strangers) and strangers.scheduler("gpu001") == "IDLE"
    assert ADOPT in told or book[0] == "maintenance", told
    assert "admitted" not in strangers.states("gpu001")


def test_c11_a_ledger_that_knows_nothing_of_what_serves_is_not_told_as_well(strangers: Nodes) -> None:
    told = strangers.book("day2_recycle", ok=False)
    assert ADOPT in told and "IDLE" in told and untouched(strangers), told
    assert "[WARNING]: a new, empty ledger was made: sqlite:////" in told, told
    assert "gpu001 serves, and this ledger has let none in: sqlite:////" in told and "restore a backup" in told, told
    strangers.scheduler("gpu001", state="DOWN", reason="Not responding", by="slurm", booted="None")
    told = strangers.book("day2_recycle", ok=True)
    assert "adopt" not in told and "WARNING" not in told, "a new node, and no new ledger"


def test_j7_who_cannot_be_reached_is_not_adopted_and_told_why(strangers: Nodes) -> None:
    told = strangers.book("adopt", ok=False)
    assert "cannot be reached over SSH" in told and ADOPT in told, told
    assert strangers.states("gpu001") == [] and untouched(strangers)


def test_another_name_is_said_of_one_node_and_not_of_its_neighbours(tmp_path: Path) -> None:
    with in_service(tmp_path, 2) as nodes:
        for part in tmp_path.glob("ledger.sqlite*"):
            part.unlink()
        for flags in ((), ("--check",)):
            told = nodes.book("adopt", "-e", "adopt_other_name=true", *flags, ok=False)
            assert "These are 2 hosts, and adopt_other_name is said of one machine" in told, told
        assert not nodes.ledger.exists() and untouched(nodes), "nobody was asked for anything"
        told = nodes.book("adopt", "-e", "adopt_other_name=true", "--limit", "gpu002", ok=False)
        assert "These are" not in told and "Not adopted, and left as it is" in told, told


def test_q5_check_mode_names_the_command_that_the_run_would_name(strangers: Nodes) -> None:
    """It records nothing: a node that was refused is told as refused all the same, and not as one for day 0."""
    told = strangers.book("adopt", "--check", ok=False)
    assert f"next: ansible-playbook {ADOPT}" in told and "day0_bringup" not in told, told
    assert "cannot be reached over SSH" in told.rpartition("Adoption:")[2], told
    strangers.hosts["gpu001"]["gpufleet_serial"] = "SN9999"
    told = strangers.book("day0_bringup", "--check", ok=False)
    assert "another machine" in told.rpartition("Day 0:")[2], told
    assert untouched(strangers)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"state": "IDLE+DRAIN", "reason": "riser swap", "by": "carol"}, "riser swap"),
        ({"state": "DOWN", "reason": "Not responding", "by": "slurm"}, "only a node in service is adopted"),
    ],
)
def test_j7_who_is_not_in_service_is_not_adopted(strangers: Nodes, change: dict[str, str], words: str) -> None:
    strangers.scheduler("gpu001", **change)
    told = strangers.book("adopt", ok=False)
    assert words in told and strangers.states("gpu001") == [] and untouched(strangers), told


def test_j7_what_nobody_uses_is_not_adopted_and_day_0_goes_on_with_it(strangers: Nodes) -> None:
    strangers.scheduler("gpu001", state="DOWN", reason="Not responding", by="slurm", booted="None")
    told = strangers.book("adopt", ok=False)
    assert "only a node in service is adopted" in told and untouched(strangers), told
    assert f"next: ansible-playbook {ADOPT.replace('adopt', 'day0_bringup')}" in told and ADOPT not in told, told


@pytest.mark.parametrize("book", [("adopt",), ("maintenance", *MAINTENANCE)])
def test_j7_who_was_retired_is_told_how_it_comes_back(strangers: Nodes, book: tuple[str, ...]) -> None:
    with Ledger(strangers.url) as ledger:
        node = ledger.identify("gpu001", aliases=[("serial", str(strangers.hosts["gpu001"]["gpufleet_serial"]))])
        for state in ("admitted", "drained", "retired"):
            ledger.append("r1", [(node, Event("state", state, {"reason": "ticket 4711"}))])
    told = strangers.book(*book, ok=False)
    assert "retired (ticket 4711)" in told and "ledger_event -a" in told and "state=discovered" in told, told
    assert untouched(strangers)


def test_j7_another_machine_behind_the_bmc_is_not_adopted(strangers: Nodes) -> None:
    strangers.hosts["gpu001"]["gpufleet_serial"] = "SN9999"
    told = strangers.book("adopt", ok=False)
    assert "another machine" in told and "SN0001" in told, told
    assert strangers.states("gpu001") == [] and untouched(strangers)


def test_j7_what_the_ledger_knows_is_left_out(tmp_path: Path) -> None:
    with in_service(tmp_path) as nodes:
        nodes.book("adopt", ok=True)
        assert nodes.states("gpu001") == [] and untouched(nodes)
