# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Programs that a test writes, and writes anew while one of before may just be starting."""

from __future__ import annotations

import os
from pathlib import Path


def put(path: Path, text: str) -> str:
    """Make it, or put another in its place. Whoever runs the one of before keeps that: the kernel lets nobody write to
    a file that is just being executed (ETXTBSY)."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(text, encoding="utf-8")
    draft.chmod(0o755)
    draft.replace(path)
    return str(path)
