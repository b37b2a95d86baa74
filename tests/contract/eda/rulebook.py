# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real ansible-rulebook with a shipped rulebook, the controller that it launches at, and a monitor that speaks."""

from __future__ import annotations

import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Optional

import trustme
import yaml
from awx_server.server import AwxServer

ROOT = Path(__file__).resolve().parents[3]
#: `make setup-eda` puts it there.
PROGRAM = ROOT / "build" / "venv" / "eda" / "bin" / "ansible-rulebook"
TOKEN = "a-token-of-the-monitors"
DCGM_TOKEN = "of-the-watches-alone-0123"
GIT = "https://git.example.com/gpu/fleet.git"


def missing() -> str:
    if shutil.which("java") is None:
        return "needs a Java of 17 or newer for ansible-rulebook: the Debian package default-jre-headless"
    return "" if PROGRAM.exists() else "no ansible-rulebook: make setup-eda installs it"


def controller() -> AwxServer:
    """With the templates that awx_setup makes, as far as an alert launches one."""
    tables = yaml.safe_load((ROOT / "roles" / "awx" / "vars" / "main" / "jobs.yml").read_text(encoding="utf-8"))
    awx = AwxServer({GIT: ROOT / "extensions" / "awx" / "project"})
    organization = awx.store.create("organizations", {"name": "GPU fleet"})["id"]
    project = awx.store.create(
        "projects", {"name": "p", "organization": organization, "scm_type": "git", "scm_url": GIT}
    )
    for key in ("recycle_named", "look_named"):
        one = tables["awx_templates"][key]
        said = {
            "name": f"gpufleet {one['title']}",
            "project": project["id"],
            "playbook": "playbooks/day2_recycle.yml",
            "job_type": one.get("job_type", "run"),
            "limit": "NAME-THE-NODES" if one.get("needs_limit") else "",
            "ask_limit_on_launch": one.get("ask_limit", True),
            # What is said is heard, so that a test sees it.
            "ask_variables_on_launch": True,
        }
        awx.store.create("job_templates", said)
    return awx


def free_port() -> int:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        return int(holder.getsockname()[1])


def rulesets() -> dict[str, list[dict[str, Any]]]:
    """By name, each rulebook that is shipped."""
    folder = ROOT / "extensions" / "eda" / "rulebooks"
    return {path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.yml"))}


def schema() -> Any:
    [path] = PROGRAM.parents[1].glob("lib/*/site-packages/ansible_rulebook/schema/ruleset_schema.json")
    return json.loads(path.read_text(encoding="utf-8"))


class Rulebook:
    """All that are shipped in one process, until :meth:`close`, each at a port of its own. That of Slurm shows a
    certificate.

    :ivar told: what it has written.
    """

    def __init__(self, folder: Path, awx: AwxServer, ledger_url: str, **more: Any) -> None:
        self.token, self.ca, self._log = folder / "token", folder / "ca.pem", folder / "log"
        self.token.write_text(f"{TOKEN}\n", encoding="utf-8")
        authority = trustme.CA()
        authority.cert_pem.write_to_path(str(self.ca))
        authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(folder / "server.pem"))
        told, self._ports = [], {}
        for name, [ruleset] in rulesets().items():
            source = ruleset["sources"][0]["gpufleet.baremetal.health"]
            source["port"] = self._ports[name] = free_port()
            if name == "slurm":
                source.update(certificate_path=str(folder / "server.pem"), key_path=str(folder / "server.pem"))
            told.append(ruleset)
        (folder / "all.yml").write_text(yaml.safe_dump(told), encoding="utf-8")
        self.dcgm_token = folder / "dcgm.token"
        self.dcgm_token.write_text(f"{DCGM_TOKEN}\n", encoding="utf-8")
        tokens = {"gpufleet_token_path": str(self.token), "gpufleet_dcgm_token_path": str(self.dcgm_token)}
        variables = {**tokens, "gpufleet_ledger_url": ledger_url, **more}
        (folder / "vars.yml").write_text(yaml.safe_dump(variables), encoding="utf-8")
        self._ports.update(nvsentinel=self._ports["health_events"], dcgm=self._ports["health_events"])
        self._process = self._started(folder, awx)

    def _started(self, folder: Path, awx: AwxServer) -> subprocess.Popen[bytes]:
        argv = [str(PROGRAM), "--rulebook", "all.yml", "--vars", "vars.yml", "-v"]
        argv += ["--controller-url", awx.url, "--controller-token", awx.token]
        settings = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "build" / "collections"),
            "EDA_JOB_TEMPLATE_REFRESH_DELAY": "0.5",
            "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1",
            # What the tests import is none of its own.
            "PYTHONPATH": "",
        }
        with self._log.open("wb") as log:
            return subprocess.Popen(
                argv, cwd=folder, env={**os.environ, **settings}, stdout=log, stderr=subprocess.STDOUT
            )

    @property
    def told(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    def await_open(self) -> None:
        def listens() -> bool:
            assert self._process.poll() is None, self.told
            return all(self._listens(port) for port in self._ports.values())

        until(listens, lambda: self.told)

    def _listens(self, port: int) -> bool:
        with socket.socket() as trial:
            return trial.connect_ex(("127.0.0.1", port)) == 0

    def url(self, kind: str, scheme: str = "") -> str:
        return f"{scheme or ('https' if kind == 'slurm' else 'http')}://127.0.0.1:{self._ports[kind]}"

    def tell(self, kind: str, document: Any, **how: Any) -> tuple[int, Mapping[str, Any]]:
        return self.send(kind, json.dumps(document).encode(), **how)

    def send(
        self,
        kind: str,
        raw: bytes,
        token: str = TOKEN,
        at: str = "",
        scheme: str = "",
        context: Optional[ssl.SSLContext] = None,
    ) -> tuple[int, Mapping[str, Any]]:
        """:param at: whose port it is sent to."""
        url = f"{self.url(at or kind, scheme)}/{kind}"
        request = urllib.request.Request(url, raw, {"Authorization": f"Bearer {token}"} if token else {})
        context = context or ssl.create_default_context(cafile=self.ca)
        try:
            with urllib.request.urlopen(request, timeout=60, context=context) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as exc:
            told = exc.read()
            return exc.code, json.loads(told) if told.startswith(b"{") else {}

    def close(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(timeout=20)


def until(holds: Callable[[], bool], told: Callable[[], str], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, told()
        time.sleep(0.1)
