# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real Alertmanager with the receiver and the route that the page on alerts tells a reader to write."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import yaml
from contract.docs.blocks import blocks
from contract.eda.rulebook import Rulebook, free_port, until

PROGRAM = "prometheus-alertmanager"
PAGE = "docs/how-to/react-to-alerts.md"


def missing() -> str:
    return "" if shutil.which(PROGRAM) else f"needs the Debian package {PROGRAM}"


def _of_the_page(rulebook: Rulebook) -> dict[str, Any]:
    """Its two blocks, with what is the reader's own put in."""
    own = {
        "https://eda.example.com:5051": rulebook.url("alertmanager"),
        "/etc/alertmanager/gpufleet.token": str(rulebook.token),
        "/etc/alertmanager/gpufleet-ca.pem": str(rulebook.ca),
    }
    found: dict[str, Any] = {}
    for block in blocks(PAGE):
        told = yaml.safe_load(block.text) if block.language == "yaml" else {}
        if told.keys() & {"receivers", "route"}:
            text = block.text
            for theirs, ours in own.items():
                text = text.replace(theirs, ours)
            found.update(yaml.safe_load(text))
    assert found.keys() == {"receivers", "route"} and "example.com" not in json.dumps(found), found
    # A site's own tree is around it, with somebody to whom all others go.
    found["receivers"].append({"name": "others"})
    found["route"].update({"receiver": "others", "group_by": ["alertname", "Hostname"], "group_wait": "1s"})
    return found


class Alertmanager:
    """:ivar told: what it has written."""

    def __init__(self, folder: Path, rulebook: Rulebook) -> None:
        self._folder, self._port, self._log = folder, free_port(), folder / "alertmanager.log"
        (folder / "alertmanager.yml").write_text(yaml.safe_dump(_of_the_page(rulebook)), encoding="utf-8")

    @property
    def told(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    def __enter__(self) -> Alertmanager:
        argv = [PROGRAM, "--config.file=alertmanager.yml", "--storage.path=data", "--cluster.listen-address="]
        argv += [f"--web.listen-address=127.0.0.1:{self._port}"]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(argv, cwd=self._folder, stdout=log, stderr=subprocess.STDOUT)
        until(self._listens, lambda: self.told)
        return self

    def _listens(self) -> bool:
        assert self._process.poll() is None, self.told
        with socket.socket() as trial:
            return trial.connect_ex(("127.0.0.1", self._port)) == 0

    def __exit__(self, *exc: object) -> None:
        self._process.terminate()
        self._process.wait(timeout=30)

    def fires(self, **labels: str) -> None:
        """As Prometheus tells it."""
        body = json.dumps([{"labels": labels, "annotations": {"summary": "{{ 7 * 7 }}"}}]).encode()
        url = f"http://127.0.0.1:{self._port}/api/v2/alerts"
        with urllib.request.urlopen(urllib.request.Request(url, body, {"Content-Type": "application/json"})) as answer:
            assert answer.status == 200

    def sent(self) -> float:
        return self._counted("alertmanager_notifications_total")

    def failed(self) -> float:
        return self._counted("alertmanager_notifications_failed_total")

    def _counted(self, name: str) -> float:
        """What it counts of its webhooks."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/metrics") as answer:
            text = answer.read().decode()
        lines = re.findall(rf'^{name}{{[^}}]*integration="webhook"[^}}]*}} (\S+)$', text, re.MULTILINE)
        return sum(map(float, lines))
