# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A slow task for a thousand hosts, as a person sees it: that it moves, how fast, and on whom it waits."""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from fake_bmc.redfish_server import PASSWORD, USER, FakeBmc
from suite import playbook

pytestmark = pytest.mark.slow

CHECKOUT = Path(__file__).resolve().parents[3]
HOSTS = [f"gpu{number:04}" for number in range(1, 1001)]
#: What a controller of BMCs may take for each answer, when many ask it.
SECONDS = 0.3
LINE = re.compile(
    r"bmc_info: (\d+) of 1000 done(?:, \d+ a (?:second|minute))?, waits for gpu\d{4}(?: gpu\d{4}){0,5}(?: \.\.\.)?"
)


def site(folder: Path, bmc: FakeBmc) -> None:
    shared = {
        "ansible_connection": "local", "ansible_python_interpreter": sys.executable,
        "gpufleet_ledger_url": f"sqlite:///{folder}/ledger.sqlite", "gpufleet_bmc_protocol": "redfish",
        "gpufleet_bmc_address": bmc.url, "gpufleet_bmc_username": USER, "gpufleet_bmc_password": PASSWORD,
    }  # fmt: skip
    inventory = {"all": {"hosts": dict.fromkeys(HOSTS, {}), "vars": shared}}
    (folder / "hosts.yml").write_text(yaml.safe_dump(inventory), encoding="utf-8")
    asks = {"name": "Ask all BMCs", "gpufleet.baremetal.bmc_info": {"batch": True}, "run_once": True}
    role = folder / "roles" / "asks" / "tasks"
    role.mkdir(parents=True)
    (role / "main.yml").write_text(yaml.safe_dump([{**asks, "register": "told"}]), encoding="utf-8")
    play = {"hosts": "all", "gather_facts": False, "roles": ["asks"]}
    (folder / "play.yml").write_text(yaml.safe_dump([play]), encoding="utf-8")


def ran(folder: Path, **more: str) -> str:
    env = {key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")}
    env |= {"ANSIBLE_COLLECTIONS_PATH": str(CHECKOUT / "build" / "collections"), "ANSIBLE_NOCOLOR": "1"}
    done = playbook.run(["-i", "hosts.yml", "play.yml"], cwd=folder, env={**env, "COLUMNS": "80", **more})
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return done.stdout


@pytest.mark.parametrize("callback", ["default", "gpufleet.baremetal.fleet_progress"])
def test_a_slow_task_for_a_thousand_hosts_tells_how_many_it_has_served(tmp_path: Path, callback: str) -> None:
    with FakeBmc("plain") as bmc:

        def slow(code: int, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, str], bytes]:
            time.sleep(SECONDS)
            return code, headers, body

        bmc.mangle = slow
        site(tmp_path, bmc)
        output = ran(tmp_path, ANSIBLE_STDOUT_CALLBACK=callback)
    told = [line for line in output.splitlines() if line.startswith("bmc_info: ")]
    found = [LINE.fullmatch(line) for line in told]
    assert told and all(found), output[:4000]
    counts: list[Any] = [int(one[1]) for one in found if one]
    assert counts == sorted(counts) and len(set(counts)) > 1 and max(counts) > 100, told
    assert len(told) <= 12, "a line each so often, and seldomer with time"
    assert max(map(len, told)) < 80
    if callback != "default":
        assert "waiting for gpu0001" not in output, "it waits for no one host"
        [stage] = [line.split() for line in output.splitlines() if line.split()[:1] == ["asks"]]
        assert stage[1:3] == ["1000", "ok"], stage
        assert output.splitlines()[-1].strip().startswith("1000 hosts in "), output[-300:]
