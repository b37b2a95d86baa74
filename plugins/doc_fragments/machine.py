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
      - Before a verb writes, whatever the driver, what the BMC tells of its machine is held against O(serial),
        O(system_uuid) and O(boot_mac). A BMC that tells another serial or UUID is the error C(wrong_machine), also
        where O(bmc_system_id) names the system, or the UUID is equal. What could hit running work,
        and a network boot whatever the machine's power, needs one of them in common, or C(force_reason).
        M(gpufleet.baremetal.bmc_info) shows the machine all the same.
      - A serial may be any that the BMC tells of the machine, of a Dell system the service tag (its C(SKU)) or the
        board's number (its C(SerialNumber)), or that of its chassis; over IPMI that of product, board or chassis in the
        FRU data. Where the machine tells one of its own that is another (over IPMI the product's), the number of a
        chassis, and over IPMI that of a board, counts beside an equal UUID or boot MAC, or in a chassis that lists
        this system alone unless the BMC lists ports without O(boot_mac). Else it is the error C(wrong_machine), since
        the nodes of a chassis tell its number alike. Another number of a board or a chassis contradicts nothing, nor
        does a placeholder, nor a UUID over IPMI beside a serial that agrees, which some BMCs make up.
      - Taken from the host variable C(gpufleet_serial), else from what the ledger knows of the host.
    type: str
  system_uuid:
    description:
      - The machine's system UUID, in whatever byte order a BMC shows it; used like O(serial).
      - Taken from the host variable C(gpufleet_system_uuid).
    type: str
  boot_mac:
    description:
      - The MAC address of the port that the machine boots from; used like O(serial) where neither serial nor UUID
        are in common, and demanded where the node's own boot is the proof. That a BMC does not list it contradicts
        nothing.
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
