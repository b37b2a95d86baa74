# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Containers made by the kernel's own means, as engines make theirs: layers for a root, namespaces, folders from
outside."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

_SCRIPT = """set -e
name=$1; layers=$2; mark=$3; outside=$4; shift 4
hostname "$name"
mount -t tmpfs none "$layers"; cd "$layers"; mkdir up work root; if [ -n "$mark" ]; then touch "up$mark"; fi
mount -t overlay none -o "lowerdir=/,upperdir=$layers/up,workdir=$layers/work" root
mkdir -p root/proc root/dev root/home/runner; mount -t proc none root/proc; mount --rbind /dev root/dev
for pair in $outside; do mkdir -p "root${pair#*=}"; mount --bind "${pair%%=*}" "root${pair#*=}"; done
exec chroot root "$@"
"""
_NAMESPACES = ("--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child")


def skip_on_layers() -> None:
    kind = subprocess.run(["findmnt", "-n", "-o", "FSTYPE", "/"], capture_output=True, text=True, check=True).stdout
    if kind.strip() == "overlay":
        pytest.skip("layers upon layers need a root that is no such thing itself")


class Container:
    """A controller with processes, a host name and a home of its own.

    outside: folders of the machine and where they are mounted in it; everything else that it writes is gone with it.
    mark: the file by which processes in it know that they are in a container; without it they take it for a machine.
    """

    def __init__(self, name: str, layers: Path, outside: Mapping[Path, str], mark: str = "/.dockerenv") -> None:
        skip_on_layers()
        layers.mkdir(exist_ok=True)
        words = [name, str(layers), mark, " ".join(f"{folder}={place}" for folder, place in outside.items())]
        self._begin = ["unshare", *_NAMESPACES, "sh", "-c", _SCRIPT, "sh", *words]

    def start(self, command: Sequence[str], env: Mapping[str, str]) -> subprocess.Popen[str]:
        clean = {"PATH": os.environ["PATH"], "HOME": "/home/runner", **env}
        return subprocess.Popen(
            [*self._begin, *command],
            env=clean,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, command: Sequence[str], env: Mapping[str, str]) -> tuple[int, str]:
        """How it ended, and what it said."""
        with self.start(command, env) as process:
            try:
                told = process.communicate(timeout=1200)[0]
            finally:
                process.kill()
        return process.returncode, told
