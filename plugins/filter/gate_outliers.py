# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Jinja filter ``gpufleet.baremetal.gate_outliers``; it is documented beside this file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._outliers.plain import compared
from ansible_collections.gpufleet.baremetal.plugins.module_utils._outliers.rule import BAD, LOW, PEERS


def gate_outliers(figures: Any, bad: str = LOW, peers: int = PEERS) -> dict[str, dict[str, Any]]:
    if not isinstance(figures, Mapping):
        raise AnsibleFilterError(f"gate_outliers takes figures by entity, and not {type(figures).__name__}")
    if bad not in BAD:
        raise AnsibleFilterError(f"gate_outliers: bad is one of {', '.join(BAD)}, and not {bad}")
    if isinstance(peers, bool) or not isinstance(peers, int) or peers < PEERS:
        raise AnsibleFilterError(f"gate_outliers: peers is a whole number from {PEERS} on, and not {peers}")
    return compared(figures, bad, peers)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., dict[str, dict[str, Any]]]]:
        return {"gate_outliers": gate_outliers}
