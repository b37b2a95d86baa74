# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The image of a Containerfile without an engine and without a registry: each of its steps, in a root of layers.

    ee_image.py CONTEXT PYTHON [FILE ...]

Plays CONTEXT/Containerfile, stage by stage, then starts the image as its user and has its Python run each FILE. This
machine stands in for the base image: PYTHON makes the environment that the base's Python is, and the package manager
takes for installed what Debian has installed, and nothing else. pip fetches what it fetches for anybody. Needs root.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from string import Template

#: Where they are in the image: PYTHON's installation, the environment of it, and what stands in for dnf.
PREFIX, VENV, PKGMGR = "/opt/base", "/opt/python", "/opt/dnf"
BRINGS = {"PATH": f"{VENV}/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8"}
# A Python that was built for another place looks there for its library.
BRINGS["LD_LIBRARY_PATH"] = f"{PREFIX}/lib"
GIVEN = {"PKGMGR": PKGMGR, "PYCMD": f"{VENV}/bin/python3"}
DNF = """#!/bin/sh
[ "$1" = install ] || exit 0
for name in "$@"; do
    case $name in install | -*) continue ;; esac
    dpkg-query -W -f '${Status}\\n' "$name" | grep -q ' installed$' || { echo "$name is not installed" >&2; exit 1; }
done
"""
#: Layers lie in memory: none may be written into the root that is below it.
BEGIN = f"""set -e
layers=$1; prefix=$2; context=$3
mount -t tmpfs none "$layers"; cd "$layers"; hostname image
stage() {{
    mkdir -p "$1/up" "$1/work" "$1/root"
    mount -t overlay none -o "lowerdir=$2,upperdir=$layers/$1/up,workdir=$layers/$1/work" "$1/root"
    mkdir -p "$1/root{PREFIX}"; mount --bind "$prefix" "$1/root{PREFIX}"
    mount -o remount,bind,ro "$1/root{PREFIX}"
    mount -t proc none "$1/root/proc"; devices "$1/root/dev"
}}
# As an engine gives them: no disk of this machine is among them.
devices() {{
    mount -t tmpfs -o mode=755 none "$1"; mkdir -m 1777 "$1/shm"
    for device in null zero full random urandom; do : >"$1/$device"; mount --bind "/dev/$device" "$1/$device"; done
    ln -s /proc/self/fd "$1/fd"; ln -s fd/0 "$1/stdin"; ln -s fd/1 "$1/stdout"; ln -s fd/2 "$1/stderr"
}}
copy() {{
    mkdir -p "$(dirname "$2")"
    if [ -d "$1" ]; then mkdir -p "$2"; cp -a "$1/." "$2"; else cp -a "$1" "$2"; fi
}}
"""


class Steps:
    """Those of a Containerfile as a script, for a shell in namespaces of its own."""

    def __init__(self) -> None:
        self.script = [BEGIN]
        self._before: dict[str, str] = {}  # arguments that stand before the first stage
        self._set: dict[str, dict[str, str]] = {}  # by stage, what ENV sets
        self._args: dict[str, str] = {}
        self._stage, self._folder, self._user = "", "/", "root"
        self._entry: list[str] = []

    def read(self, text: str) -> None:
        known = {
            "ARG": self._arg, "FROM": self._from, "ENV": self._env, "COPY": self._copy, "RUN": self._run,
            "WORKDIR": self._workdir, "USER": self._is_user, "ENTRYPOINT": self._entrypoint,
        }  # fmt: skip
        for line in text.replace("\\\n", " ").splitlines():
            word, _blank, rest = line.strip().partition(" ")
            if word and word not in ("#", "LABEL", "CMD") and not word.startswith("#"):
                known[word](rest.strip())

    def start(self, name: str, words: list[str]) -> None:
        """A command in the image, as an engine starts it."""
        self._said(name, shlex.join([*self._entry, *words]))

    def _arg(self, rest: str) -> None:
        name, equals, text = rest.partition("=")
        value = "".join(shlex.split(self._expanded(text))) if equals else self._before.get(name, "")
        (self._args if self._stage else self._before)[name] = GIVEN.get(name, value)

    def _from(self, rest: str) -> None:
        parent, _as, self._stage = rest.split()
        self._args, self._folder = {}, "/"
        if parent in self._set:
            # What is a layer of others is no longer written.
            self.script.append(f"if mountpoint -q {parent}/root; then umount -R {parent}/root; fi")
            self.script.append(f'stage {self._stage} "$layers/{parent}/up:/"')
            self._set[self._stage] = dict(self._set[parent])
            return
        self._set[self._stage] = dict(BRINGS)
        self.script += [f"stage {self._stage} /", f"printf %s {shlex.quote(DNF)} >{self._stage}/root{PKGMGR}"]
        self._run(f"chmod 755 {PKGMGR} && {PREFIX}/bin/python3 -m venv --without-pip {VENV}")

    def _env(self, rest: str) -> None:
        pairs = (word.partition("=") for word in shlex.split(self._expanded(rest)))
        self._set[self._stage].update({name: value for name, _equals, value in pairs})

    def _copy(self, rest: str) -> None:
        *options, source, there = self._expanded(rest).split()
        root = f"{options[0].partition('=')[2]}/root" if options else '"$context"/'
        self.script.append(f"copy {root}{source} {self._stage}/root{there}")

    def _run(self, rest: str) -> None:
        self._said(rest, rest)

    def _said(self, name: str, words: str) -> None:
        told = [f"{name}={value}" for name, value in {**self._args, **self._set[self._stage]}.items()]
        begin = ["chroot", f"--userspec={self._user}:0", f"{self._stage}/root", "/usr/bin/env", "-i", *told]
        self.script.append(f"echo {shlex.quote(f'== {self._stage}: {name}')}")
        self.script.append(shlex.join([*begin, "/bin/sh", "-c", f"cd {self._folder} && {words}"]))

    def _workdir(self, rest: str) -> None:
        self._folder = rest
        self.script.append(f"mkdir -p {self._stage}/root{rest}")

    def _is_user(self, rest: str) -> None:
        self._user = rest

    def _entrypoint(self, rest: str) -> None:
        self._entry = shlex.split(rest.strip("[]").replace(",", " "))

    def _expanded(self, text: str) -> str:
        return Template(text).safe_substitute({**self._args, **self._set.get(self._stage, {})})


def main() -> int:
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    context, python = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    steps = Steps()
    steps.read((context / "Containerfile").read_text(encoding="utf-8"))
    for path in map(Path, sys.argv[3:]):
        text = path.read_text(encoding="utf-8")
        steps.start(path.name, ["python3", "-c", text, "/usr/share/ansible/collections"])
    namespaces = ("--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child")
    with tempfile.TemporaryDirectory() as layers:
        (Path(layers) / "mounted").mkdir()
        argv = ["sh", "-c", "\n".join(steps.script), "sh", f"{layers}/mounted", str(python.parents[1]), str(context)]
        return subprocess.run(["unshare", *namespaces, *argv], stdin=subprocess.DEVNULL, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
