# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hosts of a run, each behind its own action, wait together for a provisioner that stays away."""

from __future__ import annotations

import socketserver
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.action import provisioner_node
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _away as away
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Unreachable
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import node
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.maas import api
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.specs import NODE_SPEC
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.tests.unit.plugins.doors import Door


class Closing(socketserver.ThreadingTCPServer):
    """Takes each connection and says nothing on it, as a front does whose service is gone."""

    daemon_threads = True

    def __init__(self) -> None:
        #: After so many connections nobody has patience any more.
        self.met, self.until = 0, 0
        super().__init__(("127.0.0.1", 0), socketserver.BaseRequestHandler)

    def finish_request(self, request: Any, client_address: object) -> None:
        request.recv(65536)
        self.met += 1
        if self.met == self.until:
            away.AWAY_SECONDS = 0.0


@pytest.fixture
def front() -> Iterator[Closing]:
    with Closing() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_c8_a_provisioner_that_stays_away_costs_a_run_its_patience_once(
    front: Closing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(away, "AWAY_SECONDS", 2.0)
    monkeypatch.setattr(away, "AWAY_INTERVAL", 0.05)
    monkeypatch.setattr(api, "AGAIN_INTERVAL", 0.05)
    url = f"http://127.0.0.1:{front.server_address[1]}/MAAS"
    args = {"state": "ready", "provisioner": "maas", "provisioner_url": url, "boot_mac": "02:00:00:00:00:01"}
    args["provisioner_api_key"] = "a:b:c"
    met = []
    for host in ("gpu001", "gpu002", "gpu003"):
        before = front.met
        door = Door(
            tmp_path,
            provisioner_node.ActionModule.verb,
            base=provisioner_node.ActionModule,
            name="provisioner_node",
            own_spec=NODE_SPEC,
            args=args,
            inventory_hostname=host,
            gpufleet_serial=host,
        )
        told = door.run()
        assert told["failed"] and told["error"]["kind"] == "unreachable", told
        met.append(front.met - before)
    assert met[0] > 3 * met[1] and met[1] == met[2] > 0, met


@pytest.mark.parametrize(("since", "waits"), [(20.0, 10.0), (299.0, -269.0), (301.0, 30.0), (-60.0, 30.0)])
def test_c8_a_run_waits_for_a_service_anew_only_after_five_minutes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, since: float, waits: float
) -> None:
    """Till then its hosts find it away at once. What another boot of this machine has noted counts for nothing."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    url, together = "https://ironic.example.com/v1", away.Away("this run")
    assert together.patience(url) == pytest.approx(30.0, abs=1.0)
    assert together.patience("https://maas.example.com/MAAS") == pytest.approx(30.0, abs=1.0), "of each service"
    for note in tmp_path.rglob("*.away"):
        note.write_text(str(time.monotonic() - since), encoding="utf-8")
    assert away.Away("this run").patience(url) == pytest.approx(waits, abs=1.0)


@pytest.mark.parametrize("name", ["ironic", "maas"])
def test_c8_a_tls_front_that_closes_in_the_handshake_is_away_and_not_untrusted(
    front: Closing, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy without its service, or in a reload: it is waited for, and no certificate is blamed."""
    monkeypatch.setattr(away, "AWAY_SECONDS", 600.0)
    monkeypatch.setattr(away, "AWAY_INTERVAL", 0.05)
    front.until = 3
    login = {"provisioner_username": "u", "provisioner_password": "p", "provisioner_api_key": "a:b:c"}
    params = {option: about.get("default") for option, about in NODE_SPEC.items()}
    params.update(login, provisioner=name, state="ready", name="gpu001", boot_mac="02:00:00:00:00:01")
    params.update(provisioner_url=f"https://127.0.0.1:{front.server_address[1]}")
    with pytest.raises(Unreachable, match="does not answer") as told:
        node.node(params, Context(node="gpu001"))
    assert "tls" not in told.value.details and front.met > 2, told.value
