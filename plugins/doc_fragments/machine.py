# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """Which machine is meant behind a BMC, and what the verbs on it need."""

    DOCUMENTATION = r"""
options:
  serial:
    description:
      - The machine's serial number. It tells which system is meant where a BMC serves several and O(bmc_system_id)
        is not given.
      - A Redfish system that tells another serial number is neither switched nor reported on, unless O(bmc_system_id)
        names it. M(gpufleet.baremetal.bmc_info) shows it. A system that tells none, or a placeholder, contradicts
        nothing.
      - Of a Dell system the service tag (its C(SKU)) counts as well as its C(SerialNumber), which is the board's.
      - Taken from the host variable C(gpufleet_serial).
    type: str
  boot_mac:
    description:
      - The MAC address of the port that the machine boots from; used like O(serial), and demanded where the node's
        own boot is the proof.
      - Taken from the host variable C(gpufleet_boot_mac).
    type: str
requirements:
  - sushy >= 5.0 for Redfish
  - pyghmi >= 1.6.10 for IPMI
  - netaddr >= 1.0 where a MAC is compared, with Redfish and with IPMI
notes:
  - Runs on the controller, whatever the host's connection is. Delegated to another machine it runs there, and that
    machine needs the libraries above.
"""
