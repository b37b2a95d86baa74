# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is written into an Ironic node, and how it differs from what stands there. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _bmc_address as bmc_address
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _deployment as deployment
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _hardware as parts
from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import require
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import said
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import Changes
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.ironic import tables, work
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.one_bmc import parts_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Image, Wanted

MASK = "********"
_NOT_SHOWN = "** Redacted"
#: Keys of extra that are ours.
EXTRA = "gpufleet_"
EXTRA_SERIAL, EXTRA_IMAGE = f"{EXTRA}serial", f"{EXTRA}image"
#: And one of instance_info, which ends with the deployment: a disk that is written has no command line to be told by.
_INSTANCE_DEPLOY = "gpufleet_deploy"

#: Booted or installed in place of kernel and ramdisk, or of image_source. Sources: get_instance_image_info in
#: ``ironic/common/pxe_utils.py`` and get_image_instance_info in ``ironic/drivers/modules/deploy_utils.py`` of Ironic
#: 39.0, which ask for boot_iso first, and for the other two with the deploy interface anaconda.
IN_PLACE_KEYS = ("boot_iso", "stage2", "ks_template")
#: What runs beside a verified image, or tells it what to run: the kernel's command line (get_kernel_append_params in
#: ``ironic/drivers/utils.py``; ramdisk_kernel_arguments in ``ironic/common/pxe_utils.py`` and ``image_utils.py``), and
#: what cloud-init does as root. By Ironic's default policy a lessee may write them.
BESIDE_KEYS = ("ramdisk_kernel_arguments", "kernel_append_params", "configdrive")
#: Of these the one that is told to a ramdisk's kernel.
_ARGUMENTS = BESIDE_KEYS[0]
#: What of instance_info says which image is deployed; image_type is Ironic's own finding about it.
IMAGE_KEYS = (
    "kernel",
    "ramdisk",
    "image_source",
    "image_checksum",
    "image_os_hash_algo",
    "image_os_hash_value",
    "image_type",
    *IN_PLACE_KEYS,
)
#: Which bytes are deployed: these, and whatever else of instance_info is about the image (image_url, image_disk_format
#: and more, by deploy_utils.py), but for those that only say by whom and with which login it is fetched.
_IMAGE_PREFIX = "image_"
_FETCHED_BY = frozenset({"image_download_source", "image_request_authorization", "image_request_authorization_secret"})

#: Driver extras that are fields of the node. Those that end in _interface are known by that.
_FIELDS = frozenset({"resource_class", "conductor_group", "automated_clean", "driver", "console_enabled"})
#: Of these, what is true or false.
_FLAGS = ("automated_clean", "console_enabled")
#: Driver extras with a meaning of their own.
_MAPPINGS, _LISTS = ("driver_info", "instance_info"), ("owners", "traits")
_OTHERS = frozenset({*_MAPPINGS, *_LISTS, *work.KEYS})
_SECRETS = ("password", "secret", "token", "k_g", "hex_kg_key", "key_file")

#: BMC protocol -> hardware type.
HARDWARE_TYPES: Mapping[str, str] = {"redfish": "redfish", "ipmi": "ipmi"}
_SYSTEMS = "/redfish/v1/Systems/"
_IPMI_PORT = 623
#: Names in ``driver_info`` of a BMC's address, port and system.
_REACHED_BY = tuple(dict.fromkeys(keys[1:4] for keys in tables.BMCS.values()))
#: How those end that say where the BMC is, of whatever hardware type.
_ADDRESS = "_address"
#: How keys of ``driver_info`` begin that say where the BMC is, and how one logs in there.
_OF_BMC = (*(address[: -len("address")] for address, _port, _system in _REACHED_BY), "irmc_", "client_", "snmp_")


def check_extras(extras: Mapping[str, Any], node: str) -> None:
    """:raises ConfigError: naming what Ironic's driver does not know, or what is of another form."""
    unknown = [key for key in extras if key not in _FIELDS | _OTHERS and not key.endswith("_interface")]
    if unknown:
        raise ConfigError(
            f"unknown keys in driver: {', '.join(sorted(unknown))}",
            node=node,
            wanted=f"*_interface, {', '.join(sorted(_FIELDS | _OTHERS))}",
        )
    said.check(extras, node, flags=(*_FLAGS, work.DISABLE), lists=_LISTS, mappings=_MAPPINGS)


def hardware_type(wanted: Wanted) -> str:
    return str(wanted.extras.get("driver") or HARDWARE_TYPES[str(wanted.bmc.get("bmc_protocol") or "redfish")])


def fields(wanted: Wanted) -> dict[str, Any]:
    """The node's plain fields that the task asks for."""
    own = {key: value for key, value in wanted.extras.items() if key not in _OTHERS}
    own.update({key: said.flag(own[key]) for key in _FLAGS if own.get(key) is not None})
    if wanted.bmc.get("bmc_address") or "driver" in wanted.extras:
        own["driver"] = hardware_type(wanted)
    return own


def driver_info(wanted: Wanted) -> dict[str, Any]:
    """How Ironic reaches the BMC. Empty where the task tells no address."""
    given = dict(wanted.extras.get("driver_info") or {})
    if wanted.bmc_stays:
        return {key: one for key, one in given.items() if not _is_of_bmc(str(key))}
    if not wanted.bmc.get("bmc_address"):
        return given
    make = {"redfish": _redfish, "ipmi": _ipmi}.get(hardware_type(wanted))
    return {**(make(wanted) if make else {}), **given}


def _is_of_bmc(key: str) -> bool:
    return key.startswith(_OF_BMC) or key.endswith(_ADDRESS) or is_secret(key)


def _redfish(wanted: Wanted) -> dict[str, Any]:
    bmc = wanted.bmc
    require(bmc, "bmc_username", "bmc_password", node=wanted.host)
    parts = parts_of(bmc, wanted.host, ("http", "https"))
    verify: Any = bmc.get("bmc_verify_tls")
    if verify is None or verify:
        verify = str(bmc["bmc_ca_path"]) if bmc.get("bmc_ca_path") else True
    info = {
        "redfish_address": f"{parts.scheme or 'https'}://{parts.netloc}",
        "redfish_username": str(bmc["bmc_username"]),
        "redfish_password": str(bmc["bmc_password"]),
        "redfish_verify_ca": verify,
    }
    system = str(bmc.get("bmc_system_id") or "")
    if system:
        info["redfish_system_id"] = system if system.startswith("/") else f"{_SYSTEMS}{system}"
    return info


def _ipmi(wanted: Wanted) -> dict[str, Any]:
    bmc = wanted.bmc
    require(bmc, "bmc_username", "bmc_password", node=wanted.host)
    parts = parts_of(bmc, wanted.host)
    return {
        "ipmi_address": parts.host,
        "ipmi_port": str(parts.port or _IPMI_PORT),
        "ipmi_username": str(bmc["bmc_username"]),
        "ipmi_password": str(bmc["bmc_password"]),
    }


def info_to_send(wanted: Wanted, current: Mapping[str, Any], *, again: bool) -> dict[str, Any]:
    """Ironic masks secrets, so they cannot be compared: they go along where something else differs, where the login has
    just failed, and where the task asks for it (again).

    A lessee may not write what stands there: it is the owner's (``ironic/common/policy.py`` of Ironic 39.0).
    """
    info = driver_info(wanted)
    if is_withheld(current) and not wanted.update_password:
        return {}
    secrets = {key for key in info if is_secret(key)}
    plain = {key: value for key, value in info.items() if key not in secrets}
    return info if again or patch(current, plain) or secrets - set(current) else plain


def is_withheld(info: Mapping[str, Any]) -> bool:
    """What stands there a lessee is not shown (node_sanitize in ``ironic/api/controllers/v1/node.py``, the same)."""
    return str(info.get("content") or "").startswith(_NOT_SHOWN)


def bmc_in(info: Mapping[str, Any]) -> tuple[str, str]:
    """The BMC's address, and its system, of the hardware types whose keys are known."""
    for address, port, system in _REACHED_BY:
        if info.get(address):
            told = bmc_address.joined(str(info[address]), info.get(port))
            return told, str(info.get(system) or "")
    return "", ""


def reached_in(info: Mapping[str, Any]) -> tuple[str, str]:
    """The same of any hardware type: one whose keys nobody here knows says all the same which machine it is. What may
    stand beside such an address, of a chassis or of a switched socket, is not known, so two may have it."""
    known = bmc_in(info)
    other = next((str(info[key]) for key in sorted(info) if key.endswith(_ADDRESS) and info[key]), "")
    return known if known[0] else (other, "")


def is_secret(key: str) -> bool:
    return any(word in key for word in _SECRETS)


def shown(values: Mapping[str, Any]) -> dict[str, Any]:
    """Without secrets."""
    return {key: MASK if is_secret(key) else value for key, value in values.items()}


def own_info(extras: Mapping[str, Any]) -> dict[str, Any]:
    """What the option ``driver`` puts into instance_info."""
    return dict(extras.get("instance_info") or {})


def own_image_keys(extras: Mapping[str, Any]) -> list[str]:
    """Those of :func:`own_info` that say which bytes are deployed, whatever image is declared."""
    return sorted(
        key
        for key in map(str, own_info(extras))
        if key in IMAGE_KEYS or (key.startswith(_IMAGE_PREFIX) and key not in _FETCHED_BY)
    )


#: Format of an image -> what it cannot be deployed without, and why.
_NEEDS: Mapping[str, tuple[str, str]] = {
    "ramdisk": ("kernel_url", ""),
    "whole-disk": ("sha256", ": Ironic checks it after writing the disk"),
}


def undeployable(image: Image) -> FleetError | None:
    """What a deployment of this image lacks; None where it lacks nothing."""
    key, why = _NEEDS[image.format]
    if getattr(image, key):
        return None
    return ConfigError(f"an image of format {image.format} needs {key}{why}", do=f"set {key} in gpufleet_image")


def instance_info(image: Image, extras: Mapping[str, Any], node: str) -> dict[str, Any]:
    """What Ironic's deploy interface reads."""
    flaw = undeployable(image)
    if flaw is not None:
        raise flaw.located(node=node)
    own = own_info(extras)
    if image.format == "ramdisk":
        # A deployment needs no image_source here, but without one a later rebuild ends in HTTP 500 in Ironic 39.0
        # (conductor/deployments.py, start_deploy: auto_lessee is unset).
        return {"image_source": image.url, "kernel": image.kernel_url, "ramdisk": image.url, **_with_mark(own, image)}
    return {
        "image_source": image.url,
        "image_os_hash_algo": "sha256",
        "image_os_hash_value": image.sha256,
        **own,
        **({_INSTANCE_DEPLOY: image.deploy_id} if image.deploy_id else {}),
    }


def _with_mark(own: Mapping[str, Any], image: Image) -> dict[str, Any]:
    """What boots from the network each time is told on its command line which deployment it belongs to.

    With boot interfaces that keep a boot entry (pxe, ipxe, http), one that lies there outlives a rebuild: the id on the
    command line is that of the deployment which began after the last undeploy (prepare_instance_pxe_config in
    ``ironic/common/pxe_utils.py`` of Ironic 39.0). It is the node's own all the same, and shows a boot by that entry.
    """
    if not image.deploy_id:
        return dict(own)
    said = str(own.get(_ARGUMENTS) or "")
    return {**own, _ARGUMENTS: f"{said} {deployment.marked(image.deploy_id)}".strip()}


def without_mark(info: Mapping[str, Any]) -> dict[str, Any]:
    """The same of any deployment."""
    rest = deployment.without(str(info.get(_ARGUMENTS) or ""))
    others = {key: value for key, value in info.items() if key not in (_ARGUMENTS, _INSTANCE_DEPLOY)}
    return {**others, **({_ARGUMENTS: rest} if rest else {})}


def deploy_id(raw: Mapping[str, Any]) -> str:
    """By the mark that an order puts there, which Ironic drops with the instance when that ends."""
    info = raw.get("instance_info") or {}
    said = str(info.get(_ARGUMENTS) or "")
    return str(info.get(_INSTANCE_DEPLOY) or "") or next(iter(deployment.ids_told(said)), "")


def has_drive(image: Image) -> bool:
    """Does a deployment of this image bring a config drive? What is booted from the network each time has none."""
    return image.format != "ramdisk"


def config_drive(image: Image, extras: Mapping[str, Any]) -> dict[str, Any]:
    """What goes with the order that writes a disk, so that the system there tells which deployment it came with.

    A drive of the site's own gets it added; one that is built already is sent as it is, and tells nothing.
    """
    own = own_info(extras).get("configdrive") or {}
    if not image.deploy_id or not has_drive(image) or not isinstance(own, Mapping):
        return {}
    told = {**(own.get("meta_data") or {}), "gpufleet": deployment.marked(image.deploy_id)}
    return {"configdrive": {**own, "meta_data": told}}


def lacking_traits(raw: Mapping[str, Any], extras: Mapping[str, Any]) -> list[str]:
    """Those that are wanted and not there. Others were given by somebody, or by an inspection, and stay."""
    return sorted({str(one) for one in extras.get("traits") or ()} - {str(one) for one in raw.get("traits") or ()})


def deploy_interface(image: Image, extras: Mapping[str, Any]) -> str:
    """The interface this image needs; empty to leave it to Ironic."""
    own = str(extras.get("deploy_interface") or "")
    return own or ("ramdisk" if image.format == "ramdisk" else "")


def patch(current: Mapping[str, Any], wanted: Mapping[str, Any], *, under: str = "") -> list[dict[str, Any]]:
    """JSON patch operations for those keys that differ; None removes a key."""
    operations: list[dict[str, Any]] = []
    for key, value in wanted.items():
        path = f"{under}/{_escaped(key)}"
        if value is None:
            if key in current:
                operations.append({"op": "remove", "path": path})
        elif current.get(key) != value:
            # On an object "add" also replaces; "replace" fails where the key is not there.
            operations.append({"op": "add", "path": path, "value": value})
    return operations


def _escaped(key: str) -> str:
    """RFC 6901."""
    return str(key).replace("~", "~0").replace("/", "~1")


def told(operations: list[dict[str, Any]]) -> str:
    """A patch in words, without values: they may be secrets."""
    return " ".join(operation["path"] for operation in operations)


def hardware_in(inventory: Mapping[str, Any]) -> parts.Hardware:
    """What an inspection stored, in band by the agent or out of band over Redfish; of GPUs neither tells."""
    cpu, memory = inventory.get("cpu") or {}, inventory.get("memory") or {}
    return parts.Hardware(
        cpu_sockets=parts.count(cpu.get("socket_count")),
        cpu_threads=parts.count(cpu.get("count")),
        cpu_model=parts.text(cpu.get("model_name")),
        memory_gib=parts.gib_of_mib(memory.get("physical_mb")),
        nic_count=parts.ports(one.get("mac_address") for one in parts.listed(inventory.get("interfaces"))),
        drive_count=parts.several(parts.listed(inventory.get("disks"))),
    )


def extra(wanted: Wanted) -> dict[str, Any]:
    return {EXTRA_SERIAL: wanted.serial} if wanted.serial else {}


def changes(raw: Mapping[str, Any], operations: list[dict[str, Any]], deferred: tuple[str, ...]) -> Changes:
    """What a patch makes of a record."""
    before: dict[str, Any] = {}
    after: dict[str, Any] = {}
    for operation in operations:
        path = operation["path"].strip("/").replace("/", ".")
        current: Any = raw
        for part in operation["path"].strip("/").split("/"):
            current = current.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(current, dict) else None
        secret = is_secret(path)
        before[path] = MASK if secret and current is not None else current
        after[path] = f"{MASK} (sent again)" if secret else operation.get("value")
    return Changes(before, after, deferred)
