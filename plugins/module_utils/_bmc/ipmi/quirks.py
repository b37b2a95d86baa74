# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is known of single kinds of IPMI BMC: one row each, with its source; ``_bmc/quirks.py`` says what a row is.

Facts of such a BMC: ``manufacturer_id``, ``product_id``, ``firmware``. PRIVATE to the collection.
"""

from __future__ import annotations

from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.quirks import Quirk

QUIRKS: tuple[Quirk, ...] = (
    Quirk(
        "openipmi-sim-boot-flags",
        {"manufacturer_id": ("0x001291",), "product_id": ("0x0f02",)},
        "boot_readback",
        "blind",
        # The simulator keeps the device and clears the valid bit of parameter 5 (reads 00 04 00 00 00).
        "OpenIPMI 2.0.33 ipmi_sim with the device ids of its sample configuration; measured",
    ),
)
