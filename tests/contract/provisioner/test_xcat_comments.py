# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""xCAT: what a person wrote into a node's record speaks for no node, and keeps none from being read or written."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from calls import await_all, deployed, lead, ready


@pytest.mark.parametrize(
    "line", ["Ticket: status=open", "{other}: colour=red", "{other}: provmethod=gold-9", "{other}: status=\nok"]
)
def test_a_line_of_a_persons_comment_says_nothing_of_another_node(xcat_site: Any, line: str) -> None:
    """lsdef prints a comment's lines among the attributes. Asked apart each node tells of itself."""
    one, other = deployed(xcat_site), deployed(xcat_site)
    record = xcat_site.record(one["name"])
    told = line.format(other=other["name"])
    record["usercomment"] = f"see\n{told} {record['usercomment']}"
    before = dict(xcat_site.record(other["name"]))
    assert {v["ok"] for v in await_all(xcat_site, "deployed", one, other)["verdicts"].values()} == {True}
    for options in (one, other):
        assert not lead(options, "deployed")["changed"]
    lead(one, "maintenance", run_id="run7", why="reseat")
    on_one_line = told.replace("\n", " ")
    assert record["usercomment"].startswith(f"see {on_one_line} gpufleet-hold="), "all of it, on one line"
    assert xcat_site.record(other["name"]) == before


def test_a_comment_that_forges_the_nodes_own_record_is_told(xcat_site: Any) -> None:
    one, other = deployed(xcat_site), deployed(xcat_site)
    xcat_site.faults.forget()
    xcat_site.record(one["name"])["usercomment"] += f"\n{one['name']}: provmethod=gold-2"
    with pytest.raises(ConfigError, match="reads like an attribute") as caught:
        lead(one, "deployed")
    assert one["name"] in str(caught.value) and "usercomment" in caught.value.do
    assert not lead(other, "deployed")["changed"] and xcat_site.faults.writes == []


def test_what_cannot_be_written_of_one_node_stops_no_other(xcat_site: Any) -> None:
    good, odd = [{**ready(xcat_site), "image": xcat_site.image()} for _number in range(2)]
    xcat_site.record(odd["name"])["addkcmdline"] = '"quoted'
    verdicts = await_all(xcat_site, "deployed", good, odd)["verdicts"]
    assert verdicts[good["name"]]["ok"]
    assert not verdicts[odd["name"]]["ok"] and "addkcmdline cannot be written" in verdicts[odd["name"]]["reason"]
    assert "provmethod" not in xcat_site.record(odd["name"])
