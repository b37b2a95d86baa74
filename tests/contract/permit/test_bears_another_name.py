# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine that bears the name of another node of its scheduler is not the one that its row is called like: nothing is
held, given work or wiped by the name of the row."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.action import image_verify, scheduler_node
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.holder import this_run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._proc import process_start
from ansible_collections.gpufleet.baremetal.plugins.module_utils._quarantine import quarantines
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _own_name as own_name
from contract.permit.rig import ADOPTED, IDLE, Controller
from contract.permit.test_called_otherwise import AT_WORK, There, calls_itself
from contract.permit.test_renamed import UNUSED, Make

JOB = [{"id": "4711", "node": "gpu002"}]


def refused(site: Controller, state: str, other: str = "gpu002", host: str = "gpu001", **more: Any) -> None:
    before = len(site.asked("scontrol", "update"))
    result = site.run("scheduler_node", host, state=state, **more)
    assert result.get("failed") and result["error"]["kind"] == "wrong_machine" and not quarantines(result), result
    for word in (host, f"is {other}", "ansible_host", "gpufleet_bmc_address", "force_reason"):
        assert word in result["msg"], result["msg"]
    assert len(site.asked("scontrol", "update")) == before, "nothing is written"


def looked_at(site: Controller, tmp_path: Path) -> None:
    """As day 2 does it before the node is held."""
    dmi = tmp_path / "dmi"
    dmi.mkdir(exist_ok=True)
    (dmi / "product_serial").write_text("S-gpu001\n")
    args = {"mode": "machine", "dmi_path": str(dmi), "bmc_identity": {"serial": "S-gpu001"}}
    assert not site.run("image_verify", action=image_verify.ActionModule, **args).get("failed")


@pytest.mark.parametrize(
    ("own", "other"), [("gpu002", "gpu002"), ("gpu002.cluster.example.com", "gpu002"), ("n9", "gpu003 (n9)")]
)
def test_r5_a_stranger_that_bears_another_nodes_name_is_not_held_as_the_one_that_its_row_is_called_like(
    controller: Make, own: str, other: str
) -> None:
    """Its address or its BMC leads to a neighbour, which has jobs. Day 0 holds it first, and wipes it then."""
    nodes = {"gpu001": UNUSED, "gpu002": AT_WORK, "gpu003": {**AT_WORK, "host_name": "n9"}}
    site = controller(known=False, nodes=nodes, jobs=JOB)
    calls_itself(site, own)
    refused(site, "held", other)
    assert not site.events("evidence") and not site.events("hold")
    assert site.power().get("failed") and not site.switched()


@pytest.mark.parametrize("own", ["gpu001", "gpu001.cluster.example.com", "n7", "ubuntu", "localhost", ""])
def test_r5_a_stranger_that_is_its_rows_node_or_says_nothing_of_it_is_held(controller: Make, own: str) -> None:
    """Most are silent, or have the name of an installer; what its scheduler calls n7 on the machine is its own."""
    nodes = {"gpu001": {**UNUSED, "host_name": "n7"}, "gpu002": AT_WORK}
    site = controller(known=False, nodes=nodes, jobs=JOB)
    calls_itself(site, own)
    assert site.run("scheduler_node", state="held")["changed"] and not site.events("named")


def test_r5_who_is_absent_or_somebody_elses_is_not_asked_for_its_name(controller: Make) -> None:
    """Silent machines are waited for: only where the answer counts."""
    site = controller("gpu001", "gpu002", known=False, nodes={"gpu002": AT_WORK}, jobs=JOB)
    calls_itself(site, "gpu002; touch $0.asked")
    assert site.run("scheduler_node", state="held")["state"] == "absent"
    assert site.run("scheduler_node", "gpu002", state="held")["error"]["kind"] == "not_adopted"
    assert not (site.folder / "bin" / "cat.asked").exists()


@pytest.fixture
def adopted(controller: Make) -> Controller:
    """gpu001 serves; the site has given its machine another name, and that name's jobs."""
    site = controller(nodes={"gpu001": AT_WORK, "gpu002": AT_WORK}, jobs=JOB)
    site.tells("gpu001", "state", "admitted", ADOPTED)
    calls_itself(site, "gpu002")
    return site


def test_r5_day_2_holds_no_node_whose_machine_was_seen_to_bear_another_ones_name(
    adopted: Controller, tmp_path: Path
) -> None:
    looked_at(adopted, tmp_path)
    refused(adopted, "held")
    refused(adopted, "held", action=There)
    assert adopted.node("gpu001") == AT_WORK and not adopted.events("hold")
    assert adopted.power().get("failed") and not adopted.switched()


def test_r5_a_node_that_nobody_has_looked_at_in_this_run_is_drained_without_being_asked(adopted: Controller) -> None:
    """It may be dead, or hang: what is known from its adoption binds it, and nobody waits for it."""
    adopted.tells("gpu001", "look", "called", {"own_name": "gpu002"})
    held = adopted.run("scheduler_node", state="held")
    assert held["changed"] and held["state"] in ("draining", "drained"), held


@pytest.mark.parametrize("held", [True, False])
@pytest.mark.parametrize("forced", [{}, {"force_reason": "it is fit"}])
def test_r5_a_machine_that_bears_another_nodes_name_is_never_resumed(
    controller: Make, held: bool, forced: dict[str, str]
) -> None:
    """By the last look, on which each resume rests; nor is one admitted that its scheduler has resumed by itself."""
    site = controller(nodes={"gpu001": {**IDLE}, "gpu002": AT_WORK}, jobs=JOB)
    if held:
        site.hold()
    site.tells("gpu001", "state", "validating")
    site.passport()
    site.look(own_name="gpu002")
    refused(site, "resumed", **forced)
    refused(site, "resumed", action=There, **forced)
    assert site.events("hold") == (["taken"] if held else [])
    site.look(own_name="gpu001")
    assert site.run("scheduler_node", state="resumed", **forced)["state"] == "idle"


def test_r5_a_persons_word_for_a_machine_of_such_a_name_is_remembered_with_that_name(
    adopted: Controller, tmp_path: Path
) -> None:
    """Also that of an adoption. It says nothing of a third name."""
    looked_at(adopted, tmp_path)
    refused(adopted, "held")
    assert adopted.run("scheduler_node", state="held", force_reason="named so, ticket 7")["changed"]
    assert "ticket 7" in adopted.data("named")[0] and "gpu002" in adopted.data("named")[0]
    assert not adopted.run("scheduler_node", state="held").get("failed")
    adopted.node("gpu003", **AT_WORK)
    adopted.look(run=this_run(os.getpid()).run_id, own_name="gpu003")
    refused(adopted, "held", "gpu003")
    adopted.tells("gpu001", "state", "admitted", {**ADOPTED, "machine_name": "gpu003"})
    assert not adopted.run("scheduler_node", state="held").get("failed")


class Hold(scheduler_node.ActionModule):
    """One task for all hosts of the play."""

    def run(self, *args: Any, **more: Any) -> Any:
        self._task._uuid = "hold"
        return super().run(*args, **more)


def over_ssh(site: Controller, does: str) -> Path:
    """All machines answer over an ssh that does this; it notes in a file its process and whom it was to reach.

    None shares a connection, which is what ``-O`` asks.
    """
    client, told = site.folder / "ssh", site.folder / "connections"
    shared = 'for one; do [ "$one" = -O ] && exit 255; done'
    noted = f"for one; do case $one in gpu0*) echo $$ $one >> {told};; esac; done"
    client.write_text(f"#!/bin/sh\n{shared}\n{noted}\n{does}\n")
    client.chmod(0o755)
    for host in site.hosts.values():
        host.update(ansible_connection="ssh", ansible_ssh_executable=str(client))
    return told


def test_r5_a_stranger_that_hangs_after_its_login_is_waited_for_no_longer_than_a_silent_one(
    controller: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does its connection outlive the task."""
    monkeypatch.setattr(own_name, "_ANSWER_SECONDS", 1.0)
    site = controller(known=False, nodes={"gpu001": UNUSED})
    told = over_ssh(site, "exec sleep 600")
    assert site.run("scheduler_node", state="held")["changed"]
    ended = time.monotonic() + 10
    while left := [line for line in told.read_text().splitlines() if process_start(int(line.split()[0]))]:
        assert time.monotonic() < ended, left
        time.sleep(0.05)


def test_r5_the_strangers_of_a_batch_are_asked_together(controller: Make) -> None:
    """A silent one costs seconds, and a rack that nobody has installed yet has many. Each reads its own answer."""
    hosts = [f"gpu{number:03}" for number in range(1, 6)]
    site = controller(*hosts, known=False, nodes=dict.fromkeys(hosts, UNUSED))
    named = 'for one; do [ "$one" = gpu004 ] && echo =gpufleet-name= && echo gpu002 && exit; done; exit 255'
    told = over_ssh(site, named)
    site.tells("gpu005", "state", "admitted", {**ADOPTED, "scheduler_node": "gpu005", "machine_name": "gpu005"})
    assert site.run("scheduler_node", action=Hold, state="held")["changed"]
    asked = sorted(line.split()[1] for line in told.read_text().splitlines())
    assert asked == hosts[:4], "and not the one that is ours"
    assert all(site.run("scheduler_node", host, action=Hold, state="held")["changed"] for host in hosts[1:3])
    refused(site, "held", host="gpu004", action=Hold)
    assert len(told.read_text().splitlines()) == 4


def imaged(site: Controller) -> None:
    """This run has put its image on gpu001, under the hold that it took."""
    with Ledger(f"sqlite:///{site.folder}/ledger.sqlite") as ledger:
        node = ledger.identify("gpu001", aliases=[("serial", "S-gpu001")])
        ledger.append(this_run(os.getpid()).run_id, [(node, Event("state", "imaging"))])


@pytest.mark.parametrize("ours", [True, False])
def test_r5_a_node_whose_fresh_image_bears_another_ones_name_is_quarantined_as_itself(
    adopted: Controller, ours: bool
) -> None:
    """It was held as the machine that it was found to be. What another image calls it says that of no machine."""
    calls_itself(adopted, "gpu001")
    adopted.jobs([])
    adopted.node("gpu001", **IDLE)
    adopted.hold()
    imaged(adopted) if ours else adopted.tells("gpu001", "state", "imaging")
    adopted.look(run=this_run(os.getpid()).run_id, own_name="gpu002")
    if not ours:
        refused(adopted, "held", why="quarantined: Xid 79")
        return
    held = adopted.run("scheduler_node", state="held", why="quarantined: Xid 79")
    assert held["changed"] and "Xid 79" in adopted.node("gpu001")["reason"], held
    adopted.passport(looked=False)
    adopted.look(own_name="gpu002")
    refused(adopted, "resumed")
