# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A whole fleet by cause and one node's story, on each kind of ledger."""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.causes import by_cause, table
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.report import status
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.story import meant, story
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from sqlalchemy import event as hooks

FAULT = "GPU 0000:{:02x}:00.0: Xid 79, the GPU has fallen off the bus, seen by https://10.0.0.{}/redfish"


def lost(ledger: Ledger, number: int) -> dict[str, str]:
    """So many nodes that are held for one fault, each in a slot of its own."""
    found = {}
    for at in range(1, number + 1):
        host = f"gpu{at:03}"
        found[host] = ledger.identify(host, aliases=[("serial", f"S{at}")])
        data = {"reason": FAULT.format(at, at), "remedy": "power_cycle"}
        ledger.append("r1", [(found[host], Event("state", "quarantined", data))])
    return found


def asked(ledger: Ledger, nodes: dict[str, str]) -> int:
    """How many statements it takes to tell where these nodes stand."""
    seen: list[str] = []

    def count(*args: object) -> None:
        seen.append(str(args[2]))

    hooks.listen(ledger._conn, "before_cursor_execute", count)
    try:
        status(ledger, nodes)
    finally:
        hooks.remove(ledger._conn, "before_cursor_execute", count)
    return len(seen)


def test_u4_two_hundred_nodes_with_one_cause_are_one_row_of_few_questions(ledger: Ledger) -> None:
    nodes = lost(ledger, 200)
    (row,) = by_cause(status(ledger, nodes))
    assert (row["count"], row["folded"], row["remedy"]) == (200, "gpu[001-200]", "power_cycle")
    assert "Xid 79" in row["cause"] and row["cause"].count("(and 199 more)") == 2
    lines = table("Status", status(ledger, nodes), [row], 80)
    assert len(lines) <= 10 and max(map(len, lines)) <= 80, lines
    assert asked(ledger, nodes) == asked(ledger, dict(list(nodes.items())[:2])) > 0


def test_u4_a_story_has_the_newest_events_and_is_found_by_what_a_node_had(ledger: Ledger) -> None:
    node = lost(ledger, 2)["gpu002"]
    ledger.append("r2", [(node, Event("identity", "retired", {"kind": "mac", "value": "02:00:00:00:00:07"}))])
    ledger.append("r2", [(node, Event("note", "stopped", {"reason": f"reason {at}"})) for at in range(3)])
    one = story(ledger, node, last=2, all_kinds=False)
    assert [event["text"] for event in one["events"]] == ["note stopped: reason 1", "note stopped: reason 2"]
    assert one["earlier"] and (one["name"], one["state"]) == ("gpu002", "quarantined")
    assert not story(ledger, node, last=5, all_kinds=False)["earlier"]
    for known_by in ("gpu002", "s2", node, "020000000007"):
        assert meant(ledger, known_by) == [node], known_by
    with pytest.raises(ConfigError, match="knows no node by that"):
        meant(ledger, "S3")
