# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the main process does once, so that none of its workers does it first. PRIVATE to the collection."""

from __future__ import annotations

import gc
import os
from contextlib import suppress

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.holder import this_run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.lifeline import LedgerLifeline
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger, warm


def before_the_fork() -> None:
    """Walk through the door and the ledger once, then put what lives out of the garbage collector's sight.

    A first time costs several times a second one, and a full collection in a worker would touch, and so copy, every
    page that it shares with the main process.
    """
    ArgumentSpecValidator({"name": {"type": "str"}, "way": {"choices": ["a"]}}).validate({"name": "x", "way": "a"})
    with suppress(FleetError):
        warm()
        with Ledger("sqlite://") as ledger:
            node = ledger.identify("warm", aliases=[("serial", "warm")])
            run = this_run(os.getppid())
            line = LedgerLifeline(
                lambda: ledger, run, verb="warm", intent={}, identify=lambda name: node, default_node="warm"
            )
            line.before_write("warm", destructive=False)
            line.beat()
    gc.freeze()
