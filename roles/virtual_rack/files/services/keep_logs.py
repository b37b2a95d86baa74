# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep the rack's logs from growing for ever: what is longer than the limit is set aside once, and begun anew.

    keep_logs.py --limit BYTES --every SECONDS PATTERN...

Every writer of these files has them open for appending, so that a file that was cut is simply gone on with.
"""

from __future__ import annotations

import argparse
import glob
import shutil
import sys
import threading
from pathlib import Path

ASIDE = ".1"


def begin_anew(log: Path) -> None:
    """Set the content aside, in the place of what was set aside before, and cut the file."""
    if not log.exists():
        return
    shutil.copyfile(log, log.with_name(log.name + ASIDE))
    with log.open("r+b") as file:
        file.truncate(0)


def look(patterns: list[str], limit: int) -> None:
    for pattern in patterns:
        for name in glob.glob(pattern):
            log = Path(name)
            if log.suffix != ASIDE and log.stat().st_size > limit:
                begin_anew(log)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--limit", type=int, required=True)
    parser.add_argument("--every", type=float, required=True)
    parser.add_argument("patterns", nargs="+")
    asked = parser.parse_args()
    pause = threading.Event()
    while not pause.wait(asked.every):
        try:
            look(asked.patterns, asked.limit)
        except OSError as error:
            print(error, file=sys.stderr, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
