# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Are the settings known, there, and of the form that is read? PRIVATE to the collection.

A variable that is misspelt is read by nobody, and nothing else would ever say so.
"""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import (
    BMC,
    FROM_HOST_VARS,
    PROVISIONER,
    SCHEDULER,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut, short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._folded import folded
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import names as provisioners
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.specs import IMAGE_OPTIONS
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _inventory_cells as cells
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _tenant as tenant
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._causes import NOTE, SITE, Cause
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_columns import COLUMNS, is_slip
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._known_names import (
    ARTIFACTS,
    NUMBERS,
    OF_A_RUN,
    PLAYBOOKS,
    ROLES,
    SWITCHES,
)
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._preflight import Batch

CHECK = "settings"
PREFIX = "gpufleet_"
IMAGE = "gpufleet_image"
_CLOUD = "provisioner_cloud"
#: The variables of a host that somebody reads.
OWN: frozenset[str] = frozenset([*(PREFIX + name for name in FROM_HOST_VARS), *OF_A_RUN])
#: And what roles and playbooks take.
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    **{name: {"type": "bool" if name in SWITCHES else "raw"} for names in PLAYBOOKS.values() for name in names},
    **{name: dict(option) for role in ROLES.values() for name, option in role.items()},
}
_OPTION_NAMES = frozenset(OPTIONS)
#: Whatever is called so is no slip.
_HEARD = OWN | _OPTION_NAMES | frozenset(ARTIFACTS)
#: What each may be; any other one is text.
TYPES: Mapping[str, Mapping[str, Any]] = {
    **{PREFIX + name: option for name, option in {**BMC, **PROVISIONER, **SCHEDULER}.items()},
    IMAGE: {"type": "dict", "options": IMAGE_OPTIONS},
    "gpufleet_passport_public_keys": {"type": "list", "elements": "str"},
    **OPTIONS,
}
#: Without these no node comes through day 0, and why.
NEEDED: Mapping[str, str] = {
    "gpufleet_bmc_address": "the BMC's address",
    "gpufleet_bmc_username": "the BMC's login",
    "gpufleet_bmc_password": "the BMC's login",
    "gpufleet_provisioner": "which provisioner deploys the node",
    "gpufleet_scheduler": "which scheduler the node joins; none where it joins none",
    "gpufleet_sku": "which profile the gates judge by",
    IMAGE: "the image that the node is to run",
    "gpufleet_passport_key_path": "the private key that signs passports",
    "gpufleet_passport_public_keys": "the keys whose passports are accepted",
}
#: Identity and addresses, whose form a list of servers checks cell by cell, and an inventory of one's own does not.
_CELLS = {COLUMNS[column][0]: column for column in ("boot_mac", "system_uuid", "node_id", "bmc_ip")}
#: How a template reads the environment: the name of the variable.
_ENVIRONMENT = re.compile(r"(?:lookup|query|q)\(\s*['\"](?:ansible\.builtin\.)?env['\"]\s*,\s*['\"](\w+)['\"]")
_NEAR, _NEAR_OF_OTHERS = 0.75, 0.9
#: Where Ansible puts the words of -e that are no NAME=VALUE.
_REST = "_raw_params"
_NEAR_WITHOUT_PREFIX = 0.5
_BUDGETS = "fleet_plan_budgets"
#: What the filter bool takes for yes or no, by which playbooks and roles read all that is either. What options of
#: modules take besides (y, t) is a silent no to it.
_EITHER = frozenset({"yes", "on", "true", "1", "no", "off", "false", "0"})
#: What Ansible's filters and options take for a number alike.
_NUMBER = re.compile(r"\d+(\.\d+)?", re.ASCII)


def look(batch: Batch) -> None:
    sound: dict[tuple[str, str], str] = {}
    _lines(batch)
    for host in batch.hosts:
        names = batch.names(host)
        _names(batch, host, names)
        for name in sorted((OWN | _OPTION_NAMES) & set(names)):
            _form(batch, host, name, sound)
        _there(batch, host)
        _beside_a_cloud(batch, host)
        batch.try_for([host], CHECK, tenant.stranger, batch.variable, host)


def _lines(batch: Batch) -> None:
    """Given to -i, a list of servers is read by Ansible's own plugin for INI, which takes each line for a host."""
    lines = [host for host in batch.hosts if "," in host or ";" in host]
    if lines:
        what = "hosts are called like the lines of a list of servers"
        do = "give -i the file of the inventory that reads the list (fleet.yml), not the list or its folder"
        batch.tell(lines, Cause(CHECK, SITE, what, seen=short(lines[0], 60), do=do))


# -- names ---------------------------------------------------------------------------------------------------------


def _names(batch: Batch, host: str, names: Collection[str]) -> None:
    budgets = batch.value(host, _BUDGETS) if _BUDGETS in names else None
    # Waves read of a host what their budgets are called after, whatever a site calls its power and its rows.
    read = frozenset(map(str, budgets)) if isinstance(budgets, Mapping) else frozenset()
    for name in names:
        cause = None if name in _HEARD or name in read else _unheard(name, names)
        if cause is not None:
            batch.tell([host], cause)


def _unheard(name: str, beside: Collection[str]) -> Cause | None:
    """What is wrong with a name that nobody reads; nothing where it is none of ours, nor like one."""
    ours = name.startswith(PREFIX)
    near = _slip(name, OWN, _NEAR if ours else _NEAR_OF_OTHERS)
    if ours and near and not (near in beside and _is_another(name, near)):
        # Also beside the right one: what overrides a group's image or tenant would be passed over.
        return Cause(CHECK, SITE, f"nobody reads the variable {name}", do=f"did you mean {near}? Correct the name")
    if ours:
        do = "leave it out, or choose a name of your own"
        do = f"did you mean {near}? Else {do}" if near else do
        return Cause(CHECK, NOTE, f"nobody reads the variable {name}", do=do)
    # Somebody's own variable may be called like one of ours, as long as that one is there as well.
    kind = SITE if near in OWN and near not in beside else NOTE
    near = near or _slip(name, _OPTION_NAMES, _NEAR_OF_OTHERS)
    if not near:
        return None
    return Cause(CHECK, kind, f"nobody reads the variable {name}", do=f"did you mean {near}? Else leave it as it is")


def _given(given: Mapping[str, Any]) -> str:
    """The words themselves may be a part of a password."""
    return ", ".join(sorted(cut(name, 60) for name in given if name != _REST)) or "no name at all"


def demand_heard(given: Mapping[str, Any]) -> None:
    """What a person gives to one run, and nobody reads, was meant to change it.

    :param given: the extra variables.
    :raises ConfigError: naming the one that is like one of ours, and the one that was meant; or what is of none.
    """
    if _REST in given:
        raise ConfigError(
            "words of -e belong to no variable: a value ends at its first blank",
            wanted='-e \'{"NAME": "a value with blanks"}\'',
            seen=f"{len(str(given[_REST]).split())} words behind that, among the values of {_given(given)}",
            do="write that value as JSON; nothing was changed",
        )
    for name in sorted(set(given) - _HEARD):
        near = _slip(name, OWN, _NEAR if name.startswith(PREFIX) else _NEAR_OF_OTHERS)
        near = near or _slip(name, _OPTION_NAMES, _NEAR_OF_OTHERS)
        if near and near not in given:
            raise ConfigError(
                f"nobody reads the extra variable {name}",
                wanted="a variable that the playbook or one of its roles reads",
                seen=f"-e {name}",
                do=f"did you mean {near}? Correct the name, or leave it out; nothing was changed",
            )
    # What is neither yes nor no would be no: of a renewal nothing would be renewed, and that called a success.
    _demand(given, SWITCHES, _is_either, "neither yes nor no", "true or false")
    _demand(given, NUMBERS, _is_number, "no number", "a number without its unit, 0 or more")


def _demand(
    given: Mapping[str, Any], names: Collection[str], fits: Callable[[Any], bool], what: str, wanted: str
) -> None:
    wrong = [name for name in sorted(names) if name in given and not fits(given[name])]
    if wrong:
        raise ConfigError(
            f"what is given with -e is {what}",
            wanted=wanted,
            seen=", ".join(f"{name}={cut(given[name], 40)}" for name in wrong),
            do="correct it; nothing was changed",
        )


def _is_number(value: Any) -> bool:
    """Also what is known when it is templated."""
    return "{{" in str(value) or _NUMBER.fullmatch(str(value)) is not None


def _is_either(value: Any) -> bool:
    """Also what is not set, and what is known when it is templated."""
    return value in (None, "") or "{{" in str(value) or str(value).lower() in _EITHER


def demand_sound(
    roles: Collection[str],
    hosts: Sequence[str],
    names: Callable[[str], Collection[str]],
    read: Callable[[str, str], Any],
) -> None:
    """What the options of roles may be, once for all hosts: each role's own look at them is a task of each host.

    :param names: of all that is set for a host.
    :param read: a host's variable.
    :raises ConfigError: naming each option that its role does not take, and whose it is.
    """
    unknown = sorted(set(roles) - set(ROLES))
    if unknown:
        raise ConfigError(f"no such role: {', '.join(unknown)}", wanted=", ".join(sorted(ROLES)), do="correct it")
    options = frozenset(name for role in roles for name in ROLES[role])
    sound: dict[tuple[str, str], str] = {}
    wrong: dict[str, list[str]] = {}
    for host in hosts:
        for name in sorted(options.intersection(names(host))):
            problem = _told_of(host, name, read, sound)
            if problem:
                wrong.setdefault(problem, []).append(host)
    if wrong:
        raise ConfigError(
            "what roles are given is not what they take",
            wanted="options as the argument specs of the roles have them",
            seen="; ".join(f"{problem} ({folded(hosts)})" for problem, hosts in wrong.items()),
            do="correct them; nothing was changed",
        )


def _told_of(host: str, name: str, read: Callable[[str, str], Any], sound: dict[tuple[str, str], str]) -> str:
    try:
        value = read(host, name)
    except ConfigError as exc:
        return f"{name} cannot be read: {short(exc.__cause__, 200)}"
    key = (name, repr(value))
    if key not in sound:
        sound[key] = "" if value in (None, "") else _problem(name, value)
    return sound[key]


def _is_another(name: str, near: str) -> bool:
    """Several of these, or one more, of the site's own: gpufleet_images, gpufleet_image2."""
    return re.fullmatch(rf"{near}(s|_?\d+)", name) is not None


@functools.lru_cache(maxsize=4096)  # all hosts have nearly the same names
def _slip(name: str, known: frozenset[str], cutoff: float) -> str:
    """The known name that was meant, if one was."""
    near = _near(name, known, cutoff)
    return near if near and _like(name, near) and is_slip(name, near) else ""


def _like(name: str, near: str) -> bool:
    """Also without what all our names begin with: of a short one little else is the same in pdu and sku."""
    own, other = name.removeprefix(PREFIX), near.removeprefix(PREFIX)
    return not name.startswith(PREFIX) or difflib.SequenceMatcher(None, own, other).ratio() > _NEAR_WITHOUT_PREFIX


def _near(name: str, known: Collection[str], cutoff: float) -> str:
    return next(iter(difflib.get_close_matches(name, known, 1, cutoff)), "")


# -- forms ---------------------------------------------------------------------------------------------------------


def _form(batch: Batch, host: str, name: str, sound: dict[tuple[str, str], str]) -> None:
    try:
        value = batch.read(host, name)
    except ConfigError as exc:
        batch.spoilt.add((host, name))
        batch.tell([host], Cause(CHECK, SITE, f"{name} cannot be read", seen=short(exc.__cause__, 200), do=exc.do))
        return
    if value in (None, ""):
        return
    key = (name, repr(value))
    if key not in sound:
        sound[key] = _problem(name, value)
    if sound[key]:
        batch.spoilt.add((host, name))
        batch.tell([host], Cause(CHECK, SITE, sound[key], do=f"correct {name}"))


def _problem(name: str, value: Any) -> str:
    """What is wrong with a value, in words; a secret is any text."""
    kind = TYPES.get(name, {"type": "str"})
    if kind.get("type") == "list" and isinstance(value, str):
        return ""  # as the verbs take it: paths between commas
    if kind.get("type") == "dict" and not isinstance(value, (Mapping, str)):
        return f"{name} is {'a list' if isinstance(value, (list, tuple)) else 'one value'}, wanted: keys and values"
    if kind.get("type") == "bool" and name in OPTIONS and not _is_either(value):
        return f"{name} is {cut(value, 40)}, wanted: true or false"
    strange = _strange_keys(value) or _numbers(value) if name == IMAGE and isinstance(value, Mapping) else ""
    if strange:
        return strange
    # A dict as the verbs take it: with the keys that hold something.
    given = {key: one for key, one in value.items() if one is not None} if isinstance(value, Mapping) else value
    checked = ArgumentSpecValidator({name: dict(kind)}).validate({name: given})
    if checked.error_messages:
        return short("; ".join(checked.error_messages), 300)
    trouble = cells.problem(_CELLS[name], str(value)) if name in _CELLS else ""
    return f"{name}: {trouble}" if trouble else ""


def _strange_keys(image: Mapping[str, Any]) -> str:
    told = []
    for key in (str(key) for key in image if key not in IMAGE_OPTIONS):
        near = _near(key, IMAGE_OPTIONS, 0.6)
        told.append(f"{key}" + (f" (did you mean {near}?)" if near else ""))
    return f"{IMAGE} has keys that nobody reads: {', '.join(told)}" if told else ""


def _numbers(image: Mapping[str, Any]) -> str:
    """YAML reads 1.10 as the number 1.1: two images would be one to whatever compares them by version."""
    told = [f"{key} {value:g}" for key, value in image.items() if isinstance(value, float)]
    return f"{IMAGE} has numbers where names belong ({', '.join(told)}): write them in quotes" if told else ""


# -- what must be there --------------------------------------------------------------------------------------------


def _there(batch: Batch, host: str) -> None:
    for name, what in (*NEEDED.items(), *_needed_there(batch, host)):
        if (host, name) in batch.spoilt or batch.value(host, name) not in (None, [], {}):
            continue
        empty = name in batch.names(host)
        read = _ENVIRONMENT.search(str(batch.raw(host, name) or "")) if empty else None
        if read is not None:
            batch.tell([host], _unset(name, what, read[1]))
            continue
        from_where = "look at what it is read from: a variable of the environment, a vault, a lookup"
        do = from_where if empty else f"set {name}"
        batch.tell([host], Cause(CHECK, SITE, f"{name} is {'empty' if empty else 'not set'}: {what}", do=do))


def _unset(name: str, what: str, variable: str) -> Cause:
    do = f"export {variable} where Ansible runs, or set {name} itself, in a vault for instance"
    return Cause(CHECK, SITE, f"{name} is empty, since the environment variable {variable} is not set: {what}", do=do)


def _needed_there(batch: Batch, host: str) -> Iterator[tuple[str, str]]:
    """The address of the provisioner, as its driver reads it, and each secret of its login that is set, and empty.

    A cloud of clouds.yaml has a login of its own; and without a user, a password is read by nobody.
    """
    options = {option for option in ("provisioner_url", "provisioner_cloud") if batch.value(host, PREFIX + option)}
    if batch.value(host, "gpufleet_provisioner") and not options:
        yield "gpufleet_provisioner_url", "the provisioner's address"
    if _cloud(batch, host):
        return
    read = provisioners.DRIVERS.get(batch.text(host, "gpufleet_provisioner"), ())
    for option in read:
        nobodys = option == "provisioner_password" and not batch.value(host, PREFIX + "provisioner_username")
        secret = provisioners.OPTIONS.get(option, {}).get("no_log") and not nobodys
        if secret and PREFIX + option in batch.names(host):
            yield PREFIX + option, "the provisioner's login"


def _cloud(batch: Batch, host: str) -> str:
    """The cloud of clouds.yaml that says where its provisioner is, and how one logs in; empty where none does."""
    read = provisioners.DRIVERS.get(batch.text(host, "gpufleet_provisioner"), ())
    return batch.text(host, PREFIX + _CLOUD) if _CLOUD in read else ""


def _beside_a_cloud(batch: Batch, host: str) -> None:
    """What a person takes for the place, or for its login, and nobody reads."""
    cloud = _cloud(batch, host)
    if not cloud:
        return
    beside = [PREFIX + option for option in provisioners.DRIVERS[batch.text(host, "gpufleet_provisioner")]]
    unread = [name for name in beside if name != PREFIX + _CLOUD and batch.value(host, name)]
    if unread:
        what = f"{', '.join(unread)}: not used, since {PREFIX}{_CLOUD} names the cloud {cloud}"
        do = f"leave out what is not used; or, if it is another Ironic than that cloud's, leave out {PREFIX}{_CLOUD}"
        batch.tell([host], Cause(CHECK, NOTE, what, do=do))
