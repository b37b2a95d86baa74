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
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, FleetError, WrongMachine
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust import dsse, statement
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.identity import SAME, normal_identity
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import PASS

#: Stands before each part of the node's answer: with a terminal in between, what the login says comes first.
_MARK = "=gpufleet="
_FILES = ("product_serial", "product_uuid")
_PROVE = (
    "prove the machine in this run, before the gates: the role gpufleet.baremetal.baseline with baseline_bmc_identity"
    " (what bmc_info returns as identity)"
)
#: A board that was swapped has another UUID than the passport says; only the BMC can prove that machine.
_SWAPPED = (
    "if the node's board was swapped, prove the machine by its BMC: playbook passports with -e passports_renew=true"
    " -e passports_all=true"
)


@dataclass(frozen=True)
class Known:
    """Who a node is: of each kind whatever counts, of which one is enough."""

    serial: tuple[str, ...] = ()
    system_uuid: tuple[str, ...] = ()
    #: Is it the passport alone that tells the UUID? That was the machine's when it was signed.
    remembered: bool = False


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


def known(ledger: Ledger, node_id: str, inventory: Mapping[str, Any]) -> Known:
    """Who the node is, as far as inventory, ledger and the newest passport tell; the first that tells counts."""
    names = [{row["kind"]: row["value"]} for row in ledger.aliases(node_id)]
    sources = ([inventory], names, [_subject(ledger.passport(node_id))])
    shaped = [[normal_identity(one) for one in source] for source in sources]
    of = {key: [tuple(one[key] for one in source if one[key]) for source in shaped] for key in SAME}
    serial, system_uuid = (next(filter(None, of[key]), ()) for key in ("serial", "system_uuid"))
    return Known(serial, system_uuid, remembered=not any(of["system_uuid"][:-1]))


def _subject(passport: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Whom our own ledger's passport is about."""
    try:
        found = json.loads(dsse.payload_of(passport["envelope"])) if passport else {}
        return statement.identity_of(found) or {}
    except (FleetError, ValueError, AttributeError):
        return {}


def demand(node: str, ours: Known, machine: Mapping[str, Any], *, dry: bool = False) -> None:
    """:param dry: only what contradicts counts.

    :raises WrongMachine: where the machine says that it is another one.

    :raises ConfigError: where it says nothing that the node is known by.
    """
    agrees = _compared(ours, machine)
    what: dict[str, Any] = {"node": node, "wanted": _shown(ours), "seen": _shown(_of(machine))}
    if not agrees and not dry:
        raise ConfigError(
            "the machine that answers is not known to be this node, and no gate runs on it",
            do=f"set gpufleet_serial to the serial that the machine tells as root (dmidecode -s system-serial-number);"
            f" where its board has none, {_PROVE}",
            **what,
        )
    if not all(agrees.values()):
        raise WrongMachine(
            "another machine answers at this node's address, and no gate runs on it",
            do="correct ansible_host, gpufleet_serial or gpufleet_system_uuid in the inventory (nothing was recorded of"
            f" the node); {_SWAPPED}",
            **what,
        )


def _compared(ours: Known, machine: Mapping[str, Any]) -> dict[str, bool]:
    """Of each kind that both tell, whether it agrees."""
    found = {
        key: any(same(one, machine[key]) for one in getattr(ours, key))
        for key, same in SAME.items()
        if getattr(ours, key) and machine[key]
    }
    if ours.remembered and found.get("serial"):
        found.pop("system_uuid", None)
    return found


def _of(machine: Mapping[str, Any]) -> Known:
    serial, system_uuid = (((machine[key],) if machine[key] else ()) for key in ("serial", "system_uuid"))
    return Known(serial, system_uuid)


def contradicted(node: str) -> WrongMachine:
    """This run has asked the BMC, and it did not confirm the machine."""
    return WrongMachine(
        "the machine that answers is not the one that this node's BMC tells, and no gate runs on it",
        node=node,
        wanted="the check machine of image_verify passed in this run",
        seen="it did not pass",
        do="correct ansible_host or gpufleet_bmc_address in the inventory, and run again",
    )


def _shown(identity: Known) -> str:
    return ", ".join(f"{key} {' or '.join(getattr(identity, key)) or '(none)'}" for key in SAME)
