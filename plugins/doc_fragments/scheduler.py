# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """How a scheduler is reached."""

    DOCUMENTATION = r"""
options:
  scheduler:
    description:
      - The scheduler that the node belongs to; V(none) for a node that no scheduler knows.
      - Taken from the host variable C(gpufleet_scheduler).
    type: str
    choices: [slurm, none]
  scheduler_conf:
    description:
      - Path of C(slurm.conf) on the machine that runs the Slurm commands; the commands' own default without it.
      - Taken from the host variable C(gpufleet_scheduler_conf).
    type: path
"""
