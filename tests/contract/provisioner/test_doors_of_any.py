# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The actions through ansible-playbook, for every driver that there is and that is to come: one that leaves a machine
to be booted by others, and one that keeps no hold, come there like the others, or are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from controller import DEPLOYED, HELD, LIFTED, READY, Controller, wait

pytestmark = pytest.mark.slow


@pytest.fixture
def controller(site: Any, tmp_path: Path) -> Controller:
    return Controller(site, tmp_path)


def of_all(task: dict[str, Any], **more: Any) -> dict[str, Any]:
    """One task for all hosts."""
    ((verb, options),) = task.items()
    return {verb: {**options, **more, "batch": True}, "run_once": True}


def booted(site: Any, controller: Controller, verdicts: dict[str, Any]) -> dict[str, Any]:
    """The verdicts on a batch that was sent on, once whoever boots its machines has done so."""
    if site.driver.owns_power:
        return verdicts
    told = {host: (one["ok"], one["step"]) for host, one in verdicts.items()}
    assert told == dict.fromkeys(controller.nodes, (False, "boot")), verdicts
    for name in controller.nodes:
        site.boot(name)
    found: dict[str, Any] = controller.play(wait("deployed", booted=True))[-1]["result"]["verdicts"]
    return found


def test_day_0_by_playbook_and_again(site: Any, controller: Controller) -> None:
    tasks = (READY, wait("ready"), DEPLOYED, wait("deployed"))
    first = controller.play(*tasks)
    output = controller.output
    verdicts = booted(site, controller, first[-1]["result"]["verdicts"])
    assert set(verdicts) == set(controller.nodes) and all(one["ok"] for one in verdicts.values()), verdicts
    assert not any(secret in output + controller.output for secret in site.secrets), "a secret in the output of -vvv"
    assert not any(secret.encode() in controller.ledger.read_bytes() for secret in site.secrets)
    for name in controller.nodes:
        intents = [event for node, event, data in controller.events("intent") if node == name]
        # Some need one step alone to be ready, which the first task has begun.
        writers = {"provisioner_node", *(["provisioner_wait"] if site.watcher_writes else [])}
        assert set(intents) == writers, "each writer told what it was about to do"
    site.faults.forget()
    events = len(controller.events("intent"))
    # Looked at by one task for all, each host is told the same.
    second = controller.play(of_all(READY), wait("ready"), of_all(DEPLOYED), wait("deployed"))
    assert not any(secret in controller.output for secret in site.secrets), "a secret in the output of -vvv"
    assert not any(one["result"].get("changed") for one in second)
    assert all(one["ok"] for told in second for one in told["result"]["verdicts"].values()), second
    assert all(one["ok"] for one in second[-1]["result"]["verdicts"].values()), "and none is to be booted again"
    assert site.faults.writes == [] and len(controller.events("intent")) == events


def test_a_hold_is_known_to_the_ledger_or_refused(site: Any, controller: Controller) -> None:
    controller.play(READY, wait("ready"))
    if not site.driver.holds:
        site.faults.forget()
        intents = len(controller.events("intent"))
        for order in (HELD, LIFTED):
            refused = [one["result"]["error"] for one in controller.play(order, ok=False)]
            assert [one["kind"] for one in refused] == ["unsupported"] * len(controller.nodes), refused
        assert site.faults.writes == [] and controller.events("maintenance") == []
        assert len(controller.events("intent")) == intents, "nothing was about to be done"
        return
    controller.play(HELD)
    held = controller.events("maintenance")
    assert sorted((node, name) for node, name, data in held) == [(name, "held") for name in sorted(controller.nodes)]
    tokens = [data["hold_token"] for node, name, data in held]
    assert all(token.startswith("gpufleet:") and token.endswith(":reseat") for token in tokens)
    (again,) = controller.play(of_all(HELD))
    assert set(again["result"]["verdicts"]) == set(controller.nodes) and not again["result"]["changed"], again
    (lifted,) = controller.play(of_all(LIFTED))
    assert all(one["ok"] and one["changed"] for one in lifted["result"]["verdicts"].values()), lifted
    assert [name for node, name, data in controller.events("maintenance")][-1] == "lifted"
