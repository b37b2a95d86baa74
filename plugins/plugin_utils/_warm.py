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
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.connection import load_postgresql
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.holder import this_run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.lifeline import LedgerLifeline
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event


def before_the_fork() -> None:
    """Load what workers need, walk through the ledger once, and put what lives out of the garbage collector's sight.

    A first time costs several times a second one: without the walk a host-task of 69 ms costs 88. A full collection in
    a worker would touch, and so copy, every page that it shares with the main process: without the freeze it costs 85
    (medians of five rounds of 100 nodes, on a busy machine).
    """
    load_postgresql()
    ArgumentSpecValidator({"name": {"type": "str"}, "way": {"choices": ["a"]}}).validate({"name": "x", "way": "a"})
    with suppress(FleetError):  # without SQLAlchemy the verb itself says what is missing
        _walk()
    gc.freeze()


def _walk() -> None:
    """What a task that writes asks of the ledger, on one in memory."""
    aliases = [("serial", "warm"), ("mac", "020000000001")]
    with Ledger("sqlite://") as ledger:
        run = this_run(os.getppid())
        line = LedgerLifeline(
            lambda: ledger,
            run,
            verb="warm",
            intent={},
            identify=lambda name: ledger.identify(name, aliases=aliases),
            default_node="warm",
        )
        line.before_write("warm", destructive=False)
        line.beat()
        node = ledger.identify("warm", aliases=aliases)
        ledger.append("warm", [(node, Event("note", "warm", {"text": "a token"}))], secrets=frozenset({"secret"}))
        ledger.latest([node], "note")
