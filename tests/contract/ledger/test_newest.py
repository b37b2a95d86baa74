# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The newest events of each name, of many nodes at once: in a file and in PostgreSQL."""

from __future__ import annotations

from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event


def test_of_each_node_and_name_the_newest_come_oldest_first(url: str) -> None:
    with Ledger(url) as ledger:
        nodes = [ledger.identify(host, aliases=[("serial", host)]) for host in ("a", "b", "c")]
        told = [(node, Event(kind, name, {"n": n})) for n in range(4) for node in nodes[:2] for kind, name in _KINDS]
        ledger.append("r1", told)
        found = ledger.newest(nodes, "verdict", ["x", "y"], last=2)
        wanted = [(node, name, n) for n in (2, 3) for node in nodes[:2] for name in ("x", "y")]
        assert [(one["node_id"], one["name"], one["data"]["n"]) for one in found] == wanted
        assert ledger.newest(nodes, "verdict", ["x"], last=2, since=ledger.now() + 60) == []
        assert ledger.newest([], "verdict", ["x"], last=2) == ledger.newest(nodes[2:], "verdict", ["x"], last=2) == []
        assert ledger.everybody() == nodes


_KINDS = (("verdict", "x"), ("verdict", "y"), ("verdict", "z"), ("measure", "x"))
