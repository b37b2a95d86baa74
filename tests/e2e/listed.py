# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the playbooks run out of: what the execution environment's lists name, and nothing of the tests' own.

Its Python has what ``meta/ee-requirements.txt`` names and ansible-core, as links into the environment of the tests, so
that nothing is fetched. PATH leads to the programs of the packages of ``meta/ee-bindep.txt``, of what they need, and of
what each Debian has. What a playbook needs besides is missing here as it would be in an image.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from contract.docs.declared import environment
from suite import debian, playbook

CHECKOUT = Path(__file__).resolve().parents[2]
META = CHECKOUT / "meta"


@functools.cache
def _made() -> tuple[Path, Path]:
    folder = CHECKOUT / "build" / "e2e" / "listed"
    shutil.rmtree(folder, ignore_errors=True)
    programs = folder / "programs"
    debian.link_programs(programs, debian.listed(META / "ee-bindep.txt"))
    return environment(folder / "python", META / "ee-requirements.txt"), programs


def program(name: str) -> Path:
    """One of ansible-core's, or Python itself."""
    return _made()[0] / name


def path() -> str:
    return ":".join(map(str, _made()))


def run(argv: Sequence[str], env: Mapping[str, str], cwd: Path, timeout: float) -> subprocess.CompletedProcess[str]:
    """ansible-playbook with these arguments."""
    return playbook.run(argv, env, cwd, timeout, python=program("python"))
