# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A mark of quarantine and what the ledger has of it: who is admitted again is asked for where one may stand."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._moment import AFTER_EVENT
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._maintained import renewed
from controller import HELD, LIFTED, READY, VERIFIED, Controller, wait

pytestmark = pytest.mark.slow
VERB = "gpufleet.baremetal.provisioner_node"
MARKED = {VERB: {"state": "quarantined", "why": "Xid 79"}}
#: As the role join asks, for all hosts, and as a person does for one.
READMITTED = {VERB: {"state": "readmitted", "batch": True}, "run_once": True}
ASKED_ALONE = {VERB: {"state": "readmitted"}}


@pytest.fixture
def controller(maas_site: Any, tmp_path: Path) -> Controller:
    with maas_site.in_good_health():
        made = Controller(maas_site, tmp_path, count=1)
        made.play(READY, wait("ready"))
        maas_site.faults.forget()
        return made


@contextlib.contextmanager
def looking(controller: Controller) -> Iterator[Callable[..., None]]:
    """As a run looks whether the node is still held: it may take a while until it tells the ledger."""
    [(name, one)] = controller.nodes.items()
    with Ledger(f"sqlite:///{controller.ledger}") as ledger:
        node = ledger.identify(name, aliases=[("serial", one["serial"])])

        def look(called: str, meanwhile: Callable[[], object] = lambda: None) -> None:
            of_the_node = ("serial", "boot_mac", "provisioner_id") if called != name else ()
            own = {f"gpufleet_{key}": value for key, value in one.items() if key not in of_the_node}

            def tell(pairs: list[tuple[str, Event]]) -> None:
                meanwhile()
                ledger.append("looking", pairs)

            failed = renewed(
                ledger,
                [called],
                identify=lambda _host: node,
                variable=lambda what, _host: own.get(what),
                tell=tell,
                run_id="looking",
            )
            assert not failed

        yield look


def described(site: Any, controller: Controller) -> str:
    [name] = controller.nodes
    return str(site.machine(name).description)


def words(controller: Controller) -> list[tuple[str, bool]]:
    return [(name, "+quarantine:" in data["hold_token"]) for _node, name, data in controller.events("maintenance")]


def test_who_ends_a_maintenance_takes_no_mark_from_the_ledger(maas_site: Any, controller: Controller) -> None:
    controller.play(MARKED, LIFTED)
    assert "+quarantine:Xid 79" in described(maas_site, controller)
    assert words(controller) == [("held", True), ("held", True)]
    controller.play(READMITTED)
    assert described(maas_site, controller) == "" and words(controller)[-1] == ("lifted", True)
    maas_site.faults.forget()
    controller.play(READMITTED)
    assert maas_site.faults.calls == [], "of one that is marked no more nobody is asked"
    controller.play(ASKED_ALONE)
    assert maas_site.faults.reads != [], "who asks for one node is heard"


def test_a_mark_whose_answer_was_lost_is_lifted_by_the_readmission(maas_site: Any, controller: Controller) -> None:
    maas_site.faults.lose_answer()
    controller.play(MARKED, ok=False)
    assert "+quarantine:Xid 79" in described(maas_site, controller) and words(controller) == []
    maas_site.faults.forget()
    controller.play(READMITTED)
    assert described(maas_site, controller) == "" and words(controller) == [("lifted", True)]


def test_where_none_came_of_it_that_is_asked_once(maas_site: Any, controller: Controller) -> None:
    maas_site.faults.strike_writes("no", 1)
    controller.play(MARKED, ok=False)
    maas_site.faults.forget()
    controller.play(READMITTED)
    assert maas_site.faults.reads and maas_site.faults.writes == [] and words(controller) == [("lifted", False)]
    assert AFTER_EVENT in controller.events("maintenance")[-1][2], "it is a look: what came meanwhile it has not seen"
    maas_site.faults.forget()
    controller.play(READMITTED)
    assert maas_site.faults.calls == []


def test_a_remedy_that_lifts_the_mark_tells_the_ledger(maas_site: Any, controller: Controller) -> None:
    deployed = {VERB: {"state": "deployed"}}
    controller.play(MARKED, VERIFIED, deployed, wait("deployed"))
    assert words(controller) == [("held", True), ("lifted", True)]
    maas_site.faults.forget()
    controller.play(READMITTED)
    assert maas_site.faults.calls == []


def test_a_look_that_sees_a_part_of_the_mark_says_so(maas_site: Any, controller: Controller) -> None:
    """A person has unlocked the machine, and left its description."""
    [name] = controller.nodes
    controller.play(VERIFIED, {VERB: {"state": "deployed"}}, wait("deployed"), MARKED)
    maas_site.machine(name).locked = False
    with looking(controller) as look:
        look(name)
    assert words(controller)[-1] == ("lifted", True)
    controller.play(READMITTED)
    assert described(maas_site, controller) == ""


def test_a_maintenance_over_the_mark_is_one_to_the_ledger_until_it_is_lifted(
    maas_site: Any, controller: Controller
) -> None:
    controller.play(MARKED, HELD, READMITTED)
    assert re.fullmatch(r"gpufleet:[^:+]+:reseat", described(maas_site, controller)), "without the mark"
    assert [name for name, _marked in words(controller)] == ["held", "held", "held"]
    controller.play(LIFTED, READMITTED)
    assert described(maas_site, controller) == "" and words(controller)[-1] == ("lifted", False)


def test_a_look_from_before_the_mark_says_nothing_of_it(maas_site: Any, controller: Controller) -> None:
    [name] = controller.nodes
    with looking(controller) as look:
        look(name, lambda: controller.play(MARKED))
    assert words(controller) == [("held", True), ("lifted", False)]
    controller.play(READMITTED)
    assert described(maas_site, controller) == "" and words(controller)[-1] == ("lifted", True)


def test_a_look_that_finds_no_record_says_nothing_of_the_mark(maas_site: Any, controller: Controller) -> None:
    """A row of the inventory named another node, and was corrected since."""
    controller.play(MARKED)
    with looking(controller) as look:
        look("gpu-nosuch")
    assert words(controller) == [("held", True), ("lifted", False)]
    controller.play(READMITTED)
    assert described(maas_site, controller) == "" and words(controller)[-1] == ("lifted", True)
