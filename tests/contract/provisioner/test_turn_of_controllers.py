# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two controllers of one ledger, each a process with a temporary folder of its own, as two jobs of an AWX are, write to
one Warewulf, which loses one of two writes that come at once."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from controller import Controller
from postgresql import Server, served
from suite import playbook, services

#: One process of each host, and then one for all of them.
TASKS = (
    {"gpufleet.baremetal.provisioner_node": {"state": "enrolled"}},
    {"gpufleet.baremetal.provisioner_node": {"state": "maintenance", "why": "reseat", "batch": True}, "run_once": True},
)
NODES = 4


@pytest.fixture(scope="module")
@services.real
def postgresql_server() -> Iterator[Server]:
    yield from served()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/ledger.sqlite"
    server: Server = request.getfixturevalue("postgresql_server")
    server.statement("CREATE SCHEMA controllers")
    return server.url("controllers")


class _Another(Controller):
    """A program of its own, which begins with its first write when the other one does."""

    def run(self, theirs: Path) -> str:
        meets = f"touch {self.folder}/here; until [ -e {theirs}/here ]; do sleep 0.05; done"
        first: dict[str, Any] = {"ansible.builtin.shell": meets, "delegate_to": "localhost", "run_once": True}
        tasks = [first, *(self._task(number, task, True) for number, task in enumerate(TASKS))]
        play = {"name": "both", "hosts": "all", "gather_facts": False, "strategy": "linear", "tasks": tasks}
        (self.folder / "play.yml").write_text(yaml.safe_dump([play]), encoding="utf-8")
        temporary = self.folder / "tmp"
        temporary.mkdir()
        argv = [str(playbook.PROGRAM), "-i", str(self.folder / "hosts.yml"), str(self.folder / "play.yml")]
        environment = {**self.environment(), "TMPDIR": str(temporary)}
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=400, check=False)
        assert list(temporary.glob("gpufleet-provisioner-*")), "its lock lies in a folder of its own"
        return "" if done.returncode == 0 else done.stdout + done.stderr


@pytest.mark.slow
def test_what_two_controllers_write_at_once_is_all_there(warewulf_site: Any, url: str, tmp_path: Path) -> None:
    Ledger(url).close()
    conf = warewulf_site.server.conf
    before, conf._thinks = conf._thinks, 0.15
    # What is made for both lies below a folder that their own are no part of.
    folders = [Path(tempfile.mkdtemp(dir=tmp_path)) for _number in range(2)]
    both = [_Another(warewulf_site, folder, NODES, url) for folder in folders]
    try:
        with ThreadPoolExecutor(2) as pool:
            failed = list(pool.map(_Another.run, both, reversed(folders)))
    finally:
        conf._thinks = before
    names = {name for one in both for name in one.nodes}
    there = conf.load()["nodes"]
    assert sorted(names - set(there)) == [], "an update was lost"
    lost = [name for name in sorted(names) if not there[name].get("tags", {}).get("gpufleet-hold")]
    assert lost == [], "an update was lost"
    assert failed == ["", ""]
    with Ledger(url) as ledger:
        [row] = ledger._rows("SELECT * FROM turns")
        assert row["expires"] <= ledger.now(), "nobody waits for who has written"
        # Each host of the first task has turns of its own; that of all hosts has one, unless it made way.
        assert 2 * NODES + 2 <= row["number"] <= 6 * NODES + 4, row
