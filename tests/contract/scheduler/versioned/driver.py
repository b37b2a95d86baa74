# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The driver for :mod:`contract.scheduler.versioned.service`: what no driver that users see can do yet."""

from __future__ import annotations

import http.client
import json
import re
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote, urlencode

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    AuthFailed,
    BadAnswer,
    Changed,
    ConfigError,
    Refused,
    Unreachable,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import (
    Block,
    Hold,
    NodeView,
    Refusal,
    Scheduler,
    Work,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.place import Place
from ansible_collections.gpufleet.baremetal.plugins.module_utils._token import has_form

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_LOGIN = "ours-secret"
_SYSTEM = "system"
_PASSING = "not ready"
_LOST = "lost its agent while it had work"
_GATEWAY = (502, 503, 504)
#: The answers to an eviction that are no errors of ours: asked, or gone already.
_LEAVES = (202, 404)
_NOT_YET, _NEVER, _STALE = 429, 500, 409


class Versioned(Scheduler):
    NAME = "versioned"
    COMPARES = True
    EVICTS = True

    def __init__(self, params: Mapping[str, Any]) -> None:
        super().__init__(params)
        self.address = str(self.options["scheduler_url"])

    def check(self, name: str) -> None:
        if not _NAME.fullmatch(name):
            raise ConfigError("this is not the name of one node", node=name, do="give the node's own name")

    # -- reading -----------------------------------------------------------------------------------------------

    def states(self, names: Sequence[str]) -> dict[str, NodeView]:
        for name in names:
            self.check(name)
        try:
            told = self._read("/nodes", name=names)
            raw = {one["name"]: one for one in told["nodes"]}
            unknown = set(told["unknown"])
            work = self._read("/work", node=list(raw))["work"]
            views = {name: _view(raw[name], [one for one in work if one["node"] == name]) for name in raw}
        except (KeyError, TypeError, AttributeError) as exc:
            raise BadAnswer("an answer of another shape", address=self.address, seen=repr(exc)) from exc
        untold = [name for name in names if name not in raw and name not in unknown]
        if untold:
            raise BadAnswer("nothing was said about a node that was asked for", node=untold[0], address=self.address)
        place = Place(scheduler_at=self.address)
        return {name: replace(views.get(name) or NodeView(name), place=place) for name in names}

    def known(self) -> dict[str, tuple[str, ...]]:
        try:
            return {one["name"]: () for one in self._read("/all")["nodes"]}
        except (KeyError, TypeError) as exc:
            raise BadAnswer("an answer of another shape", address=self.address, seen=repr(exc)) from exc

    def _read(self, path: str, **query: Sequence[str]) -> Any:
        status, content = self._ask("GET", f"{path}?{urlencode(query, doseq=True)}")
        if status != 200:
            raise BadAnswer(f"GET {path}: HTTP {status}", address=self.address, seen=cut(content, 200))
        return content

    # -- writing -----------------------------------------------------------------------------------------------

    def hold_request(self, view: NodeView, token: str, kind: str) -> str:
        return f"PUT {self.address}/nodes/{view.name}/holds + {token}"

    def hold(self, view: NodeView, token: str, kind: str) -> None:
        self._swap(view, [*_others(view), {"text": token, "kind": kind}])

    def resume_request(self, view: NodeView) -> str:
        return f"PUT {self.address}/nodes/{view.name}/holds without ours"

    def resume(self, view: NodeView) -> None:
        self._swap(view, _others(view))

    def _swap(self, view: NodeView, holds: Sequence[Mapping[str, str]]) -> None:
        body = {"version": int(view.version), "holds": list(holds)}
        status, content = self._ask("PUT", f"/nodes/{quote(view.name)}/holds", body)
        if status == _STALE:
            raise Changed("the node has changed", node=view.name, address=self.address, seen=cut(content, 200))
        if status != 200:
            raise Refused(f"HTTP {status}", node=view.name, address=self.address, seen=cut(content, 200))

    def evict_request(self, view: NodeView) -> str:
        due = _due(view)
        return f"POST {self.address}/work/{{{','.join(work.id for work in due)}}}/eviction" if due else ""

    def evict(self, view: NodeView) -> list[Refusal]:
        refusals = []
        for work in _due(view):
            name, _at, uid = work.id.partition("@")
            status, content = self._ask("POST", f"/work/{quote(name)}/eviction", {"uid": uid})
            if status in (_NOT_YET, _NEVER):
                refusals.append(Refusal(work.id, str(content.get("reason")), for_good=status == _NEVER))
            elif status not in (*_LEAVES, _STALE):
                seen = cut(content, 200)
                raise BadAnswer(f"eviction: HTTP {status}", node=view.name, address=self.address, seen=seen)
        return refusals

    def _ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {_LOGIN}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                status, text = answer.status, answer.read()
        except urllib.error.HTTPError as exc:
            status, text = exc.code, exc.read()
        except (OSError, http.client.HTTPException) as exc:
            raise Unreachable("the scheduler does not answer", address=self.address, seen=repr(exc)) from exc
        if status in _GATEWAY:
            raise Unreachable("the scheduler does not answer", address=self.address, seen=f"HTTP {status}")
        if status in (401, 403):
            raise AuthFailed("the scheduler refused the login", address=self.address, seen=f"HTTP {status}")
        try:
            return status, json.loads(text)
        except ValueError as exc:
            raise BadAnswer(f"{method}: no JSON", address=self.address, seen=repr(cut(text, 100))) from exc


def _others(view: NodeView) -> list[dict[str, str]]:
    """As they were read: the list is replaced as a whole, and who leaves one out has lifted it."""
    return [
        {"text": hold.text, "kind": hold.kind, "author": hold.author, "since": hold.since}
        for hold in view.holds
        if not has_form(hold.text)
    ]


def _due(view: NodeView) -> list[Work]:
    return [work for work in view.work if not work.waits_for]


def _view(raw: Mapping[str, Any], work: Sequence[Mapping[str, Any]]) -> NodeView:
    holds = tuple(_hold(hold) for hold in raw["holds"])
    found = tuple(Work(f"{one['id']}@{one['uid']}", _why(one)) for one in work)
    lasting = any(not hold.passing for hold in holds)
    fault = str(raw["fault"])
    return NodeView(
        name=raw["name"],
        state=_state(raw["agent"], lasting, bool(found)),
        version=str(raw["version"]),
        native=f"agent {raw['agent']}, {len(holds)} holds",
        reason="; ".join(hold.text for hold in holds),
        set_by="; ".join(hold.author for hold in holds),
        booted=raw["booted"],
        answers=raw["agent"] == "alive",
        holds=holds,
        blocks_resume=_blocks(fault, holds),
        finding=fault,
        work=found,
    )


def _blocks(fault: str, holds: Sequence[Hold]) -> tuple[Block, ...]:
    """A mark of the scheduler that does not go by itself would stay when ours is lifted."""
    marks = [hold for hold in holds if hold.by_scheduler and not hold.passing]
    found = [Block("the scheduler holds it as well", seen=hold.text, do="clear it there") for hold in marks]
    if fault:
        found.append(Block("its GPUs are not all there", seen=fault, do="repair it"))
    return tuple(found)


def _why(one: Mapping[str, Any]) -> str:
    return str(one["waits_for"]) or ("it is ending" if one["leaving"] else "")


def _hold(raw: Mapping[str, Any]) -> Hold:
    system = raw["author"] == _SYSTEM
    return Hold(
        text=raw["text"],
        author=raw["author"],
        since=raw["since"],
        kind=raw["kind"],
        form="hold",
        by_scheduler=system,
        passing=system and raw["text"] == _PASSING,
        silence=system and raw["text"] == _LOST,
    )


def _state(agent: str, held: bool, busy: bool) -> str:
    if held:
        return "draining" if busy else "drained"
    if agent != "alive":
        return "down" if agent == "dead" else "unknown"
    return "allocated" if busy else "idle"
