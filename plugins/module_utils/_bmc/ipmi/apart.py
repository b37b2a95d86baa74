# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The dialogue with each BMC in a process of its own, for threads that serve many machines. PRIVATE to the collection.

pyghmi keeps one event loop for all sessions of a process, turned by whoever waits: threads would take each other's
answers. So what is said to a BMC is said by a process that serves this one alone, and nothing else is done there: what
a verb decides, asks leave for and records stays with the thread that runs it.

A process is forked from one without threads, for a copy that is made while another thread holds a lock never gets it.
So one is forked before there are any, and forks the others. All of them end with whoever began them: they hear the end
of the line between them, or see that their parent is another one. Logins go over that line, and are nowhere else.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.contract import LostAnswer, NotNow
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.ipmi import link as links
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.ipmi.link import IpmiLink
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    AuthFailed,
    BadAnswer,
    ConfigError,
    DeadlineExceeded,
    FleetError,
    Refused,
    Unreachable,
    Unsupported,
    unexpected,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._together import Peers
from ansible_collections.gpufleet.baremetal.plugins.module_utils._wait import wait_until

#: How much longer than a login and a command may take together a process is given for its answer.
_SPARE_SECONDS = 20.0
#: So often a thread looks whether its run is still there while it waits, and the first process whether others ended.
_LOOK_SECONDS = 0.25
#: So long a process has for its logout.
_LEAVE_SECONDS = 5.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_FIELDS = ("what", "node", "address", "wanted", "seen", "do", "details")
#: What a link raises, by its name.
_KINDS: Mapping[str, type[FleetError]] = {
    kind.__name__: kind
    for kind in (AuthFailed, BadAnswer, ConfigError, DeadlineExceeded, LostAnswer, NotNow, Refused, Unreachable)
    + (Unsupported,)
}


class _Over(BaseException):
    """Whoever asked is gone. No error of a dialogue: nothing that handles those goes on after it."""


class Speakers:
    """Begins processes, each of which speaks to one BMC. Make it where there is one thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._line, theirs = socket.socketpair()
        asker = os.getpid()
        self._first = os.fork()
        if self._first:
            theirs.close()
            return
        try:
            _begin_anew(theirs)
            _fork_when_asked(theirs, asker)
        finally:
            os._exit(0)

    def begin(self) -> socket.socket:
        """The line to another process; it ends with it. :raises OSError: where there is none to be had."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                with self._lock:
                    socket.send_fds(self._line, [b"+"], [theirs.fileno()])
            except OSError:
                ours.close()
                raise
        return ours

    def end(self) -> None:
        self._line.close()
        os.waitpid(self._first, 0)


@contextmanager
def speakers(peers: Peers) -> Iterator[None]:
    """For all that go on beside each other in this process, none of which has begun yet."""
    made = Speakers()
    try:
        peers.one(Speakers, lambda: made)
        yield
    finally:
        made.end()


def link_for(peers: Peers | None) -> Callable[..., IpmiLink]:
    """The kind of link for one of them; for who is alone, that of this very process."""
    found: Speakers | None = peers.one(Speakers, lambda: None) if peers is not None else None
    if found is None:
        return IpmiLink
    begin = found.begin

    def made(*login: str, **more: Any) -> IpmiLink:
        return LinkApart(*login, begin=begin, **more)

    return made


class LinkApart(IpmiLink):
    """The same session, in another process."""

    def __init__(
        self, address: str, username: str, password: str, *, begin: Callable[[], socket.socket], **more: Any
    ) -> None:
        super().__init__(address, username, password, **more)
        names = ("deadline", "privilege", "kg")
        login = {"address": address, "username": username, "password": password}
        self._told = {**login, **{name: more[name] for name in names if name in more}}
        self._begin = begin
        self._line: socket.socket | None = None
        self._heard = b""

    def command(
        self, netfn: int, command: int, data: Sequence[int] = (), *, once: bool = False, what: str = ""
    ) -> bytes:
        asked = {"netfn": netfn, "command": command, "data": list(data), "once": once, "what": what}
        try:
            answer = self._asked(asked)
        except FleetError:
            self.close()
            raise
        except (OSError, ValueError) as exc:
            self.close()
            raise self._ended(what, f"{type(exc).__name__}: {exc}", once) from exc
        if "data" in answer:
            return bytes.fromhex(answer["data"])
        raise _error_of(answer["error"])

    def _asked(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        if self._line is None:
            self._line, self._heard = self._begin(), b""
            _tell(self._line, self._told)
        line = self._line
        _tell(line, asked)
        line.settimeout(_LOOK_SECONDS)

        def read() -> bytes:
            try:
                came = line.recv(65536)
            except socket.timeout:
                return b""
            if not came:
                raise ConnectionError("it ended without an answer")
            self._heard += came
            return self._heard

        limit = 2 * links.PATIENCE + _SPARE_SECONDS
        try:
            told = self._wait(
                read, lambda seen: seen.endswith(b"\n"), timeout=limit, interval=0.0, wanted="an answer", seen=len
            )
        except DeadlineExceeded as exc:
            raise TimeoutError(f"no answer within {limit:g} s") from exc
        self._heard = b""
        answer: dict[str, Any] = json.loads(told)
        return answer

    def _ended(self, what: str, seen: str, once: bool) -> FleetError:
        kind = LostAnswer if once else Unreachable
        failed = kind(
            f"the process that was to send {what or 'a command'} to this BMC did not come to its end",
            address=self.shown,
            seen=seen,
            do="run again; if it stays so, look whether this machine has memory and processes left",
        )
        failed.of_peer = False
        return failed

    def close(self) -> None:
        """The other process logs out, and ends."""
        line, self._line = self._line, None
        if line is None:
            return
        with line, suppress(OSError):
            line.shutdown(socket.SHUT_WR)
            line.settimeout(_LEAVE_SECONDS)
            while line.recv(65536):  # an answer that was not waited for
                pass


def _begin_anew(line: socket.socket) -> None:
    """As if this process had nothing of the one that it is a copy of: what that one holds ends when it lets go."""
    gc.disable()
    gc.freeze()  # what is collected closes files by their numbers, which are others' here
    for number in _SIGNALS:  # who asked hears them, and ends the lines
        signal.signal(number, signal.SIG_IGN)
    for name in os.listdir("/dev/fd"):
        if int(name) > 2 and int(name) != line.fileno():
            with suppress(OSError):
                os.close(int(name))


def _fork_when_asked(line: socket.socket, asker: int) -> None:
    children: set[int] = set()
    line.settimeout(_LOOK_SECONDS)

    def left() -> bool:
        children.difference_update([child for child in children if os.waitpid(child, os.WNOHANG)[0]])
        return bool(children)

    while os.getppid() == asker:
        try:
            asked, given, _flags, _address = socket.recv_fds(line, 1, 1)
        except socket.timeout:
            left()
            continue
        if not asked:
            break
        children.update(_forked(line, one) for one in given)
        children.discard(0)
    # They have heard the end of their lines, and log out.
    with suppress(DeadlineExceeded):
        wait_until(lambda: not left(), bool, timeout=_LEAVE_SECONDS, interval=0.02, wanted="all ended")
    for child in children:
        os.kill(child, signal.SIGKILL)  # not waited for yet: the number is its own


def _forked(control: socket.socket, given: int) -> int:
    """The process that speaks over this line. Where there is no room for one it is 0, and the line's end tells that to
    whoever asked, which is no matter of the others."""
    parent = os.getpid()
    try:
        child = os.fork()
    except OSError:
        os.close(given)
        return 0
    if child:
        os.close(given)
        return child
    try:
        control.close()
        with suppress(_Over):
            _speak(socket.socket(fileno=given), parent)
    finally:
        os._exit(0)


def _speak(line: socket.socket, parent: int) -> None:
    """Say what is told, one command after the other, until whoever tells it is gone."""

    def beat() -> None:
        if os.getppid() != parent or _is_over(line):
            raise _Over

    def wait(*what: Any, **how: Any) -> Any:
        return wait_until(*what, beat=beat, **how)

    told = (json.loads(one) for one in line.makefile("rb"))
    link: IpmiLink | None = None
    try:
        for asked in told:
            if link is None:
                link = IpmiLink(**asked, wait=wait)
                continue
            beat()
            _tell(line, _answer(link, asked))
    finally:
        if link is not None:
            link.close()


def _answer(link: IpmiLink, asked: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return {"data": link.command(**asked).hex()}
    except FleetError as exc:
        return {"error": _told_of(exc)}
    except Exception as exc:  # a library's surprise is one host's
        return {"error": _told_of(unexpected(exc))}


def _is_over(line: socket.socket) -> bool:
    try:
        return not line.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True


def _told_of(exc: FleetError) -> dict[str, Any]:
    return {"kind": type(exc).__name__, **{name: getattr(exc, name) for name in _FIELDS}}


def _error_of(told: Mapping[str, Any]) -> FleetError:
    return _KINDS.get(str(told["kind"]), BadAnswer)(**{name: told[name] for name in _FIELDS})


def _tell(line: socket.socket, what: Mapping[str, Any]) -> None:
    line.sendall(json.dumps(what, default=str).encode() + b"\n")
