# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state tables of the drivers: whole, and without a way round in a circle."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.bcm import tables as bcm_tables
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.cells import (
    BOOT,
    DONE,
    STOP,
    WAIT,
    resolve_cell,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import GOALS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.ironic import tables as ironic_tables
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.ironic.driver import IronicDriver
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.maas import tables as maas_tables
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.warewulf import tables as warewulf_tables
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.xcat import tables as xcat_tables
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context

FACTS = {
    "bcm": ("image_current",),
    "ironic": ("inspected", "image_current", "same_deploy_interface"),
    "maas": ("image_current", "overridden"),
    "warewulf": ("image_current", "booted"),
    "xcat": ("image_current",),
}
TABLES: dict[str, Any] = {
    "bcm": bcm_tables,
    "ironic": ironic_tables,
    "maas": maas_tables,
    "warewulf": warewulf_tables,
    "xcat": xcat_tables,
}

#: What a state that is waited for comes to when all goes well.
ENDS: dict[str, Mapping[str, str]] = {
    # Those that are booted by others, too.
    "bcm": {
        "ordered": "booting",
        **dict.fromkeys((*bcm_tables.UNDER_WAY, "consumed", "down"), "installed"),
    },
    "ironic": {
        "verifying": "manageable",
        "inspecting": "manageable",
        "inspect wait": "manageable",
        "cleaning": "available",
        "clean wait": "available",
        "deleting": "cleaning",
        "deploying": "active",
        "wait call-back": "active",
        "adopting": "active",
        "unrescuing": "active",
    },
    "maas": {
        "Commissioning": "Ready",
        "Testing": "Ready",
        "Deploying": "Deployed",
        "Releasing": "Ready",
        "Disk erasing": "Releasing",
        "Exiting rescue mode": "Ready",
    },
    # Those that are booted by others, too.
    "warewulf": {"image set": "loading", "loading": "all sent", "all sent": "all sent"},
    "xcat": {"discovering": "defined", "configuring": "defined", **dict.fromkeys(xcat_tables.ORDERED_STATES, "booted")},
}
#: What a step makes true.
MAKES: dict[str, tuple[str, bool]] = {
    "inspect": ("inspected", True),
    "deploy": ("image_current", True),
    "rebuild": ("image_current", True),
    "install": ("image_current", True),
    "assign": ("image_current", True),
    "boot": ("booted", True),
}


def _facts(driver: str) -> list[dict[str, bool]]:
    names = FACTS[driver]
    return [dict(zip(names, values)) for values in itertools.product((False, True), repeat=len(names))]


@pytest.mark.parametrize("driver", TABLES)
def test_every_goal_has_a_table_and_every_state_a_name(driver: str) -> None:
    tables = TABLES[driver]
    assert set(tables.STEPS) == set(GOALS)
    for goal in GOALS:
        assert set(tables.STEPS[goal]) <= set(tables.STATES), "a state that the driver does not know"


@pytest.mark.parametrize("driver", TABLES)
@pytest.mark.parametrize("goal", GOALS)
def test_every_cell_resolves_to_a_known_step(driver: str, goal: str) -> None:
    tables = TABLES[driver]
    steps = {DONE, WAIT, STOP, BOOT, *tables.LEADS_TO}
    for cell in tables.STEPS[goal].values():
        for facts in _facts(driver):
            assert resolve_cell(cell, lambda facts=facts: facts) in steps


@pytest.mark.parametrize("driver", TABLES)
@pytest.mark.parametrize("goal", GOALS)
def test_every_way_ends(driver: str, goal: str) -> None:
    """From each state, whatever is known of the node, the goal is reached in a few steps, or a person is asked."""
    tables = TABLES[driver]
    for start, first in itertools.product(tables.STATES, _facts(driver)):
        state, facts, way = start, dict(first), [start]
        for _turn in range(16):
            step = resolve_cell(tables.STEPS[goal].get(state, STOP), lambda facts=facts: facts)
            if step in (DONE, STOP):
                break
            state = ENDS[driver][state] if step in (WAIT, BOOT) else tables.LEADS_TO[step]
            if step in MAKES:
                facts[MAKES[step][0]] = MAKES[step][1]
            if step == "deploy":
                facts["same_deploy_interface"] = True
            way.append(f"{step}: {state}")
        else:
            pytest.fail(f"{goal}: {way}")


@pytest.mark.parametrize("driver", TABLES)
def test_waiting_happens_only_where_the_provisioner_works(driver: str) -> None:
    for goal in GOALS:
        for state, cell in TABLES[driver].STEPS[goal].items():
            if cell == WAIT:
                assert state in ENDS[driver], f"{goal}: nothing moves in {state}"


@pytest.mark.parametrize("driver", TABLES)
def test_what_takes_the_node_away_is_destructive(driver: str) -> None:
    tables = TABLES[driver]
    mild = {"manage", "inspect", "recover-clean", "confirm"}
    assert set(tables.LEADS_TO) - mild == set(tables.DESTRUCTIVE)


def test_maas_numbers_are_whole() -> None:
    assert sorted(maas_tables.NUMBERS) == list(range(23))
    assert len(maas_tables.STATES) == 23, "two numbers of one name"


def test_nothing_that_failed_is_ever_done_but_where_it_came_after() -> None:
    """A failure may count as ready only where the node had been ready before."""
    for driver, after in (("ironic", {"deploy failed"}), ("maas", {"Failed deployment"}), ("xcat", {"failed"})):
        tables = TABLES[driver]
        for goal in GOALS:
            done = {state for state, cell in tables.STEPS[goal].items() if cell == DONE}
            failed = {state for state in done if tables.STATES[state] == "failed"}
            never_deployed = {"inspect failed", "Failed commissioning"}
            assert failed <= (after if goal == "ready" else never_deployed if goal == "released" else set())


@pytest.mark.parametrize(("native", "failed"), [("deploy failed", True), ("clean failed", False), ("active", False)])
def test_j7_of_a_deployment_that_failed_ironic_says_so(native: str, failed: bool) -> None:
    ironic = IronicDriver({"provisioner_url": "http://127.0.0.1:9"}, Context())
    assert ironic.state_of({"uuid": "u-1", "provision_state": native}).deploy_failed is failed
