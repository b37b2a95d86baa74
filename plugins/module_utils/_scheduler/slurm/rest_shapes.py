# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads what slurmrestd answers, in the shapes of all versions of its API that are known here. PRIVATE.

Each field is read by its shape and not by the version, for releases brought old shapes along in new versions: numbers
are bare, or objects with ``set`` and ``infinite``; a state is a word beside ``state_flags``, or a list of words.
What has another shape still is no answer.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import Work
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.holds import Reservation
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.hostlist import cluster_name, expand
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.rest_tables import OFF_NODES, ON_NODES
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.text import Record, SlurmState
from ansible_collections.gpufleet.baremetal.plugins.module_utils._token import has_form

#: Seconds by which clocks may differ: a reservation that may have begun has begun.
_CLOCKS = 300.0
#: Slurm's NO_VAL and INFINITE, where a number is bare: nothing is set.
_UNSET = frozenset({0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFE})


def node(raw: Mapping[str, Any]) -> Record:
    name = text(raw, "name")
    words = state_words(raw)
    native = "+".join(words)
    reason = text(raw, "reason")
    return Record(
        name=name,
        native=native,
        state=SlurmState.parse(native),
        reason=reason.rstrip(),
        set_by=text(raw, "reason_set_by_user") if reason else "",
        since=moment(number(raw, "reason_changed_at")) if reason else "",
        booted=moment(number(raw, "boot_time")),
    )


def state_words(raw: Mapping[str, Any]) -> list[str]:
    """The base first, then flags: a list in itself, or a word with a list beside it."""
    state, flags = raw.get("state"), raw.get("state_flags")
    if isinstance(state, list) and flags is None:
        return _words(state, raw)
    if isinstance(state, str) and isinstance(flags, list):
        return _words([state, *flags], raw)
    raise _no_shape(raw, "state")


def _words(given: Sequence[Any], raw: Mapping[str, Any]) -> list[str]:
    if not given or not all(isinstance(one, str) and one and "+" not in one for one in given):
        raise _no_shape(raw, "state")
    return [one.upper() for one in given]


def text(raw: Mapping[str, Any], field: str) -> str:
    """v0.0.38 has null where nothing is set. A field that is not there may hide a hold, and is no answer."""
    value = raw.get(field, 0)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _no_shape(raw, field)
    return value


def cluster(content: Mapping[str, Any]) -> str:
    """Of an answer, which cluster gave it; empty where it does not tell."""
    meta = content.get("meta")
    about = (meta.get("slurm") or meta.get("Slurm")) if isinstance(meta, Mapping) else None
    name = about.get("cluster") if isinstance(about, Mapping) else None
    return cluster_name(name) if isinstance(name, str) else ""


def number(raw: Mapping[str, Any], field: str) -> int:
    """0 where nothing is set."""
    value = raw.get(field)
    if isinstance(value, dict):
        if not isinstance(value.get("set"), bool) or value.get("infinite") not in (True, False):
            raise _no_shape(raw, field)
        value = value.get("number") if value["set"] and not value["infinite"] else 0
    if not isinstance(value, int) or isinstance(value, bool):
        raise _no_shape(raw, field)
    return 0 if value < 0 or value in _UNSET else value


def moment(seconds: int) -> str:
    """As the commands show it: in the zone of where we run; empty for none."""
    try:
        return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(seconds)) if seconds else ""
    except (OverflowError, OSError, ValueError):
        raise BadAnswer("a time that no clock shows", seen=str(seconds)) from None


def jobs(raw: Sequence[Mapping[str, Any]]) -> dict[str, list[Work]]:
    """By node, those that are on one. Slurm tells those that have ended for some minutes more."""
    found: dict[str, list[Work]] = {}
    for one in raw:
        state = one.get("job_state")
        words = {word.upper() for word in _words(state if isinstance(state, list) else [state], one)}
        if words <= OFF_NODES:
            continue
        work, nodes = Work(_job_id(one), runs=_runs(one, words)), text(one, "nodes").replace("(null)", "")
        if not nodes and words & ON_NODES:
            raise _no_shape(one, "nodes")  # it is at work somewhere, and nobody can tell where
        for name in expand(nodes):
            found.setdefault(name, []).append(work)
    return found


def _job_id(one: Mapping[str, Any]) -> str:
    given = one.get("job_id")
    if not isinstance(given, int) or isinstance(given, bool) or given <= 0:
        raise _no_shape(one, "job_id")
    return str(given)


def _runs(one: Mapping[str, Any], words: set[str]) -> float | None:
    begun = number(one, "start_time") if words == {"RUNNING"} else 0
    return max(0.0, time.time() - begun) if begun and not number(one, "suspend_time") else None


def reservations(raw: Sequence[Mapping[str, Any]]) -> dict[str, list[Reservation]]:
    found: dict[str, list[Reservation]] = {}
    for one in raw:
        flags = one.get("flags")
        if not isinstance(flags, list) or not all(isinstance(flag, str) for flag in flags):
            raise _no_shape(one, "flags")
        begins, ends = number(one, "start_time"), number(one, "end_time")
        over = bool(ends) and ends < time.time() - _CLOCKS
        trial = has_form(text(one, "name"))
        if not (trial or "MAINT" in flags) or over or begins > time.time() + _CLOCKS:
            continue
        held = Reservation(text(one, "name"), text(one, "users"), moment(begins), trial)
        for name in expand(text(one, "node_list")):
            found.setdefault(name, []).append(held)
    return found


def _no_shape(raw: Mapping[str, Any], field: str) -> BadAnswer:
    return BadAnswer(
        f"{field} in a shape that no known version of slurmrestd has",
        node=cut(raw.get("name") or "", 253),
        seen=cut(f"{field}: {raw.get(field)!r}", 200),
    )
