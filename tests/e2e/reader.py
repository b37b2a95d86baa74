# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A reader whose site is the built-in rack: the built artifact, the README's files, and its commands as printed.

Of what a file of the README says nothing is changed but what is the site's own: addresses, names and logins, and the
image. What the rack needs beside that (its SSH, its paces) stands in a file of the group of its rack, as a site has it.
"""

from __future__ import annotations

import csv
import io
import shlex
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import lab
import listed
import yaml
from contract.docs.blocks import ON_THE_RACK, README, blocks
from contract.docs.declared import artifact

FLEET, SERVERS, _IRONIC, ALL, _EXPORT, COMMANDS = range(3, 9)
#: Columns of the README's list by what the rack's own list calls them.
_CALLED = {"ip": "primary_ip"}
_TYPED = "ansible-playbook "


def commands(page: str, number: int) -> list[str]:
    """What the page prints to be typed, line by line; only what is run on the rack."""
    assert (page, number) in ON_THE_RACK
    return [line for line in blocks(page)[number].commands.splitlines() if line.startswith(_TYPED)]


class Reader:
    """A folder with the README's three files, and a home in which the collection is installed."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._home = folder / "fleet", folder / "home"
        for one in (self.folder / "group_vars", self._home):
            one.mkdir(parents=True)
        word = (lab.RACK / "secrets" / "ironic_password").read_text(encoding="utf-8").strip()
        self._env = {
            "HOME": str(self._home),
            "ANSIBLE_HOME": str(self._home / ".ansible"),
            "ANSIBLE_COLLECTIONS_PATH": str(self._home / ".ansible" / "collections"),
            "BMC_PASSWORD": (lab.RACK / "secrets" / "bmc_password").read_text(encoding="utf-8").strip(),
            "IRONIC_PASSWORD": word,
        }
        self._installs(shutil.copy(artifact(folder), self.folder))
        self._writes()

    def _installs(self, _artifact: str) -> None:
        """By the README's own command."""
        line = blocks(README)[2].commands.splitlines()[0]
        env = _readers_own({**lab.clean_env(), **self._env, "PATH": listed.path()})
        told = subprocess.run(shlex.split(line), cwd=self.folder, env=env, capture_output=True, text=True, check=False)
        assert told.returncode == 0 and "was installed successfully" in told.stdout, told.stdout + told.stderr

    def _writes(self) -> None:
        block = blocks(README)
        assert [block[at].file for at in (FLEET, SERVERS, ALL)] == ["fleet.yml", "servers.csv", "group_vars/all.yml"]
        (self.folder / "fleet.yml").write_text(block[FLEET].text, encoding="utf-8")
        (self.folder / "servers.csv").write_text(_servers(block[SERVERS].text), encoding="utf-8")
        rack = yaml.safe_load((lab.RACK / "inventory" / "group_vars" / "all.yml").read_text(encoding="utf-8"))
        told = yaml.safe_load(block[ALL].text)
        (self.folder / "group_vars" / "all.yml").write_text(yaml.safe_dump(_site(told, rack)), encoding="utf-8")
        own = {name: value for name, value in rack.items() if name not in told}
        (self.folder / "group_vars" / "rack12.yml").write_text(yaml.safe_dump(own), encoding="utf-8")

    def types(self, line: str, env: dict[str, str] | None = None) -> lab.Run:
        """One of the printed commands, in the folder."""
        words, begun = shlex.split(line), time.monotonic()
        assert words[0] == _TYPED.strip(), line
        own = {**self._env, **(env or {})}
        _argv, settings, _label = lab._asked(words[1].rpartition(".")[2], (), "inventory", "", own, "")
        done = listed.run(words[1:], _readers_own(settings), self.folder, lab.LIMIT_SECONDS)
        return lab._ended(done.returncode, done.stderr + done.stdout, begun, settings)


def _readers_own(settings: dict[str, str]) -> dict[str, str]:
    """A reader has no checkout on Python's path, where ansible-galaxy would find the collection installed already."""
    return {name: value for name, value in settings.items() if name != "PYTHONPATH"}


def _servers(printed: str) -> str:
    """The list with its columns; the rows are the rack's servers, in the first row's rack."""
    [head, example] = list(csv.reader(io.StringIO(printed)))[:2]
    first = dict(zip(head, example, strict=True))
    own = (lab.RACK / "servers.csv").read_text(encoding="utf-8").splitlines()
    out = io.StringIO()
    rows = csv.DictWriter(out, head, lineterminator="\n")
    rows.writeheader()
    for server in csv.DictReader(line for line in own if not line.startswith("#")):
        mine = {name: server[_CALLED.get(name, name)] for name in head}
        rows.writerow({**mine, "rack": first["rack"], "bmc_password_ref": first["bmc_password_ref"]})
    return out.getvalue()


def _site(told: dict[str, Any], rack: dict[str, Any]) -> dict[str, Any]:
    """What the README's file says, with the site's own places, users and image."""
    places = {name: value for name, value in rack.items() if name in told and not _is_looked_up(told[name])}
    ca_path = str(lab.RACK / "tls" / "ca.pem")
    paths = {"gpufleet_bmc_username": "admin", "gpufleet_bmc_ca_path": ca_path, "gpufleet_provisioner_ca_path": ca_path}
    return {**told, **places, **paths}


def _is_looked_up(value: Any) -> bool:
    """A secret out of the environment stays one, and so does what is made of the host's name."""
    return isinstance(value, str) and "{{" in value
