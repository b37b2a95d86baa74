# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts of the inventory that are no nodes: those on which commands of the site's services run. PRIVATE.

The management node of a provisioner is in the inventory to be reached there. Taken for a node, it would be imaged.
Playbooks leave out the group of such hosts; one that is named as a login host and is not in there is refused in words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import names as provisioners

#: Hosts of this group are in no play of ours.
GROUP = "gpufleet_services"
#: The variables that name one.
SETTINGS = ("gpufleet_provisioner_login_host", "gpufleet_scheduler_login_host")
Variable = Callable[[str, str], Any]


def among(hosts: Iterable[str], variable: Variable) -> dict[str, ConfigError]:
    """Which of these are no nodes, and why: in the group, or named by any of them."""
    hosts = list(hosts)
    named: dict[str, tuple[str, str]] = {}
    for host, setting in ((host, setting) for host in hosts for setting in SETTINGS):
        with suppress(ConfigError):  # what cannot be read is told where that host is looked at
            named.setdefault(str(variable(setting, host) or ""), (setting, host))
    found = {host: _named(host, *named[host]) for host in hosts if host in named}
    return {**{host: _grouped(host) for host in hosts if _in_group(variable, host)}, **found}


def fleet(seen: Mapping[str, Any], variable: Variable) -> list[str]:
    """All hosts of the inventory but those, whatever the play is limited to; empty where nobody tells of one.

    :param seen: the variables of a task.
    """
    groups = seen.get("groups") or {}
    services = frozenset(groups.get(GROUP) or ())
    hosts = [host for host in groups.get("all") or () if host not in services]
    named = among(hosts, variable)
    return [host for host in hosts if host not in named]


def demand_node(spec: Mapping[str, Any], variable: Callable[[str], Any], host: str) -> None:
    """Before a verb that goes to a machine's BMC, or to its record at a provisioner.

    :raises ConfigError: where the host is no node by its own variables.
    """
    if not {"bmc_address", provisioners.OPTION} & set(spec):
        return
    for why in among([host], lambda name, _host: variable(name)).values():
        raise why


def refused(nodes: Sequence[Mapping[str, Any]], variable: Variable) -> dict[str, ConfigError]:
    """Which nodes of a batch are none: in the group, or named in the connection of any of them."""

    def told(name: str, host: str) -> Any:
        return own[host].get(name.partition("_")[2]) or (variable(name, host) if name == "group_names" else None)

    own = {str(node.get("host") or ""): node for node in nodes}
    return among(own, told)


def _in_group(variable: Variable, host: str) -> bool:
    with suppress(ConfigError):
        return GROUP in (variable("group_names", host) or ())
    return False


def _named(host: str, setting: str, by: str) -> ConfigError:
    return ConfigError(
        f"it is the login host that {setting} names, and no node",
        node=host,
        seen=f"{by}: {setting} {host}",
        do=f"put it into the group {GROUP} of the inventory, which every playbook leaves out",
    )


def _grouped(host: str) -> ConfigError:
    return ConfigError(
        f"it is in the group {GROUP}, and no node",
        node=host,
        do=f"leave it out of this play (hosts: all:!{GROUP}), or take it out of that group",
    )
