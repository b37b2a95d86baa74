# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""bmc_log by its doors: what the action adds to the verb, and the module by itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.action import bmc_log
from fake_bmc.logs import MANAGER, Logs, OneLog, events, iso
from fake_bmc.redfish_server import PASSWORD, USER

from .test_playbook import Play
from .test_redfish import Make

CHECKOUT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(CHECKOUT / "tests" / "unit" / "plugins"))
from doors import Door


@pytest.fixture
def rig(fake: Make) -> Any:
    made = fake("plain", tls=False)
    made.bmc.logs = Logs(OneLog(f"{MANAGER}/LogServices/SEL", events(4, Message=f"login with {PASSWORD}\x1b[2J")))
    return made


def door(folder: Path, rig: Any, *, check_mode: bool = False, **variables: Any) -> Door:
    login = {"bmc_address": rig.bmc.url, "bmc_username": USER, "bmc_password": PASSWORD, "bmc_verify_tls": False}
    return Door(
        folder,
        bmc_log.ActionModule.verb,
        base=bmc_log.ActionModule,
        name="bmc_log",
        own_spec=bmc_log.LOG_SPEC,
        args={"most": 3},
        check_mode=check_mode,
        **{f"gpufleet_{name}": value for name, value in login.items()},
        **{"gpufleet_serial": "SN0001", **variables},
    )


@pytest.mark.parametrize("check_mode", [False, True])
def test_a_secret_in_an_event_is_masked_and_what_a_terminal_acts_on_is_spelled_out(
    tmp_path: Path, rig: Any, check_mode: bool
) -> None:
    found = door(tmp_path, rig, check_mode=check_mode).run()
    assert not found.get("failed"), found
    assert [one["id"] for one in found["entries"]] == ["4", "3", "2"] and not found["changed"]
    assert PASSWORD not in json.dumps(found) and "login with ****" in found["entries"][0]["message"]
    assert "\x1b" not in found["entries"][0]["message"]
    assert found["machine"]["agrees"] == ["serial"] and found["asked"] == [] == found["events"]
    assert rig.writes() == 0


def test_a_secret_in_a_page_that_is_none_is_not_in_its_error(tmp_path: Path, rig: Any) -> None:
    page = f"{MANAGER}/LogServices/SEL/Entries"
    rig.bmc.faults["raw"] = {page: f"<html>{'_' * 180}{PASSWORD}</html>".encode()}
    found = door(tmp_path, rig).run()
    assert found["failed"] and found["error"]["kind"] == "bad_answer" and page in found["msg"]
    assert PASSWORD[:4] not in json.dumps(found)


@pytest.mark.parametrize("ledger", ["", "sqlite:////dev/null/ledger.sqlite"], ids=["none", "away"])
@pytest.mark.parametrize("serial", ["SN0001", ""])
def test_a_look_is_a_look_without_a_ledger(
    tmp_path: Path, rig: Any, ledger: str, serial: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    known = {"gpufleet_serial": serial, "gpufleet_boot_mac": "52:54:00:00:00:01", "gpufleet_ledger_url": ledger}
    found = door(tmp_path, rig, **known).run()
    assert not found.get("failed"), found
    assert len(found["entries"]) == 3 and not list(tmp_path.glob("**/*.sqlite"))


def test_a_certificate_that_nobody_has_fixed_is_not_fixed_by_it(tmp_path: Path, rig: Any) -> None:
    found = door(tmp_path, rig, gpufleet_bmc_tls_fingerprint="first").run()
    assert found["failed"] and "bmc_info" in found["error"]["do"] and not rig.bmc.paths


def run_module(rig: Any, **options: Any) -> dict[str, Any]:
    """The module by itself, as Ansible starts it on another machine."""
    login = {"bmc_address": rig.bmc.url, "bmc_username": USER, "bmc_password": PASSWORD, "bmc_verify_tls": False}
    given = json.dumps({"ANSIBLE_MODULE_ARGS": {**login, **options, "_ansible_remote_tmp": "/tmp"}})
    done = subprocess.run(
        [sys.executable, "-m", "ansible_collections.gpufleet.baremetal.plugins.modules.bmc_log"],
        input=given, capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT / "build" / "collections")},
    )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_module_by_itself_tells_the_same(tmp_path: Path, rig: Any) -> None:
    there, here = run_module(rig, most=3, serial="SN0001"), door(tmp_path, rig).run()
    assert PASSWORD not in json.dumps(there)
    assert {key for key in here if not key.startswith("_")} == set(there) - {"invocation"}
    same = ("address", "machine", "log", "total", "unread", "changed")
    assert {name: there[name] for name in same} == {name: here[name] for name in same}
    assert [one["id"] for one in there["entries"]] == [one["id"] for one in here["entries"]]


@pytest.mark.slow
def test_its_examples_run(tmp_path: Path, fake: Make) -> None:
    from ansible_collections.gpufleet.baremetal.plugins.modules.bmc_log import EXAMPLES

    rig = fake("plain")
    rig.bmc.logs = Logs(OneLog(f"{MANAGER}/LogServices/SEL", [*events(3), *events(9, Created=iso(time.time()))[8:]]))
    done = Play(tmp_path, rig).ansible(yaml.safe_load(EXAMPLES))
    assert done.returncode == 0, done.stdout
    log_of_it = rig.bmc.logs.logs[0]
    log_of_it.entries[-1]["Severity"] = "Critical"
    done = Play(tmp_path, rig).ansible(yaml.safe_load(EXAMPLES))
    assert done.returncode == 2 and "Assertion failed" in done.stdout, done.stdout


def test_the_module_by_itself_fails_with_an_error_of_ours(rig: Any) -> None:
    rig.bmc.logs = Logs()
    found = run_module(rig)
    assert found["failed"] and found["error"]["kind"] == "unsupported" and "no system event log" in found["msg"]
