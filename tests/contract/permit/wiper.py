# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A provisioner in a folder whose nodes are wiped so many times, one destructive step after the other; and the module
``provisioner_wait`` over it, as another machine runs it: a process of its own that knows its arguments alone."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Refused
from ansible_collections.gpufleet.baremetal.plugins.module_utils._leave import clock
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import contract as c
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import registry
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.cells import DONE
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.plugins.modules import provisioner_wait
from unit.provisioner.memory import Memory, forget

NAME = "wiper"
FOLDER = "WIPER_FOLDER"


class Wiper(Memory):
    """Each wipe is a line in the node's file: process, and uptime before leave was looked at. ``wipes``: after so many
    a node is ready; one with a file ``refuses-HOST`` is not wiped."""

    name = NAME
    serial = False

    def __init__(self, params: Mapping[str, Any], ctx: Context) -> None:
        super().__init__(params, ctx)
        self.folder = Path(os.environ[FOLDER])

    def states(self, ids: Sequence[str]) -> dict[str, c.NodeState]:
        return {host: c.NodeState(host, host, f"wiped {len(wipes(self.folder, host))}", c.READY) for host in ids}

    def serials(self, node: c.NodeState, *, ask: bool) -> Mapping[str, str]:
        return {"record": f"S-{node.id}"}

    def next_step(self, node: c.NodeState, goal: str, wanted: Wanted) -> str:
        enough = int((self.folder / "wipes").read_text(encoding="ascii"))
        return DONE if len(wipes(self.folder, wanted.host)) >= enough else "wipe"

    def start(self, step: str, node: c.NodeState, wanted: Wanted) -> None:
        at = clock()["uptime"]
        if self.ctx.may_write(f"wipe {wanted.host}", destructive=True, nodes=(wanted.host,)):
            if (self.folder / f"refuses-{wanted.host}").exists():
                raise Refused("this one is wiped by nobody")
            with (self.folder / wanted.host).open("a", encoding="ascii") as file:
                file.write(f"{os.getpid()} {at}\n")


def wipes(folder: Path, host: str) -> list[tuple[int, float]]:
    """Process and time of each."""
    path = folder / host
    lines = path.read_text(encoding="ascii").splitlines() if path.exists() else []
    return [(int(pid), float(at)) for pid, at in map(str.split, lines)]


def main() -> None:
    forget()
    registry.register(Wiper)
    provisioner_wait.WAIT_SPEC["provisioner"] = {"type": "str"}
    provisioner_wait.main()


if __name__ == "__main__":
    sys.exit(main())
