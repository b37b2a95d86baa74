# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes of Kubernetes that tell of no GPUs, and whether they are waited for before they are given work."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import DeadlineExceeded
from contract.scheduler.site_kubernetes import KubernetesSite
from contract.scheduler.test_kubernetes import NAME, OTHER
from contract.scheduler.verbs import TOKEN, Line, node


@pytest.fixture
def site(request: pytest.FixtureRequest, tmp_path: Path) -> KubernetesSite:
    return KubernetesSite(request, tmp_path)


def test_a_new_object_that_tells_of_no_gpus_yet_is_waited_for_where_the_node_has_some(site: KubernetesSite) -> None:
    site.people.again(NAME, gpus=None)
    node(site, NAME, "held")
    looked = {"known_token": TOKEN, "looked_gpus": 8, "timeout": 30}
    with pytest.raises(DeadlineExceeded) as waited:
        node(site, NAME, "resumed", **{**looked, "timeout": 0.3})
    assert "no GPU registered" in waited.value.seen and site.texts(NAME) == [TOKEN]
    line = Line(at_poll={2: lambda: site.people.gpus(NAME, 8)})
    assert node(site, NAME, "resumed", line=line, **looked).changed and line.polls > 1


def test_a_node_without_gpus_and_one_whose_site_wants_something_else_are_not_waited_for(site: KubernetesSite) -> None:
    for name in (NAME, OTHER):
        site.people.again(name, gpus=None)
        node(site, name, "held")
    assert node(site, NAME, "resumed", known_token=TOKEN, looked_gpus=0, timeout=0.3).changed
    site.reached = {**site.reached, "scheduler_ready": ["nvidia.com/gpu.present=true"]}
    assert node(site, OTHER, "resumed", known_token=TOKEN, looked_gpus=8, timeout=0.3).changed
