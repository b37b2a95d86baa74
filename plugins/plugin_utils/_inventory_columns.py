# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The columns of a server list in CSV form, as data. PRIVATE to the collection.

Canonical names, other names that lists use for the same (NetBox, vendors' delivery lists, other imports), and the host
variable that each fills. A column without a variable of its own becomes ``csv_<name>``.
"""

from __future__ import annotations

import difflib
import re

from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import names as bmc
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import names as provisioner
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler import names as scheduler

#: Canonical name: (host variable or empty, other names).
COLUMNS: dict[str, tuple[str, tuple[str, ...]]] = {
    "name": ("", ("hostname", "host", "host_name", "server", "server_name", "device")),
    "node_id": ("gpufleet_node_id", ()),
    "serial": (
        "gpufleet_serial",
        ("serial_number", "serialnumber", "chassis_serial", "chassis_serial_number", "service_tag", "sn", "s_n"),
    ),
    "system_uuid": ("gpufleet_system_uuid", ("uuid", "smbios_uuid", "product_uuid")),
    "asset_tag": ("csv_asset_tag", ("asset", "asset_number", "inventory_number")),
    "manufacturer": ("csv_manufacturer", ("vendor", "make", "oem")),
    "model": ("csv_model", ("device_type", "product", "product_name", "server_model")),
    "sku": ("gpufleet_sku", ("sku_id", "profile")),
    "site": ("csv_site", ("datacenter", "data_center", "dc")),
    "location": ("csv_location", ("hall", "room", "data_hall")),
    "rack": ("csv_rack", ("rack_id", "rack_name", "cabinet")),
    "position": ("csv_position", ("u", "ru", "rack_unit", "rack_position", "u_position")),
    "failure_domain": ("gpufleet_failure_domain", ("fault_domain", "power_domain")),
    "provisioner": ("gpufleet_provisioner", ()),
    "provisioner_id": ("gpufleet_provisioner_id", ("system_id", "ironic_uuid")),
    "scheduler": ("gpufleet_scheduler", ()),
    "scheduler_node": ("gpufleet_scheduler_node", ("slurm_node", "nodename", "node_name")),
    "bmc_mac": ("csv_bmc_mac", ("bmc_mac_address", "oob_mac", "ipmi_mac", "idrac_mac", "ilo_mac")),
    "bmc_ip": (
        "gpufleet_bmc_address",
        ("bmc_address", "bmc", "bmc_host", "oob_ip", "oob_address", "ipmi_ip", "ipmi_address", "idrac_ip", "ilo_ip"),
    ),
    "bmc_protocol": ("gpufleet_bmc_protocol", ("oob_protocol",)),
    "bmc_system_id": ("gpufleet_bmc_system_id", ("redfish_system_id",)),
    "bmc_user": ("gpufleet_bmc_username", ("bmc_username", "oob_user", "ipmi_user", "ipmi_username")),
    "bmc_password_ref": ("gpufleet_bmc_password", ("password_ref", "bmc_credential", "bmc_secret_ref")),
    "bmc_ca_path": ("gpufleet_bmc_ca_path", ("bmc_ca",)),
    "boot_mac": ("gpufleet_boot_mac", ("pxe_mac", "mac", "mac_address", "pxe_mac_address", "nic1_mac")),
    "primary_ip": ("ansible_host", ("ip", "ip_address", "primary_ip4", "host_ip", "ansible_host")),
    "gpu_count": ("csv_gpu_count", ("gpus",)),
    "gpu_model": ("csv_gpu_model", ("gpu", "gpu_type")),
    "cpu_count": ("csv_cpu_count", ("cpu_sockets", "sockets")),
    "cpu_model": ("csv_cpu_model", ("processor_model",)),
    "memory_gib": ("csv_memory_gib", ("memory_gb", "ram_gib", "ram_gb")),
    "nic_count": ("csv_nic_count", ("nics",)),
    "drive_count": ("csv_drive_count", ("drives", "disk_count")),
    "dpu_serials": ("csv_dpu_serials", ("dpu_serial", "fallback_dpu_serial_numbers")),
    "dpu_bmc_macs": ("csv_dpu_bmc_macs", ("dpu_bmc_mac",)),
    "topology_block": ("topology_block", ("nvlink_domain", "nvl_domain")),
    "scalable_unit": ("csv_scalable_unit", ("su",)),
    "topology_leaf": ("topology_leaf", ("leaf_switch", "switch", "tor")),
    "leaf_port": ("csv_leaf_port", ("switch_port", "tor_port")),
    "tenant": ("gpufleet_tenant", ("customer", "project")),
    "image": ("csv_image", ("os_image",)),
}

#: A column whose name is at least so long, and so like a known one (difflib's ratio), is a typo.
_SHORTEST, _LIKE = 4, 0.82

#: Columns whose cells are lists, divided by blanks, commas or semicolons.
LISTS = frozenset({"dpu_serials", "dpu_bmc_macs"})
#: Columns that hold MACs.
MACS = frozenset({"bmc_mac", "boot_mac", "dpu_bmc_macs"})
#: Columns that hold IP addresses, or may.
ADDRESSES = frozenset({"bmc_ip", "primary_ip"})
#: Columns whose cells may not stand in two rows.
UNIQUE = ("name", "node_id", "serial", "system_uuid", "bmc_ip", "bmc_mac", "boot_mac", "primary_ip", "provisioner_id",
          "scheduler_node")  # fmt: skip
#: Columns with few allowed words.
CHOICES = {
    "bmc_protocol": tuple(bmc.DRIVERS),
    "provisioner": tuple(provisioner.DRIVERS),
    "scheduler": tuple(scheduler.DRIVERS),
}
#: What says, anywhere in a column's name, that its cells are secrets.
_SECRET_PARTS = ("passwor", "passwd", "passphrase", "passcode", "kennwort", "mot_de_passe", "secret", "token", "pwd",
                 "credential", "apikey", "privkey")  # fmt: skip
#: And what says so as a word of its own, or behind what it opens.
_SECRET_WORD = re.compile(
    r"(^|_|bmc|ipmi|oob|idrac|ilo|xcc|redfish|root|admin|user|login|ssh|snmp|access)"
    r"(pw|pass|passwds?|keys?|creds?|psk|pin)(_|\d*$)"
    r"|(^|bmc_?|ipmi_?)kg$"  # IPMI's key of the BMC; a weight is no secret
)

ALIASES = {alias: name for name, (_variable, aliases) in COLUMNS.items() for alias in (name, *aliases)}


def is_secret(name: str) -> bool:
    """Does the name of a column, or of a variable, say that a secret stands there?"""
    return any(part in name for part in _SECRET_PARTS) or bool(_SECRET_WORD.search(name))


def near(name: str) -> str:
    """The known column that this one looks like, which is hardly another one: without it a typo costs the whole column.

    A plural, and a number or a word more, are names of a site's own; a letter or two less at the end are not.
    """
    if name in COLUMNS or len(name) < _SHORTEST:
        return ""
    found = next(iter(difflib.get_close_matches(name, [*COLUMNS, *ALIASES], n=1, cutoff=_LIKE)), "")
    longer = bool(found) and (name.startswith(found) or name.endswith(found))
    shorter = bool(found) and found.startswith(name)
    if not found or longer or not is_slip(name, found) or (not shorter and _another_word(name, found)):
        return ""
    return ALIASES.get(found, found)


def is_slip(name: str, known: str) -> bool:
    """A letter or two; not a word more, nor one in place of another."""
    parts = difflib.SequenceMatcher(None, name, known, autojunk=False).get_matching_blocks()
    return max(len(name), len(known)) - sum(part.size for part in parts) <= 2


def _another_word(name: str, known: str) -> bool:
    """Is a part of it a word of its own, as root is beside boot, and manufactured beside manufacturer? People mistype
    a word in its middle, or swap two letters."""
    words, others = name.split("_"), known.split("_")
    pairs = zip(words, others) if len(words) == len(others) else ()
    return any(
        sorted(word) != sorted(other) and (word[:1], word[-1:]) != (other[:1], other[-1:]) for word, other in pairs
    )
