# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""xCAT's order of three commands: leave before each, in parts where that is short, and nothing is done twice."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import EvidenceMissing
from ansible_collections.gpufleet.baremetal.plugins.module_utils._leave import Leave, clock
from calls import Killed, Line, await_all, deployed, lead, ready, watch_all


@pytest.fixture
def site(xcat_site: Any) -> Any:
    return xcat_site


def asked(site: Any) -> list[str]:
    """The commands of its order, without names."""
    words = (call.what.split(" ") for call in site.faults.writes)
    return [f"{one[0]} {one[2]}" for one in words if one[0] != "chdef"]


ORDER = ["nodeset osimage=gold-1", "rsetboot net", "rpower boot"]


class Once(Leave):
    """Leave that ends with the first write that can hit running work, as that of a command that takes longer does."""

    def before_write(self, what: str, *, destructive: bool, nodes: tuple[str, ...] = ()) -> Any:
        told = super().before_write(what, destructive=destructive, nodes=nodes)
        if destructive and isinstance(self._given, dict):
            self._given.update(until=0.0)
        return told


def parts(site: Any, *batch: dict[str, Any], looks: int = 0) -> tuple[int, dict[str, Any]]:
    """A wait in parts, each with leave for one command; how many it took, and its verdicts.

    :param looks: so many parts come first that have no leave to hit running work.
    """
    names = [one["name"] for one in batch]
    part: dict[str, Any] = {}
    for count in range(1, 8):
        now = clock()
        given = {"boot": now["boot"], "given": now["uptime"], "until": now["uptime"] + 60.0}
        given.update(writes=names, destroys=names if count > looks else [], timeout=100.0, elapsed=0.0, **part)
        result = watch_all(site, "deployed", *batch, line=Once(given), slice=given)
        if result["verdicts"]:
            return count, result["verdicts"]
        assert set(result["slice"]["due"]) <= set(names)
        part = {key: result["slice"][key] for key in ("sent", "ordered")}
    raise AssertionError("it comes to no end")


def test_leave_that_lasts_for_one_command_ends_in_a_deployment_and_nothing_is_done_twice(site: Any) -> None:
    batch = [{**ready(site), "image": site.image()} for _number in range(2)]
    site.faults.forget()
    count, verdicts = parts(site, *batch)
    assert all(one["ok"] for one in verdicts.values()), verdicts
    assert asked(site) == ORDER and count >= 3 and site.deployments() == 2


def test_what_was_set_up_by_a_killed_run_is_not_taken_back_for_want_of_leave(site: Any) -> None:
    options = {**ready(site), "image": site.image()}
    with pytest.raises(Killed):
        lead(options, "deployed", line=Line(die_at=2))
    site.faults.forget()
    _count, verdicts = parts(site, options, looks=1)
    assert verdicts[options["name"]]["ok"] and asked(site) == ORDER[1:]


def test_what_an_older_order_has_set_up_is_not_taken_for_this_one(site: Any) -> None:
    """``nodeset stat`` says the same of both, and the old one's command line has the old id."""
    options = {**deployed(site, deploy_id="d-1"), "deploy_id": "d-2", "known_deployed": True, "redeploy": True}
    count, verdicts = parts(site, options)
    assert verdicts[options["name"]]["ok"] and count >= 4
    assert asked(site) == ["nodeset offline", *ORDER]
    assert site.management.boot_lines[options["name"]].endswith("gpufleet.deploy=d-2")


def test_an_order_that_was_killed_between_its_commands_goes_on_where_it_stands(site: Any) -> None:
    for dies_at, left in ((1, ORDER), (2, ORDER[1:]), (3, ORDER[2:])):
        options = {**ready(site), "image": site.image()}
        with pytest.raises(Killed):
            lead(options, "deployed", line=Line(die_at=dies_at))
        site.faults.forget()
        line = Line()
        assert lead(options, "deployed", line=line)["ordered"] == "deployed"
        assert asked(site) == left and line.orders == ["deployed"], dies_at


def test_what_a_failed_nodeset_left_behind_is_set_up_anew(site: Any) -> None:
    """It has set ``provmethod`` before it failed, and the run was killed before it took that back."""
    options = {**ready(site), "image": site.image()}
    name = options["name"]
    with pytest.raises(Killed):
        lead(options, "deployed", line=Line(die_at=1))
    site.record(name)["provmethod"] = "gold-1"
    site.faults.forget()
    lead(options, "deployed")
    assert asked(site) == ORDER and site.deployments() == 1


class Undrained(Line):
    """The proof that these are drained is gone by the nth write that could hit running work."""

    def __init__(self, nth: int, *hosts: str) -> None:
        super().__init__()
        self._nth, self._hosts, self._seen = nth, set(hosts), 0

    def before_write(self, what: str, *, destructive: bool, nodes: tuple[str, ...] = ()) -> Any:
        self._seen += destructive and len(nodes) > 1
        if destructive and self._seen >= self._nth and self._hosts & set(nodes):
            raise EvidenceMissing("it has jobs by now", node=nodes[0])
        return super().before_write(what, destructive=destructive, nodes=nodes)


@pytest.mark.parametrize("nth", [2, 3, 4])  # nodeset, rsetboot, rpower
def test_leave_is_asked_again_before_each_command_and_who_has_none_is_taken_back(site: Any, nth: int) -> None:
    batch = [{**ready(site), "image": site.image()} for _number in range(3)]
    bad = batch[1]["name"]
    site.faults.forget()
    verdicts = await_all(site, "deployed", *batch, line=Undrained(nth, bad))["verdicts"]
    assert [verdicts[one["name"]]["ok"] for one in batch] == [True, False, True], verdicts
    assert "it has jobs by now" in verdicts[bad]["reason"] and site.deployments() == 2
    assert site.record(bad).get("currstate", "offline") == "offline" and "provmethod" not in site.record(bad)
