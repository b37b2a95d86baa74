# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run in a network namespace of its own: dnsmasq on one end of a cable, and on the other one a card that boots.

exchange.py CONF    asks on stdin, a JSON line each, and answers on stdout
"""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from typing import Any, Optional

SERVER, CABLE = "10.99.0.1", ("srv0", "node0")
#: How long nothing must come until nothing comes.
SILENCE = 1.5
_COOKIE = b"\x63\x82\x53\x63"


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def discover(mac: str, arch: int, ipxe: bool) -> bytes:
    """A whole frame: Ethernet, IP, UDP and DHCP."""
    card = bytes.fromhex(mac.replace(":", ""))
    options = b"\x35\x01\x01"
    kind = f"PXEClient:Arch:{arch:05}:UNDI:003016".encode()
    options += bytes((60, len(kind))) + kind + struct.pack("!BBH", 93, 2, arch) + b"\x5e\x03\x01\x03\x10"
    options += b"\x61\x11\x00" + card + bytes(10) + b"\x37\x05\x01\x03\x06\x42\x43"
    options += b"\x4d\x04iPXE\xaf\x06\xb1\x05\x01\x80\x86\x10" if ipxe else b""
    head = struct.pack("!BBBBIHH4s4s4s4s", 1, 1, 6, 0, 0x1234, 0, 0x8000, *(bytes(4) for _n in range(4)))
    dhcp = head + card + bytes(10) + bytes(64 + 128) + _COOKIE + options + b"\xff"
    udp = struct.pack("!HHHH", 68, 67, 8 + len(dhcp), 0) + dhcp
    bare = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 1, 0, 64, 17, 0, bytes(4), b"\xff" * 4)
    total = sum(struct.unpack("!10H", bare))
    total = (total & 0xFFFF) + (total >> 16)
    packet = bare[:10] + struct.pack("!H", ~(total + (total >> 16)) & 0xFFFF) + bare[12:] + udp
    return b"\xff" * 6 + card + b"\x08\x00" + packet


def read(frame: bytes, card: bytes) -> Optional[dict[str, Any]]:
    """What a frame offers, if it is an answer to this card."""
    if frame[12:14] != b"\x08\x00" or frame[23] != 17:
        return None
    udp = frame[14 + (frame[14] & 15) * 4 :]
    dhcp = udp[8:]
    if struct.unpack("!H", udp[:2])[0] not in (67, 4011) or dhcp[:1] != b"\x02" or dhcp[28:34] != card:
        return None
    told, at = {}, 240
    while at < len(dhcp) and dhcp[at] != 255:
        if dhcp[at]:
            told[dhcp[at]] = dhcp[at + 2 : at + 2 + dhcp[at + 1]]
            at += 1 + dhcp[at + 1]
        at += 1
    file = told.get(67) or dhcp[108:236].partition(b"\0")[0]
    return {
        "address": socket.inet_ntoa(dhcp[16:20]),
        "server": socket.inet_ntoa(dhcp[20:24]),
        "file": file.rstrip(b"\0").decode("ascii", "replace"),
        "menu": told.get(43, b"").decode("latin-1"),
        "router": socket.inet_ntoa(told[3]) if 3 in told else "",
    }


def dhcp(wire: socket.socket, mac: str, arch: int, ipxe: bool, quiet: bool) -> Optional[dict[str, Any]]:
    """The offer for this card; None where none comes. Whoever expects one waits for it."""
    end = time.monotonic() + (SILENCE if quiet else 20)
    card, sent = bytes.fromhex(mac.replace(":", "")), 0.0
    wire.settimeout(0.3)
    while time.monotonic() < end:
        if time.monotonic() - sent > 1.0:
            wire.send(discover(mac, arch, ipxe))
            sent = time.monotonic()
        try:
            offer = read(wire.recv(4096), card)
        except TimeoutError:
            continue
        if offer is not None:
            return offer
    return None


def tftp(name: str) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        asked.settimeout(10)
        asked.sendto(b"\0\1" + name.encode() + b"\0octet\0", (SERVER, 69))
        data, peer = asked.recvfrom(2048)
        asked.sendto(b"\0\4" + data[2:4], peer)
        return data[4:].decode("ascii", "replace") if data[:2] == b"\0\3" else f"error {data[4:]!r}"


def read_again(server: subprocess.Popen[bytes], log: str, unchanged: str) -> None:
    """It takes a while until it has seen the signal: until then it answers by what it knew.

    :param unchanged: a node whose file nobody touched, so that nothing but a reload reads it.
    """
    with open(log, encoding="utf-8", errors="replace") as told:
        told.seek(0, os.SEEK_END)
        server.send_signal(signal.SIGHUP)
        end, said = time.monotonic() + 20, ""
        while f"/{unchanged}\n" not in said:
            said += told.read()  # a line may be written in two parts
            if time.monotonic() > end:
                raise TimeoutError(f"no word of a reload in {log}")
            time.sleep(0.05)


def main() -> None:
    ip("link", "set", "lo", "up")
    ip("link", "add", CABLE[0], "type", "veth", "peer", "name", CABLE[1])
    ip("addr", "add", f"{SERVER}/24", "dev", CABLE[0])
    for end in CABLE:
        ip("link", "set", end, "up")
    log = os.path.join(os.path.dirname(sys.argv[1]), "dnsmasq.log")
    own = [f"--conf-file={sys.argv[1]}", f"--log-facility={log}", "--user=root", "--pid-file="]
    server = subprocess.Popen(["dnsmasq", "--keep-in-foreground", *own])
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as wire:
        wire.bind((CABLE[1], 0))
        for line in sys.stdin:
            asked = json.loads(line)
            if "reload" in asked:
                answer: Any = read_again(server, log, asked["reload"])
            else:
                answer = tftp(asked["tftp"]) if "tftp" in asked else dhcp(wire, **asked)
            print(json.dumps(answer), flush=True)
    server.terminate()
    server.wait(timeout=10)


if __name__ == "__main__":
    main()
