# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What stops waves though few of all nodes failed: one finding on several, or many failures lately. PRIVATE.

A share says nothing of a fault that a thousand healthy nodes came before. Several nodes with one finding are no
accident of any of them, and neither are several that fail one after the other, whatever each of them has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ansible_collections.gpufleet.baremetal.plugins.module_utils._folded import folded
from ansible_collections.gpufleet.baremetal.plugins.module_utils._waves.budget import Limit
from ansible_collections.gpufleet.baremetal.plugins.module_utils._waves.ended import FAILED, THROUGH, Ended
from ansible_collections.gpufleet.baremetal.plugins.module_utils._waves.rollout import Past


@dataclass(frozen=True)
class Rules:
    """failures: how many of those that ended may fail. same: so many nodes with one finding stop; 0 for however many.
    recent: so many failures within these hours stop where they are more than failures; 0 for however many.
    """

    failures: Limit
    same: int
    recent: int
    hours: float

    @property
    def seconds(self) -> float:
        return self.hours * 3600


@dataclass(frozen=True)
class Came:
    """How a node came out of its newest wave, when, and by which findings it failed."""

    failed: bool
    at: float
    findings: tuple[str, ...] = ()


def shown(own: Ended, began: Mapping[str, float], pasts: Mapping[str, tuple[Past, str]]) -> dict[str, Came]:
    """By name of a node that has come out of a wave, how it did.

    :param own: what the waves of this run have shown. :param began: by host of these waves, when they did.
    :param pasts: by name of a node of any wave, what became of it, and where it stands.
    """
    found = {}
    for name, (past, state) in pasts.items():
        how = past.came_out(state)
        if name not in began and how in (FAILED, THROUGH):
            found[name] = Came(how == FAILED, past.at, past.findings)
    for host in sorted({*own.failed, *own.through} & set(began)):
        failed, past = host in own.failed, pasts.get(host, (Past(), ""))[0]
        # What ended after its wave began is of that one; of a killed run nobody told when.
        known = past.failed == failed and past.at >= began[host]
        found[host] = Came(failed, past.at if known else began[host], past.findings if known else ())
    return found


def halted(came: Mapping[str, Came], rules: Rules, now: float, image: str) -> str:
    """Why no further wave may begin; empty where one may.

    :param came: as of :func:`shown`. :param now: seconds, by the ledger's clock.
    """
    return _alike(came, rules, image) or _lately(came, rules, now)


def _alike(came: Mapping[str, Came], rules: Rules, image: str) -> str:
    by_finding: dict[str, list[str]] = {}
    for host, one in sorted(came.items()):
        for finding in dict.fromkeys(one.findings if one.failed else ()):
            by_finding.setdefault(finding, []).append(host)
    finding, hosts = max(by_finding.items(), key=lambda item: len(item[1]), default=("", []))
    if not rules.same or len(hosts) < rules.same:
        return ""
    since = f" since image {image}" if image else ""
    return f"{_of(hosts, came)} failed {finding}{since} ({folded(hosts)}), and {rules.same} with one finding stop"


def _lately(came: Mapping[str, Came], rules: Rules, now: float) -> str:
    lately = {host: one for host, one in came.items() if one.at >= now - rules.seconds}
    failed = [host for host, one in sorted(lately.items()) if one.failed]
    if not rules.recent or len(failed) < rules.recent or len(failed) <= rules.failures.of(len(lately)):
        return ""
    within = f"within {rules.hours:g} hours ({folded(failed)})"
    return f"{_of(failed, lately)} failed {within}, in whatever waves, and {rules.failures} may fail"


def _of(hosts: Iterable[str], came: Mapping[str, Came]) -> str:
    return f"{len(list(hosts))} of {len(came)} nodes"
