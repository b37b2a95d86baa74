# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start, watch and stop the rack's services; a second start of a running service does nothing.

    supervise.py --run-dir DIR start SPEC.json
    supervise.py --run-dir DIR stop
    supervise.py --run-dir DIR status SPEC.json

There is no init system to lean on (containers, CI machines), so a service is a process in a session of its own;
what is known of it is its pid together with its start time and the machine's boot id, because a pid alone may
belong to somebody else by now. A service is started again when its command or a file that it watches has changed.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Callable, Optional

# Nothing of the caller's environment reaches a service: proxies and CA bundles there change what it trusts.
CLEAN_ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LANG": "C.UTF-8",
}
POLL_MILLISECONDS = 100
TERM_GRACE_SECONDS = 15.0
LOG_TAIL_LINES = 15


class ServiceError(Exception):
    """A service could not be started or is not healthy."""


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def process_stat(pid: int) -> Optional[list[str]]:
    """The fields of /proc/PID/stat after the command's name, or None for a process that is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    # A zombie waits for its parent only: it does nothing and holds nothing any more.
    return None if fields[0] in ("Z", "X") else fields


def start_time(pid: int) -> Optional[str]:
    fields = process_stat(pid)
    return fields[19] if fields else None


def session_members(leader: int) -> list[int]:
    """Live processes whose session is the one that this leader opened."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            fields = process_stat(int(entry.name))
            if fields and int(fields[3]) == leader:
                found.append(int(entry.name))
    return found


def wait_for_death(pid: int, milliseconds: int) -> bool:
    """Wait until the process has ended or the time is over; says whether it has ended."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        poller = select.poll()
        poller.register(descriptor, select.POLLIN)
        return bool(poller.poll(milliseconds))
    finally:
        os.close(descriptor)


def healthy_http(check: dict[str, Any]) -> str:
    request = urllib.request.Request(check["http"])
    if "user" in check:
        password = Path(check["password_file"]).read_text(encoding="utf-8").strip()
        token = base64.b64encode(f"{check['user']}:{password}".encode()).decode()
        request.add_header("Authorization", f"Basic {token}")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=5) as answer:
            body = answer.read().decode("utf-8", "replace")
    except (urllib.error.URLError, OSError) as error:
        return f"{check['http']}: {error}"
    wanted = check.get("contains", "")
    return "" if wanted in body else f"{check['http']} answers, but without {wanted!r}"


def healthy_tcp(check: dict[str, Any]) -> str:
    host, _colon, port = check["tcp"].rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except OSError as error:
        return f"{check['tcp']}: {error}"
    return ""


def healthy_command(check: dict[str, Any]) -> str:
    env = {**CLEAN_ENVIRONMENT, **check.get("env", {})}
    try:
        done = subprocess.run(
            check["argv"], capture_output=True, text=True, timeout=10, check=False, env=env, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{check['argv'][0]}: {error}"
    if done.returncode != 0:
        return f"{check['argv'][0]} exits {done.returncode}: {(done.stderr or done.stdout).strip()}"
    wanted = check.get("contains", "")
    return "" if wanted in done.stdout else f"{check['argv'][0]} says {done.stdout.strip()!r}, not {wanted!r}"


HEALTH: dict[str, Callable[[dict[str, Any]], str]] = {
    "http": healthy_http,
    "tcp": healthy_tcp,
    "argv": healthy_command,
}


class Service:
    """One entry of the specification, and what the run folder remembers of it."""

    def __init__(self, run_dir: Path, spec: dict[str, Any]) -> None:
        self.spec = spec
        self.name: str = spec["name"]
        self.state_file = run_dir / f"{self.name}.json"
        self.state: dict[str, Any] = {}
        if self.state_file.exists():
            self.state = json.loads(self.state_file.read_text(encoding="utf-8"))

    def pid(self) -> Optional[int]:
        """The pid of the running service; None where it does not run or the pid is another process by now."""
        pid, started = self.state.get("pid"), self.state.get("start_time")
        # One that ended before its start could be read has no start time, as any process that is gone.
        if pid is None or started is None or self.state.get("boot_id") != boot_id():
            return None
        return int(pid) if start_time(int(pid)) == started else None

    def digest(self) -> str:
        told = hashlib.sha256(json.dumps(self.spec, sort_keys=True).encode())
        for watched in self.spec.get("watch", []):
            told.update(Path(watched).read_bytes())
        return told.hexdigest()

    def health(self) -> str:
        """Empty when healthy, else what is wrong."""
        check = self.spec["health"]
        kind = next(key for key in HEALTH if key in check)
        return HEALTH[kind](check)

    def log_tail(self) -> str:
        try:
            lines = Path(self.spec["log"]).read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError as error:
            return str(error)
        return "\n".join(lines[-LOG_TAIL_LINES:])

    def fail(self, why: str) -> ServiceError:
        return ServiceError(f"{self.name}: {why}\n--- end of {self.spec['log']}\n{self.log_tail()}")

    def prepare(self, log: Any, env: dict[str, str]) -> None:
        """The one-time step before a first start, such as making a database."""
        step = self.spec.get("prepare")
        if step is None or Path(step["creates"]).exists():
            return
        done = subprocess.run(step["argv"], stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=env, check=False)
        if done.returncode != 0:
            raise self.fail(f"{step['argv'][0]} exits {done.returncode}")

    def start(self) -> None:
        env = {**CLEAN_ENVIRONMENT, **self.spec.get("env", {})}
        cwd = self.spec.get("cwd", "/")
        with open(self.spec["log"], "ab") as log:
            self.prepare(log, env)
            try:
                process = subprocess.Popen(
                    self.spec["argv"],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    cwd=cwd,
                    env=env,
                    umask=0o022,
                )
            except OSError as error:
                raise self.fail(str(error)) from error
        self.state = {
            "name": self.name,
            "pid": process.pid,
            "start_time": start_time(process.pid),
            "boot_id": boot_id(),
            "digest": self.digest(),
        }
        self.save()

    def save(self) -> None:
        fresh = self.state_file.with_suffix(".new")
        fresh.write_text(json.dumps(self.state), encoding="utf-8")
        fresh.replace(self.state_file)

    def wait_healthy(self) -> None:
        deadline = time.monotonic() + float(self.spec.get("deadline", 30))
        while True:
            pid = self.pid()
            if pid is None:
                raise self.fail("ended right after its start")
            wrong = self.health()
            if not wrong:
                return
            if time.monotonic() > deadline:
                raise self.fail(f"not healthy within {self.spec.get('deadline', 30)} s: {wrong}")
            wait_for_death(pid, POLL_MILLISECONDS)

    def stop(self) -> bool:
        """End the service and whatever it left in its session."""
        pid = self.pid()
        leader = self.state.get("pid")
        if pid is not None:
            os.kill(pid, signal.SIGTERM)
            wait_for_death(pid, int(TERM_GRACE_SECONDS * 1000))
        # A session's number is not given to another process while a member lives.
        left = session_members(int(leader)) if leader and self.state.get("boot_id") == boot_id() else []
        for member in left:
            try:
                os.kill(member, signal.SIGKILL)
            except ProcessLookupError:
                continue
            wait_for_death(member, 5000)
        self.state_file.unlink(missing_ok=True)
        self.state = {}
        return pid is not None or bool(left)


def load(run_dir: Path, spec_file: Path) -> list[Service]:
    specs = json.loads(spec_file.read_text(encoding="utf-8"))["services"]
    return [Service(run_dir, spec) for spec in specs]


def start_all(run_dir: Path, spec_file: Path) -> dict[str, Any]:
    run_dir.mkdir(parents=True, exist_ok=True)
    services = load(run_dir, spec_file)
    by_name = {service.name: service for service in services}
    wanted = set(by_name)
    stopped = [name for name in remembered(run_dir) if name not in wanted and forget(run_dir, name)]
    started = []
    for service in services:
        if service.pid() is not None and service.state.get("digest") == service.digest():
            continue
        service.stop()
        for needed in service.spec.get("needs", []):
            by_name[needed].wait_healthy()
        service.start()
        started.append(service.name)
    # Waiting comes last: slow starters run up side by side.
    try:
        for service in services:
            service.wait_healthy()
    except ServiceError:
        give_up([by_name[name] for name in started])
        raise
    return {"changed": bool(started or stopped), "started": started, "stopped": stopped}


def give_up(started: list[Service]) -> None:
    """A service that does not come up is not left behind, where it would try for ever."""
    for service in started:
        if service.pid() is None or service.health():
            service.stop()


def remembered(run_dir: Path) -> list[str]:
    """Names of the services that were started, the latest first."""
    files = sorted(run_dir.glob("*.json"), key=lambda path: path.stat().st_mtime_ns, reverse=True)
    return [path.stem for path in files]


def forget(run_dir: Path, name: str) -> bool:
    return Service(run_dir, {"name": name}).stop()


def stop_all(run_dir: Path) -> dict[str, Any]:
    stopped = [name for name in remembered(run_dir) if forget(run_dir, name)]
    return {"changed": bool(stopped), "stopped": stopped}


def status_all(run_dir: Path, spec_file: Path) -> dict[str, Any]:
    """What runs and what is wrong; a service is healthy only when it runs and answers."""
    rows = []
    for service in load(run_dir, spec_file):
        pid = service.pid()
        wrong = "not running" if pid is None else service.health()
        row = {"name": service.name, "pid": pid, "healthy": not wrong, "wrong": wrong, "log": service.spec["log"]}
        rows.append(row)
    return {"changed": False, "healthy": all(row["healthy"] for row in rows), "services": rows}


def main(arguments: Optional[list[str]] = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--run-dir", type=Path, required=True)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb in ("start", "status"):
        verbs.add_parser(verb).add_argument("spec", type=Path)
    verbs.add_parser("stop")
    asked = parser.parse_args(arguments)
    actions: dict[str, Callable[[], dict[str, Any]]] = {
        "start": lambda: start_all(asked.run_dir, asked.spec),
        "status": lambda: status_all(asked.run_dir, asked.spec),
        "stop": lambda: stop_all(asked.run_dir),
    }
    try:
        print(json.dumps(actions[asked.verb]()))
    except ServiceError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
