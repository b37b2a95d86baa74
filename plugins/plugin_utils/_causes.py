# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What stands in the way of a run, and whose it is to mend; told once for all nodes that share it. PRIVATE."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    ConfigError,
    DeadlineExceeded,
    FleetError,
    NotProven,
    Refused,
    TrustError,
    Unreachable,
    WrongMachine,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._folded import folded as folded_names
from ansible_collections.gpufleet.baremetal.plugins.module_utils._quarantine import WHOSE

#: Whose it is: a setting of the site, a service that is away, a node's own, somebody else's; and what stops nobody.
SITE, SERVICE, ONE_NODE, THEIRS, NOTE = "site", "service", "node", "somebody_else", "note"
#: A run ends before its first write; or it goes on without this node.
STOPS, LEAVES_OUT = frozenset({SITE, SERVICE}), frozenset({ONE_NODE, THEIRS})

HEADINGS: Mapping[str, str] = {
    SITE: "Settings of the site, to be corrected first:",
    SERVICE: "Services that do not answer as they must; run again once they do:",
    ONE_NODE: "Nodes that are left out:",
    THEIRS: "Somebody else's, left alone:",
    NOTE: "Good to know, and nothing stops for it:",
}

#: Whose a failure is says the one list (_quarantine.py), in these words; but for what differs before a run, where
#: nothing was asked of any node yet: a signature is the image's, a refusal that of what was declared, who was waited
#: for is a service, and another machine than the declared one is that row's.
_WORDS: Mapping[str, str] = {"site": SITE, "service": SERVICE, "somebody else": THEIRS, "node": ONE_NODE}
BEFORE_A_RUN: Mapping[str, str] = {
    **dict.fromkeys((TrustError.kind, Refused.kind), SITE),
    **dict.fromkeys((NotProven.kind, DeadlineExceeded.kind), SERVICE),
    WrongMachine.kind: ONE_NODE,
}
#: As what error a run is told what stops it.
_STOPPED_BY: Mapping[str, type[FleetError]] = {SITE: ConfigError, SERVICE: Unreachable}
#: Shorter than this, what a host is called or reached by stands in words by chance.
_SHORTEST = 3


@dataclass(frozen=True)
class Cause:
    """One thing that is wrong, of one node.

    check: which look found it. kind: whose it is. what, wanted, seen, do: as those of a FleetError.
    """

    check: str
    kind: str
    what: str
    wanted: str = ""
    seen: str = ""
    do: str = ""
    address: str = ""


def of_the_list(exc: FleetError) -> str:
    """Whose this failure of a look is; of a kind that nobody knows, a service's."""
    return BEFORE_A_RUN.get(exc.kind) or _WORDS.get(WHOSE.get(exc.kind, ""), SERVICE)


def stopped_by(group: Mapping[str, Any], told: str) -> dict[str, Any]:
    """The result of a task that such a group stops: as each failed task tells it, and no verdict about a node."""
    error = _STOPPED_BY[group["kind"]](
        group["what"], address=group["address"], wanted=group["wanted"], seen=group["seen"], do=group["do"]
    )
    return {"failed": True, "kind": error.kind, **error.as_result(), "msg": told}


def cause_of(check: str, exc: FleetError, whose: Callable[[FleetError], str] = of_the_list) -> Cause:
    kind = whose(exc)
    if kind == SERVICE and exc.details.get("setting"):
        kind = SITE  # it answered, and is another one: running again helps nobody
    return Cause(check, kind, exc.what, exc.wanted, exc.seen, exc.do, exc.address)


def grouped(found: Mapping[str, Sequence[Cause]], own: Mapping[str, Collection[str]]) -> list[dict[str, Any]]:
    """The causes, each with all of its hosts, in the order of kinds and then of how many share it.

    What is wrong with each of several nodes alike is hardly a trouble of each of them: it is the site's.

    :param own: by host, what it alone is called and reached by: two causes that differ in nothing else are one.
    """
    alike: dict[Cause, list[str]] = {}
    for host, causes in found.items():
        for cause in dict.fromkeys(causes):
            alike.setdefault(cause, []).append(host)
    groups: dict[tuple[str, ...], dict[str, Any]] = {}
    for cause, hosts in alike.items():
        names = own.get(hosts[0], ()) if len(hosts) == 1 else ()  # what is told of several names none of them
        texts = (_without(text, names) for text in (cause.what, cause.wanted, cause.do))
        group = groups.setdefault((cause.kind, cause.check, *texts), {**asdict(cause), "hosts": [], "instance": ""})
        group["hosts"] += hosts
        group["instance"] = group["hosts"][0] if len(group["hosts"]) > len(hosts) else ""
    for group in groups.values():
        if group["kind"] == ONE_NODE and len(group["hosts"]) == len(found) > 1:
            group["kind"] = SITE
    order = list(HEADINGS)
    return sorted(groups.values(), key=lambda one: (order.index(one["kind"]), -len(one["hosts"])))


def _without(text: str, own: Collection[str]) -> str:
    """As it is compared. OpenSSH, for one, tells a host's name in small letters."""
    text = text.casefold()
    for value in sorted((one for one in own if len(one) >= _SHORTEST), key=len, reverse=True):
        text = text.replace(value.casefold(), "*")
    return text


def headline(title: str, groups: Sequence[Mapping[str, Any]], hosts: Sequence[str]) -> str:
    stops = [one for one in groups if one["kind"] in STOPS]
    out = {host for one in groups if one["kind"] in LEAVES_OUT for host in one["hosts"]}
    said = f"{title}: {_count(len(hosts))}: "
    if stops:
        return f"{said}{len(stops)} to be mended before anything is written"
    if out:
        return f"{said}{len(out)} left out"
    return f"{said}nothing stands in the way"


def line_of(group: Mapping[str, Any], hosts: Sequence[str]) -> str:
    """One cause in one line, however many nodes share it."""
    place = f" ({group['address']})" if group["address"] and group["address"] not in group["what"] else ""
    text = f"{_whose(group['hosts'], hosts)}: {group['what']}{place}"
    such = f", of {group['instance']} for instance" if group["instance"] else ""
    for label, value in ((f"Wanted{such}", group["wanted"]), (f"Seen{such}", group["seen"]), ("Do", group["do"])):
        if value:
            text = f"{text.rstrip('.')}. {label}: {value}"
    return text


def _whose(some: Sequence[str], every: Sequence[str]) -> str:
    if len(some) == len(every) and len(every) > 1:
        return f"all {_count(len(every))}"
    return folded_names(some) if len(some) == 1 else f"{_count(len(some))}, {folded_names(some)}"


def _count(number: int) -> str:
    return f"{number} node" + ("" if number == 1 else "s")


def lines_of(title: str, groups: Sequence[Mapping[str, Any]], hosts: Sequence[str]) -> list[str]:
    """The whole report, a line a cause."""
    lines = [headline(title, groups, hosts)]
    for kind, heading in HEADINGS.items():
        of_kind = [one for one in groups if one["kind"] == kind]
        lines += [heading, *(f"  {line_of(one, hosts)}" for one in of_kind)] if of_kind else []
    return lines


def folded(lines: Sequence[str], width: int) -> list[str]:
    """The same for a terminal: broken at blanks, what goes on is indented; a word longer than the line stays whole."""
    shown: list[str] = []
    for line in lines:
        indent = " " * (len(line) - len(line.lstrip()))
        current = indent
        for word in line.split():
            if len(current) + len(word) > width and current.strip():
                shown.append(current.rstrip())
                current = f"{indent}  "
            current += f"{word} "
        shown.append(current.rstrip())
    return shown
