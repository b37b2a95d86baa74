# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A mistake of the site stops day 0 before its first write, through the playbook as it is shipped.

That Slurm was told nothing the fixture looks itself.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sound_site import SoundSite
from test_peers import bmcs, slurm
from test_settings import of_all, other_public, readable_key, signed_by_a_stranger

pytestmark = pytest.mark.slow

__all__ = ["bmcs", "slurm"]


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(readable_key, id="key"),
        pytest.param(other_public, id="public key"),
        pytest.param(signed_by_a_stranger, id="signature"),
        pytest.param(of_all("gpufleet_sku", "h200-nvl-8"), id="sku"),
        pytest.param(of_all("gpufleet_bmc_ca_pth", "x"), id="typo"),
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
