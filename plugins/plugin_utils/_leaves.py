# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What leaves an action's door: results, and the options in the ledger. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.redact import (
    as_written,
    known_there,
    shown,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._text import harmless_all

#: What another machine is told of a reason: that there is one. What it is stays at home.
_FORCED = "given on the controller, whose ledger has it"
#: What is said to a provisioner's driver, and what its steps are given there.
_DRIVER, _ARGUMENTS = "driver", "args"
#: Deeper than any result of ours; Ansible itself breaks at what nests much deeper.
_DEEPEST = 60


def forced(params: Mapping[str, Any], *beside: str) -> dict[str, str]:
    """The options of a module elsewhere by which it writes past what it would be refused for.

    beside: those that a reason has filled in.
    """
    given = ("force_reason", *beside) if params.get("force_reason") else ()
    return {name: _FORCED for name in given if params.get(name)}


def with_reason(result: dict[str, Any], params: Mapping[str, Any]) -> dict[str, Any]:
    """What a module elsewhere tells of a reason that it was not told: the ledger gets the person's own words."""
    said = str(params.get("force_reason") or "")
    for event in result.get("events") or ():
        if said and event["data"].get("reason") == _FORCED:
            event["data"] = {**event["data"], "reason": said}
    return result


def located(result: dict[str, Any], node: str) -> dict[str, Any]:
    """A failure that a module tells of names the node: the module itself did not know for whom it ran."""
    error = result.get("error")
    if result.get("failed") and isinstance(error, Mapping) and error.get("what") and not error.get("node"):
        words = {key: error.get(key) for key in ("what", "address", "wanted", "seen", "do")}
        told: dict[str, Any] = {key: text if isinstance(text, str) else "" for key, text in words.items()}
        result.update(msg=str(FleetError(**told, node=node)), error={**error, "node": node})
    return result


def small(params: Mapping[str, Any]) -> dict[str, Any]:
    """The options worth a line in the ledger: those that were given, without the large ones."""
    told: dict[str, Any] = _discreet(params)
    return {
        key: value
        for key, value in told.items()
        if value not in (None, "", [], {}) and key != "ledger_url" and len(str(value)) <= 2000
    }


def _discreet(told: Any) -> Any:
    """What a provisioner's steps are given may be a secret, and is called a value there. Of what is said to its driver
    as text, as of a host of a batch, nobody knows which part of it that is."""
    if isinstance(told, Mapping):
        return {key: _without(value) if key == _DRIVER else _discreet(value) for key, value in told.items()}
    return [_discreet(one) for one in told] if isinstance(told, (list, tuple)) else told


def _without(said: Any) -> Any:
    return "given as text" if isinstance(said, str) and said else _without_arguments(said)


def _without_arguments(told: Any) -> Any:
    if isinstance(told, Mapping):
        return {key: _without_arguments(value) for key, value in told.items() if key != _ARGUMENTS}
    return [_without_arguments(one) for one in told] if isinstance(told, (list, tuple)) else told


def redact_known(result: dict[str, Any], secrets: frozenset[str]) -> dict[str, Any]:
    """Mask known secrets and logins of any kind wherever a peer echoed one, and spell out what a terminal acts on.

    No key is masked: results are documented.
    """

    def clean(value: Any, known: frozenset[str], left: int) -> Any:
        if not left and isinstance(value, (dict, list, tuple)):
            return "nested too deep to be shown"
        if isinstance(value, dict):
            items = ((str(key), harmless_all(key), item) for key, item in value.items())
            return {
                spelled: as_written(key, item) or clean(item, known_there(key, item, known), left - 1)
                for key, spelled, item in items
            }
        if isinstance(value, (list, tuple)):
            return [clean(item, known, left - 1) for item in value]
        return shown(value, known) if isinstance(value, str) else value

    cleaned: dict[str, Any] = clean(result, secrets, _DEEPEST)
    return cleaned
