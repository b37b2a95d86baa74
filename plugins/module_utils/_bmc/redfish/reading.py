# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Resources that many BMCs have and some cannot show: what could not be read is kept as told. PRIVATE."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish import select
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish.machine import Machine
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import AuthFailed, FleetError, MissingLibrary


class Reading:
    """``unread``: each resource that is missing from what was found, with the reason."""

    def __init__(self, machine: Machine) -> None:
        self.unread: list[str] = []
        self._read = machine.read

    def _uris(self, collection: str) -> list[str]:
        return self._or_unread(collection, lambda: select.members_of(self._read, collection), [])

    def _doc(self, uri: str) -> dict[str, Any]:
        return self._or_unread(uri, lambda: self._read(uri), {})

    def _or_unread(self, uri: str, read: Callable[[], Any], nothing: Any) -> Any:
        if not uri:
            return nothing
        try:
            return read()
        except (AuthFailed, MissingLibrary):
            raise
        except FleetError as exc:
            self.unread.append(f"{uri}: {exc.what}")
            return nothing
