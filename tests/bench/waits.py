# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a poll of provisioner_wait costs the provisioner, for ever more nodes: requests as its server counts them.

    waits.py [--nodes 10 100 1000] [--systems maas xcatws]

The servers are those of the contract tests, a real Ironic among them where it is installed. Wanted: as many requests
for a thousand nodes as for ten, but at MAAS one for each 50, of which at most four are under way at once, and at xCAT's
web service as many as the names of these nodes take addresses; and the controller's own CPU of a poll growing no faster
than the nodes. It ends with status 1 where that is not so.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple, Optional

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "contract" / "provisioner"), str(ROOT / "tests")]

import calls  # noqa: E402
import conftest  # noqa: E402
import ironic_server  # noqa: E402
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.xcat import web  # noqa: E402
from xcat_commands.service import XcatwsSite  # noqa: E402

OUT = ROOT / "build" / "bench" / "waits.json"
#: system -> nodes of one request, where its API takes no more; and how many requests may be under way.
BLOCKS = {"maas": 50, "xcatws": web.ADDRESS // 11}  # names of ten letters
IN_FLIGHT = 4
SYSTEMS: dict[str, Any] = {one.name: one for one in (*conftest.COMMANDS, *conftest.SHIPPED)}
SYSTEMS["xcatws"] = XcatwsSite


class Poll(NamedTuple):
    system: str
    nodes: int
    requests: float
    at_once: Optional[int]
    cpu_ms: float


class InFlight:
    """How many requests are under way before a server, by what stands before it."""

    def __init__(self, proxy: Any) -> None:
        self.most = self._now = 0
        self._lock, self._pass_on = threading.Lock(), proxy._pass_on
        proxy._pass_on = self

    def __call__(self, *asked: Any) -> Any:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
        try:
            return self._pass_on(*asked)
        finally:
            with self._lock:
                self._now -= 1


def measured(system: str, site: Any, nodes: int) -> Poll:
    """Nothing is to be done for these nodes, so that the wait is one poll, after a look-up of their names."""
    batch = [{"name": name} for name in site.many(nodes)]
    flight = InFlight(site.proxy) if hasattr(site, "proxy") else None
    site.faults.forget()
    began = time.thread_time()
    told = calls.watch_all(site, "released", *batch, timeout=60)
    took = time.thread_time() - began
    asked = len(site.faults.reads)
    if len(told["verdicts"]) != nodes or not all(one["ok"] for one in told["verdicts"].values()):
        raise SystemExit(f"{system}: not all of {nodes} nodes were told")
    looks = told["polls"] + site.lookups
    return Poll(system, nodes, asked / looks, flight and flight.most, took / looks * 1000)


def wrong(polls: list[Poll]) -> list[str]:
    """Of one system, fewest nodes first."""
    few, many = polls[0], polls[-1]
    block = BLOCKS.get(few.system)
    told = [
        f"{one.system}: {one.requests:g} requests a poll of {one.nodes} nodes"
        for one in polls
        if one.requests > few.requests * (math.ceil(one.nodes / block) if block else 1)
    ]
    if any((one.at_once or 0) > IN_FLIGHT for one in polls):
        told.append(f"{few.system}: more than {IN_FLIGHT} requests at once")
    if many.cpu_ms / many.nodes > 2 * few.cpu_ms / few.nodes:
        told.append(f"{few.system}: a node costs more than twice the CPU among {many.nodes} than among {few.nodes}")
    return told


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--systems", nargs="+", default=[])
    args = parser.parse_args()
    found: list[Poll] = []
    problems: list[str] = []
    print(f"{'system':<10}{'nodes':>7}{'requests a poll':>17}{'at once':>9}{'CPU ms a poll':>15}")
    for system, kind in SYSTEMS.items():
        if (args.systems and system not in args.systems) or (system == "ironic" and ironic_server.missing()):
            continue
        with ExitStack() as stack:
            site: Any = kind(Path(stack.enter_context(tempfile.TemporaryDirectory())))
            stack.callback(site.close)
            stack.enter_context(site.in_good_health())
            polls = [measured(system, site, nodes) for nodes in sorted(set(args.nodes))]
        for one in polls:
            print(f"{one.system:<10}{one.nodes:>7}{one.requests:>17g}{one.at_once or '-':>9}{one.cpu_ms:>15.1f}")
        found += polls
        problems += wrong(polls)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps([one._asdict() for one in found], indent=1) + "\n", encoding="utf-8")
    print("\n".join(problems) or "as wanted")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
