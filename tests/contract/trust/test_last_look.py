# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Between its passport and its first job a node is looked at once more: same boot, same GPUs."""

from __future__ import annotations

import json
import platform
import sqlite3
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._quarantine import quarantines
from contract.trust.trust_site import LOOK, Site, passport

#: Each task of it starts ansible-playbook.
pytestmark = pytest.mark.slow


def test_c6_the_last_look_is_at_the_node_as_it_is_now(admitted: Site, machine: Any) -> None:
    look = passport("verified", **LOOK)
    assert admitted.result(look)["valid"] and admitted.events()[-1] == ("look", "last")
    told = len(admitted.events())
    with sqlite3.connect(admitted.folder / "ledger.sqlite") as ledger:
        ((data,),) = ledger.execute("SELECT data FROM events WHERE kind = 'look'")
    assert json.loads(data)["own_name"] == platform.node(), "by which its scheduler may have it as another node"
    (machine.folder / "boot_id").write_text("boot-3\n")
    booted = admitted.result(look)
    assert booted["error"]["kind"] == "changed" and not quarantines(booted), booted
    assert "boot: its gates looked at the boot boot-2, the node now runs boot-3" in booted["msg"]
    (machine.folder / "boot_id").write_text("boot-2\n")
    machine.gpus.pop()
    machine.nvidia_smi()
    lost = admitted.result(look)
    assert "GPUs: only the passport has" in lost["msg"] and quarantines(lost), lost
    remembered = admitted.result(passport("verified", **LOOK, identity={"serial": machine.serial}))
    assert "a last look is one of now" in remembered["msg"]
    copied = admitted.result(passport("verified", **LOOK, path=str(admitted.folder / "copy.json")))
    assert "a last look is one of now" in copied["msg"], "a copy is verified without a look at the node"
    assert len(admitted.events()) == told, "a look that finds something admits nothing"
