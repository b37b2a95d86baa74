# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables of another host than the one that runs the task. PRIVATE to the collection.

``hostvars`` knows what the inventory says of a host, and what was registered or set for it. What the play, its files, a
role, a block or the task sets is not in there, though a task of that host's own would see it, and before the inventory.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ansible import constants as C
from ansible.errors import AnsibleError, AnsibleValueOmittedError
from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _private as private
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.aliases import INVENTORY, Says
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.spelling import Pair, compared, spelled
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._serial import serial_of

#: Ansible's templates and variables are not made for several threads.
ONE_AT_A_TIME = threading.RLock()
#: Kind of an alias -> the variable that says it.
_SAYS = {
    "serial": "gpufleet_serial",
    "system_uuid": "gpufleet_system_uuid",
    "mac": "gpufleet_boot_mac",
    "node_id": "gpufleet_node_id",
}
#: The same for each host of a play. Ansible would make each list anew, of all hosts for each of them.
_SHARED = ("ansible_play_hosts_all", "ansible_play_hosts", "ansible_play_batch", "play_hosts")


class Variables:
    """What a task of a host's own would see there, in its order.

    :param seen: the variables that the action was given, of the host that runs the task.
    :raises ConfigError: for a host that the inventory does not have.
    """

    def __init__(self, action: ActionBase, seen: Mapping[str, Any], name: str) -> None:
        hostvars = seen["hostvars"]
        host = hostvars._inventory.get_host(name)
        if host is None:
            raise ConfigError(f"the inventory has no host {name!r}", do="correct the name")
        task = action._task
        gather = hostvars._variable_manager.get_vars
        self._known = gather(play=task.get_play(), host=host, task=task, _hosts=[name], _hosts_all=[name])
        self._known.update({key: seen[key] for key in _SHARED if key in seen})
        self._known.update(_of_the_loop(seen))
        self._known["vars"] = {key: value for key, value in self._known.items() if key != "vars"}
        self.templar = action._templar.copy_with_new_env(available_variables=self._known)

    def names(self) -> Collection[str]:
        return self._known.keys()

    def all(self) -> Mapping[str, Any]:
        return self._known

    def raw(self, name: str) -> Any:
        """As it was written."""
        return self._known.get(name)

    def get(self, name: str) -> Any:
        """Templated; None where it is not set."""
        try:
            return self.templar.template(self._known[name]) if name in self._known else None
        except AnsibleValueOmittedError:
            return None


class OfEach:
    """The variables of the host that runs a task, and of any other one."""

    def __init__(self, action: ActionBase, seen: Mapping[str, Any], host: str) -> None:
        self._action = action
        self._seen = seen
        self._host = host
        self._others: dict[str, Variables] = {}

    def own(self, name: str) -> Any:
        """Templated; None where it is not set."""
        value = self._seen.get(name)
        if value is None:
            return None
        with ONE_AT_A_TIME:
            return self._action._templar.template(value)

    def names(self, host: str) -> Collection[str]:
        """Of all that is set for a host, wherever."""
        return self._seen.keys() if host == self._host else self._other(host).names()

    def raw(self, host: str, name: str) -> Any:
        """As it was written, wherever it was set; None where it is not."""
        return self._seen.get(name) if host == self._host else self._other(host).raw(name)

    def _other(self, host: str) -> Variables:
        with ONE_AT_A_TIME:
            if host not in self._others:  # all its variables are gathered for it
                self._others[host] = Variables(self._action, self._seen, host)
            return self._others[host]

    def taken(self, host: str) -> Variables:
        """All of a named host, for one who asks for them last: they are many, and are kept here no longer."""
        with ONE_AT_A_TIME:
            return self._others.pop(host, None) or Variables(self._action, self._seen, host)

    def of(self, host: str, name: str) -> Any:
        """The same of a named host.

        :raises ConfigError: where it cannot be read.
        """
        other = None if host == self._host else self._other(host)
        try:
            with ONE_AT_A_TIME:
                return self.own(name) if other is None else other.get(name)
        except AnsibleError as exc:
            raise ConfigError(f"its {name} cannot be read", node=host, do="define what it is made of") from exc


def learnt(seen: Mapping[str, Any], host: str, name: str) -> bool:
    """Has a task of this run set the variable? The role oob_ready does so with the serial that a BMC tells."""
    known = getattr(getattr(seen.get("hostvars"), "_variable_manager", None), "_nonpersistent_fact_cache", {})
    return name in (known.get(host) or {})


def claims(var: Callable[[str], Any], serial: str = "", *, learnt: bool = False) -> list[tuple[str, str]]:
    """What a host's variables say of its machine, by which the ledger may know it: pairs of kind and value.

    :param serial: what the machine itself says. :param learnt: is the serial of the variables such a word, too?
    """
    told = serial_of(var("gpufleet_serial"))
    # A board that is moved takes its UUID with it: where the inventory has a serial of the machine, that names it.
    # Where it has none, the node is known by its UUID before the serial is learnt, and is the same one afterwards.
    system_uuid = "" if told and not learnt else str(var("gpufleet_system_uuid") or "")
    serial = told or serial
    return [("serial", serial), ("system_uuid", system_uuid), ("mac", str(var("gpufleet_boot_mac") or ""))]


def what_says(var: Callable[[str, str], Any], hosts: Collection[str], learnt_of: str = "") -> Says:
    """What a host of the inventory says of its machine now; None of one that is not in there, or unreadable.

    :param learnt_of: the host whose serial a task of this run has learnt, which is no word of the inventory.
    """

    def says(other: str) -> list[tuple[str, str]] | None:
        try:
            pairs = claims(lambda name: var(name, other)) if other in hosts else None
        except ConfigError:  # what is wrong with that host is told where its own task runs
            return None
        return [pair for pair in pairs if pair[0] != "serial"] if pairs and other == learnt_of else pairs

    return says


def node_of(
    ledger: Ledger,
    host: str,
    var: Callable[[str, str], Any],
    node_id: Any = "",
    *,
    create: bool,
    hosts: Collection[str] = (),
    serial: str = "",
    learnt: bool = False,
    run_id: str = "",
) -> str:
    """The ledger's id of a host, by what its variables say; empty for a stranger where not to create.

    :param hosts: those of the inventory.
    :param serial: what the machine itself says, for a host of which the inventory names none.
    :param learnt: is the serial of its variables such a word, too?
    """

    def own(name: str) -> Any:
        return var(name, host)

    inventory = not learnt and (not serial or bool(serial_of(own("gpufleet_serial"))))
    return ledger.identify(
        host,
        create=create,
        node_id=str(node_id or own("gpufleet_node_id") or ""),
        aliases=claims(own, serial, learnt=learnt),
        source=INVENTORY if inventory else "bmc",
        inventory=inventory,
        says=what_says(var, hosts, host if learnt else ""),
        run_id=run_id,
    )


def alone(ledger: Ledger, node_id: str, host: str, seen: Mapping[str, Any], identified: Callable[[str], str]) -> None:
    """One lease, one evidence and one passport would serve two machines. Asked where the ledger knows the node by the
    name of another host, which by itself says nothing: hosts are renamed, and two may have got one machine's row then.

    :param seen: the variables that the action was given.
    :raises ConfigError: where another host of the play is this node too.
    """
    rows = ledger.aliases(node_id) if node_id else []
    names = {str(row["host"]) for row in rows} | {ledger.name(node_id) if node_id else ""}
    in_play = set(seen.get("ansible_play_hosts_all") or ()) - {host}
    if not names - {"", host} or not in_play:
        return
    known = {compared((row["kind"], row["value"])) for row in rows} | {("node_id", node_id)}
    likely = [other for other in sorted(in_play) if other in names or known & _literal(seen, other, in_play | {host})]
    other = next((one for one in likely if _or_nobody(identified, one) == node_id), "")
    if not other:
        return
    raise ConfigError(
        "two hosts of this play are one node in the ledger",
        node=host,
        wanted="a serial, a node id or a boot MAC that no other host has",
        seen=f"{other} is node {node_id} too",
        do="correct gpufleet_serial, gpufleet_node_id or gpufleet_boot_mac of one of them; where the nodes of a chassis"
        " share a serial, leave gpufleet_serial out and name gpufleet_boot_mac and gpufleet_bmc_system_id of each",
    )


def _literal(seen: Mapping[str, Any], host: str, in_play: Collection[str]) -> set[Pair]:
    """What the variables of another host of the play say in so many words; to template them costs as much as a task.

    They are gathered once a run, by the first worker that asks, and kept beside what else Ansible removes at its end.
    """
    digest = hashlib.sha256(" ".join(sorted(in_play)).encode()).hexdigest()[:24]
    path = Path(C.DEFAULT_LOCAL_TMP) / f"gpufleet-said-{digest}.json"
    try:
        said: dict[str, list[list[str]]] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        with ONE_AT_A_TIME:
            said = {one: _said(seen["hostvars"].raw_get(one)) for one in in_play if one in seen["hostvars"]}
        with suppress(OSError):  # then each asks for itself
            private.write(str(path), json.dumps(said))
    return {(one[0], one[1]) for one in said.get(host, ())}


def _said(own: Mapping[str, Any]) -> list[list[str]]:
    pairs = [(kind, str(own.get(name) or "")) for kind, name in _SAYS.items()]
    return [list(compared(pair)) for pair in spelled(pairs)]


def _or_nobody(identified: Callable[[str], str], host: str) -> str:
    """What is wrong with that host is told where its own task runs."""
    try:
        return identified(host)
    except ConfigError:
        return ""


def _of_the_loop(seen: Mapping[str, Any]) -> dict[str, Any]:
    """The loop around the task: its item is the same for all."""
    names = ("ansible_loop_var", "ansible_index_var", "ansible_loop")
    own = [str(seen[name]) for name in names[:2] if seen.get(name)]
    return {name: seen[name] for name in (*names, *own) if name in seen}
