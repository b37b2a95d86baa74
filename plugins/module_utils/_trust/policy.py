# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The policy by which passports are issued and let pass: a file, a task's option, or the strict default.

PRIVATE to the collection. Format: docs/reference/passport.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import GATES
from ansible_collections.gpufleet.baremetal.plugins.module_utils._checked_file import in_words, problems, read_checked
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.question import IMAGING

_WHAT = "a policy"
#: What holds where nobody says otherwise, key by key.
DEFAULTS: Mapping[str, Any] = {
    "required_gates": ["image_verify", *GATES],
    "max_gate_age": 86400,
    "max_lifetime": 7776000,
    "require_gpus": True,
}
#: The least question of each gate, where a policy does not name the gate.
LEAST: Mapping[str, Mapping[str, Any]] = {
    "dcgm_gate": {"level": 3},
    "kernel_log_gate": {"window": IMAGING},
}


def read(path: str, schema: Path) -> dict[str, Any]:
    """A policy's file.

    :raises ConfigError: naming file, line and key.
    """
    data = read_checked(Path(path).expanduser(), schema, what=_WHAT, page="docs/reference/passport.md")
    return {**DEFAULTS, **{key: value for key, value in data.items() if key != "schema"}}


def check(policy: Mapping[str, Any], schema: Path) -> None:
    """A policy that the task itself wrote down.

    :raises ConfigError: naming the key.
    """
    given = {"schema": 1, **{key: value for key, value in policy.items() if value is not None}}
    errors = problems(given, schema, _WHAT)
    if errors:
        raise ConfigError("the option policy is none: " + "; ".join(in_words(error, _WHAT) for error in errors[:5]))


def least(policy: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The least question of each gate, as this policy has it."""
    return {**LEAST, **(policy.get("gates") or {})}


def greatest_age(policy: Mapping[str, Any], gate: str) -> float:
    """Seconds that a look of this gate may be ago when its passport is issued."""
    own = ((policy.get("gates") or {}).get(gate) or {}).get("max_age")
    return float(policy["max_gate_age"] if own is None else own)


def digest_for(policy: Mapping[str, Any], sku: str) -> str:
    """The digest of the profile that the policy names for this SKU, or for all; empty where it names none."""
    return str((policy.get("profiles") or {}).get(sku) or policy.get("profile_digest") or "")
