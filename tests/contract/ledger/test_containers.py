# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs of an automation controller, each in a container of its own, on one PostgreSQL: neither sees the other's
processes, and what the one knows of the other stands in the ledger alone."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from contract.test_callbacks import WRAPPER
from postgresql import Server
from suite.container import Container

pytestmark = [pytest.mark.slow, pytest.mark.needs_root]

CHECKOUT = Path(__file__).resolve().parents[3]
PLAYBOOK = str(Path(sys.executable).with_name("ansible-playbook"))
STAGE = {"name": "Say that it is enrolled", "gpufleet.baremetal.ledger_event": {"state": "enrolled"}}
NEXT = {"name": "Say that imaging begins", "gpufleet.baremetal.ledger_event": {"state": "imaging"}}
NO_LONGER = {"name": "Work on", "ansible.builtin.command": "sh -c 'echo working >working; read word <go'"}


class Site:
    """A folder that both containers have, and the ledger of both."""

    def __init__(self, folder: Path, server: Server) -> None:
        self.folder = folder
        self._server = server
        schema = f"t{uuid.uuid4().hex}"
        server.statement(f"CREATE SCHEMA {schema}")
        self.url = server.url(schema)
        host = {"gpufleet_serial": "SN-gpu001", "ansible_connection": "local"}
        host["ansible_python_interpreter"] = sys.executable
        (folder / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": {"gpu001": host}}}))
        self._play("stage.yml", STAGE)
        self._play("next.yml", NEXT)
        self._play("long.yml", STAGE, {**NO_LONGER, "args": {"chdir": str(folder)}})
        (folder / "callback").mkdir()
        (folder / "callback" / "wrapper.py").write_text(WRAPPER, encoding="utf-8")
        for name in ("working", "go"):
            os.mkfifo(folder / name)

    def _play(self, name: str, *tasks: dict[str, Any]) -> None:
        play = {"name": "A stage", "hosts": "all", "gather_facts": False, "tasks": list(tasks)}
        (self.folder / name).write_text(yaml.safe_dump([play]))

    def container(self, name: str) -> Container:
        shared = {folder: str(folder) for folder in (self.folder, self._server.folder)}
        return Container(name, self.folder / f"layers-{uuid.uuid4().hex}", shared)

    def command(self, play: str, *more: str) -> list[str]:
        return [PLAYBOOK, "-i", str(self.folder / "hosts.yml"), str(self.folder / play), *more]

    def job(self, number: int, *, ledger: bool = True) -> dict[str, str]:
        """The environment of a job, as AWX 24 and its ansible-runner set it."""
        env = {
            "AWX_HOST": "https://awx.example.com",
            "JOB_ID": str(number),
            "AWX_PRIVATE_DATA_DIR": f"/tmp/awx_{number}_x1y2",
            "ANSIBLE_COLLECTIONS_PATH": str(CHECKOUT / "build" / "collections"),
            "ANSIBLE_STDOUT_CALLBACK": "wrapper",
            "ANSIBLE_CALLBACK_PLUGINS": str(self.folder / "callback"),
            "ORIGINAL_STDOUT_CALLBACK": "gpufleet.baremetal.fleet_progress",
            "LC_ALL": "C.UTF-8",
            "PYTHONPATH": os.environ["PYTHONPATH"],
        }
        return {**env, "GPUFLEET_LEDGER_URL": self.url} if ledger else env


@pytest.fixture
def site(tmp_path: Path, postgresql: Server) -> Site:
    return Site(tmp_path, postgresql)


Begin = Callable[[str, int], "subprocess.Popen[str]"]


@pytest.fixture
def begin(site: Site) -> Iterator[Begin]:
    """Begins the long stage in a container, and comes back when its lease is taken and it works on."""
    begun = []

    def start(name: str, number: int) -> subprocess.Popen[str]:
        process = site.container(name).start(site.command("long.yml"), site.job(number))
        begun.append(process)
        # Read-write: whoever never comes to that must not keep this test for ever.
        told = os.open(site.folder / "working", os.O_RDWR | os.O_NONBLOCK)
        begun_in_time(process, told)
        os.close(told)
        return process

    yield start
    for process in begun:
        process.kill()
        process.communicate()


def begun_in_time(process: subprocess.Popen[str], told: int) -> None:
    while not select.select([told], [], [], 0.5)[0]:
        assert process.poll() is None, process.communicate()[0]


def test_w9_a_stage_in_another_container_is_alive_although_nobody_there_sees_its_process(
    site: Site, begin: Begin
) -> None:
    """W3, W4, W5, W9: and as soon as that has ended, the next job goes on, whoever tried in between."""
    first = begin("job-4711", 4711)
    for name in ("job-4712", "job-4711"):  # some engines give all containers the machine's own name
        code, told = site.container(name).run(site.command("stage.yml"), site.job(4712))
        assert code == 2 and "another run works on this node" in told, told
        assert "awx-4711-" in told and "on job-4711" in told, "a person finds the job that has it"

    (site.folder / "go").write_text("on\n")
    said = first.communicate(timeout=120)[0]
    assert first.returncode == 0, said
    code, told = site.container("job-4713").run(site.command("next.yml"), site.job(4713))
    assert code == 0, f"the first one's lease has ended with it: {told}"
    for shown in (said, told):
        assert "A stage" in shown and "gpu001" in shown, "an ansible-runner of before 2.4.3 shows the progress as well"
        assert "Failure using method" not in shown and "Traceback" not in shown, shown
    with Ledger(site.url) as ledger:
        node = ledger.identify("gpu001", aliases=[("serial", "SN-gpu001")], create=False)
        runs = [event["run_id"].rsplit("-", 2)[0] for event in ledger.history(node) if event["kind"] == "state"]
    assert runs == ["awx-4711", "awx-4713"], (
        "each event is found by the number of its job, and none is the refused one's"
    )


def test_w2_a_container_without_a_ledger_writes_nothing(site: Site) -> None:
    code, told = site.container("job-4714").run(site.command("stage.yml"), site.job(4714, ledger=False))
    assert code == 2 and "no ledger is named" in told and "gpufleet_ledger_url" in told, told
    with Ledger(site.url) as ledger:
        assert not ledger.called("gpu001")
