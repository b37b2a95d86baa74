# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which keys the option ``driver`` has for Warewulf. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import said
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.warewulf import (
    configure,
    declared,
    fields,
)

#: Keys of a network device.
OF_DEVICE = ("device", "ipaddr", "netmask", "gateway")
_LISTS = ("profiles", "owners", *fields.LISTS, configure.KEY, declared.TAKE)
_OF_IMAGES = ("registry_http", "archive")
_PARTS = (fields, declared, configure)
_KNOWN = frozenset({"network", *_OF_IMAGES, *_LISTS, *OF_DEVICE}).union(*(part.KNOWN for part in _PARTS))


def check_extras(extras: Mapping[str, Any], node: str) -> None:
    """:raises ConfigError: naming what this driver does not know, or what is of another form."""
    said.check(extras, node, flags=("registry_http",), lists=_LISTS)
    unknown = sorted(set(extras) - _KNOWN)
    if unknown:
        raise ConfigError(f"unknown keys in driver: {', '.join(unknown)}", node=node, wanted=", ".join(sorted(_KNOWN)))
    for part in _PARTS:
        part.check(extras, node)
