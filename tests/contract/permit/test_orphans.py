# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A module of a BMC's verb on another machine goes on when its controller has died, and then hits nobody's work."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
from ansible_collections.gpufleet.baremetal.plugins.action import redfish_power
from ansible_collections.gpufleet.baremetal.plugins.module_utils._proc import process_start
from ansible_collections.gpufleet.baremetal.plugins.module_utils._wait import wait_until
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _shipping as shipping
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _term as term
from contract.permit.rig import FORK, Controller

TESTS = Path(__file__).resolve().parents[2]
MODULE = "ansible_collections.gpufleet.baremetal.plugins.modules.redfish_power"


class There(redfish_power.ActionModule):
    """Its module is a process of its own, as on a jump host; each leaves its process id and its options."""

    folder: ClassVar[Path]

    def _goes_elsewhere(self) -> bool:
        return True

    def _execute_module(self, *_args: Any, **options: Any) -> dict[str, Any]:
        args = {key: value for key, value in options["module_args"].items() if value is not None}
        process = subprocess.Popen(
            [sys.executable, "-m", MODULE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": f"{TESTS}:{os.environ['PYTHONPATH']}", "_ANSIBLE_PROFILE": "legacy"},
        )  # fmt: skip
        (self.folder / f"{len(parts(self.folder))}.part").write_text(str(process.pid), encoding="ascii")
        out, _ = process.communicate(json.dumps({"ANSIBLE_MODULE_ARGS": {**args, "_ansible_no_log": False}}))
        return dict(json.loads(out))


def parts(folder: Path) -> list[int]:
    return [int(path.read_text(encoding="ascii") or 0) for path in sorted(folder.glob("*.part"))]


@pytest.fixture
def site(controller: Callable[..., Controller], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Controller:
    """Its machine hears a shutdown and does not obey."""
    There.folder = tmp_path
    monkeypatch.setattr(shipping, "LEAST_SECONDS", 3.0)
    monkeypatch.setattr(term, "MOST_SECONDS", 6.0)
    found = controller()
    found.bmcs["gpu001"].machine.shuts_down = False
    return found


def graceful(site: Controller, action: type[There] = There) -> dict[str, Any]:
    """The machine is given longer than leave may last, which a busy machine makes longer."""
    return site.run("redfish_power", action=action, state="graceful", graceful_timeout=10.0, timeout=60.0)


def kinds(site: Controller) -> list[str]:
    return [
        kind for write in site.bmcs["gpu001"].writes for kind in ("GracefulShutdown", "ForceOff") if kind in str(write)
    ]


def test_j3_a_proof_that_is_too_old_before_a_leave_ends_is_renewed_before_it_begins(
    site: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody has given the node back meanwhile."""
    monkeypatch.setattr(shipping, "LEAST_SECONDS", 20.0)
    site.hold()
    site.later(45)
    site.node(state="IDLE", reason="", by="")
    done = site.run("redfish_power", action=There, state="force_off", timeout=60.0)
    assert done["failed"] and done["error"]["kind"] == "evidence_missing" and not site.switched(), done


def test_j3_a_shutdown_from_there_goes_on_to_cut_the_power_under_new_leave(site: Controller) -> None:
    site.hold()
    done = graceful(site)
    assert done["after"] == {"power": "off"} and done["changed"] and done["evidence"].startswith("event:"), done
    assert kinds(site) == ["GracefulShutdown", "ForceOff"] and len(done["asked"]) == 2, done
    assert len(parts(There.folder)) >= 3 and site.events("intent")[-1] == "redfish_power"


def test_j3_what_is_left_of_a_killed_run_cuts_no_power(site: Controller) -> None:
    """Its owner has resumed the node meanwhile, and a job runs."""
    run = FORK.Process(target=lambda: (site.hold(), graceful(site)))
    run.start()
    wait_until(lambda: kinds(site), bool, timeout=60.0, interval=0.02, wanted="a shutdown that was asked for")
    worker = int(subprocess.check_output(["ps", "--ppid", str(run.pid), "-o", "pid="], text=True).split()[0])
    for pid in (run.pid, worker):
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
    run.join(30)
    wait_until(lambda: any(map(process_start, parts(There.folder))), lambda lives: not lives,
               timeout=60.0, interval=0.05, wanted="the end of what is left")  # fmt: skip
    assert kinds(site) == ["GracefulShutdown"] and site.bmcs["gpu001"].machine.power == "On"


def test_j3_a_proof_that_is_taken_back_in_between_ends_it(site: Controller) -> None:
    class Resumed(There):
        def _execute_module(self, *args: Any, **options: Any) -> dict[str, Any]:
            answer = super()._execute_module(*args, **options)
            if answer["asked"]:  # what the BMC has, this process does not see
                site.tells("gpu001", "evidence", "in_service")
            return answer

    site.hold()
    done = graceful(site, Resumed)
    assert done.get("failed") and done["error"]["kind"] == "evidence_missing" and done["changed"], done
    assert kinds(site) == ["GracefulShutdown"] and "in_service" in done["msg"]


def test_j3_a_way_that_takes_longer_than_leave_may_last_is_told(
    site: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipping, "LEAST_SECONDS", 0.02)
    monkeypatch.setattr(term, "MOST_SECONDS", 0.04)
    site.hold()
    done = graceful(site)
    assert done["error"]["kind"] == "unreachable" and "the way there takes" in done["msg"], done
    assert kinds(site) == [] and not done["changed"]


def test_j3_leave_that_was_too_short_gets_longer(site: Controller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipping, "LEAST_SECONDS", 0.02)
    site.hold()
    assert graceful(site)["after"] == {"power": "off"} and kinds(site) == ["GracefulShutdown", "ForceOff"]
