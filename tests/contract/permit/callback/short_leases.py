# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Leases of a run that live for five seconds, so that a test sees them expire."""

from __future__ import annotations

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: short_leases
type: aggregate
short_description: Shorten what a lease lives
description: It is no part of the collection.
"""


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "short_leases"
    CALLBACK_NEEDS_ENABLED = True

    def v2_playbook_on_start(self, playbook: object) -> None:
        from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import lease
        from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _run_ends as run_ends

        lease.LEASE_SECONDS, run_ends.BEAT_SECONDS = 5.0, 0.5
