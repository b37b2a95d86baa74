# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a ledger costs each host-task is what its worker does; what can be done before the fork is done there.

How much that is stands in tests/bench/ledgers.py; a time is no test on a busy machine.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parents[2] / "bench"
#: Loads what an action plugin loads, forks, and prints which modules the worker had to load for its ledger.
_RUN = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
import ledgers
ledgers.forked(sys.argv[2], range(1))
reading, writing = os.pipe()
if os.fork() == 0:
    before = set(sys.modules)
    ledgers.host_task(sys.argv[2], 0)
    os.write(writing, json.dumps(sorted(set(sys.modules) - before)).encode())
    os._exit(0)
os.close(writing)
print(os.read(reading, 65536).decode())
"""


def test_a6_a_worker_loads_nothing_for_its_ledger(url: str) -> None:
    argv = [sys.executable, "-c", _RUN, str(BENCH), url]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == []
