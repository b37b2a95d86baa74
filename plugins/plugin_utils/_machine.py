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
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._serial import same_uuid
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust import dsse, statement
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.identity import (
    SAME,
    another,
    disagreements,
    normal_identity,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import PASS

#: Stands before each part of the node's answer: with a terminal in between, what the login says comes first.
_MARK = "=gpufleet="
_FILES = ("product_serial", "product_uuid")
_PROVE = (
    "prove the machine in this run, before the gates: the role gpufleet.baremetal.baseline with baseline_bmc_identity"
    " (what bmc_info returns as identity)"
)
#: By what the inventory names a machine that tells something of itself.
_NAME = (
    "set gpufleet_serial to the serial that the machine tells as root (dmidecode -s system-serial-number), or where its"
    " board has none gpufleet_system_uuid (dmidecode -s system-uuid)"
)
_BECOME = "run the gate as root: become, by a login that may (sudo)"
_MUTE = (
    "no gate can run on a machine whose firmware tells neither serial nor UUID, or what all boards of its kind tell:"
    " have one of them set with the vendor's tool"
)
#: A board that was swapped has another UUID than the passport says; only the BMC can prove that machine.
_SWAPPED = (
    "if the node's board was swapped, prove the machine by its BMC: playbook passports with --limit and the name of"
    " this node, -e passports_renew=true and -e passports_all=true"
)


@dataclass(frozen=True)
class Known:
    """Who a node is: of each kind whatever counts, of which one is enough."""

    serial: tuple[str, ...] = ()
    system_uuid: tuple[str, ...] = ()
    #: Is it the passport alone that tells the UUID, and not the serial? That was the machine's when it was signed; and
    #: a serial that the passport alone tells may be that of a whole chassis.
    remembered: bool = False


def question(folder: str) -> str:
    """The command that makes a machine say who it is; only root may read that, and as whom we asked it says as well."""
    files = {name: shlex.quote(f"{folder}/{name}") for name in _FILES}
    reads = [f"cat {path} 2>/dev/null; echo" for path in files.values()]
    kept = [f"if test -e {path} && ! test -r {path}; then echo {name}; fi" for name, path in files.items()]
    return "; ".join(f"echo {_MARK}; {one}" for one in (*reads, "; ".join(["id -u", *kept])))


def told(stdout: str, stderr: str = "") -> dict[str, Any]:
    """The identity in the answer, in its one shape; placeholders are nothing.

    ``kept`` says what it was kept from telling.
    """
    parts = [part.strip() for part in stdout.replace("\r", "").split(f"{_MARK}\n")[1:]]
    if len(parts) <= len(_FILES):
        return {**normal_identity({}), "kept": f"it did not answer: {cut(stderr.strip() or 'without a word', 200)}"}
    serial, system_uuid, rest = parts[0], parts[1], parts[2].splitlines()
    files = [name for name in _FILES if name in rest[1:]]
    kept = f"user {cut(rest[0], 20)} may not read {' and '.join(files)}" if files else ""
    return {**normal_identity({"serial": serial, "system_uuid": system_uuid}), "kept": kept}


def proven(ledger: Ledger, node_id: str, run_id: str) -> bool | None:
    """Has this run's newest look held the machine that answers against the BMC? None where it did not look.

    What another run has proven says nothing of the address that this one goes to.
    """
    event = _look(ledger, node_id)
    if event is None or event["run_id"] != run_id:
        return None
    cells = [check for check in event["data"].get("checks") or [] if check.get("id") == "machine"]
    return all(check.get("verdict") == PASS for check in cells) if cells else None


def _look(ledger: Ledger, node_id: str) -> dict[str, Any] | None:
    return ledger.latest([node_id], "verdict", ["image_verify"]).get(node_id)


def known(ledger: Ledger, node_id: str, inventory: Mapping[str, Any], *, signed: bool = True) -> Known:
    """Who the node is, as far as inventory, ledger and the newest passport tell; the first that tells counts.

    :param signed: the passport as well. It tells of the board of then, and is not asked where the BMC vouches for this
        one.
    """
    names = [{row["kind"]: row["value"]} for row in ledger.aliases(node_id)]
    sources = ([inventory], names, [_subject(ledger.passport(node_id) if signed else None)])
    shaped = [[normal_identity(one) for one in source] for source in sources]
    of = {key: [tuple(one[key] for one in source if one[key]) for source in shaped] for key in SAME}
    serial, system_uuid = (next(filter(None, of[key]), ()) for key in ("serial", "system_uuid"))
    return Known(serial, system_uuid, remembered=not any(of["system_uuid"][:-1]) and any(of["serial"][:-1]))


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
        if machine.get("kept"):
            what["seen"] += f"; {machine['kept']}"
        raise ConfigError(
            "the machine that answers is not known to be this node, and no gate runs on it",
            do=_way_on(machine),
            **what,
        )
    # An equal UUID outweighs the serial: the inventory may have the board's, as some BMCs tell it.
    if not all(agrees.values()) and not agrees.get("system_uuid"):
        raise WrongMachine(
            "another machine answers at this node's address, and nothing is done with it",
            do="correct ansible_host, gpufleet_serial or gpufleet_system_uuid in the inventory (nothing was recorded of"
            f" the node); {_SWAPPED}",
            **what,
        )


def refuse_another(bmc: Mapping[str, Any], machine: Mapping[str, Any], node: str) -> None:
    """Both in their one shape.

    :raises WrongMachine: where the machine says that it is not the one behind the BMC.
    """
    if another(bmc, machine):
        raise WrongMachine(
            "the machine that answers is not the one behind this node's BMC",
            node=node,
            wanted="one machine at both addresses",
            seen="; ".join(disagreements(bmc, machine)),
            do="correct ansible_host or gpufleet_bmc_address in the inventory (nothing was recorded of the node)",
        )


def not_of_another(ledger: Ledger, node_id: str, node: str, machine: Mapping[str, Any]) -> None:
    """A UUID that a whole series of boards was delivered with agrees with each of them; their serials do not.

    Nodes of one chassis may share a serial. Each of them has a UUID of its own then.

    :raises WrongMachine: where the machine tells the serial of another node of the ledger.
    """
    owner = ledger.owner("serial", machine["serial"]) if machine["serial"] else ""
    if not owner or owner == node_id:
        return
    theirs, ours = known(ledger, owner, {}).system_uuid, machine["system_uuid"]
    if theirs and ours and not any(same_uuid(one, ours) for one in theirs):
        return
    raise WrongMachine(
        "the machine that answers tells the serial of another node",
        node=node,
        wanted="this node's machine",
        seen=f"serial {machine['serial']}, which the ledger has for {ledger.name(owner)}",
        do="correct ansible_host or gpufleet_bmc_address in the inventory (nothing was recorded of the node)",
    )


def _way_on(machine: Mapping[str, Any]) -> str:
    """Of a machine that is not known."""
    if machine.get("kept"):
        return _BECOME
    return f"{_NAME}; or {_PROVE}" if any(machine[key] for key in SAME) else _MUTE


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


def refused(ledger: Ledger, node_id: str, node: str) -> FleetError:
    """This run has asked the BMC, and it did not confirm the machine: another one, or nobody could tell."""
    findings = ((_look(ledger, node_id) or {}).get("data") or {}).get("findings") or []
    texts = {str(one.get("id")): str(one.get("text")) for one in findings if isinstance(one, dict)}
    wanted = "the check machine of image_verify passed in this run"
    if "other_machine" in texts:
        return WrongMachine(
            "the machine that answers is not the one that this node's BMC tells, and no gate runs on it",
            node=node,
            wanted=wanted,
            seen="it did not pass",
            do="correct ansible_host or gpufleet_bmc_address in the inventory, and run again",
        )
    return ConfigError(
        "the machine that answers was not proven by this node's BMC, and no gate runs on it",
        node=node,
        wanted=wanted,
        seen=cut(texts.get("machine_unknown", "it did not pass"), 300),
        do="run image_verify as root (become); where BMC and machine tell nothing in common, leave bmc_identity out,"
        f" {_NAME}, and run again; {_MUTE}",
    )


def _shown(identity: Known) -> str:
    return ", ".join(f"{key} {' or '.join(getattr(identity, key)) or '(none)'}" for key in SAME)
