# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The topology as labels of Kubernetes's nodes: ours alone are written, and only where they differ."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, Unsupported
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.map import topology_file
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.registry import open_scheduler
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Result
from contract.scheduler.site_kubernetes import KubernetesSite

LEAVES = {"leaf-a1": ["gpu001"], "leaf-b1": ["gpu002"]}
BOTH: list[dict[str, Any]] = [
    {"units": LEAVES, "switches": {"pod1": ["leaf-a1", "leaf-b1"], "core": ["pod1"]}},
    {"name": "nvl72", "kind": "block", "units": {"r1": ["gpu001", "gpu002"]}},
]


@pytest.fixture
def site(request: pytest.FixtureRequest, tmp_path: Path) -> KubernetesSite:
    return KubernetesSite(request, tmp_path)


def written(site: KubernetesSite, topologies: list[dict[str, Any]], check_mode: bool = False, **more: Any) -> Result:
    params = {**site.connection, "format": "labels", "topologies": topologies, "reconfigure": True, "timeout": 2}
    ctx = Context(check_mode=check_mode, diff=True)
    done = topology_file({**params, "interval": 0.1, **more}, ctx)
    done.data["warned"] = ctx.warnings
    return done


def ours(site: KubernetesSite, name: str) -> dict[str, str]:
    labels = site.raw(name)["metadata"]["labels"]
    return {key.partition("/")[2]: value for key, value in labels.items() if key.startswith("gpufleet.io/")}


def patched(site: KubernetesSite) -> list[str]:
    return [one.path for one in site.proxy.asked if one.method == "PATCH"]


def test_each_level_is_a_label_and_nobody_elses_label_is_touched(site: KubernetesSite) -> None:
    site.raw("gpu001")["metadata"]["labels"]["gpufleet.io/tier"] = "a person's"
    before = dict(site.raw("gpu002")["metadata"]["labels"])
    assert written(site, BOTH, check_mode=True).changed and not patched(site)
    done = written(site, BOTH)
    assert done.changed and "+" not in done.data["diff"]["before"]
    assert ours(site, "gpu002") == {"leaf": "leaf-b1", "switch-1": "pod1", "switch-2": "core", "nvlink-domain": "r1"}
    assert before.items() <= site.raw("gpu002")["metadata"]["labels"].items()
    assert ours(site, "gpu001")["tier"] == "a person's"
    sent = len(patched(site))
    assert not written(site, BOTH).changed and len(patched(site)) == sent == 2

    moved = [{"units": {"leaf-a1": ["gpu001", "gpu002"]}}]
    assert written(site, moved).changed
    assert ours(site, "gpu002") == {"leaf": "leaf-a1"} and ours(site, "gpu001")["tier"] == "a person's"
    site.proxy.forget()
    alone = [{"units": {"leaf-a1": ["gpu001"]}}]
    lost = written(site, alone, check_mode=True)
    assert [text for text in lost.data["warned"] if "without a place" in text and "gpu002" in text], lost.data
    assert written(site, alone).changed and ours(site, "gpu002") == {}
    assert [path.rsplit("/", 1)[1] for path in patched(site)] == ["gpu002"], "who has its labels is not written to"


def test_what_somebody_has_changed_since_it_was_read_is_left(site: KubernetesSite) -> None:
    keeper = open_scheduler(site.connection).topology("labels", "")
    keeper.put("gpu001 gpufleet.io/leaf=leaf-a1\n", over="gpu001 gpufleet.io/leaf=leaf-b1\n")
    assert not patched(site) and ours(site, "gpu001") == {}
    keeper.put("gpu001 gpufleet.io/leaf=leaf-a1\n", over="")
    assert ours(site, "gpu001") == {"leaf": "leaf-a1"}


@pytest.mark.parametrize(
    ("topologies", "words"),
    [
        ([{"units": {"leaf-a1": ["gpu001"], "leaf-b1": ["gpu001"]}}], "gpu001 is in leaf-a1 and leaf-b1"),
        ([{"units": {"leaf-a1": ["gpu999"]}}], "does not know gpu999"),
        ([{"units": {"leaf-a1.": ["gpu001"]}}], "is no value of a label"),
        ([BOTH[0], {**BOTH[0], "name": "x"}], "several of the kind tree"),
    ],
)
def test_it_is_checked_before_anything_is_written(site: KubernetesSite, topologies: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        written(site, topologies)
    assert not patched(site)


def test_a_file_of_slurm_is_none_of_kubernetes(site: KubernetesSite) -> None:
    with pytest.raises(Unsupported, match="give format labels"):
        written(site, BOTH, format="conf")
