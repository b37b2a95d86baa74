# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a declared image decides what a node will boot. PRIVATE to the collection.

Who verifies an image and who deploys it are two ports that do not ask each other; by this they mean the same one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import json_digest

#: The keys of ``gpufleet_image`` that any provisioner goes by.
DEPLOYED_BY = ("name", "version", "named", "url", "sha256", "kernel_url", "format")


def declaration(image: Mapping[str, Any]) -> str:
    """A digest of the declaration: an image with another address, kernel or digest is another one."""
    return json_digest({key: str(image[key]).strip() for key in DEPLOYED_BY if image.get(key) not in (None, "")})
