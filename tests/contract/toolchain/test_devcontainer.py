# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The devcontainer: what it installs are the lists that execution environments and tests go by. No image is built."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / ".devcontainer"
CONTAINERFILE = (FOLDER / "Containerfile").read_text(encoding="utf-8")
SYSTEM, BINDEP = ROOT / "requirements" / "system.txt", ROOT / "meta" / "ee-bindep.txt"


def listed() -> set[str]:
    lines = SYSTEM.read_text(encoding="utf-8").splitlines()
    ours = {line.partition("#")[0].strip() for line in lines} - {""}
    return ours | {line.split()[0] for line in BINDEP.read_text(encoding="utf-8").splitlines() if "dpkg" in line}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """What the build copies, as the Containerfile says, and an apt-get that writes down what it is told."""
    [copied] = re.findall(r"^COPY (.+) /tmp/lists/$", CONTAINERFILE, re.M)
    for name in copied.split():
        shutil.copy(ROOT / name, tmp_path)
    program = tmp_path / "bin" / "apt-get"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/told\n', encoding="utf-8")
    program.chmod(0o755)
    return tmp_path


def installs(place: Path, **said: str) -> set[str]:
    env = {"PATH": f"{place / 'bin'}:/usr/bin:/bin", "SOURCES": str(place / "sources"), **said}
    subprocess.run(["sh", str(place / "install.sh")], env=env, check=True)
    update, install = (place / "told").read_text(encoding="utf-8").splitlines()
    assert update == "update" and install.startswith("install -y --no-install-recommends ")
    return set(install.split()[3:])


def test_it_has_what_the_lists_name_and_what_setup_needs(place: Path) -> None:
    assert installs(place) == listed() | {"ca-certificates", "git", "make", "python3", "python3-venv"}


def test_a_profile_adds_its_packages_and_a_mirror_stands_in_for_debians(place: Path) -> None:
    (place / "sources").write_text("URIs: http://deb.debian.org/debian\n", encoding="utf-8")
    profiles = {"SLURM_PACKAGES": "slurm-client=22.05", "POSTGRESQL_PACKAGES": "postgresql-client"}
    more = installs(place, APT_MIRROR="https://mirror.example.com", **profiles)
    assert {"slurm-client=22.05", "postgresql-client"} <= more
    assert (place / "sources").read_text(encoding="utf-8") == "URIs: https://mirror.example.com/debian\n"


def test_what_it_is_told_are_arguments_of_its_build(place: Path) -> None:
    told = json.loads((FOLDER / "devcontainer.json").read_text(encoding="utf-8"))
    assert (FOLDER / told["build"]["dockerfile"]).is_file() and told["build"]["context"] == ".."
    assert set(told["build"]["args"]) == set(re.findall(r"^ARG (\w+)=", CONTAINERFILE, re.M))
    environment = (ROOT / "extensions" / "awx" / "execution-environment.yml").read_text(encoding="utf-8")
    profiles = set(re.findall(r"ARG (\w+_PACKAGES)", environment))
    assert len(profiles) == 3 and profiles <= set(told["build"]["args"])
    # The rack makes namespaces and mounts.
    assert told["privileged"] and told["postCreateCommand"] == "make setup"
