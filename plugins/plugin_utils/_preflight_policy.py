# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Can a node meet the policies of its passport, by what the roles run and ask? PRIVATE to the collection.

What they lack together, no node has: it would be found out after hours, at each of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible.module_utils.parsing.convert_bool import boolean
from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import ALL_GATES, GATES, OUTLIERS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust import policy as policies
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.question import weaker
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _preflight_gates as gates
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._in_force import policy_of
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._preflight import Batch

CHECK = "policy"
#: What is read here, and what holds where nobody sets it, as the roles' own defaults have it.
DEFAULTS: Mapping[str, Any] = {
    "passport_policy": {},
    "passport_policy_file": "",
    "passport_lifetime": 7776000,
    "join_policy": {},
    "join_policy_file": "",
    "join_timeout": 300,
    **gates.DEFAULTS,
}


def look(batch: Batch) -> None:
    def said(host: str) -> dict[str, Any]:
        return {**gates.options_of(batch, host, DEFAULTS), "sku": batch.text(host, "gpufleet_sku")}

    for options, hosts in batch.alike(batch.hosts, said).values():
        batch.try_for(hosts, CHECK, _fit, options)


def _fit(options: Mapping[str, Any]) -> None:
    """:raises ConfigError: where a policy is none, or one that no node of this site can meet."""
    wrong: dict[str, list[str]] = {}
    for role in ("passport", "join"):
        file = options[f"{role}_policy_file"]
        given = {"policy": {} if file else options[f"{role}_policy"] or {}, "policy_file": file}
        # Of a missing profile the look at the SKU tells.
        found, _no_profile = policy_of({**given, "sku": options["sku"]})
        policy = {**policies.DEFAULTS, **{name: value for name, value in found.items() if value is not None}}
        where = given["policy_file"] or f"{role}_policy" if any(given.values()) else f"the default, in the role {role}"
        for problem in [*_of_gates(policy, options), *_of_time(policy, role, options)]:
            wrong.setdefault(problem, []).append(str(where))
    if wrong:
        raise ConfigError(
            f"no node of this site can meet the policy of its passport: {'; '.join(wrong)}",
            seen="; ".join(dict.fromkeys(", ".join(places) for places in wrong.values())),
            do="let the role gate run and ask (gate_more, gate_dcgm_level), and passports live, as the policy wants it,"
            " or let the policy want no more than that",
        )


def _of_gates(policy: Mapping[str, Any], options: Mapping[str, Any]) -> list[str]:
    # A soak has a playbook of its own, before which no passport is issued.
    added = set(_added(gates.more(options)))
    own = set(GATES) - (set() if gates.dcgm_level(options) else {"dcgm_gate"})
    runs = {"image_verify", *own, *policies.OF_DAYS, *added}
    runs |= {"gpu_state_gate"} if boolean(options["gate_gpu_state"], strict=False) else set()
    lacking = sorted(set(policy["required_gates"]) - runs)
    wrong = [f"it requires {', '.join(lacking)}, and nothing runs it ({_where(options)})"] if lacking else []
    if "dcgm_gate" not in {*policy["required_gates"]} - {*lacking}:
        return wrong  # what a policy asks of a gate counts where it requires that gate
    least = {"level": policies.least(policy)["dcgm_gate"].get("level") or 0}
    short = weaker({"level": _level(options)}, least)
    return wrong + ([f"it asks dcgm_gate for more than {_told(options)}: {short}"] if short else [])


def _level(options: Mapping[str, Any]) -> int:
    """The strongest that dcgm_gate is asked for, by the role or by what the site adds."""
    added = _added(gates.more(options)).get("dcgm_gate") or {}
    return max(gates.dcgm_level(options), int(added.get("level") or 0))


def _where(options: Mapping[str, Any]) -> str:
    level = f", gate_level {options['gate_level']}" if gates.of_level(options) else ""
    return "gate_more" + level + ("" if int(options["gate_dcgm_level"]) else ", gate_dcgm_level 0")


def _told(options: Mapping[str, Any]) -> str:
    level = options["gate_level"]
    return f"gate_level {level}" if gates.of_level(options).get("dcgm_level") else "gate_dcgm_level"


def _added(more: Mapping[str, Any]) -> dict[str, Any]:
    """Gates of the site by the name under which the ledger has them; in a role of ours a bare name is a gate of ours.

    :raises ConfigError: where it is none of them.
    """
    bare = sorted(str(name) for name in more if str(name).count(".") < 2 and name not in (*ALL_GATES, OUTLIERS))
    if bare:
        raise ConfigError(
            f"gate_more names {', '.join(bare)}, which is no module's full name",
            wanted=f"such as {gates.OURS}gpu_bandwidth_gate",
            do="name each gate by collection and module",
        )
    return {str(name).removeprefix(gates.OURS): given for name, given in more.items()}


def _of_time(policy: Mapping[str, Any], role: str, options: Mapping[str, Any]) -> Sequence[str]:
    lives = int(options["passport_lifetime"])
    if not 0 < lives <= policy["max_lifetime"]:
        return [f"passport_lifetime is {lives} s, allowed are {policy['max_lifetime']} s (max_lifetime)"]
    asked = int(options["join_timeout"])
    late = role == "join" and asked >= lives
    return [f"join_timeout is {asked} s, and a passport lives {lives} s (passport_lifetime)"] if late else []
