# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``node_history`` on the controller, which alone has the ledger."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import story
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.redact import shown
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._door import VerbAction, display
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._heard import heard


class ActionModule(VerbAction):
    NAME = "node_history"
    SPEC = story.SPEC

    def _goes_elsewhere(self) -> bool:
        return False  # the ledger is here

    def _in_worker(self, params: dict[str, Any]) -> dict[str, Any]:
        heard(self)
        ledger = self.ledger()
        found = story.meant(ledger, params["of"]) if params["of"] else self._own()
        asked = {"last": max(params["last"], 0), "all_kinds": params["all_kinds"]}
        nodes = [story.story(ledger, node_id, **asked) for node_id in found]
        told = story.all_lines(nodes, display.columns) or [f"{self._host}: the ledger has never seen it"]
        lines = [shown(line, self._secrets) for line in told]
        if params["report"]:
            display.display("\n" + "\n".join(lines) + "\n")
        return {"changed": False, "nodes": nodes, "lines": lines, "events": []}

    def _own(self) -> list[str]:
        """The machine that the host is now, and those that it was; of one that contradicts the ledger, by its name."""
        try:
            now = {self.node_id(create=False)} - {""}
        except ConfigError as exc:
            display.warning(shown(f"{self._host}: {exc}", self._secrets))
            now = set()
        return self.ledger().by_age({*now, *self.ledger().called(self._host)})
