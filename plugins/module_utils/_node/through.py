# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Does a node's SSH server greet whoever comes by a jump host or a proxy command? PRIVATE to the collection.

OpenSSH goes that way as it will for Ansible. It is told to log in by no means, so that what counts is that the node's
server has spoken, and the keys of that server are no matter here; those of the jump host are checked as ever.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from typing import Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Unreachable
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._node import openssh

#: What OpenSSH would go by. Of one that was set to "none" it says nothing.
_WAYS = ("proxyjump", "proxycommand")
#: Where the way is long: login at the jump host, then the node.
_LONGER = 10.0
_SPOKE = "Remote protocol version"
#: The jump host says so of the node behind it; else nobody knows which of the two was silent. What it does not open for
#: another reason, such as a name that it does not know, says nothing of the node.
_NODE_SILENT = re.compile(r"open failed: connect failed: ((?:Connection (?:refused|timed out)|No route to host).*)")
#: Whoever greeted then was the jump host, which is told to speak as loudly: what came after it closed, was silent, or
#: said what no SSH server says.
_NOT_IT = re.compile(
    r"open failed|stdio forwarding failed|^kex_exchange_identification:|^(?!debug).*banner exchange", re.M
)
_ONCE: Sequence[str] = (
    *("-v", "-o", "BatchMode=yes", "-o", "PreferredAuthentications=none", "-o", "ControlPath=none"),
    *("-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "NumberOfPasswordPrompts=0"),
)


def is_led(words: Sequence[str], address: str) -> bool:
    """Does a way of its own lead to this node, by these options or by the user's file of settings?

    :raises FleetError: where OpenSSH does not say.
    """
    told = openssh.settings(words, address)
    return any(told.get(way, "").strip() for way in _WAYS)


def answers(words: Sequence[str], address: str, timeout: float) -> tuple[str, str]:
    """Empty where its SSH server has spoken, else in words what happened, and of what kind where that is not the node's
    own silence."""
    limit = timeout + _LONGER
    done = _ran(
        ["ssh", *_ONCE, *words, "-o", f"ConnectTimeout={max(1, round(limit))}", "--", address, "exit"], limit + 5
    )
    if done is None:
        return "the way by its jump host or proxy command led nowhere in time", Unreachable.kind
    if _SPOKE in done.stderr and not _NOT_IT.search(done.stderr):
        return "", ""
    silent = _NODE_SILENT.search(done.stderr)
    if silent:
        return f"by its jump host: {short(silent[1], 120)}", ""
    said = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith("debug1:")]
    return f"by its jump host or proxy command: {short(' '.join(said[-2:]), 200) or 'no answer'}", Unreachable.kind


def _ran(argv: Sequence[str], limit: float) -> Optional[subprocess.CompletedProcess[str]]:
    try:
        return subprocess.run(  # pylint: disable=ansible-bad-function  # the action has no module
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=limit, check=False, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
