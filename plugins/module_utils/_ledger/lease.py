# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Leases: one run at a time works on a node. PRIVATE to the collection.

A lease names its run and that run's process. It lives 60 s, is renewed by every wait and by the run's main process, and
ends with its run. It is taken over at once where its holder ran on this host and is provably dead, else when it has
expired. Each change of holder raises the fencing number, and a run that once held a lease and lost it never takes it
again: it has slept through somebody else's work.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Fenced, LeaseHeld
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.holder import Holder
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger

try:
    import sqlalchemy as sa
except ImportError:
    HAS_SQLALCHEMY = False  # Ledger itself says what is missing before anything here runs
else:
    HAS_SQLALCHEMY = True

#: Seconds that a lease lives without being renewed.
LEASE_SECONDS = 60.0


@dataclass(frozen=True)
class Lease:
    node_id: str
    run_id: str
    fencing: int


def take_in(conn: Any, ledger: Ledger, node_id: str, holder: Holder, *, node: str = "") -> Lease:
    """Take or renew the lease of a node inside the caller's transaction.

    :raises LeaseHeld: naming the run that holds it.
    :raises Fenced: when this run held it before and lost it.
    """
    if ledger.dialect == "postgresql":
        # A row that is not there yet cannot be locked: two runs would both be the first.
        conn.execute(sa.text("SELECT pg_advisory_xact_lock(20862, hashtext(:node))"), {"node": node_id})
    now = _now(conn, ledger)
    row = conn.execute(sa.text("SELECT * FROM leases WHERE node_id = :node"), {"node": node_id}).mappings().first()
    if row is None:
        return _grant(conn, node_id, holder, 1, now)
    current = _holder(row)
    if current == holder:
        _renew(conn, [node_id], holder, now)
        return Lease(node_id, holder.run_id, row["fencing"])
    if row["expires"] > now and not current.provably_dead_here(holder):
        raise LeaseHeld(
            f"another run works on this node: {current.run_id}",
            node=node,
            wanted="the node's lease",
            seen=f"held by {current.run_id}, process {current.pid} on {current.host_name},"
            f" renewed {now - row['renewed']:.0f} s ago",
            do="wait for that run to end, or stop it; its lease ends with it. If it was killed, the node is free in"
            f" {row['expires'] - now:.0f} s",
            details={"holder": current.run_id, "holder_host": current.host_name, "holder_pid": current.pid},
        )
    before = conn.execute(
        sa.text("SELECT max(fencing) FROM lease_log WHERE node_id = :node AND run_id = :run"),
        {"node": node_id, "run": holder.run_id},
    ).scalar()
    if before is not None and current.run_id != holder.run_id:
        raise Fenced(
            "this run lost the node's lease and must not go on with it",
            node=node,
            wanted=f"lease number {before}",
            seen=f"lease number {row['fencing']}, given to {current.run_id} meanwhile",
            do="run again: the new run reads the node's state afresh",
        )
    return _grant(conn, node_id, holder, row["fencing"] + 1, now)


def renew(ledger: Ledger, leases: Sequence[Lease], holder: Holder) -> dict[str, str]:
    """Renew all that are still ours in one statement. By node id, what became of each of the others."""
    with ledger.transaction() as conn:
        now = _now(conn, ledger)
        statement = sa.text("SELECT node_id, run_id, fencing FROM leases WHERE node_id IN :nodes").bindparams(
            sa.bindparam("nodes", expanding=True)
        )
        rows = conn.execute(statement, {"nodes": [lease.node_id for lease in leases]}).mappings()
        held = {row["node_id"]: (row["run_id"], row["fencing"]) for row in rows}
        ours = [lease.node_id for lease in leases if held.get(lease.node_id) == (lease.run_id, lease.fencing)]
        _renew(conn, ours, holder, now)
    gone = {lease.node_id: held.get(lease.node_id) for lease in leases if lease.node_id not in ours}
    return {node_id: f"lease number {new[1]} of {new[0]}" if new else "no lease" for node_id, new in gone.items()}


def renew_all(ledger: Ledger, holder: Holder) -> None:
    """Whatever the run holds, and no lease that has expired: its node may have been somebody else's since."""
    with ledger.transaction() as conn:
        now = _now(conn, ledger)
        conn.execute(
            sa.text("UPDATE leases SET renewed = :now, expires = :end WHERE run_id = :run AND expires > :now"),
            {"now": now, "end": now + LEASE_SECONDS, "run": holder.run_id},
        )


def end(ledger: Ledger, leases: Sequence[Lease], holder: Holder) -> None:
    """These nodes are free at once, as far as they are still ours."""
    statement = sa.text(
        "UPDATE leases SET expires = :now WHERE run_id = :run AND node_id IN :nodes AND expires > :now"
    ).bindparams(sa.bindparam("nodes", expanding=True))
    with ledger.transaction() as conn:
        nodes = [one.node_id for one in leases] or [""]
        conn.execute(statement, {"now": _now(conn, ledger), "run": holder.run_id, "nodes": nodes})


def end_all(ledger: Ledger, holder: Holder) -> None:
    """The run is over: its nodes are free at once. The rows stay, and with them the fencing numbers. So do its turns: a
    worker that lives may be at a write, and of one that was killed the command may go on. That it is dead whoever asks
    on this machine sees by himself, and waits for the command by its lock; others wait until the turn expires."""
    with ledger.transaction() as conn:
        ours = {"now": _now(conn, ledger), "run": holder.run_id}
        conn.execute(sa.text("UPDATE leases SET expires = :now WHERE run_id = :run AND expires > :now"), ours)


def holders(ledger: Ledger, node_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Who holds each node's lease now, expired or not, in one query; a node that nobody ever held is left out."""
    rows = ledger._many("SELECT * FROM leases WHERE node_id IN :nodes", "nodes", list(node_ids) or [""], {})
    return {row["node_id"]: row for row in rows}


def _holder(row: Mapping[str, Any]) -> Holder:
    return Holder(*(row[key] for key in ("run_id", "host", "pid", "pid_start", "boot_id")))


def live(lease: Mapping[str, Any] | None, now: float, asker: Holder | None) -> str:
    """The run that holds a lease now, by the ledger's clock, as far as nobody can see that it is dead."""
    if not lease or lease["expires"] <= now:
        return ""
    holder = _holder(lease)
    return "" if asker is not None and holder.provably_dead_here(asker) else holder.run_id


def working(ledger: Ledger, node_ids: Sequence[str], asker: Holder | None) -> dict[str, str]:
    """By node, the run that has it now; nodes that nobody has are left out."""
    now = ledger.now()
    found = {node: live(lease, now, asker) for node, lease in holders(ledger, list(node_ids)).items()}
    return {node: run for node, run in found.items() if run}


def holder_of(ledger: Ledger, node_id: str) -> dict[str, Any] | None:
    """The same of one node; None where nobody ever did."""
    return holders(ledger, [node_id]).get(node_id)


def _now(conn: Any, ledger: Ledger) -> float:
    if ledger.dialect == "sqlite":
        return time.time()
    return float(conn.execute(sa.text("SELECT extract(epoch FROM clock_timestamp())")).scalar())


def _renew(conn: Any, node_ids: Sequence[str], holder: Holder, now: float) -> None:
    conn.execute(
        sa.text(
            "UPDATE leases SET renewed = :now, expires = :end WHERE run_id = :run AND node_id IN :nodes"
        ).bindparams(sa.bindparam("nodes", expanding=True)),
        {"now": now, "end": now + LEASE_SECONDS, "run": holder.run_id, "nodes": list(node_ids) or [""]},
    )


def _grant(conn: Any, node_id: str, holder: Holder, fencing: int, now: float) -> Lease:
    conn.execute(
        sa.text(
            "INSERT INTO leases (node_id, run_id, host, pid, pid_start, boot_id, fencing, renewed, expires)"
            " VALUES (:node, :run, :host, :pid, :pid_start, :boot_id, :fencing, :now, :end)"
            " ON CONFLICT (node_id) DO UPDATE SET run_id = excluded.run_id, host = excluded.host, pid = excluded.pid,"
            " pid_start = excluded.pid_start, boot_id = excluded.boot_id, fencing = excluded.fencing,"
            " renewed = excluded.renewed, expires = excluded.expires"
        ),
        {
            "node": node_id,
            "run": holder.run_id,
            "host": holder.host,
            "pid": holder.pid,
            "pid_start": holder.pid_start,
            "boot_id": holder.boot_id,
            "fencing": fencing,
            "now": now,
            "end": now + LEASE_SECONDS,
        },
    )
    conn.execute(
        sa.text("INSERT INTO lease_log (node_id, run_id, fencing, at) VALUES (:node, :run, :fencing, :now)"),
        {"node": node_id, "run": holder.run_id, "fencing": fencing, "now": now},
    )
    return Lease(node_id, holder.run_id, fencing)
