# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Is something launched for what a monitor says? The ledger remembers it, whoever asks. PRIVATE to the collection.

Nothing is launched for a node that the ledger does not have in service, nor for one that a run works on: somebody is at
it. Nor again for the same cause, until the node was in service anew, or until nothing has come of it. And not for many
nodes at once: what takes down a rack is no node's own, and to drain the rack is no answer.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._alerts import nvsentinel, slurm
from ansible_collections.gpufleet.baremetal.plugins.module_utils._alerts.said import RECYCLE, WHAT, Said
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.holder import Holder
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.lease import working
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.places import check
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._text import one_line
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event

KIND = "alert"
_IN_SERVICE = "admitted"
#: Of an alert: False where nobody took what was to be launched for it.
_HANDED_ON = "handed_on"
#: Of a node so many of its newest alerts are looked at for what is launched already.
_NEWEST = 20
_LONGEST = 300
#: Who calls a node by the name that its scheduler has for it.
_OF_SCHEDULERS = frozenset({slurm.NAME, nvsentinel.NAME})
#: A host that a limit names as nothing else: no pattern, no range, no file.
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
#: A node's newest state; None where the ledger has none.
_Event = Optional[Mapping[str, Any]]
_SINCE = (
    "SELECT node_id, name, data FROM events WHERE node_id IN (SELECT node_id FROM nodes) AND kind = :kind"
    " AND at >= :since ORDER BY id"
)


def _nobody(ledger: Ledger, name: str, node_id: str) -> str:
    return ""


@dataclass(frozen=True)
class Rules:
    """again_after: seconds until the same is launched once more, though the node was not in service anew since.

    lost_after: seconds after which a run should have come of it. oldest: of a message that tells its time.
    most: nodes for which one source has the same launched within ``per`` seconds.
    names: host by the monitor's name, where they differ. labels: what an alert that has labels must have to be of this
    fleet. namesake: of a node that is no scheduler's node of a name, the host of the machine that is.
    """

    again_after: float = 86400.0
    lost_after: float = 1800.0
    oldest: float = 3600.0
    most: int = 5
    per: float = 3600.0
    names: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    namesake: Callable[[Ledger, str, str], str] = _nobody


@dataclass(frozen=True)
class Answer:
    """host: of the inventory, where it is one. refused: why nothing is launched; empty where something is."""

    said: Said
    host: str = ""
    refused: str = ""

    def as_dict(self) -> dict[str, str]:
        """Each on one line, and none without an end: a log and an answer have them as a stranger sent them."""
        said = self.said
        told = {"node": self.host or said.node, "cause": said.cause, "do": said.do, "source": said.source}
        told.update(reason=said.reason, refused=self.refused)
        return {name: cut(one_line(text), _LONGEST) for name, text in told.items()}


def opened(url: str) -> Ledger:
    """The ledger of the site; none is made.

    :raises ConfigError: where there is none.
    """
    check(url)
    ledger = Ledger(url, create=False)
    if ledger.dialect == "sqlite" and not ledger.place:
        ledger.close()
        raise ConfigError(
            "there is no ledger here yet",
            address=ledger.shown_url,
            do="name the one that the playbooks use, as gpufleet_ledger_url of the inventory does",
        )
    return ledger


def take(ledger: Ledger, asker: Holder, said: Said, rules: Rules) -> Answer:
    """What is to be launched is written down before anybody is told to."""
    why = _unfit(said) or _elsewhere(said, rules) or _stale(said, rules, ledger.now())
    if why:
        return Answer(said, refused=why)
    with ledger.transaction() as conn:
        ledger.alone_with_alerts(conn)
        host, node_id, why = _who(ledger, said, rules)
        state = ledger.latest([node_id], "state").get(node_id) if not why else None
        why = why or _busy(ledger, asker, node_id, state) or _known(ledger, node_id, said, rules, state)
        why = why or _at_it(ledger, node_id, said, rules, state) or _many(ledger, node_id, said, rules)
        why = why or _anothers(ledger, node_id, said, rules)
        if not why:
            ledger.append_in(conn, asker.run_id, [(node_id, _event(said, host))])
    return Answer(said, host, why)


def give_back(ledger: Ledger, asker: Holder, answers: Sequence[Answer]) -> None:
    """Nobody took these: said again, they are not refused."""
    with ledger.transaction() as conn:
        ledger.alone_with_alerts(conn)
        for one in answers:
            back = _event(one.said, one.host, **{_HANDED_ON: False})
            ledger.append_in(conn, asker.run_id, [(node_id, back) for node_id in ledger.claimed_by(one.host)])


def _event(said: Said, host: str, **more: Any) -> Event:
    return Event(KIND, said.cause, {"do": said.do, "source": said.source, "reason": said.reason, "node": host, **more})


def _unfit(said: Said) -> str:
    if said.do not in WHAT:
        return f"nothing is to be done ({said.do})" if said.do == "none" else f"{said.do} is none of {', '.join(WHAT)}"
    return "" if said.node else "it names no node"


def _elsewhere(said: Said, rules: Rules) -> str:
    """Two clusters may have a node of one name, and one monitor."""
    wrong = next((name for name, value in rules.labels.items() if (said.labels or {}).get(name) != value), "")
    if said.labels is None or not wrong:
        return ""
    has = f"is {said.labels[wrong]}" if wrong in said.labels else "is missing"
    return f"it is of another fleet: its label {wrong} {has}, and not {rules.labels[wrong]}"


def _stale(said: Said, rules: Rules, now: float) -> str:
    old = now - said.at if said.at is not None else 0.0
    return f"it is {old:.0f} s old" if old > rules.oldest else ""


def _who(ledger: Ledger, said: Said, rules: Rules) -> tuple[str, str, str]:
    """The host and its node, or why it is nobody. A monitor may call it by its whole name."""
    named = rules.names.get(said.node, said.node)
    for host in dict.fromkeys([named, named.partition(".")[0]]):
        if not _PLAIN.fullmatch(host) or _is_a_number(host):
            continue
        found = ledger.claimed_by(host)
        if len(found) > 1:
            return host, "", "the ledger has several nodes by that name"
        if found:
            return host, found[0], ""
    return "", "", "the ledger knows no host by that name"


def _anothers(ledger: Ledger, node_id: str, said: Said, rules: Rules) -> str:
    """A scheduler may call one machine as the inventory calls another one."""
    if said.source not in _OF_SCHEDULERS or said.node in rules.names:
        return ""
    host = rules.namesake(ledger, said.node, node_id)
    return f"its scheduler calls the host {host} so: say in gpufleet_names which of the two is meant" if host else ""


def _is_a_number(host: str) -> bool:
    """ansible-rulebook hands such a limit on as that number, which is the name of another host."""
    try:
        return not isinstance(ast.literal_eval(host), str)
    except (ValueError, SyntaxError):
        return False


def _busy(ledger: Ledger, asker: Holder, node_id: str, state: _Event) -> str:
    if state is None or state["name"] != _IN_SERVICE:
        return f"it is {state['name'] if state else 'discovered'}, and not in service"
    run = working(ledger, [node_id], asker).get(node_id)
    return f"the run {run} works on it" if run else ""


def _over(before: Mapping[str, Any], state: _Event) -> bool:
    """Has the node come into service anew since that alert, or was nothing handed on for it?"""
    if before["data"].get(_HANDED_ON) is False:
        return True
    return state is not None and bool(state["id"] > before["id"])


def _known(ledger: Ledger, node_id: str, said: Said, rules: Rules, state: _Event) -> str:
    """Was it said before, and does that still count?"""
    told = ledger.history(node_id, kinds=[KIND], names=[said.cause])
    # Another source has the same word for causes of its own.
    before = next((one for one in reversed(told) if one["data"].get("source") == said.source), None)
    if before is None or (said.do == RECYCLE and before["data"].get("do") != RECYCLE):
        return ""
    if _over(before, state):
        return ""
    age = ledger.age(before)
    if age is None or age > rules.again_after:
        return ""
    if said.do == RECYCLE and age > rules.lost_after and not _came_of_it(ledger, node_id, before):
        return ""
    return f"it was said {age:.0f} s ago, and the node was not in service anew since"


def _at_it(ledger: Ledger, node_id: str, said: Said, rules: Rules, state: _Event) -> str:
    """Was as much launched of the node for another cause, whose job looks at all of it?"""
    for alert in reversed(ledger.history(node_id, kinds=[KIND], last=_NEWEST)):
        age = ledger.age(alert)
        if age is None or age > rules.lost_after or _over(alert, state):
            return ""
        if alert["data"].get("do") in (said.do, RECYCLE) and _holds(ledger, node_id, said, alert):
            return f"a {alert['data']['do']} was launched {age:.0f} s ago, for {alert['name']}"
    return ""


def _holds(ledger: Ledger, node_id: str, said: Said, alert: Mapping[str, Any]) -> bool:
    """Another monitor's alert only until its job has looked: what came after that is news. A look writes nothing, so
    that nobody knows when it has."""
    if alert["data"].get("source") == said.source:
        return True
    return alert["data"].get("do") == RECYCLE and not _came_of_it(ledger, node_id, alert)


def _came_of_it(ledger: Ledger, node_id: str, alert: Mapping[str, Any]) -> bool:
    """A run that looks writes what it saw."""
    return any(event["kind"] != KIND for event in ledger.history(node_id, since=int(alert["id"])))


def _many(ledger: Ledger, node_id: str, said: Said, rules: Rules) -> str:
    rows = ledger._rows(_SINCE, {"kind": KIND, "since": ledger.now() - rules.per})
    # What was given back is written after what was taken, and counts for neither.
    told = [(str(row["node_id"]), str(row["name"]), json.loads(row["data"])) for row in rows]
    # Of each source by itself: who may speak as one of them silences no other one.
    alike = [one for one in told if (one[2].get("do"), one[2].get("source")) == (said.do, said.source)]
    newest = {(node, cause): data for node, cause, data in alike}
    same = {node for (node, _cause), data in newest.items() if data.get(_HANDED_ON) is not False} - {node_id}
    if len(same) < rules.most:
        return ""
    return f"{len(same)} other nodes were taken within {rules.per:.0f} s: look for what they have in common"
