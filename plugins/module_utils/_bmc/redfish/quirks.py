# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is known of single kinds of Redfish BMC: one row each, with its source; ``_bmc/quirks.py`` says what a row is.

Facts of such a BMC: ``manufacturer`` and ``model`` of the system, ``vendor``, ``product``, ``service`` (Name) and
``service_uuid`` of the service root, ``firmware`` of the manager (read only where a row names it). PRIVATE to the
collection.
"""

from __future__ import annotations

from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import contract as c
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.quirks import Quirk, StartStage

QUIRKS: tuple[Quirk, ...] = (
    Quirk(
        "sushy-tools-once",
        {"service": ("Redvirt Service",), "service_uuid": ("85775665-c110-4b85-8989-e6162170b3ec",)},
        "boot_readback",
        "blind",
        # Once is accepted, and every GET says Continuous: the template has the word in it. The service root has one
        # UUID wherever it runs, while the system may be told to call itself anything.
        "sushy-tools 2.2.0, sushy_tools/emulator/templates/system.json and root.json",
    ),
    Quirk(
        "ilo-restart",
        {"vendor": ("HPE",), "manufacturer": ("HPE",)},
        "power_names",
        {c.RESTART: "GracefulRestart"},
        # iLO does the warm reset on GracefulRestart.
        "NVIDIA/libredfish src/hpe.rs",
    ),
    Quirk(
        "ilo-post-state",
        {"vendor": ("HPE",), "manufacturer": ("HPE",)},
        "start_stage",
        StartStage(
            ("Oem", "Hpe", "PostState"), ("InPostDiscoveryComplete", "FinishedPost"), ("Reset", "PowerOff", "InPost")
        ),
        # iLO has no LastResetTime. As recorded on iLO 5, 6 and 7 the property is there; what it goes through in between
        # is documented, and not measured.
        "HPE iLO 6 1.66 resource definitions, ComputerSystem, Oem.Hpe.PostState; ten iLO 5 to 7 as recorded",
    ),
    Quirk(
        "hpe-off",
        {"manufacturer": ("HPE",)},
        "power_also",
        {c.GRACEFUL_OFF: "Off"},
        # Beside ForceOff, and without GracefulShutdown, the node controllers of Cray EX list Off, which asks the
        # operating system. All models do, and their names are free text; iLO lists GracefulShutdown, and no Off.
        "Cray-HPE/csm-redfish-interface-emulator: Cray EX235a, EX235n, EX425, EX4252 as recorded",
    ),
    Quirk(
        "ilo-boot-properties",
        {"vendor": ("HPE",), "manufacturer": ("HPE",)},
        "boot_omit",
        ("BootSourceOverrideMode", "HttpBootUri"),
        # iLO answers 400 when it is sent its read-only boot properties.
        "stmcginnis/gofish#507, ansible-collections/community.general#3509, ironcore-dev/metal-operator#606",
    ),
    Quirk(
        "lenovo-sr675-reset",
        {"manufacturer": ("Lenovo",), "model": ("ThinkSystem SR675 V3",)},
        "power_never",
        ("ForceRestart",),
        # ForceRestart can hang the machine; off, then on, does not.
        "NVIDIA/libredfish src/lenovo.rs",
    ),
    Quirk(
        "xcc-reboots",
        {"vendor": ("Lenovo",), "manufacturer": ("Lenovo",)},
        "restart_counter",
        ("Oem", "Lenovo", "NumberOfReboots"),
        # XCC has no LastResetTime, and counts instead.
        "ThinkSystem SR670 V2, XCC 2.83, as recorded (16 reboots in 354 hours)",
    ),
    Quirk(
        "supermicro-boot-request",
        {"manufacturer": ("Supermicro",)},
        "boot_request",
        "full",
        # Enabled must be repeated, and without the mode some boot in legacy mode.
        "openstack/ironic redfish/management.py (story 2008547), DMTF/Redfishtool#106, metal-operator#607",
    ),
    Quirk(
        "supermicro-uefi-alias",
        {"manufacturer": ("Supermicro",)},
        "boot_target_alias",
        {"Pxe": ("UefiBootNext",)},
        # In UEFI mode Pxe reads back as UefiBootNext.
        "NVIDIA/libredfish src/supermicro.rs",
    ),
    Quirk(
        "ami-boot-request",
        {"vendor": ("AMI", "American Megatrends International LLC.", "American Megatrends International")},
        "boot_request",
        "full",
        # VENDORS_REQUIRING_FULL_BOOT_REQUEST. Who made the BMC stands in the root's Vendor; the system's Manufacturer
        # is who built the machine (GIGABYTE H262 and NVIDIA DGX H100 as recorded).
        "openstack/ironic redfish/management.py (stories 2007355, 2008547)",
    ),
    Quirk(
        "asrock-boot-request",
        {"manufacturer": ("ASRockRack",)},
        "boot_request",
        "full",
        "openstack/ironic redfish/management.py, VENDORS_REQUIRING_FULL_BOOT_REQUEST",
    ),
    Quirk(
        "ami-boot-sd",
        {"vendor": ("AMI",)},
        "boot_settings",
        "/SD",
        # Ami.1.0.OperationSupportedInFutureStateURI: the override is written to the settings object, or <system>/SD.
        "DMTF/Redfish-Tacklebox#144; NVIDIA DGX H100 23.11.20 as recorded",
    ),
    Quirk(
        "gh200-uefi-http",
        {"vendor": ("NVIDIA",), "model": ("GH200",)},
        "boot_target_unlisted",
        ("UefiHttp",),
        # Not in AllowableValues, "but it seems to work"; it still has to read back.
        "NVIDIA/libredfish src/nvidia_gh200.rs",
    ),
    Quirk(
        "idrac-boot-settings",
        {"vendor": ("Dell",)},
        "boot_settings",
        "/Settings",
        # iDRAC10 calls Boot of the main resource read-only (Base.1.18.PropertyNotWritable); iDRAC9 takes it there.
        "community.general#11297, dell/iDRAC-Redfish-Scripting#324, libredfish#33",
    ),
    Quirk(
        "idrac-power-on",
        {"vendor": ("Dell",)},
        "power_on_again",
        60.0,
        # iDRAC10 answers On with 409 ActionParameterValueConflict while it still settles after power-off.
        "openstack/ironic [redfish]power_on_conflict_retry_attempts",
    ),
)
