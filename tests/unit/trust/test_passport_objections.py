# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who is refused a passport hears everything that stands against it, and not the first thing alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from passports import DAY, evidence, reasons, verdict


def gate(found: dict[str, Any], name: str) -> dict[str, Any]:
    return next(event for event in found["verdicts"] if event["name"] == name)


WRONG: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "inconclusive": (
        lambda found: gate(found, "dcgm_gate")["data"].update(verdict="inconclusive"),
        "gate dcgm_gate: in",
    ),
    "too old": (
        lambda found: gate(found, "dcgm_gate").update(at=gate(found, "dcgm_gate")["at"] - 2 * DAY),
        "dcgm_gate",
    ),
    "a further one failed": (
        lambda found: found["verdicts"].append(verdict(15, "fabric_gate", "fail")),
        "gate fabric_gate: fail",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_t1_a_gate_is_told_beside_what_else_is_wrong(key: str, name: str) -> None:
    found = evidence()
    change, told = WRONG[name]
    change(found)
    said = reasons(state="issued", key_path=key, evidence=found)
    assert told in said and "nothing proves that BMC and node are one machine" in said
