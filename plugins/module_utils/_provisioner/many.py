# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is looked for of each host of a batch, and what ends the look for all of them. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar, Union

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    AuthFailed,
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
