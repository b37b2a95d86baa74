# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What BCM's cmsh prints and takes, as data: values, statuses, and our words in a node's record. PRIVATE.

BCM has two free fields a node, ``userdefined1`` and ``userdefined2``, lines of plain text that people write as well.
Our words stand in the first and begin with ``gpufleet-``; whatever else stands there is theirs, and stays.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote, unquote

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _deployment as deployment
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.bcm import tables
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import mac
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Image, Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._serial import serial_of

Record = dict[str, str]

#: What is asked of each node. The free field is the last one: whatever people wrote there comes behind all others.
PROPERTIES = (
    "mac",
    "ip",
    "category",
    "softwareimage",
    "nextinstallmode",
    "datanode",
    "powercontrol",
    "kernelparameters",
    "status",
    "userdefined1",
)
WORDS = "userdefined1"
#: What the option ``driver`` may say.
_EXTRAS = frozenset({"category", "interface", "ip"})

#: A name that is nothing but a name to cmsh's lists of nodes, ranges and options.
NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]*[A-Za-z0-9])?\Z")
#: Of an image or a category, which stand in no list of nodes.
OBJECT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")
#: What stands between double quotes and is read as it stands. A quote, a backtick or a dollar sign is not; a semicolon,
#: a bracket, a line break, or what redirects, is sent in no case, since nothing says that quotes hold it.
_PLAIN = re.compile(r"[A-Za-z0-9 ._:/@%+=,-]*\Z")
_MAC = re.compile(r"[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}\Z")
NO_MAC = "00:00:00:00:00:00"
_STATUS = re.compile(r"(\S+?)[\s.]*\[\s*([A-Za-z_ /]+?)\s*\]\s*(.*)\Z")
#: Where BCM says behind a value that the node has it of something else.
_INHERITED = re.compile(
    r"(.*?) ?\((?:node ?)?(?:category|software ?image|partition|overlay)\b[^()]*\)\Z", re.IGNORECASE
)
_CLOSED = "closed"
_WORD = re.compile(r"(?:(?<=\s)|\A)gpufleet-(hold|note|serial|mark\.[^\s=]*)=(\S*)(?:\s+|\Z)")
_HANDS_OFF, _OWNER = "hands-off", "owner="
#: Interfaces by which BCM reaches a BMC; ``powercontrol`` names the one that it uses.
NO_POWER = "none"
_POWER = re.compile(r"\[\s*([A-Za-z]+)\s*\]")
BMC = re.compile(r"(?:ipmi|ilo|drac|cimc|rf)\d+\Z")


# -- what it prints ------------------------------------------------------------------------------------------------


def power(text: str, name: str) -> str:
    """``apc01:1 ....... [  ON  ] node001``: what switches it stands on the one side, or before the node itself."""
    lines = (line for line in text.splitlines() if name in re.split(r"[\s.]+", line))
    told = {found[1].lower() for found in map(_POWER.search, lines) if found}
    return " and ".join(sorted(told))


def is_mac(text: str) -> bool:
    return bool(_MAC.match(text))


def pairs(lines: Sequence[str]) -> dict[str, str] | None:
    """One value of each object, where its own name was printed before and behind it.

    Each object comes once, so that a value may be empty, with a line of its own or without one, or read like its own
    object's name. None where this is no such answer: where a value has more lines, or an object comes twice.
    """
    found: dict[str, str] = {}
    left = [line.strip() for line in lines if line.strip()]
    while left:
        name = left[0]
        size = 3 if left[2:3] == [name] else 2
        if name in found or left[size - 1 : size] != [name]:
            return None
        found[name] = left[1] if size == 3 else ""
        del left[:size]
    return found


def read(name: str, values: Mapping[str, str]) -> Record | None:
    """One node's record; None where its values are none of a node's."""
    record = dict(values)
    told = _STATUS.match(record["status"])
    if not is_mac(record["mac"]) or told is None or told[1] != name:
        return None
    told_mac, told_words = record["mac"], record[WORDS]
    record = bare(record)
    record.update(mac="" if told_mac == NO_MAC else mac(told_mac), userdefined1=told_words)
    words = told[2].lower().replace(" ", "_").split("/")
    state = next((word for word in words if word != _CLOSED), "")
    if not state:  # also ``[ CLOSED ] (UP)``
        state = re.sub(r"[^a-z_]", "", told[3].split(" ")[0].lower())
    return {**record, "status": state, "told": told[3], _CLOSED: "yes" if _CLOSED in words else ""}


def bare(values: Mapping[str, str]) -> Record:
    """Without the words by which BCM says of what a value was inherited."""
    found = ((key, value, _INHERITED.match(value)) for key, value in values.items())
    return {key: inherited[1] if inherited else value for key, value, inherited in found}


def foreign(record: Mapping[str, str]) -> str:
    """Whose the node is, where its record says that it is somebody's."""
    if record.get(_CLOSED):
        return f"BCM has it closed {record.get('told', '')}".rstrip()
    for word in words(record).theirs.split():
        if word == _HANDS_OFF or word.startswith(_OWNER):
            return f"{WORDS} at BCM says {word}"
    return ""


# -- our words -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Words:
    """What of the field is ours, and the rest of it."""

    hold: str = ""
    note: Mapping[str, str] = field(default_factory=dict)
    serial: str = ""
    marks: Mapping[str, str] = field(default_factory=dict)
    theirs: str = ""

    def text(self) -> str:
        """The whole line, as it is written."""
        note = ",".join(f"{key}:{_plain(value, '')}" for key, value in self.note.items() if value)
        ours = {"hold": _plain(self.hold, ":"), "note": note, "serial": _plain(self.serial, "")}
        ours.update({f"mark.{_plain(key, '')}": _plain(value, ":") for key, value in sorted(self.marks.items())})
        said = [f"gpufleet-{key}={value}" for key, value in ours.items() if value]
        return " ".join([*([self.theirs] if self.theirs else []), *said])


def _plain(text: str, also: str) -> str:
    """Without blanks, and without what cmsh could take for its own."""
    return quote(text, safe="/._-+@" + also).replace("~", "%7E")


def words(record: Mapping[str, str]) -> Words:
    line = record.get(WORDS, "")
    found = {one[1]: one[2] for one in _WORD.finditer(line)}
    pairs = (pair.partition(":") for pair in found.get("note", "").split(",") if pair)
    marks = {key[5:]: value for key, value in found.items() if key.startswith("mark.")}
    return Words(
        hold=unquote(found.get("hold", "")),
        note={key: unquote(value) for key, _colon, value in pairs},
        serial=serial_of(unquote(found.get("serial", ""))),
        marks={unquote(key): unquote(value) for key, value in marks.items()},
        theirs=_WORD.sub("", line).strip(),
    )


def said(record: Mapping[str, str], **changes: Any) -> str:
    """The line with these of our words changed."""
    return replace(words(record), **changes).text()


def note(image: Image, record: Mapping[str, str], log: str, base: str) -> dict[str, str]:
    """What tells this order again, and from when on BCM's word on the node is about it.

    :param base: a digest of the kernel parameters that the node had of its image or category before we wrote any.
    """
    told = {key: value for key, value in _identity(image).items() if value}
    return {"order": tables.ORDER, **told, "seen": record.get("status", ""), "log": log, "base": base}


def _identity(image: Image) -> dict[str, str]:
    """An address and a digest of a file take more room than a free field may have: their own digest stands for them."""
    origin = digest(f"{image.url} {image.sha256}") if image.url or image.sha256 else ""
    own = {"name": image.name, "version": image.version, "named": image.named}
    return {**own, "of": origin, "deploy_id": image.deploy_id}


def is_noted(image: Image, told: Mapping[str, str]) -> bool:
    """Is this the image, and where one is asked for this very deployment, of the order that was noted?"""
    wanted = _identity(image)
    return all(told.get(key, "") == value for key, value in wanted.items() if value or key != "deploy_id")


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


# -- the kernel's parameters ---------------------------------------------------------------------------------------


def own_parameters(record: Mapping[str, str], passed_on: Iterable[str]) -> str | None:
    """What somebody has set for this very node; None where it has those of its image or category.

    :param passed_on: those of its category and of its image, which ``get`` may show as the node's.
    """
    bare = deployment.without(record.get("kernelparameters", ""))
    base = words(record).note.get("base", "")
    same = {"", *(" ".join(one.split()) for one in passed_on)}
    return None if bare in same or (base and digest(bare) == base) else bare


def parameters(record: Mapping[str, str], own: str | None) -> Record:
    """What is written so that the node has these of its own, or none: then it is to have those of its image again,
    which ``get`` may show in their place."""
    if own is None and not _ids(record.get("kernelparameters", "")):
        return {}
    return {"kernelparameters": own or ""}


def _ids(text: str) -> list[str]:
    return deployment.ids_told(text)


def stands(key: str, value: str, there: str) -> bool:
    """Does a property read as it was written?"""
    if key == "kernelparameters" and not value:
        return not _ids(there)
    return there == value


# -- what it takes -------------------------------------------------------------------------------------------------


def quoted(value: str, what: str, name: str) -> str:
    """A value as one word of a command.

    :raises ConfigError: where it could be read as anything else. It is not shown.
    """
    if not _PLAIN.match(value) or value != value.strip():
        raise ConfigError(
            f"{what} cannot be written by cmsh: it has a sign that may end a command or begin another one",
            node=name,
            wanted="letters, digits, blanks and . _ : / @ % + = , -",
            do=f"take such signs out of {what} of the node, at BCM or in the inventory",
        )
    return f'"{value}"'


def writes(entries: Mapping[str, Mapping[str, str]]) -> list[str]:
    """The commands that write these values, an empty one by clearing it; nothing of it stands before a commit."""
    return [
        f"set {name} {key} {quoted(value, key, name)}" if value else f"clear {name} {key}"
        for name, entry in entries.items()
        for key, value in entry.items()
    ]


def check(wanted: Wanted) -> None:
    """:raises ConfigError: where the inventory says what cannot be said to BCM."""
    if not NAME.match(wanted.key):
        raise ConfigError(
            "this is a list of nodes to BCM, or no name at all",
            node=wanted.host,
            wanted="letters, digits, and between them underscores and minuses",
            seen=wanted.key,
            do="set gpufleet_provisioner_id to the node's name at BCM",
        )
    odd = sorted(set(wanted.extras) - _EXTRAS)
    if odd:
        raise ConfigError(
            f"the option driver says {', '.join(odd)}, which is not set through it",
            node=wanted.host,
            wanted=", ".join(sorted(_EXTRAS)),
            do="correct the option driver (enroll_driver)",
        )
    for key in ("category", "interface"):
        demand_name(str(wanted.extras.get(key) or "x"), f"{key} in the option driver", wanted.host)


def demand_name(text: str, what: str, host: str) -> None:
    if not OBJECT.match(text):
        raise ConfigError(
            f"{what} is no name that BCM could have",
            node=host,
            wanted="letters, digits, dots, underscores and minuses",
            seen=text,
            do=f"correct {what}",
        )


def fields(
    wanted: Wanted, record: Mapping[str, str] | None, entered: Callable[[Mapping[str, str]], Mapping[str, str]]
) -> Record:
    """What the record is to say; what the inventory does not tell is left as it is.

    :param entered: the note of a node that we enter, by its record; BCM gives a new one its image with its category.
    """
    standing = record or {}
    found: Record = {}
    if wanted.boot_mac and mac(wanted.boot_mac) != standing.get("mac"):
        found["mac"] = mac(wanted.boot_mac)
    changes: dict[str, Any] = {}
    if wanted.serial and words(standing).serial != wanted.serial:
        changes["serial"] = wanted.serial
    if record is None or (not standing.get("mac") and not words(standing).note):
        changes["note"] = entered(standing)
    if changes:
        found[WORDS] = said(standing, **changes)
    return found
