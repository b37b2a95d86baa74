# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What lies between a passport and the node's first job: the last look, and how a refusal is told. PRIVATE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    Changed,
    ConfigError,
    FleetError,
    TrustError,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust import policy as policies
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.identity import normal_identity
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.statement import strangers
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Event

#: The event of a look at a node on which it may be given work, and the seconds for which it may.
KIND, NAME, SECONDS = "look", "last", 600.0
#: What of a machine is compared when a look is renewed, and where it was read on the node.
_SEEN = ("serial", "system_uuid", "gpu_uuids")
_PATHS = ("nvidia_smi", "dmi_path", "boot_id_path")


class Rebooted(str):
    """Why a passport admits nothing where the node runs another boot: no fault of its own, it is judged again."""

    __slots__ = ()


def since_gates(summary: Mapping[str, Any], machine: Mapping[str, Any] | None, params: Mapping[str, Any]) -> list[str]:
    """Is it the boot that the gates have seen? What they found is of that boot, and of no other one."""
    if not params["same_boot"]:
        return []
    seen, now = summary.get("boot_id") or "", (machine or {}).get("boot_id") or ""
    if seen and seen == now:
        return []
    return [Rebooted(f"boot: its gates looked at the boot {seen or 'unknown'}, the node now runs {now or 'unknown'}")]


def last_look(summary: Mapping[str, Any], machine: Mapping[str, Any] | None, params: Mapping[str, Any]) -> Event:
    """On record, for who gives the node its first job; with what it takes to look once more."""
    seen = {key: (machine or {}).get(key) for key in _SEEN}
    asked = {path: params[path] for path in _PATHS}
    return Event(
        KIND, NAME, {"passport": summary["digest"], "boot_id": summary["boot_id"], "seen": seen, "asked": asked}
    )


def looked_again(look: Mapping[str, Any], machine: Mapping[str, Any], ctx: Context) -> Event:
    """A look that grew old while its host waited for its turn, renewed at the node itself.

    :param look: what that look has on record; machine: who answers now.
    :raises FleetError: where the node is no longer what was seen.
    """
    reasons = [*strangers(normal_identity(look["seen"]), machine), *since_gates(look, machine, {"same_boot": True})]
    if reasons:
        wanted, do = "the node as its last look saw it", "validate the node again (playbook revalidate)"
        raise refusal("the node has changed since its last look", reasons, ctx, wanted, do)
    return Event(KIND, NAME, dict(look))


def refusal(what: str, reasons: Sequence[str], ctx: Context, wanted: str, do: str) -> FleetError:
    """One that names every reason. Where each of them lies with what the site has set, or in that the node was merely
    booted, the node is not called untrusted, for which it would be quarantined."""
    kind: type[FleetError] = TrustError
    excused = all(isinstance(reason, (policies.Setting, Rebooted)) for reason in reasons)
    if excused and any(isinstance(reason, policies.Setting) for reason in reasons):
        said = [reason.do for reason in reasons if isinstance(reason, policies.Setting)]
        kind, do = ConfigError, f"{'; '.join(dict.fromkeys(said))} ({do})"
    elif excused:
        kind, do = Changed, f"run it again, or {do}: its gates have to see this boot"
    return kind(
        f"{what}: {'; '.join(reasons)}",
        node=ctx.node,
        wanted=wanted,
        do=do,
        details={"reasons": [*map(str, reasons)], "valid": False},
    )
