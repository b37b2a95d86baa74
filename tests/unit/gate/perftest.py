# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An ib_write_bw without RDMA, called as the real one is: one side waits, the other one finds it, both print figures.

``PERFTEST`` names a JSON file: ``sysfs``, and by device what it reaches in Gb/s (``rate``), and the part of what it
tells that its counter shows (``wire``), or that it shows none (``untold``); of how many seconds it tells (``counted``)
and in which unit (``unit``); with what it ends as either side (``serves``, ``writes``). How long a test lasts is told,
and not waited for. Where the file has ``name``, the side that waits tells it and its rate, and the other one reaches
no more than that, nor than ``to`` has for that name; ``bind`` is the address that it waits at.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
from pathlib import Path

TABLE = """\
---------------------------------------------------------------------------------------
                    RDMA_Write BW Test
 Dual-port       : OFF\t\tDevice         : {device}
 Link type       : IB
---------------------------------------------------------------------------------------
 local address: LID 0xd06 QPN 0x095f PSN 0x3c9e82 RKey 0x080359 VAddr 0x007f9fc479c000
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[{unit}]    BW average[{unit}]   MsgRate[Mpps]
 {size}    {iterations}            0.00               {rate:.2f}\t\t     0.003007
---------------------------------------------------------------------------------------
"""


def main() -> int:
    parser = argparse.ArgumentParser()
    for option in ("-d", "-i"):
        parser.add_argument(option)
    for option in ("-p", "-s", "-D", "-q"):
        parser.add_argument(option, type=int)
    for option in ("--report_gbits", "-F"):
        parser.add_argument(option, action="store_true", required=True)
    parser.add_argument("server", nargs="?")
    told = parser.parse_args()
    known = json.loads(Path(os.environ["PERFTEST"]).read_text(encoding="utf-8"))
    if told.d not in known["devices"]:
        print(f" Unable to find the Infiniband/RoCE device {told.d}", file=sys.stderr)
        return 1
    if told.server is None:
        print("\n" + "*" * 36 + "\n* Waiting for client to connect... *\n" + "*" * 36)
        with socket.create_server((known.get("bind", ""), told.p)) as listening:
            talk = listening.accept()[0]
            if "name" in known:
                talk.sendall(json.dumps({"name": known["name"], "rate": known["devices"][told.d]["rate"]}).encode())
            talk.close()
    else:
        try:
            with socket.create_connection((told.server, told.p), timeout=5) as talk:
                heard = talk.recv(4096)
        except OSError:
            print(f" Couldn't connect to {told.server}:{told.p}", file=sys.stderr)
            return 1
    device = known["devices"][told.d]
    if told.server is not None and heard:
        other = json.loads(heard)
        reached = min(device["rate"], other["rate"], device.get("to", {}).get(other["name"], device["rate"]))
        device = {**device, "rate": reached}
    seconds = device.get("counted", told.D - 2 * told.D / 4)  # its margins are a quarter each
    iterations = int(device["rate"] * 1e9 / 8 * seconds / told.s)
    name = "port_rcv_data" if told.server is None else "port_xmit_data"
    counter = Path(known["sysfs"], "class/infiniband", told.d, "ports", told.i, "counters", name)
    if counter.exists():
        before = int(counter.read_text(encoding="utf-8"))
        after = before + int(iterations * told.s / 4 * device.get("wire", 2))
        counter.write_text("N/A\n" if device.get("untold") else f"{after}\n", encoding="utf-8")
    unit = device.get("unit", "Gb/sec")
    print(TABLE.format(device=told.d, size=told.s, iterations=iterations, rate=device["rate"], unit=unit))
    return int(device.get("serves" if told.server is None else "writes", 0))


if __name__ == "__main__":
    sys.exit(main())
