# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Is this machine's clock right? By it each node's is judged, and one that is off would fail every node. PRIVATE."""

from __future__ import annotations

import time
from collections.abc import Iterable

from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import Driver
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.boots import seconds_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import Scheduler
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.clock import judge_offset, window
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.specs import IMAGE_VERIFY
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import FAIL
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._causes import NOTE, SITE, Cause
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._preflight import Batch

CHECK = "clock"
LIMIT = "baseline_max_clock_skew"
#: A scheduler tells whole seconds.
_GRAIN = 1.0
#: Zones lie whole quarters of an hour apart; a scheduler may tell its time in another one than ours.
_ZONES_APART = 900.0


def by_scheduler(batch: Batch, driver: Scheduler, hosts: Iterable[str]) -> None:
    """Hold this machine's clock against the scheduler's, in the limit that each host's node is judged by."""
    asked = time.time()
    there = seconds_of(driver.clock())
    if there is None:
        return
    low, high = window(asked, there, time.time(), grain=_GRAIN)
    for host in hosts:
        limit = _limit(batch, host)
        if judge_offset((low, high), limit) == FAIL:
            ahead = (low + high) / 2
            batch.tell([host], _of_zones(_cause("the scheduler", driver.address, ahead, limit), ahead, limit))


def by_provisioner(batch: Batch, driver: Driver, hosts: Iterable[str]) -> None:
    """The same against a provisioner that dates its answers; that is in no zone."""
    if driver.ahead is None:
        return
    for host in hosts:
        limit = _limit(batch, host)
        if judge_offset(driver.ahead, limit) == FAIL:
            batch.tell([host], _cause(f"the provisioner ({driver.name})", driver.address, sum(driver.ahead) / 2, limit))


def _limit(batch: Batch, host: str) -> float:
    try:
        return float(batch.value(host, LIMIT))
    except (TypeError, ValueError):  # not set, or what the look at settings tells
        return float(IMAGE_VERIFY["max_clock_skew"]["default"])


def _cause(peer: str, address: str, ahead: float, limit: float) -> Cause:
    seen = f"{peer}'s is {abs(ahead):.0f} s {'ahead' if ahead > 0 else 'behind'}"
    wanted = f"at most {limit:g} s between them ({LIMIT})"
    what = f"this machine's clock and {peer}'s differ, and each node is judged by this machine's"
    do = f"compare 'date -u' here and where {peer} runs, and have both follow one time server (chronyc tracking)"
    return Cause(CHECK, SITE, what, wanted=wanted, seen=seen, do=do, address=address)


def _of_zones(cause: Cause, ahead: float, limit: float) -> Cause:
    """A scheduler may tell its time in another zone than this machine's."""
    nearest = round(ahead / _ZONES_APART) * _ZONES_APART
    if not nearest or abs(ahead - nearest) > limit + _GRAIN:
        return cause
    what = "the scheduler's clock is whole quarters of an hour from this machine's, as another time zone's is"
    do = "if both zones are right, nothing; else compare 'date -u' here and where the scheduler runs"
    return Cause(CHECK, NOTE, what, wanted=cause.wanted, seen=cause.seen, do=do, address=cause.address)
