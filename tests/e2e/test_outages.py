# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Services that are away for a moment, each where the collection's own code waits for it. The rest: make outages

The image server is away before a download, Ironic before a step, Slurm's controller before a look at the batch and for
longer than a client of it waits for an answer.
"""

from __future__ import annotations

import json

import outages
from first_day import in_service
from gone import REFUSED, SILENT
from outages import Outage

NODE = "gpu001"
ONE_OF_THEM = ("--limit", NODE, "-e", json.dumps({"day2_recycle_all": True}))
#: MessageTimeout of Slurm is 10 s.
AWAY = (
    Outage("Wait until the batch is drained", "slurmctld", 12, SILENT),
    Outage("Verify the golden image before it goes anywhere", "boot-http", 5, REFUSED),
    Outage("Start the deploy", "ironic", 5, REFUSED),
)


def test_q1_c7_c8_day2_goes_on_through_services_that_come_back_and_quarantines_nobody() -> None:
    in_service()
    played = outages.play("day2_recycle", ONE_OF_THEM, AWAY, nodes=[NODE])
    assert played.met == list(AWAY) and not played.wrong, (played, played.run.tail())
    assert played.run.rc == 0, played.run.tail()
    assert played.done["boots"][NODE] == played.done["passports"][NODE] == 1, played.done
    assert played.done["attempts"][NODE] == ["reimage"] and played.done["slurm"][NODE] == ["DRAINED", "IDLE"]
