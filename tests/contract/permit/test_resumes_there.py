# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module scheduler_node on another machine goes on when its controller has died, and then writes nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
from ansible_collections.gpufleet.baremetal.plugins.action import scheduler_node
from contract.permit.rig import Controller

MODULE = "ansible_collections.gpufleet.baremetal.plugins.modules.scheduler_node"


class There(scheduler_node.ActionModule):
    """Its module is a process of its own; what each was given stays. meanwhile: called when the first has told."""

    folder: ClassVar[Path]
    meanwhile: ClassVar[Callable[[], None]]

    def _goes_elsewhere(self) -> bool:
        return True

    def _execute_module(self, *_args: Any, **options: Any) -> dict[str, Any]:
        args = {key: value for key, value in options["module_args"].items() if value is not None}
        (self.folder / f"{len(parts(self.folder))}.part").write_text(json.dumps(args), encoding="utf-8")
        told = sent(args)
        if len(parts(self.folder)) == 1:
            type(self).meanwhile()
        return told


def parts(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.part"))]


def sent(args: dict[str, Any]) -> dict[str, Any]:
    """What the module over there says."""
    done = subprocess.run(
        [sys.executable, "-m", MODULE], input=json.dumps({"ANSIBLE_MODULE_ARGS": {**args, "_ansible_no_log": False}}),
        env={**os.environ, "_ANSIBLE_PROFILE": "legacy"}, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.stdout, done.stderr
    return dict(json.loads(done.stdout))


@pytest.fixture
def site(controller: Callable[..., Controller], tmp_path: Path) -> Controller:
    """Its node is held, and may be given work."""
    There.folder, There.meanwhile = tmp_path, lambda: None
    found = controller()
    found.hold()
    for state in ("enrolled", "imaging", "validating"):
        found.tells("gpu001", "state", state)
    found.passport()
    return found


def test_j3_what_is_left_of_a_killed_run_resumes_nothing(site: Controller, tmp_path: Path) -> None:
    """Another run that takes the same hold keeps its token, so that nothing else would tell it from our own."""
    held = dict(site.node())
    done = site.run("scheduler_node", action=There, state="resumed")
    assert done["state"] == "idle" and len(done["asked"]) == 1, done
    first, second = parts(tmp_path)
    written = len(site.asked("scontrol", "update"))
    for left in (first, {**second, "leave": {**second["leave"], "until": 0.0}}):
        site.node(**held)
        told = sent(left)
        assert told["error"]["kind"] == "permit_due", told
    assert len(site.asked("scontrol", "update")) == written and site.node() == held


def test_j9_what_came_to_light_while_an_agent_was_waited_for_elsewhere_keeps_the_hold(site: Controller) -> None:
    There.meanwhile = lambda: site.tells("gpu001", "state", "quarantined")
    refused = site.run("scheduler_node", action=There, state="resumed")
    assert refused["error"]["kind"] == "evidence_missing" and site.node()["state"] == "IDLE+DRAIN", refused


def test_c6_a_boot_right_after_the_write_is_held_again_under_leave_of_its_own(site: Controller) -> None:
    """That of the write has ended: the part that comes next sees a node in service, and is told who resumed it."""
    There.meanwhile = lambda: site.node(state="IDLE", reason="", by="", booted="2099-01-01T00:00:00")
    assert site.run("scheduler_node", action=There, state="resumed")["state"] == "idle"
    [first, _second] = parts(There.folder)
    begun = "resumed, booted 2026-11-20T10:12:58"
    told = sent({**first, "leave": {"begun": begun}})
    assert told["error"]["kind"] == "permit_due" and told["leave"]["begun"] == begun, told
