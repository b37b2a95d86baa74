# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where each node of a fleet stands, through ansible-playbook, over a ledger with a history."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.tests.contract.node.in_service import proven
from suite import playbook

pytestmark = pytest.mark.slow

CHECKOUT = Path(__file__).resolve().parents[3]
PLAYBOOK = Path(sys.executable).with_name("ansible-playbook")
CALLBACKS = CHECKOUT / "tests" / "contract" / "scheduler" / "callback"
LONG = "GPU 0000:1b:00.0: Xid 79, the GPU has fallen off the bus; seven of eight GPUs answer, of which one is not sure"

NO_LOOK = (("verdict", "image_artifact", "pass"), ("verdict", "dcgm_gate", "inconclusive"), ("note", "stopped", ""))
NOT_SEEN = [("r3", kind, name, {"verdict": word, "reason": "x"}) for kind, name, word in NO_LOOK]
#: What the ledger was told of each node, oldest first: run, kind, name, data.
HISTORY: Mapping[str, list[tuple[str, str, str, dict[str, Any]]]] = {
    "admitted": [
        ("r1", "state", "imaging", {"deploy_id": "d0"}),
        ("r1", "verdict", "image_verify", proven("d0", 10**6).data),
        ("r1", "state", "admitted", {}),
    ],
    # A run could not look at it, and left it in service; it was not seen since.
    "served": [("r1", "state", "admitted", {}), ("r2", "note", "unseen", {"reason": "it was silent"}), *NOT_SEEN],
    "quarantined": [
        ("r1", "state", "admitted", {}),
        ("r2", "hold", "taken", {"hold_token": "gpufleet:r2:xid79"}),
        ("r2", "state", "quarantined", {"reason": LONG, "remedy": "power_cycle"}),
    ],
    "fresh-imaging": [("r1", "state", "enrolled", {}), ("r1", "state", "imaging", {})],
    "again-imaging": [("r1", "state", "admitted", {}), ("r2", "state", "imaging", {})],
    "stopped": [("r1", "state", "enrolled", {}), ("r2", "note", "stopped", {"reason": "the BMC is silent"})],
    "stopped-then-imaged": [("r1", "note", "stopped", {"reason": "no power"}), ("r2", "state", "validating", {})],
    "released": [
        ("r1", "hold", "taken", {"hold_token": "gpufleet:r1:x"}),
        ("r1", "hold", "released", {"hold_token": "gpufleet:r1:x"}),
        ("r1", "state", "drained", {}),
    ],
    "retired": [("r1", "state", "retired", {"reason": "sold"})],
}
UNKNOWN = "never-seen"


class Fleet:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ledger, self.settings = folder / "ledger.sqlite", {"ANSIBLE_STDOUT_CALLBACK": "gpufleet_json"}
        self.url = f"sqlite:///{self.ledger}"
        self.ids, self.groups = dict[str, str](), dict[str, Any]()
        with Ledger(self.url) as ledger:
            for name, events in HISTORY.items():
                self.ids[name] = ledger.identify(name, aliases=[("serial", f"S-{name}")])
                for run, kind, what, data in events:
                    ledger.append(run, [(self.ids[name], Event(kind, what, data))])
            ledger.save_passport(
                "r1", self.ids["admitted"], issued=time.time(), expires=2_000_000_000, digest="sha256:1", envelope={}
            )
        self.shared: dict[str, Any] = {"gpufleet_ledger_url": self.url, "gpufleet_scheduler": "none"}
        self.hosts: dict[str, Any] = {name: {"gpufleet_serial": f"S-{name}"} for name in (*HISTORY, UNKNOWN)}

    def play(self, *tasks: Mapping[str, Any], ok: bool = True, flags: tuple[str, ...] = ()) -> list[dict[str, Any]]:
        book = [{"hosts": "all", "gather_facts": False, "tasks": list(tasks)}]
        (self.folder / "play.yml").write_text(yaml.safe_dump(book))
        output = self.book("play.yml", *flags, ok=ok)
        return [json.loads(line[7:])["result"] for line in output.splitlines() if line.startswith("RESULT ")]

    def book(self, name: str, *flags: str, ok: bool = True) -> str:
        """A playbook on this fleet; what it printed."""
        # No node is ever connected to: whatever tried would fail.
        every = {"hosts": self.hosts, "vars": {**self.shared, "ansible_host": "127.0.0.250"}, "children": self.groups}
        (self.folder / "hosts.yml").write_text(yaml.safe_dump({"all": every}))
        env = {
            **{key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")},
            "ANSIBLE_COLLECTIONS_PATH": str(CHECKOUT / "build" / "collections"),
            **self.settings, "ANSIBLE_CALLBACK_PLUGINS": str(CALLBACKS),
            "ANSIBLE_LOCAL_TEMP": str(self.folder / "home"), "XDG_STATE_HOME": str(self.folder / "state"),
        }  # fmt: skip
        done = playbook.run(["-i", "hosts.yml", name, *flags], cwd=self.folder, env=env)
        self.output = done.stdout + done.stderr
        assert (done.returncode == 0) == ok, self.output
        return done.stdout

    def count(self) -> dict[str, int]:
        tables = ("nodes", "aliases", "events")
        with contextlib.closing(sqlite3.connect(self.ledger)) as ledger:
            return {name: ledger.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in tables}


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return Fleet(tmp_path)


def status(**options: Any) -> dict[str, Any]:
    return {"gpufleet.baremetal.fleet_status": options, "run_once": True}


def test_where_each_node_stands(fleet: Fleet) -> None:
    before = fleet.count()
    (result,) = fleet.play(status())
    nodes = result["nodes"]
    assert set(nodes) == set(fleet.hosts) and not result["changed"]
    states = {name: events[-1][2] for name, events in HISTORY.items() if events[-1][1] == "state"}
    assert {name: nodes[name]["state"] for name in states} == states
    assert {name: nodes[name]["node_id"] for name in HISTORY} == fleet.ids
    held = nodes["quarantined"]
    assert (held["reason"], held["remedy"], held["run"]) == (LONG, "power_cycle", "r2")
    assert held["hold"] == "gpufleet:r2:xid79" and held["admitted_before"] and held["next"].endswith("quarantined")
    assert nodes["released"]["hold"] == ""
    assert nodes["admitted"]["passport_expires"] == "2033-05-18T03:33:20Z" and nodes["admitted"]["next"] == ""
    assert nodes["retired"]["next"] == ""
    assert fleet.count() == before, "reading changes nothing"


def test_a_host_is_where_its_own_ledger_says(fleet: Fleet, tmp_path: Path) -> None:
    """The first host's ledger knows it by the same serial, and says something else."""
    own = f"sqlite:///{tmp_path / 'own.sqlite'}"
    with Ledger(own) as ledger:
        node = ledger.identify("admitted", aliases=[("serial", "S-admitted")])
        ledger.append("r9", [(node, Event("state", "quarantined", {"reason": "x", "remedy": "rma"}))])
    fleet.hosts["admitted"]["gpufleet_ledger_url"] = own
    nodes = fleet.play(status())[0]["nodes"]
    assert (nodes["admitted"]["state"], nodes["admitted"]["node_id"]) == ("quarantined", node)
    assert set(nodes) == set(fleet.hosts) and nodes["quarantined"]["state"] == "quarantined"
    assert nodes["released"]["node_id"] == fleet.ids["released"]


def test_w2_the_ledger_that_a_play_names_is_that_of_each_host(fleet: Fleet) -> None:
    """As a variable of the play, of a file of it, of a block, of a loop, and of a playbook that imports it."""
    before, fleet.shared = fleet.count(), {"gpufleet_scheduler": "none"}
    said = {"gpufleet_ledger_url": fleet.url}
    (fleet.folder / "said.yml").write_text(yaml.safe_dump(said))
    play = {"hosts": "all", "gather_facts": False}
    book: list[dict[str, Any]] = [
        {**play, "vars": said, "tasks": [status()]},
        {**play, "vars_files": ["said.yml"], "tasks": [status()]},
        {**play, "tasks": [{"vars": said, "block": [status()]}]},
        {**play, "tasks": [{**status(), "loop": [fleet.url], "vars": {"gpufleet_ledger_url": "{{ item }}"}}]},
        {"import_playbook": "gpufleet.baremetal.passports", "vars": said},
    ]
    (fleet.folder / "named.yml").write_text(yaml.safe_dump(book))
    output = fleet.book("named.yml")
    told = [json.loads(line[7:])["result"] for line in output.splitlines() if line.startswith("RESULT ")]
    assert len(told) == len(book)
    for nodes in [one.get("results", [one])[0]["nodes"] for one in told]:
        assert {name: nodes[name]["node_id"] for name in fleet.hosts} == {**fleet.ids, UNKNOWN: ""}
    assert fleet.count() == before and not (fleet.folder / "state").exists(), "no ledger was made on the way"


def test_w2_the_ledger_that_a_play_names_is_made_for_each_host(fleet: Fleet, tmp_path: Path) -> None:
    """And goes before the inventory, as in a task of the host's own."""
    own = f"sqlite:///{tmp_path / 'own.sqlite'}"
    with Ledger(own) as ledger:
        node = ledger.identify("served", aliases=[("serial", "S-served")])
    fleet.shared["of_row"], fleet.hosts["served"]["of_row"] = fleet.url, own
    fleet.shared["gpufleet_ledger_url"] = f"sqlite:///{tmp_path / 'of-the-inventory.sqlite'}"
    (result,) = fleet.play({**status(), "vars": {"gpufleet_ledger_url": "{{ of_row }}"}})
    assert {name: one["node_id"] for name, one in result["nodes"].items()} == {
        **fleet.ids, "served": node, UNKNOWN: "",
    }  # fmt: skip
    assert not (tmp_path / "of-the-inventory.sqlite").exists()


BAD_LEDGERS = {
    "admitted": "{{ nothing_such }}",
    "served": "postgresql+psycopg://u:geheimnis@127.0.0.1:9/x",
    "released": "nonsense",
}


@pytest.fixture
def unread(fleet: Fleet) -> Fleet:
    for name, url in BAD_LEDGERS.items():
        fleet.hosts[name]["gpufleet_ledger_url"] = url
    return fleet


def test_w2_a_ledger_that_cannot_be_read_stops_no_report(unread: Fleet) -> None:
    """Not even that of the host that runs the task."""
    (result,) = unread.play(status(report=True))
    nodes = result["nodes"]
    assert {name for name, one in nodes.items() if one["state"] == "unknown"} == set(BAD_LEDGERS)
    assert nodes["stopped"]["node_id"] == unread.ids["stopped"] and nodes["retired"]["state"] == "retired"
    assert "gpufleet_ledger_url cannot be read" in nodes["admitted"]["stopped"]
    assert "does not answer" in nodes["served"]["stopped"] and "URL cannot be read" in nodes["released"]["stopped"]
    assert {nodes[name]["next"] for name in BAD_LEDGERS} == {""} and "3 unknown" in " ".join(result["lines"])
    assert "geheimnis" not in unread.output
    assert {key: type(value) for key, value in nodes["served"].items()} == {
        key: type(value) for key, value in nodes["retired"].items()
    }


@pytest.mark.parametrize("name", ["day0_bringup", "day2_recycle", "passports"])
def test_w2_nothing_is_done_with_a_node_whose_ledger_cannot_be_read(unread: Fleet, name: str) -> None:
    """And it is told as failed. Left in by day 0 it would be imaged, in service as it is."""
    flags = ("-e", "passports_renew=true", "-e", "passports_all=true", "--limit", "released,retired")
    output = unread.book(f"gpufleet.baremetal.{name}", *flags, ok=False)
    told = [json.loads(line[7:]) for line in output.splitlines() if line.startswith("RESULT ")]
    done = [one["result"]["msg"] for one in told if one["host"] == "released" and "nodes" not in one["result"]]
    assert len(done) == 1 and done[0].startswith("unknown: the ledger's URL cannot be read"), output


def test_w2_where_no_ledger_can_be_read_the_task_fails_and_names_the_host(unread: Fleet) -> None:
    (result,) = unread.play(status(), flags=("--limit", "released"), ok=False)
    assert result["error"]["node"] == "released" and "URL cannot be read" in result["msg"]


def test_the_next_command_goes_on_where_the_node_is(fleet: Fleet) -> None:
    nodes = fleet.play(status())[0]["nodes"]
    assert ".day0_bringup " in nodes["fresh-imaging"]["next"] and not nodes["fresh-imaging"]["admitted_before"]
    assert ".day2_recycle " in nodes["again-imaging"]["next"] and nodes["again-imaging"]["admitted_before"]
    assert nodes["again-imaging"]["imaging_at"] > 0
    assert nodes["stopped"]["deploy_id"] == nodes["stopped"]["deploy_resume"] == ""
    assert ".day0_bringup " in nodes[UNKNOWN]["next"]


def test_why_a_run_went_no_further(fleet: Fleet) -> None:
    nodes = fleet.play(status())[0]["nodes"]
    assert [nodes[one]["stopped"] for one in ("stopped", "stopped-then-imaged")] == ["the BMC is silent", ""]
    assert nodes["served"]["stopped"] == "it was silent", "no run has looked at it since"
    since = ("verdict", "kernel_log_gate", {"verdict": "pass"}), ("note", "stopped", {"playbook": "adopt"})
    with Ledger(fleet.url) as ledger:
        ledger.append("r3", [(fleet.ids["served"], Event(*one)) for one in since])
    served = fleet.play(status())[0]["nodes"]["served"]
    assert (served["stopped"], served["stranger"]) == ("", False), "a later run has found it healthy"


def test_q6_a_passport_that_ends_soon_is_told_with_the_command_that_renews_it(fleet: Fleet) -> None:
    in_time, late = fleet.play(status(report=True), status(report=True, expire_within=2_000_000_000))
    due = {name for name, node in in_time["nodes"].items() if node["passport_due"]}
    assert due == {"served"}, "one has no passport, the other a long one, and no other is in service"
    assert {name for name, node in late["nodes"].items() if node["passport_due"]} == {"served", "admitted"}
    command = late["nodes"]["admitted"]["next"]
    assert ".passports " in command and "--limit admitted -e passports_renew=true" in command
    text = " ".join(" ".join(late["lines"]).split())
    assert "passports to be renewed: 2" in text and text.count(", to be renewed") == 2
    assert max(map(len, late["lines"])) <= 80, late["lines"]


def test_q6_passports_that_end_soon_are_read_from_the_ledger_alone(fleet: Fleet) -> None:
    """The playbook lists; no node answers in this fleet, and none is asked."""
    before = fleet.count()
    fleet.book("gpufleet.baremetal.passports")
    text = " ".join(fleet.output.split())
    assert "passports to be renewed: 1" in text and "no passport, to be renewed" in text
    assert fleet.count() == before


def test_a_machine_that_nobody_has_seen_stays_unknown(fleet: Fleet) -> None:
    before = fleet.count()
    stranger = fleet.play(status(hosts=[UNKNOWN]))[0]["nodes"][UNKNOWN]
    assert (stranger["node_id"], stranger["state"], stranger["event"]) == ("", "discovered", 0)
    assert fleet.count() == before


def test_the_report_fits_a_terminal_and_can_be_typed(fleet: Fleet) -> None:
    (result,) = fleet.play(status(report=True, title="Rack 12"))
    lines = result["lines"]
    assert max(map(len, lines)) <= 80, lines
    assert lines[0].startswith("Rack 12: 10 nodes: ")
    for line in lines:
        assert line in fleet.output, "shown as well"
    text = "\n".join(lines)
    assert "remedy: power_cycle" in text and "passport until 2033-05-18" in text and "the BMC is silent" in text
    assert LONG.split() == [word for word in text.split() if word in LONG.split()][: len(LONG.split())]
    typed = text.replace(" \\\n", " ")
    for name, node in result["nodes"].items():
        if node["next"]:
            assert node["next"].split() in _windows(typed.split(), len(node["next"].split())), name


def _windows(words: list[str], size: int) -> list[list[str]]:
    return [words[at : at + size] for at in range(len(words) - size + 1)]


def test_s3_a_row_that_an_older_release_wrote_writes_to_no_terminal(fleet: Fleet) -> None:
    reason = "\x1b[2J\x1b]0;owned\x07 \x9b31m \u202e ok\rfailed"
    with contextlib.closing(sqlite3.connect(fleet.ledger)) as ledger:
        row = (
            "INSERT INTO events (node_id, run_id, at, kind, name, data) VALUES (?, 'r9', 1, 'state', 'quarantined', ?)"
        )
        ledger.execute(row, (fleet.ids["quarantined"], json.dumps({"reason": reason, "remedy": reason})))
        ledger.commit()
    (result,) = fleet.play(status(report=True))
    assert r"\x1b[2J" in result["nodes"]["quarantined"]["reason"] and r"\x1b[2J" in fleet.output
    for text in (fleet.output, json.dumps(result, ensure_ascii=False)):
        assert not [char for char in "\x1b\x07\x9b\u202e\r" if char in text]


def test_check_mode_and_no_run_once_say_the_same(fleet: Fleet) -> None:
    before = fleet.count()
    plain = fleet.play(status())[0]["nodes"]
    assert fleet.play(status(), flags=("--check", "--diff"))[0]["nodes"] == plain
    by_each = fleet.play({"gpufleet.baremetal.fleet_status": {}})
    assert len(by_each) == len(fleet.hosts) and all(one["nodes"] == plain for one in by_each)
    assert fleet.count() == before


def test_hosts_that_failed_are_reported_too(fleet: Fleet) -> None:
    failing = {"ansible.builtin.fail": {"msg": "no"}, "when": "inventory_hostname != 'admitted'"}
    results = fleet.play(failing, status(), ok=False)
    assert set(results[-1]["nodes"]) == set(fleet.hosts)


def test_a_host_that_nothing_identifies_stops_no_report(fleet: Fleet) -> None:
    fleet.hosts["nameless"] = {}
    fleet.hosts["two-in-one"] = {"gpufleet_serial": "S-admitted", "gpufleet_node_id": fleet.ids["stopped"]}
    result = fleet.play(status(report=True))[0]
    assert "which machine this is" in result["nodes"]["nameless"]["stopped"]
    assert "different nodes" in result["nodes"]["two-in-one"]["stopped"]
    assert result["nodes"]["admitted"]["state"] == "admitted"
    assert "gpufleet_serial" in " ".join(result["lines"]) or "serial" in " ".join(result["lines"])


def test_a_host_that_is_not_in_the_inventory_is_named(fleet: Fleet) -> None:
    (result,) = fleet.play(status(hosts=["admitted", "gpu999"]), ok=False)
    assert result["error"]["kind"] == "config" and "gpu999" in result["msg"]


def test_delegated_it_still_reads_the_controllers_ledger(fleet: Fleet) -> None:
    fleet.hosts["elsewhere"] = {"gpufleet_serial": "S-elsewhere"}
    (result,) = fleet.play({**status(), "delegate_to": "elsewhere"})
    assert result["nodes"]["quarantined"]["state"] == "quarantined"


def test_the_module_alone_says_where_the_ledger_is() -> None:
    code = "from ansible_collections.gpufleet.baremetal.plugins.modules.fleet_status import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps({"ANSIBLE_MODULE_ARGS": {}}),
        env={**os.environ, "PYTHONPATH": str(CHECKOUT / "build" / "collections"), "_ANSIBLE_PROFILE": "legacy"},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    result = json.loads(done.stdout)
    assert result["failed"] and result["error"]["kind"] == "unsupported" and "controller" in result["msg"], done.stderr


@pytest.fixture
def renewing(fleet: Fleet) -> Fleet:
    """A renewal was killed while the node was draining."""
    with Ledger(fleet.url) as ledger:
        ledger.append("r3", [(fleet.ids["admitted"], Event("state", "draining", {"reason": "passport renewal"}))])
    return fleet


def test_v9_day_2_leaves_to_the_renewal_what_a_renewal_began(renewing: Fleet) -> None:
    """It would image the node. No node answers in this fleet: whatever tried would leave a note in the ledger."""
    before = renewing.count()
    renewing.book("gpufleet.baremetal.day2_recycle", "--limit", "admitted", ok=False)
    assert renewing.count() == before
    text = " ".join(renewing.output.split())
    assert "draining: passport renewal Next: ansible-playbook gpufleet.baremetal.passports" in text
    every = ("-e", '{"day2_recycle_all": true}')
    renewing.book("gpufleet.baremetal.day2_recycle", "--limit", "admitted", *every, ok=False)
    assert renewing.count()["events"] > before["events"], "a person has said so"


def test_v9_a_renewal_goes_on_with_what_a_renewal_began(renewing: Fleet) -> None:
    before = renewing.count()
    renewing.book("gpufleet.baremetal.passports", "--limit", "admitted", "-e", "passports_renew=true", ok=False)
    assert renewing.count()["events"] > before["events"]


def test_w8_a_renewal_that_stopped_at_a_node_in_service_names_itself(fleet: Fleet) -> None:
    """No BMC answers in this fleet."""
    given = '{"passports_renew": true, "passports_all": true, "passports_all_hours": 0, "passports_reason": "x"}'
    fleet.book("gpufleet.baremetal.passports", "--limit", "admitted", "-e", given, ok=False)
    command = "ansible-playbook gpufleet.baremetal.passports -i INVENTORY --limit admitted -e passports_renew=true"
    text = " ".join(fleet.output.replace("\\", " ").split())
    assert f"{command} -e passports_all=true" in text and "day2_recycle" not in text


def test_q6_a_renewal_takes_so_many_nodes_at_a_time_as_is_asked(renewing: Fleet) -> None:
    """Of nodes that are not due: a part of which no due node comes through is the last one."""
    renew = ("gpufleet.baremetal.passports", "--limit", "quarantined,retired", "-e", "passports_renew=true")

    def looks(*flags: str) -> int:
        """One before each part, and one for the report."""
        return renewing.book(*renew, *flags).count('"lines": [')

    assert [looks("-e", "passports_serial=1"), looks("-e", "passports_serial="), looks()] == [3, 2, 2]
