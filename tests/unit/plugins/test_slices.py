# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A batch that is shipped in slices, and of which the door refuses most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import EvidenceMissing
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _slices as slices

PASSES = "gpu0600"


class Refusing:
    """Names one host at a time, as a ledger does, and lets one pass."""

    def before_write(self, what: str, *, destructive: bool, nodes: Sequence[str], lasts: float) -> str:
        for node in nodes:
            if node != PASSES:
                raise EvidenceMissing("no proof", node=node)
        return "event:1"


class Sliced(slices.SlicedAction):
    NAME = "provisioner_wait"

    def __init__(self) -> None:
        self._line: Any = Refusing()

    def _where(self) -> str:
        return "jump"


def test_j3_however_many_are_refused_the_others_have_their_leave() -> None:
    names = [f"gpu{number:04}" for number in range(601)]
    params = {"interval": 1, "timeout": 100, "until": "deployed", "nodes": [{"host": name} for name in names]}
    run = slices._Slices(params, "provisioner_wait")
    passed, since = Sliced()._permitted(run, names, float("inf"), destructive=True)
    assert passed == [PASSES] and since < float("inf")
    assert list(run.open) == [PASSES], "the others are closed, each with its reason"
