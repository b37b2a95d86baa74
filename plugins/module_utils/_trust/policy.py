# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The policy by which passports are issued and let pass: a file, a task's option, or the strict default.

PRIVATE to the collection. Format: docs/reference/passport.md.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import ALL_GATES, GATES, OUTLIERS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._checked_file import (
    in_words,
    line_of,
    problems,
    read_checked,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust import dsse
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.question import IMAGING

_WHAT = "a policy"
#: What holds where nobody says otherwise, key by key.
DEFAULTS: Mapping[str, Any] = {
    "required_gates": ["image_verify", *GATES],
    "max_gate_age": 86400,
    "max_lifetime": 7776000,
    "require_gpus": True,
}
#: The least question of each gate, key by key, where a policy does not name the key.
LEAST: Mapping[str, Mapping[str, Any]] = {
    "dcgm_gate": {"level": 3},
    "kernel_log_gate": {"window": IMAGING},
    "soak_gate": {"level": 24},
}
#: The highest level that a gate has: of one that soaks its hours.
_MOST_LEVEL, _MOST_HOURS = 4, 600
#: Gates that have a playbook of their own, which takes days: how many seconds after its end a pass of each is young
#: enough where the policy names no age of its own. As long as a node's verdict of it is taken (DETACHED).
OF_DAYS: Mapping[str, float] = {"soak_gate": 1209600.0}
#: Gates that may be required: all that look at a node. Of what is looked at before it is imaged no passport can have a
#: pass, and a policy may ask something of it all the same.
_OF_NODES = frozenset({*DEFAULTS["required_gates"], *ALL_GATES, OUTLIERS})
_KNOWN = _OF_NODES | {"image_artifact"}


#: What helps where what is asked, and what a policy asks for, are the reason.
DO = (
    "let each gate that the policy requires be run (the role gate: gate_more) and be asked what it asks under gates"
    " (gate_dcgm_level), or let the policy ask no more than that, the same where passports are issued and where they"
    " are verified, then run again"
)


class Setting(str):
    """Why there is no passport, or why one admits nothing, where that lies with what the site has set: no node is at
    fault, and none is admitted. do: what helps there."""

    __slots__ = ("do",)
    do: str

    def __new__(cls, text: str, do: str = DO) -> Setting:
        made = super().__new__(cls, text)
        made.do = do
        return made


def read(path: str, schema: Path) -> dict[str, Any]:
    """A policy's file.

    :raises ConfigError: naming file, line and key.
    """
    place = Path(path).expanduser()
    data = read_checked(place, schema, what=_WHAT, page="docs/reference/passport.md")
    for where, told in _of_no_gate(data):
        raise ConfigError(f"{place}:{line_of(place, where)}: {told}")
    return {**DEFAULTS, **{key: value for key, value in data.items() if key != "schema"}}


def check(policy: Mapping[str, Any], schema: Path) -> None:
    """A policy that the task itself wrote down.

    :raises ConfigError: naming the key.
    """
    given = {"schema": 1, **{key: value for key, value in policy.items() if value is not None}}
    errors = problems(given, schema, _WHAT)
    if errors:
        raise ConfigError("the option policy is none: " + "; ".join(in_words(error, _WHAT) for error in errors[:5]))
    for _where, told in _of_no_gate(given):
        raise ConfigError(f"the option policy is none: {told}")


def fit(policy: Mapping[str, Any], lifetime: int, problem: str, *, node: str) -> None:
    """What the site has set must fit together before a node is judged by it: no machine is at fault there.

    :param problem: why the profile in force is not known; empty where it is.
    :raises ConfigError: where it does not.
    """
    if not 0 < lifetime <= policy["max_lifetime"]:
        raise ConfigError(
            f"policy: a lifetime of {lifetime} s, allowed are {policy['max_lifetime']} s",
            node=node,
            do="set lifetime (passport_lifetime in the roles), or max_lifetime in the policy",
        )
    if problem:
        raise ConfigError(f"policy: {problem}", node=node)


def _of_no_gate(policy: Mapping[str, Any]) -> list[tuple[tuple[str, ...], str]]:
    """Names that are no gate's, with their place: a typing error must be no policy that asks less, nor one that no node
    can meet."""
    asked = sorted({*(policy.get("gates") or {})} - _KNOWN)
    required = sorted({*(policy.get("required_gates") or ())} - _OF_NODES)
    wrong = [(("gates", name), f"gates.{name}: {_not_among(_KNOWN)}") for name in asked]
    wrong += [
        (("gates", name), f"gates.{name}.level: {least['level']} is greater than the maximum of {_MOST_LEVEL}")
        for name, least in sorted((policy.get("gates") or {}).items())
        if name not in OF_DAYS and (least.get("level") or 0) > _MOST_LEVEL
    ]
    return wrong + [(("required_gates",), f"required_gates: {name}: {_not_among(_OF_NODES)}") for name in required]


def _not_among(gates: frozenset[str]) -> str:
    return f"not a gate of the collection ({', '.join(sorted(gates))})"


def least(policy: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The least question of each gate, as this policy has it: what it leaves out of a gate is the strict default."""
    given = policy.get("gates") or {}
    return {name: {**LEAST.get(name, {}), **_said(given.get(name))} for name in sorted({*LEAST, *given})}


def of_passport(stored: Mapping[str, Any] | None) -> dict[str, Any]:
    """What a passport was issued by, as it says itself; the strict default where there is none.

    The site's policy is known to who issues and who verifies; the ledger has what was signed by it.
    """
    predicate = json.loads(dsse.payload_of(stored["envelope"])).get("predicate", {}) if stored else {}
    own = predicate.get("policy") or {}
    profiles = [gate["profile"] for gate in predicate.get("gates") or [] if gate.get("profile")]
    digests = {str(profile["digest"]) for profile in profiles if profile.get("digest")}
    judged = digests.pop() if len(digests) == 1 else ""
    return {"gates": least(own), "profile_digest": own.get("profile_digest") or judged}


def of_nobody(gate: str) -> dict[str, Any]:
    """By it a failure of this gate is answered by its own question only, so that a person who lifts sees each one."""
    return {"gates": {gate: {"level": math.inf}}}


def _said(question: Any) -> dict[str, Any]:
    return {key: value for key, value in (question or {}).items() if value is not None}


def greatest_age(policy: Mapping[str, Any], gate: str, asked: Any = None) -> float:
    """Seconds that the begin of this gate's look may be ago when its passport is issued.

    :param asked: what it was asked, which for a gate of days says how long it took at least.
    """
    own = ((policy.get("gates") or {}).get(gate) or {}).get("max_age")
    allowed = max(OF_DAYS.get(gate, 0.0), policy["max_gate_age"]) if own is None else own
    hours = asked.get("level") if gate in OF_DAYS and isinstance(asked, Mapping) else 0
    took = hours * 3600.0 if isinstance(hours, (int, float)) and 0 < hours <= _MOST_HOURS else 0.0
    return float(allowed) + took


def digest_for(policy: Mapping[str, Any], sku: str) -> str:
    """The digest of the profile that the policy names for this SKU, or for all; empty where it names none."""
    return str((policy.get("profiles") or {}).get(sku) or policy.get("profile_digest") or "")
