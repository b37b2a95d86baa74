# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The HTTP side: addresses, methods, who may."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Optional

from . import operations, records, shape, uploads, versions
from .answers import Answer, AnswerError, conflict
from .config import Config, User
from .jobs import Jobs
from .oauth import Doorkeeper
from .params import Params
from .statuses import ALLOCATED, READY
from .store import Machine, Store

_BASE = "/MAAS/api/2.0/"
_VERSION = {
    "capabilities": [
        "networks-management",
        "static-ipaddresses",
        "ipv6-deployment-ubuntu",
        "devices-management",
        "storage-deployment-ubuntu",
        "network-deployment-ubuntu",
        "bridging-interface-ubuntu",
        "bridging-automatic-ubuntu",
        "authenticate-api",
    ],
    "subversion": "",
}
#: MAAS works on so many requests at a time (maasserver/utils/concurrency).
_AT_A_TIME = 4


@dataclass
class Asked:
    """One request, as tests count them."""

    method: str
    path: str
    op: str
    query: str

    @property
    def is_write(self) -> bool:
        return self.method != "GET"


class MaasServer:
    def __init__(self, config: Config) -> None:
        self.config = config
        self.store = Store(config.state_dir)
        self.jobs = Jobs(self.store, config)
        self.door = Doorkeeper(config.users)
        self.asked: list[Asked] = []
        #: Answers to give instead of the real ones, for tests: called with each request; None lets it pass.
        self.intercept: Optional[Callable[[Asked], Optional[Answer]]] = None
        #: Told of each request after its answer: method, path and status. Keys travel in headers, and are not in it.
        self.note: Callable[[str], object] = lambda line: None
        self._slots = threading.BoundedSemaphore(_AT_A_TIME)
        self._http = ThreadingHTTPServer((config.host, config.port), _handler(self))
        self._http.daemon_threads = True
        self._thread: Optional[threading.Thread] = None
        self._site = operations.Site(config, self.jobs)
        self.jobs.resume()

    @property
    def url(self) -> str:
        host, port = self._http.server_address[:2]
        return f"http://{str(host)}:{port}/MAAS"

    def serve_forever(self) -> None:
        self._http.serve_forever(poll_interval=0.2)

    def start(self) -> None:
        self._thread = threading.Thread(target=self.serve_forever, daemon=True, name=f"MAAS at {self.url}")
        self._thread.start()

    def stop_listening(self) -> None:
        """End without a word to anybody, as a crash does."""
        self._http.shutdown()
        self._http.server_close()

    def close(self) -> None:
        self.jobs.close()
        if self._thread:
            # On a closed socket its loop would spin to the end of the process.
            self._http.shutdown()
            self._thread.join(timeout=10)
        self._http.server_close()

    # -- one request -------------------------------------------------------------------------------------------

    def answer(self, method: str, target: str, headers: Any, body: bytes) -> Answer:
        path, _mark, query = target.partition("?")
        try:
            params = Params(query, body, headers.get("Content-Type", ""))
        except AnswerError as exc:
            return exc.answer
        except ValueError:
            return Answer.text(400, "Expected a JSON object.")
        place = path[len(_BASE) :] if path.startswith(_BASE) else ""
        in_path = re.fullmatch(r"(.*/)op-([a-z_]+)", place)
        op = in_path[2] if in_path else params.op
        asked = Asked(method, in_path[1] if in_path else place, op, query)
        self.asked.append(asked)
        try:
            with self._slots:
                instead = self.intercept(asked) if self.intercept else None
                return instead or self._routed(asked, path, params, headers)
        except AnswerError as exc:
            return exc.answer

    def _routed(self, asked: Asked, path: str, params: Params, headers: Any) -> Answer:
        found = next(((route, match) for route, match in _matches(asked.path) if match), None)
        if found is None:
            return Answer.text(404, f"Unknown API endpoint: {path}.")
        if asked.path == "version/":
            return Answer.json({**_VERSION, "version": self.config.version})
        if asked.method not in ("GET", "POST", "PUT", "DELETE"):
            allow = "GET, POST" if asked.path == "machines/" else "GET, DELETE, PUT, POST"
            return Answer(405, headers={"Content-Type": "text/html; charset=utf-8", "Allow": allow})
        user = self.door.user(headers.get("Authorization"))
        if user is None:
            if asked.path == "machines/":  # this address has a handler for nobody in particular, which knows nothing
                return _unrecognised(asked)
            return Answer.text(401, "Forbidden")
        route, match = found
        return route(self, asked, user, params, *match.groups())

    # -- routes ------------------------------------------------------------------------------------------------

    def machines(self, asked: Asked, user: User, params: Params) -> Answer:
        if asked.method == "GET" and asked.op in ("", "power_parameters"):
            with self.store.reading() as machines:
                # Without a word to whoever is no administrator.
                seen = [one for one in machines.values() if operations.may_see(one, user)]
                found = records.select(seen, params.filters(), self.config, list(machines.values()))
                if asked.op and not user.admin:
                    return Answer.text(403, "This method is reserved for admin users.")
                if asked.op:
                    return Answer.json({one.system_id: one.power_parameters for one in found})
                return Answer.json([self._shown(one) for one in found])
        if asked.method == "POST" and asked.op == "":
            return self._create(user, params)
        if asked.method == "POST" and asked.op == "allocate":
            return self._allocate(user, params)
        return _unrecognised(asked)

    def _create(self, user: User, params: Params) -> Answer:
        form = params.for_op("")
        with self.store.changing() as machines:
            machine = records.create(form, self.config, self.store.new_id(), machines.values())
            machines[machine.system_id] = machine
            # Left out, it is true for administrators. A BMC that does not answer leaves the machine there.
            if user.admin and form.django_bool("commission", default=True):
                operations.commission(machine, user, form, self._site)
            return Answer.json(self._shown(machine))

    def _allocate(self, user: User, params: Params) -> Answer:
        form = params.for_op("allocate")
        wanted = form.get("system_id")
        with self.store.changing() as machines:
            for machine in machines.values():
                if machine.status == READY and not machine.locked and wanted in ("", machine.system_id):
                    machine.move(ALLOCATED)
                    machine.owner = user.name
                    machine.agent_name = form.get("agent_name")
                    return Answer.json({**self._shown(machine), "constraints_by_type": {}})
        raise conflict(f"No machine with system ID {wanted} available." if wanted else "No machine available.")

    def devices(self, _asked: Asked, _user: User, _params: Params, system_id: str) -> Answer:
        with self.store.changing() as machines:
            machine = machines.get(system_id)
            if machine is None:
                return Answer.text(404, "No Node matches the given query.")
            return Answer.json([{"bus": 1, **device} for device in machine.devices])

    def machine(self, asked: Asked, user: User, params: Params, system_id: str) -> Answer:
        with self.store.changing() as machines:
            machine = machines.get(system_id)
            if machine is None:
                return Answer.text(404, "No Machine matches the given query.")
            if not operations.may_see(machine, user):
                raise AnswerError(Answer.forbidden())
            if asked.method == "GET":
                return self._read(asked, machine, user, params)
            if asked.method == "POST":
                return self._operate(asked, machine, user, params)
            if not user.admin or machine.locked:
                raise AnswerError(Answer.forbidden())
            if asked.method == "DELETE":
                del machines[system_id]
                return Answer(204)
            records.change(machine, params.for_op(""), self.config, machines.values())
            return Answer.json(self._shown(machine))

    def _read(self, asked: Asked, machine: Machine, user: User, params: Params) -> Answer:
        if not asked.op:
            return Answer.json(self._shown(machine))
        operation = operations.GET.get(asked.op)
        if operation is None:
            return _unrecognised(asked)
        return Answer.json(operation(machine, user, params.for_op(asked.op), self._site))

    def _operate(self, asked: Asked, machine: Machine, user: User, params: Params) -> Answer:
        if asked.op not in operations.POST:
            return _unrecognised(asked)
        operation, refused_when_locked = operations.POST[asked.op]
        operations.may_touch(machine, user, refused_when_locked)
        before = self._shown(machine)
        operation(machine, user, params.for_op(asked.op), self._site)
        # An abort answers with what was before it.
        return Answer.json(before if asked.op == "abort" else self._shown(machine))

    def users(self, asked: Asked, user: User, params: Params) -> Answer:
        if asked.op != "whoami" or asked.method != "GET":
            return _unrecognised(asked)
        return Answer.json(
            {
                "is_superuser": user.admin,
                "username": user.name,
                "email": f"{user.name}@lab.invalid",
                "is_local": True,
                "resource_uri": f"/MAAS/api/2.0/users/{user.name}/",
            }
        )

    def boot_resources(self, asked: Asked, user: User, params: Params) -> Answer:
        if asked.method == "GET":
            return Answer.json(records.boot_resources(self.config))
        if asked.method != "POST" or asked.op:
            return _unrecognised(asked)
        if not user.admin:
            return Answer.text(403, "This method is reserved for admin users.")
        with self.store.changing():
            key = uploads.announce(self.config, params.for_op(""))
            number = 100 + list(self.config.images).index(key)
            return Answer.json(records.boot_resource(self.config, number), 201)

    def boot_resource_file(self, asked: Asked, user: User, params: Params, number: str, file: str) -> Answer:
        if asked.method != "PUT":
            return _unrecognised(asked)
        if not user.admin:
            return Answer.text(403, "This method is reserved for admin users.")
        with self.store.changing():
            return uploads.upload(self.config, int(file), params.body)

    def region_controllers(self, asked: Asked, user: User, params: Params) -> Answer:
        return Answer.json([{"system_id": f"reg{one:03}", "hostname": f"r{one}"} for one in range(self.config.regions)])

    def boot_resource(self, asked: Asked, user: User, params: Params, number: str) -> Answer:
        if asked.method != "GET":
            return _unrecognised(asked)
        return Answer.json(records.boot_resource(self.config, int(number)))

    def domains(self, asked: Asked, user: User, params: Params) -> Answer:
        return Answer.json(records.domains(self.config)) if asked.method == "GET" else _unrecognised(asked)

    def tag(self, asked: Asked, user: User, params: Params, name: str) -> Answer:
        with self.store.changing() as machines:
            found = records.tag(self.config, machines.values(), name)
            if asked.method == "GET" and not asked.op:
                return Answer.json(found)
            if asked.method != "POST" or asked.op != "update_nodes":
                return _unrecognised(asked)
            if not user.admin:
                raise AnswerError(Answer.forbidden())
            return Answer.json(records.update_nodes(params.for_op(asked.op), machines, name))

    def _shown(self, one: Machine) -> dict[str, Any]:
        return versions.machine(shape.machine(one), self.config.version)

    def version(self, asked: Asked, user: User, params: Params) -> Answer:
        return Answer.json({**_VERSION, "version": self.config.version})


_ROUTES: tuple[tuple[re.Pattern[str], Callable[..., Answer]], ...] = (
    (re.compile(r"machines/"), MaasServer.machines),
    (re.compile(r"machines/([a-z0-9]{6})/"), MaasServer.machine),
    (re.compile(r"users/"), MaasServer.users),
    (re.compile(r"boot-resources/"), MaasServer.boot_resources),
    (re.compile(r"boot-resources/(\d+)/"), MaasServer.boot_resource),
    (re.compile(r"boot-resources/(\d+)/upload/(\d+)/"), MaasServer.boot_resource_file),
    (re.compile(r"regioncontrollers/"), MaasServer.region_controllers),
    (re.compile(r"domains/"), MaasServer.domains),
    (re.compile(r"tags/([\w-]+)/"), MaasServer.tag),
    (re.compile(r"nodes/([a-z0-9]+)/devices/"), MaasServer.devices),
    (re.compile(r"version/"), MaasServer.version),
)


def _matches(path: str) -> Iterator[tuple[Callable[..., Answer], Any]]:
    for pattern, route in _ROUTES:
        yield route, pattern.fullmatch(path)


def _unrecognised(asked: Asked) -> Answer:
    return Answer.text(400, f"Unrecognised signature: method={asked.method} op={asked.op or None}")


def _handler(server: MaasServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _any(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            answer = server.answer(self.command, self.path, self.headers, self.rfile.read(length))
            self.close_connection = True
            self.send_response(answer.code)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Connection", "close")
            if answer.code != 204:
                self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)
            server.note(f"{self.command} {self.path} {answer.code}")

        do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = _any

        def log_message(self, format: str, *args: Any) -> None:
            """Requests carry keys; tests have `asked`."""

    return Handler
