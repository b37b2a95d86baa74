# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables and numbered migrations of the ledger. PRIVATE to the collection.

Each migration is a list of statements a dialect; a statement under ``""`` runs on all. A released migration is
never edited: append the next number. Times are seconds since the epoch, UTC, as a double.
"""

from __future__ import annotations

_ID = {"sqlite": "INTEGER PRIMARY KEY AUTOINCREMENT", "postgresql": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"}

_FIRST = """
CREATE TABLE nodes (node_id TEXT PRIMARY KEY, name TEXT NOT NULL, created DOUBLE PRECISION NOT NULL);
CREATE TABLE aliases (
  kind TEXT NOT NULL, value TEXT NOT NULL, node_id TEXT NOT NULL REFERENCES nodes (node_id),
  source TEXT NOT NULL, seen DOUBLE PRECISION NOT NULL, PRIMARY KEY (kind, value));
CREATE INDEX aliases_node ON aliases (node_id);
CREATE TABLE events (
  id {id}, node_id TEXT NOT NULL REFERENCES nodes (node_id), run_id TEXT NOT NULL, at DOUBLE PRECISION NOT NULL,
  kind TEXT NOT NULL, name TEXT NOT NULL, data TEXT NOT NULL);
CREATE INDEX events_node ON events (node_id, kind, id);
CREATE TABLE leases (
  node_id TEXT PRIMARY KEY REFERENCES nodes (node_id), run_id TEXT NOT NULL, host TEXT NOT NULL, pid BIGINT NOT NULL,
  pid_start BIGINT NOT NULL, boot_id TEXT NOT NULL, fencing BIGINT NOT NULL,
  renewed DOUBLE PRECISION NOT NULL, expires DOUBLE PRECISION NOT NULL);
CREATE TABLE lease_log (
  id {id}, node_id TEXT NOT NULL, run_id TEXT NOT NULL, fencing BIGINT NOT NULL, at DOUBLE PRECISION NOT NULL);
CREATE INDEX lease_log_node ON lease_log (node_id, run_id);
CREATE TABLE attempts (
  id {id}, node_id TEXT NOT NULL REFERENCES nodes (node_id), run_id TEXT NOT NULL, at DOUBLE PRECISION NOT NULL,
  remedy TEXT NOT NULL, finding TEXT NOT NULL);
CREATE INDEX attempts_node ON attempts (node_id, at);
CREATE TABLE passports (
  id {id}, node_id TEXT NOT NULL REFERENCES nodes (node_id), run_id TEXT NOT NULL, issued DOUBLE PRECISION NOT NULL,
  expires DOUBLE PRECISION NOT NULL, digest TEXT NOT NULL, envelope TEXT NOT NULL);
CREATE INDEX passports_node ON passports (node_id, id)
"""

#: On which boot of its controller an event was written, and how many seconds after it had begun: a file's clock is the
#: controller's, and may be set back. Events of before have neither.
_BOOT = """
ALTER TABLE events ADD COLUMN boot TEXT NOT NULL DEFAULT '';
ALTER TABLE events ADD COLUMN uptime DOUBLE PRECISION NOT NULL DEFAULT 0
"""

#: Which host of the inventory claimed an alias, and who has confirmed it, and when. Of those of before, the host by
#: whose name the node was seen first; nobody has noted who confirmed them.
_CLAIMS = """
ALTER TABLE aliases ADD COLUMN host TEXT NOT NULL DEFAULT '';
ALTER TABLE aliases ADD COLUMN confirmed_by TEXT NOT NULL DEFAULT '';
ALTER TABLE aliases ADD COLUMN confirmed DOUBLE PRECISION NOT NULL DEFAULT 0;
UPDATE aliases SET host = (SELECT name FROM nodes WHERE nodes.node_id = aliases.node_id);
CREATE INDEX aliases_host ON aliases (host)
"""

#: What was done to the ledger as a whole: an old copy was put back, it was moved, old events went into an archive.
_UPKEEP = """
CREATE TABLE upkeep (
  id {id}, at DOUBLE PRECISION NOT NULL, run_id TEXT NOT NULL, what TEXT NOT NULL, data TEXT NOT NULL)
"""

#: Which worker writes to a provisioner that loses one of two writes at once; ``asked``: when another one last waited.
_TURNS = """
CREATE TABLE turns (
  peer TEXT PRIMARY KEY, run_id TEXT NOT NULL, host TEXT NOT NULL, pid BIGINT NOT NULL, pid_start BIGINT NOT NULL,
  boot_id TEXT NOT NULL, number BIGINT NOT NULL, renewed DOUBLE PRECISION NOT NULL, expires DOUBLE PRECISION NOT NULL,
  asked DOUBLE PRECISION NOT NULL)
"""
#: Stands for the version of a ledger that was moved elsewhere: any release takes it for that of a newer one.
MOVED = 1_000_000

_APPEND_ONLY = {
    "sqlite": [
        f"CREATE TRIGGER {table}_{verb} BEFORE {verb} ON {table} BEGIN "
        f"SELECT RAISE(ABORT, '{table} is append-only'); END"
        for table in ("events", "passports")
        for verb in ("update", "delete")
    ],
    "postgresql": [
        "CREATE FUNCTION gpufleet_append_only() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION '% is append-only', TG_TABLE_NAME; END $$",
        *(
            f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE ON {table} "
            "FOR EACH ROW EXECUTE FUNCTION gpufleet_append_only()"
            for table in ("events", "passports")
        ),
    ],
}


def migrations(dialect: str) -> list[list[str]]:
    """All migrations of a dialect in order; the schema's version is how many of them have run."""
    first = _statements(_FIRST.replace("{id}", _ID[dialect]))
    upkeep = _statements(_UPKEEP.replace("{id}", _ID[dialect]))
    return [[*first, *_APPEND_ONLY[dialect]], _statements(_BOOT), _statements(_CLAIMS), upkeep, _statements(_TURNS)]


def _statements(text: str) -> list[str]:
    return [part.strip() for part in text.split(";")]
