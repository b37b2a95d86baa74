# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hands on to a host what tasks for all hosts say of it; see the module of the same name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._own_verdict import (
    SPEC,
    failure,
    handed_on,
    has_failed,
    of_host,
)
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._door import VerbAction


class ActionModule(VerbAction):
    NAME = "host_verdict"
    SPEC = SPEC

    def _goes_elsewhere(self) -> bool:
        return False

    def _in_worker(self, params: dict[str, Any]) -> dict[str, Any]:
        self._demand_one_host()
        results: dict[str, dict[str, Any]] = {}
        for name, words in params["of"].items():
            told = of_host(self._registered(str(name)), self._host, str(name))
            if has_failed(told):
                return failure(told, str(words or ""), stops=name in params["stops"])
            results[str(name)] = handed_on(told)
        if params["refusal"]:
            return {"failed": True, "changed": False, "msg": params["refusal"]}
        return {"changed": any(one.get("changed") for one in results.values()), "results": results}

    def _demand_one_host(self) -> None:
        if self._task.run_once:
            raise ConfigError(
                "each host reads its own verdict, and one task for all would read that of one host for all",
                node=self._host,
                wanted="a task of each host",
                seen="run_once: true",
                do="leave run_once out",
            )

    def _registered(self, name: str) -> Any:
        """What a task for all has registered is taken as it is: to go through what it says of all hosts, for each of
        them, would cost the square of their number."""
        raw = self._variables.raw(self._host, name)
        return raw if isinstance(raw, Mapping) and "verdicts" in raw else self.host_var(name)
