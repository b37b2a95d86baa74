# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The two forms of a verb, each host's own task and one task for all: the same verdicts, events and writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.action import scheduler_node
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._batch import succeeded
from contract.permit.rig import IDLE, Controller

Make = Callable[..., Controller]
FORMS = ("of_each", "of_all")
HOSTS = ("gpu001", "gpu002", "gpu003", "gpu004", "gpu005")


def told(verdicts: dict[str, dict[str, Any]]) -> dict[str, tuple[bool, bool, str]]:
    return {host: (one["ok"], one["changed"], one["kind"]) for host, one in verdicts.items()}


@pytest.mark.parametrize("form", FORMS)
def test_power_of_a_drained_a_serving_a_leased_a_dead_and_a_wrong_machine(controller: Make, form: str) -> None:
    site = controller(*HOSTS)
    for host in ("gpu001", "gpu003", "gpu004", "gpu005"):
        site.hold(host)
    site.taken("gpu003")
    site.hosts["gpu004"]["gpufleet_bmc_address"] = "http://127.0.0.1:9"
    site.bmcs["gpu005"].vendor["system"]["SerialNumber"] = "S-another"
    found = getattr(site, form)("redfish_power", state="force_off", timeout=3.0)
    assert told(found) == {
        "gpu001": (True, True, ""),
        "gpu002": (False, False, "evidence_missing"),
        "gpu003": (False, False, "lease_held"),
        "gpu004": (False, False, "unreachable"),
        "gpu005": (False, False, "wrong_machine"),
    }
    assert [len(site.bmcs[host].writes) for host in HOSTS] == [1, 0, 0, 0, 0]
    assert [site.events("intent", host)[1:] for host in HOSTS] == [["redfish_power"], [], [], [], []]
    assert [site.events("outcome", host).count("redfish_power") for host in HOSTS] == [1, 0, 0, 0, 0]
    assert found["gpu001"]["result"]["evidence"].startswith("event:")
    assert found["gpu001"]["result"]["after"] == {"power": "off"}
    again = getattr(site, form)("redfish_power", state="force_off", timeout=3.0)
    assert told(again)["gpu001"] == (True, False, "") and len(site.bmcs["gpu001"].writes) == 1


@pytest.mark.parametrize("form", FORMS)
def test_a_bmc_that_says_yes_and_does_nothing_is_its_own_nodes_fault(controller: Make, form: str) -> None:
    site = controller("gpu001", "gpu002")
    for host in site.hosts:
        site.hold(host)
    site.bmcs["gpu002"].machine.obedient = False
    found = getattr(site, form)("redfish_power", state="force_off", timeout=2.0)
    assert told(found) == {"gpu001": (True, True, ""), "gpu002": (False, True, "deadline")}
    assert site.events("outcome", "gpu002")[-1] == "redfish_power"


@pytest.mark.parametrize("form", FORMS)
def test_a_proof_that_is_too_old_is_renewed(controller: Make, form: str) -> None:
    site = controller("gpu001", "gpu002", "gpu003")
    for host in site.hosts:
        site.hold(host)
    site.later(600)
    looks = len(site.asked("scontrol", "--all", "-o", "show", "node"))
    found = getattr(site, form)("redfish_power", state="force_off", timeout=30.0)
    assert told(found) == dict.fromkeys(site.hosts, (True, True, ""))
    assert len(site.asked("scontrol", "--all", "-o", "show", "node")) == looks + 1, "one question for all"


@pytest.mark.parametrize("form", FORMS)
def test_boot_is_set_for_those_that_come_so_far(controller: Make, form: str) -> None:
    site = controller("gpu001", "gpu002")
    site.hold("gpu001")
    found = getattr(site, form)("pxe_boot", target="pxe", power="none")
    assert told(found) == {"gpu001": (True, True, ""), "gpu002": (False, False, "evidence_missing")}
    assert [bool(site.bmcs[host].writes) for host in site.hosts] == [True, False]


@pytest.mark.parametrize("form", FORMS)
def test_holds_of_a_free_a_foreign_an_unknown_and_a_misnamed_node(controller: Make, form: str) -> None:
    site = controller("gpu001", "gpu002", "gpu003", "gpu004", "gpu005")
    site.node("gpu002", state="IDLE+DRAIN", reason="hands inside", by="jane")
    site.hosts["gpu003"]["gpufleet_scheduler_node"] = "gpu999"
    site.hosts["gpu004"]["gpufleet_scheduler_node"] = "gpu[001-002]"
    found = getattr(site, form)("scheduler_node", state="held", why="reimage")
    assert told(found) == {
        "gpu001": (True, True, ""),
        "gpu002": (False, False, "not_ours"),
        "gpu003": (False, False, "config"),
        "gpu004": (False, False, "config"),
        "gpu005": (True, True, ""),
    }
    assert [site.node(host)["state"] for host in HOSTS] == ["IDLE+DRAIN", "IDLE+DRAIN", "IDLE", "IDLE", "IDLE+DRAIN"]
    assert site.node("gpu002")["reason"] == "hands inside"
    for host in ("gpu001", "gpu005"):
        assert site.events("hold", host) == ["taken"] and site.events("evidence", host) == ["drained"]
        assert site.events("intent", host) == ["scheduler_node"] == site.events("outcome", host)
    assert site.events("intent", "gpu002") == []
    assert told(getattr(site, form)("scheduler_node", state="held", why="reimage"))["gpu001"] == (True, False, "")
    back = getattr(site, form)("scheduler_node", state="resumed", force_reason="a test")
    assert told(back)["gpu001"] == (True, True, "") and not told(back)["gpu002"][0]
    assert [site.node(host)["state"] for host in ("gpu001", "gpu002", "gpu005")] == ["IDLE", "IDLE+DRAIN", "IDLE"]
    assert site.events("hold", "gpu005") == ["taken", "released"]


@pytest.mark.parametrize("form", FORMS)
def test_one_hold_serves_one_machine(controller: Make, form: str) -> None:
    """Both look at the node before either has written."""
    site = controller("gpu001", "gpu002")
    site.hosts["gpu002"]["gpufleet_scheduler_node"] = "gpu001"
    found = getattr(site, form)("scheduler_node", state="held", why="reimage", force_reason="a test")
    assert sorted(one["ok"] for one in found.values()) == [False, True], found
    refused, served = sorted(site.hosts, key=lambda host: found[host]["ok"])
    assert found[refused]["kind"] == "wrong_machine", found[refused]
    assert [site.events("hold", host) for host in (served, refused)] == [["taken"], []]
    assert [site.events("evidence", host) for host in (served, refused)] == [["drained"], []]


@pytest.mark.parametrize("form", FORMS)
def test_check_mode_predicts_and_writes_nowhere(controller: Make, form: str) -> None:
    site = controller("gpu001", "gpu002")
    before = site.slurm.read_text(encoding="utf-8").count("update")
    site.node("gpu002", state="IDLE+DRAIN", reason="hands inside", by="jane")
    site.checks = True
    found = getattr(site, form)("scheduler_node", state="held", why="reimage")
    assert told(found) == {"gpu001": (True, True, ""), "gpu002": (False, False, "not_ours")}
    assert site.events("intent") == [] and site.slurm.read_text(encoding="utf-8").count("update") == before


class Ends(scheduler_node.ActionModule):
    """The work on gpu002 is cut right after it was told that it may write."""

    def _lifeline(self, params: Any) -> Any:
        line: Any = super()._lifeline(params)
        if self.OF_ALL and self._host == "gpu002":
            allowed = line.before_write

            def cut(*args: Any, **more: Any) -> Any:
                found = allowed(*args, **more)
                line.cut()
                return found

            line.before_write = cut
        return line


def test_what_is_cut_before_its_turn_comes_is_not_written(controller: Make) -> None:
    """A batch writes when all are there, some of which may have been told to end meanwhile."""
    site = controller("gpu001", "gpu002")
    found = site.run("scheduler_node", "gpu001", action=Ends, batch=True, state="held", why="reimage")
    assert told(found["verdicts"]) == {"gpu001": (True, True, ""), "gpu002": (False, True, "fenced")}
    assert [site.node(host)["state"] for host in site.hosts] == ["IDLE+DRAIN", "IDLE"]
    assert [site.events("hold", host) for host in site.hosts] == [["taken"], []]


def test_nodes_are_held_and_resumed_in_as_many_calls_as_one_is(controller: Make) -> None:
    hosts = [f"gpu{number:03d}" for number in range(40)]
    site = controller(nodes={host: dict(IDLE) for host in hosts}, known=False)
    own = dict(site.hosts["gpu001"])
    site.hosts = {host: {**own, "gpufleet_serial": f"S-{host}", "gpufleet_scheduler_node": host} for host in hosts}
    for host in hosts:
        site.tells(host, "state", "discovered")
        site.tells(host, "state", "admitted", {"adopted": True, "scheduler_node": host, "machine_name": host})
    found = site.of_all("scheduler_node", state="held", why="reimage")
    assert told(found) == dict.fromkeys(hosts, (True, True, "")), next(one for one in found.values() if not one["ok"])
    assert len(site.asked()) <= 12 and len(site.asked("scontrol", "update")) == 1, site.asked()
    assert {site.node(host)["reason"] for host in hosts} == {found["gpu000"]["result"]["reason"]}
    before = len(site.asked())
    found = site.of_all("scheduler_node", state="resumed", force_reason="a test")
    assert told(found) == dict.fromkeys(hosts, (True, True, ""))
    assert len(site.asked()) - before <= 16 and len(site.asked("scontrol", "update")) == 2


def test_a_worker_that_is_killed_right_after_the_write_has_announced_it_for_each(controller: Make) -> None:
    site = controller("gpu001", "gpu002", "gpu003")
    site.kill_after("State=DRAIN")
    assert site.of_all("scheduler_node", state="held", why="reimage") == {}
    for host in site.hosts:
        assert site.node(host)["state"] == "IDLE+DRAIN" and site.events("intent", host) == ["scheduler_node"]
        assert site.events("outcome", host) == [] == site.events("hold", host)
    again = site.of_each("scheduler_node", state="held", why="reimage")
    assert told(again) == dict.fromkeys(site.hosts, (True, False, "")), "each knows its hold by its own intent"
    assert [site.events("hold", host) for host in site.hosts] == [["taken"]] * 3


def test_the_next_stage_serves_those_that_the_one_before_has_served(controller: Make) -> None:
    site = controller("gpu001", "gpu002", "gpu003")
    site.node("gpu002", state="IDLE+DRAIN", reason="hands inside", by="jane")
    first = {"verdicts": site.of_all("scheduler_node", state="held", why="reimage")}
    assert [succeeded(first, host) for host in site.hosts] == [True, False, True]
    for host in site.hosts.values():
        host["held"] = first
    second = site.of_all("redfish_power", state="force_off", after=["held"], timeout=30.0)
    assert told(second) == dict.fromkeys(("gpu001", "gpu003"), (True, True, ""))
    assert [len(bmc.writes) for bmc in site.bmcs.values()] == [1, 0, 1]


@pytest.mark.parametrize("form", FORMS)
def test_events_of_those_that_may_have_them(controller: Make, form: str) -> None:
    site = controller("gpu001", "gpu002", "gpu003", known=False)
    for host in site.hosts:
        site.tells(host, "state", "discovered")
    site.tells("gpu002", "state", "admitted")
    site.taken("gpu003")
    found = getattr(site, form)("ledger_event", state="enrolled", data={"text": "a word"})
    kinds = {host: (one["ok"], one["kind"]) for host, one in found.items()}
    assert kinds["gpu001"] == (True, "") and kinds["gpu003"] == (False, "lease_held") and not kinds["gpu002"][0], kinds
    assert [site.events("state", host)[-1] for host in site.hosts] == ["enrolled", "admitted", "discovered"]
    noted = getattr(site, form)("ledger_event", name="handover", data={"text": "a word"})
    assert all(one["ok"] and one["result"]["event_id"] for one in noted.values())
    assert [site.events("note", host) for host in site.hosts] == [["handover"]] * 3


@pytest.mark.parametrize("form", FORMS)
def test_who_is_behind_each_bmc(controller: Make, form: str) -> None:
    site = controller("gpu001", "gpu002", "gpu003")
    site.hosts["gpu002"]["gpufleet_bmc_address"] = "http://127.0.0.1:9"
    site.hosts["gpu003"]["gpufleet_bmc_password"] = "another"
    found = getattr(site, form)("bmc_info", timeout=3.0)
    assert told(found) == {
        "gpu001": (True, False, ""), "gpu002": (False, False, "unreachable"), "gpu003": (False, False, "auth"),
    }  # fmt: skip
    assert found["gpu001"]["result"]["identity"]["serial"] == "S-gpu001"
    assert site.bmcs["gpu003"].failed_logins == 1, "tried once"
