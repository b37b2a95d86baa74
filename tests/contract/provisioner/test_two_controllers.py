# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two controllers, each with a ledger of its own, work on one provisioner, and on the very same nodes.

Where that loses parallel writes both are threads of one process here, which share the lock of their user on this
machine. Jobs of an AWX share neither that nor a temporary folder, but a ledger: test_turn_of_controllers.py.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import service_sites
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from bcm_commands import site as bcm_commands_site
from calls import await_all, lead, ready
from contract import newcomers
from pxe_files import site as pxe_files_site
from sites import Site
from xcat_commands import site as xcat_commands_site

pytestmark = pytest.mark.many_runs
#: Those of the collection: the others, made for these tests, take an order twice.
PLACES = (
    xcat_commands_site.XcatSite,
    bcm_commands_site.BcmSite,
    pxe_files_site.PxeSite,
    service_sites.MaasSite,
    service_sites.IronicSite,
    *newcomers.adapters("provisioner", Site),
)


class _Controller:
    """With a ledger of its own: what it ordered is its own, and what anybody else did is not."""

    def __init__(self, site: Any, run: str, together: threading.Barrier) -> None:
        self._site, self._run, self._together = site, run, together
        self.ordered: dict[str, str] = {}
        self.refused: dict[str, str] = {}

    def _known(self, name: str) -> dict[str, Any]:
        own = [self.ordered[name]] if name in self.ordered else []
        return {"run_id": self._run, "known_runs": [self._run], "known_deployed": bool(own), "known_deploy_ids": own}

    def deploy(self, nodes: list[dict[str, Any]]) -> None:
        for one in nodes:
            self._together.wait(timeout=60)
            deploy_id = f"{self._run}-{one['name']}"
            try:
                told = lead({**one, "deploy_id": deploy_id}, "deployed", **self._known(one["name"]))
            except FleetError as exc:
                self.refused[one["name"]] = exc.kind
                continue
            if told["ordered"] == "deployed":
                self.ordered[one["name"]] = deploy_id

    def has(self, one: dict[str, Any]) -> bool:
        """Is it deployed with what this one has ordered?"""
        if one["name"] not in self.ordered:
            return False
        wanted = {**one, "deploy_id": self.ordered[one["name"]], **self._known(one["name"])}
        return bool(await_all(self._site, "deployed", wanted)["verdicts"][one["name"]]["ok"])


@pytest.fixture(params=[pytest.param(one, id=one.name) for one in PLACES])
def place(request: pytest.FixtureRequest, started: Any) -> Iterator[Any]:
    with started(request.param).in_good_health() as chosen:
        yield chosen


def test_each_node_is_deployed_once_by_one_of_them_and_the_other_is_told(place: Any) -> None:
    nodes = [{**ready(place), "image": place.image()} for _number in range(2)]
    place.faults.forget()
    together = threading.Barrier(2)
    both = [_Controller(place, run, together) for run in ("run-a", "run-b")]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda one: one.deploy(nodes), both))
    for one in nodes:
        told = [(each.ordered, each.refused) for each in both]
        assert sum(one["name"] in each.ordered for each in both) == 1, told
        loser = next(each for each in both if one["name"] not in each.ordered)
        assert loser.refused[one["name"]] in ("not_ours", "not_adopted", "refused", "changed"), told
        # Of Ironic's two requests the note may be the loser's: then nobody takes the node for his own, and a person
        # is asked. Never do both.
        assert [each.has(one) for each in both].count(True) <= 1, told
    assert place.orders_taken() == len(nodes), "no node twice"


def test_what_both_enter_at_once_is_all_there(place: Any) -> None:
    nodes = [place.new() for _number in range(6)]
    together = threading.Barrier(2)

    def entered(part: list[dict[str, Any]], run: str) -> None:
        for one in part:
            together.wait(timeout=60)
            lead(one, "enrolled", run_id=run, known_runs=[run])

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(entered, (nodes[:3], nodes[3:]), ("run-a", "run-b")))
    assert not any(lead(one, "enrolled")["changed"] for one in nodes), "no update was lost"
