# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Has this run verified the image that it is about to deploy? PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._image import declaration
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger

_GATE = "image_artifact"


def approved(
    ledger: Ledger, run_id: str, ids: Mapping[str, str], images: Mapping[str, Mapping[str, Any] | None]
) -> dict[str, bool]:
    """By host, whether this run's newest look at the artifact passed, and was one at this very declaration.

    An earlier run's does not count: what lies at the address may be another file by now. A pass of a run beside this
    one takes nothing away from it; what that one found wrong does.

    :param ids: node id by host; a host that the ledger does not know has no verdict.
    :param images: by host the image as it is declared.
    """
    newest = ledger.latest([node_id for node_id in ids.values() if node_id], "verdict", [_GATE])
    own = {node: _of_the_run(ledger, node, event, run_id) for node, event in newest.items()}
    return {host: _passed(own.get(ids.get(host, "")), run_id, image) for host, image in images.items() if image}


def _of_the_run(ledger: Ledger, node_id: str, newest: Mapping[str, Any], run_id: str) -> Mapping[str, Any]:
    if newest["run_id"] == run_id or newest["data"].get("verdict") != "pass":
        return newest
    looks = ledger.history(node_id, kinds=("verdict",), names=(_GATE,))
    own = [at for at, event in enumerate(looks) if event["run_id"] == run_id]
    if not own or any(event["data"].get("verdict") != "pass" for event in looks[own[-1] :]):
        return newest
    return looks[own[-1]]


def _passed(event: Mapping[str, Any] | None, run_id: str, image: Mapping[str, Any]) -> bool:
    if event is None or event["run_id"] != run_id or event["data"].get("verdict") != "pass":
        return False
    seen = event["data"].get("image") or {}
    return bool(seen.get("declared") == declaration(image))
