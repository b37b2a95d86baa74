# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What only Kubernetes does: holds that others wipe or lift, objects that are made anew, and whose marks stand
there."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Optional

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    BadAnswer,
    Changed,
    EvidenceMissing,
    NotOurs,
    Unreachable,
    WrongMachine,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import WORK, NodeView
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.kubernetes import api
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.kubernetes.settling import unsettled
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.kubernetes.tables import SETTLES
from contract.proxy import Asked
from contract.scheduler.site_kubernetes import KubernetesSite
from contract.scheduler.verbs import RUN, TOKEN, Line, events, evidence, node, verdict, wait
from kube_server.people import HOLD

NAME, OTHER = "gpu001", "gpu002"


@pytest.fixture
def site(request: pytest.FixtureRequest, tmp_path: Path) -> KubernetesSite:
    return KubernetesSite(request, tmp_path)


def view(site: KubernetesSite, name: str = NAME) -> NodeView:
    found: NodeView = site.open().states([name])[name]
    return found


def taints(site: KubernetesSite, name: str = NAME) -> list[str]:
    return [one["key"] for one in site.raw(name)["spec"].get("taints") or []]


def known(site: KubernetesSite, name: str = NAME) -> dict[str, Any]:
    """As the ledger has a hold of ours on the object that is there now."""
    return {"known_runs": [RUN], "known_token": TOKEN, "known_incarnation": site.raw(name)["metadata"]["uid"]}


def batch(site: KubernetesSite, about: dict[str, Any], line: Optional[Line] = None, **options: Any) -> Any:
    return wait(site, nodes=[{"host": NAME, **about}], line=line, **options)


# -- the hold ------------------------------------------------------------------------------------------------------


def test_h4_a_hold_is_one_patch_that_compares_and_leaves_the_taints_of_others(site: KubernetesSite) -> None:
    site.people.taint(NAME, "nvidia.com/gpu", "present")
    site.people.taint(NAME, "site.example.com/rack", "r1", effect="PreferNoSchedule")
    was = site.raw(NAME)["metadata"]
    assert node(site, NAME, "held").changed
    (write,) = site.faults.writes
    body = json.loads(write.body)
    assert body["metadata"]["uid"] == was["uid"] and body["metadata"]["resourceVersion"] == was["resourceVersion"]
    assert "fieldManager=gpufleet" in write.what and "fieldValidation=Strict" in write.what
    found = site.raw(NAME)
    assert found["spec"]["unschedulable"] is True and found["metadata"]["annotations"] == {HOLD: TOKEN}
    assert {"nvidia.com/gpu", "site.example.com/rack", HOLD} < set(taints(site))
    assert {"key": HOLD, "value": RUN, "effect": "NoSchedule"} in found["spec"]["taints"]
    assert node(site, NAME, "resumed", known_token=TOKEN).changed
    assert taints(site) == ["nvidia.com/gpu", "site.example.com/rack"]
    assert "unschedulable" not in site.raw(NAME)["spec"] and "annotations" not in site.raw(NAME)["metadata"]


@pytest.mark.parametrize("what", ["heartbeat", "again"])
def test_h4_what_changes_between_the_last_look_and_the_patch_is_not_written_over(
    site: KubernetesSite, what: str
) -> None:
    driver, free = site.open(), view(site)

    def first(asked: Asked) -> None:
        if asked.method == "PATCH":
            getattr(site.people, what)(NAME)

    site.proxy.fault = first
    with pytest.raises(Changed):
        driver.hold(free, TOKEN, WORK)
    assert site.texts(NAME) == [] and len(site.faults.writes) == 1


def test_h1_somebody_who_lifts_the_cordon_lifts_no_hold(site: KubernetesSite) -> None:
    node(site, NAME, "held")
    site.people.uncordon(NAME, by="k8s-driver-manager")
    seen = node(site, NAME, "present", known_token=TOKEN)
    assert seen.data["state"] == "drained" and "taint alone" in seen.data["native"] and evidence(seen) == "drained"
    site.people.cordon(NAME, by="kubectl-cordon")
    with pytest.raises(NotOurs, match="kubectl-cordon"):
        node(site, NAME, "resumed", known_token=TOKEN)
    assert site.raw(NAME)["spec"]["unschedulable"] is True


def test_h1_our_hold_is_lifted_where_somebody_has_lifted_its_cordon(site: KubernetesSite) -> None:
    node(site, NAME, "held")
    site.people.uncordon(NAME)
    assert node(site, NAME, "resumed", known_token=TOKEN).changed and site.texts(NAME) == []


def test_h1_a_hold_whose_taint_somebody_wiped_holds_nothing_and_is_put_on_anew(site: KubernetesSite) -> None:
    node(site, NAME, "held")
    site.people.uncordon(NAME)
    site.people.wipe_taints(NAME)
    job = site.start(NAME)
    line = Line()
    found = verdict(wait(site, NAME, line=line), NAME)
    assert not found["ok"] and "keeps nothing away" in found["reason"] and line.polls == 1 and not site.leaving(job)
    assert evidence(node(site, NAME, "present", known_token=TOKEN)) == "not_drained"
    held = node(site, NAME, "held", known_token=TOKEN)
    assert held.changed and held.data["state"] == "draining" and HOLD in taints(site)


def test_h1_our_taint_without_a_word_or_with_another_runs_is_somebodys(site: KubernetesSite) -> None:
    site.people.taint(NAME, HOLD, RUN)
    site.people.hold(OTHER, TOKEN, "run9", by="kubectl")
    for name in (NAME, OTHER):
        with pytest.raises(NotOurs, match="without its"):
            node(site, name, "held", known_runs=[RUN])
    assert site.faults.writes == []


def test_h1_a_run_whose_id_is_no_label_holds_all_the_same(site: KubernetesSite) -> None:
    run = f"-{'r' * 80}_."
    held = node(site, NAME, "held", run_id=run, known_runs=[run])
    assert held.data["owner"] == "ours" and held.data["state"] == "drained"


def test_h1_whose_marks_stand_on_a_node_is_told_by_their_writers(site: KubernetesSite) -> None:
    labels = {"dgxc.nvidia.com/nvsentinel-state": "quarantined"}
    site.people.patch(NAME, {"metadata": {"labels": labels}}, "fault-quarantine")
    site.people.patch(
        OTHER, {"metadata": {"labels": {"nvidia.com/gpu-driver-upgrade-state": "pod-restart-required"}}}, "upgrade"
    )
    site.people.taint("gpu003", "example.com/broken", "fan")
    for name, by in ((NAME, "fault-quarantine"), (OTHER, "upgrade"), ("gpu003", "kubectl-taint")):
        with pytest.raises(NotOurs, match=by):
            node(site, name, "held")
    done = {"nvidia.com/gpu-driver-upgrade-state": "upgrade-done"}
    site.people.patch(OTHER, {"metadata": {"labels": done}}, "upgrade")
    assert node(site, OTHER, "held").changed and len(site.faults.writes) == 1


def test_h1_a_node_that_the_gpu_operator_upgrades_is_its_own_before_it_cordons(site: KubernetesSite) -> None:
    """Each state of its upgrades in which the node is not done."""
    for state in (
        *(
            "cordon-required",
            "wait-for-jobs-required",
            "pod-deletion-required",
            "drain-required",
            "validation-required",
        ),
        *("node-maintenance-required", "post-maintenance-required", "uncordon-required", "upgrade-failed"),
    ):
        site.people.patch(NAME, {"metadata": {"labels": {"nvidia.com/gpu-driver-upgrade-state": state}}}, "upgrade")
        with pytest.raises(NotOurs, match="upgrade"):
            node(site, NAME, "held")
    assert not site.faults.writes


def test_h1_taints_that_a_site_calls_standing_are_no_hold(site: KubernetesSite) -> None:
    site.people.taint(NAME, "example.com/dedicated", "ml")
    site.people.taint(OTHER, "example.com/dedicated", "db")
    site.reached = {**site.reached, "scheduler_taints": ["example.com/dedicated=ml"]}
    assert view(site).in_service and not view(site, OTHER).in_service


# -- an object that is made anew -----------------------------------------------------------------------------------


def test_a_node_whose_object_was_made_anew_is_held_again_while_it_is_waited_for(site: KubernetesSite) -> None:
    node(site, NAME, "held")
    about = known(site)
    site.people.again(NAME)
    assert view(site).in_service
    result = batch(site, about)
    assert verdict(result, NAME)["ok"] and site.texts(NAME) == [TOKEN]
    assert events(result) == [("hold", "taken"), ("evidence", "drained")]
    assert result.events[0].data["incarnation"] == site.raw(NAME)["metadata"]["uid"] != about["known_incarnation"]


def test_a_node_whose_object_was_made_anew_is_held_before_it_is_given_back(site: KubernetesSite) -> None:
    node(site, NAME, "held")
    about = known(site)
    site.people.again(NAME)
    assert events(node(site, NAME, "present", **about)) == [("evidence", "in_service")], "nobody has lifted it"
    with pytest.raises(NotOurs, match="nothing shows"):
        node(site, NAME, "resumed", lacks="a valid passport", **about)
    assert site.texts(NAME) == [TOKEN]


@pytest.mark.parametrize("where", ["here", "in slices elsewhere"])
def test_who_gives_back_what_was_held_again_has_given_it_back(site: KubernetesSite, where: str) -> None:
    """A drain of hours goes on; whose record that is, it knows since it has held it again."""
    node(site, NAME, "held")
    about = known(site)
    site.people.again(NAME)
    if where == "here":
        line = Line(at_poll={2: lambda: site.people.free(NAME)})
        result = batch(site, about, line)
    else:
        part = dict(batch(site, about, timeout=0.0, slice={"elapsed": 0.0, "timeout": 60.0}).data["slice"])
        assert site.texts(NAME) == [TOKEN] and part["again"]
        site.people.free(NAME)
        line = Line()
        result = batch(site, about, line, timeout=0.0, slice={"elapsed": 1.0, "timeout": 60.0, "again": part["again"]})
    assert not verdict(result, NAME)["ok"] and site.texts(NAME) == [] and line.writes == (where == "here")
    assert events(result) == [("hold", "taken"), ("evidence", "in_service")]


def test_whose_lease_is_lost_tells_of_no_hold_that_was_put_on_again(site: KubernetesSite) -> None:
    node(site, NAME, "held")
    about = known(site)
    site.people.again(NAME)

    class Losing(Line):
        def lost(self) -> dict[str, str]:
            return {NAME: "another run has it"} if self.polls > 1 else {}

    line = Losing()
    result = batch(site, about, line)
    assert line.writes == 1 and verdict(result, NAME)["reason"] == "another run has it" and events(result) == []


def test_a_node_that_a_person_gave_back_is_not_held_again(site: KubernetesSite) -> None:
    node(site, NAME, "held")
    about = known(site)
    site.people.free(NAME)
    assert not verdict(batch(site, about), NAME)["ok"] and site.texts(NAME) == []
    assert ("hold", "released") in events(node(site, NAME, "present", **about))


def test_a_new_object_of_another_machine_is_not_touched(site: KubernetesSite) -> None:
    node(site, NAME, "held")
    about = {**known(site), "known_uuids": ["aaaaaaaa-0000-4000-8000-000000000001"]}
    site.people.again(NAME, machine="bbbbbbbb-0000-4000-8000-000000000002")
    site.faults.forget()
    for state in ("held", "resumed", "present"):
        with pytest.raises(WrongMachine, match="runs on another machine"):
            node(site, NAME, state, **about)
    assert verdict(batch(site, about), NAME)["kind"] == "wrong_machine"
    assert site.faults.writes == []
    # SMBIOS 2.6 turned the first fields round.
    turned = {**about, "known_uuids": ["bbbbbbbb-0000-0040-8000-000000000002"]}
    assert node(site, NAME, "held", **turned).changed


def test_a_hold_proves_nothing_before_pods_that_were_on_their_way_are_bound(site: KubernetesSite) -> None:
    site.server.passed = SETTLES - 5
    held = node(site, NAME, "held")
    assert evidence(held) == "not_drained"
    found = wait(site, NAME, timeout=0)
    assert not verdict(found, NAME)["ok"] and f"younger than {SETTLES} s" in verdict(found, NAME)["reason"]
    assert evidence(found) == "not_drained"
    job = site.start(NAME)  # a binding asks for no cordon
    site.server.passed = SETTLES + 1
    assert [one.partition("@")[0] for one in view(site).jobs] == [job] and view(site).state == "draining"
    site.people.ends(job)
    found = wait(site, NAME, timeout=0)
    assert verdict(found, NAME)["ok"] and evidence(found) == "drained"


def test_where_no_time_is_told_no_hold_settles() -> None:
    since, later = "2026-11-21T20:39:51Z", "Sat, 21 Nov 2026 20:41:21 GMT"
    assert unsettled(since, later, 90) == "" and "younger" in unsettled(since, later, 91)
    assert all("tells no time" in unsettled(*told, 90) for told in (("", later), (since, ""), (since, "soon")))


def test_an_object_that_is_being_deleted_is_not_drained(site: KubernetesSite) -> None:
    node(site, NAME, "held")
    ends = {"metadata": {"deletionTimestamp": "2026-11-21T20:39:51Z", "finalizers": ["example.com/keep"]}}
    site.people.patch(NAME, ends, "kubectl-delete")
    found = verdict(wait(site, NAME, timeout=0), NAME)
    assert not found["ok"] and view(site).waits_for == "its object is being deleted"


# -- its kubelet, and its GPUs -------------------------------------------------------------------------------------


def test_a_node_whose_gpus_are_still_to_be_registered_is_waited_for_and_stays_held(site: KubernetesSite) -> None:
    node(site, NAME, "held")
    site.people.gpus(NAME, 0, 0)
    seen = node(site, NAME, "present", known_token=TOKEN)
    assert not seen.data["answers"] and "no GPU registered yet" in seen.data["native"]
    assert seen.data["blocks_resume"] == []
    line = Line(at_poll={2: lambda: site.people.gpus(NAME, 8)})
    assert node(site, NAME, "resumed", known_token=TOKEN, timeout=30, line=line).changed


def test_what_a_site_wants_to_see_of_a_node_is_asked_before_a_resume(site: KubernetesSite) -> None:
    site.reached = {**site.reached, "scheduler_ready": ["nvidia.com/gpu=8", "nvidia.com/gpu.deploy.dcgm=true"]}
    assert "waits for: no nvidia.com/gpu.deploy.dcgm=true" in view(site).native and not view(site).answers
    site.people.patch(NAME, {"metadata": {"labels": {"nvidia.com/gpu.deploy.dcgm": "true"}}}, "gpu-operator")
    assert view(site).in_service
    site.people.gpus(NAME, 7, 7)
    seen = view(site)
    assert seen.finding == "7 of 8 nvidia.com/gpu" and [one.seen for one in seen.blocks_resume] == [seen.finding]


def test_what_detectors_of_others_find_is_told(site: KubernetesSite) -> None:
    site.people.condition(NAME, "GpuNvlinkWatch", "True")
    assert view(site).finding.startswith("GpuNvlinkWatch") and view(site).in_service


def test_the_boot_that_was_looked_at_is_known_by_its_id_and_another_one_is_not_given_work(site: KubernetesSite) -> None:
    """Nobody asks the node: its kubelet tells the boot in the node's own words."""
    node(site, NAME, "held")
    looked = {"known_token": TOKEN, "looked_ago": 5.0, "looked_boot": "boot-0"}
    with pytest.raises(EvidenceMissing):
        node(site, NAME, "resumed", **looked)
    assert site.texts(NAME) == [TOKEN]
    assert node(site, NAME, "resumed", **{**looked, "looked_boot": f"boot-1-of-{NAME}"}).changed


def test_a_node_that_keeps_silent_is_nobody_elses(site: KubernetesSite) -> None:
    site.silence(NAME)
    seen = node(site, NAME, "present")
    assert seen.data["owner"] == "free" and seen.data["state"] == "unknown" and evidence(seen) == "not_drained"
    assert node(site, NAME, "held").data["owner"] == "ours"


# -- lists ---------------------------------------------------------------------------------------------------------


def test_a_node_whose_host_name_is_another_one_is_found(site: KubernetesSite) -> None:
    site.people.node("gpu004", **{"kubernetes.io/hostname": "ip-10-0-0-4"})
    site.people.node("ip-10-0-0-9", **{"kubernetes.io/hostname": OTHER})
    views = site.open().states([NAME, OTHER, "gpu004", "gpu999"])
    assert [one.state for one in views.values()] == ["idle", "idle", "idle", "absent"]
    known_as = site.open().known()
    assert "ip-10-0-0-4" in known_as["gpu004"] and any(one.startswith("10.0.0.") for one in known_as["gpu004"])


def test_a_name_that_is_too_long_for_a_label_spoils_no_batch(site: KubernetesSite) -> None:
    long = "-".join(["gpu001", *["rack"] * 12])
    site.people.node(long, **{"kubernetes.io/hostname": "gpu001-rack"})
    views = site.open().states([NAME, OTHER, long, f"{long}-2"])
    assert [one.state for one in views.values()] == ["idle", "idle", "idle", "absent"]


def test_a_list_whose_pages_expire_is_begun_anew_and_given_up(site: KubernetesSite) -> None:
    site.server.page = 2
    assert set(site.open().known()) == set(site.names)
    left = iter([True])

    def once(asked: Asked) -> None:
        if "continue=" in asked.query and next(left, False):
            site.server.cluster.compact()

    site.proxy.fault = once
    assert set(site.open().known()) == set(site.names) and next(left, None) is None
    site.proxy.fault = lambda asked: site.server.cluster.compact() if "continue=" in asked.query else None
    with pytest.raises(Unreachable, match="pages of the list expire"):
        site.open().known()


@pytest.mark.parametrize(("tokens", "pages"), [(["a"] * 20, 2), (["a", "b"] * 20, 3), (range(99), 20)])
def test_a_list_whose_pages_never_end_is_given_up(
    site: KubernetesSite, monkeypatch: pytest.MonkeyPatch, tokens: Iterable[object], pages: int
) -> None:
    left = map(str, tokens)
    monkeypatch.setattr(api, "PAGES", 20)

    def page(asked: Asked) -> tuple[int, dict[str, str], bytes]:
        content = {"kind": "NodeList", "metadata": {"continue": f"page {next(left)}"}, "items": []}
        return 200, {"Content-Type": "application/json"}, json.dumps(content).encode()

    site.proxy.fault = page
    with pytest.raises(BadAnswer, match="do not come to an end"):
        site.open().known()
    assert len(site.proxy.asked) == pages


def test_an_object_that_cannot_be_read_spoils_no_batch(site: KubernetesSite) -> None:
    site.raw(OTHER)["spec"]["taints"] = "none"
    views = site.open().states(site.names)
    assert views[NAME].in_service and "taints is no list" in views[OTHER].unread
    found = wait(site, NAME, OTHER, until="idle", timeout=0.3).data["verdicts"]
    assert found[NAME]["ok"] and found[OTHER]["kind"] == "bad_answer"
    with pytest.raises(BadAnswer):
        site.open().states([OTHER])


# -- who we are ----------------------------------------------------------------------------------------------------
