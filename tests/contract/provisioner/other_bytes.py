# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What puts other bytes on a node than those of the image that was declared and verified."""

from __future__ import annotations

import pytest

ELSEWHERE = "http://127.0.0.1:9/other"
#: site, what the option ``driver`` says beside the site's own, keys that gpufleet_image lacks.
OTHERS = [
    pytest.param("maas_site", {"distro_series": "noble"}, (), id="maas-stock"),
    pytest.param("maas_site", {}, ("sha256",), id="maas-uncompared"),
    pytest.param(
        "ironic_site", {"instance_info": {"kernel": ELSEWHERE}}, (), id="ironic-kernel", marks=pytest.mark.slow
    ),
    pytest.param(
        "ironic_site", {"instance_info": {"boot_iso": ELSEWHERE}}, (), id="ironic-iso", marks=pytest.mark.slow
    ),
]
