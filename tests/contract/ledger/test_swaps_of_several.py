# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which of several nodes a swap is of, and who else works on them, or has a say."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.action.node_identity import ActionModule
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import identity, lease
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.holder import Holder
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.plugins.module_utils._wait import wait_until
from ansible_collections.gpufleet.baremetal.tests.unit.plugins.doors import Door
from contract.ledger.test_swaps import MAC, MAC2, OLD, in_service, known, rows, state

MAC8, MAC9 = "52:54:00:00:00:08", "52:54:00:00:00:09"
NEW = {"gpufleet_serial": "NEW0001", "gpufleet_boot_mac": MAC9}
BOARD, CHASSIS = {"state": "replaced", "part": "board"}, {"state": "replaced", "part": "chassis"}
MOVED = {"state": "moved", "kind": "mac", "value": MAC2}
RETIRED = {"state": "retired", "kind": "mac", "value": MAC}


class Site:
    """The ledger, and tasks of gpu001."""

    def __init__(self, ledger: Ledger, url: str, folder: Path) -> None:
        self.ledger, self._url, self._folder = ledger, url, folder

    def ask(self, said: dict[str, str], base: type[ActionModule] = ActionModule, **args: Any) -> dict[str, Any]:
        """The verb as a task of gpu001 that says what the inventory has for it now."""
        door = Door(
            self._folder, identity.node_identity, base=base, name="node_identity", own_spec=identity.SPEC,
            args={"reason": "RMA 4711", **args}, **{"gpufleet_ledger_url": self._url, **said},
        )  # fmt: skip
        return door.run()

    def refuses(self, said: dict[str, str], told: str, **args: Any) -> None:
        """Nothing is written; what is told is a text or a kind of error."""
        before = rows(self.ledger)
        done = self.ask(said, **args)
        assert done.get("failed") and told in (done["error"]["kind"], *[told] * (told in done["msg"])), done
        assert rows(self.ledger) == before

    def enters(self, node: str, *states: str) -> None:
        self.ledger.append("r1", [(node, Event("state", one)) for one in states])

    def claims(self, host: str, node: str, *pairs: tuple[str, str]) -> None:
        with self.ledger.transaction() as conn:
            self.ledger._remember(conn, node, host, list(pairs), "inventory")

    def works_on(self, node: str) -> None:
        """Another run, from now on."""
        with self.ledger.transaction() as conn:
            lease.take_in(conn, self.ledger, node, Holder("another", "elsewhere", 1, 1, "boot"), node=node)


@pytest.fixture
def site(ledger: Ledger, url: str, tmp_path: Path) -> Site:
    return Site(ledger, url, tmp_path)


# -- which -------------------------------------------------------------------------------------------------------------


def test_u3_which_of_two_nodes_a_host_was_a_person_says(site: Site, ledger: Ledger) -> None:
    first, second = in_service(ledger), in_service(ledger, "gpu001", "OLD0009", MAC8)
    for args in ({"state": "present"}, BOARD, CHASSIS, {**MOVED, "value": "52:54:00:00:00:07"}):
        site.refuses(NEW, "this host was several nodes of the ledger", **args)
    assert site.ask({**NEW, "gpufleet_node_id": second}, **BOARD)["node_id"] == second
    assert known(ledger, second) == {"serial": "NEW0001", "mac": MAC9}
    assert (state(ledger, first), state(ledger, second)) == ("admitted", "quarantined")
    site.refuses({**NEW, "gpufleet_node_id": "nobody"}, "no living node of this host", **BOARD)


def test_u3_who_has_a_boot_port_on_the_node_of_another_host_is_not_that_node(site: Site, ledger: Ledger) -> None:
    """It came with a typo, and is no more than a claim on it."""
    old, other = in_service(ledger), in_service(ledger, "gpu002", "OLD0002", MAC2)
    site.claims("gpu001", other, ("mac", MAC8))
    done = site.ask(NEW, **CHASSIS)
    assert done.get("retired_node") == old and state(ledger, other) == "admitted", done
    site.enters(done["node_id"], "retired")
    site.refuses(NEW, "no living node of this host", **MOVED)


def test_u3_what_the_inventory_names_is_free_or_this_hosts_own(site: Site, ledger: Ledger) -> None:
    """Another host's node is not, though nothing was imaged there yet; nor is what this host has served as since."""
    in_service(ledger)
    other = ledger.identify("gpu002", aliases=[("serial", "OLD0002"), ("mac", MAC2)])
    site.enters(other, "enrolled")
    for args in (BOARD, CHASSIS):
        site.refuses({**NEW, "gpufleet_boot_mac": MAC2}, "belongs to another node", was="OLD0001", **args)
    in_service(ledger, "gpu001", "NEW0001", MAC9)
    site.refuses({**OLD, "gpufleet_serial": "NEW0001"}, "belongs to another node", was="OLD0001", **BOARD)


def test_u3_nothing_is_swapped_in_a_node_that_is_out_of_the_fleet(site: Site, ledger: Ledger) -> None:
    node = in_service(ledger)
    site.enters(node, "quarantined", "retired")
    for said in (NEW, OLD):
        for args in (BOARD, MOVED):
            site.refuses(said, "no living node of this host", was="OLD0001", **args)


def test_u3_a_machine_that_was_retired_and_comes_back_is_discovered(site: Site, ledger: Ledger) -> None:
    old, spare = in_service(ledger), in_service(ledger, "gpu009", "NEW0001", MAC9)
    site.enters(spare, "quarantined", "retired")
    done = site.ask(NEW, **CHASSIS)
    assert (done["node_id"], done["retired_node"]) == (spare, old), done
    assert (state(ledger, spare), state(ledger, old)) == ("discovered", "retired")


# -- what is left of a machine -----------------------------------------------------------------------------------------


def test_u3_a_new_board_takes_nothing_that_the_inventory_does_not_name(site: Site, ledger: Ledger) -> None:
    """And what its BMC tells confirms nothing, where that does not agree."""
    node = in_service(ledger)
    site.claims("gpu001", node, ("gpu", "GPU-1"))
    bmc = {"identity": {"serial": "NEW0001"}, "machine": {"agrees": [], "contradicts": []}}
    done = site.ask(NEW, bmc=bmc, **BOARD)
    assert done["changed"] and known(ledger, node) == {"serial": "NEW0001", "mac": MAC9, "gpu": "GPU-1"}, done
    assert {row["confirmed_by"] for row in ledger.aliases(node)} == {""}
    assert ledger.latest([node], "state")[node]["data"]["remedy"] == "reimage"


def test_u3_a_boot_port_that_a_bmc_told_is_a_claim_again_where_it_was_moved_to(site: Site, ledger: Ledger) -> None:
    node, other = in_service(ledger), in_service(ledger, "gpu002", "OLD0002", MAC2)
    for one, mac in ((node, MAC), (other, MAC2)):
        ledger.confirm(one, [("mac", mac)], "bmc")
    site.refuses(OLD, "confirmed by a peer", **RETIRED)
    assert site.ask(OLD, **MOVED)["changed"]
    told = {row["value"]: (row["confirmed_by"], row["confirmed"]) for row in ledger.aliases(node)}
    assert told[MAC2] == ("", 0) and told[MAC][0] == "bmc"


# -- who else ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("args", [BOARD, CHASSIS, MOVED, RETIRED], ids=["board", "chassis", "moved", "retired"])
def test_u3_a_swap_waits_for_other_runs_and_for_its_own_and_asks_a_tenant(
    site: Site, ledger: Ledger, args: dict[str, str]
) -> None:
    node, _other = in_service(ledger), in_service(ledger, "gpu002", "OLD0002", MAC2)
    said = NEW if args in (BOARD, CHASSIS) else OLD
    site.refuses({**said, "gpufleet_tenant": "acme"}, "not_ours", **args)
    site.refuses(said, "the run that this worker belongs to is gone", base=Orphan, **args)
    site.works_on(node)
    site.refuses(said, "lease_held", **args)


class Orphan(ActionModule):
    """Its main process is another one than its parent."""

    def _lifeline(self, params: Any) -> Any:
        self._run_as = replace(self._run_as, pid=1)
        return super()._lifeline(params)


def test_u3_a_machine_that_came_is_left_to_the_run_that_works_on_it(site: Site, ledger: Ledger) -> None:
    in_service(ledger)
    site.works_on(ledger.identify("gpu001", aliases=[("serial", "NEW0001"), ("mac", MAC9)]))
    site.refuses(NEW, "lease_held", **CHASSIS)


@pytest.mark.parametrize("url", [pytest.param("postgresql", marks=pytest.mark.slow)], indirect=True)
def test_u3_a_swap_is_planned_when_nobody_else_writes_an_alias(site: Site, ledger: Ledger) -> None:
    """Another run is about to write the serial of the new board for another host."""
    in_service(ledger)
    other, told = in_service(ledger, "gpu002", "OLD0002", MAC2), []
    swap = threading.Thread(target=lambda: told.append(site.ask(NEW, **BOARD)), daemon=True)
    with ledger.transaction() as conn:
        ledger.alone_with_aliases(conn)
        swap.start()
        waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        wait_until(lambda: told or conn.exec_driver_sql(waits).scalar(), bool,
                   timeout=120.0, interval=0.05, wanted="a swap that waits, or is over")  # fmt: skip
        ledger._remember(conn, other, "gpu002", [("serial", "NEW0001")], "inventory")
    swap.join(120)
    assert "belongs to another node" in told[0].get("msg", ""), told
