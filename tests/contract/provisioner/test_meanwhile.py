# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What becomes of a node while leave for a write is waited for: nothing that could hit its work is sent any more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from calls import Waits, deployed, lead, ready

Options = dict[str, Any]
Change = Callable[[Options], Any]


def changes(site: Any) -> Iterator[Change]:
    """Somebody takes or holds it, or its record becomes another machine's."""
    for mark in site.marks[:2]:  # a third one is of deployed nodes alone
        yield lambda options, mark=mark: mark(options["name"])
    yield lambda options: site.other_card(options["name"], site.new()["boot_mac"])
    if site.driver.holds and not site.driver.serial:  # else another run waits for the turn of this one
        yield lambda options: lead(options, "maintenance")


def each_write(site: Any, state: str, begin: Callable[[], Options], change: Change) -> int:
    """Before how many writes of the way to this state it was tried."""
    nth = 0
    while True:
        options, before = begin(), []

        def happens(options: Options = options, before: list[tuple[int, str]] = before) -> None:
            change(options)
            before.append((len(site.faults.writes), site.native(options["name"])))

        line = Waits(nth + 1, happens)
        try:
            lead(options, state, line=line)
        except FleetError as exc:
            told = str(exc)
        else:
            told = "no error"
        if not before:
            assert told == "no error", told
            return nth
        [(sent, native)] = before
        since = [call.what for call in site.faults.writes[sent:]]
        mild = [what for what, hard, _nodes in line.writes[nth:] if not hard]
        seen = (state, nth + 1, line.writes, since, told)
        assert told != "no error", seen
        if site.refuses_late:
            assert site.native(options["name"]) == native, seen
        else:
            assert len(since) <= len(mild), seen
        nth += 1


@pytest.mark.parametrize("state", ["deployed", "released"])
def test_a_node_that_became_somebody_elses_while_leave_was_waited_for_is_left(site: Any, state: str) -> None:
    def begin() -> Options:
        options = ready(site) if state == "deployed" else deployed(site)
        return {**options, "image": site.image(), "deploy_id": "d-1"}

    for change in changes(site):
        assert each_write(site, state, begin, change)
