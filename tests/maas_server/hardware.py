# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rack controller does: the BMC's power and boot device, and the boot entry of a MAC. Never a machine's disk."""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import ssl
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, Optional, Protocol

from .config import Config
from .store import Machine

_TIMEOUT = 20.0
_POWER_TIMEOUT = 60.0
_POLL = 0.3


class BmcError(Exception):
    """The BMC does not answer, or does not do it."""


class Bmc(Protocol):
    def power(self) -> str: ...

    def switch(self, state: str) -> None: ...

    def boot_from_network(self) -> None: ...

    def identity(self) -> dict[str, str]: ...


def bmc_of(machine: Machine, config: Config) -> Bmc:
    if not config.bmc:
        return _Obedient(machine)
    if machine.power_type == "ipmi":
        return _Ipmi(machine.power_parameters, config.bmc)
    return _Redfish(machine.power_parameters, config.bmc)


class _Obedient:
    """Where no BMC is spoken to: what is asked for is so."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def power(self) -> str:
        return self._machine.power_state if self._machine.power_state in ("on", "off") else "off"

    def switch(self, state: str) -> None:
        self._machine.power_state = state

    def boot_from_network(self) -> None:
        return None

    def identity(self) -> dict[str, str]:
        return {}


def _login(parameters: dict[str, str], fallback: dict[str, str]) -> tuple[str, str]:
    user = parameters.get("power_user") or fallback.get("username", "")
    password = parameters.get("power_pass")
    if not password and fallback.get("password_file"):
        password = Path(fallback["password_file"]).read_text(encoding="utf-8").strip()
    return user, password or ""


_IDENTITY = {
    "system_serial": "SerialNumber",
    "system_vendor": "Manufacturer",
    "system_product": "Model",
    "uuid": "UUID",
}


class _Redfish:
    def __init__(self, parameters: dict[str, str], fallback: dict[str, str]) -> None:
        self._host = parameters.get("power_address", "")
        user, password = _login(parameters, fallback)
        self._auth = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
        self._context = ssl.create_default_context(cafile=fallback.get("ca_path") or None)
        self._path = f"/redfish/v1/Systems/{parameters['node_id']}" if parameters.get("node_id") else self._first()

    def _first(self) -> str:
        members = self._ask("GET", "/redfish/v1/Systems")["Members"]
        return str(members[0]["@odata.id"])

    def _ask(self, method: str, path: str, body: Optional[dict[str, Any]] = None) -> dict[str, Any]:
        link = http.client.HTTPSConnection(self._host, timeout=_TIMEOUT, context=self._context)
        try:
            headers = {"Authorization": self._auth, "Content-Type": "application/json"}
            link.request(method, path, json.dumps(body) if body is not None else None, headers)
            answer = link.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException) as exc:
            raise BmcError(f"{self._host}: {exc}") from exc
        finally:
            link.close()
        if answer.status >= 300:
            raise BmcError(f"{self._host}: HTTP {answer.status} to {method} {path}")
        return dict(json.loads(content)) if content else {}

    def power(self) -> str:
        return str(self._ask("GET", self._path).get("PowerState", "")).lower()

    def switch(self, state: str) -> None:
        kind = {"on": "On", "off": "ForceOff"}[state]
        self._ask("POST", f"{self._path}/Actions/ComputerSystem.Reset", {"ResetType": kind})

    def boot_from_network(self) -> None:
        boot = {"BootSourceOverrideEnabled": "Once", "BootSourceOverrideTarget": "Pxe"}
        self._ask("PATCH", self._path, {"Boot": boot})

    def identity(self) -> dict[str, str]:
        system = self._ask("GET", self._path)
        return {ours: str(system[theirs]) for ours, theirs in _IDENTITY.items() if system.get(theirs)}


class _Ipmi:
    def __init__(self, parameters: dict[str, str], fallback: dict[str, str]) -> None:
        user, self._password = _login(parameters, fallback)
        where = ["-H", parameters.get("power_address", ""), "-C", parameters.get("cipher_suite_id") or "3"]
        self._argv = ["ipmitool", "-I", "lanplus", *where, "-U", user, "-E"]

    def _run(self, *words: str) -> str:
        env = {**os.environ, "IPMI_PASSWORD": self._password}
        try:
            done = subprocess.run(
                [*self._argv, *words], capture_output=True, text=True, env=env, timeout=60, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as exc:
            raise BmcError(f"ipmitool {words[0]}: {type(exc).__name__}") from exc
        if done.returncode != 0:
            raise BmcError(f"ipmitool {' '.join(words)}: {done.stderr.strip()[-200:]}")
        return done.stdout

    def power(self) -> str:
        found = re.search(r"is (on|off)", self._run("chassis", "power", "status"), re.I)
        return found[1].lower() if found else "unknown"

    def switch(self, state: str) -> None:
        self._run("chassis", "power", state)

    def boot_from_network(self) -> None:
        self._run("chassis", "bootdev", "pxe")

    def identity(self) -> dict[str, str]:
        return {}


def power_until(bmc: Bmc, state: str) -> None:
    """Switch, and see it."""
    if bmc.power() != state:
        bmc.switch(state)
    pause = threading.Event()
    end = time.monotonic() + _POWER_TIMEOUT
    while bmc.power() != state:
        if time.monotonic() > end:
            raise BmcError(f"the power is not {state} after {_POWER_TIMEOUT:g} s")
        pause.wait(_POLL)


# -- boot entries ------------------------------------------------------------------------------------------------

_DEPLOY = """#!ipxe
goto boot_ramdisk

:boot_ramdisk
imgfree
kernel {kernel} root=/dev/ram0 text {metadata}BOOTIF=01-{mac} initrd=ramdisk || goto boot_ramdisk
initrd {image} || goto boot_ramdisk
boot
"""
_LOCAL = """#!ipxe
sanboot --no-describe || exit 0
"""


def write_entry(config: Config, mac: str, image: Optional[dict[str, Any]], user_data: str = "") -> None:
    """What the machine's next network boot finds: an image, or its own disk; and what cloud-init finds there then."""
    if config.boot_root is None:
        return
    name = mac.lower().replace(":", "-")
    folder = config.boot_root / "pxelinux.cfg"
    folder.mkdir(parents=True, exist_ok=True)
    text = _LOCAL
    if image is not None:
        kernel = image.get("kernel_url") or f"{config.boot_url}/images/vmlinuz"
        metadata = f"cloud-config-url={config.boot_url}/pxelinux.cfg/{name}.user-data " if user_data else ""
        text = _DEPLOY.format(kernel=kernel, image=image["url"], mac=name, metadata=metadata)
    # Not checked before, as in MAAS; cloud-init would make nothing of it.
    (folder / f"{name}.user-data").write_bytes(base64.b64decode(user_data))
    draft = folder / f".{name}.new"
    draft.write_text(text, encoding="ascii")
    # Another provisioner may have left a link here; what it points to is not ours to write into.
    os.replace(draft, folder / name)
