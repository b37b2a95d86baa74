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


@pytest.fixture(params=["warewulf_site", "xcat_site", "xcatws"])
def site(request: pytest.FixtureRequest) -> Any:
    """Those whose drivers look once more before each write."""
    return request.getfixturevalue(request.param)


def changes(site: Any) -> Iterator[Callable[[str], None]]:
    """Somebody takes or holds it, or its record is another machine's."""
    yield from site.marks
    yield lambda name: site.other_card(name, site.new()["boot_mac"])


def each_write(site: Any, state: str, begin: Callable[[], dict[str, Any]], change: Callable[[str], None]) -> int:
    """Before how many writes of the way to this state it was tried."""
    nth = 0
    while True:
        options, sent = begin(), []

        def happens(name: str = options["name"], sent: list[int] = sent) -> None:
            change(name)
            sent.append(len(site.faults.writes))

        line = Waits(nth + 1, happens)
        try:
            lead(options, state, line=line)
        except FleetError as exc:
            told = str(exc)
        else:
            told = "no error"
        if not sent:
            assert told == "no error", told
            return nth
        since = [call.what for call in site.faults.writes[sent[0] :]]
        mild = [what for what, hard, _nodes in line.writes[nth:] if not hard]
        assert told != "no error" and len(since) <= len(mild), (state, nth + 1, line.writes, since, told)
        nth += 1


@pytest.mark.parametrize("state", ["deployed", "released"])
def test_a_node_that_became_somebody_elses_while_leave_was_waited_for_is_left(site: Any, state: str) -> None:
    def begin() -> dict[str, Any]:
        options = ready(site) if state == "deployed" else deployed(site)
        return {**options, "image": site.image(), "deploy_id": "d-1"}

    for change in changes(site):
        assert each_write(site, state, begin, change)
