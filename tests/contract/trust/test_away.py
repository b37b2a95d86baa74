# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A web server of images that is away for a moment, or stays away."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _away as away
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.image import image_verify
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.specs import IMAGE_VERIFY
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context

DEFAULTS = {name: option.get("default") for name, option in IMAGE_VERIFY.items()}


def verify(image: dict[str, Any], host: str = "gpu001", **params: Any) -> dict[str, Any]:
    ctx = Context(node=host)
    return image_verify({**DEFAULTS, "image": image, **params}, ctx).as_dict(ctx)


def test_c7_a_web_server_that_comes_back_is_waited_for_and_one_that_stays_away_once_a_run(
    image: Any, web: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it did not tell is its own failure: none of the node's, and none of the image's or its declaration."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(away, "AWAY_INTERVAL", 0.02)
    declared = image.declared(base=web.url)
    web.away = 4
    assert verify(declared, run_cache="run-1")["verdict"] == "pass"
    monkeypatch.setattr(away, "AWAY_SECONDS", 0.3)
    web.away = 10**6
    asked = []
    for _host in range(2):
        web.asked.clear()
        told = verify({**declared, "signature_url": f"{web.url}/other.asc"}, run_cache="run-2")
        assert (told["verdict"], told["kind"]) == ("inconclusive", "unreachable") and "HTTP 503" in told["msg"]
        assert told["msg"].startswith("the server of the image hpc 1.4") and "itself" not in told["msg"]
        asked.append(len(web.asked))
    assert asked[0] > 2 and asked[1] == 1, asked


@pytest.mark.parametrize("status", [408, 425, 429, 500, 507])
def test_c7_a_web_server_that_fails_or_has_no_time_is_away_and_no_wrong_url(
    image: Any, web: Any, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(away, "AWAY_INTERVAL", 0.02)
    declared = image.declared(base=web.url)
    web.away, web.away_status = 2, status
    assert verify(declared, run_cache="run-1")["verdict"] == "pass"
    monkeypatch.setattr(away, "AWAY_SECONDS", 0.0)
    web.away = 10**6
    told = verify(declared, run_cache="run-2")
    assert told["kind"] == "unreachable" and f"HTTP {status}" in told["msg"] and "correct" not in told["msg"], told


def test_c7_a_path_that_leads_to_no_file_is_the_sites_mistake_and_not_waited_for(
    image: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(away, "AWAY_INTERVAL", 60.0)
    declared = image.declared()
    image.artifact.unlink()
    begun = time.monotonic()
    told = verify(declared, run_cache="run-1")
    assert time.monotonic() - begun < 50.0
    assert told["kind"] == "artifact" and "correct the path" in told["msg"] and told["msg"].startswith("the image hpc")


def test_c7_a_tls_front_that_closes_in_the_handshake_is_away_and_not_untrusted(
    image: Any, web: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy that is being reloaded is asked again; what it was asked for is there the next moment."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(away, "AWAY_INTERVAL", 0.02)
    monkeypatch.setattr(away, "AWAY_SECONDS", 600.0)
    with socket.create_server(("127.0.0.1", 0)) as front:
        met = []

        def close_each() -> None:
            with contextlib.suppress(OSError):
                while True:
                    one, _where = front.accept()
                    with one:
                        one.recv(65536)
                        met.append(one)
                        if len(met) == 3:
                            away.AWAY_SECONDS = 0.0

        threading.Thread(target=close_each, daemon=True).start()
        told = verify(image.declared(base=f"https://127.0.0.1:{front.getsockname()[1]}"), run_cache="run-1")
        front.shutdown(socket.SHUT_RDWR)
    assert told["kind"] == "unreachable" and len(met) > 2, (told["msg"], len(met))


def test_c7_a_frozen_image_server_costs_a_run_its_time_out_once(
    image: Any, web: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes each connection and says nothing: of 200 hosts in turn each would wait for that."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(away, "AWAY_SECONDS", 0.0)
    monkeypatch.setattr(away, "SLOW_SECONDS", 0.5)
    web.slow = 3.0
    declared, asked = image.declared(base=web.url), []
    for host, run in (("gpu001", "run-1"), ("gpu002", "run-1"), ("gpu003", "run-2")):
        told = verify(declared, host, run_cache=run, timeout=1)
        assert (told["verdict"], told["kind"]) == ("inconclusive", "unreachable") and "ReadTimeout" in told["msg"]
        asked.append(len(web.asked))
    assert asked == [1, 1, 2] and "another host of this run" not in told["msg"], "another run asks for itself"
    web.slow = 0.0
    assert verify(declared, "gpu002", run_cache="run-1")["verdict"] == "pass", "a host is told of it once"
    assert verify(declared, "gpu004", run_cache="run-1")["verdict"] == "pass", "an answer ends it for all"


def test_what_runs_of_earlier_days_left_is_removed_once_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its first task: each task of each host would look through what hundreds of other runs have left."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    own = away.own_folder("run-1")

    def left() -> Path:
        folder = own.parent / "of-the-day-before-yesterday"
        folder.mkdir()
        (folder / "x.json").write_text("1", encoding="utf-8")
        os.utime(folder, (0, 0))
        return folder

    old = left()
    assert away.own_folder("run-1") == own and old.exists()
    assert away.own_folder("run-2") != own and not old.exists() and own.exists()
