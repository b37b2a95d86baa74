# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of the verb ``topology_info``, shared by module and action. PRIVATE to the collection."""

from __future__ import annotations

from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import FAIL_ON, FLEET, spec

LLDP, NVLINK, INFINIBAND = "lldp", "nvlink", "infiniband"
SOURCES = (LLDP, NVLINK, INFINIBAND)

SPEC = spec(
    FLEET,
    FAIL_ON,
    sources={"type": "list", "elements": "str", "choices": list(SOURCES), "default": [LLDP, NVLINK]},
    ports={"type": "list", "elements": "str"},
    lldp_file={"type": "path"},
    nvlink_file={"type": "path"},
    infiniband_file={"type": "path"},
    guids={"type": "list", "elements": "str"},
    leaf={"type": "list", "elements": "str"},
    domain={"type": "str"},
    lldpctl={"type": "str", "default": "lldpctl"},
    nvidia_smi={"type": "str", "default": "nvidia-smi"},
    sysfs_path={"type": "path", "default": "/sys"},
    timeout={"type": "int", "default": 60},
    told={"type": "dict"},
)
