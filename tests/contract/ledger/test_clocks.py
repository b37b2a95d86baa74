# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One clock dates what is compared: the database's, which all controllers share."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger

#: A controller whose clock is ten minutes ahead records that a node was imaged.
AHEAD = """
import sys, time
real = time.time
time.time = lambda: real() + 600.0
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
with Ledger(sys.argv[1]) as ledger:
    node = ledger.identify("n1", aliases=[("serial", "GF0001")])
    ledger.append("run", [(node, Event("state", "imaging", {}))])
    ledger.record_attempt("run", node, "reboot", "xid:79")
"""


@pytest.mark.parametrize("url", [pytest.param("postgresql", marks=pytest.mark.slow)], indirect=True)
def test_v8_a_controller_that_is_ahead_dates_no_imaging_into_the_future(url: str, ledger: Ledger) -> None:
    """Else the window of the kernel log, which begins at the imaging, would be five seconds long."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", AHEAD, url], check=True, timeout=60, env=env)
    node = ledger.identify("n1", aliases=[("serial", "GF0001")])
    imaged = ledger.latest([node], "state", ["imaging"])[node]
    assert -60.0 < imaged["at"] - ledger.now() <= 0.5
    assert -60.0 < ledger.attempts(node)[0]["at"] - ledger.now() <= 0.5
