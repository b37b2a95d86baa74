# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Is something launched? The ledger decides, and remembers it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._alerts.desk import Desk, desk
from ansible_collections.gpufleet.baremetal.plugins.module_utils._alerts.said import LOOK, RECYCLE, Said
from ansible_collections.gpufleet.baremetal.plugins.module_utils._alerts.taken import (
    KIND,
    Rules,
    give_back,
    opened,
    take,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.holder import this_run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.lease import take_in
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._bound import namesake

EARS = this_run(os.getpid())
RULES = Rules()
XID = Said("gpu001", "GpuXid", RECYCLE, "alertmanager", "Xid 79 on GPU 3")
Later = Callable[[float], None]


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Later:
    """Some time passes; a file's clock is the controller's, and so is its uptime."""
    now = time.time()
    passed = [0.0]
    monkeypatch.setattr(time, "time", lambda: now + passed[0])

    def by(seconds: float) -> None:
        passed[0] += seconds

    return by


@pytest.fixture
def nodes(ledger: Ledger) -> dict[str, str]:
    found = {f"gpu{one:03}": ledger.identify(f"gpu{one:03}", aliases=[("serial", f"SN{one}")]) for one in range(1, 9)}
    ledger.append("setup", [(node, Event("state", "admitted", {})) for node in found.values()])
    return found


def write(ledger: Ledger, node: str, kind: str, name: str, run: str = "a-run", **data: Any) -> None:
    ledger.append(run, [(node, Event(kind, name, data))])


def test_it_is_launched_once_and_the_ledger_remembers_whoever_asks(ledger: Ledger, nodes: dict[str, str]) -> None:
    first = take(ledger, EARS, XID, RULES)
    assert (first.host, first.refused) == ("gpu001", "")
    [kept] = ledger.history(nodes["gpu001"], kinds=[KIND])
    assert (kept["name"], kept["data"]["do"], kept["data"]["reason"]) == ("GpuXid", RECYCLE, "Xid 79 on GPU 3")
    restarted = replace(EARS, run_id="another")
    with Ledger(ledger.url) as again:
        assert "it was said" in take(again, restarted, XID, RULES).refused
    assert len(ledger.history(nodes["gpu001"], kinds=[KIND])) == 1
    assert not take(ledger, EARS, replace(XID, node="gpu002"), RULES).refused


def test_one_node_with_many_errors_is_looked_at_once(ledger: Ledger, nodes: dict[str, str], later: Later) -> None:
    """Sixty jobs for sixty codes would stand in each other's way, and each looks at all of it."""
    assert not take(ledger, EARS, replace(XID, do=LOOK), RULES).refused
    assert not take(ledger, EARS, replace(XID, cause="NvLinkDown"), RULES).refused, "that is more than a look"
    assert "a recycle was launched 0 s ago, for NvLinkDown" in take(ledger, EARS, XID, RULES).refused
    assert take(ledger, EARS, replace(XID, do=LOOK, cause="Ecc"), RULES).refused
    later(1801)
    assert not take(ledger, EARS, replace(XID, cause="Ecc"), RULES).refused
    write(ledger, nodes["gpu001"], "state", "admitted")
    assert not take(ledger, EARS, replace(XID, cause="Row"), RULES).refused, "it came into service anew"


def test_looks_of_others_hide_no_job(ledger: Ledger, nodes: dict[str, str], later: Later) -> None:
    """What was launched for the same monitor is not its newest alert any more."""
    assert not take(ledger, EARS, XID, RULES).refused
    write(ledger, nodes["gpu001"], "verdict", "kernel_log_gate", verdict="pass")
    for source in ("dcgm", "slurm", "nvsentinel"):
        later(60)
        assert not take(ledger, EARS, replace(XID, do=LOOK, source=source), RULES).refused, "it came after that job"
    assert "for GpuXid" in take(ledger, EARS, replace(XID, cause="NvLinkDown"), RULES).refused


def test_what_was_taken_is_handed_on_though_the_ledger_goes_away_then(ledger: Ledger, nodes: dict[str, str]) -> None:
    """It is written down as launched, and said once more it would be refused."""
    with ledger.transaction() as conn:
        conn.exec_driver_sql(
            "CREATE TRIGGER broken BEFORE INSERT ON events WHEN NEW.kind = 'alert' AND NEW.node_id ="
            f" '{nodes['gpu002']}' BEGIN SELECT RAISE(ABORT, 'disk I/O error'); END"
        )
    at, message = Desk(ledger.url), {"event": "down", "nodes": ["gpu001", "gpu002", "gpu003"]}
    told, broke = at.answers(EARS, "slurm", message)
    assert [(one.host, one.refused) for one in told] == [("gpu001", "")] and broke is not None
    with ledger.transaction() as conn:
        conn.exec_driver_sql("DROP TRIGGER broken")
    told, broke = at.answers(EARS, "slurm", message)
    assert [bool(one.refused) for one in told] == [True, False, False] and broke is None


def test_a_node_that_came_into_service_anew_may_fail_anew(ledger: Ledger, nodes: dict[str, str]) -> None:
    take(ledger, EARS, XID, RULES)
    write(ledger, nodes["gpu001"], "state", "draining")
    assert "it is draining" in take(ledger, EARS, XID, RULES).refused
    write(ledger, nodes["gpu001"], "state", "admitted")
    assert not take(ledger, EARS, XID, RULES).refused


@pytest.mark.parametrize("state", ["discovered", "imaging", "draining", "drained", "quarantined", "retired"])
def test_nothing_is_launched_for_what_is_out_of_service(ledger: Ledger, nodes: dict[str, str], state: str) -> None:
    write(ledger, nodes["gpu001"], "state", state)
    assert take(ledger, EARS, XID, RULES).refused and not ledger.history(nodes["gpu001"], kinds=[KIND])


def test_nor_for_what_a_run_works_on(ledger: Ledger, nodes: dict[str, str]) -> None:
    with ledger.transaction() as conn:
        take_in(conn, ledger, nodes["gpu001"], replace(EARS, run_id="day2"))
    assert take(ledger, EARS, XID, RULES).refused == "the run day2 works on it"


def test_one_of_which_nothing_came_is_launched_again(ledger: Ledger, nodes: dict[str, str], later: Later) -> None:
    take(ledger, EARS, XID, RULES)
    later(1700)
    assert "it was said" in take(ledger, EARS, XID, RULES).refused
    later(200)
    assert not take(ledger, EARS, XID, RULES).refused, "the launch was lost"
    write(ledger, nodes["gpu001"], "verdict", "kernel_log_gate", verdict="pass")
    later(2000)
    assert "it was said" in take(ledger, EARS, XID, RULES).refused, "a run has looked"
    later(86400)
    assert not take(ledger, EARS, XID, RULES).refused, "a day has passed"


def test_a_look_is_not_lost_since_it_writes_nothing(ledger: Ledger, nodes: dict[str, str], later: Later) -> None:
    look = replace(XID, do=LOOK)
    take(ledger, EARS, look, RULES)
    later(3000)
    assert "it was said" in take(ledger, EARS, look, RULES).refused
    assert not take(ledger, EARS, XID, RULES).refused, "what was a warning is a failure now"


def test_what_takes_many_nodes_at_once_is_no_nodes_own(ledger: Ledger, nodes: dict[str, str], later: Later) -> None:
    told = [take(ledger, EARS, replace(XID, node=host, cause="down"), RULES) for host in nodes]
    assert [bool(one.refused) for one in told] == [False] * 5 + [True] * 3
    assert "5 other nodes were taken within 3600 s" in told[-1].refused
    assert not take(ledger, EARS, replace(XID, node="gpu008", do=LOOK), RULES).refused
    later(1801)
    assert not take(ledger, EARS, replace(XID, cause="GpuXid"), RULES).refused, "one of those five, for another cause"
    later(3601)
    assert not take(ledger, EARS, replace(XID, node="gpu008", cause="down"), RULES).refused


def test_an_old_event_is_left_alone(ledger: Ledger, nodes: dict[str, str]) -> None:
    now = ledger.now()
    assert "4000 s old" in take(ledger, EARS, replace(XID, at=now - 4000), RULES).refused
    assert not take(ledger, EARS, replace(XID, at=now - 3000), RULES).refused


@pytest.mark.parametrize(
    ("name", "host"),
    [
        ("gpu001.example.com", "gpu001"),
        ("n1", "gpu001"),
        ("gpu0*", ""),
        ("all", ""),
        ("gpu001,gpu002", ""),
        ("!gpu001", ""),
        ("@/etc/passwd", ""),
        ("{{ lookup('pipe', 'id') }}", ""),
        ("SN1", ""),
        ("1_000", ""),
        ("1e3", ""),
        ("0x10", ""),
        ("", ""),
    ],
)
def test_a_limit_is_a_host_that_the_ledger_has(ledger: Ledger, nodes: dict[str, str], name: str, host: str) -> None:
    for number in ("1_000", "1e3", "0x10"):  # such names are handed on as numbers, which are those of others
        ledger.append(
            "setup", [(ledger.identify(number, aliases=[("serial", number)]), Event("state", "admitted", {}))]
        )
    told = take(ledger, EARS, replace(XID, node=name), replace(RULES, names={"n1": "gpu001"}))
    assert told.host == host and bool(told.refused) is not bool(host)


def test_a_whole_name_is_that_of_its_own_host(ledger: Ledger, nodes: dict[str, str]) -> None:
    """An inventory of two halls may have whole names in one, and short ones in the other."""
    whole = ledger.identify("gpu001.hall2.example", aliases=[("serial", "SN-hall2")])
    ledger.append("setup", [(whole, Event("state", "admitted", {}))])
    told = take(ledger, EARS, replace(XID, node="gpu001.hall2.example"), RULES)
    assert (told.host, told.refused) == ("gpu001.hall2.example", "")
    assert [alert["node_id"] for alert in ledger.of_all(KIND)] == [whole]
    assert take(ledger, EARS, XID, RULES).host == "gpu001"


def test_a_name_of_two_machines_is_nobodys(ledger: Ledger, nodes: dict[str, str]) -> None:
    ledger.identify("gpu001", aliases=[("mac", "02:00:00:00:00:01")])
    assert "several nodes" in take(ledger, EARS, XID, RULES).refused


@pytest.mark.parametrize("do", ["none", "reboot", ""])
def test_whoever_asks_for_anything_else_is_refused(ledger: Ledger, nodes: dict[str, str], do: str) -> None:
    assert take(ledger, EARS, replace(XID, do=do), RULES).refused
    assert not ledger.history(nodes["gpu001"], kinds=[KIND])


def test_a_stranger_makes_no_ledger(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no ledger here"):
        opened(f"sqlite:///{tmp_path}/none.sqlite")
    assert not list(tmp_path.iterdir())


def test_a_message_is_answered_alert_by_alert(ledger: Ledger, nodes: dict[str, str]) -> None:
    at = Desk(ledger.url)
    told, broke = at.answers(EARS, "slurm", {"event": "down", "nodes": ["gpu001", "head", "gpu002", "gpu001"]})
    assert broke is None and [one.refused.partition(",")[0] for one in told] == [
        "",
        "the ledger knows no host by that name",
        "",
        "it was said 0 s ago",
    ]


def test_numbers_may_be_text_and_none_is_below_zero() -> None:
    assert desk({"most": "3", "per": 60.0, "names": {"a": "b"}}).rules == Rules(most=3, per=60.0, names={"a": "b"})
    for args in (
        {"most": "no"},
        {"per": -1},
        {"oldest": "nan"},
        {"kinds": ["mail"]},
        {"names": ["a"]},
        {"most": 0},
        {"node_labels": "Hostname"},
        {"node_labels": [7]},
        {"labels": {"cluster": 7}},
        {"labels": "cluster=ulm"},
    ):
        with pytest.raises(ConfigError):
            desk(args)


def test_a_site_names_labels_as_a_list() -> None:
    assert desk({"node_labels": ["Hostname"]}).labels == ("Hostname",) and desk({"node_labels": []}).labels == ()


def test_what_a_stranger_wrote_is_told_on_one_line_that_ends(ledger: Ledger, nodes: dict[str, str]) -> None:
    forged = "gpu001\n2026-11-29 gpufleet: \x1b[31mall is well" + "x" * 900_000
    for said in (replace(XID, node=forged), replace(XID, do=forged)):
        told = take(ledger, EARS, said, RULES).as_dict()
        assert told["refused"] and all(text.isprintable() and len(text) <= 400 for text in told.values())


def test_one_source_silences_no_other(ledger: Ledger, nodes: dict[str, str]) -> None:
    """A sender on a node may say what it likes: of other nodes, and of the same before anybody else does."""
    loud = replace(XID, source="dcgm")
    said = [take(ledger, EARS, replace(loud, node=f"gpu{one:03}"), RULES).refused for one in range(2, RULES.most + 3)]
    assert said[:-1] == [""] * RULES.most and "in common" in said[-1]
    assert take(ledger, EARS, XID, RULES).refused == ""
    look, ages = replace(XID, node="gpu002", do=LOOK), replace(RULES, lost_after=-1.0)
    assert take(ledger, EARS, look, ages).refused == "", "its cause is another one's"
    assert "it was said" in take(ledger, EARS, look, ages).refused


def test_two_sources_with_one_word_for_a_cause_are_heard_once_a_day_each(
    ledger: Ledger, nodes: dict[str, str], later: Later
) -> None:
    """Each saw the other one's as the newest, and forgot its own: every half hour had its job."""
    launched = []
    for source in ("alertmanager", "slurm") * 4:
        launched.append(not take(ledger, EARS, replace(XID, cause="down", source=source), RULES).refused)
        write(ledger, nodes["gpu001"], "verdict", "kernel_log_gate", verdict="pass")
        later(1860)
    assert launched == [True, True, *[False] * 6]


@pytest.mark.parametrize(("labels", "word"), [({"cluster": "bonn"}, "is bonn, and not ulm"), ({}, "is missing")])
def test_what_another_fleet_calls_alike_is_none_of_ours(
    ledger: Ledger, nodes: dict[str, str], labels: dict[str, str], word: str
) -> None:
    """It would have a job launched, and ours be refused for a day."""
    rules = replace(RULES, labels={"cluster": "ulm"})
    theirs = replace(XID, node="gpu001.bonn.example.com", labels=labels)
    assert word in take(ledger, EARS, theirs, rules).refused and not ledger.of_all(KIND)
    assert not take(ledger, EARS, replace(XID, labels={"cluster": "ulm", "severity": "critical"}), rules).refused
    assert not take(ledger, EARS, replace(XID, node="gpu002", source="dcgm"), rules).refused, "it has no labels at all"


@pytest.mark.parametrize("source", ["slurm", "nvsentinel"])
def test_what_a_scheduler_calls_as_the_inventory_calls_another_machine_is_not_that_one(
    ledger: Ledger, nodes: dict[str, str], source: str
) -> None:
    rules, said = replace(RULES, namesake=namesake), replace(XID, source=source)
    write(ledger, nodes["gpu007"], "named", "scheduler_node", scheduler_node="gpu001")
    assert "its scheduler calls the host gpu007 so" in take(ledger, EARS, said, rules).refused
    assert not ledger.of_all(KIND)
    there = take(ledger, EARS, said, replace(rules, names={"gpu001": "gpu007"}))
    assert (there.host, there.refused) == ("gpu007", "")
    assert not take(ledger, EARS, replace(XID, node="gpu001"), rules).refused, "by the inventory's own name"
    write(ledger, nodes["gpu006"], "named", "scheduler_node", scheduler_node="gpu005")
    sure = replace(rules, names={"gpu005": "gpu005"})
    assert take(ledger, EARS, replace(said, node="gpu005"), sure).refused == "", "the site has said so"
    write(ledger, nodes["gpu002"], "named", "scheduler_node", scheduler_node="gpu002")
    write(ledger, nodes["gpu008"], "named", "scheduler_node", scheduler_node="gpu002")
    assert not take(ledger, EARS, replace(said, node="gpu002"), rules).refused, "that name is in two clusters"


def test_a_false_alert_of_one_monitor_silences_no_other_one(
    ledger: Ledger, nodes: dict[str, str], later: Later
) -> None:
    """Slurm tells it once: what is refused then is lost."""
    down = replace(XID, source="slurm", cause="down")
    for number in range(4):
        lie = replace(XID, source="dcgm", cause=f"health-a{number}")
        assert not take(ledger, EARS, lie, RULES).refused
        assert "was launched" in take(ledger, EARS, down, RULES).refused, "its job looks within a minute"
        later(60)
        write(ledger, nodes["gpu001"], "verdict", "kernel_log_gate", verdict="pass")
        later(1200)
        assert "was launched" in take(ledger, EARS, replace(lie, cause=f"b{number}"), RULES).refused
        later(541)
    assert not take(ledger, EARS, replace(XID, source="dcgm", cause="z", do=LOOK), RULES).refused
    assert not take(ledger, EARS, replace(down, cause="up", do=LOOK), RULES).refused, "a look writes nothing"
    assert not take(ledger, EARS, replace(XID, source="dcgm", cause="y"), RULES).refused
    write(ledger, nodes["gpu001"], "verdict", "kernel_log_gate", verdict="pass")
    later(1200)
    assert not take(ledger, EARS, down, RULES).refused, "it was healthy then"


@pytest.mark.parametrize("do", [RECYCLE, LOOK])
def test_what_nobody_took_may_be_said_again_and_uses_nothing_up(ledger: Ledger, nodes: dict[str, str], do: str) -> None:
    at, few = replace(XID, do=do), replace(RULES, most=1)
    give_back(ledger, EARS, [take(ledger, EARS, at, few)])
    assert not take(ledger, EARS, replace(at, node="gpu002"), few).refused, "nothing was launched of the first"
    assert not take(ledger, EARS, at, RULES).refused
    assert "it was said" in take(ledger, EARS, at, RULES).refused
