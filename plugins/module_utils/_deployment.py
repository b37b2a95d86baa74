# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a deployment is known again on the node that it reached. PRIVATE to the collection.

Who orders a deployment and who looks whether it arrived are two ports that do not ask each other; by this they mean the
same one. Runs on nodes: standard library only, Python 3.9 and newer.
"""

from __future__ import annotations

import hashlib
import re

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError

#: By what a deployment is known on its node: the order takes the deployment's id there; the node is stateless, and its
#: boot from the network is the deployment; or by nothing, so that none is ever proven.
NONCE, NETWORK_BOOT, NONE = "nonce", "network_boot", "none"
PROOFS = (NONCE, NETWORK_BOOT, NONE)

#: Stands before the id, wherever an order takes it.
_MARK = "gpufleet.deploy="
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}\Z")
_MARKED = re.compile(re.escape(_MARK.encode()) + rb"([A-Za-z0-9._-]{1,64})")


def marked(deploy_id: str) -> str:
    """The words that an order takes to the node.

    :raises ConfigError: where the id is none that every way there leaves as it is.
    """
    if not _ID.match(deploy_id):
        raise ConfigError(
            "the id of a deployment goes to the node with it, on the kernel's command line among others",
            wanted="1 to 64 letters, digits, dots, underscores and minuses",
            seen=deploy_id,
            do="correct deploy_id",
        )
    return _MARK + deploy_id


def without(text: str) -> str:
    """A command line without such words."""
    return " ".join(word for word in text.split() if not word.startswith(_MARK))


def ids_in(content: bytes) -> list[str]:
    """The ids of all deployments that are told there, in their order."""
    return [found.decode("ascii") for found in _MARKED.findall(content)]


def ids_told(text: str) -> list[str]:
    """The same of what a peer told: JSON may hold half a character, which no encoding has."""
    return ids_in(text.encode("utf-8", "replace"))


def digest(deploy_id: str) -> str:
    """What a node is told of the id that it must show: by this alone it cannot say it."""
    return "sha256:" + hashlib.sha256(deploy_id.encode()).hexdigest()
