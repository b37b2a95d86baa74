# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import contextlib

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer, ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.hostlist import (
    blocks,
    check_name,
    expand,
)
from hypothesis import given
from hypothesis import strategies as st

NAME = st.from_regex(r"[a-z][a-z0-9]{0,5}", fullmatch=True)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("gpu1", ["gpu1"]),
        ("gpu[001-003]", ["gpu001", "gpu002", "gpu003"]),
        ("gpu[1,3-4],login1", ["gpu1", "gpu3", "gpu4", "login1"]),
        ("r[1-2]n[08-09]-ib", ["r1n08-ib", "r1n09-ib", "r2n08-ib", "r2n09-ib"]),
        ("gpu[099-101]", ["gpu099", "gpu100", "gpu101"]),
        ("", []),
    ],
)
def test_expand(text: str, names: list[str]) -> None:
    assert expand(text) == names


@pytest.mark.parametrize(
    "text", ["gpu[1-", "gpu]1[", "gpu[a-b]", "gpu[1-]", "gpu[]", "x[1-999999999]", "x[1-2", "x[-3]"]
)
def test_what_is_no_host_list_is_an_error(text: str) -> None:
    with pytest.raises(BadAnswer):
        expand(text)


@given(st.lists(st.tuples(NAME, st.integers(0, 999), st.integers(0, 30), st.integers(1, 5)), max_size=5))
def test_what_is_written_as_ranges_is_read_back(parts: list[tuple[str, int, int, int]]) -> None:
    text = ",".join(f"{name}[{first:0{width}}-{first + more:0{width}}]" for name, first, more, width in parts)
    wanted = [
        f"{name}{number:0{width}}" for name, first, more, width in parts for number in range(first, first + more + 1)
    ]
    assert expand(text) == wanted


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(BadAnswer):
        assert all(isinstance(name, str) for name in expand(text))


@given(st.lists(NAME, max_size=50), st.integers(1, 40))
def test_blocks_keep_all_names_in_order_and_in_bounds(names: list[str], longest: int) -> None:
    made = list(blocks(names, longest))
    assert [name for block in made for name in block] == names
    assert all(len(",".join(block)) <= longest or len(block) == 1 for block in made)


@given(st.text(max_size=20))
def test_a_name_that_passes_means_one_node(text: str) -> None:
    try:
        check_name(text)
    except ConfigError:
        return
    assert expand(text) == [text]
    assert not text.startswith("-") and text.lower() != "all" and not set(text) & set(" ,[]=;$`\n'\"")
