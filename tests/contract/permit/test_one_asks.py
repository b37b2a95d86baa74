# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Of the workers of one run one asks a scheduler for a proof; those that wait for its answer wait once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

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
            tell=lambda pairs: ledger.append("r1", pairs), run_id="r1", beat=waiting,
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
    assert len(asked.read_text(encoding="ascii").split()) == 2 * once, "whoever comes later asks again"
