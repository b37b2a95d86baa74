# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The door tells whoever cuts a text which secrets its task was given, so that no cut leaves a part of one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Refused
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut, short, tail
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Result
from ansible_collections.gpufleet.baremetal.tests.unit.plugins.doors import Door

LENGTH = 500


@pytest.mark.parametrize(
    ("way", "secret"),
    [
        # One secret each: what one task has told is known to the process from then on.
        ("short", "correct-horse-battery-1"),
        ("cut", "correct-horse-battery-2"),
        ("tail", "correct-horse-battery-3"),
    ],
)
def test_t1_a_cut_through_a_secret_leaves_no_part_of_it(tmp_path: Path, way: str, secret: str) -> None:
    around = "x" * (LENGTH - 12)
    cuts = {
        "short": lambda: short(around + secret, LENGTH),
        "cut": lambda: cut(around + secret, LENGTH),
        "tail": lambda: tail(secret + around, LENGTH),
    }

    def refuses(params: Any, ctx: Context) -> Result:
        ctx.may_write("POST /power")
        raise Refused("no power", seen=cuts[way]())

    door = Door(tmp_path, refuses, gpufleet_bmc_password=secret)
    written = f"{door.run()} {door.events()}"
    assert "no power" in written and "xxxx" in written
    assert "correct" not in written and "battery" not in written
