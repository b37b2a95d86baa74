# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a ledger does, whichever database keeps it."""

from __future__ import annotations

import multiprocessing
import signal
import time
import uuid
from typing import Any

import pytest
import sqlalchemy as sa
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer, ConfigError, Unreachable
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import connection, schema
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from postgresql import Server

FORK = multiprocessing.get_context("fork")
SERIAL = ("serial", "GF0001")
MAC = ("mac", "52:54:00:00:00:01")


# -- append-only -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["UPDATE {} SET run_id = 'x'", "DELETE FROM {}"])
@pytest.mark.parametrize("table", ["events", "passports"])
def test_what_is_written_stays(ledger: Ledger, table: str, verb: str) -> None:
    node = ledger.identify("gpu001", aliases=[SERIAL])
    ledger.append("run", [(node, Event("note", "hello"))])
    ledger.save_passport("run", node, issued=1.0, expires=2.0, digest="d", envelope={"a": 1})
    with pytest.raises(BadAnswer, match="append-only"), ledger.transaction() as conn:
        conn.execute(sa.text(verb.format(table)))
    assert [event["name"] for event in ledger.history(node)] == ["hello"]
    assert ledger.passport(node) == {"issued": 1.0, "expires": 2.0, "digest": "d", "envelope": {"a": 1}}


def test_a_task_is_one_transaction(ledger: Ledger) -> None:
    node = ledger.identify("gpu001", aliases=[SERIAL])
    with pytest.raises(BadAnswer):
        ledger.append("run", [(node, Event("note", "one")), ("no such node", Event("note", "two"))])
    assert ledger.history(node) == []
    assert ledger.append("run", [(node, Event("note", "three"))]), "the connection is good for more"


def test_a_connection_that_breaks_in_a_write_is_an_outage(postgresql: Server) -> None:
    url = postgresql.url("public")
    with Ledger(url) as ledger:
        node = ledger.identify("gpu001", aliases=[("serial", "of-the-outage")])
        with pytest.raises(Unreachable), ledger.transaction() as conn:
            own = conn.execute(sa.text("SELECT pg_backend_pid()")).scalar()
            postgresql.statement(f"SELECT pg_terminate_backend({own})")
            ledger.append_in(conn, "run", [(node, Event("note", "lost"))])
    with Ledger(url) as ledger:
        assert ledger.history(node) == []


def test_a_url_without_a_driver_means_the_one_that_is_required(postgresql: Server) -> None:
    with Ledger(postgresql.url("public").replace("postgresql+psycopg:", "postgresql:")) as ledger:
        assert ledger.now() > 0


def test_history_and_latest(ledger: Ledger) -> None:
    first = ledger.identify("gpu001", aliases=[SERIAL])
    second = ledger.identify("gpu002", aliases=[("serial", "GF0002")])
    ids = ledger.append(
        "run",
        [
            (first, Event("state", "enrolled")),
            (first, Event("state", "imaging", {"image": "a"})),
            (second, Event("state", "enrolled")),
            (first, Event("note", "x")),
        ],
    )
    assert ids == sorted(ids)
    assert [event["name"] for event in ledger.history(first)] == ["enrolled", "imaging", "x"]
    assert [event["name"] for event in ledger.history(first, since=ids[0], kinds=["state"])] == ["imaging"]
    latest = ledger.latest([first, second, "stranger"], "state")
    assert {node: event["name"] for node, event in latest.items()} == {first: "imaging", second: "enrolled"}
    assert latest[first]["data"] == {"image": "a"}
    assert ledger.latest([first], "state", ["enrolled"])[first]["id"] == ids[0]
    assert ledger.latest([], "state") == {}


def test_attempts_and_the_newest_passport(ledger: Ledger) -> None:
    node = ledger.identify("gpu001", aliases=[SERIAL])
    assert ledger.passport(node) is None
    for number in (1, 2):
        ledger.save_passport("run", node, issued=number, expires=9, digest=f"d{number}", envelope={"n": number})
        ledger.record_attempt("run", node, "reboot", f"xid {number}")
    newest = ledger.passport(node)
    assert newest is not None and newest["envelope"] == {"n": 2}
    assert [attempt["finding"] for attempt in ledger.attempts(node)] == ["xid 1", "xid 2"]
    assert ledger.attempts(node, since=ledger.now() + 60) == []


def test_a_ledger_opened_twice_is_made_once(url: str) -> None:
    with Ledger(url) as one, Ledger(url) as other:
        node = one.identify("gpu001", aliases=[SERIAL])
        assert other.identify("gpu001", aliases=[SERIAL]) == node


def test_a_newer_ledger_is_not_touched(url: str) -> None:
    with Ledger(url) as ledger, ledger.transaction() as conn:
        conn.execute(sa.text("INSERT INTO schema_version VALUES (99)"))
    with pytest.raises(ConfigError, match="newer release"):
        Ledger(url)


def test_a_ledger_of_the_first_schema_is_taken_along_with_what_it_holds(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whose clock dated an old event is not known: it is as old as its date says."""
    with monkeypatch.context() as before:
        before.setattr(connection, "migrations", lambda dialect: schema.migrations(dialect)[:1])
        with Ledger(url) as old, old.transaction() as conn:
            conn.exec_driver_sql("INSERT INTO nodes VALUES ('n1', 'gpu001', 0)")
            conn.exec_driver_sql(
                "INSERT INTO events (node_id, run_id, at, kind, name, data)"
                f" VALUES ('n1', 'run', {time.time() - 300}, 'state', 'imaging', '{{}}')"
            )
    with Ledger(url) as ledger:
        event = ledger.latest(["n1"], "state")["n1"]
        assert (event["name"], event["data"]) == ("imaging", {})
        assert 299 < (ledger.age(event) or 0) < 360
        [number] = ledger.append("run", [("n1", Event("state", "validating", {}))])
        assert number > event["id"] and (ledger.age(ledger.latest(["n1"], "state")["n1"]) or 99) < 60


def test_secrets_are_masked_before_they_are_written(ledger: Ledger) -> None:
    node = ledger.identify("gpu001", aliases=[SERIAL])
    data = {"bmc_password": "hunter2", "text": "login root:hunter2", "deep": [{"x": b"hunter2"}]}
    ledger.append("run", [(node, Event("note", "x", data))], secrets=frozenset({"hunter2"}))
    row = ledger._rows("SELECT data FROM events")[0]["data"]
    assert "hunter2" not in row


# -- identity ----------------------------------------------------------------------------------------------------------


def test_aliases_join_a_machine(ledger: Ledger) -> None:
    node = ledger.identify("gpu001", aliases=[SERIAL])
    assert ledger.identify("renamed", aliases=[SERIAL, MAC]) == node
    assert ledger.identify("gpu001", aliases=[("mac", "5254.0000.0001")]) == node, "one MAC, however it is written"
    assert ledger.identify("gpu001", aliases=[("serial", SERIAL[1].lower())]) == node, "one serial, in any case"
    assert {(row["kind"], row["value"]) for row in ledger.aliases(node)} == {SERIAL, MAC}


def test_a_host_name_joins_nothing(ledger: Ledger) -> None:
    first = ledger.identify("gpu001", aliases=[SERIAL, ("scheduler", "gpu001")])
    second = ledger.identify("gpu001", aliases=[("serial", "GF0002"), ("scheduler", "gpu001")])
    assert first != second
    with pytest.raises(ConfigError, match="nothing tells which machine"):
        ledger.identify("gpu001", aliases=[("scheduler", "gpu001")])


def test_two_machines_are_never_made_one(ledger: Ledger) -> None:
    one = ledger.identify("gpu001", aliases=[SERIAL])
    other = ledger.identify("gpu002", aliases=[MAC])
    with pytest.raises(ConfigError, match="different nodes") as caught:
        ledger.identify("gpu001", aliases=[SERIAL, MAC])
    assert one in caught.value.seen and other in caught.value.seen
    with pytest.raises(ConfigError, match="different nodes"):
        ledger.identify("gpu001", node_id=other, aliases=[SERIAL])


def test_only_looking_makes_nothing(ledger: Ledger) -> None:
    assert ledger.identify("gpu001", aliases=[SERIAL], create=False) == ""
    assert ledger._rows("SELECT * FROM nodes") == [] and ledger._rows("SELECT * FROM aliases") == []
    node = ledger.identify("gpu001", aliases=[SERIAL])
    assert ledger.identify("gpu001", aliases=[SERIAL, MAC], create=False) == node
    assert [row["kind"] for row in ledger.aliases(node)] == ["serial"]


def test_an_id_out_of_the_inventory_is_good_for_events(ledger: Ledger) -> None:
    own = "0b3a2f2e-0000-4000-8000-000000000001"
    node = ledger.identify("gpu001", node_id=own)
    assert node == own
    assert ledger.append("run", [(node, Event("note", "x"))])


def _identify(url: str, aliases: list[tuple[str, str]], start: Any, answers: Any) -> None:
    with Ledger(url) as ledger:
        start.wait()
        answers.put(ledger.identify("gpu001", aliases=aliases))


def test_two_writers_at_once_make_one_node(url: str) -> None:
    """Also where one knows the serial alone and the other serial and MAC: no alias ends up with another node."""
    Ledger(url).close()
    workers = 6
    for turn in range(3):
        serial, mac = ("serial", f"R{turn}"), ("mac", f"52:54:00:00:01:0{turn}")
        known = [[serial], [serial, mac], [mac, serial]]
        start, answers = FORK.Barrier(workers), FORK.Queue()
        group = [
            FORK.Process(target=_identify, args=(url, known[number % 3], start, answers)) for number in range(workers)
        ]
        for process in group:
            process.start()
        nodes = {answers.get(timeout=300) for _process in group}
        for process in group:
            process.join(60)
        assert len(nodes) == 1
        with Ledger(url) as ledger:
            assert ledger.identify("gpu001", aliases=[serial, mac]) in nodes
            assert len(ledger._rows("SELECT * FROM nodes")) == turn + 1, "no node without a machine"


# -- many writers ------------------------------------------------------------------------------------------------------


def _write(url: str, start: Any, number: int, events: int) -> None:
    start.wait()
    with Ledger(url) as ledger:
        node = ledger.identify(f"gpu{number % 4}", aliases=[("serial", f"S{number % 4}")])
        for event in range(events):
            ledger.append(f"run{number}", [(node, Event("note", f"{number}/{event}"))])


def test_twenty_processes_write_and_nothing_is_lost(url: str) -> None:
    """The ledger is not there before: they make it together, too."""
    start = FORK.Barrier(20)
    group = [FORK.Process(target=_write, args=(url, start, number, 20)) for number in range(20)]
    for process in group:
        process.start()
    for process in group:
        process.join(120)
    assert [process.exitcode for process in group] == [0] * 20
    with Ledger(url) as ledger:
        names = [row["name"] for row in ledger._rows("SELECT name FROM events")]
    assert sorted(names) == sorted(f"{number}/{event}" for number in range(20) for event in range(20))


def _hang_in_a_transaction(url: str, ready: Any) -> None:
    with Ledger(url) as ledger:
        node = ledger.identify("gpu001", aliases=[SERIAL])
        ledger.append("run", [(node, Event("note", "before"))])
        with ledger.transaction() as conn:
            ledger.append_in(conn, "run", [(node, Event("note", "half"))] * 50)
            ready.set()
            signal.pause()


def test_killed_in_a_transaction(url: str) -> None:
    """Nothing of it is there, everything before it is, and the ledger goes on."""
    ready = FORK.Event()
    process = FORK.Process(target=_hang_in_a_transaction, args=(url, ready))
    process.start()
    assert ready.wait(30)
    process.kill()
    process.join(30)
    with Ledger(url) as ledger:
        node = ledger.identify("gpu001", aliases=[SERIAL])
        assert [event["name"] for event in ledger.history(node)] == ["before"]
        ledger.append("run", [(node, Event("note", "after"))])
        assert [event["name"] for event in ledger.history(node)] == ["before", "after"]
        if ledger.dialect == "sqlite":
            assert ledger._rows("PRAGMA integrity_check")[0]["integrity_check"] == "ok"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lacks", "told"),
    [
        ("INSERT ON events", "lacks INSERT on events"),
        ("INSERT, UPDATE ON leases", "lacks INSERT on leases, UPDATE on leases"),
        ("DELETE ON aliases", "lacks DELETE on aliases"),
        ("SELECT ON passports", "lacks SELECT on passports"),
    ],
)
def test_u2_a_user_whom_postgresql_lets_not_write_is_told_what_they_lack(
    postgresql: Server, lacks: str, told: str
) -> None:
    """By a look: before the first write, and with no write tried."""
    name = f"t{uuid.uuid4().hex}"
    postgresql.statement(f"CREATE SCHEMA {name}")
    Ledger(postgresql.url(name)).close()
    for statement in (
        f"CREATE ROLE {name} LOGIN",
        f"GRANT USAGE ON SCHEMA {name} TO {name}",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {name} TO {name}",
    ):
        postgresql.statement(statement)
    url = postgresql.url(name).replace("//gpufleet@", f"//{name}@")
    with Ledger(url, create=False) as ledger:
        assert ledger.unwritable() == ""
        postgresql.statement(f"REVOKE {lacks.replace(' ON ', f' ON {name}.')} FROM {name}")
        assert ledger.unwritable() == f"the user {name} {told}"
