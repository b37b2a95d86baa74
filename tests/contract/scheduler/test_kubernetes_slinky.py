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
