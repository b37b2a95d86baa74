# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the contract suite needs of a gate: a healthy node for it, and each way to break that node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Result

Params = dict[str, Any]
#: Every gate meets these: its tool is gone, is killed, does not end, or prints nothing or nonsense; nobody knows the
#: node's SKU, or half of the profile is lost.
LEAST = frozenset({"tool missing", "tool hangs", "tool killed", "noise", "nothing", "unknown SKU", "half a profile"})
#: Ends of a tool that has printed all that a healthy node shows, in the words of a shell. None of them is a pass.
_LATE = "sleep 60"
ENDS = {"an unknown exit status": "exit 7", "past its time": _LATE, "killed": "kill -9 $$"}
#: The time of a tool that does not end: all others have that of a healthy node, for a busy machine is slow.
_LATE_SECONDS = 2


@dataclass(frozen=True)
class Case:
    """verb: the gate. healthy: makes a healthy node in a folder, and gives the options that look at it."""

    name: str
    verb: Callable[[Mapping[str, Any], Context], Result]
    healthy: Callable[[Path], Params]
    #: name of a break: what it makes of the healthy node, the verdict that must come, a word of the message
    broken: dict[str, tuple[Callable[[Path], Params], str, str]]
    #: the option that names the tool, alone or with its arguments, and the option that limits its time
    program: str
    #: the healthy node, whose tool shows so many GPUs; None for a tool that shows none
    counted: Optional[Callable[[Path, int], Params]]
    limit: str = "timeout"
    #: a healthy node on which the tool is run, where ``healthy`` needs none
    asked: Optional[Callable[[Path], Params]] = None

    def ending(self, folder: Path, end: str) -> Params:
        """The tool of a healthy node does all that it does, and then this."""
        params = (self.asked or self.healthy)(folder)
        command = params[self.program] if isinstance(params[self.program], list) else [params[self.program]]
        named, program = folder / "ending", Path(command[0])
        path = named
        if program.is_dir():  # the option names the folder of a program
            [program] = program.glob("*_perf")
            named.mkdir(exist_ok=True)
            path = named / program.name
        path.write_text(f'#!/bin/sh\n{program} "$@"\n{end}\n', encoding="utf-8")
        path.chmod(0o755)
        tool = [str(named), *command[1:]] if isinstance(params[self.program], list) else str(named)
        return {**params, self.program: tool, **({self.limit: _LATE_SECONDS} if end == _LATE else {})}
