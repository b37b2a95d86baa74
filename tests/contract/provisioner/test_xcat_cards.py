# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""xCAT: that no node is given another one's card or BMC is asked of a site with thousands, and for each new node."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import WrongMachine
from calls import lead


def test_a_batch_of_new_nodes_asks_for_all_cards_once(xcat_site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of thousands. What is asked right before each write is answered in a few lines."""
    site = xcat_site
    others = {
        f"old{at}": {"mac": f"02:11:{at >> 8:02x}:{at & 255:02x}:00:01", "bmc": f"10.9.{at}.1"} for at in range(200)
    }
    site.management.nodes.update(others)
    try:
        names = [site.new() for _number in range(4)]
        run = f"run of {names[0]['name']}"
        for options in names:
            lead(options, "enrolled", run_cache=run)
        lists = [call.what for call in site.faults.calls if call.what.startswith("lsdef -t node -i")]
        assert len(lists) == 1 and all(one["name"] in site.management.nodes for one in names)
        theirs = {**site.new(), "boot_mac": names[1]["boot_mac"].upper().replace(":", "-")}
        with pytest.raises(WrongMachine, match=f"MAC belongs to {names[1]['name']}"):
            lead(theirs, "enrolled", run_cache=run)
        monkeypatch.setattr("xcat_commands.management.selected", lambda record, where: not where)
        with pytest.raises(WrongMachine, match="BMC belongs to"):  # an answer without its witness is none
            lead(
                {**site.new(), "bmc_address": names[2]["bmc_address"]},
                "enrolled",
                run_cache=f"run of {names[0]['name']}",
            )
    finally:
        for name in others:
            del site.management.nodes[name]
