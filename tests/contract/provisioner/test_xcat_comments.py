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


#: What makes a record that cannot be read, and words of its error.
BROKEN = (
    ("usercomment", "\n{own}: provmethod=gold-2", "reads like an attribute"),
    ("addkcmdline", "quiet\nsplash", "addkcmdline"),
    ("groups", "all\n{other}: status=failed", "reads like an attribute"),
)


@pytest.mark.parametrize(("attribute", "value", "words"), BROKEN, ids=["comment", "break", "other"])
def test_a_record_that_nobody_can_read_is_its_own_nodes_verdict(
    xcat_site: Any, attribute: str, value: str, words: str
) -> None:
    """Those beside it in the batch are deployed, whichever of them its lines speak of."""
    one, bad, other = [{**ready(xcat_site), "image": xcat_site.image()} for _number in range(3)]
    record = xcat_site.record(bad["name"])
    record[attribute] = value.format(own=bad["name"], other=other["name"])
    before = dict(record)
    verdicts = await_all(xcat_site, "deployed", one, bad, other)["verdicts"]
    assert [verdicts[each["name"]]["ok"] for each in (one, bad, other)] == [True, False, True], verdicts
    assert verdicts[bad["name"]]["kind"] == "config" and words in verdicts[bad["name"]]["reason"]
    assert dict(record) == before and xcat_site.deployments() == 2
    del record[attribute]


def test_a_record_that_breaks_while_an_order_is_given_is_its_own_nodes_verdict(
    xcat_site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = [{**ready(xcat_site), "image": xcat_site.image()} for _number in range(3)]
    record = xcat_site.record(batch[1]["name"])
    real = xcat_site.management.run

    def run(argv: Any, stdin: str = "") -> Any:
        answer = real(argv, stdin)
        if argv[0] == "rsetboot":
            record["addkcmdline"] = "a\nb"
        return answer

    monkeypatch.setattr(xcat_site.management, "run", run, raising=False)
    verdicts = await_all(xcat_site, "deployed", *batch)["verdicts"]
    assert [verdicts[each["name"]]["ok"] for each in batch] == [True, False, True], verdicts
    told = verdicts[batch[1]["name"]]
    assert told["kind"] == "config" and "still set to install" in told["reason"], told
    del record["addkcmdline"]


def test_a_groups_name_in_a_batch_is_the_verdict_of_its_host_alone(xcat_site: Any) -> None:
    one = {**ready(xcat_site), "image": xcat_site.image()}
    xcat_site.record(one["name"])["groups"] += ",rack77"
    verdicts = await_all(xcat_site, "deployed", one, {**xcat_site.new(), "name": "rack77"})["verdicts"]
    assert verdicts[one["name"]]["ok"] and "more than one node" in verdicts["rack77"]["reason"]
