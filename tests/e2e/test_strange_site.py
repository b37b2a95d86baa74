# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every playbook, in any order, on a site that is not ours alone: none of theirs is touched, none admitted unseen.

``make strange`` (STEPS, SEED) takes as many steps as one likes, others each time; ``make test`` the same few.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

from strange_site import PLAYBOOKS, all_is_well_again, step, strange_site

STEPS = int(os.environ.get("GPUFLEET_STRANGE_STEPS") or 5)
SEED = int(os.environ.get("GPUFLEET_STRANGE_SEED") or 1)

#: One makes the machines, and one asks AWX alone.
OF_NO_FLEET = {"rack", "awx_setup"}


def test_every_playbook_that_a_user_has_may_come_up() -> None:
    there = {path.stem for path in (Path(__file__).parents[2] / "playbooks").glob("*.yml")}
    assert {name for name, *_options in PLAYBOOKS} == there - OF_NO_FLEET


def test_j7_whatever_is_run_in_whatever_order() -> None:
    site, chance = strange_site(), random.Random(SEED)
    print(f"GPUFLEET_STRANGE_SEED={SEED}")
    for _number in range(STEPS):
        step(site, chance)
    all_is_well_again(site)
