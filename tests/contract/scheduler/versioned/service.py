# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A scheduler in the manner of those that keep versioned objects, as a web service of its own.

It compares and swaps: the holds of a node are one list that is replaced as a whole, by a writer who names the version
that he read. Several holds stand beside each other, and who wrote one is what the login says, not what the writer
says. Agents report, which changes the version as well. Work leaves a node only when it is asked, and may refuse.

====== ======================== ==========================================================================
GET    /nodes?name=a&name=b     ``{"nodes": [...], "unknown": [names]}``
PUT    /nodes/NAME/holds        ``{"version": 7, "holds": [...]}``: 200 the node, or 409
GET    /work?node=a&node=b      ``{"work": [...]}``
POST   /work/ID/eviction        ``{"uid": ...}``: 202, 404 gone, 409 another of that name, 429 not yet, 500 never
====== ======================== ==========================================================================
"""

from __future__ import annotations

import itertools
import json
import threading
from dataclasses import asdict, dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Optional
from urllib.parse import parse_qs, urlsplit

SYSTEM = "system"
#: login -> who that is
USERS = {"ours-secret": "gpufleet", "alices-secret": "alice"}
#: The scheduler's own marks: one that goes when the agent reports, and two that stay until somebody acts, the last of
#: which an agent gets by what it reports.
NOT_READY, LOST, SHORT = "not ready", "lost its agent while it had work", "its agent reports fewer GPUs than it had"


@dataclass
class StoredHold:
    text: str
    kind: str = ""
    author: str = ""
    since: str = ""


@dataclass
class StoredNode:
    name: str
    version: int
    holds: list[StoredHold] = field(default_factory=list)
    agent: str = "alive"
    booted: str = "boot-1"
    fault: str = ""


@dataclass
class StoredWork:
    id: str
    uid: str
    node: str
    leaving: bool = False
    waits_for: str = ""
    #: Why it refuses to be evicted, and whether asking again is of use.
    refusal: str = ""
    for_good: bool = False


Answer = tuple[int, dict[str, Any]]


class Service:
    """What its methods do happens at the scheduler itself, past any proxy; each is one change."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._versions = itertools.count(1)
        self._numbers = itertools.count(1)
        self.nodes: dict[str, StoredNode] = {}
        self.work: dict[str, StoredWork] = {}
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        threading.Thread(target=lambda: self._http.serve_forever(poll_interval=0.05), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    # -- what people, agents and jobs do -----------------------------------------------------------------------

    def new_nodes(self, *names: str) -> None:
        with self.lock:
            self.work.clear()
            self.nodes = {name: StoredNode(name, next(self._versions)) for name in names}

    def touch(self, name: str) -> None:
        """An agent reports: nothing that anybody judges by, and a new version all the same."""
        with self.lock:
            self.nodes[name].version = next(self._versions)

    def hold(self, name: str, text: str, author: str, kind: str = "") -> None:
        with self.lock:
            self.nodes[name].holds.append(self._new_hold(text, kind, author))
            self.touch(name)

    def lift(self, name: str) -> None:
        with self.lock:
            self.nodes[name].holds.clear()
            self.touch(name)

    def agent(self, name: str, state: str, booted: str = "") -> None:
        with self.lock:
            node = self.nodes[name]
            node.agent, node.booted = state, booted or node.booted
            node.holds = [hold for hold in node.holds if (hold.author, hold.text) != (SYSTEM, NOT_READY)]
            if state != "alive":
                node.holds.append(self._new_hold(NOT_READY, "", SYSTEM))
            self.touch(name)

    def set_fault(self, name: str, fault: str) -> None:
        with self.lock:
            self.nodes[name].fault = fault
            self.touch(name)

    def start_work(self, name: str, refusal: str = "", for_good: bool = False) -> str:
        with self.lock:
            number = next(self._numbers)
            one = StoredWork(f"pod-{number}", f"uid-{number}", name, refusal=refusal, for_good=for_good)
            self.work[one.id] = one
            return one.id

    def end_work(self, one: str) -> None:
        with self.lock:
            del self.work[one]

    def _new_hold(self, text: str, kind: str, author: str) -> StoredHold:
        return StoredHold(text, kind, author, f"tick {next(self._versions)}")

    # -- what is asked over the wire ---------------------------------------------------------------------------

    def get_nodes(self, names: list[str]) -> Answer:
        known = [asdict(self.nodes[name]) for name in names if name in self.nodes]
        return 200, {"nodes": known, "unknown": [name for name in names if name not in self.nodes]}

    def put_holds(self, name: str, body: dict[str, Any], user: str) -> Answer:
        node = self.nodes.get(name)
        if node is None:
            return 404, {"reason": "no such node"}
        if body["version"] != node.version:
            return 409, {"reason": f"the node is at version {node.version}"}
        node.holds = [self._kept(node, asked, user) for asked in body["holds"]]
        self.touch(name)
        return 200, asdict(node)

    def _kept(self, node: StoredNode, asked: dict[str, Any], user: str) -> StoredHold:
        same = [hold for hold in node.holds if asdict(hold) == asked]
        return replace(same[0]) if same else self._new_hold(asked["text"], asked.get("kind", ""), user)

    def get_work(self, names: list[str]) -> Answer:
        hidden = ("refusal", "for_good")
        found = [asdict(one) for one in self.work.values() if one.node in names]
        return 200, {"work": [{key: one[key] for key in one if key not in hidden} for one in found]}

    def evict(self, one: str, body: dict[str, Any]) -> Answer:
        work = self.work.get(one)
        if work is None:
            return 404, {"reason": "gone"}
        if work.uid != body["uid"]:
            return 409, {"reason": "another one of that name"}
        if work.refusal:
            return 500 if work.for_good else 429, {"reason": work.refusal}
        work.leaving = True
        return 202, {}


def _handler(service: Service) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _asked(self) -> Answer:
            user = USERS.get(self.headers.get("Authorization", "").partition("Bearer ")[2])
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
            if user is None:
                return 401, {}
            with service.lock:
                return self._answer(body, user) or (404, {"reason": "no such path"})

        def _answer(self, body: dict[str, Any], user: str) -> Optional[Answer]:
            parts = urlsplit(self.path)
            query = parse_qs(parts.query)
            path = parts.path.strip("/").split("/")
            shape = (self.command, path[0], *path[2:])
            if shape == ("GET", "all"):
                return service.get_nodes(list(service.nodes))
            if shape == ("GET", "nodes"):
                return service.get_nodes(query.get("name", []))
            if shape == ("GET", "work"):
                return service.get_work(query.get("node", []))
            if shape == ("PUT", "nodes", "holds"):
                return service.put_holds(path[1], body, user)
            return service.evict(path[1], body) if shape == ("POST", "work", "eviction") else None

        def _any(self) -> None:
            code, content = self._asked()
            text = json.dumps(content).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_PUT = do_POST = _any

        def log_message(self, format: str, *args: Any) -> None:
            """The faults before it count."""

    return Handler
