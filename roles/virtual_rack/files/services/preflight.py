# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Is this machine fit for the rack? Installs missing Debian packages where that is allowed.

Packages here start daemons of their own (munge, slurmctld, sshd). While they are installed, a policy-rc.d
forbids that; what stood in its place before is put back afterwards, whatever happens.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

POLICY = Path("/usr/sbin/policy-rc.d")
POLICY_TEXT = "#!/bin/sh\n# Written while packages are installed that start daemons.\nexit 101\n"
PROGRAMS = ("ironic", "ironic-dbsync", "sushy-emulator")
INSTALLED = "install ok installed"


def missing_packages(wanted: list[str]) -> list[str]:
    done = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Package}\t${Status}\n", *wanted], capture_output=True, text=True, check=False
    )
    rows = (line.split("\t") for line in done.stdout.splitlines())
    present = {row[0] for row in rows if len(row) == 2 and row[1] == INSTALLED}
    return [name for name in wanted if name not in present]


@contextlib.contextmanager
def daemons_forbidden(policy: Path) -> Iterator[None]:
    """No package may start a daemon inside this context."""
    before = policy.read_bytes() if policy.exists() else None
    mode = policy.stat().st_mode & 0o7777 if before is not None else 0o755
    policy.write_text(POLICY_TEXT, encoding="utf-8")
    policy.chmod(0o755)
    try:
        yield
    finally:
        if before is None:
            policy.unlink()
        else:
            policy.write_bytes(before)
            policy.chmod(mode)


def apt_install(packages: list[str]) -> None:
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with daemons_forbidden(POLICY):
        for command in (["apt-get", "-q", "update"], ["apt-get", "-q", "-y", "--no-install-recommends", "install"]):
            argv = command + (packages if command[-1] == "install" else [])
            done = subprocess.run(argv, env=env, stdout=sys.stderr, stdin=subprocess.DEVNULL, check=False)
            if done.returncode != 0:
                raise SystemExit(f"{' '.join(argv)} exits {done.returncode}")


def by_hand(packages: list[str]) -> str:
    """The one command that a person runs where the play may not install: this program, as root."""
    sudo = [] if os.geteuid() == 0 else ["sudo"]
    return shlex.join([*sudo, sys.executable, os.path.realpath(__file__), "--install", *packages])


def problems(asked: argparse.Namespace) -> tuple[list[str], dict[str, Any]]:
    found = []
    told: dict[str, Any] = {"changed": False, "installed": []}
    root = os.geteuid() == 0
    missing = missing_packages(asked.packages)
    if missing and root and asked.install:
        apt_install(missing)
        told = {"changed": True, "installed": missing}
        missing = missing_packages(asked.packages)
    if missing:
        found.append(f"Debian packages are missing: {' '.join(missing)}. Run this command:\n  {by_hand(missing)}")
    if not root:
        found.append(
            "The rack needs root: it makes network namespaces, mounts and a bridge. Run it as root, for example:\n"
            "  sudo make rack-up"
        )
    programs = [asked.venv / "bin" / name for name in PROGRAMS] if asked.venv else []
    absent = [program for program in programs if not program.exists()]
    if absent:
        found.append(
            f"{absent[0]} is not there. Make the rack's virtual environment from its lock file:\n"
            f"  python3 -m venv {asked.venv} && {asked.venv}/bin/pip install -r {asked.lock}"
        )
    return found, told


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("packages", nargs="*", help="Debian packages that have to be there")
    parser.add_argument("--install", action="store_true", help="install those that are missing")
    parser.add_argument("--venv", type=Path, help="virtual environment that has to hold Ironic and sushy-tools")
    parser.add_argument("--lock", type=Path, help="the lock file that it is made from")
    # Ended from outside, the context above must still be left in order.
    signal.signal(signal.SIGTERM, lambda *_told: sys.exit("ended by SIGTERM"))
    found, told = problems(parser.parse_args())
    if found:
        print("\n".join(found), file=sys.stderr)
        return 1
    print(json.dumps(told))
    return 0


if __name__ == "__main__":
    sys.exit(main())
