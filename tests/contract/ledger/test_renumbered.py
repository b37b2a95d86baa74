# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A rack whose hosts were renumbered: the ledger has each machine under the name that another one bears now."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from contract.ledger.test_swaps import GPU, MAC, MAC2, OLD, Ask, ask, in_service, known, rows, state

__all__ = ["ask"]
MAC9 = "52:54:00:00:00:09"
SECOND = {"gpufleet_serial": "OLD0002", "gpufleet_boot_mac": MAC2}
MOVED = {"state": "moved", "kind": "gpu", "value": GPU, "force_reason": "of a machine that was sold"}
BOARD, CHASSIS = {"state": "replaced", "part": "board"}, {"state": "replaced", "part": "chassis"}
Nodes = tuple[str, str, str]


@pytest.fixture
def nodes(ledger: Ledger) -> Nodes:
    """The machines that served as gpu001 to gpu003."""
    first, second = in_service(ledger), in_service(ledger, "gpu002", "OLD0002", MAC2)
    return first, second, in_service(ledger, "gpu003", "OLD0003", "52:54:00:00:00:03")


@pytest.mark.parametrize("there", [True, False], ids=["both rows", "one row"])
def test_u3_what_is_told_of_a_host_concerns_the_machine_that_it_is_now(
    ledger: Ledger, ask: Ask, nodes: Nodes, there: bool
) -> None:
    """gpu001 is the second machine now, and gpu002 the first; or that one has left the inventory."""
    first, second, _third = nodes
    others = {"gpu002": OLD} if there else {}
    assert ask(SECOND, hostvars=others)["node_id"] == second
    done = ask(SECOND, hostvars=others, **MOVED)
    assert done["node_id"] == second and (state(ledger, second), state(ledger, first)) == ("quarantined", "admitted")


def test_u3_a_board_is_swapped_in_the_machine_that_the_host_is_now(ledger: Ledger, ask: Ask, nodes: Nodes) -> None:
    first, second, _third = nodes
    said = {**SECOND, "gpufleet_boot_mac": MAC9}
    done = ask(said, hostvars={"gpu002": OLD}, **BOARD)
    assert done["changed"] and done["node_id"] == second, done
    assert known(ledger, second) == {"serial": "OLD0002", "mac": MAC9}
    assert known(ledger, first) == {"serial": "OLD0001", "mac": MAC} and state(ledger, first) == "admitted"


@pytest.mark.parametrize("args", [BOARD, CHASSIS, {**BOARD, "was": "OLD0001"}])
def test_u3_a_machine_that_another_host_is_now_is_swapped_for_none(
    ledger: Ledger, ask: Ask, nodes: Nodes, args: dict[str, Any]
) -> None:
    """gpu002 is the machine that gpu001 was, as a whole: nothing was taken out of it."""
    new = {"gpufleet_serial": "NEW0001", "gpufleet_boot_mac": MAC9}
    before = rows(ledger)
    refused = ask(new, hostvars={"gpu002": OLD}, **args)
    assert refused.get("failed") and not refused["changed"] and rows(ledger) == before, refused
    assert nodes[0] in refused["msg"] or "no living node" in refused["msg"], refused
