# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The execution environment's definition, as ansible-builder takes it. The image's build is
played by make ee-image."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import LIBRARIES
from ansible_collections.gpufleet.baremetal.tests.contract.node.in_service import in_service
from contract.docs.declared import artifact, environment

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = ROOT / "make" / "execution_environment.py"
BUILDER = Path(sys.executable).with_name("ansible-builder")


@pytest.fixture(scope="module")
def lists(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The build context, and the lists that an image would be made of, of the artifact that a release has."""
    folder = tmp_path_factory.mktemp("ee")
    built = artifact(folder / "build")
    argv = [sys.executable, str(PROGRAM), "lists", str(folder / "lists"), str(built)]
    env = {**os.environ, "ANSIBLE_HOME": str(folder / "home")}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "lists"


@pytest.fixture(scope="module")
def context(lists: Path) -> Path:
    """What an engine of containers is given."""
    return lists / "context"


def test_its_lists_are_those_of_the_collection_with_a_core_and_a_runner(lists: Path) -> None:
    asked = (lists / "requirements.txt").read_text(encoding="utf-8").splitlines()
    ours = (ROOT / "meta" / "ee-requirements.txt").read_text(encoding="utf-8").splitlines()
    assert asked[:2] == ["ansible-core~=2.21.0", "ansible-runner>=2.4.3"]
    assert sorted(asked[2:]) == sorted(line for line in ours if not line.startswith("#"))
    told = json.loads((lists / "environment.json").read_text(encoding="utf-8"))
    assert told["ORIGINAL_STDOUT_CALLBACK"] == "gpufleet.baremetal.fleet_progress" and "PIP_INDEX_URL" not in told
    assert (lists / "collections" / "ansible_collections" / "gpufleet" / "baremetal" / "MANIFEST.json").is_file()


def test_the_page_on_what_is_in_it_has_each_package_of_the_lists() -> None:
    page = (ROOT / "docs" / "reference" / "execution-environment.md").read_text(encoding="utf-8")
    rows = {row.split(" | ")[0].removeprefix("| ").lower() for row in page.splitlines() if row.startswith("| ")}
    for name in ("requirements.txt", "bindep.txt"):
        lines = (ROOT / "meta" / f"ee-{name}").read_text(encoding="utf-8").splitlines()
        for asked in (re.split(r"[\[><=~ ]", line)[0] for line in lines if line and not line.startswith("#")):
            assert asked.lower() in rows or f"`{asked}`" in page, asked


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


#: What ansible-core itself stands on, and what a library of the list demands itself (requests, openstacksdk).
_CORE = frozenset({"ansible", "ansible_collections", "jinja2", "markupsafe", "yaml", "packaging"})
_BROUGHT = _CORE | {"urllib3", "keystoneauth1"}


def imported() -> set[str]:
    """The libraries that the plugins import, wherever in a file."""
    found = set()
    for path in sorted((ROOT / "plugins").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {one.name.partition(".")[0] for one in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
    return found - sys.stdlib_module_names - _BROUGHT


def test_the_builder_finds_each_library_that_a_plugin_imports_and_no_package_twice() -> None:
    argv = [str(BUILDER), "introspect", "--sanitize", str(ROOT / "build" / "collections")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    told = yaml.safe_load(done.stdout)
    ours = [line.partition("  #")[0] for line in told["python"] if line.endswith("from collection gpufleet.baremetal")]
    named = [re.split(r"[\[><=~]", line)[0] for line in ours]
    assert len(set(named)) == len(named) and {LIBRARIES.get(name, name) for name in named} >= imported()
    packages = [line.partition("  #")[0] for line in told["system"]]
    for platform in ("dpkg", "rpm"):
        there = {line.split()[0].rstrip("2") for line in packages if platform in line}
        assert {"gnupg", "openssh-client"} <= {name.rstrip("s") for name in there}, platform


@pytest.mark.slow
def test_a_limit_that_names_a_file_tells_who_launches_a_job_nothing_of_it(lists: Path, tmp_path: Path) -> None:
    """One is the environment of the job, with what its credentials gave it."""
    environ = tmp_path / "environ"
    environ.write_bytes(b"HOME=/runner\0PGPASSWORD=hunter2-of-the-ledger\0")
    told = json.loads((lists / "environment.json").read_text(encoding="utf-8"))
    with in_service(tmp_path) as nodes:
        nodes.settings.update({name: value for name, value in told.items() if name.startswith("ANSIBLE_")})
        for limit, ok in ((f"gpu001,gpu0O2,@{environ}", True), (f"@{environ}", False)):
            said = nodes.book("status", "--limit", limit, ok=ok)
            assert "hunter2" not in said and ("the limit of this run names gpu0O2, and" in said) is ok, said


@pytest.mark.slow
def test_each_plugin_is_imported_where_there_is_nothing_but_what_the_lists_name(tmp_path: Path) -> None:
    """And each library that one of them imports, which a guard would pass over in silence."""
    programs = environment(tmp_path / "venv", ROOT / "meta" / "ee-requirements.txt")
    collections = ROOT / "build" / "collections"
    argv = [str(programs / "python"), str(Path(__file__).with_name("import_plugins.py")), str(collections)]
    env = {"PATH": f"{programs}:/usr/bin:/bin", "ANSIBLE_HOME": str(tmp_path / "home"), "LC_ALL": "C.UTF-8"}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0 and ", 0 of them" in done.stdout, done.stdout + done.stderr


def test_a_plugin_whose_library_is_on_no_list_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "ansible_collections" / "gpufleet" / "baremetal" / "plugins" / "filter"
    folder.mkdir(parents=True)
    (folder / "lost.py").write_text("try:\n    import nobody_has_it\nexcept ImportError:\n    pass\n", encoding="utf-8")
    argv = [sys.executable, str(Path(__file__).with_name("import_plugins.py")), str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 1 and "No module named 'nobody_has_it'" in done.stdout, done.stdout + done.stderr
