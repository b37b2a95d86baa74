# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """Options of every verb that writes: who the node is and where its history lies."""

    DOCUMENTATION = r"""
options:
  node_id:
    description:
      - The ledger's own id of the node.
      - Used by the action on the controller alone; taken from the host variable C(gpufleet_node_id).
        Where that is not set, the node is found by C(gpufleet_serial), then by C(gpufleet_boot_mac).
    type: str
  ledger_url:
    description:
      - Where the ledger lies, as an SQLAlchemy URL, for instance V(sqlite:////var/lib/gpufleet/ledger.sqlite) or
        V(postgresql+psycopg://gpufleet@db.example.com/gpufleet).
      - Used by the action on the controller alone; taken from the host variable C(gpufleet_ledger_url), then from
        the environment variable E(GPUFLEET_LEDGER_URL), then V(/var/lib/gpufleet/ledger.sqlite), which is one for all
        users of the machine.
      - In a container and in a job of an automation controller it must be named, and a file must lie in a folder that
        is mounted from outside.
    type: str
  force_reason:
    description:
      - Do a destructive thing without fresh evidence that the node is drained or unknown to the scheduler.
      - The reason is recorded in the ledger with the name of the run.
    type: str
"""
