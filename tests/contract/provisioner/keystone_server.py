# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real Keystone over SQLite, and a real Ironic that asks it who somebody is and what Ironic's policy lets them do."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional

from contract.proxy import Proxy
from ironic_server import VENV, IronicServer, free_port

PROGRAM = Path(__file__).with_name("keystone_process.py")
ADMIN = "admin"
PASSWORD = "keystone-Pa55word"
#: That of Ironic itself, which it asks about tokens with: in this project, with this role.
IRONIC, SERVICES, SERVICE = "ironic", "service", "service"

CONFIG = """
[DEFAULT]
use_stderr = true
default_log_levels = keystone=WARNING,alembic=WARNING
[database]
connection = sqlite:///{home}/keystone.sqlite
[fernet_tokens]
key_repository = {home}/tokens
[fernet_receipts]
key_repository = {home}/receipts
[identity]
# As few as there may be: what a password's hash costs is no matter of these tests
password_hash_rounds = 4
[token]
expiration = {lives}
[cache]
backend = dogpile.cache.memory
"""

#: Seconds after which a token is renewed, by keystoneauth1 where it has less than 120 left; and those for which Ironic
#: believes what it was told of one.
RENEWED, CACHED = 12, 5
LIVES = 120 + RENEWED
#: In ironic.conf, in place of a file of passwords
AUTH = """auth_strategy = keystone
[keystone_authtoken]
auth_type = password
auth_url = {url}
www_authenticate_uri = {url}
interface = public
username = {user}
password = {password}
project_name = {project}
user_domain_id = default
project_domain_id = default
service_token_roles_required = true
token_cache_time = {cached}
[oslo_policy]
enforce_scope = true
enforce_new_defaults = true
"""


def missing() -> str:
    """Why no Keystone can be started here; empty where it can."""
    return "" if (VENV / "bin" / "keystone-manage").exists() else f"no Keystone in {VENV}: make setup-rack"


class KeystoneServer:
    """Starts it in a folder of its own, behind a proxy by whose address it names itself, and ends it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.port = free_port()
        self.proxy = Proxy(f"http://127.0.0.1:{self.port}")
        self.url = f"{self.proxy.url}/v3"
        self._process: Optional[subprocess.Popen[str]] = None
        self._admin, self._since = "", 0.0

    def start(self, timeout: float = 90.0) -> None:
        self.home.mkdir(parents=True)
        config = self.home / "keystone.conf"
        config.write_text(CONFIG.format(home=self.home, lives=LIVES), encoding="utf-8")
        argv = [str(VENV / "bin" / "python"), str(PROGRAM), str(config), str(self.port), self.url, ADMIN, ADMIN]
        with open(self.home / "keystone.log", "wb") as log:
            self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=log, stderr=log, text=True)
        assert self._process.stdin is not None
        self._process.stdin.write(f"{PASSWORD}\n")
        self._process.stdin.close()
        self._await(timeout)

    def _await(self, timeout: float) -> None:
        end = time.monotonic() + timeout
        while time.monotonic() < end and self._process is not None and self._process.poll() is None:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/v3", timeout=10):
                    return
            except (OSError, urllib.error.URLError):
                time.sleep(0.25)
        raise RuntimeError((self.home / "keystone.log").read_text(errors="replace")[-3000:])

    @property
    def admin(self) -> str:
        """A token of its admin's, for the whole system."""
        if not self._admin or time.monotonic() - self._since > LIVES / 2:
            self._since = time.monotonic()
            self._admin = self.token(ADMIN, PASSWORD, {"system": {"all": True}})
        return self._admin

    def token(self, user: str, password: str, scope: dict[str, Any]) -> str:
        known = {"name": user, "domain": {"id": "default"}, "password": password}
        identity = {"methods": ["password"], "password": {"user": known}}
        _body, headers = self._asked("POST", "/auth/tokens", {"auth": {"identity": identity, "scope": scope}}, {})
        return str(headers["X-Subject-Token"])

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """As its admin, past the proxy."""
        return self._asked(method, path, body, {"X-Auth-Token": self.admin})[0]

    def _asked(self, method: str, path: str, body: Any, headers: dict[str, str]) -> tuple[Any, Any]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/v3{path}", data=data, method=method)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            request.add_header(name, value)
        with urllib.request.urlopen(request, timeout=30) as answer:
            content = answer.read()
        return (json.loads(content) if content else None), answer.headers

    def project(self, name: str) -> str:
        """A new one; its id."""
        return str(self.ask("POST", "/projects", {"project": {"name": name, "domain_id": "default"}})["project"]["id"])

    def user(self, name: str, password: str, roles: Sequence[str], project: str) -> str:
        """A new one with these roles in this project, or of the whole system without one; its id."""
        made = {"name": name, "password": password, "domain_id": "default"}
        user = str(self.ask("POST", "/users", {"user": made})["user"]["id"])
        ids = {one["name"]: one["id"] for one in self.ask("GET", "/roles")["roles"]}
        where = f"/projects/{project}" if project else "/system"
        for role in roles:
            self.ask("PUT", f"{where}/users/{user}/roles/{ids[role]}")
        return user

    def service(self, kind: str, url: str) -> None:
        """What its catalog says from now on."""
        made = self.ask("POST", "/services", {"service": {"type": kind, "name": kind}})["service"]["id"]
        endpoint = {"service_id": made, "interface": "public", "region_id": "one", "url": url}
        self.ask("POST", "/endpoints", {"endpoint": endpoint})

    def stop(self) -> None:
        self.proxy.close()
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait(timeout=15)


class IronicBehindKeystone(IronicServer):
    """Its own user is in Keystone, and nobody is in a file of its."""

    def __init__(self, home: Path, keystone: KeystoneServer) -> None:
        super().__init__(home)
        self.keystone = keystone

    def prepared(self) -> str:
        self.keystone.user(IRONIC, PASSWORD, (SERVICE,), self.keystone.project(SERVICES))
        return AUTH.format(url=self.keystone.url, user=IRONIC, password=PASSWORD, project=SERVICES, cached=CACHED)

    def login(self) -> dict[str, str]:
        """The admin's of the whole system."""
        return {"X-Auth-Token": self.keystone.admin}
