# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How Hypothesis runs here: never against the clock, since a busy machine is no defect of what is tested."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import HealthCheck, settings

#: A number: so many times the examples, `make fuzz`. "brief": a fifth of the usual ones, `make test-fast`.
VARIABLE = "GPUFLEET_FUZZ"
#: Everywhere: no deadline for an example, no complaint that they are slow to make, and what repeats a failure is shown.
_COMMON: dict[str, Any] = {
    "deadline": None,
    "print_blob": True,
    "suppress_health_check": [HealthCheck.too_slow],
    "max_examples": 100,
    # Said outright: Hypothesis has a profile of its own, which it takes where CI is set, though it be to nothing.
    "derandomize": False,
}


def at_most(usual: int) -> int:
    """Of the examples of a property that says itself how many it takes: a fifth, where the profile is the brief one."""
    return usual // 5 if os.environ.get(VARIABLE) == "brief" else usual


def load(ci: bool) -> None:
    """Developers look for new examples at every run. In CI each run of a commit tries the same ones, so that red means
    that the change is at fault, and green stays green; there are more of them, and none remembered from elsewhere."""
    settings.register_profile("gpufleet", **_COMMON)
    settings.register_profile("ci", **{**_COMMON, "max_examples": 200, "derandomize": True, "database": None})
    settings.register_profile("brief", **{**_COMMON, "max_examples": 20})
    asked = os.environ.get(VARIABLE, "")
    if asked.isdigit():
        settings.register_profile("long", **{**_COMMON, "max_examples": 100 * int(asked)})
        asked = "long"
    settings.load_profile(asked if asked in ("long", "brief") else "ci" if ci else "gpufleet")
