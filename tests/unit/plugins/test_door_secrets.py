# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An option is secret because its specification says so, whatever it is called."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Result
from ansible_collections.gpufleet.baremetal.tests.unit.plugins.doors import Door

WORDS = "open sesame and barley"


def repeats(params: Any, ctx: Context) -> Result:
    ctx.may_write("POST /door")
    return Result(changed=True, data={"msg": f"the door heard: {params['saying']}"})


def test_t1_an_option_without_a_telling_name_is_secret_where_its_specification_says_so(tmp_path: Path) -> None:
    door = Door(tmp_path, repeats, more={"saying": {"type": "str", "no_log": True}}, args={"saying": WORDS})
    assert door.run()["msg"] == "the door heard: ********"
    assert WORDS.encode() not in door.ledger.read_bytes()
