# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""BCM's head node as cmsh shows it: its sessions, its records, its installer's log, and the machines behind it.

Written from what is public: the administrator manual of BCM 11 (2.5 for cmsh, 5.4 and 5.5 for the installer and the
states) and short quotations of what it printed. No BCM was at hand. What nobody has published is guessed to our harm:
errors end with 0, an unknown node ends a whole list, an empty value prints no line, and a commit takes what it can.
"""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Optional

from .words import commands, expanded, split

#: Seconds until a machine goes on: more than a loaded machine needs to read back what it ordered.
PACE = 0.12
NO_MAC = "00:00:00:00:00:00"
PROPERTIES = (
    "category",
    "datanode",
    "hostname",
    "ip",
    "kernelparameters",
    "mac",
    "nextinstallmode",
    "powercontrol",
    "softwareimage",
    "userdefined1",
)
_MODES = ("AUTO", "FULL", "MAIN", "NOSYNC", "SKIP")
AWAY = "Unable to connect to the cluster daemon on localhost:8081\n"
EVENT = "Wed Nov 25 07:58:20 2026 [notice] head: node999 [   UP   ]\n"
#: What a commit says of an object that it does not take.
_REFUSED = (
    "Code  Field                    Message\n"
    "----- ------------------------ --------------------------\n"
    "1     {:<24} {}\n"
)
_TOP = {"device", "category", "softwareimage", "main", "home"}


class Answer(NamedTuple):
    code: int = 0
    out: str = ""
    err: str = ""


class Wrong(Exception):
    """What a command says instead of doing anything."""


class Head:
    """What is committed there, and what the machines do."""

    def __init__(self, log: Path) -> None:
        self.nodes: dict[str, dict[str, str]] = {}
        self.images: dict[str, dict[str, str]] = {}
        self.categories: dict[str, dict[str, str]] = {}
        #: By node: its status, what stands behind it, and whether somebody has closed it.
        self.status: dict[str, tuple[str, str]] = {}
        self.closed: dict[str, str] = {}
        #: By node: the address of each of its interfaces.
        self.interfaces: dict[str, dict[str, str]] = {}
        #: The command line of the kernel that each one booted last.
        self.boot_lines: dict[str, str] = {}
        self.profile = "admin"
        self.log = log
        #: Nodes whose installation fails, whose installer says nothing in its log, that boot their disk, and that a
        #: commit does not take.
        self.failing: set[str] = set()
        self.silent: set[str] = set()
        self.stubborn: set[str] = set()
        self.untaken: set[str] = set()
        #: Properties of a node that a commit takes and does not keep.
        self.forgets: set[str] = set()
        #: Does ``get`` say of what a value was inherited, does it show such values, and does an empty one print a line?
        self.says_whence = False
        self.prints_blank = False
        #: By node, where it is not on; and those whose BMC does not answer.
        self.power: dict[str, str] = {}
        self.dead: set[str] = set()
        #: Is its daemon away? And how many sessions have met nobody since it went.
        self.away = False
        self.unheard = 0
        #: How often each node has begun to be installed.
        self.installs: dict[str, int] = {}
        #: Those whose installer goes on only once they are none of these any more.
        self.paused: set[str] = set()
        self._coming: dict[str, list[tuple[float, Callable[[], None]]]] = {}
        log.write_text("", encoding="utf-8")

    # -- what machines do --------------------------------------------------------------------------------------

    def enter(self, name: str, **properties: str) -> dict[str, str]:
        """A node that somebody has entered."""
        self.nodes[name] = {"hostname": name, "category": "default", "mac": NO_MAC, **properties}
        self.status.setdefault(name, ("DOWN", ""))
        self.interfaces.setdefault(name, {"ipmi0": "10.3.0.7"})
        return self.nodes[name]

    def says(self, name: str, text: str) -> None:
        if name not in self.silent:
            with self.log.open("a", encoding="utf-8") as file:
                file.write(f"08:40:58 {name} node-installer: {text}\n")

    def boots(self, name: str) -> None:
        """From the network, as its BMC was told, unless it boots its disk."""
        if name in self.stubborn:
            self._comes(name, [lambda: self._is(name, "DOWN"), lambda: self._is(name, "UP")])
            return
        way: list[Callable[[], None]] = [lambda: self._is(name, "DOWN"), lambda: self._loads(name)]
        if name in self.failing:
            way.append(lambda: self._fails(name))
        else:
            way += [lambda: self._installed(name), lambda: self._is(name, "UP")]
        self._comes(name, way)

    def switches(self, name: str, verb: str) -> str:
        """By what it is switched, and its power then, with its own name behind it."""
        was = self.power.get(name, "ON")
        if verb != "status" and name not in self.dead:
            self.power[name] = verb.upper()
        if self.power.get(name, "ON") != was:
            self._comes(name, [lambda: self._is(name, "DOWN")])
            if verb == "on":
                self.boots(name)
        word = "FAIL" if name in self.dead else self.power.get(name, "ON")
        return f"ipmi0 {'.' * 20} [   {word:<5}] {name}\n"

    def _comes(self, name: str, way: Sequence[Callable[[], None]]) -> None:
        now = time.monotonic()
        self._coming[name] = [(now + PACE * at, step) for at, step in enumerate(way)]
        self.live()

    def _is(self, name: str, word: str, told: str = "") -> None:
        self.status[name] = (word, told)

    def _loads(self, name: str) -> None:
        node = self.nodes[name]
        self.installs[name] = self.installs.get(name, 0) + 1
        self.boot_lines[name] = f"quiet console=tty0 {self.inherits(name, 'kernelparameters')}"
        mode = node.get("nextinstallmode") or "AUTO"
        self.says(name, f"Installmode is: {mode}")
        self._is(name, "INSTALLING", "(provisioning started, waiting for completion)")

    def _fails(self, name: str) -> None:
        self.says(name, "No such disk.")
        self._is(name, "INSTALLER_FAILED")

    def _installed(self, name: str) -> None:
        self.nodes[name].pop("nextinstallmode", None)
        self._is(name, "INSTALLER_CALLINGINIT", "(switching to local root)")

    def live(self) -> None:
        """What has happened since it was looked at last. An installer that meets no daemon asks again until there is
        one."""
        if self.away:
            return
        for name, coming in self._coming.items():
            while coming and coming[0][0] <= time.monotonic() and not self._waits(name):
                coming.pop(0)[1]()

    def _waits(self, name: str) -> bool:
        return name in self.paused and self.status[name][0] == "INSTALLING"

    def stops(self) -> None:
        """Its daemon is killed. What was committed lies in its database, and the machines go on."""
        self.live()
        self.away, self.unheard = True, 0

    def starts(self) -> None:
        """Of no node it knows anything before it has looked, or was told."""
        self.away = False
        for name, status in list(self.status.items()):
            self.status[name] = ("UNKNOWN", "")
            seen = functools.partial(self._is, name, *status)
            self._coming[name] = [(time.monotonic() + PACE, seen), *self._coming.get(name, [])]

    # -- values ------------------------------------------------------------------------------------------------

    def inherits(self, name: str, key: str) -> str:
        """A node's own, its category's, its image's."""
        node = self.nodes[name]
        category = self.categories.get(node.get("category", ""), {})
        value = node.get(key) or category.get(key, "")
        if not value and key == "kernelparameters":
            value = self.images.get(self.inherits(name, "softwareimage"), {}).get(key, "")
        return value

    def shown(self, name: str, key: str, session: dict[str, dict[str, str]]) -> str:
        own = session.get(name, self.nodes[name]).get(key, "")
        if own or key not in ("softwareimage", "kernelparameters"):
            return own
        if key == "kernelparameters" and not self.says_whence:
            return ""
        value = self.inherits(name, key)
        return f"{value} (category:{self.nodes[name]['category']})" if value and self.says_whence else value

    # -- sessions ----------------------------------------------------------------------------------------------

    def run(self, argv: Sequence[str], _stdin: str = "") -> Answer:
        """``cmsh [options] -c "..."``: one session, which ends with what it did not commit."""
        self.live()
        if self.away:
            self.unheard += 1
            return Answer(1, err=AWAY)
        session = Session(self)
        quits = "-q" in argv
        out = "" if "--disable-events" in argv else EVENT
        err = ""
        for one in commands(argv[list(argv).index("-c") + 1]):
            try:
                out += session.does(one)
            except Wrong as wrong:
                err += f"Error: {wrong}\n"
                if quits:
                    break
        return Answer(0, out, err)


class Session:
    """Where it stands, and what it has changed and not committed."""

    def __init__(self, head: Head) -> None:
        self._head = head
        self._mode = ""
        self._object: Optional[str] = None
        self._changed: dict[str, dict[str, str]] = {}

    def does(self, text: str) -> str:
        words = split(text)
        stood = (self._mode, self._object)
        if words[0] in _TOP:
            self._mode, self._object = words.pop(0), None
            if not words:
                return ""
            try:
                return self._done(words, text)
            finally:
                self._mode, self._object = stood
        return self._done(words, text)

    def _done(self, words: list[str], text: str) -> str:
        if words[0] == "foreach":
            return self._foreach(text[text.index("foreach") :])
        verb: Callable[..., str] = _VERBS[words[0]]
        return verb(self, *words[1:])

    def _foreach(self, text: str) -> str:
        found = re.match(r"foreach (?:-(\w) (\S+)|\*) \((.*)\)\Z", text)
        if not found:
            raise Wrong("foreach: syntax")
        out, mode = "", self._mode
        for name in self._chosen(found[1], found[2]):
            self._mode, self._object = mode, name
            inner = ""
            for one in commands(found[3]):
                inner += self.does(one)
            out += inner
        return out

    def _chosen(self, option: Optional[str], which: Optional[str]) -> list[str]:
        head = self._head
        if option == "n" and which:
            names = list(expanded(which))
            for name in names:
                if name not in head.nodes:
                    raise Wrong(f"no device {name}")
            return names
        if option == "c":
            if which not in head.categories:
                raise Wrong(f"no category {which}")
            return [name for name, node in head.nodes.items() if node["category"] == which]
        if option == "t":
            return list(head.nodes)
        return list(head.images if self._mode == "softwareimage" else head.categories)

    # -- verbs -------------------------------------------------------------------------------------------------

    def _get(self, *words: str) -> str:
        head, name = self._head, self._object or ""
        if self._mode == "interfaces":
            value = head.interfaces[name].get(words[0], "")
            if words[0] not in head.interfaces[name]:
                raise Wrong(f"no interface {words[0]}")
        elif self._mode == "device":
            if words[0] not in PROPERTIES:
                raise Wrong(f"no property {words[0]}")
            value = head.shown(name, words[0], self._changed)
        else:
            table = head.images if self._mode == "softwareimage" else head.categories
            value = name if words[0] == "name" else table[name].get(words[0], "")
        return f"{value}\n" if value or head.prints_blank else ""

    def _status(self, *_words: str) -> str:
        head, name = self._head, self._object or ""
        word, told = head.status[name]
        if name in head.closed:
            word, told = f"{word}/CLOSED", head.closed[name]
        return f"{name} {'.' * (24 - len(name) if len(name) < 22 else 2)} [   {word}   ] {told}".rstrip() + "\n"

    def _power(self, option: str, names: str, verb: str) -> str:
        """``power -n node001 on``; more than these words it takes, and none of them is sent."""
        if option != "-n" or verb not in ("on", "off", "status"):
            raise Wrong("power: syntax")
        return "".join(self._head.switches(name, verb) for name in self._chosen("n", names))

    def _interfaces(self, *_words: str) -> str:
        self._mode = "interfaces"
        return ""

    def _exit(self, *_words: str) -> str:
        self._mode = "device"
        return ""

    def _set(self, *words: str) -> str:
        name, key, value = words if len(words) == 3 else (self._object or "", *words)
        self._has(name, key)
        if key == "nextinstallmode" and value.upper() not in _MODES:
            raise Wrong(f"{value} is no install mode")
        if key == "softwareimage" and value not in self._head.images:
            raise Wrong(f"no software image {value}")
        if key == "category" and value not in self._head.categories:
            raise Wrong(f"no category {value}")
        self._changed.setdefault(name, dict(self._head.nodes.get(name, {})))[key] = (
            value.upper() if key in ("mac", "nextinstallmode") else value
        )
        return ""

    def _clear(self, *words: str) -> str:
        name, key = words if len(words) == 2 else (self._object or "", words[0])
        self._has(name, key)
        self._changed.setdefault(name, dict(self._head.nodes[name])).pop(key, None)
        return ""

    def _has(self, name: str, key: str) -> None:
        if name not in self._head.nodes and name not in self._changed:
            raise Wrong(f"no device {name}")
        if key not in PROPERTIES:
            raise Wrong(f"no property {key}")

    def _add(self, kind: str, name: str, ip: str = "", _interface: str = "") -> str:
        if name in self._head.nodes:
            raise Wrong(f"a device {name} exists already")
        assert kind == "physicalnode"
        # The category that the partition has as its default.
        self._changed[name] = {"hostname": name, "mac": NO_MAC, "category": "default", **({"ip": ip} if ip else {})}
        self._object = name
        return ""

    def _commit(self, *_words: str) -> str:
        """Of several objects those that are consistent are saved."""
        head = self._head
        if head.profile == "readonly":
            raise Wrong("this operation needs another profile")
        out = ""
        for name, node in self._changed.items():
            if not node.get("category"):
                out += _REFUSED.format("category", "The category should be set")
                continue
            if name in head.untaken:
                out += _REFUSED.format(name, "Device is being modified by another session")
                continue
            kept = {key: value for key, value in node.items() if key not in head.forgets}
            if name not in head.nodes:
                head.enter(name)
            head.nodes[name] = {**{key: head.nodes[name][key] for key in head.forgets & set(head.nodes[name])}, **kept}
        self._changed.clear()
        return out

    def _showprofile(self, *_words: str) -> str:
        return f"{self._head.profile}\n"


_VERBS: dict[str, Any] = {
    "get": Session._get,
    "set": Session._set,
    "clear": Session._clear,
    "add": Session._add,
    "status": Session._status,
    "power": Session._power,
    "interfaces": Session._interfaces,
    "exit": Session._exit,
    "commit": Session._commit,
    "showprofile": Session._showprofile,
}
