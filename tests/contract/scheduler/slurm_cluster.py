# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real Slurm of a few nodes on loopback, in one folder: munged, slurmctld, and one slurmd a node."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Callable

import pytest

PROGRAMS = ("munged", "slurmctld", "slurmd", "scontrol", "squeue", "sbatch", "scancel")
NODES = ("gpu001", "gpu002", "gpu003")
#: Configured as a node of the cluster, and no slurmd ever starts for it.
DEAD = "gpu004"
#: As DEAD, and in no partition but the hidden one.
SECLUDED = "gpu005"
#: A partition that people without rights are not shown.
HIDDEN = "quiet"

_CONF = """\
ClusterName=gpufleet-test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ctld_port}
SlurmUser=root
AuthType=auth/munge
CryptoType=crypto/munge
AuthInfo=socket={root}/munge.socket
SlurmctldPidFile={root}/slurmctld.pid
SlurmctldLogFile={root}/slurmctld.log
StateSaveLocation={root}/state
SlurmdPidFile={root}/slurmd.%n.pid
SlurmdSpoolDir={root}/spool.%n
SlurmdLogFile={root}/slurmd.%n.log
SlurmdTimeout={slurmd_timeout}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
SwitchType=switch/none
ReturnToService=0
MailProg=/bin/true
KillWait=2
Epilog={root}/epilog
{rest}
{nodes}
PartitionName=gpu Nodes={shown} Default=YES MaxTime=INFINITE State=UP {above}
PartitionName={hidden} Nodes=ALL Hidden=YES MaxTime=INFINITE State=UP {above}
{yields}"""

#: A partition whose jobs give way to any other, as a site keeps it for verifications.
VERIFY = "verify"
_YIELDS = (
    f"PartitionName={VERIFY} Nodes=gpu00[1-3] PriorityTier=1 PreemptMode=CANCEL GraceTime=0 MaxTime=40 State=UP"
    " Hidden=YES RootOnly=YES OverSubscribe=EXCLUSIVE\n"
)
_DISPLACES = ("PreemptType=preempt/partition_prio", "PreemptMode=REQUEUE")
_ABOVE = "PriorityTier=100 PreemptMode=OFF"

_JWT = "AuthAltTypes=auth/jwt\nAuthAltParameters=jwt_key={root}/jwt.key"


def missing() -> str:
    """Why no cluster can be started here; empty where one can."""
    absent = [name for name in PROGRAMS if shutil.which(name, path=_path()) is None]
    if absent:
        return f"needs the Debian packages munge, slurmctld, slurmd and slurm-client ({', '.join(absent)} not found)"
    return "" if os.geteuid() == 0 else "needs root: munged and slurmd are started"


def _path() -> str:
    return os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def _free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago; all are held at once so that none is given twice."""
    holders = [socket.socket() for _number in range(count)]
    try:
        for holder in holders:
            holder.bind(("127.0.0.1", 0))
        return [holder.getsockname()[1] for holder in holders]
    finally:
        for holder in holders:
            holder.close()


def _lives(pid: int) -> bool:
    """A zombie that nobody has reaped yet is dead."""
    try:
        return bool(pid) and Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Cluster:
    """Started by :meth:`start`; each process is ended by its own pid in :meth:`stop`."""

    def __init__(self, root: Path, slurmd_timeout: int = 10, topology: str = "", yields: bool = False) -> None:
        self.root = root
        self.conf = root / "slurm.conf"
        self._slurmd_timeout = slurmd_timeout
        #: Has it the partition VERIFY?
        self._yields = yields
        #: Further lines of slurm.conf.
        self._more: tuple[str, ...] = ()
        #: What stands in topology.conf at the start; a cluster without any has no TopologyPlugin.
        self._topology = topology
        self._memory = dict.fromkeys((*NODES, DEAD, SECLUDED), 100)
        self._ports = _free_ports(len(self._memory) + 1)
        #: slurmctld takes the tokens that slurmrestd is given.
        self.tokens = shutil.which("slurmrestd", path=_path()) is not None
        # A test may put a faulty command before the real one: what people and daemons do goes past it.
        self._path = _path()

    # -- life --------------------------------------------------------------------------------------------------

    def start(self) -> None:
        for folder in ("state", *(f"spool.{node}" for node in NODES)):
            (self.root / folder).mkdir(mode=0o755)
        key = self.root / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)
        secret = self.root / "jwt.key"
        secret.touch(mode=0o600)
        secret.write_bytes(secrets.token_bytes(32))
        self.set_epilog("exit 0")
        self.write_conf()
        if self._topology:
            (self.root / "topology.conf").write_text(self._topology, encoding="ascii")
        self._spawn(
            "munged", "--force", f"--key-file={key}", f"--socket={self.root}/munge.socket",
            f"--pid-file={self.root}/munged.pid", f"--log-file={self.root}/munged.log",
            f"--seed-file={self.root}/munge.seed",
        )  # fmt: skip
        self._spawn("slurmctld", "-f", str(self.conf))
        self.wait_for(lambda: "is UP" in self.scontrol("ping", check=False), "slurmctld answers")
        for node in NODES:
            self.boot(node)
        for node in NODES:
            self.wait_for(lambda node=node: self.state(node) == "IDLE", f"{node} is idle")

    def stop(self) -> None:
        for name in (*(f"slurmd.{node}" for node in NODES), "slurmctld", "munged"):
            self._end(name)
        for pid in self._step_daemons():
            os.kill(pid, signal.SIGKILL)

    def _step_daemons(self) -> list[int]:
        """Those of this cluster's jobs: they outlive the slurmd that started them."""
        ours = f"SLURM_CONF={self.conf}".encode()
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            try:
                if (path / "comm").read_text().startswith("slurmstepd") and ours in (
                    path / "environ"
                ).read_bytes().split(b"\0"):
                    found.append(int(path.name))
            except OSError:
                continue
        return found

    def boot(self, node: str, *, again: bool = False) -> None:
        """Start a node's slurmd; ``again`` makes it report a new boot, and waits until slurmctld has heard of it."""
        before, begun = self.show(node)["SlurmdStartTime"] if again else "", time.time()
        self._spawn("slurmd", "-f", str(self.conf), *(["-b"] if again else []), "-N", node)
        if again:
            self.wait_for(lambda: self.show(node)["SlurmdStartTime"] != before, f"{node} has registered", 60)
            # No machine is given work in the second in which it boots: slurmctld, which counts in whole ones, takes its
            # next word for that of another boot.
            self.wait_for(lambda: time.time() > begun + 3, f"the boot of {node} is over", 60)

    def power_off(self, node: str) -> None:
        self._end(f"slurmd.{node}")

    def write_conf(self) -> None:
        self.conf.write_text(
            _CONF.format(
                host=socket.gethostname().split(".")[0],
                ctld_port=self._ports[-1],
                root=self.root,
                slurmd_timeout=self._slurmd_timeout,
                shown=",".join((*NODES, DEAD)),
                rest="\n".join(self._rest()),
                hidden=HIDDEN,
                above=_ABOVE if self._yields else "",
                yields=_YIELDS if self._yields else "",
                nodes="\n".join(
                    f"NodeName={node} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} CPUs=1"
                    f" RealMemory={self._memory[node]} State=UNKNOWN"
                    for node, port in zip(self._memory, self._ports)
                ),
            ),
            encoding="ascii",
        )

    def _rest(self) -> list[str]:
        tokens = [_JWT.format(root=self.root)] if self.tokens else []
        tokens += (*_DISPLACES, *self._more) if self._yields else self._more
        return [*tokens, *(["TopologyPlugin=topology/tree"] if self._topology else [])]

    @contextmanager
    def configured(self, *lines: str) -> Iterator[None]:
        """With these in slurm.conf, as long as it lasts."""
        self._configure(lines)
        try:
            yield
        finally:
            self._configure(())

    def _configure(self, lines: tuple[str, ...]) -> None:
        self._more = lines
        self.write_conf()
        self.scontrol("reconfigure")

    def set_epilog(self, body: str) -> None:
        epilog = self.root / "epilog"
        draft = self.root / "epilog.new"
        draft.write_text(f"#!/bin/sh\n{body}\n", encoding="ascii")
        draft.chmod(0o755)
        draft.replace(epilog)

    # -- what an administrator types ---------------------------------------------------------------------------

    def run(self, *argv: str, check: bool = True) -> str:
        env = {**os.environ, "SLURM_CONF": str(self.conf), "PATH": self._path, "LC_ALL": "C"}
        argv = (shutil.which(argv[0], path=self._path) or argv[0], *argv[1:])
        done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=300, check=False)
        if check and done.returncode != 0:
            raise AssertionError(f"{argv}: rc {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def scontrol(self, *argv: str, check: bool = True) -> str:
        return self.run("scontrol", *argv, check=check)

    def update(self, node: str, *what: str) -> None:
        self.scontrol("update", f"NodeName={node}", *what)

    def show(self, node: str) -> dict[str, str]:
        text = self.scontrol("show", "node", node)
        # The first one counts: a Reason may hold anything.
        found = dict(reversed([pair.split("=", 1) for pair in text.split() if "=" in pair]))
        reason = [line.strip()[7:] for line in text.splitlines() if line.strip().startswith("Reason=")]
        found["Reason"] = reason[0].rsplit(" [", 1)[0] if reason else ""
        return found

    def state(self, node: str) -> str:
        return self.show(node)["State"]

    def job(self, node: str, seconds: float = 600, partition: str = "gpu") -> str:
        """Submit a job to a node; returns its id when it runs."""
        number = self.run(
            "sbatch", "--parsable", "-p", partition, "-w", node, "-n", "1", "--mem=1", "-D", "/", "-o", "/dev/null",
            f"--wrap=exec sleep {seconds}",
        ).strip()  # fmt: skip
        self.wait_for(lambda: "RUNNING" in self.run("squeue", "-h", "-j", number, "-o", "%T"), f"job {number} runs")
        return number

    def end_job(self, number: str) -> None:
        self.run("scancel", number)
        listed = ("squeue", "-h", "-j", number, "-o", "%T")
        self.wait_for(lambda: "RUNNING" not in self.run(*listed, check=False), f"job {number} ends")

    def set_memory(self, node: str, megabytes: int) -> None:
        """Change what slurm.conf wants of a node, and make everybody read it."""
        self._memory[node] = megabytes
        self.write_conf()
        self.scontrol("reconfigure")

    def in_service(self, *nodes: str) -> None:
        """Bring nodes back to idle, whatever a test left behind."""
        for node in nodes:
            for number in self.run("squeue", "-h", "-w", node, "-o", "%i", check=False).split():
                self.run("scancel", number, check=False)
            if not self.alive(f"slurmd.{node}"):
                self.boot(node)
        for node in nodes:
            self.wait_for(lambda node=node: not self.run("squeue", "-h", "-w", node).strip(), f"{node} has no job", 30)
            if self.state(node) != "IDLE":
                self.scontrol("update", f"NodeName={node}", "State=RESUME", check=False)
                # A slurmd that starts registers at once; a running one waits to be asked, for seconds.
                self.power_off(node)
                self.boot(node)
        for node in nodes:
            self.wait_for(lambda node=node: self.state(node) == "IDLE", f"{node} is idle", 30)

    # -- processes ---------------------------------------------------------------------------------------------

    def wait_for(self, true: Callable[[], bool], what: str, seconds: float = 20) -> None:
        end = time.monotonic() + seconds
        while not true():
            if time.monotonic() > end:
                nodes = self.scontrol("-o", "show", "nodes", check=False)
                raise AssertionError(f"not within {seconds} s: {what}\n{nodes}")
            time.sleep(0.1)

    def _spawn(self, program: str, *argv: str) -> None:
        path = shutil.which(program, path=self._path)
        assert path, program
        env = {**os.environ, "SLURM_CONF": str(self.conf), "PATH": self._path}
        # The daemons put themselves into the background, and keep no pipe of ours open.
        done = subprocess.run(
            [path, *argv], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, (program, argv, done.returncode)

    def _pid(self, name: str) -> int:
        try:
            return int((self.root / f"{name}.pid").read_text(encoding="ascii").strip())
        except (OSError, ValueError):
            return 0

    def alive(self, name: str) -> bool:
        return _lives(self._pid(name))

    def _end(self, name: str) -> None:
        pid = self._pid(name)
        if not _lives(pid):
            return
        with suppress(ProcessLookupError):  # it may end by itself between a look and a signal
            os.kill(pid, signal.SIGTERM)
            end = time.monotonic() + 10
            while _lives(pid) and time.monotonic() < end:
                time.sleep(0.05)
            if _lives(pid):
                os.kill(pid, signal.SIGKILL)


@contextmanager
def running(**how: Any) -> Iterator[Cluster]:
    """One for as long as it is needed, as :class:`Cluster` has it. Where a program is missing the test is skipped."""
    reason = missing()
    if reason:
        pytest.skip(reason)
    root = Path(tempfile.mkdtemp(prefix="gpufleet-slurm-"))
    root.chmod(0o755)
    made = Cluster(root, **how)
    try:
        made.start()
        yield made
    finally:
        made.stop()
        shutil.rmtree(root, ignore_errors=True)
