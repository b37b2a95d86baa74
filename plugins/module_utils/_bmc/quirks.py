# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a quirk is: a row of what is known of a single kind of BMC. PRIVATE to the collection.

The rows, each with its source, lie with the driver whose protocol such a BMC speaks: ``redfish/quirks.py`` and
``ipmi/quirks.py``.

A row matches on equal strings, never on parts of them, and on every column that it names. It says how such a BMC
wants to be asked, or what it cannot show. No row can say that something has worked: a BMC whose read-back is blind
needs another proof, and without one the result is inconclusive.

Behaviours, and what their value is:

=====================  ==============================================================================================
boot_readback          ``blind``: a one-time override that was taken may not read back as one
boot_request           ``full``: enabled, target and (where it is shown) mode are sent each time, changed or not
boot_omit              tuple of Boot properties that are never sent
boot_target_alias      mapping of a target to others that it may read back as
boot_target_unlisted   tuple of targets that may be asked for though the BMC's list lacks them
boot_settings          URI below the system where the override lies if the BMC refers us away from the main resource
power_names            mapping of a kind of set_power to the ResetType to be sent, if the BMC lists it
power_also             mapping of a kind of set_power to the ResetType that does it where no standard one is listed
power_never            tuple of ResetTypes that are not sent though the BMC lists them
power_on_again         seconds for which a 409 to power-on shortly after power-off is asked again
restart_counter        path, within the system, of a number that grows with each restart
start_stage            StartStage: where the BMC tells how far the machine is in its start, and by what words
=====================  ==============================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Quirk:
    """One row. ``match`` maps a fact of the BMC to the values of which it must equal one."""

    name: str
    match: Mapping[str, tuple[str, ...]]
    behaviour: str
    value: Any
    source: str


@dataclass(frozen=True)
class StartStage:
    """``path`` within the system; from a word of ``late`` to one of ``early`` only a restart leads."""

    path: tuple[str, ...]
    late: tuple[str, ...]
    early: tuple[str, ...]


def names_fact(rows: tuple[Quirk, ...], fact: str) -> bool:
    """Does any row ask for this fact? One that costs a request is read only then."""
    return any(fact in row.match for row in rows)


def matching(rows: tuple[Quirk, ...], facts: Mapping[str, str]) -> dict[str, Quirk]:
    """The rows that fit, by behaviour; a later row of the same behaviour wins."""
    return {
        row.behaviour: row for row in rows if all(facts.get(key, "") in values for key, values in row.match.items())
    }
