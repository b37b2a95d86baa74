# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""`make mutants`, over a small tree of its own: what it calls noticed, what it names, and what it leaves behind."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

CHECKOUT = Path(__file__).resolve().parents[3]
PROGRAM = (
    *("make/mutants.py", "make/mutants_noticed.py", "make/tree.py"),
    *("tests/mutants/kept.py", "tests/mutants/page.py"),
)
CODE = "def allowed(age):\n    return 0 <= age < 60\n"
TESTS = """
from ansible_collections.gpufleet.baremetal.plugins.one import allowed

def test_limit():
    assert allowed(59) and not allowed(60)
"""
ENTRIES = {
    "a limit off by one": ("age < 60", "age <= 60"),
    "a check left out": ("0 <= age < 60", "age < 60"),
    "a name that is not there": ("def allowed(age)", "def allowedd(age)"),
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "checkout"
    for folder in ("make", "tests/mutants", "plugins", "docs/reference", "build/venv"):
        (root / folder).mkdir(parents=True)
    for name in PROGRAM:
        shutil.copy(CHECKOUT / name, root / name)
    (root / "plugins/one.py").write_text(CODE, encoding="utf-8")
    (root / "tests/test_one.py").write_text(TESTS, encoding="utf-8")
    (root / "pyproject.toml").write_text("[tool.pytest.ini_options]\nmarkers = ['rack', 'slow']\n", encoding="utf-8")
    (root / ".gitignore").write_text("/build/\n", encoding="utf-8")
    lines = ["---", "- path: plugins/one.py", "  tests: [tests/test_one.py]", "  mutations:"]
    for why, (old, new) in ENTRIES.items():
        lines += [f"    - why: {why}", f"      old: {old!r}", f"      new: {new!r}"]
    (root / "tests/mutants/one.yml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    return root


def mutants(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    temporary = root.parent / "tmp"
    temporary.mkdir(exist_ok=True)
    command = [sys.executable, "make/mutants.py", "--jobs", "1", *arguments]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert list(temporary.iterdir()) == [], "the private copies are removed"
    assert not working_in(temporary), "and nothing of it goes on"
    return done


def working_in(folder: Path) -> list[str]:
    """The processes that stand in it, also where it is gone."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cwd"):
        with contextlib.suppress(OSError):
            if os.readlink(place).startswith(f"{folder}/"):
                found.append(place.parent.name)
    return found


def test_t1_survivors_are_named_and_the_checkout_stays_as_it_is(tree: Path) -> None:
    done = mutants(tree, "--write")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "3 mutations" in done.stdout and "1 noticed" in done.stdout
    assert "survived: one: a check left out (plugins/one.py)" in done.stdout
    assert "unclear: one: a name that is not there" in done.stdout, "no test was collected, so none has noticed"
    assert (tree / "plugins/one.py").read_text(encoding="utf-8") == CODE
    page = (tree / "docs/reference/mutants.md").read_text(encoding="utf-8")
    assert (
        "| one | 3 | 1 | 2 |" in page and "- one: a check left out (plugins/one.py): survived: nobody says why" in page
    )


def test_t1_what_a_page_does_not_tell_yet_can_be_asked_alone(tree: Path) -> None:
    """What was noticed then is not asked again, even where its code is another; what was not is."""
    mutants(tree, "--write")
    (tree / "plugins/one.py").write_text(CODE + "# changed\n", encoding="utf-8")
    done = mutants(tree, "--new", "--write")
    assert done.returncode == 1 and "2 mutations" in done.stdout and "off by one" not in done.stdout, done.stdout
    list_ = tree / "tests/mutants/one.yml"
    entries = list_.read_text(encoding="utf-8").replace("old: '0 <= age < 60'", "old: 'return 0 <= age < 60'")
    entries = entries.replace("new: 'age < 60'", "new: 'return age < 59'")
    list_.write_text(entries, encoding="utf-8")
    done = mutants(tree, "--new", "--write")
    assert "2 mutations" in done.stdout and "1 noticed" in done.stdout, done.stdout + done.stderr
    page = (tree / "docs/reference/mutants.md").read_text(encoding="utf-8")
    assert "| one | 3 | 2 | 1 |" in page and "one: a check left out" not in page
    assert page.count("Last run: ") == 1 and page.count("since then ") == 1 and page.count("3 mutations: ") == 1


def test_t1_a_part_of_what_a_page_does_not_tell_yet_is_added_to_it(tree: Path) -> None:
    """With what was not noticed then, which the page would lose; the rest is not asked yet."""
    mutants(tree, "--write")
    with open(tree / "tests/mutants/one.yml", "a", encoding="utf-8") as list_:
        for why, new in (("nobody of 58", "age < 58"), ("nobody below 9", "9 <= age < 60")):
            list_.write(f"    - why: {why}\n      old: 0 <= age < 60\n      new: {new}\n")
    done = mutants(tree, "--new", "--write", "--only", "nobody of")
    asked = {line.split(" s  one: ")[1].split(" (")[0] for line in done.stdout.splitlines() if " s  one: " in line}
    assert asked == {"nobody of 58", "a check left out", "a name that is not there"}, done.stdout + done.stderr
    page = (tree / "docs/reference/mutants.md").read_text(encoding="utf-8")
    assert "| one | 4 | 2 | 2 |" in page and "- one: a check left out (plugins/one.py): survived" in page


@pytest.fixture
def asked(tree: Path) -> Path:
    """The same tree, and one of its mutations was asked about and noticed."""
    files = {
        "plugins/two.py": "LIMIT = 60\n",
        "plugins/one.py": f"from ansible_collections.gpufleet.baremetal.plugins import two\n\n{CODE}",
        "plugins/three.py": "OTHER = 1\n",
        "tests/conftest.py": "",
        "tests/data.txt": "1\n",
    }
    for name, text in files.items():
        (tree / name).write_text(text, encoding="utf-8")
    first = mutants(tree, "--only", "off by one")
    assert first.returncode == 0 and BEFORE not in first.stdout, first.stdout + first.stderr
    return tree


BEFORE = "were noticed before"


def test_t1_what_was_noticed_in_a_run_over_a_part_counts_in_the_whole_run(asked: Path) -> None:
    done = mutants(asked, "--write")
    assert done.returncode == 1 and f"1 of 3 {BEFORE}" in done.stdout, done.stdout + done.stderr
    page = (asked / "docs/reference/mutants.md").read_text(encoding="utf-8")
    assert "3 mutations: 2 in " in page and ", 1 in runs since " in page and "| one | 3 | 1 | 2 |" in page
    again = mutants(asked)
    assert f"1 of 3 {BEFORE}" in again.stdout, "what no test noticed is asked again"
    anew = mutants(asked, "--anew")
    assert BEFORE not in anew.stdout and anew.stdout.count(" s  one: ") == 3


def test_t1_what_was_noticed_with_other_code_or_other_tests_is_asked_again(asked: Path) -> None:
    def known() -> bool:
        done = mutants(asked, "--only", "off by one")
        assert done.returncode == 0, done.stdout + done.stderr
        return f"1 of 1 {BEFORE}" in done.stdout

    for name in ("plugins/one.py", "plugins/two.py", "tests/test_one.py", "tests/conftest.py", "tests/data.txt"):
        with open(asked / name, "a", encoding="utf-8") as file:
            file.write("# other\n")
        assert not known(), name
    kept = asked / "tests/mutants/one.yml"
    kept.write_text(kept.read_text(encoding="utf-8").replace("age <= 60", "age < 61"), encoding="utf-8")
    assert not known(), "another mutation of the same line"
    (asked / "plugins/three.py").write_text("OTHER = 2\n", encoding="utf-8")
    notes = asked / "build/mutants/noticed.jsonl"
    notes.write_text(notes.read_text(encoding="utf-8") + '{"key": "cut sho', encoding="utf-8")
    assert known(), "nothing that it stands on has changed, and a line that was cut short spoils no other"


def test_t1_a_test_that_does_not_run_has_not_let_it_pass(tree: Path) -> None:
    with open(tree / "tests/test_one.py", "a", encoding="utf-8") as file:
        file.write("\nimport pytest\npytestmark = pytest.mark.skipif(True, reason='needs a simulator')\n")
    done = mutants(tree, "--only", "off by one")
    assert done.returncode == 1 and "unclear: one: a limit off by one" in done.stdout, done.stdout + done.stderr


def test_t1_one_of_them_by_its_words(tree: Path) -> None:
    done = mutants(tree, "--only", "off by one")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 mutations" in done.stdout
    assert mutants(tree, "--only", "off by one", "--write").returncode == 2
    none = mutants(tree, "--only", "nothing of this kind")
    assert none.returncode == 2 and "no mutation has 'nothing of this kind' in its words" in none.stderr
    assert "noticed" not in none.stdout, "nothing was asked"


def test_t1_tests_that_fail_anyway_notice_nothing(tree: Path) -> None:
    with open(tree / "tests/test_one.py", "a", encoding="utf-8") as file:
        file.write("\ndef test_red():\n    assert False\n")
    done = mutants(tree)
    assert done.returncode == 2 and "do not pass without any mutation" in done.stderr


def test_t1_a_mutation_of_code_that_is_gone_is_an_error(tree: Path) -> None:
    (tree / "plugins/one.py").write_text(CODE.replace("60", "90"), encoding="utf-8")
    done = mutants(tree)
    assert done.returncode == 2 and "a limit off by one" in done.stderr and "found 0 times" in done.stderr


def test_t1_an_entry_that_has_none_but_slow_tests_says_so_or_is_told_with_its_line(tree: Path) -> None:
    with open(tree / "tests/test_one.py", "a", encoding="utf-8") as file:
        file.write("\nimport pytest\npytestmark = pytest.mark.slow\n")
    done = mutants(tree, "--only", "off by one")
    place = "tests/mutants/one.yml:5: one: a limit off by one (plugins/one.py): all its tests are slow"
    assert done.returncode == 2 and place in done.stderr and "noticed" not in done.stdout, done.stdout + done.stderr
    kept = tree / "tests/mutants/one.yml"
    text = kept.read_text(encoding="utf-8")
    kept.write_text(text.replace("    - why: a limit", "    - slow: true\n      why: a limit"), encoding="utf-8")
    done = mutants(tree, "--only", "off by one")
    assert done.returncode == 0 and "1 mutations" in done.stdout and "1 noticed" in done.stdout, done.stdout


def test_t1_an_entry_that_no_test_can_notice_says_why_on_the_page(tree: Path) -> None:
    kept = tree / "tests/mutants/one.yml"
    text = kept.read_text(encoding="utf-8")
    kept.write_text(
        text.replace("    - why: a check left", "    - survives: nobody asks below 0\n      why: a check left"),
        encoding="utf-8",
    )
    assert mutants(tree, "--only", "a check left out").returncode == 0
    assert mutants(tree, "--write").returncode == 1, "the other one is not explained"
    page = (tree / "docs/reference/mutants.md").read_text(encoding="utf-8")
    assert "- one: a check left out (plugins/one.py): survived: nobody asks below 0" in page
    assert "): unclear: nobody says why" in page


#: In a session of its own, so that nobody's signal to the tests' group reaches it; it ends with its folder, or by time.
LINGERS = """
import os, subprocess, sys, time

WRITES = "from time import monotonic as now\\nend = now() + 4\\nwhile now() < end: open(str(now()), 'w').close()"

def test_whatever_ends_late(tmp_path):
    said = open(os.devnull, "w")
    subprocess.Popen([sys.executable, "-c", WRITES], cwd=tmp_path, stderr=said, start_new_session=True)
    time.sleep(0.5)
"""


def test_t1_what_still_writes_for_a_moment_keeps_no_copy(tree: Path) -> None:
    with open(tree / "tests/test_one.py", "a", encoding="utf-8") as file:
        file.write(LINGERS)
    mutants(tree, "--only", "off by one")
