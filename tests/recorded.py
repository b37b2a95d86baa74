# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Outputs recorded from real machines, which not every checkout has beside it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Optional

CHECKOUT = Path(__file__).resolve().parent.parent
VARIABLE = "GPUFLEET_RECORDED_DATA"
DEFAULT = CHECKOUT / ".." / "shared" / "data"


def recorded_dir(name: str) -> Optional[Path]:
    """The directory of recorded outputs called `name`, or None where it is not to be had: then a test skips."""
    directory = Path(os.environ.get(VARIABLE) or DEFAULT) / name
    return directory.resolve() if directory.is_dir() else None
