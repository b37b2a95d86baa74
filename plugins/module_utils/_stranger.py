# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a verb refuses a node that works for somebody else, as far as our ledger knows. PRIVATE to the collection."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import NotAdopted

#: The playbook that takes a node that works into the ledger, and how it is called for one.
ADOPT = "adopt"
COMMAND = "ansible-playbook gpufleet.baremetal.adopt -i INVENTORY --limit {host}"
#: One that was adopted is taken as it is now: who says so has seen that what runs there is still theirs.
AGAIN = f"{COMMAND} -e adopt_again=true"

SOMEBODY_ELSES = (
    "this node is at work, or was when its scheduler last heard of it, or a person holds it there, and our ledger has"
    " neither admitted nor adopted it: it is somebody else's until a person adopts it"
)


def not_adopted(
    host: str, seen: str, *, address: str = "", details: dict[str, Any] | None = None, before: str = ""
) -> NotAdopted:
    """:param seen: what was seen where. before: the write that is refused."""
    return NotAdopted(
        SOMEBODY_ELSES,
        node=host,
        address=address,
        wanted="a node that our ledger knows, or one that nobody uses" + (f", before: {before}" if before else ""),
        seen=seen,
        do=f"if it is one of this fleet, adopt it: {COMMAND.format(host=host)}; if another ledger knows it, set"
        " gpufleet_ledger_url to that one; else take it out of the inventory. force_reason overrides this on record;"
        " nothing was changed",
        details=details,
    )
