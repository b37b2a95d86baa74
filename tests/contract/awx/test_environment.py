# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The execution environment's definition, as ansible-builder takes it. No image is built: that needs a registry."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from contract.docs.declared import artifact

ROOT = Path(__file__).resolve().parents[3]
DEFINITION = ROOT / "extensions" / "awx" / "execution-environment.yml"
BUILDER = Path(sys.executable).with_name("ansible-builder")


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What an engine of containers is given: the definition, beside the artifact that a release has."""
    folder = tmp_path_factory.mktemp("ee")
    built = artifact(folder / "build")
    built.rename(folder / built.name)
    beside = folder / DEFINITION.name
    beside.write_bytes(DEFINITION.read_bytes())
    argv = [
        str(BUILDER),
        "create",
        "-f",
        str(beside),
        "-c",
        str(folder / "context"),
        "--output-filename",
        "Containerfile",
    ]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "context"


def test_it_installs_the_artifact_of_this_release(context: Path) -> None:
    version = yaml.safe_load((ROOT / "galaxy.yml").read_text(encoding="utf-8"))["version"]
    [wanted] = yaml.safe_load((context / "_build" / "requirements.yml").read_text(encoding="utf-8"))["collections"]
    assert wanted == {"name": f"collections/gpufleet-baremetal-{version}.tar.gz", "type": "file"}
    # Where the build looks for it
    assert (context / "_build" / wanted["name"]).stat().st_size > 100_000


def test_its_core_and_runner_are_ones_that_the_collection_takes(context: Path) -> None:
    text = (context / "Containerfile").read_text(encoding="utf-8")
    assert 'ANSIBLE_INSTALL_REFS="ansible-core~=2.21.0 ansible-runner>=2.4.3"' in text
    assert "ENV ORIGINAL_STDOUT_CALLBACK=gpufleet.baremetal.fleet_progress" in text


def test_a_mirror_is_told_to_each_stage_before_it_fetches_anything(context: Path) -> None:
    text = (context / "Containerfile").read_text(encoding="utf-8")
    base = text.partition(" AS base\n")[2].partition("\nFROM ")[0]
    assert base.index("ENV PIP_INDEX_URL=$PIP_INDEX_URL") < base.index("pip install")
    # All other stages begin with it.
    assert [line for line in text.splitlines() if line.startswith("FROM ")][1:] == [
        f"FROM base AS {stage}" for stage in ("galaxy", "builder", "final")
    ]


@pytest.mark.parametrize(
    ("profiles", "installed"),
    [
        ({}, ""),
        ({"SLURM_PACKAGES": "slurm-25.05 slurm-munge"}, "install -y slurm-25.05 slurm-munge\nclean all\n"),
        (
            {"KUBERNETES_PACKAGES": "kubectl", "POSTGRESQL_PACKAGES": "postgresql"},
            "install -y kubectl postgresql\nclean all\n",
        ),
    ],
)
def test_a_profile_installs_the_packages_that_are_named(
    context: Path, tmp_path: Path, profiles: dict[str, str], installed: str
) -> None:
    """The line of the build itself, in a shell whose dnf writes down what it is told."""
    text = (context / "Containerfile").read_text(encoding="utf-8")
    [line] = [line for line in text.splitlines() if "$SLURM_PACKAGES" in line]
    told = tmp_path / "told"
    told.touch()
    dnf = tmp_path / "dnf"
    dnf.write_text(f'#!/bin/sh\necho "$@" >> {told}\n', encoding="utf-8")
    dnf.chmod(0o755)
    # A build argument without a value is empty, as its ARG says.
    none = dict.fromkeys(re.findall(r'^ARG (\w+_PACKAGES)=""$', text, re.MULTILINE), "")
    assert len(none) == 3
    env = {**none, **profiles, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    subprocess.run(["sh", "-euc", line.removeprefix("RUN ")], env=env, check=True)
    assert told.read_text(encoding="utf-8") == installed
