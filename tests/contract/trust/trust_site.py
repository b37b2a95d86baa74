# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A controller with a ledger and a passport key, and what its plays ask: for the tests through ansible-playbook."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._in_force import profile_of
from ansible_collections.gpufleet.baremetal.tests.contract.action.gates_have_looked import looked
from suite import playbook

CHECKOUT = Path(__file__).resolve().parents[3]
PLAYBOOK = Path(sys.executable).with_name("ansible-playbook")
VERDICT = {
    "schema": 1,
    "verdict": "pass",
    "checks": [
        {"id": "x", "entity": "node", "measured": 1, "wanted": 1, "unit": "", "source": "s", "verdict": "pass"},
    ],
    "findings": [],
    "tool": {"name": "x", "version": "1"},
    "argv": [],
    "started": "2026-01-01T00:00:00Z",
    "ended": "2026-01-01T00:00:00Z",
    "evidence_digest": "sha256:" + "c" * 64,
}
SKU = "h100-sxm-8"
PROFILE = profile_of({"sku": SKU}).digest
#: What the roles ask of both gates.
QUESTION = {"level": 3, "tests": ["memory", "software"], "window": "imaging", "profile": PROFILE}


class Site:
    """A controller with a ledger and a passport key; nodes gpu001 and gpu002 are machines in folders."""

    def __init__(self, folder: Path, temporary: Path, image: Any, machines: Mapping[str, Any]) -> None:
        self.folder = folder
        self.temporary = temporary
        self.url = f"sqlite:///{folder}/ledger.sqlite"
        self.key, self.public = folder / "key.pem", folder / "key.pub"
        for argv in (
            ["openssl", "genpkey", "-algorithm", "ed25519", "-out", str(self.key)],
            ["openssl", "pkey", "-in", str(self.key), "-pubout", "-out", str(self.public)],
        ):
            subprocess.run(argv, check=True, capture_output=True)
        hosts = {
            name: {
                "gpufleet_serial": machine.serial,
                "node_paths": machine.options(),
                "bmc": {"serial": machine.serial, "uuid": machine.uuid.upper()},
            }
            for name, machine in machines.items()
        }
        inventory = {
            "all": {
                "hosts": {**hosts, "jump": {"ansible_connection": "elsewhere"}},
                "vars": {
                    "ansible_connection": "local",
                    "ansible_python_interpreter": sys.executable,
                    "gpufleet_ledger_url": self.url,
                    "gpufleet_image": image.declared(),
                    "gpufleet_sku": SKU,
                    "gpufleet_passport_key_path": str(self.key),
                    "gpufleet_passport_public_keys": [str(self.public)],
                },
            }
        }
        (folder / "hosts.yml").write_text(yaml.safe_dump(inventory), encoding="utf-8")

    def play(self, *tasks: Mapping[str, Any], limit: str = "gpu001", check: bool = False) -> list[dict[str, Any]]:
        named = [{"name": f"task {number}", "ignore_errors": True, **task} for number, task in enumerate(tasks)]
        book = [{"name": "test", "hosts": "all", "gather_facts": False, "tasks": named}]
        (self.folder / "play.yml").write_text(yaml.safe_dump(book), encoding="utf-8")
        flags = ("--diff", "-vvv", *(["--check"] if check else []))
        output = self.book(str(self.folder / "play.yml"), *flags, limit=limit)
        results = [json.loads(line[7:]) for line in output.splitlines() if line.startswith("RESULT ")]
        assert len(results) >= len(tasks), self.said[-4000:]
        return results

    def book(self, name: str, *flags: str, limit: str = "gpu001") -> str:
        """A playbook over this site; what it printed."""
        here = Path(__file__)
        env = {
            **os.environ,
            "ANSIBLE_COLLECTIONS_PATH": str(CHECKOUT / "build" / "collections"),
            "ANSIBLE_STDOUT_CALLBACK": "trust_json",
            "ANSIBLE_ACTION_PLUGINS": str(here.parents[1] / "action"),
            "ANSIBLE_CALLBACK_PLUGINS": str(here.with_name("callback")),
            "ANSIBLE_CONNECTION_PLUGINS": str(here.with_name("connection")),
            "ANSIBLE_LOCAL_TEMP": str(self.temporary / "home"),
            "PYTHONPATH": os.pathsep.join(sys.path),
            "TMPDIR": str(self.temporary),
            "REQUESTS_CA_BUNDLE": "/nonexistent",
        }
        done = playbook.run(["-i", str(self.folder / "hosts.yml"), "--limit", limit, name, *flags], env=env)
        self.said = done.stdout + done.stderr
        return str(done.stdout)

    def result(self, task: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        [told] = self.play(task, **more)
        return {**told["result"], "failed": told["outcome"] == "failed"}

    def events(self) -> list[tuple[str, str]]:
        path = self.folder / "ledger.sqlite"
        if not path.exists():
            return []
        return list(sqlite3.connect(path).execute("SELECT kind, name FROM events ORDER BY id"))

    def gates(
        self, *names: str, serial: str = "GF0001", verdict: str = "pass", silent: bool = False, **asked: Any
    ) -> None:
        """silent: as a release wrote them that did not say what was asked."""
        looked(**self._looks(*names, serial=serial, verdict=verdict, silent=silent, **asked))

    def looks(self, *names: str) -> dict[str, Any]:
        """The same as a task among others: a gate counts that looked after image_verify."""
        return {"gates_have_looked": self._looks(*names, serial="GF0001", verdict="pass", silent=False)}

    def _looks(self, *names: str, serial: str, verdict: str, silent: bool, **asked: Any) -> dict[str, Any]:
        judged = {"profile": {"sku": SKU, "digest": PROFILE}, "asked": {**QUESTION, **asked}}
        told = {key: value for key, value in judged.items() if not (silent and key == "asked")}
        return {
            "url": self.url,
            "serial": serial,
            "verdict": {**VERDICT, "verdict": verdict, **told},
            "names": [*names],
        }


ARTIFACT: dict[str, Any] = {"gpufleet.baremetal.image_verify": {"mode": "artifact"}}
NODE: dict[str, Any] = {"gpufleet.baremetal.image_verify": {"mode": "node"}, "args": "{{ node_paths }}"}
EVENT = "gpufleet.baremetal.ledger_event"
#: A deployment as the roles have it: it begins, reaches the node with its id, and is seen there.
IMAGED: list[dict[str, Any]] = [
    {EVENT: {"state": "enrolled"}},
    {EVENT: {"state": "imaging"}, "register": "begun"},
    {
        "ansible.builtin.copy": {
            "content": "gpufleet.deploy={{ begun.deploy_id }}",
            "dest": "{{ node_paths.cmdline_path }}",
        }
    },
    {EVENT: {"state": "validating"}},
    {**NODE, "gpufleet.baremetal.image_verify": {"mode": "node", "deploy_id": "{{ begun.deploy_id }}"}},
]
ASKED = {"nvidia_smi": "{{ node_paths.nvidia_smi }}", "dmi_path": "{{ node_paths.dmi_path }}"}
LOOK = {**ASKED, "boot_id_path": "{{ node_paths.boot_id_path }}", "same_boot": True, "bmc_identity": None}


def passport(state: str, **options: Any) -> dict[str, Any]:
    given = {"state": state, "bmc_identity": "{{ bmc }}", **ASKED, **options}
    return {"gpufleet.baremetal.node_passport": {key: value for key, value in given.items() if value is not None}}
