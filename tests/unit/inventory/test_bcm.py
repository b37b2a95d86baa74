# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Base Command Manager as a source, against the head node that the driver's tests have."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TESTS), str(TESTS / "contract" / "provisioner")]
from bcm_commands.head import Answer, Head
from xcat_commands.site import SHIM, Server

pytestmark = pytest.mark.slow


class Counted:
    """It keeps what it was asked for."""

    def __init__(self, folder: Path) -> None:
        self.head = Head(folder / "node-installer")
        self.asked: list[str] = []
        self.instead: Any = None

    def answered(self, argv: list[str], stdin: str) -> Answer:
        self.asked.append(argv[-1])
        found: Answer = self.instead or self.head.run(argv, stdin)
        return found


@pytest.fixture
def bcm(site: Any) -> Iterator[Any]:
    asked = Counted(site.folder)
    head = asked.head
    head.images.update({"dgx-os": {}, "login": {}})
    head.categories.update(dgx={"softwareimage": "dgx-os"}, login={"softwareimage": "login"})
    for number, category in ((1, "dgx"), (2, "dgx"), (3, "login")):
        name = f"node00{number}"
        head.enter(name, mac=f"52:54:00:77:00:0{number}", ip=f"10.1.0.{number}", category=category, powercontrol="rf0")
        head.interfaces[name] = {"rf0": f"10.0.0.{number}"}
    head.nodes["node001"]["userdefined1"] = "ask Anna gpufleet-serial=ABC0001 gpufleet-hold=gpufleet:run7:reseat"
    head.status["node001"] = ("UP", "")
    head.closed["node002"] = "(fan dead)"
    server = Server(asked)  # type: ignore[arg-type]  # it answers like the faults of the driver's tests
    program = site.write("cmsh", SHIM.format(bash=shutil.which("bash"), port=server.server_address[1]))
    program.chmod(0o755)
    site.env["GPUFLEET_BCM_URL"] = str(program)
    site.configure({"type": "bcm"})
    yield asked
    server.shutdown()
    server.server_close()


def test_nodes_with_their_cards_and_bmcs_in_three_sessions(site: Any, bcm: Any) -> None:
    answer = site.ask()
    assert sorted(answer.hosts) == ["node001", "node002", "node003"] and len(bcm.asked) == 3, bcm.asked
    one = answer.hosts["node001"]
    assert one["gpufleet_provisioner"] == "bcm" and one["gpufleet_provisioner_id"] == "node001"
    assert one["gpufleet_serial"] == "ABC0001" and one["gpufleet_boot_mac"] == "52:54:00:77:00:01"
    assert one["ansible_host"] == "10.1.0.1" and one["gpufleet_bmc_address"] == "10.0.0.1"
    assert (one["bcm_category"], one["bcm_image"], one["bcm_status"]) == ("dgx", "dgx-os", "up")
    assert one["bcm_comment"] == "ask Anna" and one["bcm_hold"] == "gpufleet:run7:reseat"
    assert one["bcm_closed"] is False and answer.hosts["node002"]["bcm_closed"] is True
    assert "commit" not in " ".join(bcm.asked)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"category": "dgx"}, ["node001", "node002"]),
        ({"category": ["login", "dgx"], "image": "login"}, ["node003"]),
    ],
)
def test_filters(site: Any, bcm: Any, query: Any, expected: list[str]) -> None:
    site.configure({"type": "bcm", "query": query})
    assert sorted(site.ask().hosts) == expected


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"categories": "dgx"}, "has no filter categories"),
        ({"category": "dxg"}, "query, category: BCM has none of the name dxg"),
        ({"image": []}, "query, image: a word is wanted"),
        (["dgx"], "query: a mapping is wanted"),
    ],
)
def test_what_is_no_filter_is_refused_and_never_read_over(site: Any, bcm: Any, query: Any, words: str) -> None:
    site.configure({"type": "bcm", "query": query})
    errors = site.ask(ok=False).errors
    assert words in errors and "source 1 (bcm)" in errors


def test_a_wrong_cell_is_an_error_that_names_source_node_and_field(site: Any, bcm: Any) -> None:
    node = bcm.head.nodes["node002"]
    for change, words in (
        ({"ip": "10.1.0.256"}, "ip: '10.1.0.256'"),
        (
            {"ip": "10.1.0.2", "userdefined1": "gpufleet-serial=1.23E%2B10"},
            "gpufleet-serial in userdefined1: '1.23E+10'",
        ),
    ):
        node.update(change)
        errors = site.ask(ok=False).errors
        assert words in errors and "source 1 (bcm), node node002" in errors
    node["userdefined1"] = ""
    bcm.head.interfaces["node002"]["rf0"] = "10.0.0"
    assert "ip of the interface rf0: '10.0.0'" in site.ask(ok=False).errors


def test_a_node_that_no_card_was_seen_of_is_there_and_nothing_is_made_up_for_it(site: Any, bcm: Any) -> None:
    bcm.head.enter("node009", category="dgx", ip="0.0.0.0")
    known = site.ask().hosts["node009"]
    assert not {"gpufleet_boot_mac", "gpufleet_serial", "ansible_host", "gpufleet_bmc_address"} & set(known)


def test_rows_of_a_list_are_joined_to_nodes_by_their_cards(site: Any, bcm: Any) -> None:
    site.write("racks.csv", "serial,boot_mac,rack\nABC0001,52:54:00:77:00:01,r12\nABC0002,52:54:00:77:00:02,r13\n")
    fields = {"gpufleet_sku": "category", "image_there": "softwareimage"}
    site.configure({"type": "bcm", "fields": fields}, {"type": "csv", "path": "racks.csv", "join_only": True})
    hosts = site.ask().hosts
    assert (hosts["node001"]["csv_rack"], hosts["node002"]["csv_rack"]) == ("r12", "r13")
    assert hosts["node001"]["gpufleet_sku"] == "dgx" and hosts["node001"]["image_there"] == "dgx-os"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(1, "", "Unable to connect to the cluster daemon\n"), "BCM's daemon does not answer"),
        (Answer(0, "", "Error: permission denied\n"), "BCM refused us"),
        (Answer(0, "node001\n52:54:00:77:00:01\nnode001\n", ""), "cmsh gave no list of its nodes"),
        (Answer(0), "cmsh gave no list of its nodes"),
    ],
)
def test_an_outage_is_an_error_and_no_empty_fleet(site: Any, bcm: Any, answer: Answer, words: str) -> None:
    bcm.instead = answer
    errors = site.ask(ok=False).errors
    assert words in errors and "source 1 (bcm)" in errors


def test_an_empty_bcm_is_an_empty_fleet(site: Any, bcm: Any) -> None:
    """That is no outage: its session came to its end."""
    bcm.head.nodes.clear()
    assert site.ask().hosts == {}
