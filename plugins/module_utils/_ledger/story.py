# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One node's story out of the ledger, for people who ask what became of it. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import FLEET, spec
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import whole
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.aliases import IDENTITY
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.report import utc
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.spelling import JOINING, normal
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.summary import wrapped
from ansible_collections.gpufleet.baremetal.plugins.module_utils._moved import KIND, LEFT, RENAMED
from ansible_collections.gpufleet.baremetal.plugins.module_utils._moved import words as place
from ansible_collections.gpufleet.baremetal.plugins.module_utils._token import why_of

#: Who looks for a node of former days looks for some of these.
LAST = 40
SPEC = spec(
    FLEET,
    of={"type": "str"},
    last={"type": "int", "default": LAST},
    all_kinds={"type": "bool", "default": False},
    report={"type": "bool", "default": False},
)
#: What became of a node. The rest is how: what was to be written, what was, and what was looked at on the way.
_TURNS = (
    *("state", "verdict", "passport", "hold", "named", "maintenance"),
    *("identity", KIND, "attempt", "lift", "note"),
)
#: As many findings of one verdict; the ledger has them all.
_FINDINGS = 3

Data = Mapping[str, Any]


def story(ledger: Ledger, node_id: str, *, last: int, all_kinds: bool) -> dict[str, Any]:
    """As the module node_history documents it under ``nodes``; newest last.

    :param last: so many events, or all with 0.
    """
    kinds = () if all_kinds else _TURNS
    rows = ledger.history(node_id, kinds=kinds, last=last + 1 if last else 0)
    state = ledger.latest([node_id], "state").get(node_id)
    shown = rows[-last:] if last else rows
    return {
        "node_id": node_id,
        "name": ledger.name(node_id),
        "known_as": [f"{row['kind']} {row['value']}" for row in ledger.aliases(node_id) if row["kind"] in JOINING],
        "state": state["name"] if state else "discovered",
        "earlier": len(rows) > len(shown),
        "events": [_event(row) for row in shown],
    }


def lines(one: Mapping[str, Any], width: int) -> list[str]:
    """The same for people."""
    known = ", ".join(one["known_as"]) or "no serial, UUID or MAC any more"
    told = wrapped("", f"{one['name']}: {one['state']}; node {one['node_id']}, known by {known}", width)
    if one["earlier"]:
        told += wrapped("  ", f"the last {len(one['events'])} events; there are earlier ones", width)
    for event in one["events"]:
        who = f"{event['run']}, by {event['who']}" if event["who"] else event["run"]
        told += wrapped(f"  {event['at']}  ", f"{event['text']} ({who})", width)
    return told if one["events"] else [*told, "  nothing is recorded of it"]


def meant(ledger: Ledger, text: str) -> list[str]:
    """The nodes that somebody may mean by an id, a serial, a MAC, a UUID or a host name, the oldest first.

    :raises ConfigError: where the ledger knows none.
    """
    text = text.strip()
    kinds = (*JOINING, "gpu")
    found = {ledger.owner(kind, text) for kind in kinds} | {*ledger.called(text)}
    found |= {text} if ledger.name(text) else set()
    spellings = {normal(kind, text).lower() for kind in kinds} | {text.lower()}
    found = (found - {""}) or set(_once(ledger, spellings - {""}))
    if not found:
        raise ConfigError(
            "the ledger knows no node by that",
            wanted="a host name, a serial, a MAC, a system UUID or the ledger's id of a node",
            seen=text,
            do="correct it, or set gpufleet_ledger_url to the ledger that knows it",
        )
    return ledger.by_age(found)


def _once(ledger: Ledger, spellings: set[str]) -> Iterable[str]:
    """Whom a swap or a correction has taken it from: what is nobody's any more stands in those events alone."""
    for row in ledger.of_all(IDENTITY):
        if spellings & {one.lower() for one in _texts(row["data"])}:
            yield row["node_id"]


def _texts(data: Data) -> Iterable[str]:
    yield str(data.get("value") or "")
    yield from map(str, data.get("serials") or ())
    for words in (data.get("was"), data.get("now")):  # such as "serial X, mac Y", or the id of a node
        for part in str(words or "").split(", "):
            yield part.rpartition(" ")[2]


# -- events ------------------------------------------------------------------------------------------------------------


def _event(row: Mapping[str, Any]) -> dict[str, Any]:
    data = row["data"]
    return {
        "id": row["id"],
        "at": utc(row["at"]),
        "run": row["run_id"],
        "who": str(data.get("by") or data.get("hold_author") or ""),
        "kind": row["kind"],
        "name": row["name"],
        "text": " ".join(whole(_WORDS.get(row["kind"], _other)(row["kind"], row["name"], data)).split()),
    }


def _with(head: str, *parts: Any) -> str:
    told = "; ".join(str(part) for part in parts if part)
    return f"{head}: {told}" if told else head


def _state(kind: str, name: str, data: Data) -> str:
    came = f"{name} (was {data['from']})" if data.get("from") not in (None, "", name) else name
    remedy = f"remedy: {data['remedy']}" if data.get("remedy") else ""
    forced = f"forced: {data['forced']}" if data.get("forced") else ""
    return _with(came, data.get("reason"), remedy, forced)


def _verdict(kind: str, name: str, data: Data) -> str:
    findings = [str(one.get("text") or one.get("id")) for one in data.get("findings") or []]
    more = f"and {len(findings) - _FINDINGS} more" if len(findings) > _FINDINGS else ""
    remedy = f"remedy: {data['remedy']}" if data.get("remedy") not in (None, "", "none") else ""
    return _with(f"{name} {data.get('verdict', '')}".strip(), *findings[:_FINDINGS], more, remedy)


def _passport(kind: str, name: str, data: Data) -> str:
    image = data.get("image") or {}
    until = f"until {data['expires']}" if data.get("expires") else ""
    return _with(f"passport {name}", until, " ".join(str(image[key]) for key in ("name", "version") if image.get(key)))


def _hold(kind: str, name: str, data: Data) -> str:
    token = str(data.get("hold_token") or "")
    return _with(f"{kind} {name}", why_of(token) or token)


def _identity(kind: str, name: str, data: Data) -> str:
    what = data.get("part") or " ".join(str(data[key]) for key in ("kind", "value") if data.get(key))
    was, now = data.get("was") or data.get("from"), data.get("now") or data.get("to")
    way = " ".join(f"{word} {value}" for word, value in (("was", was), ("now", now)) if value)
    return _with(f"identity {name}", what, data.get("reason"), way)


def _provisioner(kind: str, name: str, data: Data) -> str:
    left, there = (place(data.get(end) or {}) for end in ("from", "to"))
    if name == RENAMED:
        return _with(f"known at {there} from now on, which was {left}", data.get("reason"))
    return f"left {left} for {there}" if name == LEFT else f"moved from {left} to {there}"


def _lift(kind: str, name: str, data: Data) -> str:
    return _with(f"failures of {name} lifted", data.get("reason"))


def _intent(kind: str, name: str, data: Data) -> str:
    return _with(f"{name} is about to", data.get("write"))


def _outcome(kind: str, name: str, data: Data) -> str:
    changed = "done" if data.get("changed") else ""
    return _with(f"{name} ended", data.get("error") or data.get("msg") or changed)


def _other(kind: str, name: str, data: Data) -> str:
    told = next((data[key] for key in ("reason", "text", "native", "msg", "hold_token") if data.get(key)), "")
    return _with(f"{kind} {name}", told)


_WORDS: Mapping[str, Callable[[str, str, Data], str]] = {
    "state": _state,
    "verdict": _verdict,
    "passport": _passport,
    "hold": _hold,
    "maintenance": _hold,
    IDENTITY: _identity,
    KIND: _provisioner,
    "lift": _lift,
    "intent": _intent,
    "outcome": _outcome,
}


def all_lines(stories: Sequence[Mapping[str, Any]], width: int) -> list[str]:
    return [line for number, one in enumerate(stories) for line in ([""] if number else []) + lines(one, width)]
