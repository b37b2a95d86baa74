# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Of the workers of one run one asks a scheduler for a proof; those that wait for its answer wait once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError, Unreachable
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._proof import Proofs
from contract.permit.rig import Controller

HOSTS = ("gpu001", "gpu002")


def renewed(site: Controller, host: str, *, inside: Callable[[], object], waiting: Callable[[], object]) -> Any:
    """What a worker of this host is told. inside: called when its turn to ask has come; waiting: while it waits."""

    def variable(name: str, of: str) -> Any:
        inside()
        return site.hosts[of].get(name)

    with Ledger(f"sqlite:///{site.folder}/ledger.sqlite") as ledger:
        ids = {one: ledger.identify(one, aliases=[("serial", f"S-{one}")]) for one in HOSTS}
        proofs = Proofs(
            lambda: ledger, identify=ids.__getitem__, variable=variable, others=lambda: HOSTS,
            tell=lambda pairs: ledger.append("r1", pairs), beat=waiting,
        )  # fmt: skip
        return proofs.renew([host])


def silent(site: Controller) -> Path:
    """slurmctld answers nobody; the file has a line for each that asked."""
    script, asked = site.folder / "bin" / "scontrol", site.folder / "asked"
    told = "slurm_load_node error: Unable to contact slurm controller (connect failure)"
    script.write_text(f"#!/bin/sh\necho asked >> {asked}\necho '{told}' >&2\nexit 1\n", encoding="utf-8")
    return asked


def test_j2_a_scheduler_that_does_not_answer_is_waited_for_once(controller: Callable[..., Controller]) -> None:
    site = controller(*HOSTS)
    site.later(-100)  # so long ago they were looked at
    for host in HOSTS:
        site.hold(host)
    asked = silent(site)
    asks, waits, never = threading.Event(), threading.Event(), lambda: None
    with ThreadPoolExecutor(2) as workers:

        def inside() -> None:
            asks.set()
            assert waits.wait(30), "the other one did not wait"

        first = workers.submit(renewed, site, "gpu001", inside=inside, waiting=never)
        assert asks.wait(30), "the first one did not ask"
        second = workers.submit(renewed, site, "gpu002", inside=never, waiting=waits.set)
        failed: list[dict[str, FleetError]] = [first.result(60), second.result(60)]
    assert [isinstance(one[host], Unreachable) for one, host in zip(failed, HOSTS)] == [True, True], failed
    once = len(asked.read_text(encoding="ascii").split())
    renewed(site, "gpu002", inside=never, waiting=never)
    assert len(asked.read_text(encoding="ascii").split()) == 2 * once, "whoever has heard of it asks again"


def test_ch7_the_next_wave_of_workers_does_not_wait_for_it_again(
    controller: Callable[..., Controller], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody of it waited while the first one asked, and of its proof nobody thought there: it was young."""
    site, never = controller(*HOSTS), lambda: None
    site.later(-100)
    site.hold("gpu001")
    site.later(-5)
    site.hold("gpu002")
    asked = silent(site)
    assert isinstance(renewed(site, "gpu001", inside=never, waiting=never)["gpu001"], Unreachable)
    once, at = len(asked.read_text(encoding="ascii").split()), time.monotonic()
    monkeypatch.setattr(Ledger, "now", lambda _self, now=Ledger.now: now(_self) + 70)
    told = renewed(site, "gpu002", inside=never, waiting=never)
    assert isinstance(told["gpu002"], Unreachable) and "contact slurm controller" in str(told["gpu002"]), told
    assert len(asked.read_text(encoding="ascii").split()) == once, "it was asked once for both"
    for host in HOSTS:
        monkeypatch.setattr(time, "monotonic", lambda: at + 70)
        renewed(site, host, inside=never, waiting=never)
        assert len(asked.read_text(encoding="ascii").split()) == 2 * once, "a minute later it is asked, and once again"


def test_ch7_the_silence_of_one_scheduler_is_that_of_no_other(controller: Callable[..., Controller]) -> None:
    site, never = controller(*HOSTS), lambda: None
    site.later(-100)
    for host in HOSTS:
        site.hold(host)
    conf = site.folder / "other.conf"
    conf.write_text("", encoding="ascii")
    asked = silent(site)
    renewed(site, "gpu001", inside=never, waiting=never)
    once = len(asked.read_text(encoding="ascii").split())
    site.hosts["gpu002"]["gpufleet_scheduler_conf"] = str(conf)
    renewed(site, "gpu002", inside=never, waiting=never)
    assert len(asked.read_text(encoding="ascii").split()) > once


def test_ch7_who_comes_a_minute_later_asks_a_scheduler_that_was_silent(
    controller: Callable[..., Controller], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And has never heard of its silence."""
    site, never = controller(*HOSTS), lambda: None
    site.later(-100)
    for host in HOSTS:
        site.hold(host)
    asked = silent(site)
    renewed(site, "gpu001", inside=never, waiting=never)
    once, at = len(asked.read_text(encoding="ascii").split()), time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: at + 70)
    renewed(site, "gpu002", inside=never, waiting=never)
    assert len(asked.read_text(encoding="ascii").split()) == 2 * once


def test_j2_a_node_that_was_never_seen_drained_is_not_looked_at_beside_another(
    controller: Callable[..., Controller],
) -> None:
    """Nothing of it is due: its own turn begins with a look of its own."""
    site, never = controller(*HOSTS), lambda: None
    site.later(-100)
    site.hold("gpu001")
    assert site.run("scheduler_node", "gpu002", state="present")["state"] == "idle"
    before = site.events("evidence", "gpu002")
    assert renewed(site, "gpu001", inside=never, waiting=never) == {}
    assert site.events("evidence", "gpu002") == before == ["in_service"], "of gpu001 alone"
