# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a boot script the way the network card's iPXE does: variables, jumps, ``||`` and all.

The provisioner writes the script; which branch of it runs (deploy, ramdisk, disk) is decided by the script
alone, so a boot entry that the provisioner forgot to switch boots the wrong thing here as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

Fetch = Callable[[str], bytes]
Log = Callable[[str], None]
Pause = Callable[[float], None]

MAX_STEPS = 120  # a script that loops over a missing file would otherwise never end
MAX_FAILED_FETCHES = 3
MAX_CHAINED = 8  # scripts that lead to one another, likewise


class ScriptError(Exception):
    """The script cannot be carried out."""


@dataclass
class Boot:
    """What a script came to: an image to start, the disk, or power off."""

    action: str  # "image", "disk" or "poweroff"
    kernel_url: str = ""
    arguments: str = ""
    images: list[tuple[str, bytes]] = field(default_factory=list)


class Script:
    """One run through a script."""

    def __init__(self, text: str, mac: str, fetch: Fetch, log: Log, pause: Pause, caller: Script | None = None) -> None:
        self._lines = [line.strip() for line in text.splitlines()]
        self._labels = {line[1:].strip(): at for at, line in enumerate(self._lines) if line.startswith(":")}
        self._mac = mac
        self._variables = caller._variables if caller else _of_card(mac)
        self._depth: int = caller._depth + 1 if caller else 0
        #: The status that it left with; None while it has not, or where it booted something.
        self.left: int | None = None
        self._fetch = fetch
        self._log = log
        self._pause = pause
        self._at = 0
        self._failures = 0
        self._boot = Boot("image")
        self._end: Boot | None = None
        self._commands: dict[str, Callable[[list[str]], bool]] = {
            "goto": self._goto,
            "set": self._set,
            "inc": self._inc,
            "iseq": self._iseq,
            "isset": lambda words: bool(words and words[0]),
            "echo": self._echo,
            "sleep": self._sleep,
            "imgfree": self._imgfree,
            "kernel": self._kernel,
            "initrd": self._initrd,
            "boot": lambda words: self._finish(self._boot),
            "sanboot": lambda words: self._finish(Boot("disk")),
            "exit": self._exit,
            "chain": self._chain,
            "poweroff": lambda words: self._finish(Boot("poweroff")),
            "dhcp": lambda words: True,
            "prompt": lambda words: True,
        }

    def run(self) -> Boot:
        """Run to the end; raise ScriptError where the machine would stop with an error."""
        if not self._lines or self._lines[0] != "#!ipxe":
            raise ScriptError("not an iPXE script")
        for _step in range(MAX_STEPS):
            if self._end is not None:
                return self._end
            if self._at >= len(self._lines):
                self.left = 0
                return Boot("disk")
            line = self._lines[self._at]
            self._at += 1
            if line and not line.startswith(("#", ":")):
                self._line(line)
        raise ScriptError("the script goes round in a circle")

    def _line(self, line: str) -> None:
        parts = re.split(r"(\|\||&&)", line)
        good = self._part(parts[0])
        for joint, part in zip(parts[1::2], parts[2::2]):
            if good == (joint == "&&"):
                good = self._part(part)
        if not good:
            raise ScriptError(f"failed: {line}")

    def _part(self, part: str) -> bool:
        words = self._expand(part).split()
        return not words or self._command(words)

    def _command(self, words: list[str]) -> bool:
        command = self._commands.get(words[0])
        if command is None:
            raise ScriptError(f"command not found: {words[0]}")
        return command(words[1:])

    def _expand(self, text: str) -> str:
        return re.sub(r"\$\{([^}]*)\}", lambda match: self._variables.get(match.group(1), ""), text)

    def _finish(self, boot: Boot) -> bool:
        self._end = boot
        return True

    def _exit(self, words: list[str]) -> bool:
        """Back to the script that led here; of the first one, on to the next boot device."""
        self.left = int(words[0]) if words else 0
        return self._finish(Boot("disk"))

    def _chain(self, words: list[str]) -> bool:
        """Another script goes on. Where that one leaves, this one does, by its status."""
        url, _rest = _url(words)
        text = self._get(url).decode("utf-8", errors="replace")
        if not text.startswith("#!ipxe") or self._depth >= MAX_CHAINED:
            self._log(f"iPXE: {url}: cannot be run")
            return False
        try:
            inner = Script(text, self._mac, self._fetch, self._log, self._pause, self)
            boot = inner.run()
        except ScriptError as error:
            self._log(f"iPXE: {url}: {error}")
            return False
        return inner.left == 0 if inner.left is not None else self._finish(boot)

    def _goto(self, words: list[str]) -> bool:
        if not words or words[0] not in self._labels:
            raise ScriptError(f"no such label: {' '.join(words)}")
        self._at = self._labels[words[0]] + 1
        return True

    def _set(self, words: list[str]) -> bool:
        name = words[0].partition(":")[0]
        self._variables[name] = " ".join(words[1:])
        return True

    def _inc(self, words: list[str]) -> bool:
        self._variables[words[0]] = str(int(self._variables.get(words[0]) or 0) + 1)
        return True

    def _iseq(self, words: list[str]) -> bool:
        return len(words) == 2 and words[0] == words[1]

    def _echo(self, words: list[str]) -> bool:
        self._log("iPXE: " + " ".join(words))
        return True

    def _sleep(self, words: list[str]) -> bool:
        self._pause(float(words[0]))
        return True

    def _imgfree(self, words: list[str]) -> bool:
        self._boot = Boot("image")
        return True

    def _kernel(self, words: list[str]) -> bool:
        url, rest = _url(words)
        if not self._get(url):
            return False
        self._boot.kernel_url = url
        self._boot.arguments = " ".join(rest)
        return True

    def _initrd(self, words: list[str]) -> bool:
        url, _rest = _url(words)
        content = self._get(url)
        if not content:
            return False
        self._boot.images.append((url, content))
        return True

    def _get(self, url: str) -> bytes:
        try:
            return self._fetch(url)
        except OSError as error:
            self._log(f"iPXE: {url}: {error}")
            self._failures += 1
            if self._failures >= MAX_FAILED_FETCHES:
                raise ScriptError(f"gave up on {url}") from error
            return b""


def _of_card(mac: str) -> dict[str, str]:
    """What iPXE says of the card that it came by."""
    found = {}
    for card in ("", "net0/", "netX/"):
        found.update({f"{card}mac": mac, f"{card}mac:hexhyp": mac.replace(":", "-")})
    return found


def _url(words: list[str]) -> tuple[str, list[str]]:
    """Return the URL of a kernel or initrd command and what follows it."""
    rest = list(words)
    while rest and rest[0].startswith("--"):
        del rest[: 1 if "=" in rest[0] or rest[0] == "--autofree" else 2]
    if not rest:
        raise ScriptError("no URL given")
    return rest[0], rest[1:]
