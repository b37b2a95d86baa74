# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Would the role gate, and each gate that it runs, take what it is told? PRIVATE to the collection.

A node is deployed before it is judged: what is refused then was an hour of each node.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator, ValidationResult
from ansible.module_utils.parsing.convert_bool import boolean
from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import ALL_GATES, OUTLIERS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut, short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import specs
from ansible_collections.gpufleet.baremetal.plugins.module_utils._outliers.specs import SPEC as OF_OUTLIERS
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._known_names import ROLES
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._preflight import Batch

CHECK = "settings"
OURS = "gpufleet.baremetal."
#: What holds where nobody sets it, as the role's own defaults have it.
DEFAULTS: Mapping[str, Any] = {
    "gate_dcgm_level": 3,
    "gate_gpu_state": True,
    "gate_level": "full",
    "gate_levels": {"smoke": {"dcgm_level": 1, "more": []}, "readmit": {"dcgm_level": 2}},
    "gate_more": {},
}
#: What may stand below gate_phases and gate_levels, as the role has it.
PHASES = ("preparation", "gpu", "nvlink", "fabric", "storage", "end_to_end")
LEVELS: tuple[str, ...] = tuple(ROLES["gate"]["gate_level"]["choices"])
OF_A_LEVEL = ("dcgm_level", "more")
_DCGM = tuple(map(str, ROLES["gate"]["gate_dcgm_level"]["choices"]))
#: What the role takes for no.
_NO = ("false", "no", "off")
#: Those that measure with more than one task: the role hands them these itself.
_OF_THE_ROLE = {"pair_gate": ("after", "nodes")}


def options_of(batch: Batch, host: str, defaults: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What the role is told of this host. A dict as the verbs take it: keys and values, or the same as text."""
    defaults = DEFAULTS if defaults is None else defaults
    given = {name: batch.value(host, name) for name in defaults}
    set_there = {name: value for name, value in given.items() if value is not None}
    kinds = {name: dict(option) for role in ROLES.values() for name, option in role.items() if name in set_there}
    return {**defaults, **ArgumentSpecValidator(kinds).validate(set_there).validated_parameters}


def of_level(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the level asks for: what the site says of it, over the shipped plan."""
    level, plan = options["gate_level"], options["gate_levels"] or {}
    own = plan.get(level)
    return {**DEFAULTS["gate_levels"].get(level, {}), **(own if isinstance(own, Mapping) else {})}


def dcgm_level(options: Mapping[str, Any]) -> int:
    """That of the role's own diagnostics; 0 where it runs none."""
    least = int(options["gate_dcgm_level"])
    return int(of_level(options).get("dcgm_level", least)) if least else 0


def more(options: Mapping[str, Any]) -> dict[str, Any]:
    """Those of gate_more that the level runs."""
    given, level = options["gate_more"] or {}, of_level(options)
    return {name: how for name, how in given.items() if "more" not in level or name in (level["more"] or [])}


def runs(options: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Each gate of ours that reads a profile, with its options; of what a gate would not take nothing is said here."""
    found: dict[str, Mapping[str, Any]] = {"dcgm_gate": {}} if dcgm_level(options) else {}
    if boolean(options["gate_gpu_state"], strict=False):
        found["gpu_state_gate"] = {}
    for name, how in more(options).items():
        gate = str(name).removeprefix(OURS)
        if gate in ALL_GATES:
            found[gate] = how or {}
    checked = {gate: _validated(gate, how) for gate, how in found.items() if isinstance(how, Mapping)}
    return {gate: one.validated_parameters for gate, one in checked.items() if not one.error_messages}


def _validated(gate: str, how: Mapping[str, Any]) -> ValidationResult:
    spec = OF_OUTLIERS if gate == OUTLIERS else getattr(specs, gate.upper(), None)
    if spec is None:  # a gate that is being written has it in its own package
        return ValidationResult(dict(how))
    rules = getattr(specs, f"{gate.upper()}_RULES", {})
    return ArgumentSpecValidator({name: dict(option) for name, option in spec.items()}, **rules).validate(dict(how))


# -- what the role would refuse ------------------------------------------------------------------------------------


def look(batch: Batch) -> None:
    defaults = {**DEFAULTS, "gate_phases": {}}

    def said(host: str) -> dict[str, Any]:
        return options_of(batch, host, defaults)

    for options, hosts in batch.alike(batch.hosts, said).values():
        batch.try_for(hosts, CHECK, _taken, options)


def _taken(options: Mapping[str, Any]) -> None:
    """:raises ConfigError: with all that the role would refuse, and what a gate of ours would."""
    wrong = [*_levels(options), *_phases(options), *_detached(options), *_gates(options)]
    if wrong:
        raise ConfigError(
            f"the role gate would not take what it is told: {'; '.join(wrong)}",
            do="correct gate_levels, gate_phases or gate_more; roles/gate/README.md tells what each may be",
        )


def _levels(options: Mapping[str, Any]) -> Iterator[str]:
    plan, level = options["gate_levels"] or {}, options["gate_level"]
    for name, asks in plan.items():
        if name not in LEVELS:
            yield f"gate_levels names {cut(name, 40)}, and the levels are {', '.join(LEVELS)}"
        elif not isinstance(asks, Mapping):
            yield f"gate_levels says nothing of {name}, wanted are {' and '.join(OF_A_LEVEL)}"
        else:
            yield from _level(name, asks)
    named = of_level(options).get("more") or []
    lacking = sorted(set(named if isinstance(named, list) else []) - set(options["gate_more"] or {}))
    if lacking:
        yield f"the level {level} asks for {', '.join(map(str, lacking))}, and gate_more does not name it"


def _level(name: str, asks: Mapping[str, Any]) -> Iterator[str]:
    strange = _strange(asks, OF_A_LEVEL)
    if strange:
        yield f"gate_levels.{name} has {strange}, which nobody reads, and may have {' and '.join(OF_A_LEVEL)}"
    if not isinstance(asks.get("more") or [], list):
        yield f"gate_levels.{name}.more is {cut(asks['more'], 40)}, wanted is a list of gates"
    if str(asks.get("dcgm_level", 0)) not in _DCGM:
        yield f"gate_levels.{name}.dcgm_level is {cut(asks['dcgm_level'], 40)}, wanted is {_DCGM[0]} to {_DCGM[-1]}"


def _phases(options: Mapping[str, Any]) -> Iterator[str]:
    strange = _strange(options["gate_phases"] or {}, PHASES)
    if strange:
        yield f"gate_phases names {strange}, and the phases are {', '.join(PHASES)}"


def _strange(given: Mapping[str, Any], known: Collection[str]) -> str:
    return ", ".join(cut(name, 40) for name in given if name not in known)


def _detached(options: Mapping[str, Any]) -> Iterator[str]:
    for name, how in (options["gate_more"] or {}).items():
        if isinstance(how, Mapping) and str(how.get("detached", False)).lower() not in _NO:
            yield f"{cut(name, 80)} in gate_more is started with detached, and no task would wait for it"


def _gates(options: Mapping[str, Any]) -> Iterator[str]:
    """By name and options, of our own modules; those of other collections only Ansible can find."""
    for name, how in (options["gate_more"] or {}).items():
        gate = str(name).removeprefix(OURS)
        if gate in (*ALL_GATES, OUTLIERS):
            yield from _options(name, gate, how)
        elif str(name).startswith(OURS):
            yield f"gate_more names {cut(name, 80)}, and the collection has no such gate"


def _options(name: str, gate: str, how: Any) -> Iterator[str]:
    if how is not None and not isinstance(how, Mapping):
        yield f"{name} in gate_more has no options, but {cut(how, 40)}"
        return
    given = {key: value for key, value in (how or {}).items() if key not in _OF_THE_ROLE.get(gate, ())}
    for text in _validated(gate, given).error_messages:
        yield f"{name} in gate_more: {short(text, 200)}"
