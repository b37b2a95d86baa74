# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What xCAT prints and reads, as data: attributes of nodes, stanzas, and our words in a node's comment. PRIVATE.

xCAT has no place for others' notes but ``usercomment``, one line of plain text that people write as well. Ours are
words that begin with ``gpufleet-``; whatever else stands there is theirs, and stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _bmc_address as bmc_address
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _deployment as deployment
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _net as net
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import keep_secret
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import said
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import mac
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Wanted

#: What the option ``driver`` may set of a node's record. None of it says what is deployed.
SETTABLE = (
    "arch",
    "cons",
    "installnic",
    "ip",
    "mgt",
    "netboot",
    "nfsserver",
    "primarynic",
    "serialflow",
    "serialport",
    "serialspeed",
    "servicenode",
    "tftpserver",
    "xcatmaster",
)
#: By which a site takes it that xCAT may write the BMC's password into its logs.
PASSWORD_IN_LOGS = "password_in_logs"
#: Beside them: groups that the node is to be in, and whether it boots by UEFI.
_EXTRAS = frozenset({*SETTABLE, "groups", "uefi", "name_services", PASSWORD_IN_LOGS})
#: What is asked of each node. Its BMC's password is none of it: lsdef prints that in clear.
ATTRIBUTES = (
    "status",
    "statustime",
    "provmethod",
    "currstate",
    "usercomment",
    "addkcmdline",
    "groups",
    "mac",
    "serial",
    "bmc",
    "bmcusername",
    *SETTABLE,
)
PASSWORD = "bmcpassword"
MASK = "********"

#: A name that is nothing but a name to xCAT's noderanges.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")
#: Of a node: mkdef and chdef take no dot (xCAT 2.17, DBobjectdefs.pm), and digits alone, or n1-n5, are ranges.
NODE = re.compile(r"(?!\d+\Z)(?![A-Za-z]+\d+-[A-Za-z]+\d+\Z)[A-Za-z0-9][A-Za-z0-9_-]*\Z")
#: What a stanza loses at the ends of a value: a quote; and by a colon at its end the line is taken for a name.
_LOST = '" :'
_LINE = re.compile(r"(\S+): ([A-Za-z][A-Za-z0-9_.]*)=(.*)\Z")
_ABSENT = re.compile(r"Could not find an object named '([^']*)' of type")
_WORD = re.compile(r"(?:(?<=\s)|\A)gpufleet-(hold|note|names|mark\.[^\s=]*)=(\S*)(?:\s+|\Z)")
_PERSISTS = "R::"

#: Groups by which a site says whose a node is: xCAT itself knows no owners.
HANDS_OFF, OWNER = "hands-off", "owner-"


# -- what it prints ------------------------------------------------------------------------------------------------


@dataclass
class Told:
    """What ``lsdef -c`` has told: by node its attributes; whose are told twice; by node, after which of them came a
    line that is none."""

    found: dict[str, dict[str, str]] = field(default_factory=dict)
    twice: set[str] = field(default_factory=set)
    broken: dict[str, str] = field(default_factory=dict)


def attributes(text: str, names: Iterable[str] = (), asked: Iterable[str] = ()) -> Told | None:
    """The answer of ``lsdef -c``; None where this is no such answer.

    ``-i`` prints each attribute of a node once. A comment may have lines of its own, and such a line may read like
    another node's attribute: which of the two lines is the record, nobody can tell. No other attribute has any.

    :param names: those that were asked for; none means all of them.
    :param asked: the attributes that were asked for.
    """
    known, wanted = frozenset(names), frozenset(asked)
    told = Told()
    last: tuple[str, str] | None = None
    for line in text.split("\n"):
        one = _LINE.match(line)
        in_comment = last is not None and last[1] == "usercomment"
        if one and not (in_comment and (known and one[1] not in known or wanted and one[2] not in wanted)):
            last = one[1], one[2]
            fields = told.found.setdefault(one[1], {})
            if one[2] in fields:
                told.twice.add(one[1])
            fields[one[2]] = one[3].strip()
        elif not line.strip():
            continue
        elif last is not None and in_comment:
            told.found[last[0]][last[1]] += "\n" + line
        elif last is not None:
            told.broken.setdefault(*last)
        elif not line.startswith(("No object definitions", "Could not find any object")):
            return None
    return told


def absent(err: str) -> set[str]:
    """Of which objects it says that it does not know them."""
    return set(_ABSENT.findall(err))


def macs(record: Mapping[str, str]) -> frozenset[str]:
    """``mac`` is one address or more: ``aa:bb:..!eth0|cc:dd:..!*NOIP*``."""
    found = (one.partition("!")[0].strip() for one in record.get("mac", "").split("|"))
    return frozenset(mac(one) for one in found if one)


def its_alone(wanted: Wanted) -> dict[str, str]:
    """What no other node may have of it; empty where the inventory does not tell."""
    return {
        "mac": mac(wanted.boot_mac) if wanted.boot_mac else "",
        "bmc": bmc_host(wanted.bmc.get("bmc_address")),
        "ip": next(iter(_addresses(wanted.extras)), ""),
    }


def _addresses(record: Mapping[str, Any]) -> list[str]:
    return [net.called(one) for one in str(record.get("ip") or "").split(",") if one.strip()]


def shared(fields: Mapping[str, str], other: Mapping[str, str]) -> str:
    """Which of these fields names what another node's record has: its card, its BMC or its address."""
    if fields.get("mac") and fields["mac"] in macs(other):
        return "mac"
    if set(_addresses(fields)) & set(_addresses(other)):
        return "ip"
    bmc = fields.get("bmc", "")
    return "bmc" if bmc and bmc == bmc_host(other.get("bmc")) else ""


def groups(record: Mapping[str, str]) -> list[str]:
    return [one.strip() for one in record.get("groups", "").split(",") if one.strip()]


def foreign(record: Mapping[str, str]) -> str:
    """Whose the node is, where its groups say that it is somebody's."""
    for group in groups(record):
        if group == HANDS_OFF:
            return f"its groups at xCAT have {HANDS_OFF}"
        if group.startswith(OWNER):
            return f"its groups at xCAT have {group}"
    return ""


# -- our words in a comment ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Words:
    """What of a comment is ours, and the rest of it."""

    hold: str = ""
    note: Mapping[str, str] = field(default_factory=dict)
    marks: Mapping[str, str] = field(default_factory=dict)
    theirs: str = ""
    #: Whether hosts, DNS and DHCP are still to be told of the node.
    names: str = ""

    def text(self) -> str:
        """The whole comment, as it is written."""
        note = ",".join(f"{key}:{_plain(value, '')}" for key, value in self.note.items() if value)
        ours = {"hold": _plain(self.hold, ":"), "note": note, "names": _plain(self.names, "")}
        ours.update({f"mark.{_plain(key, '')}": _plain(value, ":") for key, value in sorted(self.marks.items())})
        words = [f"gpufleet-{key}={value}" for key, value in ours.items() if value]
        return " ".join([*([self.theirs] if self.theirs else []), *words])


def _plain(text: str, also: str) -> str:
    """Without blanks, and without what a table, a shell or a stanza could take for its own."""
    return quote(text, safe="/._-+@" + also)


def words(comment: str) -> Words:
    found = {one[1]: one[2] for one in _WORD.finditer(comment)}
    pairs = (pair.partition(":") for pair in found.get("note", "").split(",") if pair)
    marks = {key[5:]: value for key, value in found.items() if key.startswith("mark.")}
    return Words(
        hold=unquote(found.get("hold", "")),
        note={key: unquote(value) for key, _colon, value in pairs},
        marks={unquote(key): unquote(value) for key, value in marks.items()},
        names=unquote(found.get("names", "")),
        theirs=_one_line(_WORD.sub("", comment)).lstrip(_LOST[:2]).rstrip(_LOST),
    )


def _one_line(text: str) -> str:
    """A tab, a line break or a blank that is none in ASCII as one blank: a stanza takes none of them."""
    return re.sub(r" *\n[\n ]*", " ", "".join(one if one.isprintable() else "\n" for one in text))


# -- what it reads -------------------------------------------------------------------------------------------------


def stanza(entries: Mapping[str, Mapping[str, str]]) -> str:
    """What ``mkdef -z`` and ``chdef -z`` read: any number of nodes, each with values of its own.

    :raises ConfigError: where a value would be read as another one. It is not shown: it may be a secret.
    """
    lines = ["# <xCAT data object stanza file>"]
    for name, fields in entries.items():
        lines += ["", f"{name}:", "    objtype=node"]
        for key, value in fields.items():
            if value != value.strip().strip('"').rstrip(":") or not value.isprintable():
                raise ConfigError(
                    f"{key} cannot be written to xCAT: it begins or ends with a blank or a quote, ends with a colon,"
                    " or has a control character",
                    node=name,
                    do=f"correct {key}",
                )
            lines.append(f"    {key}={value}")
    return "\n".join([*lines, ""])


def command_line(record: Mapping[str, str], deploy_id: str, persists: bool) -> str:
    """``addkcmdline`` with this deployment's id in place of the last one's; what others wrote there stays.

    :param persists: of a system on a disk, whose own boot entry is to have it (xCAT's ``R::``).
    """
    others = [one for one in record.get("addkcmdline", "").split() if deployment.without(one.removeprefix(_PERSISTS))]
    own = [(_PERSISTS if persists else "") + deployment.marked(deploy_id)] if deploy_id else []
    return " ".join([*others, *own])


def check(wanted: Wanted) -> None:
    """:raises ConfigError: where the inventory says what cannot be written to xCAT."""
    if not NODE.match(wanted.key):
        raise ConfigError(
            "this is a noderange to xCAT, or a name that it takes for no node",
            node=wanted.host,
            wanted="letters, digits, underscores and minuses, the first one no sign, and not as n1-n5 or 12",
            seen=wanted.key,
            do="set gpufleet_provisioner_id to the node's name at xCAT",
        )
    odd = sorted(set(wanted.extras) - _EXTRAS)
    if odd:
        raise ConfigError(
            f"the option driver says {', '.join(odd)}, which is not set through it",
            node=wanted.host,
            wanted=", ".join(sorted(_EXTRAS)),
            do="correct the option driver (enroll_driver)",
        )
    said.check(wanted.extras, wanted.host, flags=("uefi",))


def fields(wanted: Wanted, record: Mapping[str, str] | None) -> dict[str, str]:
    """What the record is to say, without the BMC's password; what the inventory does not tell is left as it is."""
    standing = record or {}
    own = {key: str(wanted.extras[key]) for key in SETTABLE if wanted.extras.get(key) not in (None, "")}
    told = {
        **({"mgt": "ipmi"} if record is None else {}),
        **its_alone(wanted),
        **own,
        "serial": wanted.serial,
        "bmcusername": str(wanted.bmc.get("bmc_username") or ""),
    }
    if told["mac"] in macs(standing):  # beside others, or with the name of its card
        del told["mac"]
    told["groups"] = ",".join(all_groups(wanted, record))
    return {key: value for key, value in told.items() if value and standing.get(key, "") != value}


def all_groups(wanted: Wanted, record: Mapping[str, str] | None) -> Iterable[str]:
    """Those that it is in and those that it is to be in."""
    given = wanted.extras.get("groups") or ()
    more = given.split(",") if isinstance(given, str) else [str(one) for one in given]
    return dict.fromkeys([*(groups(record) if record is not None else ["all"]), *(one.strip() for one in more if one)])


def password(wanted: Wanted) -> str:
    found = str(wanted.bmc.get("bmc_password") or "")
    keep_secret(found)
    return found


def told_to_logs(wanted: Wanted, address: str) -> ConfigError | None:
    """What stands against sending the password by the web service: it hands the values of a record to xCAT's daemon as
    words of a command, and before 2026-08 the daemon writes these down."""
    if wanted.extras.get(PASSWORD_IN_LOGS) is True:
        return None
    return ConfigError(
        "an xCAT of before 2026-08 writes the BMC's password into its commands.log and auditlog, as it comes by the web"
        " service",
        node=wanted.host,
        address=address,
        wanted=f"{PASSWORD_IN_LOGS}: true in the option driver (enroll_driver), of an xCAT that does not, or whose logs"
        " may have it",
        seen="bmcpassword is to be written",
        do="have xCAT asked by its commands: gpufleet_provisioner_url: /opt/xcat; nothing was changed",
    )


def bmc_host(address: Any) -> str:
    """xCAT knows a BMC by its name or address alone."""
    with suppress(ValueError):
        return net.called(bmc_address.split(str(address or "")).host)
    return ""
