# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The pages on provisioners and schedulers: what they have a reader write is what inventory and drivers read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.inventory import fleet
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import names as provisioners
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.registry import DRIVERS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Image
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler import names as schedulers
from contract.docs.blocks import blocks

PROVISIONERS = {"ironic": "ironic", "maas": "maas", "warewulf": "warewulf", "xcat": "xcat", "bcm": "bcm"}
PROVISIONERS["boot-without-a-provisioner"] = "pxe"
SCHEDULERS = {"slurm": "slurm", "slurmrestd": "slurm", "kubernetes": "kubernetes"}
SOURCES: dict[str, Any] = yaml.safe_load(fleet.DOCUMENTATION)["options"]["sources"]["suboptions"]
PREFIX = "gpufleet_"


def told(page: str) -> Iterator[dict[str, Any]]:
    """What each block of the page is, read as YAML, that is variables or an inventory."""
    for block in blocks(f"docs/how-to/{page}.md"):
        if block.language == "yaml":
            found = yaml.safe_load(block.text)
            yield from [found] if isinstance(found, dict) else []


def variables(page: str, option: str) -> list[dict[str, Any]]:
    found = [one for one in told(page) if PREFIX + option in one]
    assert found, f"no block of {page} names the {option}"
    return found


@pytest.mark.parametrize("page", PROVISIONERS)
def test_the_variables_of_a_provisioners_page_are_those_that_its_driver_reads(page: str) -> None:
    """A page may show more than one way to its provisioner."""
    driver = PROVISIONERS[page]
    for given in variables(page, provisioners.OPTION):
        assert given[PREFIX + provisioners.OPTION] == driver
        asked = {name.removeprefix(PREFIX) for name in given if name.startswith(f"{PREFIX}provisioner_")}
        assert "provisioner_url" in asked and asked <= set(provisioners.DRIVERS[driver])
        for name, option in provisioners.OPTIONS.items():
            assert not option.get("no_log") or "lookup(" in given.get(PREFIX + name, "lookup(")
        if PREFIX + "image" in given:
            needs = DRIVERS[driver].image_needs
            assert Image.of(given[PREFIX + "image"], needs=needs) and given[PREFIX + "image"]["signature_url"]


@pytest.mark.parametrize("page", [page for page in PROVISIONERS if page != "boot-without-a-provisioner"])
def test_the_inventory_of_a_provisioners_page_is_one_that_the_plugin_takes(page: str) -> None:
    [inventory] = [one for one in told(page) if "plugin" in one]
    kinds = [one["type"] for one in inventory["sources"]]
    assert kinds == [PROVISIONERS[page], "csv"] and set(kinds) <= set(SOURCES["type"]["choices"])
    for source in inventory["sources"]:
        assert set(source) <= set(SOURCES), source
        assert "lookup(" in source.get("password", source.get("api_key", "lookup("))


@pytest.mark.parametrize("page", SCHEDULERS)
def test_the_variables_of_a_schedulers_page_are_those_that_its_driver_reads(page: str) -> None:
    for given in variables(page, schedulers.OPTION):
        assert given[PREFIX + schedulers.OPTION] == SCHEDULERS[page]
        asked = {name.removeprefix(PREFIX) for name in given if name.startswith(f"{PREFIX}scheduler_")}
        assert asked - {"scheduler_node"} <= set(schedulers.DRIVERS[SCHEDULERS[page]])


def test_each_driver_that_a_site_may_choose_has_a_page() -> None:
    assert set(PROVISIONERS.values()) == set(provisioners.DRIVERS)
    assert set(SCHEDULERS.values()) == set(schedulers.DRIVERS) - {schedulers.NONE}
