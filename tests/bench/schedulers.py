# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the schedulers' drivers cost: one look at all nodes, and the hold and the resume of many.

    schedulers.py [--nodes 5000] [--held 1000] [--loop 50] [--only slurm slurmrestd kubernetes]

Beside the look the bare requests and the parse of the same answers, in CPU of the process that asks (the servers are
processes of their own) and in memory; beside holds what people type in a loop: scontrol update of one node after the
other, kubectl cordon where there is a kubectl, else a bare client. Slurm is a real slurmctld without any slurmd, where
it is installed, and slurmrestd the stand-in of the tests before it; Kubernetes is the server of the tests, with nodes
of about 26 kB as real ones are. Figures, with the load of the machine: build/bench/schedulers.json. It fails where
something did not work; slowness is in the table.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Optional

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))
import bench  # noqa: E402
import requests  # noqa: E402
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Changed  # noqa: E402
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import WORK  # noqa: E402
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.registry import open_scheduler  # noqa: E402
from contract.scheduler import slurm_cluster, slurm_rest  # noqa: E402
from kube_server.people import People  # noqa: E402
from kube_server.server import KubeServer  # noqa: E402

OUT = bench.OUT / "schedulers.json"
TOKEN, TIMES_BARE, CALLS = "gpufleet:bench:bench", 1.3, 5
Row = dict[str, Any]


# -- how it is measured --------------------------------------------------------------------------------------------


def measured(work: Callable[[], Any]) -> Row:
    """In a process of its own, so that memory and CPU are those of the work alone."""
    ours, theirs = multiprocessing.get_context("fork").Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(target=_measured, args=(work, theirs))
    child.start()
    theirs.close()
    found: Row = ours.recv()
    child.join()
    if "failed" in found:
        raise SystemExit(f"it did not work: {found['failed']}")
    return found


def _measured(work: Callable[[], Any], pipe: Any) -> None:
    try:
        began, before = time.monotonic(), _cpu()
        counted = work()
        wall, used = time.monotonic() - began, [one - two for one, two in zip(_cpu(), before, strict=True)]
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        about = {"seconds": round(wall, 3), "cpu": round(used[0], 3), "cpu_of_commands": round(used[1], 3)}
        pipe.send({**about, "most_mb": round(most), "count": counted})
    except BaseException as exc:
        pipe.send({"failed": f"{type(exc).__name__}: {exc}"})


def _cpu() -> list[float]:
    found = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return [one.ru_utime + one.ru_stime for one in found]


class Site:
    """A scheduler with its nodes, and what a person would do without us."""

    NAME, LOOP = "", ""

    def __init__(self, names: list[str], options: Mapping[str, Any]) -> None:
        self.names, self.options = names, {"scheduler": self.NAME.replace("slurmrestd", "slurm"), **options}

    def open(self) -> Any:
        return open_scheduler(self.options, node="")

    def bare(self) -> int:
        """The same answers, asked for and parsed; how many nodes there were."""
        raise NotImplementedError

    def one(self, name: str) -> None:
        """A person takes this node out of service."""
        raise NotImplementedError

    # -- the work ----------------------------------------------------------------------------------------------

    def looked(self) -> int:
        found = self.open().states(self.names)
        assert not any(view.absent or view.unread for view in found.values())
        return len(found)

    def held(self, count: int) -> int:
        return self._written(count, lambda driver, views: driver.hold_each([(view, TOKEN, WORK) for view in views]))

    def resumed(self, count: int) -> int:
        return self._written(count, lambda driver, views: driver.resume_each(views))

    def _written(self, count: int, write: Callable[[Any, list[Any]], Mapping[str, Exception]]) -> int:
        """Those that have changed since the look are looked at anew, as the verbs do it."""
        driver, left = self.open(), self.names[:count]
        for _look in range(5):
            failed = write(driver, list(driver.states(left).values()))
            others = [one for one in failed.values() if not isinstance(one, Changed)]
            assert not others, others[0]
            left = list(failed)
            if not left:
                return count
        raise AssertionError(f"{len(left)} nodes change again and again")

    def looped(self, count: int) -> int:
        for name in self.names[-count:]:
            self.one(name)
        return count


# -- Slurm ---------------------------------------------------------------------------------------------------------


class Slurm(Site):
    NAME, LOOP = "slurm", "scontrol update, one after the other"

    def __init__(self, cluster: Any, names: list[str], options: Mapping[str, Any]) -> None:
        super().__init__(names, options)
        self.cluster = cluster

    def bare(self) -> int:
        env = {**os.environ, "SLURM_CONF": str(self.cluster.conf), "LC_ALL": "C"}
        argv = ["scontrol", "--all", "-o", "show", "node", ",".join(self.names)]
        told = subprocess.run(argv, env=env, capture_output=True, text=True, check=True).stdout
        return len([dict(re.findall(r"(\w+)=(\S*)", line)) for line in told.splitlines() if line])

    def one(self, name: str) -> None:
        self.cluster.update(name, "State=DRAIN", "Reason=bench")


class SlurmRest(Slurm):
    NAME, LOOP = "slurmrestd", "POST node/NAME, one after the other"

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        token = Path(self.options["scheduler_token_path"]).read_text(encoding="ascii").strip()
        headers = {"X-SLURM-USER-NAME": "root", "X-SLURM-USER-TOKEN": token}
        url = f"{self.options['scheduler_url']}/slurm/v0.0.44/{path}"
        return json.loads(requests.request(method, url, json=body, headers=headers, timeout=120).content)

    def bare(self) -> int:
        return len(self._ask("GET", "nodes/")["nodes"])

    def one(self, name: str) -> None:
        self._ask("POST", f"node/{name}", {"state": ["DRAIN"], "reason": "bench"})


class Answers(slurm_rest.Newer):
    """With as much of a node as the real one tells: 12.8 MB for 5,004 of them."""

    def _node(self, line: str) -> Row:
        more = {f"counted_{one}": {"set": True, "infinite": False, "number": one} for one in range(38)}
        return {**super()._node(line), **more}


class Controller(slurm_cluster.Cluster):
    """slurmctld alone: nobody is asked whether he lives, so that all nodes stay as they are."""

    def __init__(self, root: Path, names: str) -> None:
        super().__init__(root, slurmd_timeout=0)
        self._names = names

    def start(self) -> None:
        slurm_cluster.NODES, kept = (), slurm_cluster.NODES
        try:
            super().start()
        finally:
            slurm_cluster.NODES = kept

    def write_conf(self) -> None:
        super().write_conf()
        told = self.conf.read_text(encoding="ascii")
        lines = [line for line in told.splitlines() if not line.startswith(("NodeName=", "PartitionName="))]
        nodes = f"NodeName={self._names} NodeHostname=localhost NodeAddr=127.0.0.1 Port={self._ports[0]} CPUs=1"
        lines += [
            f"{nodes} RealMemory=100 State=UNKNOWN",
            f"PartitionName=gpu Nodes={self._names} Default=YES State=UP",
        ]
        self.conf.write_text("\n".join([*lines, "ReturnToService=0", "TreeWidth=65533", ""]), encoding="ascii")


@contextmanager
def slurms(count: int) -> Iterator[list[Site]]:
    root = Path(tempfile.mkdtemp(prefix="gpufleet-bench-"))
    root.chmod(0o755)
    made = Controller(root, f"gpu[0001-{count:04d}]")
    names = [f"gpu{number:04d}" for number in range(1, count + 1)]
    try:
        made.start()
        with apart(lambda: Answers(made)) as url:
            token = slurm_rest.token_file(root / "token", slurm_rest.token(made))
            rest = {"scheduler_url": url, "scheduler_token_path": token, "scheduler_slurm_user": "root"}
            yield [Slurm(made, names, {"scheduler_conf": str(made.conf)}), SlurmRest(made, names, rest)]
    finally:
        made.stop()
        shutil.rmtree(root, ignore_errors=True)


@contextmanager
def apart(begin: Callable[[], Any]) -> Iterator[str]:
    """A server in a process of its own; its address."""
    ours, theirs = multiprocessing.get_context("fork").Pipe(duplex=False)

    def serves() -> None:
        theirs.send(begin().url)
        time.sleep(86400)

    child = multiprocessing.get_context("fork").Process(target=serves, daemon=True)
    child.start()
    try:
        yield ours.recv()
    finally:
        child.terminate()
        child.join()


# -- Kubernetes ----------------------------------------------------------------------------------------------------


class Kubernetes(Site):
    NAME = "kubernetes"
    LOOP = "kubectl cordon" if shutil.which("kubectl") else "PATCH of a bare client, one after the other"

    def bare(self) -> int:
        """By the same selectors and pages, and the pods."""
        session, counted = requests.Session(), 0
        session.headers["Authorization"] = "Bearer secret"
        for first in range(0, len(self.names), 400):
            some = ",".join(self.names[first : first + 400])
            counted += self._pages(session, "nodes", {"labelSelector": f"kubernetes.io/hostname in ({some})"})
        self._pages(session, "pods", {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"})
        return counted

    def _pages(self, session: Any, kind: str, query: Mapping[str, str]) -> int:
        counted, token = 0, ""
        while True:
            asked = {**query, "limit": "500", **({"continue": token} if token else {})}
            answer = session.get(f"{self.options['scheduler_url']}/api/v1/{kind}", params=asked, timeout=120)
            page = json.loads(answer.content)
            counted += len(page["items"])
            token = page["metadata"].get("continue", "")
            if not token:
                return counted

    def one(self, name: str) -> None:
        program = shutil.which("kubectl")
        if program:
            where = [f"--server={self.options['scheduler_url']}"]
            subprocess.run([program, *where, "cordon", name], check=True, capture_output=True)
            return
        headers = {"Authorization": "Bearer secret", "Content-Type": "application/strategic-merge-patch+json"}
        url = f"{self.options['scheduler_url']}/api/v1/nodes/{name}"
        requests.get(url, headers=headers, timeout=60).raise_for_status()
        requests.patch(url, json={"spec": {"unschedulable": True}}, headers=headers, timeout=60).raise_for_status()


def _cluster(names: list[str]) -> KubeServer:
    # kubectl sends no token without TLS.
    server = KubeServer({"secret": "bench", "": "bench"})
    people = People(server.cluster)
    images = [{"names": [f"registry.example.com/image-{one}@sha256:{one:064x}"], "sizeBytes": one} for one in range(50)]
    marks = {f"feature.node.kubernetes.io/cpu-{one}": "true" for one in range(100)}
    for name in names:
        people.node(name)["status"]["images"] = images
        server.cluster.of("nodes")["", name]["metadata"]["labels"].update(marks)
        server.cluster.of("nodes")["", name]["metadata"]["annotations"] = {"example.com/fill": "x" * 14_000}
    return server


@contextmanager
def kubernetes(count: int) -> Iterator[list[Site]]:
    names = [f"gpu{number:04d}" for number in range(1, count + 1)]
    with apart(lambda: _cluster(names)) as url:
        yield [Kubernetes(names, {"scheduler_url": url, "scheduler_token": "secret"})]


# -- the table -----------------------------------------------------------------------------------------------------


def told(site: Site, held: int, loop: int) -> Row:
    bare, look = measured(site.bare), measured(site.looked)
    cpus = [one["cpu"] + one["cpu_of_commands"] for one in (look, bare)]
    row: Row = {"bare": bare, "look": look, "look_times_bare_cpu": round(cpus[0] / max(cpus[1], 0.001), 2)}
    row["look_times_bare_seconds"] = round(look["seconds"] / max(bare["seconds"], 0.001), 2)
    row["hold"], row["resume"] = (measured(lambda: site.held(held)), measured(lambda: site.resumed(held)))
    row["loop"], row["loop_is"] = measured(lambda: site.looped(loop)), site.LOOP
    for name in ("hold", "resume", "loop"):
        row[f"{name}_each_second"] = round(row[name]["count"] / row[name]["seconds"], 1)
    return row


def line(name: str, row: Row) -> str:
    look, times = row["look"], row["look_times_bare_cpu"]
    told = f"{name:<11} {look['count']:>6} {look['seconds']:>7.2f} {times:>7.2f} {look['most_mb']:>6}"
    rates = "  ".join(f"{row[f'{one}_each_second']:>9.1f}" for one in ("hold", "resume", "loop"))
    return f"{told}  {rates}  {row['loop_is']}"


def main(argv: Optional[list[str]] = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--held", type=int, default=1000)
    parser.add_argument("--loop", type=int, default=50)
    parser.add_argument("--only", nargs="*", default=["slurm", "slurmrestd", "kubernetes"])
    asked = parser.parse_args(argv)
    found: Row = {"nodes": asked.nodes, "load": os.getloadavg(), "cores": os.cpu_count(), "wanted": TIMES_BARE}
    print(f"load {found['load'][0]:.1f} on {found['cores']} cores")
    print("              nodes  look s  x bare     MB     hold/s   resume/s     loop/s  the loop is")
    missing = slurm_cluster.missing()
    if missing:
        print(f"slurm, slurmrestd: not measured, {missing}")
    for sites in (slurms, kubernetes):
        if sites is slurms and missing:
            continue
        with sites(asked.nodes) as made:
            for site in (one for one in made if one.NAME in asked.only):
                found[site.NAME] = told(site, asked.held, asked.loop)
                print(line(site.NAME, found[site.NAME]), flush=True)
    found["load_after"] = os.getloadavg()
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
