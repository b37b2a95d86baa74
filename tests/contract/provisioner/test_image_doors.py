# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""provisioner_image and provisioner_info as actions: what the ledger approves, and what it is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from controller import VERIFIED, Controller
from served import Served

pytestmark = pytest.mark.slow

CONTENT = b"gold" * 300
BRING: dict[str, Any] = {"gpufleet.baremetal.provisioner_image": {"timeout": 20}, "run_once": True}
LOOK: dict[str, Any] = {"gpufleet.baremetal.provisioner_info": {}, "run_once": True}


def test_v9_the_ledger_says_whether_this_run_has_verified_it(maas_site: Any, tmp_path: Path) -> None:
    served = Served()
    with maas_site.in_good_health() as site:
        controller = Controller(site, tmp_path)
        image = site.new_image(served.put("/gold.tar.gz", CONTENT), CONTENT)
        hosts = tmp_path / "hosts.yml"
        inventory = yaml.safe_load(hosts.read_text(encoding="utf-8"))
        inventory["all"]["vars"]["gpufleet_image"] = image
        hosts.write_text(yaml.safe_dump(inventory), encoding="utf-8")
        [refused] = controller.play(BRING, ok=False, forced=False)
        assert refused["result"]["error"]["kind"] == "evidence_missing" and site.faults.writes == []
        results = controller.play(VERIFIED, BRING, LOOK, forced=False)
        brought, told = results[-2]["result"], results[-1]["result"]
        assert brought["changed"] and brought["sha256"] == image["sha256"] and brought["proof"] == "digest"
        states = {host: (one["ok"], one["state"]) for host, one in told["verdicts"].items()}
        assert states == dict.fromkeys(controller.nodes, (True, "absent"))
        outcomes = [data for _node, name, data in controller.events("outcome") if name == "provisioner_image"]
        assert len(outcomes) == 1 and outcomes[-1]["changed"]
        assert not any(secret in controller.output for secret in site.secrets)
        assert not any(name == "provisioner_info" for _node, name, _data in controller.events("intent"))
    served.close()
