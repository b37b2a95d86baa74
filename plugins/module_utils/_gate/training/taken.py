# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gets the log of a reference training: by a run of the site's command, or from the file that a job has left. PRIVATE.

PRIVATE to the collection. Of a file nobody knows how its job ended, when, or where. So it must have been written on
this boot and not long ago, must not be open to everybody, must not be written any more, and must name this node.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import os
import re
import stat
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.training.left import nothing_left
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.training.section import RUN_ID, Training
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.redact import MASK, names_a_secret
from ansible_collections.gpufleet.baremetal.plugins.module_utils._proc import uptime
from ansible_collections.gpufleet.baremetal.plugins.module_utils._process import OUTPUT_LIMIT, Run, run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context

#: By which a command knows its run, so that it can print that.
VARIABLE = "GPUFLEET_RUN_ID"
#: The most arguments of a command, and the longest, that a verdict tells.
_ARGUMENTS, _ARGUMENT = 100, 1000
#: What trainings call their words, which is no token of a login.
_TOKENS = re.compile(r"tokeni[sz]\w*|tokens|token[-_](?:id|type|drop)", re.I)
#: A file of the future is one of a clock that was set.
_TICK = 2.0
#: The clocks of a file and of the boot are read one after the other.
_BOOT_TICK = 5.0
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class Doubt(NamedTuple):
    """Why a log is none of this run, or could not be read whole."""

    text: str
    remedy: str


@dataclass(frozen=True)
class Taken:
    """argv: the command, or the place that was read. mark: what this run prints first, empty where it prints nothing.
    run: None of a file. left: processes that could not be ended."""

    argv: tuple[str, ...]
    raw: bytes
    mark: str
    run: Optional[Run]
    doubts: tuple[Doubt, ...] = ()
    left: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        return self.raw.decode("utf-8", "replace")

    def parts(self) -> tuple[bytes, ...]:
        """What the evidence digest is made of."""
        own = self.run.parts() if self.run is not None else ("\0".join(self.argv).encode(), self.raw)
        return (*own, "\n".join(doubt.text for doubt in self.doubts).encode())

    def as_evidence(self) -> dict[str, Any]:
        return self.run.as_evidence() if self.run is not None else {"log": self.argv[0], "text": self.text}


def asked_of(params: Mapping[str, Any]) -> tuple[list[str], str]:
    """The command, or the file.

    :raises ConfigError: where it is not just one of the two, or a command that no verdict can tell.
    """
    command, log = [str(word) for word in params.get("command") or []], str(params.get("log") or "")
    if bool(command) == bool(log):
        raise ConfigError("a training is run or read", wanted="command or log", seen="both" if log else "neither")
    if len(command) > _ARGUMENTS or any(len(word) > _ARGUMENT for word in command):
        raise ConfigError(
            "a command that is too long to be told",
            wanted=f"at most {_ARGUMENTS} arguments of {_ARGUMENT} characters",
            do="put it into a script, and name that",
        )
    return command, log


def told(command: Sequence[str]) -> list[str]:
    """A command without its secrets, as verdicts have it: neither what follows an option that is called like one."""
    words = [cut(word, _ARGUMENT) for word in command]
    after = ["", *words]
    return [
        MASK if before.startswith("-") and "=" not in before and _secret(before) else _without(word)
        for before, word in zip(after, words)
    ]


def _without(word: str) -> str:
    name, given, _value = word.partition("=")
    return f"{name}={MASK}" if given and _secret(name) else word


def _secret(name: str) -> bool:
    return names_a_secret(_TOKENS.sub("", name).replace("-", "_"))


def by_run(command: Sequence[str], training: Training, ctx: Context, *, timeout: float) -> Taken:
    """Run it to its end or to the deadline. What it leaves behind is ended, in whatever session it is.

    Of a flood nothing is read: that would take long, and its end is not there.
    """
    own = uuid.uuid4().hex
    with nothing_left(ctx) as left:
        done = run(command, timeout=timeout, env={VARIABLE: own})
    raw = b"" if done.ended == "flood" else b"\n".join(filter(None, (done.stdout, done.stderr)))
    shown = Run(tuple(told(command)), done.rc, done.stdout, done.stderr, done.ended, done.seconds)
    return Taken(shown.argv, raw, training.start_mark.replace(RUN_ID, own), shown, (), tuple(left))


def by_log(path: str, training: Training, *, run_id: str, max_age: float, names: Iterable[str]) -> Taken:
    """Read it, and whatever speaks against its being this node's, of this boot and of now.

    :param names: those of this node; it must stand in the log by one of them.
    """
    mark = training.start_mark.replace(RUN_ID, run_id)
    try:
        raw, doubts = _read(path, max_age)
    except OSError as exc:
        text = f"{cut(path, 200)} cannot be read: {exc.strerror}"
        return Taken((path,), b"", mark, None, (Doubt(text, "remediate_config"),))
    if RUN_ID in training.start_mark and not run_id:
        doubts.append(Doubt("which run it is of nobody said: the option run_id is empty", "remediate_config"))
    if not _names(raw, names):
        text = f"it does not name this node ({', '.join(names)}): let the job print that name"
        doubts.append(Doubt(text, "remediate_config"))
    return Taken((path,), raw, mark, None, tuple(doubts))


def _read(path: str, max_age: float) -> tuple[bytes, list[Doubt]]:
    """:raises OSError: where it cannot be read."""
    descriptor = os.open(path, _FLAGS)
    try:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            return b"", [Doubt(f"{cut(path, 200)} is no file", "remediate_config")]
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            raw = file.read(OUTPUT_LIMIT + 1)
        after = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    return raw if len(raw) <= OUTPUT_LIMIT else b"", list(_doubts(about, after, len(raw), max_age))


def _doubts(about: os.stat_result, after: os.stat_result, size: int, max_age: float) -> Iterable[Doubt]:
    now, changed = time.time(), about.st_mtime
    if size > OUTPUT_LIMIT:
        yield Doubt(f"it is larger than {OUTPUT_LIMIT // 1024 // 1024} MiB", "remediate_config")
    if (about.st_size, about.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        yield Doubt("it is being written still", "retest")
    if about.st_mode & stat.S_IWOTH:
        yield Doubt("anybody may write it", "remediate_config")
    if changed < now - uptime() - _BOOT_TICK:
        yield Doubt("it was last written before this boot", "retest")
    if changed > now + _TICK:
        yield Doubt("it was last written in the future: was a clock set?", "remediate_config")
    elif now - changed > max_age:
        yield Doubt(f"it was last written {now - changed:.0f} s ago, and may be {max_age:.0f} s old", "retest")


def _names(raw: bytes, names: Iterable[str]) -> bool:
    """By a whole name; a name in which it stands is another node's."""
    words = [re.escape(name.encode()) for name in names if name]
    return any(re.search(rb"(?<![\w-])" + word + rb"(?![\w-])", raw, re.I) for word in words)
