# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each measurement must reach, by the SKU's profile. PRIVATE to the collection.

Runs on nodes: standard library only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import Wanted


class _Named(Protocol):
    @property
    def name(self) -> str: ...


Floor = TypeVar("Floor", bound=_Named)


def chosen(
    wanted: Wanted, section: str, read: Callable[[Mapping[str, Any]], Sequence[Floor]], names: Sequence[str]
) -> list[Floor]:
    """Those of a profile's section, or those of it that are named.

    :raises ConfigError: where the profile has no such section, or no floor for one that is named.
    """
    known = {floor.name: floor for floor in wanted.section(section, read)}
    missing = sorted(set(names) - set(known))
    if missing:
        raise ConfigError(
            f"the SKU profile {wanted.sku} has no floor for {', '.join(missing)}", wanted=", ".join(sorted(known))
        )
    return [floor for floor in known.values() if not names or floor.name in names]
