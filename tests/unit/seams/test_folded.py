# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Host names in few words: what is folded stands for just those names, to Slurm, to Ansible and to a shell."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

import pytest
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible_collections.gpufleet.baremetal.plugins.module_utils._folded import folded, in_order, limit
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.hostlist import expand
from hypothesis import given
from hypothesis import strategies as st

NAMES = st.sets(st.from_regex(r"[a-c][0-9]{0,3}(-n[0-9]{1,2})?(\.ib)?", fullmatch=True), min_size=1, max_size=40)


def numbered(form: str, *numbers: int) -> list[str]:
    return [form % number for number in numbers]


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        (numbered("gpu%03d", *range(1, 181)), "gpu[001-180]"),
        (numbered("gpu%d", *range(8, 13), 20), "gpu[8-12,20]"),
        (["gpu007", "login1", "gpu003", "gpu001", "gpu002"], "gpu[001-003,007],login1"),
        ([f"r{rack}n{node:02}-ib" for rack in (1, 2) for node in (8, 9, 11)], "r[1-2]n[08-09,11]-ib"),
        (["gpu1", "gpu01"], "gpu[1,01]"),
        (["gpu1.a.example", "gpu2.a.example", "gpu1.b.example"], "gpu[1-2].a.example,gpu1.b.example"),
        (["alone"], "alone"),
        ([], ""),
    ],
)
def test_as_slurm_writes_it(names: list[str], wanted: str) -> None:
    assert folded(names) == wanted


@given(NAMES)
def test_slurm_reads_back_just_these(names: set[str]) -> None:
    assert sorted(expand(folded(names))) == sorted(names)


@given(NAMES, NAMES)
def test_ansible_takes_just_these(names: set[str], others: set[str]) -> None:
    """Among neighbours that are called much alike."""
    assert taken(limit(names), names | others) == names


@pytest.mark.parametrize("names", [numbered("gpu%d", *range(1, 21)), ["gpu8"], ["gpu30"], ["gpu8", "gpu30"]])
def test_a_group_that_is_called_as_a_host_brings_no_other_in(names: list[str]) -> None:
    group = {"gpu8": ["gpu30", "gpu31"], "gpu30": ["gpu8", "gpu31"]}
    assert taken(limit(names, group), set(numbered("gpu%d", *range(1, 40))), group) == set(names)


def taken(text: str, hosts: set[str], groups: Mapping[str, Sequence[str]] | None = None) -> set[str]:
    (word,) = shlex.split(text)
    inventory = InventoryManager(loader=DataLoader(), sources=[",".join(hosts) + ","])
    for group, members in (groups or {}).items():
        inventory.add_group(group)
        for host in members:
            inventory.add_host(host, group)
    inventory.clear_caches()
    inventory.subset(word)
    return {host.name for host in inventory.get_hosts()}


def test_many_hosts_are_a_limit_that_a_person_types() -> None:
    names = numbered("gpu%03d", *range(1, 181))
    text = limit(names)
    assert text == "'~gpu(0(0[1-9]|[1-9][0-9])|1([0-7][0-9]|80))$'"
    assert taken(text, {*names, *numbered("gpu%03d", *range(181, 400)), "gpu0011", "xgpu001"}) == set(names)


def test_few_hosts_are_named() -> None:
    assert limit(["gpu10", "gpu9", "login1"]) == "gpu9,gpu10,login1"


def test_a_name_of_other_letters_is_left_as_it_is() -> None:
    odd = ["a b1", "a b2", *numbered("gpu%03d", *range(30))]
    assert "a b1,a b2" in folded(odd) and shlex.split(limit(odd)) == [",".join(in_order(odd))]
