# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A login that may do less than its user thinks, and a provisioner that takes its time: the same for every driver."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import AuthFailed, Refused, Unreachable
from ansible_collections.gpufleet.baremetal.plugins.module_utils._proc import uptime
from ansible_collections.gpufleet.baremetal.plugins.module_utils._wait import wait_until
from calls import await_all, deployed, lead, ready
from suite.skips import not_applicable

#: Seconds that an answer may take here, and that it does take.
PATIENCE, LATE = 0.8, 2.4


def test_a_login_that_lacks_a_right_is_told_which_and_leaves_nothing_half_done(site: Any) -> None:
    if not site.rights:
        not_applicable("logins have no rights of their own there")
    options = {**deployed(site), "image": site.image("2")}
    name, power = options["name"], site.power(options["name"]) if site.driver.switches else ""
    for number, right in enumerate(site.rights):
        options["deploy_id"] = f"r{number}"
        with pytest.raises((Refused, AuthFailed)) as told:
            lead(options, "deployed", **site.without(right))
        assert right in str(told.value) and told.value.do, told.value
        assert not site.is_ordered(name, options["image"]["named"]), "its next boot brings what it had, or nothing"
        assert not power or site.power(name) == power
        site.faults.forget()
    lead(options, "deployed")
    verdict = await_all(site, "deployed", options)["verdicts"][name]
    assert verdict["ok"] and site.deployments() == 1, verdict


@pytest.mark.parametrize("reads", [True, False], ids=["reads", "writes"])
def test_an_answer_that_comes_late_is_waited_for_no_longer_than_it_may_take(
    site: Any, tmp_path: Path, reads: bool
) -> None:
    """What was written late all the same is found by the next run, and not written twice."""
    options = {**ready(site), "image": site.image(), "deploy_id": "5"}
    until, patience = tmp_path / "until", site.patience(PATIENCE)
    if patience is None:
        not_applicable("a driver of the tests alone")
    with patience:
        until.write_text(str(uptime() + LATE), encoding="ascii")
        site.faults.slow(until, reads=reads)
        began = time.monotonic()
        with pytest.raises(Unreachable) as told:
            lead(options, "deployed")
        assert time.monotonic() - began < LATE and told.value.details["slow"] <= PATIENCE
    assert len(site.faults.writes) == (not reads), "one that is given up is not sent again"
    taken = float(until.read_text(encoding="ascii")) + 0.3
    wait_until(uptime, lambda now: now > taken, timeout=10, interval=0.1, wanted="what came late is taken")
    lead(options, "deployed")
    verdict = await_all(site, "deployed", options)["verdicts"][options["name"]]
    assert verdict["ok"] and site.deployments() == (1 if reads or site.done_late else 2), verdict
