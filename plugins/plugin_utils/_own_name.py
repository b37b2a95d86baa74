# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a machine calls itself, where it is the node: asked where its scheduler's node has got another name. PRIVATE."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _machine

_MARK = "=gpufleet-name="
#: One round trip: who the machine is, and its name.
QUESTION = f"{_machine.question('/sys/class/dmi/id')}; echo {_MARK}; cat /proc/sys/kernel/hostname"


def told(answer: Mapping[str, Any]) -> str:
    """The name in the answer to the question."""
    return str(answer.get("stdout", "")).replace("\r", "").partition(f"{_MARK}\n")[2].strip()


def demand(
    ledger: Ledger, node_id: str, host: str, run_id: str, inventory: Mapping[str, Any], answer: Mapping[str, Any]
) -> None:
    """:raises WrongMachine: where another machine than the node gave the answer.

    :raises ConfigError: where nobody can tell.
    """
    proven = _machine.proven(ledger, node_id, run_id)
    if proven is False:
        raise _machine.refused(ledger, node_id, host)
    if proven is None:
        machine = _machine.told(str(answer.get("stdout", "")), str(answer.get("stderr", "")))
        _machine.demand(host, _machine.known(ledger, node_id, inventory), machine)
        _machine.not_of_another(ledger, node_id, host, machine)


def same(own: str, name: str) -> bool:
    """By their short names: a machine may call itself by its whole one."""
    short = [one.lower().partition(".")[0] for one in (own, name)]
    return bool(own) and short[0] == short[1]
