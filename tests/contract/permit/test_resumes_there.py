# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module scheduler_node on another machine goes on when its controller has died, and then writes nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
from ansible_collections.gpufleet.baremetal.plugins.action import scheduler_node
from ansible_collections.gpufleet.baremetal.plugins.module_utils._leave import clock
from contract.permit.rig import Controller, sent

MODULE = "ansible_collections.gpufleet.baremetal.plugins.modules.scheduler_node"


class There(scheduler_node.ActionModule):
    """Its module is a process of its own; what each was given stays. meanwhile: called when the first has told."""

    folder: ClassVar[Path]
    meanwhile: ClassVar[Callable[[], None]]

    def _goes_elsewhere(self) -> bool:
        return True

    def _execute_module(self, *_args: Any, **options: Any) -> dict[str, Any]:
        args = dict(options["module_args"])
        (self.folder / f"{len(parts(self.folder))}.part").write_text(json.dumps(args), encoding="utf-8")
        told = sent(args, module=MODULE)
        if len(parts(self.folder)) == 1:
            type(self).meanwhile()
        return told


def parts(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.part"))]


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
        told = sent(left, module=MODULE)
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
    told = sent({**first, "leave": {"begun": begun}}, module=MODULE)
    assert told["error"]["kind"] == "permit_due" and told["leave"]["begun"] == begun, told


def test_ch4_a_look_grows_older_on_the_way_to_the_machine_that_resumes(site: Controller, tmp_path: Path) -> None:
    """The node was booted while the module was on its way, and after the look at it."""
    held = dict(site.node())
    assert site.run("scheduler_node", action=There, state="resumed")["state"] == "idle"
    _first, second = parts(tmp_path)
    now = clock()["uptime"]
    assert second["leave"]["given"] <= now and second["looked_ago"] < 30, second
    booted = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() - 60))
    site.node(**{**held, "booted": booted})
    late = {**second, "leave": {**second["leave"], "given": now - 100, "until": now + 300}}
    refused = sent(late, module=MODULE)
    assert refused["error"]["kind"] == "evidence_missing" and "no gate has seen this boot" in refused["msg"], refused
    assert site.node()["state"] == "IDLE+DRAIN"
    site.node(booted="2026-11-20T10:12:58")
    assert (
        sent({**late, "leave": {**late["leave"], "until": clock()["uptime"] + 300}}, module=MODULE)["state"] == "idle"
    )
