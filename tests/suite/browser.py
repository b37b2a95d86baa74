# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A real browser without a window, spoken to over two pipes in its own protocol, Chrome's DevTools."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

NAMES = ("chromium-headless-shell", "chromium")
#: What the page did that it should not: an error in its console, or a thing that it asked for.
_ERRORS = {
    "Runtime.exceptionThrown": lambda told: True,
    "Runtime.consoleAPICalled": lambda told: told["type"] in ("error", "assert"),
    "Log.entryAdded": lambda told: told["entry"]["level"] == "error",
}
SECONDS = 120
#: The protocol's two pipes are the files 3 and 4, whatever they are here.
_PLACED = """
import fcntl, os, sys
for place, given in zip((3, 4), [fcntl.fcntl(int(one), fcntl.F_DUPFD, 64) for one in sys.argv[1:3]]):
    os.dup2(given, place)
os.execv(sys.argv[3], sys.argv[3:])
"""


def program() -> str:
    """Its path; empty where there is none."""
    return next((path for path in map(shutil.which, NAMES) if path), "")


class Browser:
    """:ivar errors: what stood in the console. asked: the addresses that were asked for."""

    def __init__(self, folder: Path) -> None:
        ours, theirs = os.pipe(), os.pipe()
        argv = [program(), "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"]
        argv += [f"--user-data-dir={folder / 'browser'}", "--no-first-run"]
        places = [str(ours[0]), str(theirs[1])]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PLACED, *places, *argv], pass_fds=(ours[0], theirs[1]), stderr=subprocess.DEVNULL
        )
        os.close(ours[0])
        os.close(theirs[1])
        self._to, self._from, self._rest, self._number = ours[1], theirs[0], b"", 0
        self.errors: list[str] = []
        self.asked: list[str] = []
        self._session: dict[str, str] = {}
        self._loaded = False
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = {"sessionId": self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]}
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> Mapping[str, Any]:
        self._number += 1
        said = {"id": self._number, "method": method, "params": params, **self._session}
        os.write(self._to, json.dumps(said).encode() + b"\0")
        told = self._until(lambda one: one.get("id") == said["id"])
        assert "error" not in told, (method, told)
        return told["result"]  # type: ignore[no-any-return]

    def _until(self, fits: Callable[[Mapping[str, Any]], bool]) -> Mapping[str, Any]:
        end = time.monotonic() + SECONDS
        while True:
            raw, zero, rest = self._rest.partition(b"\0")
            if zero:
                self._rest, told = rest, json.loads(raw)
                self._note(told)
                if fits(told):
                    return told  # type: ignore[no-any-return]
                continue
            ready = select.select([self._from], [], [], max(0, end - time.monotonic()))[0]
            more = os.read(self._from, 2**20) if ready else b""
            assert more, "the browser has ended" if ready else "the browser says nothing"
            self._rest += more

    def _note(self, told: Mapping[str, Any]) -> None:
        method, params = told.get("method", ""), told.get("params", {})
        if method in _ERRORS and _ERRORS[method](params):
            self.errors.append(json.dumps(params)[:500])
        if method == "Network.requestWillBeSent":
            self.asked.append(params["request"]["url"])
        self._loaded = self._loaded or method == "Page.loadEventFired"

    def open(self, path: Path, width: int, height: int = 900) -> None:
        """A page in a window of so many pixels; below 500 it is a telephone's."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.call("Emulation.setDeviceMetricsOverride", **metrics)
        self._loaded = False
        self.call("Page.navigate", url=path.as_uri())
        if not self._loaded:
            self._until(lambda told: told.get("method") == "Page.loadEventFired")

    def value(self, expression: str) -> Any:
        told = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    def press(self, key: str, code: int, text: str = "") -> None:
        for kind in ("keyDown", "keyUp"):
            typed = {"text": text} if text and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **typed)

    def type(self, text: str) -> None:
        self.call("Input.insertText", text=text)

    def screenshot(self) -> bytes:
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(timeout=30)
        os.close(self._to)
        os.close(self._from)
