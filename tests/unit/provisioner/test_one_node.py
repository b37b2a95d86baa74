# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two hosts that are one node of the provisioner, over a list of MAAS: neither is written to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, ClassVar

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.watch import watch
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context


class _Maas(BaseHTTPRequestHandler):
    writes: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        machines = [
            {
                "system_id": f"4y3h7{number + 5}",
                "hostname": f"n{number}",
                "status": 4,
                "status_name": "Ready",
                "power_state": "off",
                "boot_interface": {"mac_address": f"52:54:00:00:00:0{number}"},
                "interface_set": [{"mac_address": f"52:54:00:00:00:0{number}"}],
                "tag_names": [],
                "owner": "",
                "hardware_info": {},
            }
            for number in (1, 2)
        ]
        body = json.dumps(machines if "machines" in self.path else {}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.writes.append(self.path)
        self.send_response(403)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_PUT = do_POST

    def log_message(self, format: str, *args: Any) -> None:
        return


@pytest.fixture
def url() -> Iterator[str]:
    _Maas.writes.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Maas)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/MAAS"
    finally:
        server.shutdown()
        server.server_close()


def test_two_hosts_of_one_node_are_both_refused_and_nothing_is_written(url: str) -> None:
    ids = {"h1": "n1", "h2": "4y3h76", "h3": "n2"}
    nodes = [{"host": host, "provisioner_id": one, "known_runs": []} for host, one in ids.items()]
    params = {
        "provisioner": "maas", "provisioner_url": url, "provisioner_api_key": "a:b:c", "until": "ready",
        "timeout": 1, "interval": 0.1, "run_id": "r1", "nodes": nodes,
    }  # fmt: skip
    verdicts = watch(params, Context()).as_dict(Context())["verdicts"]
    assert not verdicts["h1"]["ok"] and "also that of h2" in verdicts["h1"]["reason"]
    assert not verdicts["h2"]["ok"] and "also that of h1" in verdicts["h2"]["reason"]
    assert "also that of" not in verdicts["h3"]["reason"]
    assert _Maas.writes == []
