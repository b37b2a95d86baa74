# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The driver for nodes that no scheduler knows. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Unsupported
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import NodeView, Scheduler


class NoScheduler(Scheduler):
    """Every node is absent, so nothing is ever held or resumed."""

    NAME = "none"
    KEEPS_NODES = False

    def check(self, name: str) -> None:
        """Any name will do: nobody is asked about it."""

    def states(self, names: Sequence[str]) -> dict[str, NodeView]:
        return {name: NodeView(name) for name in names}

    def known(self) -> dict[str, tuple[str, ...]]:
        return {}

    def hold_request(self, view: NodeView, token: str, kind: str) -> str:
        return self.resume_request(view)

    def hold(self, view: NodeView, token: str, kind: str) -> None:
        self.resume(view)

    def resume_request(self, view: NodeView) -> str:
        raise Unsupported("this node belongs to no scheduler", node=view.name)

    def resume(self, view: NodeView) -> None:
        self.resume_request(view)
