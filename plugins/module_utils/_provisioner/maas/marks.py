# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a machine is to MAAS besides its record: its tags, and whether it is a DPU. PRIVATE to the collection.

What is known of it, and why the code is as it is:

* A change of a machine's own record sets no tag, with 200. A tag takes machines by an operation of its own, and ignores
  those that it does not know, with 200 as well: how many it took is in the answer, and which ones in their records.
* What is put by hand under a tag with a definition is lost when MAAS next works that out.
* DPUs: BlueField-3 by its own BMC, arm64 alone; said when it is entered, and never later. No release switches it off or
  erases it. It needs a kernel hwe-22.04 or newer, and where nobody says which, MAAS takes what the site has set for all
  its machines (default_min_hwe_kernel) and refuses it with that (clean in ``maasserver/forms/__init__.py`` of 3.7.3).
* A DPU has its power from the machine that it is in, which therefore stays on while it is commissioned or deployed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    ConfigError,
    FleetError,
    NotProven,
    Refused,
    Unsupported,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.maas import record, tables
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.maas.api import MaasApi
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.said import flag
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Wanted

_DPU_ARCHITECTURE, _DPU_KERNEL = "arm64/generic", "hwe-22.04"
_DPU_VERSION = (22, 4)
_DPU_SINCE = (3, 7)
KERNEL = "min_hwe_kernel"


def lacking(extras: Mapping[str, Any], standing: Sequence[str]) -> list[str]:
    """Tags that the option ``driver`` names, and the machine has not."""
    return sorted({str(one) for one in extras.get("tags") or ()} - set(standing))


def untakeable(api: MaasApi, tags: Sequence[str]) -> FleetError | None:
    """Why a machine cannot be given one of these tags by hand; None where it can be given all."""
    for tag in tags:
        known = api.get(f"tags/{quote(tag, safe='')}/")
        if not isinstance(known, dict):
            return ConfigError(
                f"MAAS has no tag {tag}",
                address=api.address,
                do="make it there first, with the kernel options that it is to bring, or correct tags in the option"
                " driver",
            )
        if known.get("definition"):
            return ConfigError(
                f"MAAS itself works out which machines have the tag {tag}",
                address=api.address,
                seen=f"its definition is {known['definition']}",
                do="leave it out of tags in the option driver",
            )
    return None


def give(api: MaasApi, tag: str, system_id: str, host: str) -> None:
    """Read back by whoever calls: an id that it does not know is ignored."""
    path = f"tags/{quote(tag, safe='')}/"
    api.write("POST", path, [("add", system_id)], op="update_nodes", saying=f"add={system_id}", host=host)


def not_given(raw: Mapping[str, Any], tags: Sequence[str]) -> FleetError | None:
    """What does not read back; None where all do."""
    left = sorted(set(tags) - {str(one) for one in raw.get("tag_names") or ()})
    if not left:
        return None
    return NotProven("MAAS took the tag, and it does not read back", wanted=", ".join(left), seen="not in tag_names")


def _is_dpu(extras: Mapping[str, Any]) -> bool:
    return flag(extras.get("is_dpu"))


def as_dpu(extras: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Left out, its behaviour is not defined."""
    return [("is_dpu", "true")] if _is_dpu(extras) else []


def kernel(extras: Mapping[str, Any], raw: Mapping[str, Any]) -> dict[str, str]:
    """The oldest kernel that the machine may run, where the site says one; and a DPU's that has none yet."""
    given = str(extras.get(KERNEL) or "")
    default = _DPU_KERNEL if _is_dpu(extras) and not raw.get(KERNEL) else ""
    return {KERNEL: given or default} if given or default else {}


def _too_old(name: str) -> bool:
    """For a DPU. Of one that is not named by a release, such as hwe-rolling, MAAS tells."""
    found = re.match(r"(hwe|ga)-(\d+)\.(\d+)", name)
    if not found:
        return False
    version = (int(found[2]), int(found[3]))
    return version < _DPU_VERSION or (version == _DPU_VERSION and found[1] == "ga")


def no_dpu(extras: Mapping[str, Any], architecture: str) -> FleetError | None:
    """Why this machine cannot be entered as a DPU; None where it can, or is none."""
    if not _is_dpu(extras):
        return None
    if _too_old(str(extras.get(KERNEL) or "")):
        return ConfigError(
            "MAAS takes no DPU of such a kernel",
            wanted=f"{_DPU_KERNEL} or newer",
            seen=f"{KERNEL} {extras[KERNEL]}",
            do=f"correct {KERNEL} in the option driver, or leave it out",
        )
    if architecture == _DPU_ARCHITECTURE:
        return None
    return ConfigError(
        "MAAS takes no DPU of such an architecture",
        wanted=_DPU_ARCHITECTURE,
        seen=architecture,
        do="set cpu_arch in the option properties to arm64, or leave out is_dpu",
    )


def without_power(host: str, power: str | None, address: str) -> FleetError | None:
    """Why a DPU boots nothing now: the machine that it is in is off, or not there."""
    if power == "on":
        return None
    return Refused(
        "a DPU has its power from the machine that it is in, and that is not on",
        address=address,
        wanted=f"{host} switched on, until the DPU is deployed",
        seen=f"its power is {power}" if power else f"MAAS has no machine {host}",
        do="deploy that one first, or switch it on, or correct dpu_host in the option driver; nothing was changed",
    )


def undeclared(raw: Mapping[str, Any], extras: Mapping[str, Any]) -> FleetError | None:
    """Why this machine is not led on as a node: MAAS has it as a DPU, and the inventory does not; else None."""
    if not raw.get("is_dpu") or _is_dpu(extras):
        return None
    return ConfigError(
        "MAAS has this machine as a DPU, and the inventory says nothing of it",
        wanted="a node, or is_dpu in the option driver",
        seen=f"is_dpu of {raw.get('hostname')} ({raw.get('system_id')})",
        do="take it out of the inventory, or say is_dpu in the option driver; nothing was changed",
    )


def unknown_there(api: MaasApi, extras: Mapping[str, Any]) -> FleetError | None:
    """Why this MAAS enters no DPU: an older one overlooks the word, and has it as any other machine."""
    if not _is_dpu(extras):
        return None
    told = str((api.get("version/") or {}).get("version") or "")
    found = re.match(r"(\d+)\.(\d+)", told)
    if found and (int(found[1]), int(found[2])) >= _DPU_SINCE:
        return None
    return Unsupported(
        "this MAAS knows no DPUs",
        address=api.address,
        wanted="MAAS 3.7 or newer",
        seen=told or "no version",
        do="leave out is_dpu, or upgrade it; nothing was changed",
    )


def overridden(raw: Mapping[str, Any], wanted: Wanted) -> bool:
    """Has a person said that a machine which failed its tests goes on, and why?

    :raises Refused: where nobody has said why.
    """
    if raw.get("status") != tables.FAILED_TESTING or not record.options(wanted.extras, tables.OVERRIDES):
        return False
    said = (tables.OVERRIDE, "true") in record.options(wanted.extras, tables.OVERRIDES)
    if said and not wanted.forced:
        raise Refused(
            f"{tables.OVERRIDE} is taken with a reason alone",
            node=wanted.host,
            wanted="force_reason, which is recorded",
            seen="the machine has failed its tests, and nobody says why it goes on all the same",
            do=f"give force_reason, or leave {tables.OVERRIDE} out of the option driver: it is tested anew then",
        )
    return said


def not_startable(raw: Mapping[str, Any], address: str) -> FleetError | None:
    """Off it switches any machine that is not locked; on, one of an owner alone (409 else)."""
    owner, locked = raw.get("owner"), bool(raw.get("locked"))
    if owner and not locked:
        return None
    told: dict[str, Any] = {"address": address, "seen": f"locked: {locked}, owner: {owner or 'nobody'}"}
    if locked:
        do = "lift the hold (state serviceable), or ask whoever locked it; nothing was changed"
        return Refused("MAAS switches on no machine that is locked", wanted="no lock", do=do, **told)
    do = "deploy it, or ask its BMC (redfish_power); nothing was changed"
    return Refused("MAAS switches on no machine without an owner", wanted="an owner", do=do, **told)


def not_erasable(raw: Mapping[str, Any]) -> FleetError | None:
    """Who asks for it must not get a release that leaves all as it is."""
    if not raw.get("is_dpu"):
        return None
    return Unsupported(
        "MAAS erases no disk of a DPU",
        seen="is_dpu",
        do="leave out erase; deploy it anew for a clean state. Nothing was changed",
    )
