# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What ``ansible-test`` does not hand on.

It starts pytest with an environment of its own choice, in a copy of the collection that has no build/ beside it. Its
HOME is ours, so ``make/run_ansible_test.py`` leaves a note there.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

NOTE = ".gpufleet-tests.json"
CHECKOUT = Path(__file__).resolve().parents[2]
#: Where the virtual environments lie; beside a copy there are none.
VENVS = "GPUFLEET_TESTS_VENVS"
#: The file in which a run notes how far it has come
PROGRESS = "GPUFLEET_TESTS_PROGRESS"
#: What run_ansible_test.py writes down, if it is set
NAMES = ("CI", "GPUFLEET_RECORDED_DATA", "GPUFLEET_FUZZ", VENVS, PROGRESS)


def take(home: Path | None = None) -> None:
    """Set what the note says, where it says anything."""
    note = (home or Path.home()) / NOTE
    if note.is_file():
        for name, value in json.loads(note.read_text(encoding="utf-8")).items():
            if name in NAMES:
                os.environ.setdefault(name, str(value))


def venv(name: str) -> Path:
    """The virtual environment of this name, whether it is there or not."""
    return Path(os.environ.get(VENVS) or CHECKOUT / "build" / "venv") / name
