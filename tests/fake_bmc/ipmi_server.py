# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenIPMI's ipmi_sim as a BMC: the real protocol, with a machine behind it that is a folder of small files."""

from __future__ import annotations

import functools
import os
import shutil
import socket
import subprocess
import time
import uuid
from pathlib import Path
from typing import Optional

from suite import commands

from . import chassis_control

USER, PASSWORD = "admin", "correct-horse"
#: What Get System GUID sends, least significant byte first, and the UUID that it is.
GUID = "a123456789abcdefa123456789abcdef"
UUID = str(uuid.UUID(bytes=bytes.fromhex(GUID)[::-1]))
PROGRAM = shutil.which("ipmi_sim")
_LAN = """name "test"
set_working_mc 0x20
  startlan 1
    addr {address} {port}
    priv_limit admin
    allowed_auths_callback none md2 md5 straight
    allowed_auths_user none md2 md5 straight
    allowed_auths_operator none md2 md5 straight
    allowed_auths_admin none md2 md5 straight
    guid {guid}
{key}  endlan
  chassis_control "{control}"
  user 1 true "" "" user 10 none md2 md5 straight
  user 2 true "{user}" "{password}" {level} 10 none md2 md5 straight
"""
_EMULATOR = """mc_setbmc 0x20
mc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f {ids} persist_sdr
sel_enable 0x20 1000 0x0a
mc_add_fru_data 0x20 0 {size} data {data}
mc_enable 0x20
"""
#: Get Channel Authentication Capabilities, outside any session (IPMI 2.0, 13.6 and 22.13).
_WHO_IS_THERE = bytes.fromhex("0600ff07 00 00000000 00000000 09 2018c8 8100388e04b5")


def _area(head: bytes, *fields: str) -> bytes:
    body = head + b"".join(bytes([0xC0 | len(text)]) + text.encode() for text in fields) + b"\xc1"
    length = -(-(len(body) + 1) // 8)
    padded = bytearray(body.ljust(length * 8 - 1, b"\0"))
    padded[1] = length
    return bytes(padded) + bytes([-sum(padded) & 0xFF])


def fru(serial: str = "SN0001", board: str = "", chassis: str = "") -> bytes:
    """The areas behind each other, as their offsets in the header say; without a serial there is no area."""
    areas = (
        _area(bytes([1, 0, 23]), "CH-1", chassis) if chassis else b"",
        _area(bytes([1, 0, 25, 0, 0, 0]), "Example", "Board", board, "PN-2") if board else b"",
        _area(bytes([1, 0, 25]), "Example", "GPU8", "PN-1", "v1", serial, "tag") if serial else b"",
    )
    offsets, at = [], 8
    for area in areas:
        offsets.append(at // 8 if area else 0)
        at += len(area)
    header = bytes([1, 0, *offsets, 0, 0])
    return header + bytes([-sum(header) & 0xFF]) + b"".join(areas)


def free_udp_port(address: str) -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


class IpmiSim:
    """Context manager; ``folder/power`` is 0 or 1, ``folder/boot`` the override, ``folder/calls`` what was set."""

    def __init__(
        self,
        folder: Path,
        *,
        address: str = "127.0.0.1",
        ids: str = "0x1291 0xf02",
        lag: float = 0.0,
        key: str = "",
        level: str = "admin",
        guid: str = GUID,
        **serials: str,
    ) -> None:
        self.folder = folder
        self.address, self.port = address, free_udp_port(address)
        self.lag = lag
        (folder / "state").mkdir(parents=True)
        self.set_power("0")
        control = folder / "control"
        commands.install(control, functools.partial(chassis_control.answer, folder))
        lan = _LAN.format(
            address=address, port=self.port, control=control, user=USER, password=PASSWORD, level=level, guid=guid,
            key=f'    bmc_key "{key}"\n' if key else "",
        )  # fmt: skip
        (folder / "lan.conf").write_text(lan)
        data = fru(**serials)
        emulator = _EMULATOR.format(ids=ids, size=len(data), data=" ".join(f"0x{byte:02x}" for byte in data))
        (folder / "node.emu").write_text(emulator)
        self._process: Optional[subprocess.Popen[bytes]] = None

    def __enter__(self) -> IpmiSim:
        assert PROGRAM
        (self.folder / "lag").write_text(str(self.lag))
        files = [
            "-c",
            str(self.folder / "lan.conf"),
            "-f",
            str(self.folder / "node.emu"),
            "-s",
            str(self.folder / "state"),
        ]
        with open(self.folder / "log", "wb") as log:
            self._process = subprocess.Popen(
                [PROGRAM, *files, "-n"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={"PATH": os.environ["PATH"]},
            )
        self._wait()
        return self

    def _wait(self) -> None:
        """Until it answers. Nobody tries its port out by taking it: the simulator may come by in that very moment,
        find the port taken, and stay silent for ever."""
        end = time.monotonic() + 30
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.settimeout(0.1)
            while time.monotonic() < end:
                probe.sendto(_WHO_IS_THERE, (self.address, self.port))
                try:
                    probe.recvfrom(256)
                except OSError:  # nothing yet; and on some systems a refusal, as nobody listens
                    continue
                return
        raise TimeoutError((self.folder / "log").read_text())

    def __exit__(self, *exc: object) -> None:
        assert self._process
        self._process.kill()
        self._process.wait()

    def set_power(self, value: str) -> None:
        (self.folder / "power").write_text(value)

    def power(self) -> str:
        return {"1": "On", "0": "Off"}[(self.folder / "power").read_text().strip()]

    def calls(self) -> list[str]:
        path = self.folder / "calls"
        return path.read_text().splitlines() if path.exists() else []

    def probe(self) -> Optional[dict[str, str]]:
        boots = [line for line in self.calls() if line.startswith("boot:")]
        if self.power() == "Off" or not boots:
            return None
        network = boots[-1].endswith("pxe")
        uptime = time.time() - (self.folder / "power").stat().st_mtime
        line = "quiet BOOTIF=01-52-54-00-00-00-01" if network else "quiet"
        return {"boot_id": f"boot-{len(boots)}", "cmdline": line, "uptime": f"{uptime:.2f}"}
