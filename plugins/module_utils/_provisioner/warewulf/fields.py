# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a site says of a node beside its network device: overlays, kernel, BMC, disks. PRIVATE to the collection.

These are read of the node's own record alone: in what its profiles say with it, lists of both stand one after the
other. Only what the site says is compared and written; a disk or a field that it does not name is somebody else's.

Which fields there are: the API's own description of 4.7.0 (``/api/docs/openapi.json``). What is not there Warewulf
takes with 200, and drops.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _deployment as deployment
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import said
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Wanted

Path = tuple[str, ...]
Fields = dict[Path, Any]

#: Keys of the option ``driver`` that are lists, and where their words stand.
LISTS: Mapping[str, Path] = {
    "system_overlays": ("system overlay",),
    "runtime_overlays": ("runtime overlay",),
    "kernel_args": ("kernel", "args"),
}
VERSION = "kernel_version"
ARGS: Path = ("kernel", "args")
PASSWORD: Path = ("ipmi", "password")
MASK = "********"
#: Says that the BMC's login is written as well, which the host's own variables have.
LOGIN = "login"
#: By which a site takes it that a node's overlays have that login. Warewulf's own ``wwinit`` renders it into
#: ``/warewulf/config`` (``config.ww``), and whoever reaches the server's port,
#: such as the root of a tenant, gets the overlays of each node.
IN_OVERLAYS = "password_in_overlays"

_PARTITION: Any = dict.fromkeys(
    (
        *("number", "size_mib", "start_mib", "type_guid", "guid"),
        *("wipe_partition_entry", "should_exist", "resize"),
    ),
    {},
)
#: A mapping of the option ``driver`` -> the fields below it. ``*``: a name of the site's own.
MAPS: Mapping[str, Any] = {
    "ipmi": dict.fromkeys(("ipaddr", "netmask", "gateway", "port", "interface", "escapechar", "write", "template"), {}),
    "disks": {"*": {"wipe_table": {}, "partitions": {"*": _PARTITION}}},
    "filesystems": {
        "*": dict.fromkeys(("format", "path", "wipe_filesystem", "label", "uuid", "options", "mount_options"), {})
    },
}
#: Of which each entry is written as one.
_WHOLE = ("disks", "filesystems")
#: What a node's next boot takes from its disks, or may: a partition of another size can end before its data does.
WIPES = frozenset({"resize", "wipe_table", "wipe_partition_entry", "wipe_filesystem"})

KNOWN = frozenset({*LISTS, *MAPS, VERSION, IN_OVERLAYS})


def check(extras: Mapping[str, Any], node: str) -> None:
    """:raises ConfigError: for what Warewulf would drop without a word."""
    for key, known in MAPS.items():
        given = extras.get(key)
        below = {**known, LOGIN: {}} if key == "ipmi" else known
        odd = unknown(given, below, key) if given else ""
        if odd:
            hint = f"; {LOGIN}: true takes the login of gpufleet_bmc_username and gpufleet_bmc_password"
            raise ConfigError(
                f"no field of a Warewulf node: {odd}",
                node=node,
                wanted=", ".join(sorted(known.get("*", known))) + (hint if key == "ipmi" else ""),
                do=f"correct {key} in driver",
            )
    said.check(extras.get("ipmi") or {}, node, flags=(LOGIN,))
    _demand_taken(extras, node)
    if ours(extras.get("kernel_args")):
        raise ConfigError(
            "kernel_args holds the mark of a deployment, which an order alone gives",
            node=node,
            seen=", ".join(ours(extras["kernel_args"])),
            do="take it out of kernel_args in driver",
        )


def _demand_taken(extras: Mapping[str, Any], node: str) -> None:
    """:raises ConfigError: where the BMC's login would come into overlays, and the site has not said that it may."""
    if said.flag((extras.get("ipmi") or {}).get(LOGIN)) and extras.get(IN_OVERLAYS) is not True:
        raise ConfigError(
            "Warewulf gives the BMC's login to the node, in its overlays, and to whoever reaches the server's port",
            node=node,
            wanted=f"{IN_OVERLAYS}: true in the option driver (enroll_driver), where all who have root on a node, or"
            " reach that port, may have the logins of all BMCs",
            seen=f"{LOGIN} in ipmi",
            do=f"leave {LOGIN} out of ipmi in driver, since BMCs are asked here without Warewulf; where a record has"
            " the login already, take it out there, build the overlays anew, and change the BMC's password. Nothing was"
            " changed",
        )


def unknown(given: Any, known: Any, place: str) -> str:
    """The first key that has no place there; empty where each has one."""
    if not known:
        return "" if not isinstance(given, Mapping) else f"{place}, which has none below it"
    if not isinstance(given, Mapping):
        return f"{place}: {given}, which is no mapping"
    for key, one in given.items():
        if key not in known and "*" not in known:
            return f"{place} {key}"
        odd = unknown(one, known.get(key, known.get("*")), f"{place} {key}")
        if odd:
            return odd
    return ""


def spelled(value: Any) -> Any:
    """As Warewulf keeps it: texts, lists of texts, and what is true; the rest is not there."""
    if isinstance(value, Mapping):
        found = {str(key): spelled(one) for key, one in value.items()}
        return {key: one for key, one in found.items() if one not in ("", None, False, {}, [])}
    if isinstance(value, (list, tuple)):
        return [spelled(one) for one in value]
    return value if isinstance(value, bool) or value is None else str(value)


def wished(wanted: Wanted) -> Fields:
    """What the site says."""
    given = wanted.extras
    found: Fields = {path: list(map(str, given[key])) for key, path in LISTS.items() if key in given}
    if given.get(VERSION):
        found["kernel", "version"] = str(given[VERSION])
    ipmi = {key: one for key, one in (given.get("ipmi") or {}).items() if key != LOGIN and one not in ("", None)}
    found.update({("ipmi", key): str(one).lower() if isinstance(one, bool) else str(one) for key, one in ipmi.items()})
    for key in _WHOLE:
        found.update({(key, name): spelled(one) for name, one in (given.get(key) or {}).items()})
    return found


def login(wanted: Wanted) -> Fields:
    """The BMC's login, where the site says that Warewulf is to have it."""
    if wanted.bmc_stays or not said.flag((wanted.extras.get("ipmi") or {}).get(LOGIN)):
        return {}
    told: Fields = {("ipmi", key): str(wanted.bmc.get(f"bmc_{key}") or "") for key in ("username", "password")}
    missing = sorted(f"gpufleet_bmc_{path[-1]}" for path, one in told.items() if not one)
    if missing:
        raise ConfigError(
            "Warewulf is to have the BMC's login, and the inventory has none",
            node=wanted.host,
            wanted=" and ".join(missing),
            do=f"set it, or leave {LOGIN} out of ipmi in driver",
        )
    return told


def differing(own: Mapping[str, Any], wanted: Wanted) -> tuple[Fields, Fields]:
    """Of the node's own record: what stands in place of what is to be changed, and what is to stand there.

    A password that stands there already is changed where ``update_password`` says so.
    """
    after = wished(wanted)
    secret = login(wanted)
    if at(own, PASSWORD) and not wanted.update_password:
        secret.pop(PASSWORD, None)
    after.update(secret)
    if wanted.bmc_stays:
        after = {path: value for path, value in after.items() if path[0] != PASSWORD[0]}
    before = {path: standing(own, path) for path in after}
    changed = [path for path in after if spelled({"": before[path]}) != spelled({"": after[path]})]
    return {path: before[path] for path in changed}, {path: after[path] for path in changed}


def standing(own: Mapping[str, Any], path: Path) -> Any:
    """Without what an order of ours has put among the arguments of the kernel."""
    found = at(own, path)
    if path != ARGS:
        return spelled(found) if found is not None else ""
    return theirs(found)


def theirs(args: Any) -> list[str]:
    """Arguments of the kernel that are none of ours."""
    words = [str(one) for one in args or ()]
    kept = (one if not deployment.ids_told(one) else deployment.without(one) for one in words)
    return [one for one in kept if one]


def ours(args: Any) -> list[str]:
    """The mark of a deployment among them."""
    ids = (found for one in args or () for found in deployment.ids_told(str(one)))
    return [deployment.marked(one) for one in ids]


def at(record: Any, path: Sequence[str]) -> Any:
    for key in path:
        record = record.get(key) if isinstance(record, Mapping) else None
    return record


def written(record: Mapping[str, Any], fields: Fields) -> dict[str, Any]:
    """The record with these fields; an order's mark stays the last argument of the kernel."""
    found = dict(record)
    for path, value in fields.items():
        value = [*value, *ours(at(record, ARGS))] if path == ARGS else value
        found = _put(found, path, value)
    return found


def _put(record: Optional[Mapping[str, Any]], path: Path, value: Any) -> dict[str, Any]:
    own = dict(record) if isinstance(record, Mapping) else {}
    below = value if len(path) == 1 else _put(own.get(path[0]), path[1:], value)
    return {**own, path[0]: below}


def shown(fields: Fields) -> dict[str, Any]:
    """By the names that people know them by, and no secret."""
    return {" ".join(path): MASK if path == PASSWORD and value else value for path, value in fields.items()}


def wipes(fields: Mapping[Path, Any]) -> bool:
    """Does the next boot take away what is on a disk?"""
    return any(_wipes(value) for value in fields.values())


def _wipes(value: Any) -> bool:
    if not isinstance(value, Mapping):
        return False
    return any((key in WIPES and bool(one)) or _wipes(one) for key, one in value.items())


def expanded(
    names: Any, profiles: Mapping[str, Mapping[str, Any]], visited: Optional[set[str]] = None
) -> Iterator[str]:
    """These profiles, each after those that it names itself."""
    visited = set() if visited is None else visited
    for name in map(str, names if isinstance(names, (list, tuple)) else ()):
        if name.startswith("~"):
            yield name
        elif name not in visited:
            visited.add(name)
            yield from expanded((profiles.get(name) or {}).get("profiles"), profiles, visited)
            yield name


def wiping(names: Any, profiles: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Those of them that wipe disks of whichever node has them."""
    return [name for name in expanded(names, profiles) if wipes({(name,): profiles.get(name) or {}})]
