# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An inventory on which nothing is wrong, and what a preflight tells of it, in this process or through a playbook."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._causes import grouped, lines_of
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._preflight import Batch
from contract.trust.conftest import Image
from suite import playbook

CHECKOUT = Path(__file__).resolve().parents[3]
CALLBACKS = CHECKOUT / "tests" / "contract" / "scheduler" / "callback"


class SoundSite:
    """gpu001 and so on. ``shared`` is for all of them, ``hosts`` for each."""

    def __init__(self, folder: Path, image: Image, count: int = 3) -> None:
        self.folder = folder
        self.key, self.public = folder / "key.pem", folder / "key.pub"
        for argv in (
            ["openssl", "genpkey", "-algorithm", "ed25519", "-out", str(self.key)],
            ["openssl", "pkey", "-in", str(self.key), "-pubout", "-out", str(self.public)],
        ):
            subprocess.run(argv, check=True, capture_output=True)
        self.key.chmod(0o600)
        self.image = image
        self.hosts: dict[str, dict[str, Any]] = {}
        self.grow(count)
        self.shared: dict[str, Any] = {
            "gpufleet_ledger_url": f"sqlite:///{folder}/ledger.sqlite",
            "gpufleet_provisioner": "ironic", "gpufleet_provisioner_url": "http://127.0.0.1:9",
            "gpufleet_scheduler": "none", "gpufleet_sku": "h100-sxm-8", "gpufleet_image": image.declared(),
            "gpufleet_bmc_username": "admin", "gpufleet_bmc_password": "of-the-bmc",
            "ansible_host_key_checking": False,
            "gpufleet_passport_key_path": str(self.key), "gpufleet_passport_public_keys": [str(self.public)],
        }  # fmt: skip
        #: As variables were written whose values are no template's here.
        self.written: dict[str, str] = {}
        self.output = ""

    def grow(self, count: int) -> None:
        for number in range(1, count + 1):
            self.hosts[f"gpu{number:03}"] = {
                "gpufleet_serial": f"SN{number:04}", "gpufleet_boot_mac": f"7c:c2:55:00:00:{number:02x}",
                "gpufleet_bmc_address": f"https://127.0.1.{number}:9",
            }  # fmt: skip

    def batch(self, threads: int = 8, record: Any = None) -> Batch:
        """As an action makes it, over these variables. What is an exception cannot be read."""

        def variable(name: str, host: str) -> Any:
            value = {**self.shared, **self.hosts[host]}.get(name)
            if isinstance(value, Exception):
                raise ConfigError(f"its {name} cannot be read", node=host) from value
            return value

        def names(host: str) -> Collection[str]:
            return {**self.shared, **self.hosts[host]}.keys()

        return Batch(list(self.hosts), variable, names, threads, record, lambda host, name: self.written.get(name))

    def told(self, *looks: Callable[[Batch], None]) -> list[dict[str, Any]]:
        """The causes that these looks find."""
        batch = self.batch()
        for look in looks:
            look(batch)
        return grouped(batch.found, batch.own())

    def lines(self, *looks: Callable[[Batch], None]) -> list[str]:
        return lines_of("Preflight", self.told(*looks), list(self.hosts))

    def book(self, *flags: str, ok: bool, skip: Sequence[str] = ()) -> dict[str, Any]:
        """What the first task of the shipped playbook returned; ``output`` is what it printed.

        :param skip: looks that are left out, since nobody plays their peers.
        """
        return next(one for one in self.results("preflight", *flags, ok=ok, skip=skip) if "findings" in one)

    def results(self, name: str, *flags: str, ok: bool, skip: Sequence[str] = ()) -> list[dict[str, Any]]:
        """What the tasks of a shipped playbook returned."""
        plays = yaml.safe_load((CHECKOUT / "playbooks" / f"{name}.yml").read_text(encoding="utf-8"))
        for play in plays:
            play["module_defaults"] = {"gpufleet.baremetal.preflight": {"skip": list(skip)}}
        (self.folder / "plays.yml").write_text(yaml.safe_dump(plays, sort_keys=False), encoding="utf-8")
        self.folder.joinpath("hosts.yml").write_text(
            yaml.safe_dump({"all": {"hosts": self.hosts, "vars": self.shared}}), encoding="utf-8"
        )
        environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("ANSIBLE_", "SLURM_"))},
            "PATH": f"{self.folder / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "ANSIBLE_COLLECTIONS_PATH": str(CHECKOUT / "build" / "collections"),
            "ANSIBLE_STDOUT_CALLBACK": "gpufleet_json", "ANSIBLE_CALLBACK_PLUGINS": str(CALLBACKS),
            "ANSIBLE_LOCAL_TEMP": str(self.folder / "home"), "XDG_STATE_HOME": str(self.folder / "state"),
        }  # fmt: skip
        done = playbook.run(["-i", "hosts.yml", "plays.yml", *flags], cwd=self.folder, env=environment)
        self.output = done.stdout + done.stderr
        assert (done.returncode == 0) == ok, self.output[-6000:]
        return [json.loads(line[7:])["result"] for line in done.stdout.splitlines() if line.startswith("RESULT ")]
