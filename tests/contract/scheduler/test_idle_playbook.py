# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook ``verify_idle`` as a site runs it, on a real Slurm: what it begins, holds, records and leaves alone."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import lease
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.holder import this_run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler import jobs
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made
from contract.scheduler import slurm_cluster
from suite import events, playbook, services

pytestmark = pytest.mark.slow
PLAYBOOK = made.CHECKOUT / "playbooks" / "verify_idle.yml"
BROKEN = made.text(made.failing(made.dcgm4(), "memory", 3, made.fault("bad", 12)))


@pytest.fixture(scope="module")
@services.real
def slurm() -> Iterator[Any]:
    with slurm_cluster.running(yields=True) as cluster:
        yield cluster


class Site:
    """Three nodes in service whose machines are this one: each has a shell that shows it as the node's own."""

    def __init__(self, slurm: Any, folder: Path) -> None:
        self.slurm, self.folder = slurm, folder
        self.ledger = folder / "ledger.sqlite"
        (folder / "boot_id").write_text("boot-1\n", encoding="ascii")
        (folder / "profiles").mkdir()
        (folder / "profiles" / "test-sku.yaml").write_text(yaml.safe_dump(made.profile()), encoding="utf-8")
        hosts = {name: self._host(name) for name in slurm_cluster.NODES}
        shared = {
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "gpufleet_sku": "test-sku",
            "gpufleet_scheduler": "slurm",
            "gpufleet_scheduler_conf": str(slurm.conf),
            "gpufleet_ledger_url": f"sqlite:///{self.ledger}",
            "verify_idle_queue": slurm_cluster.VERIFY,
            "verify_idle_options": self._options(),
        }
        inventory = {"all": {"hosts": hosts, "vars": shared}}
        (folder / "hosts.yml").write_text(yaml.safe_dump(inventory), encoding="utf-8")

    def _host(self, name: str) -> dict[str, str]:
        (home := self.folder / name).mkdir()
        seen = f"s#/sys/class/dmi/id#{made.dmi(home, f'S{name}')}#g"
        shell = made.program(home / "shell", f'exec /bin/sh -c "$(printf "%s" "$2" | sed "{seen}")"')
        events.known(self.ledger, name, f"S{name}")
        return {"gpufleet_serial": f"S{name}", "gpufleet_scheduler_node": name, "ansible_shell_executable": shell}

    def _options(self) -> dict[str, Any]:
        (self.folder / "broken.out").write_text(BROKEN, encoding="utf-8")
        broken = f'if [ "$SLURMD_NODENAME" = gpu002 ] && [ "$1" = diag ]; then cat {self.folder}/broken.out; exit 0; fi'
        return {
            "dcgmi": made.dcgmi(self.folder, made.text(made.dcgm4()), body=broken),
            "pci_path": made.pci(self.folder),
            "state_dir": str(self.folder / "jobs"),
            "boot_id_path": str(self.folder / "boot_id"),
            "localise_timeout": 1,
        }

    def run(self, *flags: str) -> tuple[int, str]:
        env = {
            **os.environ,
            "ANSIBLE_COLLECTIONS_PATH": str(made.CHECKOUT / "build" / "collections"),
            "GPUFLEET_PROFILE_PATH": str(self.folder / "profiles"),
        }
        done = playbook.run(["-i", str(self.folder / "hosts.yml"), str(PLAYBOOK), *flags], env=env)
        return done.returncode, done.stdout + done.stderr

    def verdicts(self) -> list[tuple[str, str]]:
        return [(node, data["verdict"]) for node, _name, data in events.of_kind(self.ledger, "verdict")]

    def jobs(self, *which: str) -> list[str]:
        return self.slurm.run("squeue", "--all", "-h", "-n", jobs.NAME, *which, "-o", "%i").split()


def test_what_fails_is_held_and_what_is_somebody_elses_is_left_alone(slurm: Any, tmp_path: Path) -> None:
    site = Site(slurm, tmp_path)
    other = this_run(os.getpid())
    with Ledger(f"sqlite:///{site.ledger}") as ledger, ledger.transaction() as conn:
        held = ledger.identify("gpu003", aliases=[("serial", "Sgpu003")])
        lease.take_in(conn, ledger, held, other, node="gpu003")

    rc, out = site.run("--check")
    assert rc == 0 and site.jobs("-t", "all") == [] and site.verdicts() == [], out

    rc, out = site.run()
    assert rc == 2, out
    assert sorted(site.verdicts()) == [("gpu001", "pass"), ("gpu002", "fail")], out
    shown = slurm.show("gpu002")
    assert shown["State"] == "IDLE+DRAIN" and shown["Reason"].startswith("gpufleet:"), shown
    assert [slurm.state(name) for name in ("gpu001", "gpu003")] == ["IDLE", "IDLE"]
    states = [(node, name) for node, name, _data in events.of_kind(site.ledger, "state")]
    assert states == [("gpu002", "draining")], states
    assert "Held: " in out and "day2_recycle -i INVENTORY --limit gpu002" in " ".join(out.split()), out
    assert site.jobs() == [] and not list((tmp_path / "jobs").glob("idle-*")), "nothing is left behind"
    with Ledger(f"sqlite:///{site.ledger}") as ledger:
        free = ledger.identify("gpu001", aliases=[("serial", "Sgpu001")])
        assert lease.working(ledger, [free, held], None) == {held: other.run_id}

    submitted = len(site.jobs("-t", "all"))
    rc, out = site.run("--limit", "gpu001")
    assert rc == 0 and len(site.jobs("-t", "all")) == submitted, f"it was judged just now: {out}"
