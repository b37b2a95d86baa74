# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How BMCs of several makers differ, one entry each; what is not named is as in PLAIN.

root, system: fields that are added to the documents. systems: Ids of all systems of the service, the machine first.
resets: allowed ResetTypes; resets_in: where they are listed. boot_in: the resource that holds the override (``main``,
or a suffix below the system); main_boot: what the main resource shows of it then. targets: the allowed ones.
etag: ``none``, ``strong`` (428 without, 412 with another), ``weak`` (its strong form is wanted), ``changing`` (a new
one at each read, 412 with an old one), ``any`` (only ``*`` is taken). Others are explained where they stand.
"""

from __future__ import annotations

from typing import Any

STANDARD = ("On", "ForceOff", "GracefulShutdown", "GracefulRestart", "ForceRestart", "PowerCycle", "Nmi")

PLAIN: dict[str, Any] = {
    "root": {"Name": "Root Service"},
    "system": {"Manufacturer": "Example", "Model": "GPU8", "SystemType": "Physical", "Bios": {"@odata.id": "/none"}},
    "systems": ("1",),
    "others": {},
    "resets": STANDARD,
    "resets_in": "action",
    "boot_in": "main",
    "main_boot": {},
    "settings_link": True,
    "targets": ("None", "Pxe", "Hdd", "UefiHttp"),
    "shows_mode": True,
    # The modes that are listed as allowed; none: there is no list.
    "modes": (),
    "http_boot_uri": False,
    # Whether the resource tells its tag in the document alone.
    "etag_in_document": False,
    # Message registries: prefix -> key -> words and resolution. Who has them says ids in its errors, and no words.
    "registries": {},
    "etag": "none",
    # What a GET says of the override instead of the truth: callable on the Boot section.
    "shows": None,
    # Properties in a PATCH of Boot that are answered with 400.
    "read_only": (),
    # Properties without which a PATCH of Boot is ignored, as the answer 204 does not tell.
    "needs": (),
    # Seconds after power-off in which On is answered with 409.
    "settles": 0.0,
    # On when on, off when off: refused.
    "strict": False,
    "last_reset_time": False,
    # What the maker's own section says, callable on the machine; none: there is none.
    "oem": None,
    # Targets that are taken though they are not listed.
    "unlisted": (),
    # What the main resource lists where it shows the override of another one; none: the same.
    "main_targets": (),
    # How the override stands at first, where it is not Disabled and None.
    "override": {},
}

_SECOND_HOST = {"Actions": True, "SerialNumber": "OTHER"}

VENDORS: dict[str, dict[str, Any]] = {
    "plain": {},
    "idrac9": {
        "root": {"Vendor": "Dell", "Product": "Integrated Dell Remote Access Controller", "Name": "Root Service"},
        "system": {"Manufacturer": "Dell Inc.", "Model": "PowerEdge XE9680", "SystemType": "Physical"},
        "systems": ("System.Embedded.1",),
        "strict": True,
        "targets": ("None", "Pxe", "Hdd", "Cd", "UefiHttp"),
    },
    "idrac10": {
        "root": {"Vendor": "Dell", "Product": "Integrated Dell Remote Access Controller", "Name": "Root Service"},
        "system": {"Manufacturer": "Dell Inc.", "Model": "PowerEdge R7715", "SystemType": "Physical"},
        "systems": ("System.Embedded.1",),
        "boot_in": "/Settings",
        # The main resource shows the override, and calls it read-only when it is written there.
        "main_boot": {"mirror": True, "refuses": "Base.1.18.PropertyNotWritable"},
        "settings_link": False,
        "strict": True,
        "settles": 0.4,
    },
    "ilo": {
        "root": {"Vendor": "HPE", "Product": "ProLiant DL380a Gen11", "Name": "HPE RESTful Root Service"},
        "system": {"Manufacturer": "HPE", "Model": "ProLiant DL380a Gen11", "SystemType": "Physical"},
        "resets": ("On", "ForceOff", "GracefulShutdown", "ForceRestart", "Nmi", "PushPowerButton", "GracefulRestart"),
        "read_only": ("BootSourceOverrideMode", "HttpBootUri"),
        "strict": True,
        "etag": "weak",
        "oem": lambda machine: {"Hpe": {"PostState": "InPost" if machine.starting else "FinishedPost"}},
        "registries": {
            "iLO": {"InvalidOperationForSystemState": ("The operation failed in the power state %1.", "Wait for it.")}
        },
    },
    "supermicro": {
        "system": {"Manufacturer": "Supermicro", "Model": "SYS-821GE-TNHR", "SystemType": "Physical"},
        "resets_in": "info",
        "needs": ("BootSourceOverrideEnabled", "BootSourceOverrideMode"),
        "override": {"enabled": "Once", "target": "None"},
        "shows": lambda boot: {
            "BootSourceOverrideTarget": {"Pxe": "UefiBootNext"}.get(boot["BootSourceOverrideTarget"])
        },
    },
    "lenovo": {
        "root": {"Vendor": "Lenovo", "Name": "Root Service"},
        "system": {"Manufacturer": "Lenovo", "Model": "ThinkSystem SR675 V3", "SystemType": "Physical"},
        "targets": ("None", "Pxe", "Hdd", "Cd"),
        "resets": ("On", "ForceOff", "GracefulShutdown", "GracefulRestart", "ForceRestart", "Nmi"),
        "etag": "changing",
        "oem": lambda machine: {"Lenovo": {"NumberOfReboots": 15 + len(machine.boots)}},
    },
    "dgx": {
        "root": {"Vendor": "AMI", "Product": "AMI Redfish Server", "Name": "Root Service"},
        "system": {"Manufacturer": "NVIDIA", "Model": "DGXH100", "SystemType": "Physical"},
        "systems": ("DGX",),
        "others": {"HGX_Baseboard_0": {"SystemType": "Physical"}},
        "resets": ("On", "ForceOff", "GracefulShutdown", "ForceRestart"),
        "resets_in": "info",
        "boot_in": "/SD",
        "main_boot": {"nulls": True, "refuses": "Ami.1.0.OperationSupportedInFutureStateURI"},
        "http_boot_uri": True,
        # The mode that is in force is null, and one is listed.
        "modes": ("UEFI",),
        "override": {"mode": None},
        "etag": "strong",
    },
    "strong_tag_in_document": {"etag": "strong", "etag_in_document": True},
    "gigabyte": {
        "root": {"Vendor": "AMI", "Product": "AMI Redfish Server", "Name": "Root Service"},
        "system": {"Manufacturer": "GIGABYTE", "Model": "G593", "SystemType": "Physical"},
        "systems": ("Self",),
        "resets": ("On", "ForceOff", "GracefulShutdown", "ForceRestart"),
        "etag": "any",
    },
    # The same maker's BMC in another board, as it is when only the whole section counts.
    "ami_whole": {
        "root": {"Vendor": "AMI", "Product": "AMI Redfish Server", "Name": "Root Service"},
        "system": {"Manufacturer": "Example", "Model": "G593", "SystemType": "Physical"},
        "needs": ("BootSourceOverrideEnabled", "BootSourceOverrideMode"),
        "override": {"enabled": "Once", "target": "None"},
    },
    # The override lies in SD, and no link says so.
    "ami_unlinked": {
        "root": {"Vendor": "AMI", "Product": "AMI Redfish Server", "Name": "Root Service"},
        "system": {"Manufacturer": "Example", "Model": "G593", "SystemType": "Physical"},
        "boot_in": "/SD",
        "main_boot": {"mirror": True, "refuses": "Ami.1.0.OperationSupportedInFutureStateURI"},
        "settings_link": False,
    },
    "asrock": {
        "system": {"Manufacturer": "ASRockRack", "Model": "4U8G", "SystemType": "Physical"},
        "needs": ("BootSourceOverrideEnabled", "BootSourceOverrideMode"),
        "override": {"enabled": "Once", "target": "None"},
    },
    "gh200": {
        "root": {"Vendor": "NVIDIA", "Product": "GH200", "Name": "Root Service"},
        "system": {"Model": "GH200", "SystemType": "Physical"},
        "systems": ("System_0",),
        "targets": ("None", "Pxe", "Hdd"),
        # Taken, though the list lacks it.
        "unlisted": ("UefiHttp",),
        "shows_mode": False,
    },
    "gb200": {
        "root": {"Vendor": "NVIDIA", "Product": "GB200 NVL", "Name": "Root Service"},
        "system": {"SystemType": "Physical"},
        "systems": ("System_0",),
        "others": {"HGX_Baseboard_0": {"SystemType": "Physical", "Boot": {}}},
        "resets_in": "info",
        "boot_in": "/Settings",
        "main_boot": {"mirror": True},
        "shows_mode": False,
        "targets": ("None", "Pxe", "Hdd"),
    },
    "openbmc": {
        "system": {"Manufacturer": "Example", "Model": "", "SystemType": "Physical"},
        "systems": ("system",),
        "resets_in": "info",
        "targets": ("None", "Pxe", "Hdd"),
        "last_reset_time": True,
    },
    # The settings list other targets than the system does, as BlueField-3's do.
    "bluefield": {
        "root": {"Vendor": "Nvidia", "Product": "Nvidia-BMCMezz", "Name": "Root Service"},
        "system": {"Manufacturer": "https://www.mellanox.com", "Model": "BlueField-3", "SystemType": "Physical"},
        "systems": ("Bluefield",),
        "boot_in": "/Settings",
        "main_boot": {"mirror": True},
        "targets": ("None", "Pxe", "Hdd"),
        "main_targets": ("None", "UefiHttp", "UefiTarget"),
        "unlisted": ("UefiHttp",),
    },
    "cray_ex235n": {
        "system": {"Manufacturer": "HPE", "Model": "HPE CRAY EX235n", "SystemType": "Physical"},
        "systems": ("Node0",),
        "resets": ("On", "ForceOff", "Off"),
        "boot_in": "nowhere",
    },
    "cray": {
        "system": {"Manufacturer": "HPE", "Model": "HPE CRAY EX235a", "SystemType": "Physical"},
        "systems": ("Node0",),
        "resets": ("On", "ForceOff", "Off"),
        "resets_in": "info",
        "boot_in": "nowhere",
    },
    # Nobody knows whether its Off asks the operating system.
    "lists_off": {"resets": ("On", "ForceOff", "Off")},
    "blades": {"systems": ("Node0",), "others": {"Node1": dict(_SECOND_HOST)}},
    "chassis": {"systems": ()},
    "dpu": {"others": {"Card1": {"SystemType": "DPU", "Actions": True}}},
    # sushy-tools with a driver that shows the truth: what reads back as asked is proof, whatever is known of its kind.
    "once_seen": {
        "root": {"Name": "Redvirt Service", "UUID": "85775665-c110-4b85-8989-e6162170b3ec"},
        "system": {"Manufacturer": "Example", "SystemType": "Physical"},
    },
    # What sushy-tools shows, without its emulator: for tests that need its kind of read-back and a counted boot.
    "once_unseen": {
        "root": {"Name": "Redvirt Service", "UUID": "85775665-c110-4b85-8989-e6162170b3ec"},
        "system": {"Manufacturer": "Sushy Emulator", "SystemType": "Physical"},
        "shows": lambda boot: {"BootSourceOverrideEnabled": "Continuous"},
    },
}


def vendor(name: str) -> dict[str, Any]:
    return {**PLAIN, **VENDORS[name]}
