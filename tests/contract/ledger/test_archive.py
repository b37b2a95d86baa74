# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Old looks go into an archive, and no decision notices."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer, ConfigError, Refused
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import archive, copies, report, upkeep
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.copies import Asked
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._history import evidence

DAY = 86_400.0


def archived(url: str, folder: Path, *, dry: bool = False, days: int = 90, name: str = "a.sqlite") -> dict[str, Any]:
    params = {"state": "archived", "older_than": days, "path": f"{folder}/{name}"}
    result = upkeep.kept(Asked(url, params, "a-run", dry))
    return {"changed": result.changed, **result.data["rows"]}


def rows_of(path: Path) -> int:
    with contextlib.closing(sqlite3.connect(path)) as file:
        return int(file.execute("SELECT count(*) FROM events").fetchone()[0])


def look(verdict: str = "pass") -> Event:
    return Event("verdict", "dcgm_gate", {"verdict": verdict, "checks": [], "findings": []})


def state(name: str, **data: Any) -> Event:
    return Event("state", name, {"from": "validating", **data})


@pytest.fixture
def tell(ledger: Ledger, shift: Callable[[float], None], monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """A node's life, in events of a hundred days ago."""

    def of(name: str, *events: Event) -> str:
        shift(-100 * DAY)
        node = ledger.identify(name, aliases=[("serial", f"S-{name}")])
        ledger.append("run", [(node, event) for event in events])
        monkeypatch.undo()
        return node

    return of


def seen(ledger: Ledger, node: str) -> dict[str, Any]:
    """What decides, as every verb asks for it."""
    found = {key: value for key, value in evidence(ledger, node).items() if key != "now"}
    told = report.status(ledger, {"n": node}, "run")["n"]
    newest = {kind: ledger.latest([node], kind) for kind in ("state", "evidence", "verdict", "look", "hold", "note")}
    return {"evidence": found, "status": told, "newest": newest}


ONCE = [
    look("fail"),
    Event("evidence", "in_service"),
    look(),
    state("imaging", deploy_id="d1"),
    look(),
    state("admitted"),
]
LIVES: dict[str, tuple[list[Event], int]] = {
    # the events of a node's life, and how many of them an archive takes
    "imaged and admitted": ([look("fail"), look(), look(), Event("measure", "w"), Event("measure", "w"), *ONCE], 6),
    "failed since": ([*ONCE, look("fail"), look("fail")], 2),
    "being imaged": ([*ONCE, *ONCE, look("fail"), state("imaging")], 7),
    "imaged and not admitted": ([look("fail"), look(), state("imaging"), look(), look()], 0),
    "let in by force": ([look("fail"), look(), state("imaging"), look(), state("admitted", forced="x")], 0),
    "adopted": ([look("fail"), look(), state("admitted", adopted=True), look(), look()], 0),
    "never imaged": ([look("fail"), look(), look()], 0),
    "said once more": ([*ONCE, look("fail"), state("admitted", **{"from": "admitted"})], 2),
}


@pytest.mark.parametrize("life", LIVES)
def test_c10_an_archive_takes_nothing_that_decides(
    ledger: Ledger, url: str, tell: Callable[..., str], tmp_path: Path, life: str
) -> None:
    events, taken = LIVES[life]
    node = tell("n", *events)
    before, every = seen(ledger, node), {event["id"]: event for event in ledger.history(node)}
    assert archived(url, tmp_path, days=101) == {"changed": False, "events": 0, "passports": 0}, "nothing is so old"
    assert archived(url, tmp_path, dry=True)["events"] == taken and len(ledger.history(node)) == len(every)
    assert archived(url, tmp_path)["events"] == taken
    assert seen(ledger, node) == before
    left = {event["id"]: event for event in ledger.history(node)}
    assert len(left) == len(every) - taken and {id_: every[id_] for id_ in left} == left
    if taken:
        with Ledger(f"sqlite:///{tmp_path}/a.sqlite") as archive:
            assert {**left, **{event["id"]: event for event in archive.history(node)}} == every
    assert archived(url, tmp_path)["changed"] is False, "and again changes nothing"


def test_c10_what_was_archived_verifies_and_still_refuses_changes(
    ledger: Ledger, url: str, tell: Callable[..., str], tmp_path: Path
) -> None:
    tell("n1", *ONCE)
    tell("n2", *ONCE)
    for number in range(3):
        issued = {"issued": float(number), "expires": number + 1.0, "digest": "d", "envelope": {"payload": "p"}}
        ledger.save_passport("run", ledger.identify("n1", aliases=[("serial", "S-n1")]), **issued)
    assert archived(url, tmp_path) == {"changed": True, "events": 4, "passports": 2}
    for place in (url, f"sqlite:///{tmp_path}/a.sqlite"):
        asked = Asked(place, {"state": "verified"}, "a-run")
        assert upkeep.kept(asked).data["findings"] == []
    for table in ("events", "passports"):
        for change in (f"DELETE FROM {table}", f"UPDATE {table} SET run_id = 'x'"):
            with pytest.raises(Exception, match="append-only"), ledger.transaction() as conn:
                conn.exec_driver_sql(change)


def test_c10_what_a_killed_run_had_put_into_the_archive_is_taken_out_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, later = f"sqlite:///{tmp_path}/l.sqlite", time.time() + 100 * DAY
    with Ledger(url) as ledger:
        node = ledger.identify("n", aliases=[("serial", "S")])
        ledger.append("run", [(node, event) for event in ONCE])
    monkeypatch.setattr(time, "time", lambda: later)
    upkeep.kept(Asked(url, {"state": "backed_up", "path": f"{tmp_path}/of_before.sqlite"}, "a-run"))
    assert archived(url, tmp_path)["events"] == 2
    assert archived(f"sqlite:///{tmp_path}/of_before.sqlite", tmp_path)["events"] == 2
    with Ledger(f"sqlite:///{tmp_path}/a.sqlite") as archive:
        assert len(archive.history(node)) == 2, "and each of them lies there once"


def test_c10_no_ledger_that_works_is_taken_for_an_archive(
    ledger: Ledger, url: str, tell: Callable[..., str], tmp_path: Path
) -> None:
    tell("n", *ONCE)
    with Ledger(f"sqlite:///{tmp_path}/other.sqlite") as other:
        other.identify("x", aliases=[("serial", "X")])
    with pytest.raises(Refused, match="no archive"):
        archived(url, tmp_path, name="other.sqlite")
    with pytest.raises(ConfigError, match="7 days or more"):
        archived(url, tmp_path, days=6)


def test_c10_after_a_restore_old_looks_need_a_new_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The numbers that lie in the archive are given out again."""
    url, later = f"sqlite:///{tmp_path}/l.sqlite", time.time() + 100 * DAY
    with Ledger(url) as ledger:
        node = ledger.identify("n", aliases=[("serial", "S")])
    upkeep.kept(Asked(url, {"state": "backed_up", "path": f"{tmp_path}/b.sqlite"}, "a-run"))

    def lived(*events: Event) -> None:
        with Ledger(url) as ledger:
            ledger.append("run", [(node, event) for event in events])

    lived(*ONCE)
    with monkeypatch.context() as clock:
        clock.setattr(time, "time", lambda: later)
        assert archived(url, tmp_path)["events"] == 2
    params = {"state": "restored", "path": f"{tmp_path}/b.sqlite", "force_reason": "x"}
    upkeep.kept(Asked(url, params, "a-run"))
    lived(look(), *ONCE)
    monkeypatch.setattr(time, "time", lambda: later)
    with pytest.raises(Refused, match="other events under these numbers: a backup was restored since") as caught:
        archived(url, tmp_path)
    assert "name a new file" in caught.value.do
    assert archived(url, tmp_path, name="new.sqlite")["events"] == 3


def test_c10_another_programs_database_is_no_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url, later, file = f"sqlite:///{tmp_path}/l.sqlite", time.time() + 100 * DAY, tmp_path / "dash.sqlite"
    with Ledger(url) as ledger:
        node = ledger.identify("n", aliases=[("serial", "S")])
        ledger.append("run", [(node, event) for event in ONCE])
    with contextlib.closing(sqlite3.connect(file)) as there:
        there.executescript("CREATE TABLE dash (x)")
    found = file.read_bytes()
    monkeypatch.setattr(time, "time", lambda: later)
    with pytest.raises(BadAnswer, match="this is no ledger"):
        archived(url, tmp_path, name="dash.sqlite")
    assert file.read_bytes() == found


def test_c10_a_passport_that_still_lasts_stays_however_old_it_is(tmp_path: Path) -> None:
    """The newest of each node stays in any case; of the others, what a run may still be shown."""
    url = f"sqlite:///{tmp_path}/l.sqlite"
    with Ledger(url) as ledger:
        node, now = ledger.identify("n", aliases=[("serial", "S")]), ledger.now()
        for ends in (-1, 1, -2):
            old, end = now - 200 * DAY, now + ends * DAY
            ledger.save_passport("run", node, issued=old, expires=end, digest=f"d{ends}", envelope={"payload": "p"})
    assert archived(url, tmp_path)["passports"] == 1
    with contextlib.closing(sqlite3.connect(tmp_path / "l.sqlite")) as file:
        assert [row[0] for row in file.execute("SELECT digest FROM passports ORDER BY id")] == ["d1", "d-2"]


def test_c10_an_archive_is_on_the_disk_before_the_ledger_lets_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a power cut what was taken out of the ledger would be nowhere."""
    url, later, real = f"sqlite:///{tmp_path}/l.sqlite", time.time() + 100 * DAY, os.fsync
    with Ledger(url) as ledger:
        node = ledger.identify("n", aliases=[("serial", "S")])
        ledger.append("run", [(node, event) for event in ONCE])
    (tmp_path / "kept").mkdir()
    seen: list[tuple[str, str]] = []

    def synced(handle: int) -> None:
        seen.append(("synced", os.readlink(f"/proc/self/fd/{handle}")))
        real(handle)

    def told(conn: Any, cursor: Any, statement: str, *more: Any) -> None:
        if statement == "COMMIT" or statement.startswith("DELETE"):
            raw = conn.connection.driver_connection
            how = str(raw.execute("PRAGMA synchronous").fetchone()[0])
            seen.append((f"{statement.split()[0]} {how}", raw.execute("PRAGMA database_list").fetchone()[2]))

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(time, "time", lambda: later)
    sa.event.listen(sa.engine.Engine, "before_cursor_execute", told)
    try:
        assert archived(url, tmp_path / "kept")["events"] == 2
    finally:
        sa.event.remove(sa.engine.Engine, "before_cursor_execute", told)
    before = seen[: seen.index(("DELETE 1", f"{tmp_path}/l.sqlite"))]
    assert before[-1] == ("COMMIT 2", f"{tmp_path}/kept/a.sqlite"), "2 is FULL: it waits for the disk"
    assert ("synced", f"{tmp_path}/kept") in before, "and so is its name"


def test_c10_an_empty_file_becomes_the_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What mktemp has made, and what a run left that was killed before it wrote anything."""
    url, later = f"sqlite:///{tmp_path}/l.sqlite", time.time() + 100 * DAY
    with Ledger(url) as ledger:
        node = ledger.identify("n", aliases=[("serial", "S")])
        ledger.append("run", [(node, event) for event in ONCE])
    (tmp_path / "a.sqlite").touch()
    monkeypatch.setattr(time, "time", lambda: later)
    assert archived(url, tmp_path)["events"] == 2


def test_c10_two_archives_at_once_take_each_row_out_once(
    ledger: Ledger, url: str, tell: Callable[..., str], tmp_path: Path
) -> None:
    """Both have chosen before one of them begins, as with a file of a date of its own. What is counted twice would make
    the ledger less than whole for ever."""
    for number in range(3):
        tell(f"gpu{number:03d}", look(), look(), state("imaging"), state("admitted"))
    with Ledger(url) as there:
        chosen = archive.due(there, 90)
    assert archived(url, tmp_path, name="one.sqlite")["events"] == len(chosen.events) > 0
    with Ledger(copies.file_url(f"{tmp_path}/two.sqlite")) as file:
        archive.carry_out(ledger, file, chosen, "another", f"{tmp_path}/two.sqlite", lambda line: None)
    assert not upkeep.kept(Asked(url, {"state": "verified"}, "a-run", False)).data["findings"]
    assert rows_of(tmp_path / "one.sqlite") == len(chosen.events) and rows_of(tmp_path / "two.sqlite") == 0
