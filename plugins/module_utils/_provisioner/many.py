# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is looked for of each host of a batch, and what ends the look for all of them. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar, Union

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    AuthFailed,
    ConfigError,
    Fenced,
    FleetError,
    MissingLibrary,
    Unreachable,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Wanted

T = TypeVar("T")


def each(wanted: Iterable[Wanted], find: Callable[[Wanted], T]) -> dict[str, Union[T, FleetError]]:
    """By host, what was found, or what is wrong with that host alone."""
    found: dict[str, Union[T, FleetError]] = {}
    for one in wanted:
        try:
            found[one.host] = find(one)
        except (Unreachable, AuthFailed, Fenced, MissingLibrary):
            raise
        except FleetError as exc:
            found[one.host] = exc
    return found


def at_once(wanted: Sequence[Wanted], its_alone: Callable[[Wanted], Mapping[str, str]]) -> list[tuple[str, FleetError]]:
    """Host, and what it shares with another one of the batch.

    :param its_alone: where the inventory says what no two may share, and what it says; empty where it says nothing.
    """
    has: dict[tuple[str, str], list[str]] = {}
    for one in wanted:
        for where, value in its_alone(one).items():
            if value:
                has.setdefault((where, value), []).append(one.host)
    return [
        (
            host,
            ConfigError(
                f"{where} is {value}, and that of {next(other for other in hosts if other != host)} as well",
                node=host,
                wanted="an address of its own for each node",
                do=f"say {where} for each host, such as '{{{{ ansible_host }}}}', and for no group",
            ),
        )
        for (where, value), hosts in has.items()
        for host in hosts
        if len(hosts) > 1
    ]
