# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""May a node be given work? PRIVATE to the collection."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import EvidenceMissing
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.event import FailureStands
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.lifecycle import bar_to_service
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._moment import seen_at
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust import dsse
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust import policy as policies
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.grounds import standing
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.last_look import KIND, NAME, SECONDS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.statement import deployment_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import FAIL, PASS
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._history import evidence
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._soaking import soaks


def lacks(ledger: Ledger, node_id: str, *, looked: bool = True) -> str:
    """What the node lacks by the ledger to be given work, in words; empty where nothing is missing.

    A deploy that was sent counts as an imaging, whether or not the state says so.

    :param looked: must somebody have looked at the node since its gates? Check mode records no look.
    """
    found = evidence(ledger, node_id)
    state = ledger.latest([node_id], "state").get(node_id)
    known = {"passport": found["stored"], "imaging": found["imaged"], "quarantined": found["quarantined"]}
    # Another run may have found something since the last look: in service the node would take jobs before it is told.
    known["standing"] = standing(found, policies.of_passport(found["stored"]))
    missing = bar_to_service(state["name"] if state else "discovered", known, ledger.now()) or _soak(
        ledger, node_id, found["imaged"]
    )
    if not missing and found["imaged"] and _deployment_of(found["stored"]) != found["deploy_id"]:
        return "a passport of the deployment that the node was imaged by (node_passport with state issued)"
    return missing or (_unseen(ledger, node_id, found["stored"]) if looked else "")


def _soak(ledger: Ledger, node_id: str, imaged: Mapping[str, Any] | None) -> str:
    """Jobs would run beside it."""
    if not soaks(ledger, node_id, imaged):
        return ""
    return "the end of its soak (the playbook burn_in, which waits for it, or ends it with burn_in_stop)"


def _unseen(ledger: Ledger, node_id: str, passport: Mapping[str, Any]) -> str:
    """A GPU may be lost, and a node booted, while its passport is issued: what counts is how it is at the resume."""
    look = _last_look(ledger, node_id)
    if look and look["data"].get("passport") == passport["digest"] and 0 <= ledger.now() - seen_at(look).at <= SECONDS:
        return ""
    return (
        f"a last look at the node, at most {SECONDS:.0f} s ago, by which it runs the boot of its newest passport"
        " (node_passport with state verified and same_boot, as in the role join)"
    )


def renewable(ledger: Ledger, node_id: str, run_id: str) -> Mapping[str, Any] | None:
    """The last look where nothing but its age stands against it: taken by this very run, whose other hosts were slow.

    What an earlier run has seen is looked at anew as a whole, from the gates on.
    """
    look = _last_look(ledger, node_id)
    if (
        not look
        or look["run_id"] != run_id
        or not look["data"].get("asked")
        or ledger.now() - seen_at(look).at <= SECONDS
    ):
        return None
    return None if lacks(ledger, node_id, looked=False) else look["data"]


def demand_quiet(log: Mapping[str, Any], node: str) -> None:
    """A look is renewed by all that it rests on: boot and GPUs are the same also on a node whose links have failed.

    :param log: what the gate kernel_log_gate tells of a reading that began after the look that is renewed.
    :raises FleetError: where that is no pass.
    """
    if log.get("verdict") == PASS:
        return
    told = str(log.get("msg") or log.get("verdict") or "no verdict")
    if log.get("verdict") == FAIL:
        raise FailureStands(
            f"the kernel log since the node's last look speaks against it: {told}",
            node=node,
            wanted="a kernel log that passes (kernel_log_gate) since that look",
            do="see that finding; the hold stays",
            details={"remedy": str(log.get("remedy") or "")},
        )
    raise EvidenceMissing(
        "the node's last look is too old, and its kernel log since then could not be read",
        node=node,
        wanted=f"a last look of the last {SECONDS:.0f} s, or one that is renewed with the kernel log",
        seen=told,
        do="run the playbook readmit, which looks anew",
    )


def looked_ago(ledger: Ledger, node_id: str) -> float | None:
    """How many seconds ago the last look at the node began; None where nobody has looked."""
    look = _last_look(ledger, node_id)
    return max(ledger.now() - seen_at(look).at, 0.0) if look else None


def looked_boot(ledger: Ledger, node_id: str) -> str:
    """The boot that it saw, in the node's own words; empty where nobody has looked."""
    look = _last_look(ledger, node_id) if node_id else None
    return str(look["data"].get("boot_id") or "") if look else ""


def looked_gpus(ledger: Ledger, node_id: str) -> int:
    """How many GPUs it counted on the node itself; none where nobody has looked."""
    look = _last_look(ledger, node_id) if node_id else None
    return len(((look or {}).get("data", {}).get("seen") or {}).get("gpu_uuids") or ())


def _last_look(ledger: Ledger, node_id: str) -> dict[str, Any] | None:
    return ledger.latest([node_id], KIND, [NAME]).get(node_id)


def _deployment_of(stored: Mapping[str, Any] | None) -> str:
    predicate = json.loads(dsse.payload_of(stored["envelope"])).get("predicate") if stored else {}
    return deployment_of(predicate or {})
