# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""In what older releases of MAAS are another peer to the driver. Each says where MAAS's public source has it.

Sources: github.com/canonical/maas at the tags 3.4.10, 3.5.13, 3.6.5 and 3.7.3. What is the same in all of them is not
here: statuses and their transitions, the filters that the driver uses, allocate, deploy, commission, test, lock,
annotations.
"""

from __future__ import annotations

from typing import Any

NEWEST = "3.7.3"
#: What stands in the answer of ``version/``, by the release that a server is started as.
TOLD = {"3.4": "3.4.10", "3.5": "3.5.13", "3.6": "3.6.5", "3.7": NEWEST}
#: Key of a machine -> the first release that has it (DISPLAYED_MACHINE_FIELDS in maasserver/api/machines.py).
_KEYS = {"error_description": (3, 5), "enable_kernel_crash_dump": (3, 6), "is_dpu": (3, 7)}
#: The same of a file of a boot resource, and of a resource (boot_resource_file_to_dict and boot_resource_to_dict in
#: maasserver/api/boot_resources.py).
_FILE_KEYS = {"filename_on_disk": (3, 5)}
_RESOURCE_KEYS = {"base_image": (3, 5)}


def number(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def machine(told: dict[str, Any], version: str) -> dict[str, Any]:
    return _without(told, _KEYS, version)


def resource(told: dict[str, Any], version: str) -> dict[str, Any]:
    """With its sets, if it comes with them."""
    for one in (told.get("sets") or {}).values():
        one["files"] = {name: _without(file, _FILE_KEYS, version) for name, file in one["files"].items()}
    return _without(told, _RESOURCE_KEYS, version)


def takes_dpus(version: str) -> bool:
    """Before that the form has no such field, and overlooks it as any other (set_up_is_dpu_field in
    maasserver/forms/__init__.py)."""
    return number(version) >= (3, 7)


def release_is_a_form(version: str) -> bool:
    """Until 3.4 ``release`` reads its options one by one, by formencode's StringBool out of request.POST, and how it is
    to erase makes nothing erase (release in maasserver/api/machines.py, release_or_erase in
    maasserver/models/node.py); since 3.5 it is a Django form (ReleaseForm)."""
    return number(version) >= (3, 5)


def keeps_files_by_region(version: str) -> bool:
    """Until 3.4 a file that is uploaded lies in the database, whole for all region controllers (boot_resources.py,
    BootResourceFileUploadHandler: largefile)."""
    return number(version) >= (3, 5)


def progress(held: int, size: int, regions: int, version: str) -> float:
    """Until 3.4 it is no percentage, but the whole size by what has come (progress in maasserver/models/largefile.py).
    Since then it is one of what all region controllers are to have (sync_progress in
    maasserver/models/bootresourcefile.py)."""
    if not keeps_files_by_region(version):
        return size / held if held else 0
    return 100.0 * held / ((size or 1) * regions)


def _without(told: dict[str, Any], since: dict[str, tuple[int, int]], version: str) -> dict[str, Any]:
    return {key: value for key, value in told.items() if number(version) >= since.get(key, (0, 0))}
