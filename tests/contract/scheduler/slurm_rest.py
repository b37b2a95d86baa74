# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""slurmrestd before a real slurmctld: Debian's own, which only reads, and one that speaks newer versions of the API.

The second tells what the first cannot, in the shapes of v0.0.40 to v0.0.45 and with the lies of slurmrestd 26.05: all
that it tells and changes is the real slurmctld's, by scontrol.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import shutil
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Optional

from contract.scheduler.slurm_cluster import _free_ports, _path

_NOBODY = 65534
_KNOWN = {"state", "reason", "comment", "extra", "features", "gres", "weight", "resume_after", "name"}
_PATH = re.compile(r"/slurm/(v[\d.]+)/(\w+)/?([^/?]*)")


def _part(content: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")


def _signature(secret: bytes, signed: str) -> str:
    return base64.urlsafe_b64encode(hmac.new(secret, signed.encode(), hashlib.sha256).digest()).decode().rstrip("=")


def token(slurm: Any, seconds: float = 3600, user: str = "root") -> str:
    """As ``scontrol token`` makes it."""
    signed = ".".join(
        [_part({"alg": "HS256", "typ": "JWT"}), _part({"exp": int(time.time() + seconds), "iat": 0, "sun": user})]
    )
    return f"{signed}.{_signature((slurm.root / 'jwt.key').read_bytes(), signed)}"


class Real:
    """Debian's slurmrestd, as a user that is neither root nor SlurmUser, which it demands."""

    def __init__(self, slurm: Any) -> None:
        (port,) = _free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        program = shutil.which("slurmrestd", path=_path())
        ids = [f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups"]
        env = ["env", f"SLURM_CONF={slurm.conf}", "SLURM_JWT=daemon"]
        argv = [str(program), "-a", "rest_auth/jwt", "-s", "openapi/v0.0.38", f"127.0.0.1:{port}"]
        with open(slurm.root / "slurmrestd.log", "ab") as log:
            self._process = subprocess.Popen(
                ["setpriv", *ids, *env, *argv], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(timeout=20)


class Newer:
    """http://127.0.0.1:PORT, which speaks one version of the API."""

    def __init__(self, slurm: Any, version: str = "v0.0.44") -> None:
        self.slurm, self.version = slurm, version
        #: Others that it names as well.
        self.also: tuple[str, ...] = ()
        #: It changes several nodes by one request.
        self.writes_many = True
        #: Under which name slurmctld is told of a node, who is known by another one by then; does it forget to tell it?
        self.renamed: dict[str, str] = {}
        self.forgets = False
        #: A test's own word in the place of an answer: path's word -> what becomes of its content.
        self.bent: dict[str, Any] = {}
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._http.daemon_threads = True
        threading.Thread(target=lambda: self._http.serve_forever(poll_interval=0.1), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    # -- what it answers ---------------------------------------------------------------------------------------

    def answer(self, method: str, path: str, headers: Any, body: bytes) -> tuple[int, Any]:
        given = headers.get("X-SLURM-USER-TOKEN")
        if not given or not headers.get("X-SLURM-USER-NAME"):
            return 401, "Authentication failure"
        if path == "/openapi/v3":
            return 200, {"openapi": "3.0.3", "paths": self._paths()}
        found = _PATH.fullmatch(path)
        if not found or found[1] != self.version:
            return 404, "Unable to find requested URL endpoint."
        if not self._valid(given, headers["X-SLURM-USER-NAME"]):
            return 511, _failed(1007, "Protocol authentication error")
        asked = getattr(self, f"_{method.lower()}_{found[2]}", None)
        code, content = asked(found[3], body) if asked else (404, "Unable to find requested URL endpoint.")
        bend = self.bent.get(found[2])
        return (code, bend(content)) if bend else (code, content)

    def _paths(self) -> dict[str, Any]:
        served: dict[str, Any] = {}
        for base in (f"/slurm/{version}" for version in (self.version, *self.also)):
            served.update({f"{base}/{word}/": {"get": {}} for word in ("nodes", "jobs", "reservations", "diag")})
            served[f"{base}/node/{{node_name}}"] = {"get": {}, "post": {}}
            if self.writes_many:
                served[f"{base}/nodes/"]["post"] = {}
        return served

    def _valid(self, given: str, user: str) -> bool:
        signed, _dot, signature = given.rpartition(".")
        secret = (self.slurm.root / "jwt.key").read_bytes()
        if not hmac.compare_digest(signature, _signature(secret, signed)):
            return False
        claims = json.loads(base64.urlsafe_b64decode(signed.split(".")[1] + "=="))
        return bool(claims["exp"] > time.time() and user == claims["sun"])

    def _get_nodes(self, _name: str, _body: bytes) -> tuple[int, Any]:
        return 200, _told(nodes=[self._node(line) for line in self._lines("node")])

    def _get_node(self, name: str, _body: bytes) -> tuple[int, Any]:
        lines = [line for line in self._lines("node") if f"NodeName={name} " in line]
        if not lines:
            # measured: no nodes, and an error that says that there is none
            return 200, _failed(0, "No error", f"Failure to query node {name}")
        return 200, _told(nodes=[self._node(lines[0])])

    def _get_jobs(self, _name: str, _body: bytes) -> tuple[int, Any]:
        text = self.slurm.run("squeue", "--all", "-h", "-t", "all", "-o", "%i|%T|%N|%M")
        rows = [line.split("|") for line in text.splitlines() if line]
        jobs = [
            {
                "job_id": int(number),
                "job_state": [state],
                "nodes": nodes,
                "start_time": _number(int(time.time()) - 1),
                "suspend_time": _number(0),
            }
            for number, state, nodes, _time in rows
        ]
        return 200, _told(jobs=jobs)

    def _get_reservations(self, _name: str, _body: bytes) -> tuple[int, Any]:
        return 200, _told(reservations=[_reservation(line) for line in self._lines("reservation") if "=" in line])

    def _get_diag(self, _name: str, _body: bytes) -> tuple[int, Any]:
        return 200, _told(statistics={"req_time": _number(int(time.time()))})

    def _post_nodes(self, _name: str, body: bytes) -> tuple[int, Any]:
        """measured: slurmctld goes through the list and does what it can, whatever the status then says."""
        wanted = json.loads(body)
        if not self.writes_many:
            return 404, "Unable to find requested URL endpoint."
        return self._post_node(",".join(wanted.pop("name")), json.dumps(wanted).encode())

    def _post_node(self, name: str, body: bytes) -> tuple[int, Any]:
        wanted = json.loads(body)
        said = [f"State={'+'.join(wanted['state'])}"] if "state" in wanted else []
        said += [f"Reason={wanted['reason']}"] if "reason" in wanted else []
        names = ",".join(self.renamed.get(one, one) for one in name.split(","))
        argv = ("update", f"NodeName={names}", *said)
        printed = "" if self.forgets else self.slurm.scontrol(*argv, check=False).strip()
        if printed:
            number = 2018 if "Invalid node name" in printed else 2180
            return 422, _failed(number, printed, f"Failure to update node {name}")
        unknown = [f'Ignoring unknown field "{key}"' for key in wanted if key not in _KNOWN]
        return 200, {**_told(), "warnings": [{"description": text, "source": "#/"} for text in unknown]}

    def _lines(self, what: str) -> list[str]:
        text: str = self.slurm.scontrol("--all", "-o", "show", what)
        return [line for line in text.splitlines() if line.strip()]

    def _node(self, line: str) -> dict[str, Any]:
        reason = re.search(r" Reason=(.*) \[(\S+)@([\dT:-]+)\]", line)
        fields = dict(re.findall(r"(?:^|\s)(\w+)=(\S+)", line.partition(" Reason=")[0]))
        return {
            "name": fields["NodeName"],
            "hostname": fields.get("NodeHostName", ""),
            "address": fields.get("NodeAddr", ""),
            "state": fields["State"].split("+"),
            "boot_time": _number(_unix(fields["BootTime"])),
            "reason": reason[1] if reason else "",
            "reason_changed_at": _number(_unix(reason[3]) if reason else 0),
            "reason_set_by_user": reason[2] if reason else "",
        }

    # -- the wire ----------------------------------------------------------------------------------------------

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        service = self

        class Handler(BaseHTTPRequestHandler):
            def _do(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                code, content = service.answer(self.command, self.path.partition("?")[0], self.headers, body)
                text = content if isinstance(content, str) else json.dumps(content)
                self.send_response(code)
                self.send_header("Content-Type", "text/plain" if isinstance(content, str) else "application/json")
                self.send_header("Content-Length", str(len(text.encode())))
                self.end_headers()
                self.wfile.write(text.encode())

            do_GET = do_POST = _do

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing is printed."""

        return Handler


def _number(value: int) -> dict[str, Any]:
    return {"set": True, "infinite": False, "number": value}


def _unix(text: Optional[str]) -> int:
    try:
        return int(time.mktime(time.strptime(str(text), "%Y-%m-%dT%H:%M:%S")))
    except ValueError:
        return 0


def _reservation(line: str) -> dict[str, Any]:
    fields = dict(re.findall(r"(?:^|\s)(\w+)=(\S*)", line))
    return {
        "name": fields["ReservationName"],
        "node_list": "" if fields["Nodes"] == "(null)" else fields["Nodes"],
        "users": fields.get("Users", ""),
        "flags": fields["Flags"].split(","),
        "start_time": _number(_unix(fields["StartTime"])),
        "end_time": _number(_unix(fields["EndTime"])),
    }


def _told(**content: Any) -> dict[str, Any]:
    return {
        **content,
        "errors": [],
        "warnings": [],
        "meta": {"slurm": {"release": "25.11.0", "cluster": "gpufleet-test"}},
    }


def _failed(number: int, error: str, description: str = "") -> dict[str, Any]:
    row = {"description": description, "error_number": number, "error": error, "source": "_dump_nodes"}
    return {"errors": [row], "warnings": [], "meta": {}}


def token_file(folder: Path, text: str) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "slurm.jwt"
    path.write_text(f"{text}\n", encoding="ascii")
    path.chmod(0o600)
    return str(path)
