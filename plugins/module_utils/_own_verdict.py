# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a task for all hosts says of one of them, as a task of its own would have told it. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import FLEET, spec
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError

SPEC = spec(
    FLEET,
    of={"type": "dict", "required": True},
    stops={"type": "list", "elements": "str", "default": []},
    refusal={"type": "str", "default": ""},
)
#: By these a result is taken for what a gate or a watcher says of the node itself.
_JUDGES = ("ok", "verdict", "assertion", "error", "kind", "findings", "remedy")
#: Written down already, by the task that did it.
_TOLD = ("events", "asked")


def of_host(told: Any, host: str, name: str) -> dict[str, Any]:
    """The result of this host, out of a registered one: of a task for all, of a watcher, or of a task of its own.

    :raises FleetError: where it says nothing of this host, which is then served no further.
    """
    found = told.get("verdicts", {host: told}).get(host) if isinstance(told, Mapping) else None
    if not isinstance(found, Mapping) or found.get("skipped"):
        raise FleetError(
            f"{name} says nothing of this node",
            node=host,
            wanted=f"a verdict of this node in {name}",
            seen="it was not served" if isinstance(told, Mapping) else f"no result of the name {name}",
            do="see what stopped it before that task, or correct the name; then run again",
        )
    return _as_own(found) if "verdicts" in told else dict(found)


def _as_own(found: Mapping[str, Any]) -> dict[str, Any]:
    """A verdict with a result is a verb's, any other one a watcher's, which is judged by its own words."""
    failed = not found.get("ok")
    told = {**found["result"]} if isinstance(found.get("result"), Mapping) else {**found}
    told.update(failed=failed, changed=bool(found.get("changed")))
    if failed:
        told["msg"] = str(found.get("reason") or "no message")
        # Where nothing could be told of anybody the kind alone says why.
        error = found.get("error") or ({} if told.get("kind") or found.get("result") else {"kind": found.get("kind")})
        told.update({"error": error} if error.get("kind") and "ok" not in told else {})
    return told


def handed_on(told: Mapping[str, Any]) -> dict[str, Any]:
    """Without what is in the ledger already."""
    return {key: value for key, value in told.items() if key not in _TOLD}


def has_failed(told: Mapping[str, Any]) -> bool:
    """What ended with an error has failed, whatever its task calls a failure."""
    return any(told.get(word) for word in ("failed", "unreachable", "error"))


def failure(told: Mapping[str, Any], words: str, *, stops: bool) -> dict[str, Any]:
    """:param stops: it says nothing of the node, whatever its kind: its host stops, and is not quarantined."""
    message = str(told.get("msg") or "failed without a message")
    kept = {key: value for key, value in handed_on(told).items() if not (stops and key in _JUDGES)}
    return {**kept, "failed": True, "msg": f"{words}: {message}" if words else message}
