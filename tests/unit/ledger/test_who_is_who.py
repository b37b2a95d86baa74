# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An id out of the inventory that this ledger has never seen: no node to whoever only looks, and made by who writes."""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger

OWN = "0b3a2f2e-0000-4000-8000-000000000001"
SERIAL = ("serial", "GF0001")


@pytest.mark.parametrize("aliases", [[], [SERIAL]])
def test_t1_to_look_with_an_id_that_nobody_has_seen_finds_no_node(
    ledger: Ledger, aliases: list[tuple[str, str]]
) -> None:
    assert ledger.identify("gpu001", node_id=OWN, aliases=aliases, create=False) == ""
    assert ledger._rows("SELECT * FROM nodes") == []
    assert ledger.identify("gpu001", node_id=OWN, aliases=aliases) == OWN
    assert ledger.identify("gpu001", node_id=OWN, aliases=[SERIAL], create=False) == OWN


def test_t1_an_id_that_nobody_has_seen_is_still_not_another_nodes(ledger: Ledger) -> None:
    node = ledger.identify("gpu001", aliases=[SERIAL])
    with pytest.raises(ConfigError, match="different nodes"):
        ledger.identify("gpu001", node_id=OWN, aliases=[SERIAL], create=False)
    assert ledger.identify("gpu001", node_id=node, aliases=[SERIAL], create=False) == node
