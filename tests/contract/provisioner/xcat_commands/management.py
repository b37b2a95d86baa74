# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""xCAT's management node as its commands show it: their words, their exit statuses that lie, and its nodes' words.

Written from what was recorded of 2.18, which ``test_xcat.py`` holds it against where the recording is to be had; of
what could not be recorded there (a deployment that goes on, a BMC that answers), from its manual pages.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .names import NAMING, NO_MASTER, Answer, Names
from .words import groups, parsed, selected, shown, stanzas

#: Seconds until a node tells the next thing of itself: more than a loaded machine needs to read back what it ordered.
PACE = 0.4
#: What a node tells on its way, by how its image comes to it.
WAYS = {
    "netboot": ("powering-on", "netbooting", "booted"),
    "install": ("powering-on", "installing", "booting", "booted"),
}
#: Of a node's (Schema.pm), those that these tests speak of.
NODE_ATTRIBUTES = frozenset(
    (
        *(
            "addkcmdline",
            "arch",
            "bmc",
            "bmcpassword",
            "bmcusername",
            "cons",
            "currstate",
            "groups",
            "installnic",
            "ip",
        ),
        *("mac", "mgt", "netboot", "nfsserver", "os", "primarynic", "profile", "provmethod", "serial", "serialflow"),
        *(
            "serialport",
            "serialspeed",
            "servicenode",
            "status",
            "statustime",
            "tftpserver",
            "usercomment",
            "xcatmaster",
        ),
    )
)
AWAY = (
    "Unable to open socket connection to xcatd daemon on localhost:3001.\n"
    "Verify that the xcatd daemon is running and that your SSL setup is correct.\n"
)
_VERBS = ("on", "off", "reset", "boot", "stat", "state", "status", "cycle", "softoff")
_DONE = "{} object definitions have been created or modified.\n"
_NO_BOOTLOADER = (
    '{0}: Error: Stop grub2 configuration for this node, "/tftpboot/boot/grub2/grub2.x86_64" does not exits.\n'
    "Error: Failed to generate grub2 configurations for some node(s) on vm. Check xCAT log file for more details.\n"
)
_NO_PACKED = (
    "No packed image for platform ubuntu24.04.2, architecture x86_64, and profile compute, please run packimage"
)
_NO_DHCP = "dhcp server is not running.  please start the dhcp server."


class Management(Names):
    """The tables, and the machines behind them."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes: dict[str, dict[str, str]] = {}
        self.images: dict[str, dict[str, str]] = {}
        #: What groups say of the nodes in them that say nothing of it themselves.
        self.groups: dict[str, dict[str, str]] = {}
        #: What each node's boot configuration has for its kernel.
        self.boot_lines: dict[str, str] = {}
        self.power: dict[str, str] = {}
        self.overridden: set[str] = set()  # to boot from the network next
        self.has_master = True
        self.has_bootloader = True
        self.has_dhcp = True
        #: Nodes whose deployment fails in a script of theirs; that boot their disk; whose BMC refuses its login; for
        #: whom no boot can be set up, which the command finds once it has set their provmethod.
        self.failing: set[str] = set()
        self.stubborn: set[str] = set()
        self.locked_out: set[str] = set()
        self.unpacked: set[str] = set()
        #: Is ``xcatd`` away? It goes when a command with this word comes, before anything of it is done. And how many
        #: commands have met nobody since.
        self.away = False
        self.dies_at = ""
        self.unheard = 0
        #: How often each node was booted.
        self.boots: dict[str, int] = {}
        #: Does a boot through the BMC write a status (``site.nodestatus``)?
        self.tells_of_power = True
        self._coming: dict[str, list[tuple[float, str]]] = {}
        self._clock = datetime.datetime(2026, 11, 23, 10, 0, 0)

    # -- what nodes tell ---------------------------------------------------------------------------------------

    def tells(self, name: str, status: str) -> None:
        """In the management node's own time, by the second."""
        self._clock += datetime.timedelta(seconds=7)
        self.nodes[name].update(status=status, statustime=self._clock.strftime("%m-%d-%Y %H:%M:%S"))

    def boots_by_its_bmc(self, name: str) -> None:
        """Somebody switches it past xCAT, which tells no word of that."""
        self.power[name] = "on"
        self._boots(name, told=False)

    def _boots(self, name: str, *, told: bool = True) -> None:
        node = self.nodes[name]
        self.boots[name] = self.boots.get(name, 0) + 1
        self.overridden.discard(name)
        kind = node.get("currstate", "").partition(" ")[0]
        way = WAYS.get(kind, ("powering-on", "booting", "booted"))
        if name in self.stubborn:
            way = ("powering-on", "booting", "booted")
        if name in self.failing:
            way = (*way[:-1], "failed")
        if self.tells_of_power and told:
            self.tells(name, way[0])
        now = time.monotonic()
        self._coming[name] = [(now + PACE * (1 + at), word) for at, word in enumerate(way[1:])]

    def live(self) -> None:
        """What has happened since it was looked at last. A node that meets no ``xcatd`` asks until there is one."""
        if self.away:
            return
        for name, coming in self._coming.items():
            while coming and coming[0][0] <= time.monotonic() and name in self.nodes:
                status = coming.pop(0)[1]
                if status == "booting" and name not in self.stubborn and self._installs(name):
                    self.nodes[name]["currstate"] = "boot"  # the installer has said `next`
                self.tells(name, status)

    def _installs(self, name: str) -> bool:
        return self.nodes[name].get("currstate", "").startswith("install")

    # -- commands ----------------------------------------------------------------------------------------------

    def stops(self) -> None:
        """``xcatd`` is killed. What it had written lies in its tables, and the machines go on."""
        self.live()
        self.away, self.dies_at, self.unheard = True, "", 0

    def starts(self) -> None:
        self.away = False

    def run(self, argv: Sequence[str], stdin: str = "") -> Answer:
        self.live()
        if self.dies_at and self.dies_at in argv:
            self.stops()
        if self.away:
            self.unheard += 1
            return Answer(1, err=AWAY)
        return _COMMANDS[argv[0]](self, list(argv[1:]), stdin)

    def _lsdef(self, argv: list[str], _stdin: str) -> Answer:
        kind, options, rest = parsed(argv)
        table = self._table(kind)
        asked = (options.get("-o") or (rest[0] if rest else "")).split(",")
        names = [one for one in asked if one] or sorted(table)
        names = self._expanded(names) if kind == "node" else names
        names = [name for name in names if selected(table.get(name, {}), options.get("-w", ""))]
        found, missing = ([name for name in names if (name in table) is there] for there in (True, False))
        err = "".join(f"Error: Could not find an object named '{name}' of type '{kind}'.\n" for name in missing)
        out = "".join(shown(kind, name, table[name], options) for name in found)
        out = ("# <xCAT data object stanza file>\n" if "-z" in options and found else "") + out
        if not names:
            return Answer(0, "Could not find any object definitions to display.\n")
        return Answer(1 if missing else 0, out or "No object definitions have been found\n", err)

    def _table(self, kind: str) -> dict[str, dict[str, str]]:
        if kind == "node":
            return {name: {**self._inherited(node), **node} for name, node in self.nodes.items()}
        if kind == "group":  # also those that are nothing but a word of their nodes
            return {name: self.groups.get(name, {}) for node in self.nodes.values() for name in groups(node)}
        return self.images

    def _inherited(self, node: dict[str, str]) -> dict[str, str]:
        """Of several groups the first one's."""
        found: dict[str, str] = {}
        for name in reversed(groups(node)):
            found.update(self.groups.get(name, {}))
        return found

    def _expanded(self, names: Iterable[str]) -> list[str]:
        """A group stands for its nodes, unless a node has that name."""
        found: list[str] = []
        for name in names:
            members = [one for one, node in self.nodes.items() if name in node.get("groups", "").split(",")]
            found += [name] if name in self.nodes or not members else members
        return found

    def _mkdef(self, argv: list[str], stdin: str) -> Answer:
        kind, entries = self._given(argv, stdin)
        table = self.nodes if kind == "node" else self.images
        there = [name for name in entries if name in table]
        if there:
            warning = (
                f"Warning: A definition for '{there[0]}' already exists. No changes will be made."
                "  Run again with '-f' option to force replace.\n"
            )
            return Answer(1, "", warning + "Error: 0 object definitions have been created or modified.\n")
        return self._changed(table, entries)

    def _chdef(self, argv: list[str], stdin: str) -> Answer:
        kind, entries = self._given(argv, stdin)
        if kind == "site":
            self.has_master = True
            return Answer(0, _DONE.format(1))
        return self._changed(self.nodes if kind == "node" else self.images, entries)

    def _changed(self, table: dict[str, dict[str, str]], entries: dict[str, dict[str, str]]) -> Answer:
        odd = {key for fields in entries.values() for key in fields} - NODE_ATTRIBUTES if table is self.nodes else set()
        if odd:
            word = min(odd)
            return Answer(1, "", f"Error: '{word}' is not a valid attribute name for for an object type of 'node'.\n")
        for name, fields in entries.items():
            record = table.setdefault(name, {})
            record.update({key: value for key, value in fields.items() if value})
            for key in [key for key, value in fields.items() if not value]:
                record.pop(key, None)
        return Answer(0, _DONE.format(len(entries)))

    def _given(self, argv: list[str], stdin: str) -> tuple[str, dict[str, dict[str, str]]]:
        kind, options, rest = parsed(argv)
        if "-z" in options:
            return kind, stanzas(stdin)
        names = options.get("-o") or rest.pop(0)
        fields = dict(one.split("=", 1) for one in rest)
        return kind, {name: dict(fields) for name in names.split(",")}

    def _rmdef(self, argv: list[str], _stdin: str) -> Answer:
        if argv[0] not in self.nodes:
            err = f"Error: Could not find an object named '{argv[0]}' of type 'node'.\n"
            return Answer(1, "No objects have been removed from the xCAT database.\n", err)
        del self.nodes[argv[0]]
        return Answer(0, "1 object definitions have been removed.\n")

    def _nodels(self, argv: list[str], _stdin: str) -> Answer:
        names = self._expanded(argv[0].split(","))
        if any(name not in self.nodes for name in names):
            return Answer(0, f"Invalid nodes in noderange:{argv[0]}\n")
        columns = argv[1:]
        if not columns:
            return Answer(0, "".join(f"{name}\n" for name in names))
        pairs = ((name, one, self.nodes[name].get(one.rpartition(".")[2], "")) for name in names for one in columns)
        return Answer(0, "".join(f"{name}: {column}: {value}\n" for name, column, value in pairs))

    def _nodeset(self, argv: list[str], _stdin: str) -> Answer:
        names, verb = argv[0].split(","), argv[1]
        if verb == "stat":
            told = (f"{name}: {self.nodes[name].get('currstate') or 'offline'}\n" for name in names)
            return Answer(0, "".join(told))
        if verb in ("offline", "boot"):
            out = "".join(f"{name}: {verb}\n" for name in names)
            if verb == "boot" and not self.has_bootloader:
                return Answer(1, out, _NO_BOOTLOADER.format(names[0]))
            for name in names:
                self.nodes[name]["currstate"] = verb
                self.boot_lines.pop(name, None)
            return Answer(0, out)
        return self._set_up(names, verb.partition("=")[2])

    def _set_up(self, names: Sequence[str], named: str) -> Answer:
        image = self.images.get(named)
        if image is None:
            return Answer(1, "", f"Error: Cannot find the OS image {named} in the osimage table.\n")
        method = image.get("provmethod", "")
        out = "Doing debian mkinstall\n" if method == "install" and image["osvers"].startswith("ubuntu") else ""
        for name in names:
            self.nodes[name]["provmethod"] = named
        if image.get("template", "").startswith("/nonexist"):
            err = "".join(f"{name}: Error: No ubuntu preseed template exists for compute\n" for name in names)
            whole = (
                "Failed to generate grub2 configurations for some node(s) on vm. Check xCAT log file for more details."
            )
            return Answer(1, out, f"{err}Error: {whole}\n")
        state = f"{method} {image['osvers']}-{image['osarch']}-{image['profile']}"
        bad = [name for name in names if name in self.unpacked]
        err = "".join(f"{name}: Error: {_NO_PACKED}\n" for name in bad)
        for name in names:
            out += f"{name}: {state if name not in bad else self.nodes[name].get('currstate') or 'offline'}\n"
        for name in [name for name in names if name not in bad]:
            self.nodes[name]["currstate"] = state
            self.boot_lines[name] = f"quiet imgurl=http://mn:80/{named} {self.nodes[name].get('addkcmdline', '')}"
        if not self.has_dhcp:  # which is its last step
            err += f"Error: {_NO_DHCP}\n"
        return Answer(1 if err else 0, out, err)

    def _rpower(self, argv: list[str], _stdin: str) -> Answer:
        names, verb = argv[0].split(","), argv[1]
        if verb not in _VERBS:
            text = f"Unsupported command: rpower {verb} when using mgt=ipmi."
            return Answer(1, "".join(f"{name}: Error: {text}\n" for name in names))
        return self._bmcs([name for name in names if name], lambda name: self._switched(name, verb))

    def _switched(self, name: str, verb: str) -> str:
        was = self.power.get(name, "off")
        if verb in ("on", "off"):
            self.power[name] = verb
        if verb == "off" and was == "on":
            self._coming.pop(name, None)
            self.tells(name, "powering-off")
        if verb in ("boot", "reset", "on") and not (verb == "reset" and was == "off"):
            self.power[name] = "on"
            self._boots(name)
        if verb == "boot":
            return "on reset" if was == "on" else "off on"
        return "reset" if verb == "reset" and was == "on" else self.power.get(name, "off")

    def _rsetboot(self, argv: list[str], _stdin: str) -> Answer:
        names = argv[0].split(",")
        if argv[1] == "net" and self.has_master:
            self.overridden.update(set(names) - self.locked_out)
        return self._bmcs(names, lambda name: "Network" if name in self.overridden else "boot override inactive")

    def _bmcs(self, names: Sequence[str], say: Callable[[str], str]) -> Answer:
        if not self.has_master:
            return Answer(0, NO_MASTER)
        bad = [name for name in names if name in self.locked_out]
        err = "".join(f"{name}: Error: ERROR: Incorrect password provided\n" for name in bad)
        out = "".join(f"{name}: {say(name)}\n" for name in names if name not in bad)
        return Answer(1 if bad else 0, out, err)

    def _rinstall(self, argv: list[str], _stdin: str) -> Answer:
        """Of several nodes it boots those as well whose boot could not be set up, relays what was said of them as if it
        were no error, and exits with 0. Of one it ends there; and where no node has an address."""
        names = argv[0].split(",")
        done = self._nodeset([argv[0], argv[1]], "")
        if "dhcp server is not running" in done.err:
            return Answer(1, "", "Error: Fatal error: dhcp server is not running\n")
        if done.code and len(names) == 1:
            return Answer(1, "", f"Error: Failed to run 'nodeset' against the node: {names[0]}\n")
        relayed = done.err.replace(": Error: ", ": ").replace("Error: ", "")
        bent = self._rsetboot([argv[0], "net"], "")
        ready = [name for name in names if f"{name}: Network" in bent.out]
        self._rpower([",".join(ready), "boot"], "")
        return Answer(0, f"Provision node(s): {' '.join(names)}\n{relayed}")


_COMMANDS: dict[str, Callable[[Management, list[str], str], Answer]] = {
    "lsdef": Management._lsdef,
    "mkdef": Management._mkdef,
    "chdef": Management._chdef,
    "rmdef": Management._rmdef,
    "nodels": Management._nodels,
    "nodeset": Management._nodeset,
    "rpower": Management._rpower,
    "rsetboot": Management._rsetboot,
    "rinstall": Management._rinstall,
    **NAMING,
}


def of_image(method: str, **more: Any) -> dict[str, str]:
    """An osimage as `mkdef -t osimage` takes it."""
    return {
        "imagetype": "linux",
        "osarch": "x86_64",
        "osname": "Linux",
        "osvers": "ubuntu24.04.2",
        "profile": "compute",
        "provmethod": method,
        **more,
    }
