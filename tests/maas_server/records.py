# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lists and records: the filters of GET machines/, and the forms of POST and PUT."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Collection
from typing import Any

from . import statuses as s
from . import uploads, versions
from .answers import Answer, AnswerError
from .config import Config
from .params import Form
from .store import Machine

_CHOICE = "Select a valid choice. That choice is not one of the available choices."
_NO_CARDS = "Can't set power type to {}. A node needs network interfaces for it: without network interfaces it is none."
#: Kernels of what is deployed here, the oldest first.
KERNELS = ("ga-20.04", "ga-22.04", "hwe-22.04", "ga-24.04", "hwe-24.04")
#: Power type -> the parameters that it needs, and those that it knows besides.
_POWER: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "manual": ((), ()),
    "redfish": (("power_address", "power_user", "power_pass"), ("node_id",)),
    "ipmi": (
        ("power_address",),
        (
            *("power_driver", "power_boot_type", "power_user", "power_pass", "k_g", "cipher_suite_id"),
            *("privilege_level", "workaround_flags", "mac_address"),
        ),
    ),
    "virsh": (("power_address", "power_id"), ("power_pass",)),
}
_CIPHERS = ("", "3", "8", "12", "17")
_WORDS = {"power_address": "Power address", "power_user": "Power user", "power_pass": "Power password"}
_RULES: dict[str, Callable[[Machine, list[str]], bool]] = {
    "id": lambda one, values: one.system_id in values,
    "system_id": lambda one, values: one.system_id in values,
    "hostname": lambda one, values: one.hostname in values or f"{one.hostname}.{one.domain}" in values,
    "mac_address": lambda one, values: bool(set(one.macs) & set(values)),  # in capitals nothing is found
    "domain": lambda one, values: one.domain in values,
    "agent_name": lambda one, values: one.agent_name in values,
    "status": lambda one, values: one.status in {s.WORDS[value] for value in values},
    "zone": lambda one, values: one.zone in values,
    "pool": lambda one, values: one.pool in values,
    "tags": lambda one, values: set(values) <= set(one.tags),
    "owner": lambda one, values: one.owner in values,
    "power_state": lambda one, values: one.power_state in values,
    "arch": lambda one, values: any(one.architecture.startswith(value) for value in values),
}
#: Each of these turns a rule around.
_NOT = {"not_in_zone": "zone", "not_in_pool": "pool", **{f"not_{name}": name for name in _RULES}}


def select(
    machines: list[Machine], filters: list[tuple[str, str]], config: Config, every: Collection[Machine]
) -> list[Machine]:
    """:raises AnswerError: 400 for a filter or a value that MAAS does not know."""
    wanted: dict[str, list[str]] = {}
    for key, value in filters:
        if key == "simple_status":
            raise AnswerError(Answer.text(500, "Cannot resolve keyword 'simple_status' into field."))
        if key not in _RULES and key not in _NOT:
            raise AnswerError(Answer.form_error({key: ["No such constraint."]}))
        if key in ("status", "not_status") and value not in s.WORDS:
            text = f"Select a valid choice. {value} is not one of the available choices."
            raise AnswerError(Answer.form_error({key: [text]}))
        _known_value(_NOT.get(key, key), key, value, config, every)
        wanted.setdefault(key, []).append(value)
    for key, values in wanted.items():
        rule = _RULES.get(key) or _RULES[_NOT[key]]
        machines = [one for one in machines if rule(one, values) == (key in _RULES)]
    return machines


def _known_value(rule: str, key: str, value: str, config: Config, every: Collection[Machine]) -> None:
    """What is filtered by must be there, whether any machine has it or not."""
    known = {
        "pool": set(_known(config, "pools")),
        "zone": set(_known(config, "zones")),
        "tags": {tag for one in every for tag in one.tags} | {*config.tags, *config.definitions},
        "owner": {user.name for user in config.users},
    }.get(rule, {value})
    if value not in known:
        raise AnswerError(Answer.form_error({key: [_CHOICE]}))
    if rule == "mac_address" and not re.fullmatch(r"(?i)[0-9a-f]{2}([:-][0-9a-f]{2}){5}", value):
        raise AnswerError(Answer.form_error({key: [f"'{value}' is not a valid MAC address."]}))


def create(form: Form, config: Config, system_id: str, machines: Collection[Machine]) -> Machine:
    """:raises AnswerError: 400 with what is wrong, field by field."""
    errors: dict[str, list[str]] = {}
    architecture = ""
    try:
        architecture = _architecture(form, config)
    except AnswerError as exc:
        errors.update(json.loads(exc.answer.body))
    macs = [value.lower() for key in ("mac_addresses", "mac_addresses[]") for value in form.all(key)]
    if not macs and form.get("power_type") != "ipmi":
        errors["mac_addresses"] = ["This field is required."]
        errors["power_type"] = [_NO_CARDS.format(form.get("power_type") or "manual")]
    taken = {mac for one in machines for mac in one.macs}
    used = [mac for mac in macs if mac in taken]
    if used:
        errors["mac_addresses"] = [f"MAC address {used[0]} already in use on another machine."]
        errors["power_type"] = [_NO_CARDS.format(form.get("power_type") or "manual")]
    if errors:
        raise AnswerError(Answer.form_error(errors))
    machine = Machine(system_id=system_id, hostname=f"made-up-{system_id}", macs=macs)
    machine.architecture = architecture
    machine.is_dpu = versions.takes_dpus(config.version) and form.django_bool("is_dpu")
    if machine.is_dpu and not architecture.startswith("arm64/"):
        text = "Invalid DPU architecture provided. Only 'arm64' architecture is supported."
        raise AnswerError(Answer.form_error({"architecture": [text]}))
    machine.min_hwe_kernel = config.default_min_hwe_kernel
    change(machine, form, config, machines)
    return machine


def change(machine: Machine, form: Form, config: Config, machines: Collection[Machine]) -> None:
    """PUT: what the form does not know is ignored in silence; of a form with one error nothing is taken."""
    draft = copy.deepcopy(machine)
    _changed(draft, form, config, [one for one in machines if one is not machine])
    vars(machine).update(vars(draft))


def _changed(machine: Machine, form: Form, config: Config, machines: Collection[Machine]) -> None:
    if form.get("hostname"):
        _rename(machine, form.get("hostname"), config, {one.hostname for one in machines})
    if form.has("description"):
        machine.description = form.get("description")
    _least_kernel(machine, form)
    for key, known in (
        ("pool", _known(config, "pools")),
        ("zone", _known(config, "zones")),
        ("domain", config.domains),
    ):
        if form.has(key):
            if form.get(key) not in known:
                raise AnswerError(Answer.form_error({key: [_CHOICE]}))
            setattr(machine, key, form.get(key))
    if form.has("architecture"):
        machine.architecture = _architecture(form, config)
    parameters = form.below("power_parameters_")
    if "://" in parameters.get("power_address", ""):
        text = "IPAddress() does not support netmasks or subnet prefixes! See documentation for details."
        raise AnswerError(Answer.text(500, text))
    if form.has("power_type") and form.get("power_type") != machine.power_type:
        machine.power_type, machine.power_parameters = form.get("power_type"), {}
    machine.power_parameters.update(parameters)
    if form.has("power_type") or parameters:
        check_power(machine, skip=form.get("power_parameters_skip_check").lower() == "true")


def _least_kernel(machine: Machine, form: Form) -> None:
    """One of those that there are; a DPU's is by default, and at least, hwe-22.04."""
    wished = form.get("min_hwe_kernel") or machine.min_hwe_kernel
    if wished and wished not in KERNELS:
        text = f'No kernel matches ">={wished}" requirement.'
        raise AnswerError(Answer.form_error({"min_hwe_kernel": [text]}))
    if machine.is_dpu and KERNELS.index(wished or "hwe-22.04") < KERNELS.index("hwe-22.04"):
        text = f"Invalid minimum {wished} DPU kernel used. Only 'hwe-22.04' or newer are supported."
        raise AnswerError(Answer.form_error({"__all__": [text]}))
    machine.min_hwe_kernel = wished or ("hwe-22.04" if machine.is_dpu else "")


def _architecture(form: Form, config: Config) -> str:
    """One of those that an image was imported of."""
    known = [f"{kind}/generic" for kind in config.architectures]
    wished = form.get("architecture")
    wished = wished if "/" in wished else f"{wished}/generic"
    if wished not in known:
        choices = ", ".join(map(repr, known)) or "''"
        text = f"'{wished}' is not a valid architecture.  It should be one of: {choices}."
        raise AnswerError(Answer.form_error({"architecture": [text]}))
    return wished


def check_power(machine: Machine, *, skip: bool) -> None:
    """Types and their parameters are known ones, and none that is needed is missing."""
    if machine.power_type not in _POWER:
        text = f"Select a valid choice. {machine.power_type} is not one of the available choices."
        raise AnswerError(Answer.form_error({"power_type": [text]}))
    if skip:
        return
    needed, others = _POWER[machine.power_type]
    told = machine.power_parameters
    wrong = [f"{_WORDS.get(key, key)}: This field is required." for key in needed if not told.get(key)]
    odd = sorted(set(told) - {*needed, *others, "skip_check"})
    wrong += [f"Unknown parameter(s): {', '.join(odd)}."] if odd else []
    if told.get("cipher_suite_id", "") not in _CIPHERS:
        text = f"Select a valid choice. {told['cipher_suite_id']} is not one of the available choices."
        wrong.append(f"Cipher Suite ID: {text}")
    if wrong:
        raise AnswerError(Answer.form_error({"power_parameters": wrong}))


def _rename(machine: Machine, name: str, config: Config, taken: set[str]) -> None:
    """A name is one machine's over all domains; a full one is split, and its domain must be there."""
    short, _dot, domain = name.partition(".")
    if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?", short):
        raise AnswerError(Answer.form_error({"hostname": [f"Invalid hostname: '{short}'."]}))
    if short in taken:
        raise AnswerError(Answer.form_error({"hostname": ["Node with this Hostname already exists."]}))
    if domain and domain not in config.domains:
        raise AnswerError(Answer.form_error({"hostname": ["Nonexistent domain."]}))
    machine.hostname, machine.domain = short, domain or machine.domain


def domains(config: Config) -> list[dict[str, Any]]:
    return [
        {
            "authoritative": True,
            "ttl": None,
            "id": number,
            "name": name,
            "resource_record_count": 0,
            "is_default": not number,
            "resource_uri": f"/MAAS/api/2.0/domains/{number}/",
        }
        for number, name in enumerate(config.domains)
    ]


def tag(config: Config, machines: Collection[Machine], name: str) -> dict[str, Any]:
    """:raises AnswerError: 404 for one that nobody has made."""
    known = {*config.tags, *config.definitions, *(tag for one in machines for tag in one.tags)}
    if name not in known:
        raise AnswerError(Answer.text(404, "No Tag matches the given query."))
    return {
        "name": name,
        "definition": config.definitions.get(name, ""),
        "comment": "",
        "kernel_opts": "",
        "resource_uri": f"/MAAS/api/2.0/tags/{name}/",
    }


def update_nodes(form: Form, machines: dict[str, Machine], name: str) -> dict[str, int]:
    """Ids that it does not know are ignored."""
    adds = [machines[key] for key in form.all("add") if key in machines]
    removes = [machines[key] for key in form.all("remove") if key in machines]
    for one in adds:
        one.tags.append(name) if name not in one.tags else None
    for one in removes:
        one.tags[:] = [tag for tag in one.tags if tag != name]
    return {"added": len(adds), "removed": len(removes)}


def _known(config: Config, kind: str) -> tuple[str, ...]:
    return {"pools": ("default", "training", "quarantine"), "zones": ("default", "row-a", "row-b")}[kind]


def boot_resources(config: Config) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for number, kind in enumerate(config.architectures):
        found.append(
            {
                **_resource(10 + number, "Synced", "ubuntu/noble", f"{kind}/ga-24.04", "24.04 LTS"),
                "subarches": "generic,ga-24.04,hwe-24.04",
                "kflavor": "generic",
                "platform": "generic",
                "supported_platforms": "generic",
            }
        )
    for number, name in enumerate(config.images):
        short = name.rpartition("/")[2].partition(" ")[0]
        kind = str(config.images[name].get("architecture", "amd64"))
        found.append(
            {
                **_resource(100 + number, "Uploaded", short, f"{kind}/generic", short),
                "subarches": "generic",
                "base_image": str(config.images[name].get("base_image", "ubuntu/noble")),
            }
        )
    found = [versions.resource(one, config.version) for one in found]
    return sorted(found, key=lambda one: (one["type"], one["name"], one["architecture"]))


def boot_resource(config: Config, number: int) -> dict[str, Any]:
    """One of them, with the digests of its files."""
    one = next((one for one in boot_resources(config) if one["id"] == number), None)
    if one is None:
        raise AnswerError(Answer.text(404, "No BootResource matches the given query."))
    image = list(config.images.values())[number - 100] if one["type"] == "Uploaded" else {}
    held = image.get("versions") or {"20261115": image}
    one["sets"] = {version: _version(config, number, version, of) for version, of in held.items()}
    return versions.resource(one, config.version)


def _version(config: Config, number: int, version: str, image: dict[str, Any]) -> dict[str, Any]:
    """One that was announced and not uploaded whole is there as well."""
    digest, size, whole = str(image.get("sha256", "")), int(image.get("size", 0)), bool(image.get("complete", True))
    root = {
        "filename": image.get("filename", "root.tgz"),
        "filetype": image.get("filetype", "root-tgz"),
        "sha256": digest,
        "filename_on_disk": digest[:7],
        "size": size,
        "complete": whole,
    }
    root.update({} if whole else uploads.progress(config, image, number, number - 100))
    files = {root["filename"]: root} if image else {}
    return {"version": version, "label": "uploaded", "size": size, "complete": whole, "files": files}


def _resource(number: int, kind: str, name: str, architecture: str, title: str) -> dict[str, Any]:
    return {
        "id": number,
        "type": kind,
        "name": name,
        "architecture": architecture,
        "resource_uri": f"/MAAS/api/2.0/boot-resources/{number}/",
        "last_deployed": None,
        "title": title,
    }
