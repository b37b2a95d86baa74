# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Many BMCs in one light process: ``bmcs.py COUNT PORT CERT KEY``.

Each has an address of its own, 127.1.0.1 onwards, TLS, a login, a machine with power and a one-time boot override
that its power-on consumes. On SIGTERM it prints, as JSON, what became of each machine. Its CPU is nobody's score.
"""

from __future__ import annotations

import asyncio
import base64
import json
import signal
import ssl
import sys
from typing import Any

LOGIN = "Basic " + base64.b64encode(b"admin:correct-horse").decode()
SYSTEM = "/redfish/v1/Systems/1"
RESET = f"{SYSTEM}/Actions/ComputerSystem.Reset"
_B = "BootSourceOverride"


class Machine:
    def __init__(self, serial: str) -> None:
        self.serial = serial
        self.power = "Off"
        self.boot = {f"{_B}Enabled": "Disabled", f"{_B}Target": "None", f"{_B}Mode": "UEFI"}
        self.booted: list[str] = []
        self.writes = 0
        self.requests = 0

    def documents(self) -> dict[str, Any]:
        """Every resource that there is, by its URI."""
        root = {
            "@odata.id": "/redfish/v1/", "Id": "RootService", "Name": "Root Service", "RedfishVersion": "1.15.0",
            "Systems": {"@odata.id": "/redfish/v1/Systems"}, "Managers": {"@odata.id": "/redfish/v1/Managers"},
            "SessionService": {"@odata.id": "/redfish/v1/SessionService"}, "Links": {},
        }  # fmt: skip
        system = {
            "@odata.id": SYSTEM, "@odata.type": "#ComputerSystem.v1_20_0.ComputerSystem", "Id": "1", "Name": "System",
            "SystemType": "Physical", "Manufacturer": "Example", "Model": "GPU8", "SerialNumber": self.serial,
            "PowerState": self.power, "Status": {"State": "Enabled", "Health": "OK"},
            "Boot": {**self.boot, f"{_B}Target@Redfish.AllowableValues": ["None", "Pxe", "Hdd", "UefiHttp"],
                     f"{_B}Enabled@Redfish.AllowableValues": ["Disabled", "Once", "Continuous"],
                     f"{_B}Mode@Redfish.AllowableValues": ["UEFI", "Legacy"]},
            "Actions": {"#ComputerSystem.Reset": {"target": RESET, "ResetType@Redfish.AllowableValues": [
                "On", "ForceOff", "GracefulShutdown", "GracefulRestart", "ForceRestart"]}},
            "Links": {"ManagedBy": [{"@odata.id": "/redfish/v1/Managers/1"}]},
        }  # fmt: skip
        return {
            "/redfish/v1": root,
            "/redfish/v1/Systems": {"Members": [{"@odata.id": SYSTEM}], "Members@odata.count": 1},
            SYSTEM: system,
            "/redfish/v1/Managers": {"Members": [{"@odata.id": "/redfish/v1/Managers/1"}]},
            "/redfish/v1/Managers/1": {"@odata.id": "/redfish/v1/Managers/1", "Id": "1", "FirmwareVersion": "1.0"},
        }

    def answer(self, method: str, path: str, login: str, body: bytes) -> tuple[int, Any]:
        self.requests += 1
        path = path.rstrip("/")
        if login != LOGIN and (path != "/redfish/v1" or login):
            return 401, {"error": {"code": "Base.1.8.NoValidSession", "message": "log in"}}
        if method == "GET":
            found = self.documents().get(path)
            return (
                (200, found) if found else (404, {"error": {"code": "Base.1.8.ResourceMissingAtURI", "message": path}})
            )
        self.writes += 1
        asked = json.loads(body)
        if method == "PATCH" and path == SYSTEM:
            self.boot.update(asked["Boot"])
        elif method == "POST" and path == RESET:
            self._reset(asked["ResetType"])
        else:
            return 405, None
        return 204, None

    def _reset(self, kind: str) -> None:
        if kind != "On" or self.power == "On":
            self.power = "Off" if "Off" in kind else "On"
            return
        self.power = "On"
        once = self.boot[f"{_B}Enabled"] == "Once"
        self.booted.append(self.boot[f"{_B}Target"] if once else "disk")
        if once:
            self.boot[f"{_B}Enabled"] = "Disabled"


async def serve(machine: Machine, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One connection, as many requests as the client likes."""
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            method, path, _version = head[0].split(" ", 2)
            fields = {key.lower(): value.strip() for key, _colon, value in (line.partition(":") for line in head[1:])}
            body = await reader.readexactly(int(fields.get("content-length") or 0))
            status, doc = machine.answer(method, path, fields.get("authorization", ""), body)
            data = json.dumps(doc).encode() if doc is not None else b""
            close = fields.get("connection", "").lower() == "close"
            lines = [f"HTTP/1.1 {status} -", "Content-Type: application/json", f"Content-Length: {len(data)}"]
            lines += ["Allow: GET, PATCH, POST", f"Connection: {'close' if close else 'keep-alive'}", "", ""]
            writer.write("\r\n".join(lines).encode() + data)
            await writer.drain()
            if close:
                break
    except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
        pass
    finally:
        writer.close()


async def main() -> None:
    count, port, cert, key = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    machines = {}
    for number in range(1, count + 1):
        address = f"127.1.{number // 256}.{number % 256}"
        machine = machines[address] = Machine(f"SN{number:05d}")

        async def client(r: asyncio.StreamReader, w: asyncio.StreamWriter, machine: Machine = machine) -> None:
            await serve(machine, r, w)

        await asyncio.start_server(client, address, port, ssl=context)
    over = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
    print("ready", flush=True)
    await over.wait()
    truth = {
        address: {"power": m.power, "booted": m.booted, "writes": m.writes, "requests": m.requests}
        for address, m in machines.items()
    }
    print(json.dumps(truth), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
