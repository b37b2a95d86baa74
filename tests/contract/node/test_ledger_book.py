# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook ``ledger`` and its module ``ledger_store``, as a person calls them."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust import dsse
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.passport import digest_of
from passports import KEY, PUBLIC, STRANGER
from suite import playbook

pytestmark = pytest.mark.slow

CHECKOUT = Path(__file__).resolve().parents[3]


class Site:
    def __init__(self, folder: Path) -> None:
        self.folder, self.url = folder, f"sqlite:///{folder}/l.sqlite"
        with Ledger(self.url) as ledger:
            self.node = ledger.identify("gpu001", aliases=[("serial", "S1")])
        self.passport(KEY)
        shared = {"gpufleet_ledger_url": self.url, "gpufleet_passport_public_keys": [PUBLIC]}
        hosts = {"all": {"hosts": {"gpu001": {}, "gpu002": {}}, "vars": shared}}
        (folder / "hosts.yml").write_text(yaml.safe_dump(hosts))

    def passport(self, key: object, *, digest: str = "", expires: float = 2e9) -> None:
        envelope = dsse.sign({"subject": []}, key)
        with Ledger(self.url) as ledger:
            ledger.save_passport(
                "r",
                self.node,
                issued=time.time(),
                expires=expires,
                digest=digest or digest_of(envelope),
                envelope=envelope,
            )

    def book(self, *flags: str, ok: bool = True, **extra: str) -> str:
        env = {
            **{key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")},
            "ANSIBLE_COLLECTIONS_PATH": str(CHECKOUT / "build" / "collections"),
            "ANSIBLE_LOCAL_TEMP": str(self.folder / "home"),
        }
        file = str(CHECKOUT / "playbooks" / "ledger.yml")
        done = playbook.run(["-i", "hosts.yml", file, "-e", json.dumps(extra), *flags], cwd=self.folder, env=env)
        output = done.stdout + done.stderr
        assert (done.returncode == 0) == ok, output
        return " ".join(output.replace("\\n", " ").split())


def test_c10_a_ledger_is_backed_up_verified_and_restored_by_its_playbook(tmp_path: Path) -> None:
    site, backup = Site(tmp_path), str(tmp_path / "b.sqlite")
    assert '"nodes": 1' in site.book(ledger="backup", ledger_path=backup)
    told = site.book(ledger="restore", ledger_path=backup, ok=False)
    assert "there is a ledger already" in told and "ledger_force_reason" in told and site.url in told, told
    site.passport(KEY, digest="sha256:another")
    site.passport(STRANGER)
    told = site.book(ok=False)
    assert "1 passports: it is another one than its digest says, the first is number 2" in told, told
    assert "1 passports: signed by an unknown key" in told and "the first is number 3" in told, told
    site.book(ledger="restore", ledger_path=backup, ledger_force_reason="tampered, ticket 4711")
    assert "nodes" in site.book()


def test_c10_passports_of_a_key_that_was_taken_away_are_no_fault_of_a_ledger(tmp_path: Path) -> None:
    """Of each node the newest one must be of a known key, until it ends; a backup is restored in any case."""
    site = Site(tmp_path)
    site.passport(STRANGER)
    site.passport(KEY)
    assert "verify" in site.book(), "one that was renewed since"
    site.passport(STRANGER)
    told = site.book(ok=False)
    assert "1 passports: signed by an unknown key" in told and "the first is number 4" in told, told
    site.book(ledger="backup", ledger_path=f"{tmp_path}/b.sqlite")
    told = site.book(ledger="restore", ledger_path=f"{tmp_path}/b.sqlite", ledger_force_reason="the disk died")
    assert "1 passports: signed by an unknown key" in told and "before-" in told, told
    site.passport(STRANGER, expires=time.time() - 1)
    assert "verify" in site.book(), "one that has ended"


def test_c10_what_the_playbook_is_not_told_it_asks_for(tmp_path: Path) -> None:
    assert "-e ledger_path=FILE" in Site(tmp_path).book(ledger="backup", ok=False)
