# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The network before an IPMI BMC: it loses packets, brings them late, and knows what a stranger would answer."""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Callable
from typing import Optional

from contract.faults import GARBAGE, OUTAGE, REFUSAL, Call, Faults

#: Payload types of RMCP+ (IPMI 2.0, table 13-16), in the low six bits of byte 5 of a packet of the format 06h. The
#: number of an answer is that of its request and one.
OPEN_RESPONSE, RAKP1, RAKP2, RAKP4 = 0x11, 0x12, 0x13, 0x15
_STATUS = 17  # of an answer while a session begins: after the header of 16 bytes, and the message tag
_UNAUTHORISED_NAME = 0x0D
_UNKNOWN_SESSION = 0x02
NOISE = b"\x06\x00\xff\x07" + bytes(40)


def payload_type(packet: bytes) -> int:
    """Of a packet of RMCP+; -1 where it is none."""
    return packet[5] & 0x3F if len(packet) > _STATUS and packet[4] == 6 else -1


class UdpRelay(Faults):
    """Stands on a port of its own before the BMC. ``writes_done``: how many writes the BMC has carried out by now.

    ``stale``: a payload type whose first answer is kept back until its request is made once more, and then comes before
    the answer to that one. ``delay``: seconds by which each answer is late. ``lost``: payload types whose answers never
    come. ``dropped``: how many logins the BMC drops at once, at their last
    step.
    """

    unusable = (OUTAGE, GARBAGE)

    def __init__(self, target: tuple[str, int], writes_done: Callable[[], int]) -> None:
        self._target = target
        self._writes_done = writes_done
        self._front = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._front.bind(("127.0.0.1", 0))
        self._back = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._client: Optional[tuple[str, int]] = None
        self._waiting: list[tuple[float, bytes]] = []
        self._over = threading.Event()
        self.address = f"127.0.0.1:{self._front.getsockname()[1]}"
        self.forget()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    # -- the interface -----------------------------------------------------------------------------------------

    def strike(self, way: str, times: Optional[int] = None) -> None:
        """``times`` packets of the client: that is what is lost on this network."""
        self._way, self._left = way, float("inf") if times is None else times

    def lose_answer(self, nth: int = 1) -> None:
        self._lose_at = self._writes_done() + nth

    def forget(self) -> None:
        self._way, self._left, self._lose_at = "", 0.0, -1
        self._packets: list[bytes] = []
        self._begin = self._writes_done()
        self.stale = -1
        self._kept = b""
        self.delay = 0.0
        self.lost: frozenset[int] = frozenset()
        self.dropped = 0.0
        self._begun: list[float] = []

    @property
    def calls(self) -> list[Call]:
        """Packets, as what is in them is secret; the writes are those that the BMC has carried out."""
        done = [Call("a write, carried out", True)] * (self._writes_done() - self._begin)
        return [Call(f"packet {payload_type(one):#x}", False) for one in self._packets] + done

    @property
    def logins(self) -> int:
        """How many logins came as far as a user's name."""
        return sum(payload_type(one) == RAKP1 for one in self._packets)

    @property
    def gaps(self) -> list[float]:
        """Seconds between two logins that came as far as a user's name."""
        return [later - earlier for earlier, later in zip(self._begun, self._begun[1:])]

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        self._front.close()
        self._back.close()

    # -- the wire ----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._over.is_set():
            for ready in select.select([self._front, self._back], [], [], 0.02)[0]:
                packet, peer = ready.recvfrom(4096)
                if ready is self._front:
                    self._client = peer
                    self._out(packet)
                else:
                    self._home(packet)
            due = [one for one in self._waiting if one[0] <= time.monotonic()]
            self._waiting = [one for one in self._waiting if one not in due]
            for _at, packet in due:
                self._answer(packet)

    def _out(self, packet: bytes) -> None:
        self._packets.append(packet)
        if payload_type(packet) == RAKP1:
            self._begun.append(time.monotonic())
        if self._way in (OUTAGE, GARBAGE) and self._left > 0:
            self._left -= 1
            if self._way == GARBAGE:
                self._answer(NOISE)
            return
        self._back.sendto(packet, self._target)
        if self._kept and payload_type(packet) == self.stale - 1:
            self._answer(self._kept)
            self._kept, self.stale = b"", -1

    def _home(self, packet: bytes) -> None:
        kind = payload_type(packet)
        if 0 <= self._lose_at <= self._writes_done():
            self._lose_at = -1
            return
        if self._way == REFUSAL and kind == RAKP2:
            packet = packet[:_STATUS] + bytes([_UNAUTHORISED_NAME]) + packet[_STATUS + 1 :]
        if self.dropped > 0 and kind == RAKP4:
            self.dropped -= 1
            packet = packet[:_STATUS] + bytes([_UNKNOWN_SESSION]) + packet[_STATUS + 1 :]
        if kind == self.stale and not self._kept:
            self._kept = packet
        elif self.delay:
            self._waiting.append((time.monotonic() + self.delay, packet))
        elif kind not in self.lost:
            self._answer(packet)

    def _answer(self, packet: bytes) -> None:
        if self._client is not None:
            self._front.sendto(packet, self._client)
