# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Redfish BMC over TLS: real requests, real state, the manners of one maker, and faults on demand."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Optional

from .logs import Logs
from .machine import Machine
from .sessions import PASSWORD, USER, UUID, Answer, begin_session, error, in_session
from .vendors import vendor

_B = "BootSourceOverride"


class FakeBmc:
    """The service. ``requests`` and ``writes`` count what arrived; ``faults`` may be changed while it runs.

    faults: busy (so many requests are answered with 503), busy_status, drop_post (so many POSTs are done and not
    answered), drop_patch, raw (bytes by path, sent as they are), soft_error (writes answer 200 with an error inside,
    done nothing), tasks (writes answer 202), task_fails, task_status (what it says of its health), known_as (the name
    by which a task is told), liar (writes answer 204, done nothing), no_edge (a restart shows no off), refuse (writes
    are refused so), refuse_in_ids (the same, by message ids with arguments alone), forgets_login_at (a path that is
    answered with 401), says (power states that are shown after a write, one a look), basic_off (only sessions are
    taken), sessions (so many may be open), session_ends (after so many requests a session is unknown), drop_login (so
    many logins are taken and not answered), no_token, token (what it is), logouts (the statuses by which logouts are
    answered that are not done; 0: not at all).
    """

    def __init__(
        self,
        name: str = "plain",
        *,
        context: Optional[ssl.SSLContext] = None,
        address: str = "127.0.0.1",
        **machine: Any,
    ) -> None:
        self.vendor = vendor(name)
        self.machine = Machine(**machine)
        self.machine.override.update(self.vendor["override"])
        self.faults: dict[str, Any] = {}
        self.requests: Counter[str] = Counter()
        self.paths: list[str] = []
        self.writes: list[tuple[str, str, Any]] = []
        self.failed_logins = 0
        #: Requests that each open session has left; logins: how many were begun.
        self.sessions: dict[str, float] = {}
        self.logins = 0
        self.tasks: list[float] = []
        self.off_at = 0.0
        #: What becomes of each answer, by its status, headers and body, before it leaves.
        self.mangle: Optional[Callable[[int, dict[str, str], bytes], tuple[int, dict[str, str], bytes]]] = None
        self.tag = 0
        #: The logs of its machine, where it has any.
        self.logs: Optional[Logs] = None
        handler = type("Handler", (_Handler,), {"bmc": self})
        self._server = ThreadingHTTPServer((address, 0), handler)
        self._server.daemon_threads = True
        self.scheme = "https" if context else "http"
        if context:
            # Without the handshake in accept(): one client that stalls would stop the others.
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self.port = self._server.server_address[1]
        self.url = f"{self.scheme}://{address}:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    def __enter__(self) -> FakeBmc:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    # -- documents ---------------------------------------------------------------------------------------------

    def get(self, path: str) -> tuple[dict[str, Any], str]:
        v, parts = self.vendor, path.strip("/").split("/")[2:]
        if self.logs and (parts[:1] == ["Managers"] or "LogServices" in parts):
            return self.logs.get(path), ""
        if not parts:
            links = {"Systems": {"@odata.id": "/redfish/v1/Systems"}} if v["systems"] or v["others"] else {}
            if v["registries"]:
                links["Registries"] = {"@odata.id": "/redfish/v1/Registries"}
            return {
                "@odata.id": "/redfish/v1/",
                "RedfishVersion": "1.15.0",
                "Id": "RootService",
                **v["root"],
                **links,
                **(self.logs.in_root() if self.logs else {}),
            }, ""
        if parts == ["Systems"]:
            ids = [*v["others"], *v["systems"]]
            return {"Members": [{"@odata.id": f"/redfish/v1/Systems/{name}"} for name in ids]}, ""
        if parts[0] == "Tasks":
            return self._task(int(parts[1]))
        if parts[0] == "Registries" and v["registries"]:
            return self._registry(parts[1:]), ""
        if parts[0] == "Systems" and len(parts) > 1:
            return self._system(path, parts)
        raise error(404, "Base.1.8.ResourceMissingAtURI")

    def _registry(self, parts: list[str]) -> dict[str, Any]:
        """The collection, a file of it, or what the file points to."""
        base, known = "/redfish/v1/Registries", self.vendor["registries"]
        if not parts:
            return {"@odata.id": base, "Name": "Registries", "Members": [{"@odata.id": f"{base}/{x}"} for x in known]}
        if parts[0] not in known:
            raise error(404, "Base.1.8.ResourceMissingAtURI")
        if len(parts) == 1:
            place = [{"Language": "en", "Uri": f"{base}/{parts[0]}/words"}]
            file = {"Id": parts[0], "Name": "x", "Registry": f"{parts[0]}.2.30.1"}
            return {**file, "Languages": ["en"], "Location": place}
        said = {
            key: {"Message": words, "Resolution": do, "NumberOfArgs": words.count("%"), "ParamTypes": ["string"],
                  "Description": "x", "Severity": "Warning"}
            for key, (words, do) in known[parts[0]].items()
        }  # fmt: skip
        return {
            "@odata.type": "#MessageRegistry.v1_6_0.MessageRegistry", "Id": parts[0], "Name": "x", "Language": "en",
            "OwningEntity": "x", "RegistryPrefix": parts[0], "RegistryVersion": "2.30.1", "Messages": said,
        }  # fmt: skip

    def _task(self, number: int) -> tuple[dict[str, Any], str]:
        left = self.tasks[number] - time.monotonic()
        state = "Running" if left > 0 else "Exception" if self.faults.get("task_fails") else "Completed"
        if state == "Running" and self.faults["tasks"] == "monitor":
            raise Answer(202, None, {"Location": f"/redfish/v1/Tasks/{number}"})
        told: dict[str, Any] = {"TaskState": state, "TaskStatus": self.faults.get("task_status", "OK")}
        if state == "Exception":
            told["Messages"] = [self.wordless("Base.1.4.GeneralError")]
        return {**told, "@odata.type": "#Task.v1_4_0.Task", "Id": str(number)}, ""

    def _system(self, path: str, parts: list[str]) -> tuple[dict[str, Any], str]:
        v, name = self.vendor, parts[1]
        base = f"/redfish/v1/Systems/{name}"
        suffix = path.rstrip("/")[len(base) :]
        if name in v["others"]:
            return self._other(base, name, v["others"][name]), ""
        if name not in v["systems"]:
            raise error(404, "Base.1.8.ResourceMissingAtURI")
        if suffix == "":
            doc, tag = self._main(base, name), self._etag()
            return ({**doc, "@odata.etag": tag}, "") if v["etag_in_document"] else (doc, tag)
        if suffix == v["boot_in"]:
            return {"@odata.id": base + suffix, "Id": "Settings", "Boot": self.boot()}, self._etag()
        if suffix == "/ResetActionInfo" and v["resets_in"] == "info":
            parameter = {"Name": "ResetType", "Required": True, "AllowableValues": list(v["resets"])}
            return {"Parameters": [parameter]}, ""
        raise error(404, "Base.1.8.ResourceMissingAtURI")

    def _other(self, base: str, name: str, fields: dict[str, Any]) -> dict[str, Any]:
        doc = {"@odata.id": base, "Id": name, **fields}
        if doc.pop("Actions", None):
            doc["Actions"] = {"#ComputerSystem.Reset": {"target": f"{base}/Actions/ComputerSystem.Reset"}}
            doc["Bios"] = {"@odata.id": f"{base}/Bios"}
        return doc

    def _main(self, base: str, name: str) -> dict[str, Any]:
        v, m = self.vendor, self.machine
        action: dict[str, Any] = {"target": f"{base}/Actions/ComputerSystem.Reset"}
        if v["resets_in"] == "action":
            action["ResetType@Redfish.AllowableValues"] = list(v["resets"])
        elif v["resets_in"] == "info":
            action["@Redfish.ActionInfo"] = f"{base}/ResetActionInfo"
        doc = {
            "@odata.id": base, "Id": name, "SerialNumber": "SN0001", "UUID": UUID,
            "PowerState": self._shown_power(), **v["system"], "Actions": {"#ComputerSystem.Reset": action},
        }  # fmt: skip
        if self.logs:
            doc.update(self.logs.in_system())
        if v["last_reset_time"]:
            doc["LastResetTime"] = m.reset_time
        if v["oem"]:
            doc["Oem"] = v["oem"](m)
        if v["boot_in"] == "main" or v["main_boot"].get("mirror"):
            doc["Boot"] = self.boot()
            if v["main_targets"]:
                doc["Boot"][f"{_B}Target@Redfish.AllowableValues"] = list(v["main_targets"])
        elif v["main_boot"].get("nulls"):
            doc["Boot"] = dict.fromkeys([f"{_B}Enabled", f"{_B}Target", f"{_B}Mode"])
        if v["boot_in"].startswith("/") and v["settings_link"]:
            doc["@Redfish.Settings"] = {"SettingsObject": {"@odata.id": base + v["boot_in"]}}
        return doc

    def _shown_power(self) -> str:
        """The truth, or after a write what the fault says, one state a look."""
        says = self.faults.get("says")
        return says.pop(0) if says and self.writes else self.machine.power

    @staticmethod
    def wordless(message_id: str, *arguments: str) -> dict[str, Any]:
        return {"MessageId": message_id, "MessageArgs": list(arguments)}

    def boot(self) -> dict[str, Any]:
        v, override = self.vendor, self.machine.override
        self.machine.catch_up()
        boot = {
            f"{_B}Enabled": override["enabled"], f"{_B}Target": override["target"],
            f"{_B}Target@Redfish.AllowableValues": list(v["targets"]),
        }  # fmt: skip
        if v["shows_mode"]:
            boot[f"{_B}Mode"] = override["mode"]
        if v["modes"]:
            boot[f"{_B}Mode@Redfish.AllowableValues"] = list(v["modes"])
        if v["http_boot_uri"]:
            boot["HttpBootUri"] = override["uri"]
        if v["shows"]:
            boot.update({key: value for key, value in v["shows"](boot).items() if value})
        return boot

    def _etag(self) -> str:
        kind = self.vendor["etag"]
        if kind == "changing":
            self.tag += 1
        return {"none": "", "weak": f'W/"{self.tag}"'}.get(kind, f'"{self.tag}"')

    # -- writes ------------------------------------------------------------------------------------------------

    def reset(self, name: str, body: Any) -> None:
        v, m = self.vendor, self.machine
        kind = body.get("ResetType") if isinstance(body, dict) else None
        if name not in v["systems"] or kind not in v["resets"]:
            raise error(400, "Base.1.8.ActionParameterNotSupported", f"{kind}")
        if kind == "On" and time.monotonic() - self.off_at < v["settles"]:
            raise error(409, "Base.1.18.ActionParameterValueConflict", "settling")
        if v["strict"] and {"On": "On", "ForceOff": "Off", "GracefulShutdown": "Off"}.get(kind) == m.power:
            raise error(409, "IDRAC.2.9.PSU501", f"already powered {m.power}")
        if "Off" in kind:
            self.off_at = time.monotonic() + m.lag
        if self.faults.get("no_edge") and "Re" in kind:
            with m.lock:
                m._boot()
            return
        m.reset(kind)

    def patch_boot(self, path: str, headers: Any, body: Any) -> None:
        v = self.vendor
        boot = body.get("Boot") if isinstance(body, dict) else None
        if not isinstance(boot, dict):
            raise error(400, "Base.1.8.MalformedJSON")
        suffix = "/" + "/".join(path.strip("/").split("/")[4:]) if path.count("/") > 4 else "main"
        if suffix != v["boot_in"]:
            raise error(
                400, v["main_boot"].get("refuses") or "Base.1.8.PropertyUnknown", "Boot is not to be written here"
            )
        self._check_tag(headers.get("If-Match"))
        if set(boot) & set(v["read_only"]):
            raise error(400, "iLO.2.14.PropertyNotWritableOrUnknown", "a boot property")
        if boot.get(f"{_B}Target", "None") not in (*v["targets"], *v["unlisted"]):
            raise error(400, "Base.1.8.PropertyValueNotInList", str(boot[f"{_B}Target"]))
        if any(name not in boot for name in v["needs"]):
            return
        names = {f"{_B}Enabled": "enabled", f"{_B}Target": "target", f"{_B}Mode": "mode", "HttpBootUri": "uri"}
        with self.machine.lock:
            self.machine.override.update({names[key]: value for key, value in boot.items()})
        self.tag += 1

    def _check_tag(self, given: Optional[str]) -> None:
        kind, now = self.vendor["etag"], f'"{self.tag}"'
        wanted = {"none": None, "any": ("*",)}.get(kind, (now, "*"))
        if wanted is None:
            return
        if given is None:
            raise error(428, "Base.1.8.PreconditionRequired")
        if given not in wanted:
            raise error(412, "Base.1.8.PreconditionFailed")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    #: Head and body of an answer are two packets, and the second would wait 40 ms for the first to be acknowledged.
    disable_nagle_algorithm = True
    bmc: FakeBmc

    def log_message(self, *args: Any) -> None:
        """Silent."""

    def _serve(self, method: str) -> None:
        bmc = self.bmc
        length = int(self.headers.get("Content-Length") or 0)
        raw = self.rfile.read(length)
        bmc.requests[method] += 1
        bmc.paths.append(f"{method} {self.path}")
        try:
            self._faulty(method, raw)
            doc, tag = self._do(method, raw)
            self._send(200, doc, {"ETag": tag} if tag else {})
        except Answer as answer:
            if answer.status:
                self._send(answer.status, answer.body, answer.headers)
            else:
                self.close_connection = True

    def _faulty(self, method: str, raw: bytes) -> None:
        faults = self.bmc.faults
        if method == "POST" and self.path == "/redfish/v1/SessionService/Sessions":
            raise begin_session(self.bmc, raw)
        login = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        given = self.headers.get("Authorization")
        public = self.path.rstrip("/") == "/redfish/v1" and not given and not self.headers.get("X-Auth-Token")
        by_token = not given and not public
        known = in_session(self.bmc, self.headers.get("X-Auth-Token") or "") if by_token else given == f"Basic {login}"
        if known and not given and method == "DELETE" and "/Sessions/" in self.path:
            if faults.get("logouts"):
                raise Answer(faults["logouts"].pop(0))
            self.bmc.sessions.pop(self.path.rpartition("/")[2], None)
            raise Answer(204)
        if not public and (not known or (given and faults.get("basic_off"))):
            self.bmc.failed_logins += 1
            raise error(401, "Base.1.8.NoValidSession")
        if self.path == faults.get("forgets_login_at"):
            raise error(401, "Base.1.8.NoValidSession")
        if self.path in faults.get("raw", {}):
            raise Answer(200, faults["raw"][self.path])
        if faults.get("busy", 0) > 0:
            faults["busy"] -= 1
            raise Answer(faults.get("busy_status", 503), faults.get("busy_body"), {"Retry-After": "1"})

    def _do(self, method: str, raw: bytes) -> tuple[Any, str]:
        bmc, faults = self.bmc, self.bmc.faults
        if method == "GET":
            return bmc.get(self.path)
        try:
            body = json.loads(raw)
        except ValueError:
            raise error(400, "Base.1.8.MalformedJSON") from None
        bmc.writes.append((method, self.path, body))
        if faults.get("refuse"):
            # Whoever is told that it is so already finds it so.
            bmc.machine.arrive()
            raise error(*faults["refuse"])
        if faults.get("refuse_in_ids"):
            ids = [bmc.wordless(*one) for one in faults["refuse_in_ids"]]
            told = {"code": "iLO.0.10.ExtendedInfo", "message": "See @Message.ExtendedInfo for more information."}
            raise Answer(400, {"error": {**told, "@Message.ExtendedInfo": ids}})
        if faults.get("soft_error"):
            raise Answer(200, error(200, "Base.1.8.GeneralError", "it went wrong").body)
        if not faults.get("liar"):
            self._write(method, body)
        fault = "drop_post" if method == "POST" else "drop_patch"
        if faults.get(fault, 0) > 0:
            faults[fault] -= 1
            raise Answer(0)
        if faults.get("tasks"):
            bmc.tasks.append(time.monotonic() + 0.3)
            place = f"/redfish/v1/Tasks/{len(bmc.tasks) - 1}"
            raise Answer(202, None, {"Location": faults.get("known_as", "") + place})
        raise Answer(204)

    def _write(self, method: str, body: Any) -> None:
        parts = self.path.strip("/").split("/")
        if method == "POST" and parts[-1] == "ComputerSystem.Reset" and len(parts) == 6:
            self.bmc.reset(parts[3], body)
        elif method == "PATCH" and parts[2] == "Systems" and len(parts) in (4, 5):
            self.bmc.patch_boot(self.path, self.headers, body)
        else:
            raise error(405, "Base.1.8.OperationNotAllowed")

    def _send(self, status: int, body: Any, headers: dict[str, str]) -> None:
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        if self.bmc.mangle:
            status, headers, data = self.bmc.mangle(status, headers, data)
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        self._serve("GET")

    def do_POST(self) -> None:
        self._serve("POST")

    def do_PATCH(self) -> None:
        self._serve("PATCH")

    def do_DELETE(self) -> None:
        self._serve("DELETE")
