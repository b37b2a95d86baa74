# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is known of single kinds of BMC: one row each, with its source. PRIVATE to the collection.

A row matches on equal strings, never on parts of them, and on every column that it names. It says how such a BMC
wants to be asked, or what it cannot show. No row can say that something has worked: a BMC whose read-back is blind
needs another proof, and without one the result is inconclusive.

Behaviours, and what their value is:

=====================  ==============================================================================================
boot_readback          ``blind``: a one-time override that was taken may not read back as one
boot_request           ``full``: enabled, target and (where it is shown) mode are sent each time, changed or not
boot_omit              tuple of Boot properties that are never sent
boot_target_alias      mapping of a target to others that it may read back as
boot_target_unlisted   tuple of targets that may be asked for though the BMC's list lacks them
boot_settings          URI below the system where the override lies if the BMC refers us away from the main resource
power_names            mapping of a kind of set_power to the ResetType to be sent, if the BMC lists it
power_also             mapping of a kind of set_power to the ResetType that does it where no standard one is listed
power_never            tuple of ResetTypes that are not sent though the BMC lists them
power_on_again         seconds for which a 409 to power-on shortly after power-off is asked again
restart_counter        path, within the system, of a number that grows with each restart
start_stage            StartStage: where the BMC tells how far the machine is in its start, and by what words
=====================  ==============================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import contract as c


@dataclass(frozen=True)
class Quirk:
    """One row. ``match`` maps a fact of the BMC to the values of which it must equal one."""

    name: str
    protocol: str
    match: Mapping[str, tuple[str, ...]]
    behaviour: str
    value: Any
    source: str


@dataclass(frozen=True)
class StartStage:
    """``path`` within the system; from a word of ``late`` to one of ``early`` only a restart leads."""

    path: tuple[str, ...]
    late: tuple[str, ...]
    early: tuple[str, ...]


#: Facts of a Redfish BMC: ``manufacturer`` and ``model`` of the system, ``vendor``, ``product``, ``service`` (Name)
#: and ``service_uuid`` of the service root, ``firmware`` of the manager (read only where a row names it).
#: Of an IPMI BMC: ``manufacturer_id``, ``product_id``, ``firmware``.
QUIRKS: tuple[Quirk, ...] = (
    Quirk(
        "sushy-tools-once",
        "redfish",
        {"service": ("Redvirt Service",), "service_uuid": ("85775665-c110-4b85-8989-e6162170b3ec",)},
        "boot_readback",
        "blind",
        # Once is accepted, and every GET says Continuous: the template has the word in it. The service root has one
        # UUID wherever it runs, while the system may be told to call itself anything.
        "sushy-tools 2.2.0, sushy_tools/emulator/templates/system.json and root.json",
    ),
    Quirk(
        "openipmi-sim-boot-flags",
        "ipmi",
        {"manufacturer_id": ("0x001291",), "product_id": ("0x0f02",)},
        "boot_readback",
        "blind",
        # The simulator keeps the device and clears the valid bit of parameter 5 (reads 00 04 00 00 00).
        "OpenIPMI 2.0.33 ipmi_sim with the device ids of its sample configuration; measured",
    ),
    Quirk(
        "ilo-restart",
        "redfish",
        {"vendor": ("HPE",), "manufacturer": ("HPE",)},
        "power_names",
        {c.RESTART: "GracefulRestart"},
        # iLO does the warm reset on GracefulRestart.
        "NVIDIA/libredfish src/hpe.rs",
    ),
    Quirk(
        "ilo-post-state",
        "redfish",
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
        "redfish",
        {"manufacturer": ("HPE",)},
        "power_also",
        {c.GRACEFUL_OFF: "Off"},
        # Beside ForceOff, and without GracefulShutdown, the node controllers of Cray EX list Off, which asks the
        # operating system. All models do, and their names are free text; iLO lists GracefulShutdown, and no Off.
        "Cray-HPE/csm-redfish-interface-emulator: Cray EX235a, EX235n, EX425, EX4252 as recorded",
    ),
    Quirk(
        "ilo-boot-properties",
        "redfish",
        {"vendor": ("HPE",), "manufacturer": ("HPE",)},
        "boot_omit",
        ("BootSourceOverrideMode", "HttpBootUri"),
        # iLO answers 400 when it is sent its read-only boot properties.
        "stmcginnis/gofish#507, ansible-collections/community.general#3509, ironcore-dev/metal-operator#606",
    ),
    Quirk(
        "lenovo-sr675-reset",
        "redfish",
        {"manufacturer": ("Lenovo",), "model": ("ThinkSystem SR675 V3",)},
        "power_never",
        ("ForceRestart",),
        # ForceRestart can hang the machine; off, then on, does not.
        "NVIDIA/libredfish src/lenovo.rs",
    ),
    Quirk(
        "xcc-reboots",
        "redfish",
        {"vendor": ("Lenovo",), "manufacturer": ("Lenovo",)},
        "restart_counter",
        ("Oem", "Lenovo", "NumberOfReboots"),
        # XCC has no LastResetTime, and counts instead.
        "ThinkSystem SR670 V2, XCC 2.83, as recorded (16 reboots in 354 hours)",
    ),
    Quirk(
        "supermicro-boot-request",
        "redfish",
        {"manufacturer": ("Supermicro",)},
        "boot_request",
        "full",
        # Enabled must be repeated, and without the mode some boot in legacy mode.
        "openstack/ironic redfish/management.py (story 2008547), DMTF/Redfishtool#106, metal-operator#607",
    ),
    Quirk(
        "supermicro-uefi-alias",
        "redfish",
        {"manufacturer": ("Supermicro",)},
        "boot_target_alias",
        {"Pxe": ("UefiBootNext",)},
        # In UEFI mode Pxe reads back as UefiBootNext.
        "NVIDIA/libredfish src/supermicro.rs",
    ),
    Quirk(
        "ami-boot-request",
        "redfish",
        {"vendor": ("AMI", "American Megatrends International LLC.", "American Megatrends International")},
        "boot_request",
        "full",
        # VENDORS_REQUIRING_FULL_BOOT_REQUEST. Who made the BMC stands in the root's Vendor; the system's Manufacturer
        # is who built the machine (GIGABYTE H262 and NVIDIA DGX H100 as recorded).
        "openstack/ironic redfish/management.py (stories 2007355, 2008547)",
    ),
    Quirk(
        "asrock-boot-request",
        "redfish",
        {"manufacturer": ("ASRockRack",)},
        "boot_request",
        "full",
        "openstack/ironic redfish/management.py, VENDORS_REQUIRING_FULL_BOOT_REQUEST",
    ),
    Quirk(
        "ami-boot-sd",
        "redfish",
        {"vendor": ("AMI",)},
        "boot_settings",
        "/SD",
        # Ami.1.0.OperationSupportedInFutureStateURI: the override is written to the settings object, or <system>/SD.
        "DMTF/Redfish-Tacklebox#144; NVIDIA DGX H100 23.11.20 as recorded",
    ),
    Quirk(
        "gh200-uefi-http",
        "redfish",
        {"vendor": ("NVIDIA",), "model": ("GH200",)},
        "boot_target_unlisted",
        ("UefiHttp",),
        # Not in AllowableValues, "but it seems to work"; it still has to read back.
        "NVIDIA/libredfish src/nvidia_gh200.rs",
    ),
    Quirk(
        "idrac-boot-settings",
        "redfish",
        {"vendor": ("Dell",)},
        "boot_settings",
        "/Settings",
        # iDRAC10 calls Boot of the main resource read-only (Base.1.18.PropertyNotWritable); iDRAC9 takes it there.
        "community.general#11297, dell/iDRAC-Redfish-Scripting#324, libredfish#33",
    ),
    Quirk(
        "idrac-power-on",
        "redfish",
        {"vendor": ("Dell",)},
        "power_on_again",
        60.0,
        # iDRAC10 answers On with 409 ActionParameterValueConflict while it still settles after power-off.
        "openstack/ironic [redfish]power_on_conflict_retry_attempts",
    ),
)


def names_fact(protocol: str, fact: str) -> bool:
    """Does any row ask for this fact? One that costs a request is read only then."""
    return any(row.protocol == protocol and fact in row.match for row in QUIRKS)


def matching(protocol: str, facts: Mapping[str, str], rows: tuple[Quirk, ...] | None = None) -> dict[str, Quirk]:
    """The rows that fit, by behaviour; a later row of the same behaviour wins."""
    return {
        row.behaviour: row
        for row in (QUIRKS if rows is None else rows)
        if row.protocol == protocol and all(facts.get(key, "") in values for key, values in row.match.items())
    }
