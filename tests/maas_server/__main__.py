# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""python -m tests.maas_server --config FILE"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Optional

from .config import Config
from .server import MaasServer


def main() -> int:
    parser = argparse.ArgumentParser(prog="maas_server", description=__doc__)
    parser.add_argument("--config", required=True, type=Path, help="JSON, see README.md")
    server = MaasServer(Config.load(parser.parse_args().config))

    def stop(number: int, frame: Optional[FrameType]) -> None:
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, stop)
    print(f"MAAS at {server.url}", flush=True)
    server.note = lambda line: print(line, flush=True)
    try:
        server.serve_forever()
    finally:
        server.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
