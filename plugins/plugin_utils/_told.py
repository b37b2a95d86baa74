# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The answer of a module that ran on another machine: a stranger's word. PRIVATE to the collection.

Whoever is root there writes it. He may lie about that machine; nobody else's history is his to write, and nothing in
it steers the run.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short, tail

#: Keys with which a result steers Ansible (variables, hosts, groups, statistics) or tells of a permit.
_STEER = ("ansible_facts", "add_host", "add_group", "ansible_stats", "evidence")
#: What this controller reads of an answer by itself; anything else under these names is no answer of a module of ours.
_TYPES: Mapping[str, tuple[type, ...]] = {
    "asked": (list,),
    "error": (Mapping,),
}
_KEYS = {"kind", "name", "node", "data"}
#: What Ansible tells of a module that died, and the longest of it that is shown.
_OF_A_CRASH = ("exception", "module_stdout", "module_stderr", "rc")
_LONGEST = 20_000
#: So much is shown of an event that is not believed.
_NAMED = 100


def believed(
    answer: Mapping[str, Any], *, tells: Mapping[str, Collection[str]], hosts: Collection[str], node: str
) -> dict[str, Any]:
    """The answer without what steers, if its events are such as this verb tells of its own hosts.

    :param tells: names of events by their kind.
    :param hosts: whose events may be among them, beside the task's own host, which an event names by an empty string.
    :raises BadAnswer: for any other event, before the first one is written.
    """
    result = {key: value for key, value in answer.items() if key not in _STEER and not key.startswith("_ansible_")}
    result.update({key: answer[key] for key in ("_ansible_parsed",) if key in answer})
    _typed(result, node)
    events = _events(answer.get("events"), tells, {"", node, *hosts}, node)
    # A verb that failed tells of nothing; only a verdict may fail its task and be recorded all the same.
    result["events"] = [] if answer.get("failed") and "verdict" not in tells else events
    return result


def _typed(answer: Mapping[str, Any], node: str) -> None:
    wrong = next((key for key, types in _TYPES.items() if not isinstance(answer.get(key), (*types, type(None)))), "")
    if wrong:
        raise BadAnswer(
            f"the module's answer has something under {wrong} that no module of ours writes there",
            node=node,
            wanted=" or ".join(kind.__name__ for kind in _TYPES[wrong]),
            seen=type(answer[wrong]).__name__,
            do="look for who changes answers on the machine where the module ran",
        )


def _events(told: Any, tells: Mapping[str, Collection[str]], hosts: Collection[str], node: str) -> list[dict[str, Any]]:
    events = [] if told is None else told
    wrongs = [_wrong(event, tells, hosts) for event in events] if isinstance(events, list) else ["no list of events"]
    wrong = next(filter(None, wrongs), "")
    if wrong:
        raise BadAnswer(
            "the module's answer tells of what is not its own, and none of it is recorded",
            node=node,
            wanted=_shown(tells),
            seen=wrong,
            do="look for who changes answers on the machine where the module ran",
        )
    return list(events)


def _wrong(event: Any, tells: Mapping[str, Collection[str]], hosts: Collection[str]) -> str:
    if not isinstance(event, Mapping) or set(event) != _KEYS or not isinstance(event["data"], Mapping):
        return "an event of another shape"
    if not all(isinstance(event[key], str) for key in ("kind", "name", "node")):
        return "an event of another shape"
    if event["name"] not in tells.get(event["kind"], ()):
        return short(f"{event['kind']} {event['name']}", _NAMED)
    return "" if event["node"] in hosts else short(f"{event['kind']} {event['name']} of {event['node']}", _NAMED)


def said_last(answer: Mapping[str, Any]) -> str:
    """The last words of a module that gave no answer of its own."""
    words = [answer.get(key) for key in ("msg", "module_stderr")]
    return next((text for text in words if text and isinstance(text, str)), "it printed no result")


def of_a_crash(answer: Mapping[str, Any]) -> dict[str, Any]:
    """What a person wants to see of it. An option that is wrong fails the task: no verdict is waved through then."""
    found = {key: answer[key] for key in _OF_A_CRASH if isinstance(answer.get(key), (str, int))}
    if "error" in answer:
        error = {key: value for key, value in (answer["error"] or {}).items() if isinstance(value, str)}
        found.update(failed=True, error={key: tail(value, _LONGEST) for key, value in error.items()})
    return {key: tail(value, _LONGEST) if isinstance(value, str) else value for key, value in found.items()}


def _shown(tells: Mapping[str, Collection[str]]) -> str:
    return ", ".join(f"{kind} {name}" for kind, names in tells.items() for name in sorted(names)) or "no event"
