# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The kept list of mutations is true: each still applies, and each part of the collection has some.

Whether a test notices them is asked by `make mutants` alone.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpufleet.baremetal.tests.mutants import kept

ROOT = Path(__file__).resolve().parents[2]
LEAST = 127
ENTRY = """---
- path: plugins/one.py
  tests: [tests/test_one.py]
  mutations:
    - why: a limit off by one
      old: "{old}"
      new: "{new}"
"""


def test_t1_every_kept_mutation_still_applies():
    complaints = kept.stale(kept.load(), ROOT)
    assert not complaints, "\n" + "\n".join(complaints)


def test_t1_the_list_is_long_and_covers_every_port_and_driver():
    mutations = kept.load()
    assert len(mutations) >= LEAST
    utils = ROOT / "plugins" / "module_utils"
    ports = {path for path in utils.glob("_*") if path.is_dir() and path.name != "__pycache__"}
    inside = {path for port in ports for path in port.iterdir() if path.is_dir() and path.name != "__pycache__"}
    # The scheduler of nodes that belong to none does nothing that could be wrong.
    parts = (ports | inside) - {utils / "_scheduler" / "none"}
    assert not [path for path in parts if not any((ROOT / one.path).is_relative_to(path) for one in mutations)]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("x < 3", "x <= 3", ""),
        ("x < 4", "x <= 4", "found 0 times"),
        ("x", "y", "found 2 times"),
        ("x < 3", "x <", "no Python"),
    ],
)
def test_a_list_that_is_no_longer_true_is_told(tmp_path, old, new, told):
    (tmp_path / "plugins").mkdir()
    (tmp_path / "tests").mkdir()
    (tmp_path / "plugins" / "one.py").write_text("x = 1\nprint(x < 3)\n".replace("x =", "y = x ="), encoding="utf-8")
    (tmp_path / "tests" / "test_one.py").touch()
    (tmp_path / "list.yml").write_text(ENTRY.format(old=old, new=new), encoding="utf-8")
    found = kept.stale(kept.load(tmp_path), tmp_path)
    assert [told in line for line in found] == ([True] if told else [])


@pytest.mark.parametrize(
    "gone", ["tests/test_one.py::test_gone", "tests/test_one.py::test_her[a]", "tests/test_two.py::test_here"]
)
def test_a_function_that_is_not_in_its_file_is_told(tmp_path, gone):
    (tmp_path / "plugins").mkdir()
    (tmp_path / "tests").mkdir()
    (tmp_path / "plugins" / "one.py").write_text("print(x < 3)\n", encoding="utf-8")
    (tmp_path / "tests" / "test_one.py").write_text("def test_here():\n    pass\n", encoding="utf-8")
    for test, told in (("tests/test_one.py::test_here[a::b]", []), (gone, [True])):
        entry = ENTRY.format(old="x < 3", new="x <= 3").replace("tests/test_one.py", f'"{test}"')
        (tmp_path / "list.yml").write_text(entry, encoding="utf-8")
        assert [f"no test {test}" in line for line in kept.stale(kept.load(tmp_path), tmp_path)] == told


def test_a_test_that_is_not_there_is_told(tmp_path):
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "one.py").write_text("print(x < 3)\n", encoding="utf-8")
    (tmp_path / "list.yml").write_text(ENTRY.format(old="x < 3", new="x <= 3"), encoding="utf-8")
    assert "no test tests/test_one.py" in kept.stale(kept.load(tmp_path), tmp_path)[0]
