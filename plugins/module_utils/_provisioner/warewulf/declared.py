# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Profiles and files of overlays that a site declares, and that all nodes share which name them. PRIVATE.

What is known of Warewulf's API, and why the code is as it is (``internal/pkg/warewulfd/api/{profile,overlay}.go`` and
``internal/pkg/overlay/overlay.go`` of 4.6.3, 4.6.5 and 4.7.0):

* ``If-None-Match: *`` makes and never replaces; there is no other condition. So what is to be replaced is read once
  more right before, and read back after.
* A file of an overlay that there is none of is refused, though the overlay is made: it is made by a request of its own.
* A file that is put into an overlay of Warewulf's own makes a copy of that overlay, which no upgrade reaches any more.
* Of a file that is not there the answer is 500. So files are asked for by the overlay's list of them.
* Its path is decoded twice.

Whose they are: a profile of ours has a tag with the digest of what we wrote there, an overlay of ours a file that
lists what we wrote. What does not read as it was left was changed by a person, and stays. A reason that is given for a
node says nothing of what other nodes share: that is named besides, and even then a profile of somebody's keeps whatever
is not declared, such as its image and how its BMCs are reached, and does not become ours.

Of hosts that declare one of these in two ways each would replace the other's, run after run. So a batch is looked
through before its first write, beside each digest stands which run and host it is of, and no node is ordered while
another declaration stands there than its own.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Changed, ConfigError, NotOurs, Refused
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.redact import redact
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import Changes
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import UNNAMED, Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.warewulf import fields
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.warewulf.api import Record, WarewulfApi

#: Keys of the option ``driver``.
PROFILES, OVERLAYS = "profile_fields", "overlay_files"
#: Names of profiles and overlays of somebody's that may be changed, where there is a reason.
TAKE = "take_shared"
KNOWN = frozenset({PROFILES, OVERLAYS, TAKE})
#: A tag of a profile, and a file of an overlay; nodes get both, and neither says anything secret.
TAG = "gpufleet-declared"
LIST = "/etc/gpufleet/overlays/{name}.json"
#: Beside them, the run and the host that declared it so: a tag, and what the list has before a file's path.
BY_TAG, BY = "gpufleet-declared-by", "by "

#: Fields of a profile that a site may declare. Which image a node gets its order says, and no secret is declared.
_FIELDS: Mapping[str, Any] = {
    **dict.fromkeys(
        (
            *("profiles", "comment", "cluster name", "ipxe template", "runtime overlay", "system overlay"),
            *("init", "root", "primary network"),
        ),
        {},
    ),
    "kernel": {"version": {}, "args": {}},
    **fields.MAPS,
    "network devices": {
        "*": dict.fromkeys(("type", "onbot", "device", "netmask", "gateway", "prefixlen6", "gateway6", "mtu"), {})
    },
    "tags": {"*": {}},
}


def check(extras: Mapping[str, Any], node: str) -> None:
    """:raises ConfigError: for what Warewulf would drop without a word, and for what is declared to no purpose."""
    for name, one in _entries(extras, PROFILES, node):
        odd = fields.unknown(one, _FIELDS, f"{PROFILES} {name}")
        if odd:
            raise ConfigError(
                f"no field that a profile may have by this: {odd}",
                node=node,
                wanted=", ".join(sorted(_FIELDS)),
                do=f"spell it as Warewulf's API does, or take it out of {PROFILES} in driver; an image is given to each"
                " node by its order, and a password stands in no inventory",
            )
        if fields.wipes({(name,): one}):
            raise _wipes(name, node)
    for name, files in _entries(extras, OVERLAYS, node):
        wrong = next((path for path, one in files.items() if not _is_file(str(path), one, name)), "")
        if wrong:
            raise ConfigError(
                f"no file of the overlay {name}: {wrong}",
                node=node,
                wanted="a whole path that begins with /, without .., and its content as a text",
                do=f"correct {OVERLAYS} in driver",
            )


def _wipes(what: str, node: str) -> ConfigError:
    return ConfigError(
        f"the profile {what} would wipe disks of whichever node has it, with that node's next boot",
        node=node,
        wanted="none of " + ", ".join(sorted(fields.WIPES)) + f" in {PROFILES}",
        do="say it of the node that it is about, in disks or filesystems of driver: into a record that stands it is"
        " written with a permit alone",
    )


def _entries(extras: Mapping[str, Any], key: str, node: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    given = extras.get(key) or {}
    if not isinstance(given, Mapping) or not all(isinstance(one, Mapping) for one in given.values()):
        raise ConfigError(
            f"{key} in driver is no mapping of mappings", node=node, do=f"say what each name of {key} stands for"
        )
    yield from ((str(name), one) for name, one in given.items())


def _is_file(path: str, content: Any, name: str) -> bool:
    whole = path.startswith("/") and not path.endswith("/") and not {"", ".", ".."} & set(path[1:].split("/"))
    return whole and isinstance(content, str) and path != LIST.format(name=name)


def digest(extras: Mapping[str, Any]) -> str:
    """Of all that is declared, from which overlays are made; empty where nothing is."""
    told = {key: extras[key] for key in sorted((PROFILES, OVERLAYS)) if extras.get(key)}
    return _digest(told) if told else ""


def at_odds(wanted: Sequence[Wanted]) -> list[tuple[str, ConfigError]]:
    """Host, and what it declares otherwise than another one of the batch; each of both is told."""
    said: dict[str, dict[str, str]] = {}
    told = [(one.host, what, _digest(value)) for one in wanted for what, value in _readable(one)]
    for host, what, value in told:
        said.setdefault(what, {}).setdefault(value, host)
    return [
        (host, _differs(what, host, next(other for one, other in said[what].items() if one != value)))
        for host, what, value in told
        if len(said[what]) > 1
    ]


def _readable(wanted: Wanted) -> list[tuple[str, Any]]:
    """Of one that cannot be read its own look has told."""
    try:
        return list(_each(wanted))
    except ConfigError:
        return []


def _each(wanted: Wanted) -> Iterator[tuple[str, Any]]:
    """What a host declares, and what it is to be."""
    for name, one in _entries(wanted.extras, PROFILES, wanted.host):
        yield _profile(name), fields.spelled(one)
    for name, files in _entries(wanted.extras, OVERLAYS, wanted.host):
        yield from ((_file(name, str(path)), str(content)) for path, content in files.items())


def _profile(name: str) -> str:
    return f"the profile {name}"


def _file(name: str, path: str) -> str:
    return f"the file {path} of the overlay {name}"


def _differs(what: str, host: str, other: str) -> ConfigError:
    return ConfigError(
        f"{host} declares {what} at Warewulf otherwise than {other} does, and all nodes share it",
        node=host,
        wanted="one declaration of it for all hosts that have it",
        seen=f"another one of {other}",
        do=f"say it in a group that both are in, or give one of them another name in {PROFILES} or {OVERLAYS}",
    )


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:16]


class Declared:
    """What a node's inventory declares for all that share it."""

    def __init__(self, api: WarewulfApi, wanted: Wanted) -> None:
        self._api, self._wanted = api, wanted
        self._before: dict[str, Any] = {}
        self._after: dict[str, Any] = {}

    def made(self) -> Changes:
        """Make it so: files before the profiles that name their overlays."""
        for name, files in _entries(self._wanted.extras, OVERLAYS, self._wanted.host):
            self._overlay(name, {str(path): str(content) for path, content in files.items()})
        given = dict(_entries(self._wanted.extras, PROFILES, self._wanted.host))
        known = self._api.profiles() if given else {}
        for name, one in given.items():
            self._profile(name, fields.spelled(one), known)
        return Changes(self._before, self._after)

    def demand_shown(self) -> None:
        """Before an order: its overlays are built of what stands there, whoever declared it last.

        :raises Refused: where that is not what this host declares.
        """
        files = dict(_entries(self._wanted.extras, OVERLAYS, self._wanted.host))
        given = dict(_entries(self._wanted.extras, PROFILES, self._wanted.host))
        known = self._api.profiles() if given else {}
        lacking = [_profile(name) for name, one in given.items() if not _is(known.get(name), fields.spelled(one))]
        lacking += [_file(name, path) for name, one in files.items() for path in self._read(name, one)[2]]
        if not lacking:
            return
        raise Refused(
            f"{lacking[0]} at Warewulf is not as this host declares it",
            node=self._wanted.host,
            address=self._api.address,
            wanted="what is declared, from which its overlays are to be built",
            seen="another one: of another host, which declares it otherwise, or of a person",
            do="see that all hosts which share it declare it alike, enrol the node (provisioner_node with state"
            " enrolled), and run again; nothing was ordered",
        )

    # -- profiles ----------------------------------------------------------------------------------------------

    def _profile(self, name: str, wished: Record, known: Mapping[str, Record]) -> None:
        standing = known.get(name)
        if _is(standing, wished):
            return
        wiping = fields.wiping(wished.get("profiles"), known)
        if wiping:
            raise _wipes(f"{name} names {wiping[0]}, which", self._wanted.host)
        there, ours, after = _told(standing or {}), _is_ours(standing), _then(standing, wished)
        tags = (standing or {}).get("tags") or {}
        self._demand_ours(ours, name, _profile(name), PROFILES)
        self._demand_agreed(_profile(name), str(tags.get(BY_TAG) or "").split())
        self._before[f"profile {name}"] = redact(there if ours else _declared(there, wished))
        self._after[f"profile {name}"] = redact(wished)
        more = {key: after[key] for key in wished if there.get(key) != after[key]}
        own = {TAG: _digest(wished), BY_TAG: " ".join(self._by())}
        whole = {**wished, "tags": {**wished.get("tags", {}), **own}}

        def last() -> None:
            if self._api.profiles().get(name) != standing:
                raise self._moved(_profile(name))

        method, profile = ("PUT", whole) if ours else ("PATCH", more)
        path = f"profiles/{quote(name, safe='')}"
        sent = self._write(method, path, {"profile": profile}, new=standing is None, last=last)
        if sent and _told(self._api.profiles().get(name) or {}) != after:
            raise self._not_there(_profile(name))

    # -- overlays ----------------------------------------------------------------------------------------------

    def _overlay(self, name: str, files: Mapping[str, str]) -> None:
        path = f"overlays/{quote(name, safe='')}"
        found, there, moved = self._read(name, files)
        if not moved:
            return
        marker = LIST.format(name=name)
        told = self._api.overlay_file(name, marker) if found and marker in _paths(found) else None
        listed = _listed(told) if told is not None else None
        empty = found is None or not _paths(found)  # as a run leaves it that ends right after it was made
        of_ours = listed is not None and bool(found and found.get("site"))
        self._demand_ours(empty or of_ours, name, f"the overlay {name}", OVERLAYS)
        known = listed or {}
        for one in moved:
            left = one not in there or _sha256(there[one]) in known.get(one, [])
            self._demand_ours(left, name, _file(name, one), OVERLAYS)
            self._demand_agreed(_file(name, one), known.get(f"{BY}{one}", []))
        # What a file says may be secret; by its digest it is known.
        self._before.update({f"overlay {name} {one}": _sha256(there[one]) if one in there else "" for one in moved})
        self._after.update({f"overlay {name} {one}": _sha256(content) for one, content in moved.items()})
        if found is None:
            self._write("PUT", path, None)
        # A run that ends between the list and the file leaves a file that is on the list all the same.
        both = {one: [*([_sha256(there[one])] if one in there else []), _sha256(text)] for one, text in moved.items()}
        both.update({f"{BY}{one}": self._by() for one in moved})
        self._file(name, marker, json.dumps({**known, **both}, indent=1, sort_keys=True) + "\n", told is None, told)
        for one, content in moved.items():
            self._file(name, one, content, one not in there, there.get(one))

    def _read(self, name: str, files: Mapping[str, str]) -> tuple[Record | None, dict[str, str], dict[str, str]]:
        """The overlay, what stands in those of the files that it has, and those that are to be another way."""
        found = self._api.overlay(name)
        there = {one: self._api.overlay_file(name, one) for one in files if found and one in _paths(found)}
        return found, there, {one: content for one, content in files.items() if there.get(one) != content}

    def _file(self, name: str, path: str, content: str, new: bool, before: str | None = None) -> None:
        """:param before: as it was read, where it is looked at once more."""
        address = f"overlays/{quote(name, safe='')}/file?path={quote(quote(path, safe=''), safe='')}"

        def last() -> None:
            if before is not None and self._api.overlay_file(name, path) != before:
                raise self._moved(_file(name, path))

        sent = self._write("PUT", address, {"content": content}, new=new, last=last)
        if sent and self._api.overlay_file(name, path) != content:
            raise self._not_there(_file(name, path))

    # -- both --------------------------------------------------------------------------------------------------

    def _write(
        self, method: str, path: str, body: Any, *, new: bool = False, last: Callable[[], None] | None = None
    ) -> bool:
        return self._api.write(method, path, body, host=self._wanted.host, new=new, last=last)

    def _demand_ours(self, ours: bool, name: str, what: str, key: str) -> None:
        """A reason alone was given for the node, and not for all that share this with it."""
        if ours or (self._wanted.forced and name in map(str, self._wanted.extras.get(TAKE) or ())):
            return
        raise NotOurs(
            f"{what} at Warewulf is not as this collection left it, and other nodes may need it as it is",
            node=self._wanted.host,
            address=self._api.address,
            wanted="one that is not there yet, or that stands as it was written from an inventory",
            seen="another one, which a person has made or changed",
            do=f"give it another name in {key}, or declare there what stands at Warewulf; or, where it may be changed"
            f" for all nodes that share it, name it in {TAKE} in driver, and give force_reason, which is recorded."
            " Nothing was changed",
        )

    def _by(self) -> list[str]:
        return [self._wanted.run, self._wanted.host]

    def _demand_agreed(self, what: str, by: Sequence[str]) -> None:
        """:raises ConfigError: where another host of this very run has declared it, and otherwise."""
        run, host = by if len(by) == len(self._by()) else ("", "")
        if run == self._wanted.run != UNNAMED and host != self._wanted.host:
            raise _differs(what, self._wanted.host, host)

    def _moved(self, what: str) -> Changed:
        return Changed(
            f"somebody has changed {what} while it was being written",
            node=self._wanted.host,
            address=self._api.address,
            wanted="it as it was read",
            seen="another one",
            do="run again",
        )

    def _not_there(self, what: str) -> Refused:
        return Refused(
            f"Warewulf took {what}, and it does not read as it was sent",
            node=self._wanted.host,
            address=self._api.address,
            wanted="what is declared",
            seen="something else: somebody else wrote at the same time, or it refuses a value",
            do="let nobody else write to this server meanwhile, and run again",
        )


def _is(profile: Record | None, wished: Any) -> bool:
    return profile is not None and _told(profile) == _then(profile, wished)


def _is_ours(profile: Record | None) -> bool:
    """One that is not there yet, or that stands as it was written from an inventory."""
    return profile is None or (profile.get("tags") or {}).get(TAG) == _digest(_told(profile))


def _then(profile: Record | None, wished: Any) -> Any:
    """What stands there once it is written: a profile of somebody's keeps what is not declared."""
    return wished if _is_ours(profile) else _merged(_told(profile or {}), wished)


def _told(profile: Record) -> Any:
    """What stands in a profile, but for our tags."""
    tags = {key: one for key, one in (profile.get("tags") or {}).items() if key not in (TAG, BY_TAG)}
    return fields.spelled({**profile, "tags": tags})


def _merged(there: Any, wished: Any) -> Any:
    """What stands there with what is declared; a list is one thing."""
    if not isinstance(there, Mapping) or not isinstance(wished, Mapping):
        return wished
    return {**there, **{key: _merged(there.get(key), one) for key, one in wished.items()}}


def _declared(there: Any, wished: Any) -> Any:
    """Of what stands there what is declared: the rest may hold somebody's secrets, and stays."""
    if not isinstance(there, Mapping) or not isinstance(wished, Mapping):
        return there
    return {key: _declared(there[key], one) for key, one in wished.items() if key in there}


def _paths(overlay: Record) -> list[str]:
    return [f"/{str(one).lstrip('/')}" for one in overlay.get("files") or ()]


def _listed(content: str) -> dict[str, list[str]] | None:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    return {str(key): list(map(str, one)) for key, one in found.items() if isinstance(one, list)}


def _sha256(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()
