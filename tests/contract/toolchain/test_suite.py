# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What all tests run under: in CI a skip is a failure, and how far a run came can be read after its end."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import yaml
from contract import newcomers
from suite import handed_on, threads

CHECKOUT = Path(__file__).resolve().parents[3]
SILENT = """
import pytest

@pytest.mark.skipif(True, reason="needs slurmctld")
def test_marked(): pass

def test_inside(): pytest.skip("no PostgreSQL server here")

@pytest.fixture
def service(): pytest.skip("needs ipmi_sim")

def test_in_a_fixture(service): pass
"""
SPOKEN = """
import pytest
from recorded import ABSENT
from suite.skips import not_applicable

def test_no_such_case(): not_applicable("this one always obeys")

def test_recorded(): pytest.skip(ABSENT)

@pytest.mark.xfail
def test_known(): assert False
"""
RECORDED = """
from recorded import demanded
def test_absent(): demanded("maas")
def test_empty(): demanded("gates")
def test_others(): demanded("redfish", "*.tar.xz")
"""
MODULE = """
import pytest
pytest.importorskip("no_such_library")
def test_never_seen(): pass
"""
HANGS = """
import time
def test_good(): pass
def test_bad(): assert 1 == 2, "one is not two"
def test_hangs(): time.sleep(60)
"""


@pytest.fixture
def suite(tmp_path):
    """Runs pytest on one file of tests in a folder that has this collection's conftest.py and nothing else of it."""
    (tmp_path / "conftest.py").symlink_to(CHECKOUT / "tests" / "conftest.py")

    def command(text):
        (tmp_path / "test_it.py").write_text(text, encoding="utf-8")
        plain = ["-p", "no:cacheprovider", "-rs", "-c", os.devnull, "--rootdir", str(tmp_path)]
        return [sys.executable, "-m", "pytest", *plain, str(tmp_path / "test_it.py")]

    def run(text, *options, ci="true", **more):
        kept = {name: value for name, value in os.environ.items() if name not in handed_on.NAMES}
        settings = {**kept, "CI": ci, **more}
        # xdist tells a process that it is a worker; the one started here is none.
        settings = {name: value for name, value in settings.items() if not name.startswith("PYTEST_XDIST")}
        return subprocess.run(
            [*command(text), *options],
            cwd=tmp_path, env=settings, capture_output=True, text=True, timeout=90, check=False,
        )  # fmt: skip

    run.command = command
    return run


@pytest.mark.slow
@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["alone", "workers"])
def test_t4_in_ci_a_skip_fails_the_run_and_says_why(suite, workers):
    done = suite(SILENT, *workers)
    assert done.returncode == 1, done.stdout
    assert "1 failed, 2 errors" in done.stdout, done.stdout
    for reason in ("needs slurmctld", "no PostgreSQL server here", "needs ipmi_sim"):
        assert f"skipped in CI: {reason}" in done.stdout


@pytest.mark.slow
def test_t4_in_ci_a_file_that_skips_itself_fails_the_run(suite):
    done = suite(MODULE)
    assert done.returncode not in (0, 5), done.stdout
    assert "skipped in CI" in done.stdout and "no_such_library" in done.stdout


@pytest.mark.slow
def test_t4_what_says_nothing_here_may_be_skipped_in_ci(suite):
    done = suite(SPOKEN)
    assert done.returncode == 0, done.stdout
    assert "2 skipped, 1 xfailed" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("ci", ["", "true"])
def test_t4_who_names_a_folder_of_recorded_outputs_is_told_that_they_are_not_there(suite, tmp_path, ci):
    for folder in ("gates", "redfish"):  # one is not there, one is empty, one has other files
        (tmp_path / folder).mkdir()
    (tmp_path / "redfish" / "notes.txt").write_text("", encoding="utf-8")
    done = suite(RECORDED, ci=ci, GPUFLEET_RECORDED_DATA=str(tmp_path))
    assert done.returncode == 1 and "3 failed" in done.stdout and "skipped" not in done.stdout, done.stdout
    assert f"GPUFLEET_RECORDED_DATA is {tmp_path}, and there is no redfish/*.tar.xz in it" in done.stdout


def test_recorded_outputs_are_found_beside_a_checkout(tmp_path):
    """In whatever folder; one that has a kind too few is something else."""
    (tmp_path / "checkout" / "tests").mkdir(parents=True)
    shutil.copy(CHECKOUT / "tests" / "recorded.py", tmp_path / "checkout" / "tests")
    for folder in ("a/data/maas", "b/data/gates", "b/data/maas", "b/data/redfish"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "one").touch()
    asked = "import recorded; print(recorded.recorded_dir('maas'), recorded.recorded_dir('schedulers'))"
    settings = {name: value for name, value in os.environ.items() if name != "GPUFLEET_RECORDED_DATA"}
    done = subprocess.run(
        [sys.executable, "-c", asked], cwd=tmp_path / "checkout" / "tests",
        env=settings, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split() == [str(tmp_path / "b" / "data" / "maas"), "None"]


@pytest.mark.slow
def test_t4_no_other_skip_passes_for_one_of_recorded_outputs(suite):
    text = 'import pytest\ndef test_it(): pytest.skip("the recorded trees are not unpacked")\n'
    assert "skipped in CI: the recorded trees" in suite(text).stdout


@pytest.mark.slow
def test_a_developer_is_told_of_a_skip_and_not_stopped(suite):
    done = suite(SILENT, ci="")
    assert done.returncode == 0 and "3 skipped" in done.stdout
    assert "needs slurmctld" in done.stdout


@pytest.mark.slow
def test_hypothesis_has_no_deadline_anywhere(suite):
    text = """
import time
from hypothesis import given, settings, strategies as st
@settings(max_examples=2)
@given(st.integers())
def test_slow(number): time.sleep(0.3)
def test_settings(): print(f"deadline {settings().deadline}, the same each time {settings().derandomize}")
"""
    for ci in ("", "true"):
        done = suite(text, "-s", ci=ci)
        assert done.returncode == 0, done.stdout
        assert f"deadline None, the same each time {bool(ci)}" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "workers"])
def test_t4_a_run_that_is_killed_has_told_what_failed_and_what_was_running(suite, tmp_path, workers):
    notes = tmp_path / "progress"
    settings = {**os.environ, handed_on.PROGRESS: str(notes)}
    settings = {name: value for name, value in settings.items() if not name.startswith("PYTEST_XDIST")}
    process = subprocess.Popen(
        [*suite.command(HANGS), *workers], cwd=tmp_path, env=settings, stdout=subprocess.DEVNULL, start_new_session=True
    )
    wait_for(lambda: notes.exists() and "test_hangs" in notes.read_text() and "one is not two" in notes.read_text())
    wait_for(lambda: any('"ends"' in line and "test_bad" in line for line in notes.read_text().splitlines()))
    os.killpg(process.pid, 9)
    process.wait()
    said = [json.loads(line) for line in notes.read_text(encoding="utf-8").splitlines()]
    ended = {line["test"].rpartition("::")[2] for line in said if line["did"] == "ends"}
    started = {line["test"].rpartition("::")[2] for line in said if line["did"] == "starts"}
    assert started - ended == {"test_hangs"}
    assert [line["test"].rpartition("::")[2] for line in said if line["did"] == "failed"] == ["test_bad"]


def wait_for(true):
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end
        time.sleep(0.1)


def test_what_ansible_test_does_not_hand_on_is_found_in_its_home(tmp_path, monkeypatch):
    for name in ("CI", handed_on.VENVS):
        monkeypatch.delenv(name, raising=False)
    handed_on.take(tmp_path)
    assert "CI" not in os.environ, "nobody left a note"
    note = {"CI": "true", handed_on.VENVS: "/srv/venvs", "PATH": "/nowhere"}
    (tmp_path / handed_on.NOTE).write_text(json.dumps(note), encoding="utf-8")
    handed_on.take(tmp_path)
    assert os.environ["CI"] == "true" and handed_on.venv("rack") == Path("/srv/venvs/rack")
    assert os.environ["PATH"] != "/nowhere"


def packages(path):
    lines = (line.partition("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines())
    return {line for line in lines if line}


def test_t4_the_set_up_installs_what_the_rack_needs_before_the_first_test():
    rack = yaml.safe_load((CHECKOUT / "roles/virtual_rack/vars/main.yml").read_text(encoding="utf-8"))
    assert set(rack["virtual_rack_packages"]) <= packages(CHECKOUT / "requirements" / "system.txt")


@pytest.fixture
def system_packages(tmp_path, monkeypatch, capfd):
    """The set-up's program, run by somebody who is not root, on a machine that has no package of this name."""
    spec = importlib.util.spec_from_file_location("system_packages", CHECKOUT / "make" / "system_packages.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    listed = tmp_path / "system.txt"
    listed.write_text("# of the tests\ndpkg\nno-such-package-at-all\n", encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["system_packages.py", str(listed)])
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    def run(ci):
        monkeypatch.setenv("CI", ci)
        return module.main(), capfd.readouterr().err

    return run


@pytest.mark.skipif(not shutil.which("dpkg-query"), reason="does not apply: no Debian")
def test_t4_who_may_not_install_is_told_the_one_command(system_packages):
    status, said = system_packages("")
    assert status == 0 and "packages no-such-package-at-all. Run:  sudo make setup-system" in said
    assert system_packages("true") == (1, said)


@pytest.mark.skipif(not shutil.which("dpkg-query"), reason="does not apply: no Debian")
def test_what_is_not_to_be_had_keeps_nobody_from_the_rest(system_packages, tmp_path, monkeypatch):
    """apt-get installs nothing where it knows one of the names not, and the set-up went no further."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    asked = tmp_path / "asked"
    apt = tmp_path / "apt-get"
    apt.write_text(f'#!/bin/sh\necho "$@" >>{asked}\ncase "$*" in *no-such*) exit 100;; esac\n', encoding="utf-8")
    apt.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (tmp_path / "system.txt").write_text("no-such-package-at-all\nnor-this-one\n", encoding="utf-8")
    status, said = system_packages("")
    assert status == 0 and "no-such-package-at-all nor-this-one, which are not to be had here" in said
    assert asked.read_text(encoding="utf-8").splitlines()[-1].endswith("install nor-this-one")
    assert system_packages("true")[0] == 1


def test_where_there_is_no_debian_the_packages_are_named(system_packages, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    status, said = system_packages("")
    assert status == 0 and "no Debian" in said and "no-such-package-at-all" in said
    assert system_packages("true")[0] == 1


def test_t4_without_shellcheck_the_linter_is_red_in_ci(tmp_path):
    (tmp_path / "bin").mkdir()
    for name in ("sh", "git"):
        (tmp_path / "bin" / name).symlink_to(f"/usr/bin/{name}")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    for ci, good in (("", True), ("true", False)):
        settings = {**kept, "CI": ci, "PATH": str(tmp_path / "bin")}
        done = subprocess.run(
            ["/usr/bin/make", "-s", "lint-shell"],
            cwd=CHECKOUT, env=settings, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (done.returncode == 0) == good, done.stderr
        assert "shellcheck is not installed: not run" in done.stdout


def suites_own_files():
    tests = CHECKOUT / "tests"
    yield from (tests / "conftest.py", *sorted((tests / "suite").glob("*.py")))
    yield from sorted((tests / "contract").glob("*.py"))
    yield from sorted((tests / "contract").glob("*/test_contract*.py"))
    yield from (tests / "contract" / "bmc" / name for name in ("rigs.py", "test_port.py"))


def test_t5_the_suite_knows_no_driver_by_its_name():
    """What a driver or its site cannot do it declares. A gate's case, which stands beside its tests, is its adapter."""
    known = {name for _port, name in newcomers.drivers()} | {"imagectl", "taskqueue", "versioned"}
    # The name of a scheduler's driver that is no scheduler, and of much else.
    known -= {"none"}
    # Nor is this one: a boot target of every BMC.
    known -= {"pxe"}
    for path in suites_own_files():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert node.value not in known, f"{path.relative_to(CHECKOUT)}:{node.lineno}: {node.value}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("site", "slow"),
    [
        ("class Site: real = True", True),
        ("class Site: many_calls = True", True),
        ("class Site: real = many_calls = False", False),
        ("Site = 7", False),  # numbers have a ``real`` of their own
    ],
)
def test_t5_a_site_says_itself_that_its_tests_are_slow(suite, site, slow):
    text = f"""
import pytest
{site}
@pytest.fixture(params=[Site])
def site(request): pass
@pytest.mark.many_runs
def test_it(site): pass
"""
    assert ("1 passed" in suite(text, "-m", "slow").stdout) == slow


@pytest.mark.slow
@pytest.mark.parametrize(("said", "programs"), [("many_calls = True", True), ("real = True", False)])
def test_t5_a_driver_of_programs_is_left_out_of_what_runs_before_each_commit(suite, said, programs):
    text = f"""
import pytest
class Site: {said}
@pytest.fixture(params=[Site])
def site(request): pass
def test_it(site): pass
"""
    assert ("1 passed" in suite(text, "-m", "programs").stdout) == programs


@pytest.mark.slow
def test_t5_a_fixture_says_itself_that_it_starts_programs(suite):
    text = """
import pytest
from suite import services
@pytest.fixture
@services.real
def database(): pass
@pytest.fixture
def url(database): pass
def test_far(url): pass
def test_other(): pass
"""
    assert "1 passed, 1 deselected" in suite(text, "-m", "slow").stdout


@pytest.mark.slow
def test_what_belongs_together_is_run_by_one_worker(suite, tmp_path):
    text = """
import os
import time
import pytest
@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize("service", [pytest.param(one, marks=pytest.mark.xdist_group(one)) for one in ("x", "y")])
def test_it(service, number):
    time.sleep(0.1)
    with open(service, "a") as seen: seen.write(os.environ["PYTEST_XDIST_WORKER"] + " ")
"""
    done = suite(text, "-n", "2", "--dist", "loadgroup")
    assert "12 passed" in done.stdout, done.stdout
    seen = [set((tmp_path / service).read_text(encoding="utf-8").split()) for service in ("x", "y")]
    assert sorted(map(sorted, seen)) == [["gw0"], ["gw1"]], "each service is started by one worker"


def test_a_thread_that_a_test_left_turning_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that waits is none of anybody's business."""
    end, waits = threading.Event(), threading.Event()
    quiet = threading.Thread(target=waits.wait, name="waits")
    turns = threading.Thread(target=lambda: [None for _turn in iter(end.is_set, True)], name="turns")
    monkeypatch.setattr(threads.turning, "__defaults__", (0.2,))
    quiet.start()
    turns.start()
    try:
        while not (found := [line for line in threads.turning() if line.startswith("turns")]):
            turns.join(0.05)
        with pytest.raises(pytest.fail.Exception, match="turns has used 0[.].+ s of CPU"):
            threads.Threads(every=0.0).pytest_runtest_teardown()
    finally:
        end.set()
        waits.set()
        turns.join()
        quiet.join()
    assert len(found) == 1 and not [line for line in threads.turning() if line.startswith(("turns", "waits"))]
