# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The API over HTTP: who asks, for what, and what is answered."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Optional
from urllib.parse import parse_qsl, urlsplit

from awx_server import rules
from awx_server.jobs import Jobs
from awx_server.kinds import FIELDS, LISTS, OF_AN_ORGANIZATION, UNIFIED
from awx_server.store import Object, Refused, Store

ROOT = "/api/v2/"
_PAGE = 25
_OF_A_LIST = {"page", "page_size", "order_by"}
_NO_FIELD = "No such field: "


class AwxServer:
    """asked: each request, as (method, path). writes: each request that was not a question, whatever was answered."""

    def __init__(self, repositories: Mapping[str, Path], token: str = "a-token") -> None:
        self.store, self.token = Store(repositories), token
        self.jobs = Jobs(self.store)
        self.asked: list[tuple[str, str]] = []
        self.writes: list[tuple[str, str]] = []
        #: Fields that were sent and that the kind does not have.
        self.unheard: set[tuple[str, str]] = set()
        #: So many looks at inventories later one is gone that was removed: AWX does that in the background.
        self.lag = 2
        self._going: dict[int, int] = {}
        #: What a path ends with that is refused, as by a controller in trouble.
        self.refuses = ""
        self._lock = threading.Lock()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        threading.Thread(target=lambda: self._http.serve_forever(poll_interval=0.05), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    def named(self, kind: str, name: str) -> Object:
        """For tests."""
        [found] = [one for one in self.store.all(kind) if one["name"] == name]
        return found

    # -- one request -------------------------------------------------------------------------------------------

    def answer(self, method: str, path: str, query: Mapping[str, str], body: Any) -> tuple[int, Any]:
        with self._lock:
            self.asked.append((method, path))
            if method != "GET":
                self.writes.append((method, path))
            if self.refuses and path.strip("/").endswith(self.refuses):
                return 400, {"detail": "Not now."}
            try:
                return self._answer(method, path.removeprefix(ROOT).strip("/").split("/"), query, body)
            except Refused as refused:
                return refused.code, refused.told

    def _answer(self, method: str, parts: list[str], query: Mapping[str, str], body: Any) -> tuple[int, Any]:
        kind, rest = parts[0], parts[1:]
        if kind == "config":
            return 200, {"version": "24.6.1"}
        if kind == "jobs":
            return self.jobs.page(rest, query)
        if kind == "project_updates" and rest:
            return 200, _update(self.store.find("projects", int(rest[0])))
        if kind == "inventories" and method == "GET":
            self._look_at_inventories()
        if kind not in FIELDS and kind != "unified_job_templates":
            raise Refused({"detail": "Not found."}, 404)
        if not rest:
            return self._page(kind, query) if method == "GET" else self._create(kind, body)
        number = int(rest[0])
        self.store.find(kind, number)
        if len(rest) == 1:
            return self._one(method, kind, number, body)
        return self._part(method, kind, number, rest[1], body)

    def _create(self, kind: str, body: Any) -> tuple[int, Any]:
        self._hear(kind, body)
        return 201, self.store.whole(kind, self.store.create(kind, body))

    def _one(self, method: str, kind: str, number: int, body: Any) -> tuple[int, Any]:
        if method == "DELETE" and kind == "inventories":
            return self._remove_later(self.store.find(kind, number))
        if method == "DELETE":
            self.store.remove(kind, number)
            return 204, None
        if method == "PATCH":
            self._hear(kind, body)
            return 200, self.store.whole(kind, self.store.update(kind, number, body))
        return 200, self.store.whole(kind, self.store.find(kind, number))

    def _remove_later(self, inventory: Object) -> tuple[int, Any]:
        if inventory["pending_deletion"]:
            raise Refused({"error": "Inventory is already pending deletion."})
        inventory["pending_deletion"] = True
        self._going[inventory["id"]] = self.lag
        return 202, None

    def _look_at_inventories(self) -> None:
        for number in list(self._going):
            self._going[number] -= 1
            if self._going[number] < 0:
                del self._going[number]
                self.store.remove("inventories", number)

    def _hear(self, kind: str, body: Mapping[str, Any]) -> None:
        known = {"type", "organization", *FIELDS[kind]}
        self.unheard |= {(kind, name) for name in body if name not in known}

    def _part(self, method: str, kind: str, number: int, part: str, body: Any) -> tuple[int, Any]:
        if part == "survey_spec" and kind in ("job_templates", "workflow_job_templates"):
            return self._survey(method, kind, number, body)
        if part == "create_approval_template" and kind == "workflow_job_template_nodes":
            made = self.store.create("workflow_approval_templates", body)
            self.store.find(kind, number)["unified_job_template"] = made["id"]
            return 201, self.store.whole("workflow_approval_templates", made)
        if part == "launch" and kind == "job_templates" and method == "POST":
            return self.jobs.launch(number, body)
        if part == "playbooks" and kind == "projects":
            return 200, self.store.find(kind, number)["playbooks"]
        if part == "update" and kind == "projects" and method == "POST":
            return 202, _update(self.store.read_anew(number))
        if part == "launch" and kind == "workflow_job_templates" and method == "POST":
            return self.jobs.launch_workflow(number, body)
        if part not in LISTS.get(kind, {}):
            raise Refused({"detail": "Not found."}, 404)
        return self._list(method, kind, number, part, body)

    def _survey(self, method: str, kind: str, number: int, body: Any) -> tuple[int, Any]:
        found = self.store.find(kind, number)
        if method == "POST":
            fault = rules.survey(body)
            if fault:
                raise Refused(fault)
            found["survey_spec"] = body
        if method == "DELETE":
            found["survey_spec"] = {}
        return 200, found.get("survey_spec", {}) if method == "GET" else {}

    def _list(self, method: str, kind: str, number: int, part: str, body: Any) -> tuple[int, Any]:
        numbers = self.store.list_of(kind, number, part)
        if method == "GET":
            shown = [self.store.whole(LISTS[kind][part], self.store.find(LISTS[kind][part], one)) for one in numbers]
            return 200, {"count": len(shown), "next": None, "previous": None, "results": shown}
        if body.get("disassociate"):
            numbers.remove(body["id"])
        else:
            self.store.join(kind, number, part, body["id"])
        return 204, None

    # -- lists -------------------------------------------------------------------------------------------------

    def _page(self, kind: str, query: Mapping[str, str]) -> tuple[int, Any]:
        asked = {name: value for name, value in query.items() if name not in _OF_A_LIST}
        found = [one for one in self.store.all(kind) if self._fits(kind, one, asked)]
        size, page = min(int(query.get("page_size", _PAGE)), 200), int(query.get("page", 1))
        shown = [self.store.whole(kind, one) for one in found[(page - 1) * size : page * size]]
        others = "".join(f"&{name}={value}" for name, value in query.items() if name != "page")
        more = f"{ROOT}{kind}/?page={page + 1}{others}" if page * size < len(found) else None
        return 200, {"count": len(found), "next": more, "previous": None, "results": shown}

    def _fits(self, kind: str, one: Object, asked: Mapping[str, str]) -> bool:
        either = {name[4:]: value for name, value in asked.items() if name.startswith("or__")}
        every = {name: value for name, value in asked.items() if not name.startswith("or__")}
        fits = [self._is(kind, one, name, value) for name, value in every.items()]
        return all(fits) and (not either or any(self._is(kind, one, *pair) for pair in either.items()))

    def _is(self, kind: str, one: Object, path: str, value: str) -> bool:
        shown = self.store.whole(kind, one)
        name, _dot, below = path.partition("__")
        if name not in shown and kind != "unified_job_templates":
            raise Refused({"detail": _NO_FIELD + path})
        if below:
            return bool(one.get(name)) and self._is(*self._led_to(kind, name, one[name]), below, value)
        found = shown.get(name)
        return str(found).lower() == value.lower() if isinstance(found, bool) else str(found) == value

    def _led_to(self, kind: str, name: str, number: int) -> tuple[str, Object]:
        """A job template has an organization, though it is not told one."""
        to = {**OF_AN_ORGANIZATION, **FIELDS.get(kind, {})}[name].to
        to = next(one for one in UNIFIED if number in self.store.kept[one]) if to == "unified_job_templates" else to
        return to, self.store.find(to, number)


def _update(project: Object) -> dict[str, Any]:
    """A project's update, which has ended by the time it is asked for."""
    failed = project["status"] == "failed"
    url = f"{ROOT}project_updates/{project['id']}/"
    known = {name: project[name] for name in ("id", "status", "scm_revision")}
    return {**known, "url": url, "finished": "2026-11-29T00:00:00Z", "failed": failed}


def _handler(server: AwxServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _any(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(size) or b"{}") if size else {}
            at = urlsplit(self.path)
            if self.headers.get("Authorization") != f"Bearer {server.token}":
                self._say(401, {"detail": "Authentication credentials were not provided."})
            else:
                self._say(*server.answer(self.command, at.path, dict(parse_qsl(at.query)), body))

        do_GET = do_POST = do_PATCH = do_DELETE = _any

        def _say(self, code: int, told: Optional[Any]) -> None:
            content = b"" if told is None else json.dumps(told).encode()
            self.send_response(code)
            self.send_header("X-API-Product-Name", "AWX")
            self.send_header("X-API-Product-Version", "24.6.1")
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_words: Any) -> None:
            """Nothing: a test that fails tells what it asked."""

    return Handler
