# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""By which way a provisioner is asked, and what follows from that. PRIVATE to the collection."""

from __future__ import annotations

from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import names


def powerless(name: str, url: object) -> bool:
    """Does this provisioner, asked at this address, leave it to others to boot a machine?"""
    return name in names.POWERLESS or (name in names.POWERLESS_BY_SERVICE and by_service(url))


def by_service(url: object) -> bool:
    """Is this the address of a service, and no folder of commands?"""
    return "://" in str(url or "")
