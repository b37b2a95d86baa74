# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes of Kubernetes on which Slinky runs slurmd: users' jobs of Slurm are in its pods, and nobody's to end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import NotOurs
from contract.scheduler.site_kubernetes import KubernetesSite
from contract.scheduler.test_kubernetes import NAME, OTHER, view
from contract.scheduler.verbs import TOKEN, Line, node, verdict, wait
from kube_server.people import HOLD, REASON
from kube_server.slinky import OURS, Slinky


@pytest.fixture
def site(request: pytest.FixtureRequest, tmp_path: Path) -> KubernetesSite:
    return KubernetesSite(request, tmp_path)


@pytest.fixture
def slinky(site: KubernetesSite) -> Slinky:
    return Slinky(site.server.cluster)


def marks(site: KubernetesSite, name: str = NAME) -> dict[str, Any]:
    found: dict[str, Any] = site.raw(name)["metadata"].get("annotations") or {}
    return found


def test_h3_a_slurmd_with_users_jobs_is_waited_for_until_slurm_has_drained_it(
    site: KubernetesSite, slinky: Slinky
) -> None:
    pod, other = slinky.slurmd(site.people, NAME), site.people.pod(NAME)
    slinky.says(pod, "Allocated")
    node(site, NAME, "held")
    seen: list[str] = []

    def ends() -> None:
        seen.append(view(site).work[0].waits_for)
        assert not site.leaving(pod) and site.leaving(other)
        slinky.says(pod, "Idle", "Completing")

    def over() -> None:
        assert not site.leaving(pod)
        slinky.says(pod, "Idle")

    def gone() -> None:
        assert site.leaving(pod)
        site.end(pod)

    steps = {2: slinky.reconcile, 3: ends, 4: over, 6: gone}
    line = Line(at_poll={**steps, 5: lambda: site.end(other)})
    assert verdict(wait(site, NAME, line=line), NAME)["ok"]
    assert "still has jobs of users (Allocated)" in seen[0]


def test_h1_a_second_cordon_over_our_own_word_is_its_makers(site: KubernetesSite, slinky: Slinky) -> None:
    slinky.slurmd(site.people, NAME)
    node(site, NAME, "held")
    site.people.uncordon(NAME)
    site.people.cordon(NAME, by="kubectl-cordon")
    with pytest.raises(NotOurs, match="kubectl-cordon"):
        node(site, NAME, "resumed", known_token=TOKEN)


@pytest.mark.parametrize("states", [(), ("Idle", "Undrain")])
def test_h3_a_slurmd_that_slurm_has_not_drained_is_not_asked(
    site: KubernetesSite, slinky: Slinky, states: tuple[str, ...]
) -> None:
    """Its operator is away, or Slurm takes the drain back just now."""
    pod = slinky.slurmd(site.people, NAME)
    node(site, NAME, "held")
    if states:
        slinky.says(pod, *states)
    found = verdict(wait(site, NAME, timeout=0.5), NAME)
    assert not found["ok"] and not site.leaving(pod) and "whose Slurm node is not drained yet" in found["reason"]


def test_an_owner_of_that_name_that_is_none_of_slinkys_is_ordinary_work(site: KubernetesSite) -> None:
    pod = site.people.pod(NAME, owner="NodeSet")
    node(site, NAME, "held")
    wait(site, NAME, timeout=0.3)
    assert site.leaving(pod) and REASON not in marks(site)


def test_slurm_is_told_whose_hold_it_is_in_the_same_patch_and_the_word_goes_with_it(
    site: KubernetesSite, slinky: Slinky
) -> None:
    pod = slinky.slurmd(site.people, NAME)
    node(site, NAME, "held")
    assert len(site.faults.writes) == 1 and marks(site) == {HOLD: TOKEN, REASON: TOKEN}
    slinky.reconcile()
    assert slinky.reasons[pod] == f"{OURS}{TOKEN}"
    site.people.uncordon(NAME)
    node(site, NAME, "held", why="rma", known_token=TOKEN)
    assert marks(site)[REASON] == marks(site)[HOLD] == "gpufleet:run2:rma"
    assert node(site, NAME, "resumed", known_token="gpufleet:run2:rma").changed and marks(site) == {}
    slinky.reconcile()
    assert slinky.states[pod] == {"Idle"} and node(site, OTHER, "held").changed and marks(site, OTHER) == {HOLD: TOKEN}


def test_h1_a_word_of_somebody_elses_for_slurm_stays(site: KubernetesSite, slinky: Slinky) -> None:
    slinky.slurmd(site.people, NAME)
    site.people.patch(NAME, {"metadata": {"annotations": {REASON: "bob: fan"}}}, "kubectl-annotate")
    node(site, NAME, "held")
    assert marks(site) == {HOLD: TOKEN, REASON: "bob: fan"}
    site.people.uncordon(NAME)
    assert node(site, NAME, "resumed", known_token=TOKEN).changed and marks(site) == {REASON: "bob: fan"}


# -- whose drain it is -----------------------------------------------------------------------------------------------


def left_alone(site: KubernetesSite, pod: str, *words: str) -> None:
    found = verdict(wait(site, NAME, timeout=0.3), NAME)
    assert not found["ok"] and not site.leaving(pod) and all(word in found["reason"] for word in words), found["reason"]


def asked_to_leave(site: KubernetesSite, pod: str) -> None:
    wait(site, NAME, timeout=0.3)
    assert site.leaving(pod)


def test_h3_what_the_operator_said_of_a_persons_drain_may_be_over(site: KubernetesSite, slinky: Slinky) -> None:
    """He drained it in January and has resumed it since; the operator was away then, and users' jobs run in it."""
    pod = slinky.slurmd(site.people, NAME)
    slinky.person(pod, drains="bad fan")
    slinky.reconcile()
    slinky.person(pod)
    node(site, NAME, "held")
    left_alone(site, pod, "(bad fan)", f'State=DRAIN Reason="{OURS}{TOKEN}"')
    slinky.says(pod, "Mixed")
    left_alone(site, pod, "jobs of users (Mixed)")
    slinky.says(pod, "Idle")
    asked_to_leave(site, pod)


@pytest.mark.parametrize(
    "reason",
    [
        "",
        "bad fan",
        f"bad fan, not {OURS}{TOKEN}",
        TOKEN,
        f"{OURS}Node was cordoned",
        f"{OURS}gpufleet:run1:reimage",
        f"{OURS}{TOKEN}d",
    ],
)
def test_h3_a_drain_that_is_not_for_this_hold_is_not_believed(
    site: KubernetesSite, slinky: Slinky, reason: str
) -> None:
    """Until whoever made it makes it this hold's."""
    pod = slinky.slurmd(site.people, NAME)
    node(site, NAME, "held")
    slinky.states[pod], slinky.reasons[pod] = {"Idle", "Drain"}, reason
    slinky.cluster.change("pods", *pod.split("/"), lambda draft: slinky._told(draft, pod), "slurm-operator")
    left_alone(site, pod, f"another than this hold drained ({reason or 'none'})", "scontrol update")
    slinky.person(pod, drains=f"{OURS}{TOKEN} : Not responding")
    slinky.reconcile()
    asked_to_leave(site, pod)


def test_h3_what_it_said_of_an_earlier_hold_is_not_believed(site: KubernetesSite, slinky: Slinky) -> None:
    """The operator was away when that ended, and a person resumed the Slurm node himself."""
    pod = slinky.slurmd(site.people, NAME)
    node(site, NAME, "held")
    slinky.reconcile()
    node(site, NAME, "resumed", known_token=TOKEN)
    slinky.person(pod)
    node(site, NAME, "held", why="rma")
    left_alone(site, pod, f"({OURS}{TOKEN})")
    slinky.reconcile()
    asked_to_leave(site, pod)


def test_a_hold_that_takes_the_place_of_another_has_its_drain(site: KubernetesSite, slinky: Slinky) -> None:
    """Slinky keeps the reason of a drain as long as that lasts: so does the node, and the run after a killed one."""
    pod = slinky.slurmd(site.people, NAME)
    node(site, NAME, "held")
    slinky.reconcile()
    node(site, NAME, "held", why="rma", known_token=TOKEN)
    slinky.reconcile()
    assert marks(site) == {HOLD: "gpufleet:run2:rma", REASON: TOKEN} and slinky.reasons[pod] == f"{OURS}{TOKEN}"
    assert [hold.text for hold in view(site).holds] == ["gpufleet:run2:rma"]
    asked_to_leave(site, pod)
    assert node(site, NAME, "resumed", known_token="gpufleet:run2:rma").changed and marks(site) == {}


def test_h3_without_the_cordon_no_drain_is_the_holds(site: KubernetesSite, slinky: Slinky) -> None:
    pod = slinky.slurmd(site.people, NAME)
    node(site, NAME, "held")
    slinky.reconcile()
    site.people.uncordon(NAME)
    left_alone(site, pod, "no hold of ours with its cordon")


def test_a_long_token_is_known_by_what_slinky_hands_on_of_it(site: KubernetesSite, slinky: Slinky) -> None:
    pod, why = slinky.slurmd(site.people, NAME), "reimage " * 50
    node(site, NAME, "held", why=why)
    slinky.reconcile()
    assert len(slinky.reasons[pod]) < len(marks(site)[HOLD])
    asked_to_leave(site, pod)


def test_h1_a_word_for_slurm_that_others_wrote_in_our_form_stays(site: KubernetesSite, slinky: Slinky) -> None:
    pod, theirs = slinky.slurmd(site.people, NAME), "gpufleet:run7:theirs"
    site.people.patch(NAME, {"metadata": {"annotations": {REASON: theirs}}}, "kubectl-annotate")
    node(site, NAME, "held")
    slinky.reconcile()
    left_alone(site, pod, "held by somebody else", theirs)
    site.people.uncordon(NAME)
    assert node(site, NAME, "resumed", known_token=TOKEN).changed and marks(site) == {REASON: theirs}
