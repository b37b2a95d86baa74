# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""provisioner_info over every driver: the same words for the same things, and one look for all."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import AuthFailed, Unreachable
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.info import info
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from calls import Line, declined, deployed, lead, ready


def look(site: Any, *batch: dict[str, Any], **more: Any) -> dict[str, Any]:
    line = Line()
    ctx = Context(lifeline=line)
    keys = ("boot_mac", "serial", "provisioner_id", "image", "known_deployed", "known_deploy_ids", "known_runs")
    nodes = [{"host": one["name"], **{key: one[key] for key in keys if key in one}} for one in batch]
    result = info({**site.connection(), "driver": site.extras, "nodes": nodes, **more}, ctx).as_dict(ctx)
    assert not result["changed"] and line.writes == [] and site.faults.writes == []
    return result


def test_the_states_of_a_batch_in_one_look(site: Any) -> None:
    new, there, runs = site.new(), ready(site), deployed(site, deploy_id="41")
    site.faults.forget()
    told = look(site, new, there, runs, thorough=True)
    seen = {host: one["state"] for host, one in told["verdicts"].items()}
    assert seen == {new["name"]: "absent", there["name"]: "ready", runs["name"]: "deployed"}
    assert all(one["ok"] and one["kind"] == "" and one["foreign"] == "" for one in told["verdicts"].values())
    assert told["provisioner"] == site.name and told["deploy_proof"] == site.driver.deploy_proof
    one = told["verdicts"][runs["name"]]
    assert one["image"]["version"] == "1" and one["deploy_id"] == "41" and one["provision_state"]
    assert one["agrees"] and runs["boot_mac"] in one["network"]["macs"]
    assert told["verdicts"][there["name"]]["inspection"] == ("passed" if site.driver.inspects else "unsupported")
    assert told["can"]["owns_power"] == site.driver.owns_power


def test_one_look_for_many(site: Any) -> None:
    few = [{**site.new(), "name": name} for name in site.many(2)]
    many = [*few, *({**site.new(), "name": name} for name in site.many(20))]
    counts = []
    for batch in (few, many):
        site.faults.forget()
        verdicts = look(site, *({"name": one["name"]} for one in batch))["verdicts"]
        assert len(verdicts) == len(batch) and all(one["ok"] for one in verdicts.values()), verdicts
        counts.append(len(site.faults.reads))
    assert counts[0] == counts[1], "as many requests for 22 nodes as for two"


def test_who_sees_not_all_tells_of_no_machine_that_it_is_absent(maas_site: Any) -> None:
    options = maas_site.new()
    assert look(maas_site, options)["verdicts"][options["name"]]["state"] == "absent"
    told = look(maas_site, options, **maas_site.without("administrator"))["verdicts"][options["name"]]
    assert not told["ok"] and told["state"] == "unknown" and "it sees not all" in told["reason"], told


def test_whose_it_is(site: Any) -> None:
    options = deployed(site)
    assert look(site, options)["verdicts"][options["name"]]["foreign"] == ""
    stranger = look(site, {**options, "known_deployed": False})["verdicts"][options["name"]]
    assert stranger["ok"] and "our ledger has no note" in stranger["foreign"]
    if not declined(site, "holds", lambda: lead(options, "maintenance")):
        lead(options, "maintenance", run_id="run7", why="reseat")
        site.faults.forget()
        held = look(site, options)["verdicts"][options["name"]]
        assert held["maintenance"] and held["hold"] == "gpufleet:run7:reseat" and held["foreign"] == ""
    for mark in site.marks:
        marked = deployed(site)
        mark(marked["name"])
        site.faults.forget()
        assert look(site, marked)["verdicts"][marked["name"]]["foreign"]


def test_what_is_wrong_with_one_is_told_of_that_one(site: Any) -> None:
    good, other = ready(site), ready(site)
    site.other_serial(other["name"], "S-other")
    site.faults.forget()
    batch = [good, other, {**site.new(), "boot_mac": good["boot_mac"]}]
    verdicts = look(site, *batch, thorough=True)["verdicts"]
    assert [verdicts[one["name"]]["ok"] for one in batch] == [True, False, False]
    wrong = verdicts[other["name"]]
    assert wrong["kind"] == "wrong_machine" and "S-other" in wrong["reason"] and wrong["state"] == "ready"
    taken = verdicts[batch[2]["name"]]
    assert taken["kind"] == "wrong_machine" and taken["state"] == "unknown"


def test_a_host_of_another_place_is_none_of_this_call(site: Any) -> None:
    options = ready(site)
    elsewhere = {"host": "gpu-elsewhere", "provisioner_url": "http://127.0.0.2:9"}
    refused = {"host": "gpu-refused", "refused": "its boot_mac cannot be read", "refused_kind": "config"}
    ctx = Context()
    nodes = [{"host": options["name"], "boot_mac": options["boot_mac"]}, elsewhere, refused]
    verdicts = info({**site.connection(), "driver": site.extras, "nodes": nodes}, ctx).data["verdicts"]
    assert verdicts[options["name"]]["ok"]
    for host, words in (("gpu-elsewhere", "in separate plays"), ("gpu-refused", "cannot be read")):
        assert not verdicts[host]["ok"] and verdicts[host]["kind"] == "config" and words in verdicts[host]["reason"]
        assert verdicts[host]["state"] == "unknown"


def test_what_is_in_the_way_of_all_is_the_tasks_error(site: Any) -> None:
    options = site.new()
    with pytest.raises(AuthFailed):
        look(site, options, **site.wrong_login())
    site.faults.forget()
    with pytest.raises(Unreachable):
        look(site, options, **site.nowhere())
