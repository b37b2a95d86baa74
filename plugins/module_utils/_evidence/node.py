# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verb behind ``node_evidence``: what a node's own tools say, as they say it. PRIVATE to the collection.

It judges nothing. Runs on nodes: standard library only.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._evidence.readings import READINGS, Reading
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut, whole
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.redact import MASK
from ansible_collections.gpufleet.baremetal.plugins.module_utils._proc import boot_id
from ansible_collections.gpufleet.baremetal.plugins.module_utils._process import Run, run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Result

#: Bytes of one output; a tool that says more is stopped, and what it has said is kept.
LIMIT = 2 * 1024 * 1024
#: Where tools lie too that a login without a shell of its own does not find.
_WAYS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin", "/opt/rocm/bin")


def node_evidence(params: Mapping[str, Any], ctx: Context) -> Result:
    """Read all that was asked for, one after the other, until the time is over."""
    end = time.monotonic() + float(params["timeout"])
    found = {name: _read(name, end) for name in READINGS if name in params["readings"]}
    return Result(changed=False, data={"boot_id": boot_id(), "readings": found})


def _read(name: str, end: float) -> dict[str, Any]:
    reading = READINGS[name]
    left = end - time.monotonic()
    if left <= 0:
        return _told(reading, Run(reading.argv, None, b"", b"", "not tried", 0.0))
    path = os.pathsep.join([os.environ.get("PATH") or os.defpath, *_WAYS])
    ran = run(reading.argv, timeout=min(left, reading.seconds), env={"PATH": path}, limit=LIMIT)
    return _told(reading, ran)


def _told(reading: Reading, ran: Run) -> dict[str, Any]:
    return {
        "what": reading.what,
        "argv": list(ran.argv),
        "ended": ran.ended,
        "rc": ran.rc,
        "seconds": round(ran.seconds, 1),
        "text": whole(reading.hides(ran.text, MASK) if reading.hides else ran.text),
        "errors": cut(ran.cries, 4000),
    }
