# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The kept list of mutations is true: each still applies, and each part of the collection has some.

Whether a test notices them is asked by `make mutants` alone; its last result stands in docs/, for each list.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.gpufleet.baremetal.tests.mutants import kept, page

ROOT = Path(__file__).resolve().parents[2]
LEAST = 127
#: As make/mutants.py has it.
FAST = "not rack and not slow"
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


@pytest.mark.parametrize(("new", "told"), [("{a: 2}", ""), ("{a: 2", "no YAML")])
def test_a_playbook_is_broken_as_well_and_stays_one(tmp_path, new, told):
    (tmp_path / "tests").mkdir()
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "one.yml").write_text("---\nx: {a: 1}\n", encoding="utf-8")
    (tmp_path / "tests" / "test_one.py").touch()
    entry = ENTRY.format(old="{a: 1}", new=new).replace("plugins/one.py", "plugins/one.yml")
    (tmp_path / "list.yml").write_text(entry, encoding="utf-8")
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


def in_a_list(folder: Path, entry: str, group: str = "") -> list[kept.Mutation]:
    text = (
        f"---\n- path: plugins/one.py\n  tests: [tests/test_one.py]\n{group}  mutations:\n    - {{why: a, {entry}}}\n"
    )
    (folder / "list.yml").write_text(text, encoding="utf-8")
    return kept.load(folder)


def test_t1_an_entry_says_that_its_tests_are_slow_or_its_group_does(tmp_path):
    assert [in_a_list(tmp_path, "old: x, new: y")[0].slow, in_a_list(tmp_path, "old: x, new: y")[0].line] == [False, 5]
    assert in_a_list(tmp_path, "old: x, new: y, slow: true")[0].slow
    assert in_a_list(tmp_path, "old: x, new: y", "  slow: true\n")[0].slow


@pytest.mark.parametrize(
    ("entry", "group", "place"),
    [
        ("old: x, new: y, slow: sometimes", "", "list.yml:5: slow is true"),
        ("old: x, new: y, slow: false", "", "list.yml:5: slow is true"),
        ("old: x, new: y, fast: true", "", "list.yml:5: "),
        ("old: x", "", "list.yml:5: "),
        ("old: x, new: y", "  slows: true\n", "list.yml:2: "),
        ("old: x, new: y", "  slow: 1\n", "list.yml:2: slow is true"),
    ],
)
def test_t1_an_entry_of_another_form_is_told_with_its_line(tmp_path, entry, group, place):
    with pytest.raises(kept.Stale, match=f"^{place}"):
        in_a_list(tmp_path, entry, group)


NAMES = ("tests", "tests/a", "tests/a/test_a.py", "tests/a/test_a.py::C", "tests/a/test_a.py::C::f")


@pytest.mark.parametrize("name", [*NAMES, "tests/a/test_a.py::C::f[1::x/y]"])
def test_t1_a_fast_test_in_what_an_entry_names_is_asked(name):
    def told(slow: bool, *tests: str) -> list[str]:
        one = kept.Mutation("one", "plugins/one.py", "a", "x", "y", (name, "tests/gone"), slow, line=7)
        return kept.never_asked([one], tests)

    assert told(False, "tests/a/test_a.py::C::f[1::x/y]") == [] == told(True)
    others = told(False, "tests/b/test_a.py::f", "tests/a/test_a.py::C::f[2]") if "[" in name else told(False)
    assert [line.startswith("tests/mutants/one.yml:7: one: a (plugins/one.py): all its tests are") for line in others]


@pytest.mark.slow
def test_t1_of_every_kept_mutation_a_test_is_asked():
    """What pytest takes up of the tests that are named, where it is told to leave the slow ones out."""
    mutations = kept.load()
    files = sorted({name.partition("::")[0] for one in mutations for name in one.tests if not one.slow})
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider", "-m", FAST, *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    complaints = kept.never_asked(mutations, [line for line in done.stdout.splitlines() if "::" in line])
    assert not complaints, "\n" + "\n".join(complaints)


def test_t1_the_page_tells_the_last_result_of_this_list():
    complaints = page.complaints((ROOT / page.PAGE).read_text(encoding="utf-8"), kept.load())
    assert not complaints, "\n" + "\n".join(complaints)


def entry(why: str, part: str = "one", survives: str = "") -> kept.Mutation:
    return kept.Mutation(
        part, "plugins/one.py", why, f"old {why}", f"new {why}", ("tests/test_one.py",), False, survives
    )


#: A run over three entries, one of which no test can notice.
RUN = [(entry("a"), "noticed"), (entry("b", "two"), "noticed"), (entry("c", survives="it is all the same"), "survived")]
TOLD = page.written(RUN, "noticed", "today")


def test_t1_a_page_that_was_written_is_in_order():
    assert page.complaints(TOLD, [one for one, _result in RUN]) == []
    assert "| one | 2 | 1 | 1 |\n| two | 1 | 1 | 0 |\n| all | 3 | 2 | 1 |" in TOLD
    assert "- one: c (plugins/one.py): survived: it is all the same\n" in TOLD


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (TOLD, "# Broken lines\n", "no row for tests/mutants/one.yml"),
        ("| two | 1 | 1 | 0 |\n", "", "no row for tests/mutants/two.yml"),
        ("| all | 3 | 2 | 1 |\n", "", "do not add up"),
        ("| all | 3 |", "| all | 4 |", "do not add up"),
        ("| one | 2 | 1 |", "| one | 2 | 2 |", "do not add up"),
        ("- one: c (plugins/one.py): survived: it is all the same\n", "", "1 of one were not noticed, and 0 are named"),
        ("it is all the same", page.NOBODY, "one: c (plugins/one.py): survived: mend its test"),
        ("it is all the same", "its test does not see it yet", "one: c (plugins/one.py): survived: mend its test"),
        ("it is all the same", "odd; nobody has looked why", "one: c (plugins/one.py): survived: mend its test"),
        (f"{page.stamp(RUN[0][0])}", "", "counts other entries than it says were asked"),
    ],
)
def test_t1_a_page_that_tells_less_is_told(old, new, told):
    assert old in TOLD
    complaints = page.complaints(TOLD.replace(old, new), [one for one, _result in RUN])
    assert any(told in line for line in complaints), complaints


def test_t1_what_was_added_or_changed_since_is_named_when_it_is_much():
    fresh = [entry(f"new {number}") for number in range(page.MOST_UNASKED + 1)]
    known = [one for one, _result in RUN]
    assert page.complaints(TOLD, [*known, *fresh[1:]]) == []
    (line,) = page.complaints(TOLD, [*known, *fresh])
    assert f"{len(fresh)} entries are not asked yet" in line and fresh[0].name in line and known[0].name not in line
