# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the scenarios of a certification came to, whatever system they were tried on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError

PASSED, FAILED, NOT_APPLICABLE, NOT_TRIED = "passed", "failed", "not applicable", "not tried"


class NotApplicable(Exception):
    """This driver, or this site, has nothing that it could be tried on."""


class Broken(Exception):
    """The contract is not kept."""


def demand(condition: object, words: str) -> None:
    if not condition:
        raise Broken(words)


@dataclass(frozen=True)
class Outcome:
    scenario: str
    machine: str
    outcome: str
    words: str = ""
    seconds: float = 0.0
    writes: int = 0


def judged(scenario: str, machine: str, attempt: Callable[[], None], written: Sequence[str]) -> Outcome:
    """One scenario, tried. ``written``: what the guard has let through, which it adds to."""
    began, before = time.monotonic(), len(written)
    result, words = PASSED, ""
    try:
        attempt()
    except NotApplicable as exc:
        result, words = NOT_APPLICABLE, str(exc)
    except (Broken, FleetError) as exc:
        result, words = FAILED, str(exc)
    seconds = round(time.monotonic() - began, 1)
    return Outcome(scenario, machine, result, words, seconds, len(written) - before)


def in_turn(
    scenarios: Iterable[str],
    machine: str,
    attempt: Callable[[str], Outcome],
    all_the_same: Callable[[str], bool],
    broken: str = "",
) -> Iterator[Outcome]:
    """Scenarios of one machine, of which each needs what those before it have left.

    :param all_the_same: whether one is tried after a failure, too: it gives back what the others may have left.
    :param broken: what has failed before the first.
    """
    for name in scenarios:
        if broken and not all_the_same(name):
            yield Outcome(name, machine, NOT_TRIED, f"after: {broken}")
            continue
        outcome = attempt(name)
        broken = broken or (name if outcome.outcome == FAILED else "")
        yield outcome
