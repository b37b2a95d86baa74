# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One node's Redfish BMC: sushy-tools' emulator with its fake driver made to drive a machine.

Power and boot override are real state here: power is the chassis program's, the override is a file that the
machine's firmware reads and, when it is for one boot, uses up. What stock sushy-tools leaves out (serial, maker,
memory, processors, drives, ``BootSourceOverrideEnabled``) is answered, so that a provisioner's own inspection
passes. Every write is noted in ``bmc_writes.jsonl``, every refused login in ``bmc_refused.jsonl``.
"""

from __future__ import annotations

import argparse
import base64
import datetime
import io
import json
import os
import ssl
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import bcrypt
import bmc_inventory
import bmc_memory
import chassis
import flask
from rackconf import Node, Rack, append_json, faults_of, load
from sushy_tools import error
from sushy_tools.emulator import main as emulator
from sushy_tools.emulator.resources.systems import fakedriver

WRITES = ("POST", "PATCH", "PUT", "DELETE")
TARGETS = ("None", "Pxe", "Cd", "Hdd", "UefiHttp")
ENABLED = ("Disabled", "Once", "Continuous")
MODES = ("UEFI", "Legacy")
PUBLIC = ("/redfish", "/redfish/v1")  # what a BMC tells without a login
_BCRYPT_ROUNDS = 4  # checked at each request; this guards a test rack on a loopback address
POWERING_ON = ("On", "ForceOn", "ForceRestart", "GracefulRestart", "PowerCycle")


class BadValue(error.FishyError):
    """A value that the schema does not know."""

    def __init__(self, message: str) -> None:
        super().__init__(message, 400)


class Conflict(error.FishyError):
    """Not in this power state."""

    def __init__(self, message: str) -> None:
        super().__init__(message, 409)


class Machine(fakedriver.FakeDriver):  # type: ignore[misc]
    """The fake driver, driving a chassis."""

    rack: Rack
    node: Node

    def __init__(self) -> None:
        super().__init__()
        self._actions: dict[str, Callable[[Rack, Node], None]] = {
            "On": chassis.power_on,
            "ForceOn": chassis.power_on,
            "ForceOff": chassis.power_off,
            "ForceRestart": chassis.reset,
            "PowerCycle": chassis.reset,
            "GracefulShutdown": chassis.shutdown,
            "GracefulRestart": chassis.graceful_restart,
            "Nmi": lambda rack, node: None,
        }

    def get_power_state(self, identity: str) -> str:
        """Tell the chassis' own state."""
        self._get(identity)
        return bmc_memory.power(self.node).capitalize()

    def set_power_state(self, identity: str, state: str) -> None:
        """Accept the change; it happens a moment later, as on a real BMC."""
        self._get(identity)
        action = self._actions.get(state)
        if action is None:
            raise error.NotSupportedError(f"Power state {state} is not supported")
        if action in (chassis.reset, chassis.graceful_restart) and bmc_memory.power(self.node) == "off":
            raise Conflict(f"{state} needs a machine that is on")
        if state in POWERING_ON and "bmc_lies_power" in faults_of(self.node):
            return
        timer = threading.Timer(self.rack.power_delay, self._act, (action,))
        timer.daemon = True
        timer.start()

    def _act(self, action: Callable[[Rack, Node], None]) -> None:
        try:
            action(self.rack, self.node)
        except (OSError, chassis.Refused) as failure:
            print(f"{self.node.name}: {failure}", file=sys.stderr, flush=True)

    def get_boot_device(self, identity: str) -> str:
        """Tell the override's target."""
        self._get(identity)
        return bmc_memory.read_override(self.node)["target"]

    def get_boot_mode(self, identity: str) -> str:
        """Tell the boot mode."""
        return bmc_memory.read_override(self.node)["mode"]

    def get_total_memory(self, identity: str) -> int:
        """Tell the memory in GiB."""
        return bmc_inventory.total_memory_gib()

    def get_total_cpus(self, identity: str) -> int:
        """Tell the number of sockets."""
        return bmc_inventory.SOCKETS

    def get_processors(self, identity: str) -> list[dict[str, str]]:
        """Make the emulator link to the processors; the documents themselves are in bmc_inventory."""
        return [{"id": f"CPU{number}"} for number in range(bmc_inventory.SOCKETS)]

    def get_http_boot_uri(self, identity: str) -> str:
        """Tell the URI for UEFI HTTP boot."""
        return bmc_memory.read_override(self.node)["uri"]


def system_view(rack: Rack, node: Node, stock: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the emulator's view of the system: true boot override and identity."""

    def view(identity: str) -> Any:
        if flask.request.method == "PATCH":
            body = flask.request.get_json(silent=True)
            if not isinstance(body, dict):
                raise BadValue("the body is no JSON object")
            if not isinstance(body.get("Boot"), dict):
                return stock(identity=identity)
            set_override(node, body["Boot"])
            return flask.Response(status=204)
        answer = flask.make_response(stock(identity=identity))
        if answer.status_code != 200:
            return answer
        document = json.loads(answer.get_data())
        document.update(bmc_inventory.system_fields(node))
        document["Boot"].update(boot_fields(node))
        return flask.jsonify(document)

    return view


def chassis_view(node: Node, stock: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the emulator's view of the chassis: its identity."""

    def view(identity: str) -> Any:
        answer = flask.make_response(stock(identity=identity))
        if flask.request.method != "GET" or answer.status_code != 200:
            return answer
        told = bmc_inventory.system_fields(node)
        identity_fields = {key: told[key] for key in ("Manufacturer", "Model", "SerialNumber", "SKU", "PartNumber")}
        return flask.jsonify({**json.loads(answer.get_data()), **identity_fields})

    return view


def boot_fields(node: Node) -> dict[str, Any]:
    """What the Boot object says of the override."""
    override = bmc_memory.read_override(node)
    enabled = override["enabled"]
    if "bmc_stock_override" in faults_of(node):
        enabled = "Continuous"
    return {
        "BootSourceOverrideEnabled": enabled,
        "BootSourceOverrideEnabled@Redfish.AllowableValues": list(ENABLED),
        "BootSourceOverrideTarget": override["target"],
        "BootSourceOverrideTarget@Redfish.AllowableValues": list(TARGETS),
        "BootSourceOverrideMode": override["mode"],
        "HttpBootUri": override["uri"],
    }


_CHECKED = {
    "BootSourceOverrideTarget": ("target", TARGETS),
    "BootSourceOverrideEnabled": ("enabled", ENABLED),
    "BootSourceOverrideMode": ("mode", MODES),
    "HttpBootUri": ("uri", None),
}


def set_override(node: Node, boot: dict[str, Any]) -> None:
    """Store the override; refuse what the schema does not know."""
    changes: dict[str, str] = {}
    for key, value in boot.items():
        if key not in _CHECKED:
            raise BadValue(f"Boot.{key} cannot be set")
        name, allowed = _CHECKED[key]
        if allowed is not None and value not in allowed:
            raise BadValue(f"Boot.{key} cannot be {value!r}; allowed are {', '.join(allowed)}")
        changes[name] = str(value or "")
    if changes.get("enabled") == "Disabled":
        changes["target"] = "None"
    elif "target" in changes and "enabled" not in changes:
        # As the schema has it: a target alone takes effect only with the mode that is set already.
        changes["enabled"] = bmc_memory.read_override(node)["enabled"]
    bmc_memory.write_override(node, **changes)


class Door:
    """The outermost layer: faults of the BMC itself, and the count of writes and refused logins."""

    def __init__(self, app: Callable[..., Iterable[bytes]], node: Node) -> None:
        self._app = app
        self._node = node

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        faults = faults_of(self._node)
        if "bmc_slow" in faults:
            threading.Event().wait(float(faults["bmc_slow"].get("seconds", 2.0)))
        method, path = environ["REQUEST_METHOD"], environ.get("PATH_INFO", "")
        body = b""
        if method in WRITES:
            body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            environ["wsgi.input"] = io.BytesIO(body)
        if "bmc_echoes" in faults and path.rstrip("/") not in PUBLIC:
            return self._echo(environ, start_response)
        if "bmc_401" in faults:
            environ["HTTP_AUTHORIZATION"] = "Basic bm9ib2R5Om5vYm9keQ=="

        def note(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
            self._note(method, path, body, int(status.split()[0]))
            return start_response(status, headers, *rest)

        return self._app(environ, note)

    @staticmethod
    def _echo(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Refuse, and tell the login in every way that careless firmware does."""
        header = environ.get("HTTP_AUTHORIZATION", "")
        login = base64.b64decode(header.partition(" ")[2]).decode("utf-8", "replace")
        text = f"The request of {login} was not understood. Authorization: {header}"
        body = json.dumps({"error": {"code": "Base.1.18.GeneralError", "message": text}}).encode()
        start_response("400 BAD REQUEST", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
        return [body]

    def _note(self, method: str, path: str, body: bytes, status: int) -> None:
        entry = {
            "time": datetime.datetime.now(datetime.timezone.utc).isoformat(),
            "method": method,
            "path": path,
            "status": status,
        }
        if status == 401:
            append_json(self._node.home / "bmc_refused.jsonl", entry)
        elif method in WRITES:
            text = body.decode("utf-8", errors="replace")
            append_json(self._node.home / "bmc_writes.jsonl", {**entry, "body": text})


def write_accounts(rack: Rack, node: Node) -> Path:
    """Write the one account that may log in, hashed, for root's eyes only."""
    password = Path(rack.paths["bmc_password_file"]).read_text(encoding="utf-8").strip()
    digest = bcrypt.hashpw(password.encode(), bcrypt.gensalt(_BCRYPT_ROUNDS)).decode()
    accounts = node.home / "htpasswd"
    handle = os.open(accounts, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(f"{rack.bmc_username}:{digest}\n")
    return accounts


def application(rack: Rack, node: Node) -> Any:
    """Return the emulator's application, extended."""
    Machine.rack, Machine.node = rack, node
    fakedriver.FakeDriver = Machine
    app = emulator.app
    state = node.home / "sushy"
    state.mkdir(exist_ok=True)
    system = {"uuid": node.uuid, "name": node.name, "power_state": "Off", "external_notifier": False}
    app.configure(
        extra_config={
            "SUSHY_EMULATOR_FAKE_DRIVER": True,
            "SUSHY_EMULATOR_FAKE_SYSTEMS": [{**system, "nics": [{"mac": node.mac, "ip": node.ip}]}],
            "SUSHY_EMULATOR_AUTH_FILE": str(write_accounts(rack, node)),
            "SUSHY_EMULATOR_STATE_DIR": str(state),
            "SUSHY_EMULATOR_FEATURE_SET": "full",
            "SUSHY_EMULATOR_CHASSIS": [{"Id": node.serial, "Name": f"{node.name} chassis", "UUID": node.uuid}],
        }
    )
    app.view_functions["chassis_resource"] = chassis_view(node, app.view_functions["chassis_resource"])
    app.view_functions["system_resource"] = system_view(rack, node, app.view_functions["system_resource"])

    @app.before_request
    def extra() -> Any:
        document = bmc_inventory.documents(node).get(flask.request.path.rstrip("/"))
        return flask.jsonify(document) if document and flask.request.method == "GET" else None

    app.wsgi_app = Door(app.wsgi_app, node)
    return app


def main() -> int:
    """Serve until the end."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", required=True)
    parser.add_argument("--node", required=True)
    options = parser.parse_args()
    rack = load(options.config)
    node = rack.node(options.node)
    app = application(rack, node)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(rack.paths["tls_cert"], rack.paths["tls_key"])
    app.run(host=node.bmc.address, port=node.bmc.port, ssl_context=context, threaded=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
