# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The running rack as the end-to-end tests see it: play a playbook, read what it did, count what was written."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import listed

CHECKOUT = Path(__file__).resolve().parents[2]
RACK = Path(os.environ.get("GPUFLEET_RACK_DIR") or "/var/lib/gpufleet-rack")
NODES = ("gpu001", "gpu002", "gpu003", "gpu004")
LIMIT_SECONDS = 420
DECLARED = "2026.11.1"  # the image that the inventory declares


@dataclass
class Run:
    """One run of ansible-playbook."""

    rc: int
    output: str
    seconds: float
    tasks: dict[str, Any] = field(default_factory=dict)
    results: list[dict[str, Any]] = field(default_factory=list)

    def of(self, host: str, task: str) -> dict[str, Any]:
        """A host's last result of a task."""
        found = [line["result"] for line in self.results if line["host"] == host and line["task"] == task]
        assert found, f"{host} never came to {task!r}\n{self.tail()}"
        last: dict[str, Any] = found[-1]
        return last

    def refusal(self, host: str) -> dict[str, Any]:
        """The verdict that a host failed on."""
        failed = [line["result"] for line in self.results if line["host"] == host and line["result"].get("failed")]
        judged = [result for result in failed if "verdict" in result]
        assert judged, f"no verdict failed {host}\n{self.tail()}"
        last: dict[str, Any] = judged[-1]
        return last

    def failure(self, host: str) -> str:
        """What a host's first failed task said."""
        lines = [line["result"] for line in self.results if line["host"] == host]
        failed = [line for line in lines if line.get("failed") or line.get("unreachable")]
        assert failed, f"nothing failed on {host}\n{self.tail()}"
        return str(failed[0].get("msg"))

    def recap(self) -> dict[str, dict[str, int]]:
        """By host: ok, changed, unreachable, failed, skipped, rescued, ignored."""
        found = {}
        for line in self.output.rpartition("PLAY RECAP")[2].splitlines():
            head = re.match(r"^(\S+)\s+: (ok=.*)$", line)
            if head:
                found[head.group(1)] = {k: int(v) for k, v in re.findall(r"(\w+)=(\d+)", head.group(2))}
        return found

    def tail(self) -> str:
        return self.output[-6000:]


def clean_env() -> dict[str, str]:
    """Without what an outer make and a developer's Ansible have set. The sockets of ssh are this rack's own."""
    dropped = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "SLURM_CONF")
    kept = {k: v for k, v in os.environ.items() if k not in dropped and not k.startswith(("ANSIBLE_", "GPUFLEET_"))}
    return {**kept, "ANSIBLE_SSH_CONTROL_PATH_DIR": "/run/gpufleet-ssh"}


def play(name: str, *args: str, inventory: str = "inventory", kill: str = "", env: dict[str, str] | None = None) -> Run:
    """``ansible-playbook gpufleet.baremetal.<name>`` against the rack, as a user would run it.

    One that is to be killed is the program itself; any other is a fork that has it imported (see suite.playbook).
    """
    if kill:
        return started(name, *args, inventory=inventory, kill=kill, env=env).end()
    begun = time.monotonic()
    argv, settings, _label = _asked(name, args, inventory, "", env, "")
    done = listed.run(argv[1:], settings, CHECKOUT, LIMIT_SECONDS)
    return _ended(done.returncode, done.stderr + done.stdout, begun, settings)


def _ended(rc: int, output: str, begun: float, settings: dict[str, str]) -> Run:
    seconds = time.monotonic() - begun
    counts, results = Path(settings["GPUFLEET_HOST_TASKS_PATH"]), Path(settings["GPUFLEET_TEST_RESULTS"])
    tasks = json.loads(counts.read_text(encoding="utf-8")) if counts.exists() else {}
    lines = results.read_text(encoding="utf-8").splitlines() if results.exists() else []
    return Run(rc, output, seconds, tasks, [json.loads(line) for line in lines])


class Playing:
    """A run under way, of the program itself."""

    def __init__(self, argv: list[str], settings: dict[str, str], out: Path) -> None:
        self._begun = time.monotonic()
        self._settings = settings
        self._out = out.open("w+", encoding="utf-8")
        self.process = subprocess.Popen(argv, cwd=CHECKOUT, env=settings, stdout=self._out, stderr=subprocess.STDOUT)

    def end(self) -> Run:
        try:
            rc = self.process.wait(LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGTERM)
            rc = self.process.wait(30)
        with self._out:
            self._out.seek(0)
            output = self._out.read()
        return _ended(rc, output, self._begun, self._settings)


def started(
    name: str,
    *args: str,
    inventory: str = "inventory",
    kill: str = "",
    env: dict[str, str] | None = None,
    label: str = "",
) -> Playing:
    """The same, left to itself; a path to a playbook goes as well as a name, a label tells two runs apart."""
    argv, settings, label = _asked(name, args, inventory, kill, env, label)
    return Playing(argv, settings, CHECKOUT / "build" / "e2e" / f"{label}.out")


def _asked(
    name: str, args: tuple[str, ...], inventory: str, kill: str, env: dict[str, str] | None, label: str
) -> tuple[list[str], dict[str, str], str]:
    folder = CHECKOUT / "build" / "e2e"
    folder.mkdir(parents=True, exist_ok=True)
    label = label or Path(name).stem
    counts, results = folder / f"{label}.host_tasks.json", folder / f"{label}.results"
    counts.unlink(missing_ok=True)
    results.unlink(missing_ok=True)
    callbacks = ["gpufleet.baremetal.host_tasks", "every_result", *(["kill_at"] if kill else [])]
    settings = {
        **clean_env(),
        "PATH": listed.path(),
        "ANSIBLE_COLLECTIONS_PATH": str(CHECKOUT / "build" / "collections"),
        "ANSIBLE_HOME": str(CHECKOUT / "build" / "home-e2e"),
        "ANSIBLE_CALLBACK_PLUGINS": str(Path(__file__).parent / "callback_plugins"),
        "ANSIBLE_CALLBACKS_ENABLED": ",".join(callbacks),
        "ANSIBLE_NOCOLOR": "true",
        # As most sites have it; on the other inventory modules go to the nodes as files, as Ansible does by itself.
        "ANSIBLE_PIPELINING": str(inventory == "inventory").lower(),
        "GPUFLEET_HOST_TASKS_PATH": str(counts),
        "GPUFLEET_TEST_RESULTS": str(results),
        "GPUFLEET_TEST_KILL": kill,
        **(env or {}),
    }
    play_of_it = name if name.endswith(".yml") else f"gpufleet.baremetal.{name}"
    return [str(listed.program("ansible-playbook")), play_of_it, "-i", str(RACK / inventory), *args], settings, label


def verbs(
    host: str, calls: list[tuple[str, dict[str, Any]]], *more: str, env: dict[str, str] | None = None
) -> list[dict[str, Any]]:
    """Verbs called directly, one after another in one run, each whatever became of the one before; their results."""
    return verbs_on((host,), calls, *more, env=env)[host]


def verbs_on(
    hosts: tuple[str, ...], calls: list[tuple[str, dict[str, Any]]], *more: str, env: dict[str, str] | None = None
) -> dict[str, list[dict[str, Any]]]:
    """The same on several hosts in one run; the results by host."""
    tasks = [
        {
            "name": f"call {number}",
            f"gpufleet.baremetal.{module}": args,
            "register": f"call{number}",
            "ignore_errors": True,
            "ignore_unreachable": True,
        }
        for number, (module, args) in enumerate(calls)
    ]
    path = CHECKOUT / "build" / "e2e" / "verbs.yml"
    path.parent.mkdir(parents=True, exist_ok=True)
    play_of_all = {"hosts": ",".join(hosts), "gather_facts": False, "tasks": tasks}
    path.write_text(json.dumps([play_of_all]), encoding="utf-8")
    run = play(str(path), *more, env=env)
    assert run.rc == 0, run.tail()
    return {host: [run.of(host, f"call {number}") for number in range(len(calls))] for host in hosts}


def adhoc(host: str, module: str, args: dict[str, Any], *more: str, inventory: str = "inventory") -> dict[str, Any]:
    """One verb called directly; its result."""
    argv = [str(listed.program("ansible")), host, "-i", str(RACK / inventory), "-m", f"gpufleet.baremetal.{module}"]
    settings = {
        **clean_env(),
        "PATH": listed.path(),
        "ANSIBLE_COLLECTIONS_PATH": str(CHECKOUT / "build" / "collections"),
        "ANSIBLE_HOME": str(CHECKOUT / "build" / "home-e2e"),
        "ANSIBLE_LOAD_CALLBACK_PLUGINS": "true",
        "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.minimal",
        "ANSIBLE_NOCOLOR": "true",
    }
    done = subprocess.run(
        [*argv, "-a", json.dumps(args), *more],
        cwd=CHECKOUT,
        env=settings,
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )
    start = done.stdout.find("{")
    assert start >= 0, done.stdout + done.stderr
    found: dict[str, Any]
    found, _end = json.JSONDecoder().raw_decode(done.stdout[start:])
    return found


def slurm(*argv: str) -> str:
    """A Slurm command as an operator types it."""
    done = subprocess.run(
        argv,
        env={**clean_env(), "SLURM_CONF": str(RACK / "slurm" / "slurm.conf")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def node_state(node: str) -> dict[str, str]:
    """State and Reason of a node as Slurm has them."""
    text = slurm("scontrol", "-o", "show", "node", node)
    state = re.search(r" State=(\S+)", text)
    reason = re.search(r" Reason=(.*?)(?: \[|$)", text)
    return {"state": state.group(1) if state else "", "reason": reason.group(1) if reason else ""}


def fault(node: str, name: str, *values: str) -> None:
    """``make rack-fault``, without the make."""
    tool = CHECKOUT / "roles" / "virtual_rack" / "files" / "machines" / "fault.py"
    argv = [sys.executable, str(tool), "--config", str(RACK / "rack.json"), node, name, *values]
    subprocess.run(argv, check=True, capture_output=True)


def faults_of(node: str) -> set[str]:
    """What is broken of the node."""
    path = RACK / "faults" / f"{node}.json"
    return set(json.loads(path.read_text(encoding="utf-8"))["faults"]) if path.exists() else set()


def kill_bmc(node: str) -> None:
    """The BMC falls silent, as one whose cable was pulled."""
    known = json.loads((RACK / "nodes" / node / "bmc.json").read_text(encoding="utf-8"))
    os.kill(int(known["pid"]), signal.SIGKILL)


def revive_bmc(node: str) -> None:
    """Its cable is back: what starts the rack starts what is missing."""
    assert node in machines_up()


def machines_up() -> str:
    """Every BMC of the rack answers; the names of those that were started are told."""
    program = CHECKOUT / "roles" / "virtual_rack" / "files" / "machines" / "rackctl.py"
    return done(["/usr/bin/python3", "-EsS", str(program), "up", "--config", str(RACK / "rack.json")])


def done(argv: list[str]) -> str:
    """What a program of the checkout has printed that ended well."""
    ended = subprocess.run(argv, cwd=CHECKOUT, env=clean_env(), capture_output=True, text=True, check=False)
    assert ended.returncode == 0, (ended.stdout + ended.stderr)[-6000:]
    return ended.stdout


def kill_sshd(node: str, *others: str) -> None:
    """The node runs on, and nobody gets in any more; others: what is ended with it."""
    inside = subprocess.run(["ip", "netns", "pids", f"gfrack-{node}"], check=True, capture_output=True, text=True)
    for pid in inside.stdout.split():
        if Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").startswith(("sshd", *others)):
            os.kill(int(pid), signal.SIGKILL)


def kernel_log(node: str) -> Path:
    """What the node reads as /dev/kmsg."""
    return RACK / "nodes" / node / "hw" / "kmsg"


def overwrite(path: Path, content: bytes) -> None:
    """In place: whoever has this very file mounted or open sees it."""
    with path.open("r+b") as file:
        file.write(content)
        file.truncate()


def ironic(method: str, path: str, body: Any = None) -> Any:
    """A request to Ironic's API, as its own operator sends it."""
    word = (RACK / "secrets" / "ironic_password").read_text(encoding="utf-8").strip()
    login = base64.b64encode(f"admin:{word}".encode()).decode()
    headers = {
        "Authorization": f"Basic {login}",
        "Content-Type": "application/json",
        "X-OpenStack-Ironic-API-Version": "1.81",
    }
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:16385/v1{path}", data, headers, method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        text = answer.read()
    return json.loads(text) if text else None


def ledger_insert(node: str, kind: str, name: str, data: dict[str, Any], *, age: float) -> None:
    """An event of some time ago, which no run could write now."""
    with sqlite3.connect(RACK / "ledger.sqlite") as connection:
        connection.execute(
            "INSERT INTO events (node_id, run_id, at, kind, name, data)"
            " SELECT node_id, 'test', ?, ?, ?, ? FROM nodes WHERE name = ?",
            (time.time() - age, kind, name, json.dumps(data), node),
        )


def image(version: str) -> dict[str, Any]:
    """``gpufleet_image`` for another version of the golden image that the rack holds."""
    web = "http://10.77.0.1:8080/images"
    artifact = f"gpu-golden-{version}.tar.gz"
    return {
        "name": "gpu-golden",
        "version": version,
        "format": "ramdisk",
        "url": f"{web}/{artifact}",
        "kernel_url": f"{web}/vmlinuz",
        "manifest_url": f"{web}/gpu-golden-{version}.manifest.json",
        "checksums_url": f"{web}/SHA256SUMS",
        "signature_url": f"{web}/SHA256SUMS.asc",
        "keyring": str(RACK / "keys" / "images_signer.gpg"),
    }


def make(*targets: str) -> None:
    done(["make", "-s", *targets])


@dataclass
class Racks:
    """How many new racks these tests have had; one that others have left is none of them."""

    seen: int = 0


RACKS = Racks()


def new_rack(*settings: str) -> None:
    """A rack as new: nothing enrolled, no disk imaged, an empty ledger, nothing counted.

    One that runs is emptied, which takes seconds; it is started where it does not, or lacks what is asked for.
    """
    specs = RACK / "services.json"
    runs = {path.stem for path in (RACK / "run").glob("*.json")}
    wanted = {"ironic", *(["maas"] if "MAAS=true" in settings else [])}
    if not specs.exists() or not wanted <= runs:
        make("rack-up", *settings)
    role = CHECKOUT / "roles" / "virtual_rack" / "files"
    program = [sys.executable, str(role / "services" / "empty.py"), "--rack", str(RACK)]
    done([*program, "--rackctl", str(role / "machines" / "rackctl.py")])
    RACKS.seen += 1


def slowness() -> float:
    """How many times as long as alone something takes on this machine now, at a guess."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def orphans() -> list[int]:
    """Processes of ansible-playbook on this rack that still live."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            argv = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if any(part.endswith(b"ansible-playbook") for part in argv[:3]) and str(RACK).encode() in b"\0".join(argv):
            found.append(int(path.parent.name))
    return found


def wait_for(condition: Any, seconds: float, what: str) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited {seconds} s in vain until {what}"
        time.sleep(0.2)
