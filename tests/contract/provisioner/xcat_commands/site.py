# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""xCAT's commands, as the contract suite sees them: tiny programs that ask this process, and what can go wrong there.

A command of xCAT is a client of ``xcatd`` too. One in Python would cost each call tens of milliseconds; these are a few
lines of a shell.
"""

from __future__ import annotations

import contextlib
import itertools
import shutil
import socketserver
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.xcat import cli
from ansible_collections.gpufleet.baremetal.plugins.module_utils._wait import wait_until
from calls import lead
from contract.faults import GARBAGE, NO, OUTAGE, REFUSAL, Call, Faults, Said
from contract.faulty_tool import comes
from sites import Site, patched

from .management import AWAY, NO_MASTER, Answer, Management, of_image

WAYS = {
    OUTAGE: Said(1, err=AWAY),
    GARBAGE: Said(0, out="<h1>Wartung</h1>\n"),
    "no master": Said(0, out=NO_MASTER),
    "silence": Said(0),
    "killed": Said(-9),
    REFUSAL: Said(1, err="Error: Permission denied for request\n"),
    NO: Said(1, err="Error: The database is locked\n"),
}
COMMANDS = {
    "bin": ("lsdef", "mkdef", "chdef", "rpower", "rsetboot", "nodels", "nodestat"),
    "sbin": ("nodeset", "makehosts", "makedns", "makedhcp"),
    # Of the system's own
    "system": ("getent",),
}
_READS = ("lsdef", "nodels", "nodestat", "getent")
SHIM = """#!{bash}
case " $* " in *" -z "*) IFS= read -r -d '' input ;; esac
exec 3<>/dev/tcp/127.0.0.1/{port} || exit 1
printf '%s\\0' "$#" "${{0##*/}}" "$@" "$input" >&3
IFS= read -r -d '' code <&3; IFS= read -r -d '' out <&3; IFS= read -r -d '' err <&3
printf '%s' "$out"; printf '%s' "$err" >&2
[ "${{code:--1}}" -lt 0 ] && kill -9 $$
exit "$code"
"""


class XcatFaults(Faults):
    """What becomes of a command is said here, before it comes to the management node."""

    unusable = tuple(way for way in WAYS if way not in (REFUSAL, NO))
    ways: Mapping[str, Said] = WAYS

    def __init__(self, management: Any) -> None:
        self._management = management
        self._lock = threading.Lock()
        self.forget()

    def forget(self) -> None:
        self._calls: list[Call] = []
        self._way: Optional[Said] = None
        self._hit = range(0)
        self._of_writes = False
        self._seen = itertools.count(1)
        self._lost = 0
        self._slow: Optional[Path] = None
        self._slow_reads = False
        self._denied = ""

    def strike(self, way: str, times: Optional[int] = None) -> None:
        self._way, self._of_writes = self.ways[way], False
        self._hit, self._seen = range(1, sys.maxsize if times is None else times + 1), itertools.count(1)

    def strike_writes(self, way: str, first: int, last: Optional[int] = None) -> None:
        self._way, self._of_writes = self.ways[way], True
        self._hit, self._seen = range(first, sys.maxsize if last is None else last + 1), itertools.count(1)

    def lose_answer(self, nth: int = 1) -> None:
        self._lost = nth

    def slow(self, until: Path, *, reads: bool = False) -> None:
        self._slow, self._slow_reads = until, reads

    def deny(self, command: str) -> None:
        """The policy table lets us not run it any more; until :meth:`forget`."""
        self._denied = command

    @property
    def calls(self) -> list[Call]:
        return list(self._calls)

    def is_write(self, argv: list[str]) -> bool:
        return argv[0] not in _READS and "stat" not in argv

    def answered(self, argv: list[str], stdin: str) -> Answer:
        is_write = self.is_write(argv)
        with self._lock:
            self._calls.append(Call(" ".join(argv), is_write, stdin.encode()))
            counts = self._way is not None and (is_write or not self._of_writes)
            struck = counts and next(self._seen) in self._hit
            lost = is_write and self._lost == 1
            self._lost -= is_write and self._lost > 0
        if self._slow is not None and is_write is not self._slow_reads:
            comes(str(self._slow))
        if self._denied and is_write and self._denied == argv[0]:
            return Answer(self.ways[REFUSAL].code, self.ways[REFUSAL].out, self.ways[REFUSAL].err)
        if struck and self._way is not None:
            return Answer(self._way.code, self._way.out, self._way.err)
        with self._lock:
            answer: Answer = self._management.run(argv, stdin)
        return Answer(-9) if lost else answer


class XcatSite(Site):
    name = "xcat"
    two_ways = True  # by commands, which stand here, and by a service: test_xcatws.py
    many_calls = True
    extras: ClassVar[dict[str, Any]] = {"netboot": "xnba", "arch": "x86_64"}
    destructive_words = ("nodeset", "rsetboot", "rpower")

    def __init__(self, folder: Path) -> None:
        self.management = Management()
        self.management.images.update(
            {f"gold-{version}": of_image("netboot") for version in ("1", "2")}
            | {f"gold-{version}-disk": of_image("install") for version in ("1", "2")}
            | {"lite": of_image("statelite")}
        )
        self.faults = XcatFaults(self.management)
        self._server = Server(self.faults)
        self._folder = folder
        shim = SHIM.format(bash=shutil.which("bash"), port=self._server.server_address[1])
        for place, names in COMMANDS.items():
            (folder / place).mkdir()
            for name in names:
                (folder / place / name).write_text(shim, encoding="utf-8")
                (folder / place / name).chmod(0o755)
        self.marks = (self.hold_by_somebody, self.owned_by_somebody)

    rights = ("chdef", "nodeset", "rpower")

    def without(self, right: str) -> dict[str, Any]:
        self.faults.deny(right)
        return {}

    def is_ordered(self, name: str, named: str) -> bool:
        return named in self.management.boot_lines.get(name, "")

    def patience(self, seconds: float) -> contextlib.AbstractContextManager[Any]:
        return patched((cli, "TIMEOUT", seconds), (cli, "EACH", 0.0))

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def connection(self) -> dict[str, Any]:
        return {"provisioner": self.name, "provisioner_url": str(self._folder)}

    def image(self, version: str = "1", format: str = "ramdisk") -> dict[str, Any]:
        named = f"gold-{version}" + ("-disk" if format == "whole-disk" else "")
        return {**super().image(version, format), "named": named}

    def new(self) -> dict[str, Any]:
        """Each has a BMC of its own: xCAT knows one by its host alone."""
        options = super().new()
        number = int(options["name"][3:])
        return {**options, "bmc_address": f"https://127.10.{number // 250 % 250}.{number % 250 + 1}"}

    def moved_bmc(self, options: dict[str, Any]) -> dict[str, Any]:
        return {**options, "bmc_address": options["bmc_address"].replace("127.10.", "127.77.")}

    def record(self, name: str) -> dict[str, str]:
        return self.management.nodes[name]

    def _joins(self, name: str, group: str) -> None:
        self.record(name)["groups"] += f",{group}"

    def hold_by_somebody(self, name: str) -> None:
        self._joins(name, "hands-off")

    def owned_by_somebody(self, name: str) -> None:
        self._joins(name, "owner-tenant7")

    def other_serial(self, name: str, serial: str) -> None:
        self.record(name)["serial"] = serial

    def other_card(self, name: str, mac: str) -> None:
        self.record(name)["mac"] = f"{mac}!{name}-eth0"

    def forget_serial(self, name: str) -> None:
        del self.record(name)["serial"]

    def strand(self, name: str) -> None:
        self.record(name)["currstate"] = "shell"

    def stumbles(self) -> tuple[dict[str, Any], str, str]:
        options = {**self.new(), "image": self.image()}
        lead(options, "ready")
        self.fails_to_deploy(options)
        return options, "deployed", "failed: it told status failed"

    def fails_to_deploy(self, options: dict[str, Any]) -> str:
        name = options["name"]
        self.management.failing.add(name)
        lead(options, "deployed")
        if not self.driver.owns_power:
            self.boot(name)

        def status() -> str:
            self.management.live()
            return self.record(name).get("status", "")

        wait_until(status, lambda seen: seen == "failed", timeout=60, interval=0.02, wanted="status failed")
        self.management.failing.discard(name)
        return "a script of its deployment failed"

    def undeployable(self) -> tuple[tuple[dict[str, Any], str], ...]:
        image = self.image("2")
        self.management.images.update(half=of_image("netboot", osarch=""), arm=of_image("netboot", osarch="aarch64"))
        return (
            ({"image": {**image, "named": "gold-9"}}, "xCAT has no image gold-9"),
            ({"image": {**image, "format": "whole-disk"}}, "is no image of the format whole-disk"),
            ({"image": {**image, "named": "lite"}}, "is no image of the format ramdisk"),
            ({"image": {**image, "named": "half"}}, "it lacks osarch"),
            ({"image": {**image, "named": "arm"}}, "another architecture than the node"),
        )

    def many(self, count: int) -> list[str]:
        names = [self.new()["name"] for _number in range(count)]
        self.management.nodes.update({name: {"groups": "all", "mgt": "ipmi"} for name in names})
        return names

    def native(self, name: str) -> str:
        self.management.live()
        node = self.record(name)
        return f"{node.get('provmethod', '')} {node.get('status', '')}"

    def power(self, name: str) -> str:
        return self.management.power.get(name, "off")

    def taken_there(self, name: str) -> bytes:
        return self.management.boot_lines[name].encode()

    def deployments(self) -> int:
        orders = [call.what.split(" ") for call in self.faults.writes if call.what.startswith("rpower ")]
        return sum(len(words[1].split(",")) for words in orders if words[2] == "boot")


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, faults: XcatFaults) -> None:
        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                count = int(_word(self.rfile) or 0)
                argv = [_word(self.rfile) for _number in range(count + 1)]
                answer = faults.answered(argv, _word(self.rfile))
                told = (str(answer.code), answer.out, answer.err)
                self.wfile.write(b"".join(one.encode() + b"\0" for one in told))

        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()


def _word(file: Any) -> str:
    found = bytearray()
    while (byte := file.read(1)) not in (b"\0", b""):
        found += byte
    return found.decode("utf-8", "replace")
