# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``image_verify`` on the controller: verifies signatures here, and sends a node only what it must be like."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer, ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.artifact import expectations
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.clock import common, judge_offset, window
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.image import (
    asked_of,
    combined,
    facts,
    image_verify,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.judgement import result_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.specs import IMAGE_VERIFY
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import INCONCLUSIVE, PASS
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._door import VerbAction

#: What a node needs to know; the image's URLs, keyring and everything of the site's own stay here.
_FOR_NODE = (
    "mode",
    "timeout",
    "manifest_path",
    "driver_version_path",
    "nvidia_smi",
    "fabric_manager",
    "boot_id_path",
    "uptime_path",
    "dmi_path",
    "booted_after",
    "not_boot_id",
    "max_clock_skew",
)
#: Further looks at the node's clock where the module's own answer took too long to tell.
_CLOCK_LOOKS = 3


class ActionModule(VerbAction):
    NAME = "image_verify"
    SPEC = IMAGE_VERIFY
    TELLS = {"verdict": ("image_artifact", "image_verify")}
    verb = staticmethod(image_verify)

    def writes(self, params: Mapping[str, Any]) -> bool:
        return False

    def prepare(self, params: dict[str, Any]) -> dict[str, Any]:
        if params.get("expect"):
            raise ConfigError(
                "expect is not for a task to set",
                wanted="an image with a signature",
                do="leave it out: the controller verifies the signature and fills it",
            )
        # What was not declared came back from the check of the options as None, which no option allows to be sent.
        image = {key: value for key, value in (params.get("image") or {}).items() if value is not None}
        return {**params, "image": image or None}

    def _in_worker(self, params: dict[str, Any]) -> dict[str, Any]:
        return super()._in_worker({**params, "run_cache": self._run_cache()})

    def _goes_elsewhere(self) -> bool:
        return self._params["mode"] == "node" or super()._goes_elsewhere()

    def _run_cache(self) -> str:
        """This run's main process; a job number would be shared by a job and its relaunch."""
        return f"{self._run_as.pid}-{self._run_as.pid_start}-{self._run_as.boot_id}"

    def _shipped(self, params: dict[str, Any]) -> dict[str, Any]:
        if params["mode"] != "node":
            return super()._shipped(params)
        ctx = Context(check_mode=bool(self._task.check_mode), node=self._host, lifeline=self._line)
        judgement, expect = expectations({**params, "run_cache": self._run_cache()}, ctx)
        if judgement.verdict != PASS:
            more = {"mode": "node", "image": facts(expect)}
            return result_of(
                judgement, fail_on=params["fail_on"], more=more, asked=asked_of(judgement, params)
            ).as_dict(ctx)
        told = {key: params[key] for key in _FOR_NODE}
        asked = time.time()
        try:
            node = super()._shipped({**told, "expect": expect, "fail_on": "never"})
        except BadAnswer:  # not what a module of ours says: what the node runs is unknown, and recorded as that
            node = {"verdict": INCONCLUSIVE}
        answered = time.time()
        if "verdict" not in node:
            return {**node, "failed": True}  # the module did not get that far, and says why
        result = combined(
            judgement,
            expect,
            node,
            params,
            offset=self._offset(node.get("clock"), asked, answered, params["max_clock_skew"]),
        )
        return result.as_dict(ctx)

    def _offset(self, read: Any, asked: float, answered: float, limit: float) -> tuple[float, float] | None:
        """The window of the node's clock; the node is asked again only where the module's answer leaves it open."""
        # Everything between the two readings of the node's clock was spent on the node.
        windows = []
        if _read_twice(read):
            windows.append(window(asked, read["begun"], answered - max(0.0, read["ended"] - read["begun"])))
        for _look in range(_CLOCK_LOOKS):
            if judge_offset(common(windows), limit) != INCONCLUSIVE:
                break
            seen = self._look_at_clock()
            if seen is not None:
                windows.append(seen)
        return common(windows)

    def _look_at_clock(self) -> tuple[float, float] | None:
        asked = time.time()
        answer = self._low_level_execute_command("date +%s.%N", sudoable=False)
        answered = time.time()
        text = str(answer.get("stdout", "")).strip()
        whole, _dot, rest = text.partition(".")
        if answer.get("rc") != 0 or not whole.isdigit():
            return None
        # A date that does not know %N shows whole seconds.
        exact = rest.isdigit()
        return window(asked, float(f"{whole}.{rest}") if exact else float(whole), answered, grain=0.0 if exact else 1.0)


def _read_twice(clock: Any) -> bool:
    """Is it the pair of times that a node answers with?"""
    times = [clock.get("begun"), clock.get("ended")] if isinstance(clock, Mapping) else [None]
    return all(isinstance(one, float) and math.isfinite(one) for one in times)
