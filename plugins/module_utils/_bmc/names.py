# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The words of the port that a user may say, in one place and as plain data. PRIVATE to the collection.

Argument specs, inventory columns and drivers read them here; documentation, which must spell them out, is held
against them by the rules in ``tests/tree``. Nothing is imported: whatever wants to know a name may read this.
"""

from __future__ import annotations

#: The option that names the driver, and the host variable ``gpufleet_<option>``.
OPTION = "bmc_protocol"

#: The connection's options, each also the host variable ``gpufleet_<option>``.
OPTIONS: dict[str, dict[str, object]] = {
    "bmc_address": {"type": "str"},
    "bmc_system_id": {"type": "str"},
    "bmc_username": {"type": "str"},
    "bmc_password": {"type": "str", "no_log": True},
    "bmc_ca_path": {"type": "path"},
    "bmc_verify_tls": {"type": "bool"},
    "bmc_tls_fingerprint": {"type": "str"},
    "bmc_auth": {"type": "str", "choices": ["basic", "session"]},
    "bmc_ipmi_privilege": {"type": "str", "choices": ["operator", "administrator"]},
    "bmc_ipmi_kg": {"type": "str", "no_log": True},
}

#: Driver: the options of the connection that it reads. The first is taken where nothing is said.
DRIVERS: dict[str, tuple[str, ...]] = {
    "redfish": (
        "bmc_address",
        "bmc_system_id",
        "bmc_username",
        "bmc_password",
        "bmc_ca_path",
        "bmc_verify_tls",
        "bmc_tls_fingerprint",
        "bmc_auth",
    ),
    "ipmi": ("bmc_address", "bmc_username", "bmc_password", "bmc_ipmi_privilege", "bmc_ipmi_kg"),
}

#: Instead of a fingerprint: the certificate that is seen first is fixed in the ledger.
FIRST = "first"

#: What ``redfish_power`` brings about.
POWER_STATES = ("on", "off", "force_off", "graceful", "cycle", "reset")
#: What ``pxe_boot`` boots from, how, with what change of power, and on what proof.
BOOT_TARGETS = ("pxe", "uefi_http", "none")
BOOT_MODES = ("uefi", "legacy", "keep")
BOOT_POWER = ("none", "on", "restart")
BOOT_PROOFS = ("auto", "readback", "boot")
