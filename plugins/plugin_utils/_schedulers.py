# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The schedulers of several hosts, each of which is asked once for all of its own. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import value_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._folded import folded
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler import names
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import Scheduler
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.registry import open_scheduler

#: A variable of a named host, None where it is not set.
Variable = Callable[[str, str], Any]


def settings(variable: Variable, host: str, otherwise: str | None = None) -> tuple[dict[str, Any], str]:
    """The connection as a task of this host's own has it, and the node's name there.

    :param otherwise: the driver of a host that names none.
    """
    own = {name: variable(f"gpufleet_{name}", host) for name in (names.OPTION, *names.OPTIONS)}
    own[names.OPTION] = otherwise if own[names.OPTION] is None else own[names.OPTION]
    options = {name: value_of(own, name, names.OPTIONS) for name in own}
    return options, str(variable("gpufleet_scheduler_node", host) or host)


def each(
    hosts: Iterable[str], of: Callable[[str], tuple[dict[str, Any], str]], failed: dict[str, FleetError]
) -> Iterator[tuple[Scheduler, dict[str, str]]]:
    """Each scheduler, with its names of the hosts; a host whose own settings are wrong fails alone."""
    drivers: dict[str, Scheduler] = {}
    asked: dict[str, dict[str, str]] = {}
    for host in hosts:
        try:
            options, name = of(host)
            key = repr(options)
            drivers[key] = drivers.get(key) or open_scheduler(options, node=host)
            drivers[key].check(name)
            asked.setdefault(key, {})[host] = name
        except FleetError as exc:
            failed[host] = exc
    for key, named in asked.items():
        yield drivers[key], _apart(named, failed)


def _apart(hosts: Mapping[str, str], failed: dict[str, FleetError]) -> dict[str, str]:
    """Two hosts that name one node of one scheduler: one of them is wrong, and nobody can tell which."""
    by_name: dict[str, list[str]] = {}
    for host, name in hosts.items():
        by_name.setdefault(name, []).append(host)
    for name, same in by_name.items():
        for host in same if len(same) > 1 else ():
            others = folded([one for one in same if one != host])
            what = f"its scheduler_node {name} is also that of other hosts"
            failed[host] = ConfigError(what, seen=others, do="correct one")
    return {host: name for host, name in hosts.items() if host not in failed}
