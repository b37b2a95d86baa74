# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Does a driver keep its contract with a site's own provisioner?

    contract.py DRIVER ENDPOINT --tag TAG|--prefix NAMES [--image FILE] [--boot COMMAND] [--named NAME,NAME] ...

On the machines of one tag or prefix, and on no others. Credentials come from the environment:
GPUFLEET_PROVISIONER_API_KEY, or GPUFLEET_PROVISIONER_USERNAME and GPUFLEET_PROVISIONER_PASSWORD; or from clouds.yaml,
where GPUFLEET_PROVISIONER_CLOUD and ENDPOINT both name one of its clouds. The exit status is 0
where all that was tried has passed, 1 where something has not, 2 where nothing was tried: no selector, none selected,
or one that is in somebody's service.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import keep_secret
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import login_host, names, registry
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import (
    ENROLLED,
    READY,
    NodeState,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._text import harmless_all
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from contract_outcomes import FAILED, NOT_APPLICABLE, NOT_TRIED, PASSED, Outcome
from contract_scenarios import Guard, Machine, Plan, Trial, tried
from contract_systems import SYSTEMS, Selector

#: States of a machine that nobody uses.
_FREE = (ENROLLED, READY)
_SECRET = ("provisioner_api_key", "provisioner_password")


class Refused(Exception):
    """Nothing is tried."""


def connection(driver: str, endpoint: str) -> dict[str, str]:
    """The driver's own options, out of the environment but for its address."""
    options = {name: os.environ.get(f"GPUFLEET_{name.upper()}", "") for name in names.DRIVERS[driver]}
    options[login_host.OPTION] = ""  # there is no inventory to find it in
    cloud = options.get("provisioner_cloud", "")
    if cloud and cloud != endpoint:
        raise Refused(
            f"GPUFLEET_PROVISIONER_CLOUD is {cloud}, so the driver would speak to that cloud and not to {endpoint}: say"
            f" ENDPOINT={cloud}, or unset GPUFLEET_PROVISIONER_CLOUD"
        )
    if cloud:  # address and login are those of clouds.yaml
        return {"provisioner": driver, "provisioner_cloud": cloud}
    return {"provisioner": driver, **{k: v for k, v in options.items() if v}, "provisioner_url": endpoint}


def selector(tag: str, prefix: str) -> Selector:
    if bool(tag.strip()) == bool(prefix.strip()):
        raise Refused("say which machines by TAG or by PREFIX, and by one of them: without it nothing is tried")
    return Selector(tag.strip(), prefix.strip())


def selected(driver: Any, kind: str, wanted: Selector, named: frozenset[str]) -> tuple[Machine, ...]:
    """:raises Refused: where there is none, or one that somebody uses and that was not named."""
    found = SYSTEMS[kind].machines(driver, wanted)
    if not found:
        raise Refused(f"no machine has the {wanted}: nothing is tried")
    states = driver.states(sorted(found.values()))
    by_name = {name: states.get(key) for name, key in sorted(found.items())}
    taken = {name: why for name, one in by_name.items() if (why := _taken(one, name in named))}
    if taken:
        told = "; ".join(f"{name}: {why}" for name, why in taken.items())
        raise Refused(f"nothing is tried, since of the {wanted} these are not free: {told}")
    return tuple(_known(driver, name, one) for name, one in by_name.items() if one is not None)


def _taken(one: NodeState | None, is_named: bool) -> str:
    """Why this machine is not to be tried. Who names it says that its work may end, and takes nothing of others."""
    if one is None:
        return "its state is not told"
    if one.foreign or one.hold or one.maintenance:
        return one.foreign or f"held: {one.hold or 'in maintenance'}"
    if one.state not in _FREE and not is_named:
        return f"it is {one.native}; whoever wants it tried all the same names it: NAMED={one.name or one.id}"
    return ""


def _known(driver: Any, name: str, one: NodeState) -> Machine:
    macs = sorted(driver.network(one, ask=True).macs)
    serials = [serial for serial in driver.serials(one, ask=True).values() if serial]
    card = macs[0] if len(macs) == 1 else ""
    return Machine(name, one.id, boot_mac=card, serial=serials[0] if serials else "", serves=one.state not in _FREE)


def certificate(
    kind: str, version: str, endpoint: str, wanted: Selector, machines: Sequence[Machine], outcomes: Sequence[Outcome]
) -> dict[str, Any]:
    counts = {
        word: sum(one.outcome == word for one in outcomes) for word in (PASSED, FAILED, NOT_APPLICABLE, NOT_TRIED)
    }
    galaxy = yaml.safe_load((Path(__file__).resolve().parent.parent / "galaxy.yml").read_text(encoding="utf-8"))
    return {
        "schema_version": 1,
        "collection": f"{galaxy['namespace']}.{galaxy['name']} {galaxy['version']}",
        "driver": kind,
        "system": version,
        "endpoint": endpoint,
        "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "selector": str(wanted),
        "machines": [one.name for one in machines],
        "passed": counts[PASSED] > 0 and not counts[FAILED] and not counts[NOT_TRIED],
        "counts": counts,
        "scenarios": [asdict(one) for one in outcomes],
    }


def as_text(told: Mapping[str, Any]) -> str:
    head = [
        f"{told['driver']} ({told['system']}) at {told['endpoint']}, tried by {told['collection']}, {told['when']}",
        f"machines: {', '.join(told['machines'])} ({told['selector']}), and no others",
        "",
    ]
    rows = [
        f"{one['outcome']:<15}{one['machine'] or 'all':<20} {one['scenario']}, {one['seconds']:g} s,"
        f" {one['writes']} writes" + (f": {one['words']}" if one["words"] else "")
        for one in told["scenarios"]
    ]
    counts = ", ".join(f"{count} {word}" for word, count in told["counts"].items() if count)
    return "\n".join([*head, *rows, "", f"{'PASSED' if told['passed'] else 'NOT PASSED'}: {counts}", ""])


def _yaml(path: str) -> dict[str, Any]:
    found = yaml.safe_load(Path(path).read_text(encoding="utf-8")) if path else {}
    if not isinstance(found, dict):
        raise Refused(f"{path} has no mapping")
    inner = found.get("gpufleet_image", found)
    if not isinstance(inner, dict):
        raise Refused(f"gpufleet_image in {path} is no mapping: {inner}")
    return dict(inner)


def _image(path: str) -> dict[str, Any] | None:
    """None where no file was named; of one that says nothing, what it was to say would count as not applicable."""
    found = _yaml(path)
    if path and not found:
        raise Refused(f"{path} says nothing of an image")
    return found or None


def certificates(args: argparse.Namespace) -> tuple[Path, Path]:
    """Where they are to lie. Asked before anything is tried, which may take hours.

    :raises Refused: where they cannot be written there.
    """
    folder = Path(args.report)
    paths = folder / f"{args.driver}.json", folder / f"{args.driver}.txt"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in paths:
            new = not path.exists()
            path.open("a", encoding="utf-8").close()
            if new:
                path.unlink()
    except OSError as exc:
        raise Refused(f"no certificate can be written into {folder} (REPORT): {exc}") from exc
    return paths


def trial(args: argparse.Namespace) -> tuple[Trial, Selector, str]:
    wanted = selector(args.tag, args.prefix)
    if args.driver not in SYSTEMS:
        raise Refused(f"no driver {args.driver}: {', '.join(SYSTEMS)}")
    image, given = _image(args.image), _yaml(args.options)
    certificates(args)
    reached = connection(args.driver, args.endpoint)
    secrets = {key: reached[key] for key in _SECRET if reached.get(key)}
    for secret in secrets.values():
        keep_secret(secret)
    nobody = Context(lifeline=Guard(frozenset()))
    with registry.connected(reached, nobody) as driver:
        named = frozenset(filter(None, (one.strip() for one in args.named.split(","))))
        machines = selected(driver, args.driver, wanted, named)
        version = SYSTEMS[args.driver].version(driver)
        if "provisioner_cloud" in reached:  # its name says to nobody else where that is
            args.endpoint = f"{driver.address} (cloud {args.endpoint})"
    plan = Plan(
        connection=reached,
        machines=machines,
        image=image,
        options=given,
        boot=args.boot,
        erase=args.erase,
        timeout=args.timeout,
        interval=args.interval,
        secrets=secrets,
    )

    def taken(one: Machine) -> str:
        with registry.connected(reached, nobody) as driver:
            return _taken(driver.states([one.id]).get(one.id), one.serves)

    say = functools.partial(print, file=sys.stderr)
    return Trial(plan, registry.DRIVERS[args.driver], lambda line: say(f"  {line}"), taken), wanted, version


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("driver")
    parser.add_argument("endpoint")
    for name in ("tag", "prefix", "named", "image", "boot", "options"):
        parser.add_argument(f"--{name}", default="")
    parser.add_argument("--timeout", type=float, default=3600.0)
    parser.add_argument("--interval", type=float, default=10.0)
    parser.add_argument("--report", default="build/contract")
    parser.add_argument("--erase", action="store_true")
    return parser.parse_args(argv)


def certified(
    args: argparse.Namespace, version: str, wanted: Selector, machines: Sequence[Machine], tries: Iterable[Outcome]
) -> int:
    """Each outcome as it comes, then the certificate, in the folder of reports and on the terminal."""
    outcomes: list[Outcome] = []
    for outcome in tries:
        print(harmless_all(f"{outcome.outcome}: {outcome.machine or 'all'}: {outcome.scenario}"), file=sys.stderr)
        outcomes.append(outcome)
    told = harmless_all(certificate(args.driver, version, args.endpoint, wanted, machines, outcomes))
    print(as_text(told), end="")
    try:
        as_json, as_page = certificates(args)
    except Refused as exc:  # since the first look
        print(harmless_all(str(exc)), file=sys.stderr)
        return 1
    as_json.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    as_page.write_text(as_text(told), encoding="utf-8")
    return 0 if told["passed"] else 1


def main(argv: Sequence[str]) -> int:
    args = arguments(argv)
    try:
        found, wanted, version = trial(args)
    except (Refused, FleetError, OSError, yaml.YAMLError) as exc:
        print(harmless_all(f"nothing was tried: {exc}"), file=sys.stderr)
        return 2
    return certified(args, version, wanted, found.plan.machines, tried(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
