# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Can MAAS boot and deploy this machine with what lies there as boot resources? PRIVATE to the collection."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    BadAnswer,
    ConfigError,
    FleetError,
    Refused,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.maas import record
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.maas.api import MaasApi
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Image, Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._transport import short

Resources = Sequence[Mapping[str, Any]]


def listed(api: MaasApi) -> Resources:
    """All boot resources, without their files."""
    found = api.get("boot-resources/")
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise BadAnswer("GET boot-resources/ is no list of them", address=api.address, seen=short(found))
    return found


def kind_of(architecture: Any) -> str:
    """``amd64/generic`` is amd64."""
    return str(architecture or "").partition("/")[0]


def no_boot_image(api: MaasApi, resources: Resources, kind: str) -> FleetError | None:
    """What commissions and deploys machines of this architecture is an image as well."""
    known = {kind_of(one.get("architecture")) for one in resources}
    if kind in known:
        return None
    return Refused(
        f"MAAS has no boot image for {kind}",
        address=api.address,
        seen=f"images for {', '.join(sorted(known)) or 'nothing'}",
        do="let MAAS import its images first; without one it takes no machine of that architecture",
    )


def named(resources: Resources, image: Image, kind: str) -> Resources:
    """Those of this image and this architecture; there may be others under its name."""
    known = (image.label, f"custom/{image.label}")
    return [one for one in resources if one.get("name") in known and kind_of(one.get("architecture")) == kind]


def not_uploaded(api: MaasApi, resources: Resources, wanted: Wanted, kind: str) -> FleetError | None:
    """MAAS verifies no signature: what it holds for this architecture must be the very file that was verified."""
    image = wanted.image
    if image is None or record.own_series(wanted.extras):
        return None
    mine = named(resources, image, kind)
    if not mine:
        known = (image.label, f"custom/{image.label}")
        others = ", ".join(sorted(kind_of(one.get("architecture")) for one in resources if one.get("name") in known))
        return Refused(
            f"MAAS has no image {image.label}" + (f" for {kind}" if others else ""),
            address=api.address,
            seen=f"one for {others}" if others else "",
            do="bring it there: provisioner_image, or maas PROFILE boot-resources create"
            f" name=custom/{image.label} architecture={kind}/generic sha256=... content@=FILE",
        )
    return _other_file(api, mine[0], image) if image.sha256 else None


def _other_file(api: MaasApi, resource: Mapping[str, Any], image: Image) -> FleetError | None:
    digests = _digests(api.get(f"boot-resources/{resource['id']}/") or {})
    if image.sha256 in digests:
        return None
    return ConfigError(
        f"MAAS's image {image.label} is not the file that the inventory names",
        address=api.address,
        wanted=image.sha256,
        seen=", ".join(sorted(digests)) or "no file that was uploaded whole",
        do="upload the verified file under this name",
    )


def _digests(held: Mapping[str, Any]) -> set[str]:
    """Of the newest version that is there whole, which is the one that MAAS deploys."""
    whole = {version: one for version, one in (held.get("sets") or {}).items() if one.get("complete", True)}
    return {str(file.get("sha256")) for file in (newest(whole).get("files") or {}).values()}


def newest(sets: Mapping[str, Any]) -> Mapping[str, Any]:
    """What MAAS says of the newest version; nothing where there is none. One that was replaced has no files."""
    there = {version: one for version, one in sets.items() if isinstance(one, dict) and one.get("files")}
    return there.get(max(there, key=_numbers, default=""), {})


def _numbers(version: str) -> list[int]:
    """``20261115.10`` comes after ``20261115.9``."""
    return [int(part) for part in re.findall(r"\d+", version)]
