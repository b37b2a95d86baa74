# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a soak is made of: other gates, which the registry knows. PRIVATE to the collection.

Runs on nodes: standard library only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.soak.section import plan_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Result

_Verb = Callable[[Mapping[str, Any], Context], Result]


class Parts(NamedTuple):
    """load: runs what its option ``tests`` names. loads: those that the profile has, or those of it that are named.
    look: one look at the GPUs. state: reads its part of a profile. log: reads the kernel log. earlier: reads that of an
    earlier boot. seconds: how long the load of a name runs."""

    load: _Verb
    loads: Callable[[Wanted, Sequence[str]], list[str]]
    look: _Verb
    state: Callable[[Wanted], object]
    log: _Verb
    earlier: _Verb
    seconds: Callable[[Wanted, str], float]

    def needs(self, wanted: Wanted, names: Sequence[str]) -> None:
        """:raises ConfigError: where the profile lacks a section that a soak reads, or no look could find a load."""
        plan = plan_of(wanted)
        longest = max(self.seconds(wanted, name) for name in self.loads(wanted, names))
        self.state(wanted)
        if longest < 2 * plan.interval:
            raise ConfigError(
                "no look finds the GPUs under a load that has run for an interval",
                wanted=f"a load of {2 * plan.interval:g} s or more",
                seen=f"{longest:g} s",
                do="let it run longer, or look more often (interval_seconds of soak)",
            )
