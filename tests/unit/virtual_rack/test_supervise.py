# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The supervisor of the rack's services, on small services of our own."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

CHECKOUT = Path(__file__).resolve().parents[3]
BOOT_HTTP = CHECKOUT / "roles" / "virtual_rack" / "files" / "services" / "boot_http.py"


@pytest.fixture
def supervise(load_program: Callable[[str], ModuleType]) -> ModuleType:
    return load_program("supervise")


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Bench:
    """A run folder, a specification, and one web service in it."""

    def __init__(self, supervise: ModuleType, folder: Path, port: int) -> None:
        self.supervise = supervise
        self.run_dir = folder / "run"
        self.root = folder / "root"
        self.root.mkdir()
        (self.root / "hello").write_text("hello", encoding="utf-8")
        self.watched = folder / "watched"
        self.watched.write_text("1", encoding="utf-8")
        self.spec_file = folder / "services.json"
        self.url = f"http://127.0.0.1:{port}"
        self.web: dict[str, Any] = {
            "name": "web",
            "argv": [sys.executable, str(BOOT_HTTP), "--listen", f"127.0.0.1:{port}", "--root", str(self.root)],
            "watch": [str(self.watched)],
            "log": str(folder / "web.log"),
            "health": {"http": f"{self.url}/hello", "contains": "hello"},
            "deadline": 20,
        }
        self.specify(self.web)

    def specify(self, *services: dict[str, Any]) -> None:
        self.spec_file.write_text(json.dumps({"services": services}), encoding="utf-8")

    def start(self) -> dict[str, Any]:
        told: dict[str, Any] = self.supervise.start_all(self.run_dir, self.spec_file)
        return told

    def pid(self, name: str = "web") -> int:
        return int(json.loads((self.run_dir / f"{name}.json").read_text(encoding="utf-8"))["pid"])


@pytest.fixture
def bench(supervise: ModuleType, tmp_path: Path, port: int) -> Iterator[Bench]:
    made = Bench(supervise, tmp_path, port)
    yield made
    supervise.stop_all(made.run_dir)


def test_second_start_changes_nothing(bench: Bench) -> None:
    assert bench.start() == {"changed": True, "started": ["web"], "stopped": []}
    first = bench.pid()
    assert bench.start() == {"changed": False, "started": [], "stopped": []}
    assert bench.pid() == first


def test_changed_configuration_starts_anew(bench: Bench) -> None:
    bench.start()
    first = bench.pid()
    bench.watched.write_text("2", encoding="utf-8")
    assert bench.start()["started"] == ["web"]
    assert bench.pid() != first
    assert bench.supervise.start_time(first) is None


def test_service_that_died_is_started_again(bench: Bench) -> None:
    bench.start()
    first = bench.pid()
    os.kill(first, 9)
    bench.supervise.wait_for_death(first, 5000)
    assert bench.supervise.status_all(bench.run_dir, bench.spec_file)["healthy"] is False
    assert bench.start()["started"] == ["web"]
    assert bench.supervise.status_all(bench.run_dir, bench.spec_file)["healthy"] is True


def test_service_no_longer_wanted_is_stopped(bench: Bench) -> None:
    bench.start()
    pid = bench.pid()
    bench.specify()
    assert bench.start()["stopped"] == ["web"]
    assert bench.supervise.start_time(pid) is None


def test_service_that_ends_at_once_fails_with_its_log(bench: Bench) -> None:
    bench.specify({**bench.web, "argv": [sys.executable, "-c", "raise SystemExit('no such database')"]})
    with pytest.raises(bench.supervise.ServiceError, match="(?s)web: ended right after.*no such database"):
        bench.start()


def test_a_service_that_was_gone_before_its_start_could_be_read_does_not_run(bench: Bench) -> None:
    """No process has its number any more: that it has no start time either makes it no process that runs."""
    bench.start()
    pid = bench.pid()
    os.kill(pid, 9)
    bench.supervise.wait_for_death(pid, 5000)
    file = bench.run_dir / "web.json"
    told = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps({**told, "start_time": None}), encoding="utf-8")
    assert bench.supervise.status_all(bench.run_dir, bench.spec_file)["healthy"] is False
    assert bench.supervise.stop_all(bench.run_dir)["stopped"] == []


def test_service_that_never_gets_healthy_fails(bench: Bench) -> None:
    bench.specify({**bench.web, "health": {"http": f"{bench.url}/hello", "contains": "goodbye"}, "deadline": 1})
    with pytest.raises(bench.supervise.ServiceError, match="not healthy within 1 s.*without 'goodbye'"):
        bench.start()


def test_failing_preparation_stops_the_start(bench: Bench, tmp_path: Path) -> None:
    step = {"argv": [sys.executable, "-c", "raise SystemExit(3)"], "creates": str(tmp_path / "never")}
    bench.specify({**bench.web, "prepare": step})
    with pytest.raises(bench.supervise.ServiceError, match="exits 3"):
        bench.start()
    assert not (bench.run_dir / "web.json").exists()


def test_stop_leaves_no_child_behind(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that ignores SIGTERM, with a child that does too."""
    monkeypatch.setattr(bench.supervise, "TERM_GRACE_SECONDS", 0.5)
    stubborn = (
        "import signal, subprocess, sys\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "subprocess.run([sys.executable, '-c', 'import signal; print(1, flush=True); signal.pause()'])\n"
    )
    health = {"argv": ["/usr/bin/grep", "1", bench.web["log"]]}
    bench.specify({**bench.web, "argv": [sys.executable, "-c", stubborn], "health": health})
    bench.start()
    leader = bench.pid()
    assert len(bench.supervise.session_members(leader)) == 2
    assert bench.supervise.stop_all(bench.run_dir) == {"changed": True, "stopped": ["web"]}
    assert bench.supervise.session_members(leader) == []
    assert bench.supervise.stop_all(bench.run_dir) == {"changed": False, "stopped": []}


def test_pid_of_somebody_else_is_left_alone(bench: Bench) -> None:
    other = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    try:
        bench.run_dir.mkdir()
        state = {"name": "web", "pid": other.pid, "start_time": "1", "boot_id": bench.supervise.boot_id(), "digest": ""}
        (bench.run_dir / "web.json").write_text(json.dumps(state), encoding="utf-8")
        assert bench.supervise.stop_all(bench.run_dir)["changed"] is False
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_service_gets_nothing_of_our_environment(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/nonexistent")
    bench.start()
    environment = Path(f"/proc/{bench.pid()}/environ").read_bytes()
    assert b"REQUESTS_CA_BUNDLE" not in environment


def test_web_server_lists_no_folder(bench: Bench) -> None:
    bench.start()
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{bench.url}/", timeout=5)
    assert refused.value.code == 404


def test_web_server_logs_one_line_a_request(bench: Bench, port: int) -> None:
    bench.start()
    with socket.create_connection(("127.0.0.1", port), timeout=5) as client:
        client.sendall(b"GET /hello\x1b[2J HTTP/1.0\r\n\r\n")
        while client.recv(4096):
            pass
    log = Path(bench.web["log"]).read_text(encoding="utf-8")
    assert "\x1b" not in log
    assert "\\x1b[2J" in log
