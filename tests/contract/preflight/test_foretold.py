# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Q5: what a run in check mode foretells of each node is what the run that follows does with it."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.node import node
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Event
from contract.preflight.conftest import KEY
from fake_bmc.redfish_server import PASSWORD, USER
from sound_site import SoundSite
from test_peers import bmcs, slurm  # noqa: F401

pytestmark = pytest.mark.slow

#: What the ledger has of each host before; of gpu001 nothing.
BEFORE = {
    "gpu002": [("enrolled", {})],
    "gpu003": [("enrolled", {}), ("imaging", {"deploy_id": "d3"}), ("admitted", {})],
    "gpu005": [("enrolled", {}), ("imaging", {"deploy_id": "d5"})],
}


@pytest.fixture
def site(site: SoundSite) -> SoundSite:
    site.grow(5)
    return site


def lived(site: SoundSite) -> None:
    with Ledger(site.shared["gpufleet_ledger_url"]) as ledger:
        for host, events in BEFORE.items():
            node = ledger.identify(host, aliases=[("serial", site.hosts[host]["gpufleet_serial"])])
            ledger.append("r1", [(node, Event("state", name, data)) for name, data in events])


def went_through(site: SoundSite) -> dict[str, list[str]]:
    """The states that a run has recorded of each host."""
    asked = (
        "SELECT nodes.name, events.name FROM events JOIN nodes USING (node_id)"
        " WHERE kind = 'state' AND run_id != 'r1' ORDER BY id"
    )
    with contextlib.closing(sqlite3.connect(site.folder / "ledger.sqlite")) as ledger:
        found: dict[str, list[str]] = {host: [] for host in site.hosts}
        for host, state in ledger.execute(asked):
            found[host].append(state)
        return found


def everything(site: SoundSite, slurm: Path, maas: Any) -> list[Any]:  # noqa: F811
    """Whatever a write would alter."""
    ledger = site.folder / "ledger.sqlite"
    nodes = json.loads(slurm.read_text(encoding="utf-8"))["nodes"]
    return [ledger.exists() and ledger.read_bytes(), nodes, len(maas.store.machines)]


def test_q5_day_0_goes_the_way_that_check_mode_foretold(bmcs: Any, slurm: Path, maas: Any) -> None:  # noqa: F811
    """A new node, one that is enrolled, one in service, one that somebody holds, one in its deployment."""
    site, _found = bmcs
    lived(site)
    world = json.loads(slurm.read_text(encoding="utf-8"))
    world["nodes"]["gpu003"] = {"state": "IDLE", "reason": "", "by": ""}
    world["nodes"]["gpu004"] = {"state": "IDLE+DRAIN", "reason": "memtest", "by": "alice"}
    slurm.write_text(json.dumps(world), encoding="utf-8")
    before = everything(site, slurm, maas)

    *_, report = [one for one in site.results("day0_bringup", "--check", "--diff", ok=False) if "nodes" in one]
    assert everything(site, slurm, maas) == before
    told = {host: one["foretold"] for host, one in report["nodes"].items()}
    assert told == {
        "gpu001": "discovered (new to maas) -> enrolled -> imaging (hpc 1.4) -> validating -> admitted",
        "gpu002": "enrolled (new to maas) -> imaging (hpc 1.4) -> validating -> admitted",
        "gpu003": "",
        "gpu004": "",
        "gpu005": "imaging (new to maas) -> validating -> admitted",
    }, site.output[-6000:]
    assert report["diff"]["after"] == "".join(f"{host}: {line}\n" for host, line in told.items() if line)
    assert "a run would bring 3 into service" in " ".join(report["lines"][:3]), report["lines"]
    assert failed_at_its_end(site) == {"gpu004"} and "memtest" in site.output
    found = site.results("reimage", "--check", "--limit", "gpu005", ok=True)
    foretold = "imaging -> the deployment d5 waited for -> image and machine proven"
    assert [one["msg"] for one in found if "->" in one.get("msg", "")] == [foretold]
    assert everything(site, slurm, maas) == before

    site.results("day0_bringup", "-e", "deploy_boot_timeout=1", ok=False)
    done, ways = went_through(site), {host: one["way"] for host, one in report["nodes"].items() if told[host]}
    # No machine is there to boot what was deployed.
    assert done == {host: [*ways.get(host, [])[: len(done[host])]] for host in done}
    assert done["gpu001"] == ["enrolled", "imaging"] and done["gpu002"] == ["imaging"], done
    written(slurm)
    assert failed_at_its_end(site) == {"gpu001", "gpu002", "gpu004", "gpu005"}


def test_j7_a_machine_that_runs_for_nobody_knows_whom_is_left_alone(bmcs: Any, maas: Any) -> None:  # noqa: F811
    """gpu001 and gpu002 are new and on, and gpu003 off; no scheduler is asked, and MAAS has the second one alone."""
    site, found = bmcs
    del site.hosts["gpu004"], site.hosts["gpu005"]
    for host, bmc in found.items():
        bmc.machine.reset("ForceOff" if host == "gpu003" else "On")
        bmc.machine.arrive()
    known = site.hosts["gpu002"]
    asked = {"provisioner": "maas", "provisioner_url": maas.url, "provisioner_api_key": KEY, "state": "enrolled"}
    login = {"bmc_address": known["gpufleet_bmc_address"], "bmc_username": USER, "bmc_password": PASSWORD}
    node({**asked, **login, "name": "gpu002", "boot_mac": known["gpufleet_boot_mac"]}, Context(node="gpu002"))

    site.results("day0_bringup", "--check", ok=False)
    assert refused(site) == {"gpu001"}, site.output[-6000:]
    assert failed_at_its_end(site) == {"gpu001"}
    site.results("day0_bringup", "--check", "-e", "oob_ready_take_running=true", ok=True)
    assert refused(site) == set()


def refused(site: SoundSite) -> set[str]:
    lines = [json.loads(line[7:]) for line in site.output.splitlines() if line.startswith("RESULT ")]
    return {one["host"] for one in lines if "nobody can say whether it is in use" in one["result"].get("msg", "")}


def failed_at_its_end(site: SoundSite) -> set[str]:
    """By the last task of the playbook."""
    lines = [json.loads(line[7:]) for line in site.output.splitlines() if line.startswith("RESULT ")]
    return {one["host"] for one in lines if "Next: ansible-playbook" in one["result"].get("msg", "")}


def written(slurm: Path) -> None:  # noqa: F811
    """What the run wrote is no look's, which the fixture would take it for."""
    world = json.loads(slurm.read_text(encoding="utf-8"))
    slurm.write_text(json.dumps({**world, "calls": []}), encoding="utf-8")
