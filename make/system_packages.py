# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Provides the Debian packages whose programs the tests start, before the first test.

    system_packages.py LIST

As root on Debian it installs those that are missing, by the program with which the built-in rack does it, so that no
package starts a daemon. Anywhere else it says what to do: a developer's tests skip what lacks a program. In CI
(CI=true), where a skip is a failure, it fails.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

PREFLIGHT = Path(__file__).resolve().parents[1] / "roles/virtual_rack/files/services/preflight.py"
INSTALLED = "install ok installed"


def wanted(path: Path) -> list[str]:
    lines = (line.partition("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line]


def missing(packages: list[str]) -> list[str]:
    command = ["dpkg-query", "-W", "-f", "${Package}\t${Status}\n", *packages]
    lines = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
    return [name for name in packages if f"{name}\t{INSTALLED}" not in lines]


def advice(packages: list[str]) -> str:
    """Why nothing can be installed here, and the command with which it could; empty where it can."""
    if not shutil.which("dpkg-query"):
        return f"This is no Debian. Tests are skipped without what Debian calls: {' '.join(packages)}"
    lost = missing(packages)
    if lost and os.geteuid() != 0:
        return f"Tests are skipped without the Debian packages {' '.join(lost)}. Run:  sudo make setup-system"
    return ""


def in_ci() -> bool:
    """There a skipped test has failed."""
    return os.environ.get("CI", "").lower() in ("true", "1")


def main() -> int:
    packages = wanted(Path(sys.argv[1]))
    told = advice(packages)
    if told:
        print(told, file=sys.stderr)
        return int(in_ci())
    lost = missing(packages)
    if not lost:
        return 0
    print(f"installing {' '.join(lost)}", flush=True)
    # It installs first and then says whether the machine is fit for the rack, which is another question.
    subprocess.run([sys.executable, str(PREFLIGHT), "--install", *lost], check=False)
    lost = missing(packages)
    for name in lost:  # apt-get installs nothing at all where one of them is none that it knows
        subprocess.run([sys.executable, str(PREFLIGHT), "--install", name], check=False)
    lost = missing(packages)
    if lost:
        print(
            f"Tests are skipped without the Debian packages {' '.join(lost)}, which are not to be had here",
            file=sys.stderr,
        )
    return int(bool(lost) and in_ci())


if __name__ == "__main__":
    sys.exit(main())
