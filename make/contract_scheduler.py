# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Does a driver keep its contract with a site's own scheduler?

    contract_scheduler.py slurm|slurmrestd|kubernetes ENDPOINT --prefix NAMES [--timeout S] [--interval S] ...

On the nodes whose names begin with the prefix, and on no others; each has to be in service, idle and held by nobody.
ENDPOINT is the path of slurm.conf, or the URL of slurmrestd or of Kubernetes's API server. The rest of the connection
comes from the environment, as GPUFLEET_SCHEDULER_TOKEN_PATH and so on. The exit status is 0 where all that was tried
has passed, 1 where something has not, 2 where nothing was tried.
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import keep_secret
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler import names
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import NodeView, Scheduler
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.registry import open_scheduler
from ansible_collections.gpufleet.baremetal.plugins.module_utils._text import harmless_all
from contract import Refused, certificates, certified
from contract_scheduler_scenarios import Plan, Trial, tried
from contract_systems import UNTOLD, Selector

#: By what is called DRIVER: the driver, and which of its options ENDPOINT is.
WAYS: Mapping[str, tuple[str, str]] = {
    "slurm": ("slurm", "scheduler_conf"),
    "slurmrestd": ("slurm", "scheduler_url"),
    "kubernetes": ("kubernetes", "scheduler_url"),
}
_SECRET = "scheduler_token"


def connection(way: str, endpoint: str) -> dict[str, Any]:
    driver, leads = WAYS[way]
    given: dict[str, Any] = {name: os.environ.get(f"GPUFLEET_{name.upper()}", "") for name in names.DRIVERS[driver]}
    lists = [name for name in given if names.OPTIONS[name]["type"] == "list"]
    given.update({name: [part for one in given[name].split(",") if (part := one.strip())] for name in lists})
    if way == "slurm":  # on a login host there is no inventory to find it in
        given.update(scheduler_url="", scheduler_login_host="")
    return {"scheduler": driver, **{name: value for name, value in given.items() if value}, leads: endpoint}


def selected(driver: Scheduler, wanted: Selector) -> tuple[str, ...]:
    """:raises Refused: where there is none, or one that is not idle and nobody's."""
    found = sorted(name for name in driver.known() if wanted.takes(name, ()))
    if not found:
        raise Refused(f"no node has {wanted}: nothing is tried")
    views = driver.states(found)
    busy = {name: why for name in found if (why := taken(views[name]))}
    if busy:
        told = "; ".join(f"{name}: {why}" for name, why in busy.items())
        raise Refused(f"nothing is tried, since of the {wanted} these are not idle and nobody's: {told}")
    return tuple(found)


def taken(view: NodeView) -> str:
    if view.holds:
        return f"held: {view.holds[0]}"
    if view.work:
        return f"{len(view.work)} jobs or pods are on it"
    return "" if view.in_service and view.state == "idle" else view.native or view.state


def version(way: str, driver: Any, name: str) -> str:
    if way == "slurm":
        return ".".join(f"{part:02d}" for part in driver._link.version())
    if way == "slurmrestd":
        return f"REST API {driver._link._spoken()[0]}"
    about = (driver.api.get(f"/api/v1/nodes/{name}") or {}).get("status", {}).get("nodeInfo", {})
    return f"kubelets {about['kubeletVersion']}" if about.get("kubeletVersion") else UNTOLD


def trial(args: argparse.Namespace) -> tuple[Trial, Selector, str]:
    if args.driver not in WAYS:
        raise Refused(f"no scheduler {args.driver}: {', '.join(WAYS)}")
    if not args.prefix.strip():
        raise Refused("say which nodes by PREFIX: without it nothing is tried")
    certificates(args)
    wanted, reached = Selector(prefix=args.prefix.strip()), connection(args.driver, args.endpoint)
    if reached.get(_SECRET):
        keep_secret(reached[_SECRET])
    driver = open_scheduler(reached, node="")
    found = selected(driver, wanted)
    say = functools.partial(print, file=sys.stderr)
    plan = Plan(reached, found, taken, args.timeout, args.interval)
    return Trial(plan, lambda line: say(f"  {line}")), wanted, version(args.driver, driver, found[0])


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("driver")
    parser.add_argument("endpoint")
    parser.add_argument("--prefix", default="")
    parser.add_argument("--timeout", type=float, default=3600.0)
    parser.add_argument("--interval", type=float, default=10.0)
    parser.add_argument("--report", default="build/contract")
    args = parser.parse_args(argv)
    try:
        found, wanted, told = trial(args)
    except (Refused, FleetError, OSError) as exc:
        print(harmless_all(f"nothing was tried: {exc}"), file=sys.stderr)
        return 2
    return certified(args, told, wanted, found.machines, tried(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
