# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A mistake of the site stops day 0 before its first write, through the playbook as it is shipped.

That Slurm was told nothing the fixture looks itself.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from contract.preflight.test_settings import (
    MISTAKES,
    networks,
    no_artifact,
    of_the_environment_at_ironic,
    of_the_environment_at_maas,
    other_public,
    readable_key,
    signed_by_a_stranger,
)
from sound_site import SoundSite
from test_peers import bmcs, slurm

pytestmark = pytest.mark.slow

__all__ = ["bmcs", "slurm"]


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(readable_key, id="key"),
        pytest.param(other_public, id="public key"),
        pytest.param(signed_by_a_stranger, id="signature"),
    ],
)
def test_u2_day_0_stops_before_its_first_write(
    bmcs: Any, slurm: Path, maas: Any, spoil: Callable[[SoundSite], Any]
) -> None:
    site, _found = bmcs
    spoil(site)
    site.results("day0_bringup", "-e", "deploy_boot_timeout=1", ok=False)
    assert slurm.is_file() and not maas.store.machines, site.output
    assert "to be mended before anything is written" in site.output and "quarantined" not in site.output


#: Spoilt in files that all nodes share, or in rows of another provisioner than this site has.
OF_ALL_NODES = (
    *(readable_key, other_public, signed_by_a_stranger, no_artifact),
    *(networks, of_the_environment_at_ironic, of_the_environment_at_maas),
)
#: Who cannot say whose node it is, or where it is written down, is left out before that, and told at the end.
LEFT_OUT = ("gpufleet_tenant is no text", "the ledger", "the ledger cannot be written")
#: What would be written into the ledger of the machine that the tests run on.
ELSEWHERE = ("gpufleet_ledger_url is not set",)
#: What one row can have alone.
ROWS = [one for one in MISTAKES if one[0] not in OF_ALL_NODES and one[2] not in (*LEFT_OUT, *ELSEWHERE)]
#: What a group gives to all can be taken from none of them.
BY_ROW = ("gpufleet_image", "gpufleet_provisioner_url")
#: As an inventory has it whose vault file is not there.
UNREADABLE = "{{ of_no_vault }}"


@pytest.fixture
def fleet(site: SoundSite) -> SoundSite:
    """A node for each mistake, and one without any."""
    site.grow(len(ROWS) + 1)
    return site


def test_u8_of_many_mistakes_in_one_inventory_each_is_told_with_its_node_and_nothing_is_written(
    fleet: SoundSite, bmcs: Any, slurm: Path, maas: Any
) -> None:
    """All of them at once, by day 0 itself: what, of which node, and the way out; no node is quarantined."""
    sound = dict(fleet.shared)
    spoilt = dict(zip(fleet.hosts, ROWS))
    for host, (spoil, *_told) in spoilt.items():
        fleet.shared, fleet.written = dict(sound), {}
        spoil(fleet)
        own = {
            name: UNREADABLE if isinstance(value, Exception) else value
            for name, value in fleet.shared.items()
            if name in BY_ROW or value != sound.get(name)
        }
        fleet.hosts[host].update({**own, **fleet.written})
    *_, last = fleet.hosts
    fleet.hosts[last].update({name: sound.pop(name) for name in BY_ROW})
    fleet.shared, fleet.written = sound, {}
    results = fleet.results("day0_bringup", "-e", "deploy_boot_timeout=1", ok=False, skip=["bmc", "ssh"])
    found = next(one["findings"] for one in results if "findings" in one)
    missed = [
        (host, what)
        for host, (_spoil, _kind, what, way_out) in spoilt.items()
        if not any(host in one["hosts"] and what in one["what"] and way_out in one["do"] for one in found)
    ]
    assert missed == [], [one for one in found if {host for host, _what in missed} & set(one["hosts"])]
    said = " ".join(fleet.output.split())
    assert [what for _spoil, _kind, what, _way_out in ROWS if what not in said] == []
    assert not any(last in one["hosts"] and one["kind"] in ("site", "node") for one in found), found
    assert "to be mended before anything is written" in said and "quarantined" not in said
    assert not maas.store.machines and not any(bmc.writes for bmc in bmcs[1].values())
    with contextlib.closing(sqlite3.connect(fleet.folder / "ledger.sqlite")) as ledger:
        assert ledger.execute("SELECT kind, name FROM events WHERE kind != 'note'").fetchall() == []


def test_u8_a_node_of_whom_nobody_can_say_whose_it_is_or_where_it_is_written_down_is_left_out_and_told(
    bmcs: Any, slurm: Path, maas: Any
) -> None:
    site, _found = bmcs
    site.hosts["gpu001"]["gpufleet_tenant"] = False
    site.hosts["gpu002"]["gpufleet_ledger_url"] = "mysql://a/b"
    site.hosts["gpu003"]["gpufleet_ledger_url"] = f"sqlite:///{site.key}/l"
    site.results("day0_bringup", "-e", "deploy_boot_timeout=1", ok=False)
    for line in (
        "gpufleet_tenant is no text",
        "ledger cannot be kept in mysql",
        "a place that this user may write",
    ):
        assert line in site.output, (line, site.output)
    assert not maas.store.machines and "quarantined" not in site.output
