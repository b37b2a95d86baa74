# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is written into a MAAS machine, and how it differs from what stands there. PRIVATE to the collection."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _deployment as deployment
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _hardware as parts
from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import require
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import said
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import mac
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.maas import tables
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.one_bmc import parts_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Image, Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._serial import serial_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._token import has_form

MASK = "********"
_IPMI_PORT = 623
_SECRETS = frozenset({"power_pass", "k_g", "power_token_secret"})
_OPTIONS: Mapping[str, bool] = {
    **tables.COMMISSION_OPTIONS,
    **tables.TEST_OPTIONS,
    **tables.DEPLOY_OPTIONS,
    **tables.ERASE_OPTIONS,
    **tables.OVERRIDES,
}
_KNOWN = frozenset(_OPTIONS) | tables.OTHER_EXTRAS
_FLAGS = (*(key for key, is_bool in _OPTIONS.items() if is_bool), "is_dpu")


#: Where a field that may be written is read back.
PATHS: Mapping[str, tuple[str, ...]] = {**dict(tables.PROPERTIES.values()), **tables.OWN_FIELDS}


def check_extras(extras: Mapping[str, Any], node: str) -> None:
    """:raises ConfigError: naming what MAAS's driver does not know, or what is of another form."""
    unknown = sorted(set(extras) - _KNOWN)
    if unknown:
        raise ConfigError(f"unknown keys in driver: {', '.join(unknown)}", node=node, wanted=", ".join(sorted(_KNOWN)))
    said.check(extras, node, flags=_FLAGS, lists=tables.LISTS, mappings=("power_parameters",))


def check(wanted: Wanted) -> None:
    """:raises ConfigError: naming what MAAS's driver would drop without a word: the machine stayed in another pool."""
    check_extras(wanted.extras, wanted.host)
    unknown = sorted(map(str, set(wanted.properties) - set(tables.PROPERTIES) - tables.FOUND_OUT))
    if unknown:
        raise ConfigError(
            f"unknown keys in properties: {', '.join(unknown)}",
            node=wanted.host,
            wanted=", ".join(tables.PROPERTIES),
            do="correct enroll_properties, or the option properties; nothing was changed",
        )


def options(extras: Mapping[str, Any], table: Mapping[str, bool]) -> list[tuple[str, str]]:
    """Those options of an operation that the task gives, in MAAS's words."""
    given = []
    for key, is_bool in table.items():
        if extras.get(key) is not None:
            value = extras[key]
            text = ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
            given.append((key, _word(value) if is_bool else text))
    return given


def _word(value: Any) -> str:
    """A boolean as MAAS reads it without mistake: to half of its operations ``0`` is true."""
    return "true" if said.flag(value) else "false"


def power_type(wanted: Wanted) -> str:
    return "ipmi" if wanted.bmc.get("bmc_protocol") == "ipmi" else "redfish"


def power_parameters(wanted: Wanted) -> dict[str, str]:
    """How MAAS reaches the BMC."""
    bmc = wanted.bmc
    require(bmc, "bmc_address", "bmc_username", "bmc_password", node=wanted.host)
    is_ipmi = power_type(wanted) == "ipmi"
    parts = parts_of(bmc, wanted.host, None if is_ipmi else ("http", "https"))
    own = {str(key): str(value) for key, value in (wanted.extras.get("power_parameters") or {}).items()}
    login = {"power_user": str(bmc["bmc_username"]), "power_pass": str(bmc["bmc_password"])}
    if is_ipmi:
        if parts.port not in (None, _IPMI_PORT):
            raise ConfigError(
                f"MAAS speaks IPMI on port {_IPMI_PORT} alone",
                node=wanted.host,
                seen=parts.netloc,
                do=f"serve the BMC on port {_IPMI_PORT}",
            )
        return {"power_address": parts.host, "power_driver": "LAN_2_0", **login, **own}
    # With its scheme the address is an internal error of MAAS (500, netaddr).
    info = {"power_address": parts.netloc, **login}
    system = str(bmc.get("bmc_system_id") or "").rstrip("/").rpartition("/")[2]
    if system:
        info["node_id"] = system
    return {**info, **own}


def as_fields(parameters: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(f"power_parameters_{key}", value) for key, value in parameters.items()]


def shown(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Without secrets."""
    return {key: MASK if key in _SECRETS else value for key, value in parameters.items()}


def architecture(wanted: Wanted) -> str:
    given = str(wanted.properties.get("cpu_arch") or "x86_64")
    return tables.ARCHITECTURES.get(given, given)


def fields(wanted: Wanted) -> dict[str, str]:
    """MAAS's fields out of our properties; what MAAS finds out by itself is left out."""
    found = {}
    for ours, (theirs, _path) in tables.PROPERTIES.items():
        if wanted.properties.get(ours):
            found[theirs] = architecture(wanted) if ours == "cpu_arch" else str(wanted.properties[ours])
    return found


def standing(raw: Mapping[str, Any], field: str) -> str:
    """What a machine's record says of such a field."""
    value: Any = raw
    for part in PATHS[field]:
        value = value.get(part) if isinstance(value, dict) else None
    return "" if value is None else str(value)


def macs(raw: Mapping[str, Any]) -> set[str]:
    """All MACs of a machine; empty for one that was never looked at."""
    interfaces = list(raw.get("interface_set") or []) + [raw.get("boot_interface") or {}]
    return {mac(str(one["mac_address"])) for one in interfaces if isinstance(one, dict) and one.get("mac_address")}


def serial(raw: Mapping[str, Any]) -> str:
    """Empty until commissioning has found it."""
    return serial_of((raw.get("hardware_info") or {}).get("system_serial"))


def own_series(extras: Mapping[str, Any]) -> str:
    """What the option ``driver`` has deployed in place of the image; empty where nothing is."""
    return str(extras.get("distro_series") or "")


def series(image: Image | None, extras: Mapping[str, Any]) -> str:
    """What is deployed, as MAAS calls it."""
    return own_series(extras) or (f"custom/{image.label}" if image else "")


def running(raw: Mapping[str, Any]) -> str:
    """The same, of a machine. Empty where mark_fixed has called a wiped machine deployed."""
    system, name = str(raw.get("osystem") or ""), str(raw.get("distro_series") or "")
    return f"{system}/{name}" if system and name else ""


def same_series(one: str, other: str) -> bool:
    """``noble`` and ``ubuntu/noble`` are one; so are NAME and ``custom/NAME``."""
    if "/" in one and "/" in other:
        return one == other
    return bool(one) and one.rpartition("/")[2] == other.rpartition("/")[2]


#: With one of these in a key MAAS answers 500.
_NO_KEY = re.compile(r"[\s/:]")


def odd_keys(annotations: Mapping[str, str]) -> FleetError | None:
    """What MAAS takes as no key of an annotation; None where it takes them all."""
    odd = sorted(key for key in annotations if _NO_KEY.search(key))
    if not odd:
        return None
    return ConfigError(
        "MAAS takes no annotation of such a name",
        wanted="names without blanks, / and :",
        seen=", ".join(odd),
        do="rename it in the option annotations",
    )


# -- which deployment it is, as annotations: they live as long as the machine has an owner ----------------------

_NOTE = "gpufleet-"


def notes(image: Image) -> list[tuple[str, str]]:
    """An empty value removes a key, which is as well."""
    return [(_NOTE + key.replace("_", "-"), value) for key, value in image.identity().items()]


def user_data(image: Image) -> list[tuple[str, str]]:
    """What cloud-init of the deployed system reads: which deployment it came with. MAAS keeps it for that one alone."""
    if not image.deploy_id:
        return []
    told = deployment.marked(image.deploy_id)
    lines = ["#cloud-config", "write_files:", "- path: /etc/gpufleet/deployment", f"  content: {told}", ""]
    return [("user_data", b64encode("\n".join(lines).encode()).decode())]


def noted(raw: Mapping[str, Any]) -> dict[str, str]:
    """What :func:`notes` left; empty where somebody else deployed the machine."""
    standing_now = raw.get("workload_annotations") or {}
    keys = {key: _NOTE + key.replace("_", "-") for key in ("name", "version", "url", "sha256", "deploy_id")}
    found = {key: str(standing_now[theirs]) for key, theirs in keys.items() if theirs in standing_now}
    return found


def marks(raw: Mapping[str, Any]) -> dict[str, str]:
    """Annotations that are none of ours."""
    standing_now = raw.get("workload_annotations") or {}
    return {str(key): str(value) for key, value in standing_now.items() if not str(key).startswith(_NOTE)}


def deployed_image(raw: Mapping[str, Any]) -> dict[str, str]:
    """For people: what MAAS says it deployed, and what is noted of it."""
    label = running(raw).rpartition("/")[2]
    return {"label": label, **noted(raw)} if label else {}


# -- our token, as a line of the machine's description: MAAS has no field for it ---------------------------------


def token_in(description: str) -> str:
    return next((line.strip() for line in description.splitlines() if has_form(line.strip())), "")


def with_token(description: str, token: str) -> str:
    """The description with this token in place of an older one; without any where it is empty.

    What people wrote comes back to the last line break. Where their text ends without one, so does the token: the
    break before such a token is ours.
    """
    lines = description.splitlines(keepends=True)
    kept = "".join(line for line in lines if not has_form(line.strip()))
    if lines and has_form(lines[-1].strip()) and not lines[-1].endswith("\n"):
        kept = kept[: len(kept) - kept.endswith("\n")]
    if not token or not kept:
        return kept or token
    return f"{kept}{token}\n" if kept.endswith("\n") else f"{kept}\n{token}"


#: As MAAS numbers what commissioning finds on a bus (HARDWARE_TYPE), and the makers of what computes: a BMC's picture
#: stands there as well.
_GPU = 5
_MAKERS = frozenset({"10de", "1002"})


def hardware_in(raw: Mapping[str, Any], devices: Any) -> parts.Hardware:
    """What commissioning found."""
    cards = [one for one in parts.listed(raw.get("interface_set")) if one.get("type") == "physical"]
    gpus = [one for one in parts.listed(devices) if one.get("hardware_type") == _GPU]
    gpus = [one for one in gpus if str(one.get("vendor_id") or "").lower() in _MAKERS]
    about = raw.get("hardware_info") or {}
    model, bios = (parts.text(about.get(key)) for key in ("cpu_model", "mainboard_firmware_version"))
    return parts.Hardware(
        cpu_threads=parts.count(raw.get("cpu_count")),
        cpu_model=None if model == "Unknown" else model,
        memory_gib=parts.gib_of_mib(raw.get("memory")),
        gpu_count=parts.several(gpus),
        gpu_devices=tuple(filter(None, (parts.device_id(one.get("product_id")) for one in gpus))),
        nic_count=parts.ports(one.get("mac_address") for one in cards),
        drive_count=parts.several(parts.listed(raw.get("physicalblockdevice_set"))),
        firmware={"bios": bios} if bios and bios != "Unknown" else {},
    )
