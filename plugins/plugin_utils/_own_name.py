# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a machine calls itself, where it is the node: asked where its scheduler's node has got another name. PRIVATE."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.called import CALLED, LOOK, OWN_NAME
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.last_look import NAME
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _machine

_MARK = "=gpufleet-name="
#: A machine of the fleet answers in less; most of those that nobody has installed yet do not.
_SECONDS = 5
#: Of a name; no kernel has a longer one.
_LONGEST = 255


def question(folder: str) -> str:
    """One round trip: who the machine is, and its name."""
    return f"{_machine.question(folder)}; echo {_MARK}; cat /proc/sys/kernel/hostname"


def asked(connection: Any, execute: Callable[[str], Mapping[str, Any]]) -> Mapping[str, Any]:
    """What the machine answers that is asked over this connection; nothing of a silent one, for which nobody waits as
    long as where it is to do something."""
    if connection.has_option("timeout"):
        connection.set_option("timeout", min(int(connection.get_option("timeout")), _SECONDS))
    try:
        return execute(question("/sys/class/dmi/id"))
    except AnsibleError:
        return {}


def heard(ledger: Ledger, node_id: str, run_id: str = "") -> str:
    """How the machine called itself when it was last looked at, by this run if one is given."""
    look = ledger.latest([node_id], LOOK, [NAME, CALLED]).get(node_id)
    return str(look["data"].get(OWN_NAME) or "") if look and run_id in ("", look["run_id"]) else ""


def vouched(ledger: Ledger, node_id: str, name: str, own: str) -> bool:
    """Was it adopted as that node of the scheduler, or said to be it, when it called itself so?"""
    kinds, keys = ("state", "named"), ("machine_name", OWN_NAME)
    gone = ledger.latest([node_id], "state", ["retired"]).get(node_id) if own else None
    since = int(gone["id"]) if gone else 0
    told = [event["data"] for event in ledger.history(node_id, since=since, kinds=kinds)] if own else []
    return any(data.get("scheduler_node") == name and own in [data.get(key) for key in keys] for data in told)


def told(answer: Mapping[str, Any]) -> str:
    """The name in the answer to the question."""
    return cut(str(answer.get("stdout", "")).replace("\r", "").partition(f"{_MARK}\n")[2].strip(), _LONGEST)


def demand(
    ledger: Ledger, node_id: str, host: str, run_id: str, inventory: Mapping[str, Any], answer: Mapping[str, Any]
) -> None:
    """:raises WrongMachine: where another machine than the node gave the answer.

    :raises ConfigError: where nobody can tell.
    """
    proven = _machine.proven(ledger, node_id, run_id)
    if proven is False:
        raise _machine.refused(ledger, node_id, host)
    if proven is None:
        machine = _machine.told(str(answer.get("stdout", "")), str(answer.get("stderr", "")))
        _machine.demand(host, _machine.known(ledger, node_id, inventory), machine)
        _machine.not_of_another(ledger, node_id, host, machine)


def shows(own: str, name: str, was: str) -> bool:
    """Is it the scheduler's node of this name by what it calls itself, and no more the one that it was?

    A machine may call itself by its whole name, and be there by the short one. The other way round there may be such a
    node in each domain: it shows no more than that the machine, known by another name till now, was renamed. Whether
    the scheduler has another node of that short name, who asks it has to find out.
    """
    if not _same(own, name):
        return False
    return own.lower() == name.lower() or "." in own or (bool(was) and not _same(own, was))


def _same(own: str, name: str) -> bool:
    """Or one is the other up to its first dot: two that are both whole names are two machines."""
    one, other = own.lower(), name.lower()
    return bool(own) and (one == other or one.partition(".")[0] == other or other.partition(".")[0] == one)
