# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fleet by cause: what differs between two nodes with one trouble is their own, and nothing else is."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.causes import by_cause, table
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.report import not_told, of_tenant, status
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event

PAGE = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "see-the-fleet.md"
QUARANTINED = ("gpu017", "gpu018", "gpu044")
Nodes = dict[str, dict[str, Any]]


def fleet(ledger: Ledger, of: Mapping[str, tuple[str, dict[str, Any]]]) -> Nodes:
    """Hosts in these states, as the ledger tells them."""
    ids = {}
    for host, (state, data) in of.items():
        ids[host] = ledger.identify(host, aliases=[("serial", f"S-{host}")])
        ledger.append("r1", [(ids[host], Event("state", state, data))])
    return status(ledger, ids)


def quarantined(ledger: Ledger, *reasons: str) -> Nodes:
    held = {f"gpu{at:03}": ("quarantined", {"reason": text}) for at, text in enumerate(reasons, 1)}
    return fleet(ledger, held)


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        ("Xid 79 of 0000:1b:00.0", "Xid 79 of 0000:3d:00.0", "Xid 79 of 0000:1b:00.0 (and 1 more)"),
        ("gpu001 is silent", "gpu002 is silent", "gpu001 (and 1 more) is silent"),
        ("https://10.0.0.1/x: 503", "https://10.0.0.2/x: 503", "https://10.0.0.1/x (and 1 more): 503"),
        ("10.0.0.1:623 is silent", "10.0.0.2:623 is silent", "10.0.0.1:623 (and 1 more) is silent"),
        ("no link on 7c:c2:55:10:20:11", "no link on 7c:c2:55:10:20:12", "no link on 7c:c2:55:10:20:11 (and 1 more)"),
        ("dcgm (event 7) failed", "dcgm (event 9) failed", "dcgm (event 7 (and 1 more)) failed"),
        (
            "silent since 2026-11-02T00:00:00Z", "silent since 2026-11-01T00:00:00Z",
            "silent since 2026-11-01T00:00:00Z to 2026-11-02T00:00:00Z",
        ),
        ("https://ironic:6385 is away", "https://ironic:6385 is away", "https://ironic:6385 is away"),
    ],
)  # fmt: skip
def test_what_is_a_nodes_own_is_no_part_of_a_cause(ledger: Ledger, one: str, other: str, told: str) -> None:
    (group,) = by_cause(quarantined(ledger, one, other))
    assert (group["cause"], group["count"], group["folded"]) == (told, 2, "gpu[001-002]")


@pytest.mark.parametrize(
    ("one", "other"),
    [("Xid 79", "Xid 63"), ("7 of 8 GPUs", "6 of 8 GPUs"), ("gpu777 is silent", "gpu778 is silent"), ("a", "b")],
)
def test_any_other_word_or_number_makes_another_cause(ledger: Ledger, one: str, other: str) -> None:
    assert [group["count"] for group in by_cause(quarantined(ledger, one, other))] == [1, 1]


def test_another_remedy_or_another_next_step_makes_another_row(ledger: Ledger) -> None:
    remedies = {"gpu1": "reimage", "gpu2": "power_cycle", "gpu3": "reimage", "gpu4": "reimage"}
    held = {host: ("quarantined", {"reason": "Xid 79", "remedy": remedy}) for host, remedy in remedies.items()}
    nodes = fleet(ledger, held)
    nodes["gpu3"]["next"] += " -e day2_recycle_all=true"
    assert sorted(group["folded"] for group in by_cause(nodes)) == ["gpu2", "gpu3", "gpu[1,4]"]


def test_what_nobody_can_tell_comes_first_and_what_needs_nobody_last(ledger: Ledger) -> None:
    nodes = fleet(
        ledger,
        {
            "a1": ("admitted", {}),
            "a2": ("retired", {"reason": "sold"}),
            "a3": ("discovered", {}),
            "a4": ("quarantined", {"reason": "x"}),
            "a5": ("quarantined", {"reason": "y"}),
            "a6": ("quarantined", {"reason": "y"}),
        },
    )
    nodes["a0"] = not_told("a0", "the ledger does not answer")
    told = [(group["state"], group["folded"]) for group in by_cause(nodes)]
    states = ["unknown", "quarantined", "quarantined", "discovered", "admitted", "retired"]
    assert told == list(zip(states, ["a0", "a[5-6]", "a4", "a3", "a1", "a2"]))


def test_the_page_shows_what_is_shown(ledger: Ledger) -> None:
    said: dict[str, tuple[str, dict[str, Any]]] = {f"gpu{at:03}": ("admitted", {}) for at in range(1, 161)}
    for host, slot in (("gpu017", "1b"), ("gpu018", "1b"), ("gpu044", "3d")):
        reason = f"GPU 0000:{slot}:00.0: Xid 79, the GPU has fallen off the bus"
        said[host] = ("quarantined", {"reason": reason, "remedy": "power_cycle"})
    nodes = fleet(ledger, said)
    for at, host in enumerate(said):
        ends = "2027-02-25T16:00:00Z" if at else "2026-12-21T10:00:00Z"
        nodes[host].update(passport_expires=ends, passport_due=False, next=nodes[host]["next"] * (host in QUARANTINED))
    nodes.update(status(ledger, {f"gpu{at}": "" for at in range(161, 201)}))
    why = "unknown to the scheduler: slurmctld does not answer; then run again"
    nodes.update({host: not_told(host, why) for host in ("gpu081", "gpu082")})
    assert "\n".join(table("Status", nodes, by_cause(nodes), 100)) in PAGE.read_text(encoding="utf-8")


def commands(lines: list[str]) -> list[list[str]]:
    """What a shell would run of a table, each as its words."""
    text = "\n".join(lines).replace("    next: ansible-playbook ", "\nsaid ")
    said = [part for part in text.split("\n\n") if part.startswith("said ")]
    words = 'said() { for word; do printf "%s\\0" "$word"; done; printf "\\n"; }\n'
    done = subprocess.run(["sh", "-c", words + "\n".join(said)], capture_output=True, text=True, timeout=60, check=True)
    return [line.split("\0")[:-1] for line in done.stdout.splitlines()]


@pytest.mark.parametrize("width", [80, 100])
def test_the_table_fits_a_terminal_and_its_commands_can_be_typed(ledger: Ledger, width: int) -> None:
    """A row of two hundred, one of many that nothing folds, and one with a name of many words behind the limit."""
    sparse = [f"n{number * number % 9973:04}" for number in range(100, 190)]
    many = {f"gpu{number:03}": ("discovered", {}) for number in range(1, 201)}
    held = {host: ("quarantined", {"reason": "Xid 79 " * 30, "remedy": "power_cycle"}) for host in sparse}
    nodes = fleet(ledger, {**many, **held, "gpu999": ("drained", {})})
    nodes["gpu999"] = of_tenant(nodes["gpu999"], "Ann's lab, level 3", "Ann's lab, level 3")
    groups = by_cause(nodes)
    lines = table("Status", nodes, groups, width)
    assert max(map(len, lines)) <= width, max(lines, key=len)
    assert len(lines) < 45 and any("gpu[001-200]" in line for line in lines)
    assert any("... 90 hosts in all" in line for line in lines)
    typed = commands(lines)
    assert [words[4] for words in typed] == [limit_of(group) for group in groups if group["next"]]
    assert json.loads(typed[1][-1]) == {"gpufleet_for_tenant": "Ann's lab, level 3"}


def limit_of(group: Mapping[str, Any]) -> str:
    return str(group["next"].partition(" --limit ")[2].split(" -e ")[0]).strip("'")
