# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs as an automation controller runs them: ansible-runner, in a container that has what the lists name and no more.

The image is played: a root of layers with processes, a name and a home of its own, in which the checkout is not to be
seen, a Python has what pip installs for the lists, and PATH leads to the programs of the listed packages. It has the
network of the machine. Of the rack it has the folder, where its inventory, keys and sockets are, and the ledger.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lab
from suite import debian
from suite.container import Container

EE = Path(os.environ.get("GPUFLEET_EE_DIR") or lab.CHECKOUT / "build" / "ee")
COLLECTIONS = "/usr/share/ansible/collections"
OURS = Path(COLLECTIONS) / "ansible_collections" / "gpufleet" / "baremetal"
PROGRAMS, RUNNER = "/opt/programs", "/runner"
#: What the role awx gives each template, so that reports name templates.
TEMPLATES = {name: f"gpufleet {name}" for name in ("day0_bringup", "day2_recycle", "drain", "reimage")}


@dataclass(frozen=True)
class Done:
    """A job that has ended, with the events that its controller is told."""

    rc: int
    output: str
    events: list[dict[str, Any]]

    @property
    def stats(self) -> dict[str, Any]:
        [last] = [one["event_data"] for one in self.events if one["event"] == "playbook_on_stats"]
        return dict(last)

    @property
    def artifacts(self) -> dict[str, Any]:
        """What it leaves for the jobs that follow."""
        return dict(self.stats["artifact_data"])

    def tail(self) -> str:
        return self.output[-6000:]


class Environment:
    def __init__(self, folder: Path) -> None:
        self._folder, self._runner = folder, folder / "runner"
        hidden = folder / "hidden"
        for one in (hidden, self._runner / "env"):
            one.mkdir(parents=True)
        debian.link_programs(folder / "programs", debian.listed(EE / "bindep.txt"))
        # In this order: the environment lies in the checkout that is hidden.
        self._outside = {
            hidden: str(lab.CHECKOUT), EE / "venv": str(EE / "venv"), EE / "collections": COLLECTIONS,
            folder / "programs": PROGRAMS, self._runner: RUNNER, lab.RACK: str(lab.RACK),
        }  # fmt: skip
        ours = EE / "collections" / OURS.relative_to(COLLECTIONS)
        shutil.copytree(ours / "extensions" / "awx" / "project", self._runner / "project")
        self._jobs = 0

    def run(self, command: Sequence[str], env: Mapping[str, str] | None = None) -> tuple[int, str]:
        """A command in it: how it ended, and what it said."""
        layers = self._folder / f"layers-{uuid.uuid4().hex}"
        settings = {
            **json.loads((EE / "environment.json").read_text(encoding="utf-8")),
            "PATH": f"{EE / 'venv' / 'bin'}:{PROGRAMS}",
            "LC_ALL": "C.UTF-8",
            "ANSIBLE_COLLECTIONS_PATH": f"/runner/requirements_collections:{COLLECTIONS}",
            **(env or {}),
        }
        words = [f"{name}={value}" for name, value in settings.items()]
        return Container("job", layers, self._outside).run(["/usr/bin/env", *words, *command], {})

    def job(self, playbook: str, **said: Any) -> Done:
        """A job of the template of this playbook, with what its survey was answered."""
        self._jobs += 1
        told = {"gpufleet_awx_templates": TEMPLATES, **said}
        (self._runner / "env" / "extravars").write_text(json.dumps(told), encoding="utf-8")
        number = str(self._jobs)
        command = ["ansible-runner", "run", RUNNER, "-p", f"playbooks/{playbook}.yml", "-i", number]
        env = {
            "AWX_HOST": "https://awx.example.com",
            "JOB_ID": number,
            # Its controller's own side, which is not to be seen in the container.
            "AWX_PRIVATE_DATA_DIR": f"/tmp/awx_{number}_x1y2",
            "ANSIBLE_SSH_CONTROL_PATH_DIR": f"{RUNNER}/cp",
            # The rack's ledger is a file, and the rack may lie in memory.
            "GPUFLEET_LEDGER_MAY_BE_LOST": "yes",
        }
        rc, output = self.run([*command, "--inventory", str(lab.RACK / "inventory")], env)
        files = sorted((self._runner / "artifacts" / number / "job_events").glob("*-*.json"))
        return Done(rc, output, [json.loads(path.read_text(encoding="utf-8")) for path in files])
