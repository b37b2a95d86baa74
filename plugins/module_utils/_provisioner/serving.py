# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Services beside a provisioner that must know its nodes, as a driver tells them. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Wanted


class OfServices:
    """A part of :class:`Driver`, of one whose provisioner does not tell them by itself."""

    def unserved(self, node: Any, wanted: Wanted) -> Mapping[str, str]:
        """By service, what it lacks of a node whose record stands. It reads, and writes nothing."""
        return {}

    def serve(self, node: Any, wanted: Wanted, lacking: Mapping[str, str], stands: float) -> Any:
        """Tell these, in a turn of the node's; what that changed, as :class:`Changes`.

        :param stands: since when its record stands, by this machine's monotonic clock: a service that was told by
            another host of the task since then knows of it.
        """
        raise NotImplementedError
