# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """Which verdicts fail the host."""

    DOCUMENTATION = r"""
options:
  fail_on:
    description:
      - Which verdicts fail the host. V(inconclusive) fails on everything but a pass, V(fail) on a failure alone,
        V(never) on nothing; the verdict is returned and recorded in any case.
    type: str
    choices: [fail, inconclusive, never]
    default: inconclusive
"""
