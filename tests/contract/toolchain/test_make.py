# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The programs behind `make`: what they find, what they copy, and that a failure is told."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
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
> @sleep 20 & echo $$! >daemon.pid; until grep -q sleep /proc/$$!/comm; do sleep 0.01; done
hangs-with-a-daemon:
> @setsid sh -c 'sleep 60 & echo $$! >daemon.pid' & sleep 60
hangs-in-a-test:
> @cp notes $$GPUFLEET_TESTS_PROGRESS; sleep 60
waits-for-the-other:
> @touch here; until [ -e there ]; do sleep 0.1; done; echo line a; sleep 0.3; echo line b
the-other:
> @touch there; until [ -e here ]; do sleep 0.1; done; echo line c; sleep 0.3; echo line d
waits-for-units:
> @until [ -e build/junit/units-2.19.xml ]; do sleep 0.1; done
"""
NOTES = """\
{"did": "starts", "test": "t::one"}
{"did": "failed", "test": "t::one", "text": "one is not two"}
{"did": "ends", "test": "t::one", "cpu": "12.5"}
{"did": "starts", "test": "t::two"}
{"did": "ends", "te
"""
REPORT = '<testsuites><testsuite tests="5" failures="1" errors="0" skipped="2"/></testsuites>'


@pytest.fixture
def steps(tmp_path):
    """Runs steps.py over a Makefile of its own."""
    (tmp_path / "Makefile").write_text(STEPS, encoding="utf-8")
    (tmp_path / "report.xml").write_text(REPORT, encoding="utf-8")
    (tmp_path / "notes").write_text(NOTES, encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}

    def command(*targets, pairs="2.19 2.21"):
        return [sys.executable, str(MAKE / "steps.py"), "--main", "2.19", "--pairs", pairs, *targets]

    def run(*targets, pairs="2.19 2.21", **more):
        settings = {**environment, "STEP_GRACE_SECONDS": "1", **more}
        return subprocess.run(
            command(*targets, pairs=pairs), cwd=tmp_path, env=settings, capture_output=True, text=True, timeout=60,
            check=False,
        )  # fmt: skip

    def start(*targets):
        settings = {**environment, "STEP_GRACE_SECONDS": "1"}
        return subprocess.Popen(command(*targets), cwd=tmp_path, env=settings, stdout=subprocess.PIPE, text=True)

    run.start = start
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


@pytest.mark.slow
def test_the_pair_that_was_left_out_is_named(steps):
    assert "ansible-core run: 2.19; not run: 2.21" in steps("setup-2.19", pairs="2.19").stdout
    assert "not run: none" in steps("setup-2.19").stdout


@pytest.mark.slow
def test_a_step_that_hangs_is_killed(steps):
    done = steps("hangs", "setup-2.19", STEP_LIMIT_SECONDS="1")
    assert done.returncode == 1
    assert result_of(done, "hangs") == "timed out"
    assert result_of(done, "setup-2.19") == "passed"


def alive(pid):
    """A zombie is dead: whoever adopted it has not looked yet."""
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] not in "ZX"


@pytest.mark.slow
def test_a_daemon_that_a_step_leaves_holds_nothing_up_and_is_named(steps, tmp_path):
    done = steps("leaves-a-daemon", STEP_LIMIT_SECONDS="15")
    pid = int((tmp_path / "daemon.pid").read_text())
    assert alive(pid)
    os.kill(pid, 9)
    assert done.returncode == 0
    assert f"left behind: sleep ({pid}: 0 s of CPU: " in done.stdout


@pytest.mark.slow
def test_a_killed_step_takes_its_daemons_with_it_and_nobody_elses(steps, tmp_path):
    with subprocess.Popen(["sleep", "60"]) as other:
        done = steps("hangs-with-a-daemon", STEP_LIMIT_SECONDS="2")
        pid = int((tmp_path / "daemon.pid").read_text())
        assert result_of(done, "hangs-with-a-daemon") == "timed out"
        assert not alive(pid) and f"sleep ({pid}: " in done.stdout
        assert other.poll() is None
        other.kill()


@pytest.mark.slow
def test_t4_a_killed_step_tells_which_tests_failed_and_which_were_running(steps):
    done = steps("hangs-in-a-test", STEP_LIMIT_SECONDS="2")
    assert result_of(done, "hangs-in-a-test") == "timed out"
    assert "failed: t::one" in done.stdout and "one is not two" in done.stdout
    assert "running: t::two" in done.stdout
    assert "tests: 0 passed, 2 failed, 0 skipped" in done.stdout
    assert "1 tests took a second of CPU or more each, together 0.2 minutes" in done.stdout
    assert "   12.5 s  hangs-in-a-test  t::one" in done.stdout


@pytest.mark.slow
def test_two_lanes_run_side_by_side_and_each_is_shown_whole(steps):
    """Each of the two waits for the other, so that one after another they would not end."""
    done = steps("--lane", "waits-for-the-other", "the-other", "lint", STEP_LIMIT_SECONDS="20")
    assert result_of(done, "waits-for-the-other") == result_of(done, "the-other") == "passed"
    assert result_of(done, "lint") == "failed" and done.returncode == 1
    assert "line a\nline b\n" in done.stdout and "line c\nline d\n" in done.stdout
    assert "steps: 2 passed, 1 failed" in done.stdout and "load average" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("busy", ["lane", "others"])
def test_what_either_lane_may_run_is_run_by_the_one_that_has_come_to_its_end(steps, busy):
    own = ("setup-2.19", "waits-for-units") if busy == "lane" else ("waits-for-units", "setup-2.19")
    done = steps("--lane", own[1], "--either", "lint units-2.19", own[0], STEP_LIMIT_SECONDS="20")
    assert result_of(done, "waits-for-units") == result_of(done, "units-2.19") == "passed", done.stdout
    assert "steps: 3 passed, 1 failed" in done.stdout, "each was run, and once"


@pytest.mark.slow
def test_what_comes_first_is_done_before_either_lane(steps):
    done = steps("--first", "setup-2.19 setup-2.21", "--lane", "units-2.19", "units-2.21")
    assert result_of(done, "units-2.19") == "passed"
    assert result_of(done, "units-2.21") == "not run", "it needs an environment whose set-up failed"


def pid_of_daemon(folder):
    """As soon as it runs."""
    end = time.monotonic() + 20
    while not ((folder / "daemon.pid").exists() and (folder / "daemon.pid").read_text().strip()):
        assert time.monotonic() < end
        time.sleep(0.1)
    return int((folder / "daemon.pid").read_text())


@pytest.mark.slow
def test_a_run_that_is_ended_from_outside_leaves_nothing_and_says_how_far_it_came(steps, tmp_path):
    process = steps.start("setup-2.19", "hangs-with-a-daemon", "units-2.19")
    pid = pid_of_daemon(tmp_path)
    process.terminate()
    said, _nothing = process.communicate(timeout=30)
    assert process.returncode == 1 and not alive(pid)
    assert "steps: 1 passed, 1 failed" in said and "stopped" in said


@pytest.mark.slow
def test_c10_signals_close_together_end_the_run_as_one_does(steps, tmp_path):
    process = steps.start("setup-2.19", "hangs-with-a-daemon", "units-2.19")
    pid = pid_of_daemon(tmp_path)
    end = time.monotonic() + 1
    while process.poll() is None and time.monotonic() < end:
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        time.sleep(0.001)
    said, _nothing = process.communicate(timeout=30)
    assert process.returncode == 1 and not alive(pid)
    assert "interrupted" in said and "steps: 1 passed, 1 failed" in said and "stopped" in said


def program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def find_python(home, *minors, path, system="/nowhere"):
    command = ["/bin/sh", str(MAKE / "find-python.sh"), *minors]
    env = {"HOME": str(home), "PATH": str(path), "SYSTEM_PYTHONS": str(system)}
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=30, check=False)


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


@pytest.mark.parametrize(("whole", "which"), [(True, "system"), (False, "path")])
def test_the_distributions_own_goes_first_where_it_can_make_environments(tmp_path, whole, which):
    broken = 'case "$*" in *ensurepip*) exit 1;; esac\n'
    for folder in ("system", "path"):
        # The path that it prints is where it says that it lies.
        says = f'[ "$1" = -c ] && case "$2" in *version_info*) echo {tmp_path / folder}; exit 0;; esac\nexit 0\n'
        lacks = "" if whole or folder == "path" else broken
        program(tmp_path / folder / f"python3.{own_minor()}", f"#!/bin/sh\n{lacks}{says}")
    found = find_python(tmp_path, own_minor(), path=tmp_path / "path", system=tmp_path / "system")
    assert (found.returncode, found.stdout.strip()) == (0, str(tmp_path / which))


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
