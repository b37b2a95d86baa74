# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A passport in a file is held against the profile of the SKU that is named, and where none is, that is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.action.node_passport import ActionModule
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.passport import node_passport
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.specs import NODE_PASSPORT
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._in_force import profile_of
from ansible_collections.gpufleet.baremetal.tests.unit.plugins.doors import Door
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from passports import ASKED, KEY, PUBLIC, evidence, issue, verdict

SKU = "h100-sxm-8"


def document(folder: Path, digest: str) -> str:
    """A passport whose gates were judged by this profile."""
    key = folder / "key.pem"
    key.write_bytes(KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    key.chmod(0o600)
    judged = {"profile": {"sku": "h100", "digest": digest}}
    looks = [
        verdict(13 + at, gate, asked={**ASKED[gate], "profile": digest}, **judged)
        for at, gate in enumerate(("kernel_log_gate", "dcgm_gate"))
    ]
    known = evidence(verdicts=[evidence()["verdicts"][0], *looks])
    path = folder / "p.json"
    path.write_text(json.dumps(issue(str(key), evidence=known)["envelope"]), encoding="utf-8")
    return str(path)


def verified(folder: Path, path: str, *, args: dict[str, Any], **host_vars: Any) -> dict[str, Any]:
    given = {"path": path, "public_keys": [PUBLIC], "fail": False, **args}
    made = {"base": ActionModule, "name": "node_passport", "own_spec": NODE_PASSPORT, "args": given}
    door = Door(folder, node_passport, **made, **host_vars)
    result = door.run()
    assert not door.ledger.exists()  # neither ledger nor node is asked
    return result


@pytest.mark.parametrize("named", ["in the task", "of the host"])
def test_v9_a_document_is_held_against_the_sku_that_is_named(tmp_path: Path, named: str) -> None:
    def of(sku: str) -> dict[str, Any]:
        if named == "in the task":
            return verified(tmp_path, path, args={"sku": sku})
        return verified(tmp_path, path, args={}, gpufleet_sku=sku)

    path = document(tmp_path, "sha256:any")
    other, mistyped = of(SKU), of("h100-sxm-9")
    assert not other["valid"] and other["profile_checked"]
    assert "was judged by another profile: sha256:any" in "; ".join(other["reasons"])
    assert not mistyped["valid"] and not mistyped["profile_checked"]
    assert "policy: which profile is in force is not known" in "; ".join(mistyped["reasons"])
    path = document(tmp_path, profile_of({"sku": SKU}).digest)
    good = of(SKU)
    assert good["valid"] and good["profile_checked"] and not good["machine_checked"]


def test_v9_a_document_that_no_sku_was_named_for_tells_that_no_profile_was_asked(tmp_path: Path) -> None:
    told = verified(tmp_path, document(tmp_path, "sha256:any"), args={})
    assert told["valid"] and told["profile_checked"] is False
    by_digest = verified(tmp_path, str(tmp_path / "p.json"), args={"policy": {"profile_digest": "sha256:" + "a" * 64}})
    assert not by_digest["valid"] and by_digest["profile_checked"]


def test_v9_a_file_with_two_payloads_is_no_passport(tmp_path: Path) -> None:
    """Two readers of one file must not see two statements, as in the recipes that need no collection."""
    path = Path(document(tmp_path, "sha256:any"))
    text = path.read_text(encoding="utf-8")
    assert verified(tmp_path, str(path), args={})["valid"]
    path.write_text('{"payload": "e30=", ' + text[1:], encoding="utf-8")
    told = verified(tmp_path, str(path), args={})
    assert told["failed"] and "a key stands twice in it" in told["msg"]
