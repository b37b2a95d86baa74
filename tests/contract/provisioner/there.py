# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``provisioner_node`` on another machine: its module as a process of its own that knows its arguments alone, and the
action that ships it there. The drivers of these tests are known on both sides."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar, Optional

sys.path.insert(0, str(Path(__file__).resolve().parent))

from ansible_collections.gpufleet.baremetal.plugins.action import provisioner_node as action
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import registry
from ansible_collections.gpufleet.baremetal.plugins.modules import provisioner_node
from command_line.driver import CommandLineDriver
from task_queue.driver import OPTIONS, TaskQueueDriver

TESTS = Path(__file__).resolve().parents[2]


class There(action.ActionModule):
    """Each part leaves what it was given and its process id in the folder, and in ``until`` when its leave ends."""

    folder: ClassVar[Path]

    def _goes_elsewhere(self) -> bool:
        return True

    def _execute_module(self, *_args: Any, **options: Any) -> dict[str, Any]:
        args = {key: value for key, value in options["module_args"].items() if value is not None}
        until = (args.get("leave") or {}).get("until", 0)
        (self.folder / "until").write_text(str(until), encoding="ascii")
        return sent(args, self.folder / f"{len(parts(self.folder))}.part")


def parts(folder: Path) -> list[dict[str, Any]]:
    """What was sent, in its order."""
    files = sorted(folder.glob("*.part"), key=lambda path: int(path.stem))
    return [json.loads(path.read_text(encoding="utf-8")) for path in files]


def sent(args: dict[str, Any], note: Optional[Path] = None) -> dict[str, Any]:
    """What the module over there says."""
    process = subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
        env={**os.environ, "PYTHONPATH": f"{TESTS}:{os.environ['PYTHONPATH']}", "_ANSIBLE_PROFILE": "legacy"},
    )  # fmt: skip
    if note is not None:
        note.write_text(json.dumps({"pid": process.pid, "args": args}), encoding="utf-8")
    told, _ = process.communicate(json.dumps({"ANSIBLE_MODULE_ARGS": {**args, "_ansible_no_log": False}}))
    return dict(json.loads(told))


def main() -> None:
    registry.register(CommandLineDriver)
    registry.register(TaskQueueDriver, OPTIONS)
    provisioner_node.main()


if __name__ == "__main__":
    main()
