# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The words of the port that a user may say, in one place and as plain data. PRIVATE to the collection.

Argument specs, inventory columns and drivers read them here; documentation, which must spell them out, is held
against them by the rules in ``tests/tree``. Nothing is imported: whatever wants to know a name may read this.
"""

from __future__ import annotations

#: The option that names the driver, and the host variable ``gpufleet_<option>``.
OPTION = "provisioner"

#: The connection's options, each also the host variable ``gpufleet_<option>``.
OPTIONS: dict[str, dict[str, object]] = {
    "provisioner_url": {"type": "str"},
    "provisioner_username": {"type": "str"},
    "provisioner_password": {"type": "str", "no_log": True},
    "provisioner_api_key": {"type": "str", "no_log": True},
    "provisioner_ca_path": {"type": "path"},
    "provisioner_cloud": {"type": "str"},
    "provisioner_login_host": {"type": "str"},
}

#: Driver: the options of the connection that it reads.
DRIVERS: dict[str, tuple[str, ...]] = {
    "bcm": ("provisioner_url", "provisioner_login_host"),
    "ironic": (
        "provisioner_url",
        "provisioner_username",
        "provisioner_password",
        "provisioner_ca_path",
        "provisioner_cloud",
    ),
    "maas": ("provisioner_url", "provisioner_api_key", "provisioner_ca_path"),
    "pxe": ("provisioner_url", "provisioner_login_host"),
    "warewulf": ("provisioner_url", "provisioner_username", "provisioner_password", "provisioner_ca_path"),
    "xcat": (
        "provisioner_url",
        "provisioner_username",
        "provisioner_password",
        "provisioner_ca_path",
        "provisioner_login_host",
    ),
}

#: Those that switch no power: a verb may go to the BMC past them, and they are never asked for a maintenance first.
POWERLESS: set[str] = {"bcm", "pxe", "warewulf"}
#: Those that boot no machine where they are asked by a web service, and do where they are asked by commands.
POWERLESS_BY_SERVICE: set[str] = {"xcat"}

#: Those that keep no hold of ours: nobody is advised to set their maintenance first.
NO_MAINTENANCE: set[str] = set()

#: Driver: formats of images whose nodes are stateless. A boot from the network deploys them, and nothing else does: it
#: proves a deployment, on the node.
STATELESS: dict[str, tuple[str, ...]] = {"ironic": ("ramdisk",), "pxe": ("ramdisk",)}

#: Work that a provisioner does with a machine, where it can: none of them is a state that lasts but the rescue.
WORKS = ("inspected", "tested", "cleaned", "serviced", "rescued", "unrescued", "aborted")
#: What it does with a machine's power, where it can.
POWERS = ("powered_on", "powered_off", "restarted")
#: What it keeps of a node, where it can: a hold of ours.
HOLDING = ("maintenance", "serviceable", "quarantined", "readmitted")
#: What ``provisioner_node`` brings about.
STATES = (
    "enrolled",
    "ready",
    "deployed",
    "released",
    "maintenance",
    "serviceable",
    "quarantined",
    "readmitted",
    "annotated",
    "inspected",
    "tested",
    "cleaned",
    "serviced",
    "rescued",
    "unrescued",
    "aborted",
    "powered_on",
    "powered_off",
    "restarted",
    "left",
    "moved",
)
#: What ``provisioner_wait`` waits for: the goals of the drivers' step tables.
GOALS = ("ready", "deployed", "released")
#: And this, which is no goal: the provisioner is at work with it no more, and did not fail.
SETTLED = "settled"
UNTIL = ("ready", "deployed", "released", "settled")
