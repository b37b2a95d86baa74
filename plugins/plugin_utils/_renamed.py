# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A person says that a provisioner is the known one under another name: the ledger goes by that. PRIVATE."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _moved as moves
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event


def renamed(params: Mapping[str, Any], known_at: Mapping[str, Any], node: str = "") -> list[dict[str, Any]]:
    """What is recorded of a verb that came to its end at another place than the ledger has, for a given reason.

    :param known_at: where the ledger has the node. node: its host, empty for the task's own.
    """
    own, reason = moves.place_of(params), str(params.get("force_reason") or "")
    if not reason or not moves.apart(known_at, own):
        return []
    was = {key: value for key, value in known_at.items() if key != moves.TELLS}
    told = {"from": was, "to": own, "reason": reason}
    return [Event(moves.KIND, moves.RENAMED, told, node).as_dict()]
