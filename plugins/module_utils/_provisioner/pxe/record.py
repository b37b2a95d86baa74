# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What stands in the record of a node on our own boot server, what it boots, and what it says of itself. PRIVATE."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _deployment as deployment
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    ConfigError,
    FleetError,
    Refused,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut
from ansible_collections.gpufleet.baremetal.plugins.module_utils._net import spelled
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import said
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import NodeState
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.pxe import tables
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Image, Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._token import has_form

Record = dict[str, Any]

_KNOWN = frozenset({"args", "ip", "owners"})
#: What a loader takes as it is: no blank, quote, variable or second command of its script.
_WORD = re.compile(r"[A-Za-z0-9._~:/?#@!*+,;=%()\[\]-]+\Z")
#: A word for the kernel, besides, is no sign that ends the loader's command, and no comment.
_ARG = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._~:/?#@!*+,=%()\[\]-]*\Z")
#: Words of a kernel's command line that put another system in the image's place.
_OTHER_ROOT = ("root=", "nfsroot=", "init=", "rdinit=", "initrd=", "systemd.run", "systemd.unit=")


def check_extras(extras: Mapping[str, Any], node: str) -> None:
    """:raises ConfigError: naming what this driver does not know, or what no loader takes as it is."""
    unknown = sorted(set(extras) - _KNOWN)
    if unknown:
        raise ConfigError(f"unknown keys in driver: {', '.join(unknown)}", node=node, wanted=", ".join(sorted(_KNOWN)))
    said.check(extras, node, lists=("owners",))
    odd = _odd(args_of(extras))
    if odd:
        raise ConfigError("no words of a kernel's command line in driver.args", node=node, seen=odd)


def _odd(words: Sequence[str]) -> str:
    return cut(" ".join(word for word in words if not _ARG.match(word)), 200)


def args_of(extras: Mapping[str, Any]) -> list[str]:
    given = extras.get("args")
    return [str(one) for one in given] if isinstance(given, (list, tuple)) else str(given or "").split()


def other_bytes(extras: Mapping[str, Any]) -> str:
    words = _others(args_of(extras))
    return f"driver.args says by itself what is booted: {' '.join(words)}" if words else ""


def _others(words: Sequence[str]) -> list[str]:
    return [word for word in words if "//" in word or word.startswith(_OTHER_ROOT)]


def unfit(record: Mapping[str, Any], extras: Mapping[str, Any]) -> FleetError | None:
    """Why the words that stand in the record may not be what the node's kernel is told: somebody has written there what
    no loader takes, or what boots another system and was judged by nobody, since the inventory does not say it."""
    stored = str(record.get("args") or "").split()
    bad = _odd(stored) or cut(" ".join(word for word in _others(stored) if word not in args_of(extras)), 200)
    if not bad:
        return None
    return Refused(
        "the kernel's words in the node's record are not the inventory's, and would boot something else",
        wanted="args as the option driver has them",
        seen=bad,
        do="say in enroll_driver what args the node is to have (an empty text for none), and enrol it again",
    )


# -- what is to stand there ----------------------------------------------------------------------------------------


def wishes(wanted: Wanted) -> Record:
    """As far as the inventory says something of it."""
    given = {
        "mac": spelled(wanted.boot_mac) if wanted.boot_mac else "",
        "serial": wanted.serial,
        "ip": str(wanted.extras.get("ip") or ""),
        "args": " ".join(args_of(wanted.extras)),
    }
    found = {key: value for key, value in given.items() if value}
    return {**found, **({"args": given["args"]} if "args" in wanted.extras else {})}


def unbootable(image: Image) -> FleetError | None:
    """Why no loader could boot it as it is declared; None where one can."""
    if image.format != "ramdisk":
        return ConfigError(
            "the boot server deploys no disk image",
            wanted="format: ramdisk in gpufleet_image, a kernel and a system that runs from memory",
            seen=f"format: {image.format}",
            do="declare such an image, or use a provisioner that writes disks",
        )
    for key, value in (("url", image.url), ("kernel_url", image.kernel_url)):
        if not _WORD.match(value) or not value.startswith(("http://", "https://", "tftp://")):
            return ConfigError(
                f"no loader fetches {key} as it is declared",
                wanted="http, https or tftp, without blanks, quotes and dollar signs",
                seen=cut(value, 200),
                do="correct gpufleet_image",
            )
    return None


def entry(name: str, record: Mapping[str, Any], image: Image) -> str:
    """What the loader of this node is told. Where it cannot, it says so to the boot server, and gives up."""
    card = str(record.get("mac") or "").replace(":", "-")
    words = [
        *str(record.get("args") or "").split(),
        f"BOOTIF=01-{card}",
        *([f"gpufleet.sha256={image.sha256.rpartition(':')[2]}"] if image.sha256 else []),
        *([deployment.marked(image.deploy_id)] if image.deploy_id else []),
    ]
    return "\n".join(
        [
            "#!ipxe",
            f"# {name}: {image.label}",
            "imgfree",
            f"kernel --name vmlinuz {image.kernel_url} initrd=image {' '.join(words)} || goto kernel",
            f"initrd --name image {image.url} || goto image",
            "boot || goto boot",
            *(f":{part}\nchain --autofree ${{gpufleet}}/failed/{card}/{part} || exit 1" for part in _PARTS),
            "",
        ]
    )


_PARTS = ("kernel", "image", "boot")


# -- what stands there ---------------------------------------------------------------------------------------------


#: What a record may lack, and what it is where it is there: parts with words of their own, and times.
_PARTED = ("note", "was", "seen", "marks")
_TIMES: Sequence[tuple[str, ...]] = (("booted",), ("note", "at"), ("was", "at"), ("seen", "at"))


def odd(record: Mapping[str, Any]) -> str:
    """What of it nobody can read, in words; empty where all of it can be. A hand may have written there."""
    for part in _PARTED:
        if not isinstance(record.get(part) or {}, dict):
            return f"{part} is no object: {cut(record[part], 80)}"
    for path in _TIMES:
        at: Any = record
        for key in path:
            at = (at or {}).get(key)
        if at and (isinstance(at, bool) or not isinstance(at, (int, float))):
            return f"{'.'.join(path)} is no number: {cut(at, 80)}"
    return ""


def told(record: Mapping[str, Any]) -> Record:
    """The note of the entry that lies there; empty where it is nobody's of ours."""
    for note in (record.get("note"), record.get("was")):
        if isinstance(note, dict) and record.get("entry") and note.get("digest") == record["entry"]:
            return note
    return {}


def is_current(name: str, record: Mapping[str, Any], image: Image) -> bool:
    """Is it the image of its order, and the entry what would be written now?"""
    note = told(record)
    if not note or not image.is_noted(note):
        return False
    same = replace(image, deploy_id=str(note.get("deploy_id") or ""))
    return hashlib.sha256(entry(name, record, same).encode()).hexdigest() == record["entry"]


def native(record: Mapping[str, Any]) -> str:
    note, seen = told(record), record.get("seen") or {}
    at, asked = float(note.get("at") or 0.0), float(seen.get("at") or 0.0)
    if record.get("out"):
        return tables.OUT
    if not record.get("entry"):
        return tables.NO_ENTRY
    if not note:
        return tables.SOMEBODYS
    booted = float(record.get("booted") or 0.0)
    if booted > at:
        return tables.BOOTED
    if asked <= at:
        return tables.SET
    return tables.NOT_LOADED if seen.get("what") == "failed" else tables.ASKED


def state(name: str, record: Record, owners: frozenset[str]) -> NodeState:
    word, note = native(record), told(record)
    hold, owner = str(record.get("hold") or ""), str(record.get("owner") or "")
    foreign = f"held: {hold}" if hold and not has_form(hold) else ""
    keys = ("name", "version", "url", "sha256", "deploy_id")
    image = {key: str(note.get(key) or "") for key in keys}
    label = {"label": f"{image['name']}-{image['version']}", **image} if note else {}
    return NodeState(
        id=name,
        name=name,
        native=word,
        state=tables.STATES[word],
        last_error=f"its loader says that it could not load the {_part(record)}" if word == tables.NOT_LOADED else "",
        maintenance=has_form(hold),
        hold=hold,
        foreign=foreign or (f"owner is {owner}" if owner and owner not in owners else ""),
        owner=owner,
        stamp=str(record.get("entry") or ""),
        image=label,
        inspection="unsupported",
        deploy_id=image["deploy_id"],
        raw=record,
    )


def _part(record: Mapping[str, Any]) -> str:
    said = str((record.get("seen") or {}).get("words") or "")
    return said if said in _PARTS else "image"


def own(record: Mapping[str, Any]) -> Record:
    """What a writer puts there; the rest is the store's own."""
    return {key: value for key, value in record.items() if key not in ("entry", "seen", *_STORES)}


_STORES: Sequence[str] = ("version", "name", "note", "was", "out")
