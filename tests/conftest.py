# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What all tests share: the markers, and what a machine must have for those that need more than Python."""

from __future__ import annotations

import functools
import gc
import os
import sys
from pathlib import Path

import pytest

# `from recorded import demanded` works under pytest and under ansible-test alike.
sys.path.insert(0, str(Path(__file__).resolve().parent))

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _excerpt
from suite import handed_on, huge_pages, long, progress, properties, services, skips, threads, together

# Python's collector runs wherever something is made, also at the bottom of what nests as deeply as Python goes. What
# ends by it there has no room to, and pytest takes that for a fault of the test. Run seldom it is out of the way.
gc.set_threshold(50_000, 20, 20)

# Before a test file is read: what it says in a decorator is settled then.
handed_on.take()
properties.load(ci=skips.in_ci())

MARKERS = {
    "rack": "needs the built-in rack, running (make rack-up)",
    "slow": "takes more than a few seconds; left out of make test-fast",
    "long": "was measured to take more than a moment (make long-tests); left out of make test-fast",
    services.PROGRAMS: "starts a program for each call of its driver; left out of make test-fast",
    services.MANY_RUNS: "runs a driver many times: slow where each of its calls starts a program",
    "each_core": "goes through Ansible itself: run on each ansible-core, where the others are run on one",
    "needs_root": "needs root: namespaces, mounts or low ports",
}
# Files whose tests run ansible-playbook for each verb, by both doors or through a jump host
WHOLE_RUNS = {"test_doors.py", "test_playbook.py", "test_jump_host.py", "test_election.py"}
# Files whose tests go through what two versions of ansible-core do differently: how a task's words reach a verb, what
# its result becomes, and what a callback is told. A driver's dialogue with its service is the same on both.
EACH_CORE = {"test_doors.py", "test_playbook.py", "test_served.py", "test_callbacks.py"}
# Files whose tests start a program of make/, which is run by the main pair's Python alone
OF_MAKE = {"test_verdicts.py", "test_trees.py"}
TESTS = Path(__file__).resolve().parent
# One worker for all tests of a file: what its session fixtures start is started once, and a tree is read once. And one
# for all of a folder that ask the same program: an Ironic of each worker's own would be half a minute of CPU each.
TOGETHER = {TESTS / "contract", TESTS / "tree"}


def pytest_configure(config: pytest.Config) -> None:
    for name, meaning in MARKERS.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")
    if skips.in_ci():
        config.pluginmanager.register(skips.NoSilence())
    config.pluginmanager.register(together.Together())
    config.pluginmanager.register(threads.Threads())
    file = os.environ.get(handed_on.PROGRESS)
    if file:
        config.pluginmanager.register(progress.Spent())
    if file and not hasattr(config, "workerinput"):
        config.pluginmanager.register(progress.Progress(Path(file)))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Where nothing is asked for but what goes through Ansible, no other file of the contract tests is read."""
    alone = str(config.getoption("markexpr")).endswith("and each_core")
    return True if alone and collection_path.match("test_*.py") and collection_path.name not in EACH_CORE else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    without_root = pytest.mark.skip(reason="needs root")
    for item in items:
        if os.geteuid() != 0 and item.get_closest_marker("needs_root"):
            item.add_marker(without_root)
        if item.get_closest_marker("rack") and TESTS / "rack" not in item.path.parents:
            raise pytest.UsageError(f"{item.nodeid}: what needs the rack stands in tests/rack, or no step runs it")
        if item.path.name in WHOLE_RUNS | OF_MAKE or services.started_by(item):
            item.add_marker("slow")
        if long.is_long(item):
            item.add_marker("long")
        if item.path.name in EACH_CORE:
            item.add_marker("each_core")
        if services.calls_programs(item):
            item.add_marker(services.PROGRAMS)
        if _together(item.path):
            program = services.asked(item)
            group = f"{item.path.parent}: {program}" if program else str(item.path)
            item.add_marker(pytest.mark.xdist_group(group))


@functools.cache
def _together(file: Path) -> bool:
    return bool(TOGETHER & set(file.parents))


def pytest_collection_finish() -> None:
    """What lies there for good is looked through no more: at its end pytest does so twice, a second for each worker.

    And it is put together, since each program that a test starts costs a fork of all of it.
    """
    gc.freeze()
    huge_pages.collapse()


@pytest.fixture(autouse=True)
def _no_site_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """A developer's own Ansible settings must not decide a test."""
    for name in ("ANSIBLE_CONFIG", "ANSIBLE_VAULT_PASSWORD_FILE", "SLURM_CONF", "GPUFLEET_LEDGER_URL"):
        monkeypatch.delenv(name, raising=False)
    # The ledgers of the tests are files for a moment, also where the tests run in a container.
    monkeypatch.setenv("GPUFLEET_LEDGER_MAY_BE_LOST", "yes")


@pytest.fixture(autouse=True)
def _no_secrets_of_other_tests() -> None:
    """A task's process knows its own secrets alone; this one would mask the words that were passwords elsewhere."""
    _excerpt._known.clear()
