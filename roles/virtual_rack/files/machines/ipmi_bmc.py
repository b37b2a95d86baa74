# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The IPMI BMC: OpenIPMI's ipmi_sim, with its configuration and its FRU."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

from rackconf import NODE_PYTHON, Node, Rack, board_of, told_serial
from rootfs import dmi

IPMI_SIM = "/usr/bin/ipmi_sim"
_LAN = """name "{name}"
set_working_mc 0x20
  startlan 1
    addr {address} {port}
    priv_limit admin
    allowed_auths_callback none md2 md5 straight
    allowed_auths_user none md2 md5 straight
    allowed_auths_operator none md2 md5 straight
    allowed_auths_admin none md2 md5 straight
    guid {guid}
  endlan
  chassis_control "{control}"
  user 1 true "" "" user 10 none md2 md5 straight
  user 2 true "{username}" "{password}" admin 10 none md2 md5 straight
"""
_EMULATOR = """mc_setbmc 0x20
mc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 persist_sdr
sel_enable 0x20 1000 0x0a
mc_add_fru_data 0x20 0 {size} data {data}
mc_enable 0x20
"""
MAX_PASSWORD = 20  # IPMI 2.0, section 22.30
_END_OF_FIELDS = b"\xc1"


def command(node: Node) -> list[str]:
    """Return the command line."""
    folder = node.home / "ipmi"
    return [IPMI_SIM, "-c", str(folder / "lan.conf"), "-f", str(folder / "node.emu"), "-s", str(folder / "state"), "-n"]


def write_configuration(rack: Rack, node: Node) -> None:
    """Write ipmi_sim's files; the one with the password is for root alone."""
    folder = node.home / "ipmi"
    (folder / "state").mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    here = Path(__file__).parent
    control = f"/bin/sh {here / 'ipmi_chassis.sh'} {node.home / 'power'} {node.fault_file}"
    control += f" {NODE_PYTHON} -E -s -S {here / 'ipmi_chassis.py'} {rack.config} {node.name}"
    password = Path(rack.paths["bmc_password_file"]).read_text(encoding="utf-8").strip()
    if len(password.encode()) > MAX_PASSWORD:
        raise ValueError(f"the BMC password is longer than IPMI's {MAX_PASSWORD} bytes")
    text = _LAN.format(
        name=node.name,
        address=node.bmc.address,
        port=node.bmc.port,
        control=control,
        guid=uuid.UUID(board_of(node)[1]).bytes_le.hex(),
        username=rack.bmc_username,
        password=password,
    )
    _private(folder / "lan.conf", text)
    fru = fru_data(node)
    data = " ".join(f"0x{byte:02x}" for byte in fru)
    _private(folder / "node.emu", _EMULATOR.format(size=len(fru), data=data))


def _private(path: Path, text: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)


def fru_data(node: Node) -> bytes:
    """Return the node's FRU: chassis, board and product areas with its serial (IPMI FRU 1.0)."""
    told, serial = dmi(node), told_serial(node)
    chassis = _area(bytes([1, 0, 0x17]), ["GFR-CH", serial])
    board = _area(bytes([1, 0, 25, 0, 0, 0]), [told["board_vendor"], told["board_name"], f"{serial}-B", "GFR-PN", ""])
    product = _area(
        bytes([1, 0, 25]), [told["sys_vendor"], told["product_name"], node.sku, "1.0", serial, node.name, ""]
    )
    starts = [1, 1 + len(chassis) // 8, 1 + (len(chassis) + len(board)) // 8]
    header = bytes([1, 0, *starts, 0, 0])
    return header + _checksum(header) + chassis + board + product


def _area(head: bytes, fields: list[str]) -> bytes:
    body = head + b"".join(bytes([0xC0 | len(text)]) + text.encode() for text in fields) + _END_OF_FIELDS
    length = -(-(len(body) + 1) // 8)
    padded = bytearray(body.ljust(length * 8 - 1, b"\0"))
    padded[1] = length
    return bytes(padded) + _checksum(bytes(padded))


def _checksum(data: bytes) -> bytes:
    return bytes([-sum(data) & 0xFF])
