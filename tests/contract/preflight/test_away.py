# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""C8: a provisioner or a scheduler that is away for a moment ends no preflight; one that stays away is one cause."""

from __future__ import annotations

import http.server
import json
import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _away as away
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _preflight_services as services
from sound_site import SoundSite
from unit.scheduler import slurm_commands

SITE, SERVICE = "site", "service"


class Front(http.server.ThreadingHTTPServer):
    """Before an Ironic that has no nodes yet: its first answers say that nothing is behind it."""

    daemon_threads = True

    def __init__(self) -> None:
        self.away = 0
        self.asked: list[str] = []
        super().__init__(("127.0.0.1", 0), Answers)


class Answers(http.server.BaseHTTPRequestHandler):
    server: Front

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        status = 503 if len(self.server.asked) <= self.server.away else 200
        kind = self.path.partition("?")[0].rpartition("/")[2]
        found: dict[str, Any] = {"drivers": {"drivers": [{"name": "redfish"}]}}
        body = json.dumps(found.get(kind, {kind: []})).encode()
        self.send_response(404 if "/nodes/" in self.path else status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        return


@pytest.fixture
def front(site: SoundSite) -> Iterator[Front]:
    with Front() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        site.shared["gpufleet_provisioner_url"] = f"http://127.0.0.1:{server.server_port}"
        site.shared["gpufleet_image"] = site.image.declared(
            format="ramdisk", kernel_url="http://127.0.0.1:9/k", ramdisk_url="http://127.0.0.1:9/r"
        )
        yield server
        server.shutdown()
        thread.join()


def test_c8_a_provisioner_that_is_away_for_a_moment_ends_no_preflight(
    site: SoundSite, front: Front, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is told that something is waited for, once; what is wrong with settings is told all the same."""
    monkeypatch.setattr(away, "AWAY_SECONDS", 60.0)
    site.hosts["gpu003"]["enroll_driver"] = {"driver": "ilo5"}
    front.away = 3
    [cause] = site.told(services.provisioner)
    assert (cause["kind"], cause["hosts"]) == (SITE, ["gpu003"]) and "type ilo5" in cause["what"], cause
    assert len(front.asked) > front.away
    assert capsys.readouterr().out.count("asked again for up to 60 s") == 1


def test_c8_a_provisioner_that_stays_away_is_one_cause_and_waited_for_once(
    site: SoundSite, front: Front, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where its hosts are asked for in two ways: those that come later find that out without another wait."""
    site.hosts["gpu003"]["enroll_driver"] = {"driver": "redfish"}
    front.away = 10**6
    [cause] = site.told(services.provisioner)
    assert (cause["kind"], len(cause["hosts"])) == (SERVICE, 3), cause
    assert len(front.asked) > 1 and capsys.readouterr().out.count("asked again") == 1


@pytest.fixture
def slurm(site: SoundSite, monkeypatch: pytest.MonkeyPatch) -> Any:
    new = {"state": "DOWN", "reason": "Not responding", "by": "slurm", "booted": "None"}
    world = slurm_commands.install(site.folder, nodes={host: dict(new) for host in site.hosts})
    monkeypatch.setenv("PATH", f"{site.folder / 'bin'}:{os.environ['PATH']}")
    site.shared["gpufleet_scheduler"] = "slurm"
    return world


def test_c8_a_scheduler_that_is_away_for_a_moment_ends_no_preflight(
    site: SoundSite, slurm: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(away, "AWAY_SECONDS", 60.0)
    scontrol, asked = site.folder / "bin" / "scontrol", site.folder / "asked"
    scontrol.rename(site.folder / "bin" / "scontrol.sound")
    scontrol.write_text(
        f"#!/bin/sh\necho >>{asked}\nif [ $(wc -l <{asked}) -le 2 ]; then\n"
        "  echo 'slurm_load_node error: Unable to contact slurm controller (connect failure)' >&2; exit 1\n"
        f'fi\nexec "{scontrol}.sound" "$@"\n'
    )
    scontrol.chmod(0o755)
    assert site.told(services.scheduler) == []
    assert capsys.readouterr().out.count("asked again for up to 60 s") == 1
