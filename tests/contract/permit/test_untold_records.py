# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A ledger that does not take what a batch was found to be is each host's own verdict under ``run_once``."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.action import provisioner_wait, scheduler_wait
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Unreachable
from contract.permit.rig import Controller
from contract.permit.test_given_back import refusing
from contract.permit.test_strangers import IMAGE, Make, about_to_be_deployed
from maas_server.server import MaasServer


@pytest.fixture
def images() -> dict[str, Any]:
    return {"gpu-golden-1": {}}


class Once:
    """One task for all hosts: where it fails, Ansible takes all of them but one out of the run, without a rescue."""

    _task: Any

    def run(self, *args: Any, **more: Any) -> Any:
        self._task.run_once = True
        return super().run(*args, **more)  # type: ignore


class SchedulerWait(Once, scheduler_wait.ActionModule):
    pass


class ProvisionerWait(Once, provisioner_wait.ActionModule):
    pass


class WaitsThere(ProvisionerWait):
    """Its module runs on a jump host, and knows none of the names by which it is called here."""

    def _goes_elsewhere(self) -> bool:
        return True

    def _execute_module(self, *_args: Any, **_more: Any) -> dict[str, Any]:
        silent = Unreachable("MAAS does not answer", address="http://maas:5240/MAAS")
        return {"changed": False, "failed": True, **silent.as_result()}


#: Told as an integer overflow; and as what no driver counts as an outage.
OVERFLOW, REFUSED = "SELECT abs(-9223372036854775807 - 1)", "SELECT RAISE(ABORT, 'an overflow of refusals')"


def full(site: Controller, kind: str, breaks: str = OVERFLOW) -> None:
    """The ledger takes no event of this kind any more."""
    with sqlite3.connect(site.folder / "ledger.sqlite") as ledger:
        ledger.execute(f"CREATE TRIGGER full BEFORE INSERT ON events WHEN NEW.kind = '{kind}' BEGIN {breaks}; END")


def untold(found: dict[str, Any], *hosts: str, kind: str = "unreachable") -> None:
    assert not found.get("failed") and set(found["verdicts"]) == set(hosts), found
    for verdict in found["verdicts"].values():
        assert (verdict["ok"], verdict["kind"], verdict["state"]) == (False, kind, "unknown"), verdict
        assert "overflow" in verdict["reason"] and not verdict["reason"].startswith("gpu"), verdict


def test_c8_what_a_module_tells_of_a_service_elsewhere_names_no_host(controller: Make) -> None:
    """Whose worker sent it there is no part of it, and stood in the verdict of each."""
    hosts = ("gpu001", "gpu002")
    found = controller(*hosts).run("provisioner_wait", action=WaitsThere, until="ready", timeout=5.0)
    assert not found.get("failed") and set(found["verdicts"]) == set(hosts), found
    for verdict in found["verdicts"].values():
        assert verdict["reason"] == "http://maas:5240/MAAS: MAAS does not answer", verdict


def test_c8_what_is_wrong_with_the_settings_of_a_batch_names_no_host(controller: Make, maas: MaasServer) -> None:
    hosts = ("gpu001", "gpu002")
    site = controller(*hosts)
    for host in site.hosts.values():
        host.update(gpufleet_provisioner="maas", gpufleet_provisioner_url=maas.url, gpufleet_provisioner_password="a:b")
    found = site.run("provisioner_wait", action=ProvisionerWait, until="ready", timeout=5.0)
    assert not found.get("failed") and set(found["verdicts"]) == set(hosts), found
    for verdict in found["verdicts"].values():
        assert verdict["kind"] == "config" and "key" in verdict["reason"] and "gpu00" not in verdict["reason"], verdict


@pytest.mark.parametrize(("breaks", "kind"), [(OVERFLOW, "unreachable"), (REFUSED, "bad_answer")])
def test_c8_a_ledger_that_takes_no_word_of_nodes_in_service_is_told_to_each_host(
    controller: Make, breaks: str, kind: str
) -> None:
    """They were resumed, and have to be held again, which their own rescue does: however the ledger says no."""
    hosts = ("gpu001", "gpu002")
    site = controller(*hosts)
    full(site, "evidence", breaks)
    found = site.run("scheduler_wait", action=SchedulerWait, until="idle", timeout=5.0, interval=0.2)
    untold(found, *hosts, kind=kind)
    assert not found["changed"]


def test_c8_a_ledger_that_takes_no_outcome_of_an_order_is_told_to_each_host(controller: Make, maas: MaasServer) -> None:
    """MAAS has refused it; what was written before is told all the same."""
    site = about_to_be_deployed(controller, maas)
    site.tells("gpu001", "state", "imaging", {"deploy_id": "d0"})
    full(site, "outcome")
    asked = {"until": "deployed", "timeout": 20.0, "nodes": [{"host": "gpu001", "image": IMAGE, "deploy_id": "d0"}]}
    with refusing("deploy"):
        found = site.run("provisioner_wait", action=ProvisionerWait, force_reason="not verified", **asked)
    untold(found, "gpu001")
    assert found["changed"] and found["asked"], found
