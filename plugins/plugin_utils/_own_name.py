# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a machine calls itself, where it is the node: asked where its scheduler's node has got another name. PRIVATE."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.called import CALLED, LOOK, OWN_NAME
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.last_look import NAME
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _machine
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._elected import elected
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._looks import Looks

_MARK = "=gpufleet-name="
#: A machine of the fleet answers in less; most of those that nobody has installed yet do not.
_SECONDS = 5
#: With its login; its shell may hang in a file system that is away.
_ANSWER_SECONDS = 20.0
#: Machines that are asked at once; most of them wait.
_THREADS = 64
#: Of a name; no kernel has a longer one.
_LONGEST = 255


def question(folder: str) -> str:
    """One round trip: who the machine is, and its name."""
    return f"{_machine.question(folder)}; echo {_MARK}; cat /proc/sys/kernel/hostname"


def asked(
    action: ActionBase,
    variables: Mapping[str, Any],
    host: str,
    others: Callable[[], Sequence[str]],
    beat: Callable[[], None],
) -> Mapping[str, Any]:
    """What the machine of a host answers that is asked over its connection; nothing of a silent one, or of one that
    hangs after the login. Nobody waits for these as long as where a machine is to do something.

    :param others: those of the batch of which the same is to be asked. They are asked along with the first one, so that
        a rack of silent machines costs as long as a few of them.
    :param beat: called while it waits for another worker that asks: raises where the run is gone.
    """
    with elected(f"names {action._task._uuid}", beat) as seat:
        known = seat.answer_for(host, [host])
        if known is None:
            known = _asked(action, variables, list(dict.fromkeys([host, *others()])))
            seat.answer(known, host, list(known))
    return {"stdout": known[host][0], "stderr": known[host][1]}


def _asked(action: ActionBase, variables: Mapping[str, Any], hosts: Sequence[str]) -> dict[str, tuple[str, str]]:
    looks = Looks(action, variables, timeout=_ANSWER_SECONDS, connect=_SECONDS, threads=_THREADS)
    try:
        return looks.ask(dict.fromkeys(hosts, question("/sys/class/dmi/id")))
    finally:
        looks.end()


def heard(ledger: Ledger, node_id: str, run_id: str = "") -> str:
    """How the machine called itself when it was last looked at, by this run if one is given.

    With a run: what that has imaged since has its name from the image, which does not say whose machine it was.
    """
    look = ledger.latest([node_id], LOOK, [NAME, CALLED]).get(node_id)
    if look is None or (run_id and (look["run_id"] != run_id or _imaged(ledger, node_id, run_id, int(look["id"])))):
        return ""
    return str(look["data"].get(OWN_NAME) or "")


def _imaged(ledger: Ledger, node_id: str, run_id: str, before: int) -> bool:
    """Has this run ordered the image that the machine ran at that event?"""
    event = ledger.latest([node_id], "state", ["imaging"]).get(node_id)
    return event is not None and event["run_id"] == run_id and int(event["id"]) < before


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
