# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """Options of the verbs that watch a whole batch from one task."""

    DOCUMENTATION = r"""
options:
  after:
    description:
      - The names of registered results, most often one. Only hosts for which all of them are there, and neither failed
        nor skipped, take part. Of the result of another verb for the whole batch a host's own verdict counts.
      - Where some hosts skip a task, name it with the one before it, as in V(gate_dcgm or gate_kernel_log). For each
        host the first of them counts that it did not skip.
      - Name the task right before this one. A host whose block was rescued is alive for Ansible, and would
        otherwise be waited for until the deadline.
    type: list
    elements: str
  nodes:
    description:
      - The nodes to watch, each with C(host) and what the verb must know of it.
      - The action fills it from the host variables of the live hosts of the batch.
      - Each host has the connection that its own variables name; what it lacks is not taken from the host that runs the
        task. What the task or the play says is meant for all hosts.
    type: list
    elements: dict
"""
