# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a message says to whoever has swapped hardware. PRIVATE to the collection."""

from __future__ import annotations

#: After "if a part was swapped".
SAY_SO = (
    "say so with the playbook gpufleet.baremetal.identity: -e identity=replaced -e identity_part=board (or chassis), or"
    ' -e identity=moved with the alias that came from another machine, each with -e \'{"identity_why": "WHY"}\'; it'
    " finds the old node by the host's name in the inventory, or by -e identity_was="
)
#: After "what a person took out of the inventory".
UNSAID = (
    "take it off the node with the same playbook: -e identity=retired -e identity_kind=serial -e identity_value= and"
    ' -e \'{"identity_why": "WHY"}\''
)
SWAPPED = f"if a part was swapped, {SAY_SO}"
