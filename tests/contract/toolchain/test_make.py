# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The programs behind `make`: what they find, what they copy, and that a failure is told."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

MAKE = Path(__file__).resolve().parents[3] / "make"
STEPS = """
.RECIPEPREFIX = >
setup-2.19:
> @echo an environment
setup-2.21:
> @echo no python for it; exit 1
units-2.19:
> @mkdir -p build/junit
> @cp report.xml build/junit/units-2.19.xml
units-2.21:
> @echo never to be seen
lint:
> @echo line 7 is bad; exit 3
hangs:
> @sleep 30
leaves-a-daemon:
> @sleep 20 & echo $$! >daemon.pid
"""
REPORT = '<testsuites><testsuite tests="5" failures="1" errors="0" skipped="2"/></testsuites>'


@pytest.fixture
def steps(tmp_path):
    """Runs steps.py over a Makefile of its own."""
    (tmp_path / "Makefile").write_text(STEPS, encoding="utf-8")
    (tmp_path / "report.xml").write_text(REPORT, encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}

    def run(*targets, pairs="2.19 2.21", **more):
        command = [sys.executable, str(MAKE / "steps.py"), "--main", "2.19", "--pairs", pairs, *targets]
        return subprocess.run(
            command, cwd=tmp_path, env={**environment, **more}, capture_output=True, text=True, timeout=60, check=False
        )

    return run


def result_of(done, step):
    """The step's line of the closing table."""
    table = done.stdout[done.stdout.rindex("step ") :]
    return re.search(rf"^{re.escape(step)}  +(\S.*?)  ", table, re.MULTILINE).group(1)


def test_all_steps_pass(steps):
    done = steps("setup-2.19", "units-2.19")
    assert done.returncode == 0, done.stdout
    assert "steps: 2 passed, 0 failed" in done.stdout


def test_a_failed_step_stops_no_other_and_fails_the_whole(steps):
    done = steps("lint", "units-2.19")
    assert done.returncode == 1
    assert result_of(done, "lint") == "failed"
    assert result_of(done, "units-2.19") == "passed"
    assert done.stdout.count("line 7 is bad") == 2, "shown as it came, and again at the end"


def test_without_its_environment_a_step_is_not_run(steps):
    done = steps("setup-2.19", "setup-2.21", "units-2.19", "units-2.21")
    assert done.returncode == 1
    assert result_of(done, "units-2.21") == "not run"
    assert "never to be seen" not in done.stdout
    assert "no python for it" in done.stdout[done.stdout.index("----") :]


def test_the_tests_are_counted(steps):
    done = steps("units-2.19")
    assert "2 passed, 1 failed, 2 skipped" in done.stdout


def test_the_pair_that_was_left_out_is_named(steps):
    assert "ansible-core run: 2.19; not run: 2.21" in steps("setup-2.19", pairs="2.19").stdout
    assert "not run: none" in steps("setup-2.19").stdout


def test_a_step_that_hangs_is_killed(steps):
    done = steps("hangs", "setup-2.19", STEP_LIMIT_SECONDS="1")
    assert done.returncode == 1
    assert result_of(done, "hangs") == "timed out"
    assert result_of(done, "setup-2.19") == "passed"


def test_a_daemon_that_a_step_leaves_holds_nothing_up(steps, tmp_path):
    done = steps("leaves-a-daemon", STEP_LIMIT_SECONDS="15")
    os.kill(int((tmp_path / "daemon.pid").read_text()), 9)
    assert done.returncode == 0


def program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def find_python(home, *minors, path):
    command = ["/bin/sh", str(MAKE / "find-python.sh"), *minors]
    return subprocess.run(
        command, env={"HOME": str(home), "PATH": str(path)}, capture_output=True, text=True, timeout=30, check=False
    )


def own_minor():
    return str(sys.version_info[1])


def test_a_shim_that_only_complains_is_no_python(tmp_path):
    shims = tmp_path / "shims"
    for name in (f"python3.{own_minor()}", "python3"):
        program(shims / name, "#!/bin/sh\necho pyenv: command not found >&2\nexit 127\n")
    if not Path(f"/usr/local/bin/python3.{own_minor()}").exists():
        assert find_python(tmp_path / "nobody", own_minor(), path=shims).returncode == 1
    real = tmp_path / "home" / ".pyenv" / "versions" / f"3.{own_minor()}.99" / "bin" / f"python3.{own_minor()}"
    program(real, f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    found = find_python(tmp_path / "home", own_minor(), path=shims)
    assert found.stdout.strip() == os.path.realpath(sys.executable)


def test_another_version_under_the_right_name_is_refused(tmp_path):
    program(tmp_path / "python3.8", f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    assert find_python(tmp_path, "8", path=tmp_path).returncode == 1


def git(folder, *words):
    subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True)


def test_the_copy_has_what_git_would_take_and_forgets_what_is_gone(tmp_path):
    checkout, target = tmp_path / "checkout", tmp_path / "copy"
    for name in ("tracked", "new", "ignored", "deleted"):
        program(checkout / "plugins" / name, name)
    (checkout / ".gitignore").write_text("ignored\n", encoding="utf-8")
    git(tmp_path, "init", "-q", str(checkout))
    git(checkout, "add", "plugins/tracked", "plugins/deleted")
    (checkout / "plugins" / "deleted").unlink()

    def copy():
        command = [sys.executable, str(MAKE / "tree.py"), str(target)]
        subprocess.run(command, cwd=checkout, check=True, capture_output=True)
        return target / "ansible_collections" / "gpufleet" / "baremetal"

    made = copy()
    assert sorted(path.name for path in (made / "plugins").iterdir()) == ["new", "tracked"]
    stamp = (made / "plugins" / "tracked").stat().st_ino
    (checkout / "plugins" / "new").unlink()
    made = copy()
    assert [path.name for path in (made / "plugins").iterdir()] == ["tracked"]
    assert (made / "plugins" / "tracked").stat().st_ino == stamp, "an unchanged file was copied again"
    git(made, "ls-files", "--error-unmatch", "plugins/tracked")
