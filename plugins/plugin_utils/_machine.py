# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Is the machine that answers over SSH the node? Asked before a gate says anything in its name. PRIVATE.

A wrong ``ansible_host`` leads to a neighbour: healthy, reachable, with other people's jobs on its GPUs. What proves the
machine is its BMC, in this run (the check ``machine`` of image_verify). Where nobody has asked that, what the machine
says of itself is held against what is known of the node.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, FleetError, WrongMachine
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust import dsse, statement
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.identity import normal_identity, same_uuid
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import PASS

#: Stands before each part of the node's answer: with a terminal in between, what the login says comes first.
_MARK = "=gpufleet="
_FILES = ("product_serial", "product_uuid")
#: By what a machine is told from another, and how two spellings of it are compared.
_SAME: dict[str, Callable[[str, str], bool]] = {
    "serial": lambda one, other: one.casefold() == other.casefold(),
    "system_uuid": same_uuid,
}
_PROVE = (
    "prove the machine in this run, before the gates: the role gpufleet.baremetal.baseline with baseline_bmc_identity"
    " (what bmc_info returns as identity)"
)


def question(folder: str) -> str:
    """The command that makes a machine say who it is; only root may read its serial."""
    return "; ".join(f"echo {_MARK}; cat {shlex.quote(f'{folder}/{name}')} 2>/dev/null; echo" for name in _FILES)


def told(stdout: str) -> dict[str, Any]:
    """The identity in the answer, in its one shape; placeholders are nothing."""
    parts = [part.strip() for part in stdout.replace("\r", "").split(f"{_MARK}\n")[1:]]
    whole = len(parts) == len(_FILES)
    return normal_identity({"serial": parts[0], "system_uuid": parts[1]} if whole else {})


def proven(ledger: Ledger, node_id: str, run_id: str) -> bool | None:
    """Has this run's newest look held the machine that answers against the BMC? None where it did not look.

    What another run has proven says nothing of the address that this one goes to.
    """
    event = ledger.latest([node_id], "verdict", ["image_verify"]).get(node_id)
    if event is None or event["run_id"] != run_id:
        return None
    cells = [check for check in event["data"].get("checks") or [] if check.get("id") == "machine"]
    return all(check.get("verdict") == PASS for check in cells) if cells else None


def known(ledger: Ledger, node_id: str, inventory: Mapping[str, Any]) -> dict[str, Any]:
    """Who the node is, as far as inventory, ledger and the newest passport tell; the first that tells counts."""
    names = {row["kind"]: row["value"] for row in ledger.aliases(node_id)}
    sources = [normal_identity(one) for one in (inventory, names, _subject(ledger.passport(node_id)))]
    return {key: next((one[key] for one in sources if one[key]), "") for key in _SAME}


def _subject(passport: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Whom our own ledger's passport is about."""
    try:
        found = json.loads(dsse.payload_of(passport["envelope"])) if passport else {}
        return statement.identity_of(found) or {}
    except (FleetError, ValueError, AttributeError):
        return {}


def demand(node: str, ours: Mapping[str, Any], machine: Mapping[str, Any], *, dry: bool = False) -> None:
    """:param dry: only what contradicts counts.

    :raises WrongMachine: where the machine says that it is another one.

    :raises ConfigError: where it says nothing that the node is known by.
    """
    common = [key for key in _SAME if ours[key] and machine[key]]
    what: dict[str, Any] = {"node": node, "wanted": _shown(ours), "seen": _shown(machine)}
    if not common and not dry:
        raise ConfigError(
            "the machine that answers is not known to be this node, and no gate runs on it",
            do=f"set gpufleet_serial to the serial that the machine tells as root (dmidecode -s system-serial-number);"
            f" where its board has none, {_PROVE}",
            **what,
        )
    if not all(_SAME[key](ours[key], machine[key]) for key in common):
        raise WrongMachine(
            "another machine answers at this node's address, and no gate runs on it",
            do="correct ansible_host or gpufleet_serial in the inventory; nothing was recorded of the node",
            **what,
        )


def contradicted(node: str) -> WrongMachine:
    """This run has asked the BMC, and it did not confirm the machine."""
    return WrongMachine(
        "the machine that answers is not the one that this node's BMC tells, and no gate runs on it",
        node=node,
        wanted="the check machine of image_verify passed in this run",
        seen="it did not pass",
        do="correct ansible_host or gpufleet_bmc_address in the inventory, and run again",
    )


def _shown(identity: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {identity[key] or '(none)'}" for key in _SAME)
