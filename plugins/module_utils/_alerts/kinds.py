# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who may say something, and who reads it. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._alerts import alertmanager, dcgm, nvsentinel, slurm
from ansible_collections.gpufleet.baremetal.plugins.module_utils._alerts.said import Said

#: Each is the last part of the address that its monitor sends to.
KINDS: Mapping[str, Callable[[Any], list[Said]]] = {
    alertmanager.NAME: alertmanager.read,
    nvsentinel.NAME: nvsentinel.read,
    dcgm.NAME: dcgm.read,
    slurm.NAME: slurm.read,
}
