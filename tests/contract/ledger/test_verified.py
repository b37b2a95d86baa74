# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A ledger that is verified is left as it is: one of an older release, and one where nothing may be written."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer, OlderLedger
from contract.ledger.kept import backed_up, do, filled, made_older
from postgresql import Server


@pytest.mark.parametrize("dry", [False, True])
def test_c10_a_backup_of_an_older_release_verifies_and_stays_one_for_it(tmp_path: Path, dry: bool) -> None:
    file = Path(backed_up(filled(f"sqlite:///{tmp_path}/l.sqlite"), tmp_path))
    older_one, there = made_older(file), sorted(tmp_path.iterdir())
    told = do(f"sqlite:///{file}", "verified", dry=dry)
    assert told["rows"]["events"] == 15 and told["address"] == f"sqlite:///{file}" and not told["changed"]
    assert file.read_bytes() == older_one and sorted(tmp_path.iterdir()) == there


def test_c10_an_older_ledger_in_use_is_verified_with_what_was_written_last(tmp_path: Path) -> None:
    url, file = filled(f"sqlite:///{tmp_path}/l.sqlite"), tmp_path / "l.sqlite"
    made_older(file)
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as run:
        run.execute("DROP TRIGGER events_delete")
        assert file.with_name("l.sqlite-wal").stat().st_size
        with pytest.raises(BadAnswer, match="the trigger events_delete is gone") as caught:
            do(url, "verified")
    assert caught.value.address == url


@pytest.mark.slow
def test_c10_an_older_ledger_on_a_server_is_left_as_it_is(postgresql: Server) -> None:
    postgresql.statement("CREATE SCHEMA older")
    url = filled(postgresql.url("older"))
    gone = ("DROP TABLE older.upkeep", "DROP TABLE older.turns")
    for statement in (*gone, "DELETE FROM older.schema_version WHERE version > 3"):
        postgresql.statement(statement)
    with pytest.raises(OlderLedger, match="a look alters nothing") as caught:
        do(url, "verified")
    assert "verify it with that release" in caught.value.do


READ_ONLY = """
import sys
from contract.ledger.kept import do
print(*(do(f"sqlite:///{sys.argv[1]}", "verified", dry=dry)["rows"]["events"] for dry in (False, True)))
"""


@pytest.mark.needs_root
@pytest.mark.parametrize("older", [False, True])
def test_c10_a_backup_verifies_where_nothing_may_be_written(tmp_path: Path, older: bool) -> None:
    (tmp_path / "kept").mkdir()
    file = Path(backed_up(filled(f"sqlite:///{tmp_path}/l.sqlite"), tmp_path / "kept"))
    if older:
        made_older(file)
    script = 'mount --bind "$2" "$2" && mount -o remount,ro,bind "$2" && exec "$0" -c "$1" "$3"'
    tests = str(Path(__file__).resolve().parents[2])
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, sys.executable, READ_ONLY, str(file.parent), str(file)],
        capture_output=True, check=False, text=True,
        env={"PYTHONPATH": f"{os.environ['PYTHONPATH']}:{tests}", "PATH": os.environ["PATH"]},
    )  # fmt: skip
    assert done.stdout.split() == ["15", "15"], done.stderr
