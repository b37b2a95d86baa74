# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine, its evidence and its keys, for the tests of passports."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._deployment import digest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, FleetError, TrustError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.passport import node_passport
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.specs import NODE_PASSPORT, POLICY_OPTIONS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import utc
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

SCHEMAS = Path(__file__).resolve().parents[1] / "docs" / "reference" / "schemas"
KEY = Ed25519PrivateKey.from_private_bytes(b"k" * 32)
STRANGER = Ed25519PrivateKey.from_private_bytes(b"s" * 32)
PUBLIC = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
UUID = "5ac00000-0000-4000-8000-000000000001"
GPUS = [f"GPU-{number}" for number in range(8)]
BMC = {"serial": "GF0001", "uuid": UUID}
BOOT = "b0000000-0000-4000-8000-000000000001"
MACHINE: dict[str, Any] = {"serial": "GF0001", "system_uuid": UUID, "gpu_uuids": GPUS, "boot_id": BOOT}
IMAGE = {"name": "hpc", "version": "1.4", "sha256": "a" * 64, "manifest_sha256": "b" * 64, "signer": "F" * 40}
POLICY: dict[str, Any] = {name: option.get("default") for name, option in POLICY_OPTIONS.items()}
DEFAULTS = {name: option.get("default") for name, option in NODE_PASSPORT.items()}
DAY = 86400.0
DEPLOY_ID = "7f0c2a0e6f1c4b5f9c1d1f6a9f1e2d3c"
#: What the roles ask.
ASKED: dict[str, dict[str, Any]] = {
    "dcgm_gate": {"level": 3, "tests": ["memory", "software"], "profile": "sha256:p"},
    "kernel_log_gate": {"window": "imaging", "profile": "sha256:p"},
    "image_verify": {"tests": ["image", "kernel"], "image": {"name": "hpc"}},
}


def check(name: str, measured: Any = "x", verdict: str = "pass") -> dict[str, Any]:
    return {
        "id": name, "entity": "node", "measured": measured, "wanted": measured, "unit": "", "source": "s",
        "verdict": verdict,
    }  # fmt: skip


def verdict(number: int, name: str, outcome: str = "pass", *, ago: float = 60.0, **data: Any) -> dict[str, Any]:
    at = time.time() - ago
    checks = [check("something", 1, outcome)]
    data = {"asked": dict(ASKED.get(name, {})), **data}
    if name == "image_verify":
        checks.append(check("clock", [0.0, 0.1]))
        shown = check("deployment", f"kernel command line: {DEPLOY_ID}")
        checks.append({**shown, "wanted": digest(DEPLOY_ID)})
        data = {"image": dict(IMAGE), "identity": {**MACHINE, "gpu_problem": ""}, "mode": "node", **data}
    remedy = "none" if outcome == "pass" else "reboot"
    data = {"after_event": number - 1, "looked_at": at, "remedy": remedy, **data}
    return {
        "id": number,
        "name": name,
        "kind": "verdict",
        "at": at,
        "data": {
            "schema": 1, "gate": name, "verdict": outcome, "checks": checks, "findings": [], "argv": [name],
            "tool": {"name": name, "version": "1"}, "started": utc(at - 1), "ended": utc(at),
            "evidence_digest": "sha256:" + "c" * 64, **data,
        },
    }  # fmt: skip


def evidence(**other: Any) -> dict[str, Any]:
    found = {
        "node": {"id": "n-1", "name": "gpu001"},
        "run": "run-1",
        "controller": "ctl",
        "verdicts": [
            verdict(12, "image_verify"),
            verdict(13, "kernel_log_gate", profile={"sku": "h100", "digest": "sha256:p"}),
            verdict(14, "dcgm_gate", profile={"sku": "h100", "digest": "sha256:p"}),
        ],
        "imaged": {"id": 10, "at": time.time() - 100},
        "deploy_id": DEPLOY_ID,
        "quarantined": None,
        "stored": None,
        "last_event": 14,
    }
    return {**found, **other}


def run(check_mode: bool = False, **params: Any) -> dict[str, Any]:
    ctx = Context(node="gpu001", check_mode=check_mode)
    given = {**DEFAULTS, "policy": POLICY, "identity": MACHINE, "public_keys": [PUBLIC], **params}
    if given["evidence"]:
        known = given["evidence"]
        given["evidence"] = {"history": known["verdicts"], "now": time.time(), **known}
    return node_passport(given, ctx).as_dict(ctx)


def issue(key: str, **params: Any) -> dict[str, Any]:
    return run(**{"state": "issued", "key_path": key, "evidence": evidence(), "bmc_identity": BMC, **params})


def stored(result: dict[str, Any]) -> dict[str, Any]:
    return {"envelope": result["envelope"], "digest": result["passport"]["digest"], "issued": 0.0, "expires": 0.0}


def reasons(kind: type[FleetError] = TrustError, **params: Any) -> str:
    """What speaks against the node's passport."""
    with pytest.raises(kind) as caught:
        run(**params)
    assert caught.value.details["valid"] is False
    for reason in caught.value.details["reasons"]:
        assert reason in str(caught.value)
    return "; ".join(caught.value.details["reasons"])


def settings(**params: Any) -> str:
    """What lies with the site's settings alone: for it no node is quarantined."""
    return reasons(ConfigError, **params)
