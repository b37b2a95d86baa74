# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From what a person types into a credential to the variables of a job: rendered as AWX does, read by the project."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.ironic.cloud import load_cloud
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust import dsse
from ansible_collections.gpufleet.baremetal.tests.tree.awx import data_of
from awx_server import injectors
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from suite import playbook

ROOT = Path(__file__).resolve().parents[3]
PROJECT = ROOT / "extensions" / "awx" / "project"
TYPES: dict[str, Any] = data_of(ROOT)["awx_credential_types"]
#: Of each variable of the project, which field of which credential it is; a path is to lead to what was typed.
FIELDS = {
    "gpufleet_bmc_username": ("bmc_login", "username"),
    "gpufleet_bmc_password": ("bmc_login", "password"),
    "gpufleet_bmc_ca_path": ("bmc_login", "ca"),
    "gpufleet_provisioner_username": ("provisioner_login", "username"),
    "gpufleet_provisioner_password": ("provisioner_login", "password"),
    "gpufleet_provisioner_ca_path": ("provisioner_login", "ca"),
    "gpufleet_scheduler_token": ("scheduler_token", "token"),
    "gpufleet_scheduler_ca_path": ("scheduler_token", "ca"),
    "gpufleet_ledger_url": ("ledger_login", "url"),
    "gpufleet_passport_key_path": ("passport_key", "private"),
    "gpufleet_passport_public_keys": ("passport_key", "public"),
}
CONF = {f"gpufleet_scheduler_conf of {kind}": (kind, "conf") for kind in ("slurm_conf", "kubeconfig")}
#: What is read by its name in the environment and by no variable of the project.
ENVIRONMENT = {
    "PGPASSWORD": ("ledger_login", "password"),
    "GPUFLEET_PROVISIONER_API_KEY": ("provisioner_login", "api_key"),
}
#: The same of a file.
FILES = {"OS_CLIENT_CONFIG_FILE": ("clouds", "clouds")}
#: To Jinja and to a shell it is something else.
TYPED = "{{ 7 * 7 }} $HOME '\" %"


def typed(kind: str, *, empty: bool = False) -> dict[str, str]:
    """What a person has typed, of each field something of its own; empty: of what may be left out, nothing."""
    needed = TYPES[kind]["inputs"]["required"]
    names = [field["id"] for field in TYPES[kind]["inputs"]["fields"]]
    return {name: "" if empty and name not in needed else f"{kind} {name} {TYPED}" for name in names}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    shutil.copytree(PROJECT / "inventory", tmp_path / "inventory")
    hosts = {"all": {"hosts": {"gpu001": {}}}}
    (tmp_path / "inventory" / "fleet.yml").write_text(yaml.safe_dump(hosts), encoding="utf-8")
    return tmp_path


def read(project: Path, given: Mapping[str, str]) -> dict[str, Any]:
    """The project's variables in a job that has this in its environment."""
    names = [*FIELDS, "gpufleet_scheduler_conf"]
    task = {
        "name": "Tell",
        "ansible.builtin.copy": {
            "content": "{{ dict(told | zip(told | map('extract', hostvars[inventory_hostname]))) | to_json }}",
            "dest": str(project / "told.json"),
        },
        "vars": {"told": names},
        "delegate_to": "localhost",
        "connection": "local",
    }
    book = [{"hosts": "all", "gather_facts": False, "tasks": [task]}]
    (project / "told.yml").write_text(yaml.safe_dump(book), encoding="utf-8")
    env = {name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "GPUFLEET_"))}
    done = playbook.run(["-i", "inventory/fleet.yml", "told.yml"], {**env, **given}, cwd=project)
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(json.loads((project / "told.json").read_text(encoding="utf-8")))


def given(project: Path, *kinds: str, empty: bool = False) -> dict[str, str]:
    found: dict[str, str] = {}
    for kind in kinds:
        (folder := project / kind).mkdir()
        found.update(injectors.environment(TYPES[kind], typed(kind, empty=empty), folder))
    return found


def said(name: str, value: Any) -> str:
    """What stands behind a path, or at the only place of a list; else the value itself."""
    value = value[0] if isinstance(value, list) else value
    is_path = name.endswith(("_path", "_keys", "_conf"))
    return Path(value).read_text(encoding="utf-8") if is_path and value else str(value)


@pytest.mark.parametrize("empty", [False, True], ids=["each field", "what may be left out is"])
@pytest.mark.parametrize("conf", ["slurm_conf", "kubeconfig"])
def test_each_variable_is_what_was_typed_into_its_field(project: Path, conf: str, empty: bool) -> None:
    kinds = sorted({kind for kind, _field in (*FIELDS.values(), *ENVIRONMENT.values(), *FILES.values())})
    environment = given(project, *kinds, conf, empty=empty)
    told = {name: said(name, value) for name, value in read(project, environment).items()}
    wanted = {name: typed(kind, empty=empty)[field] for name, (kind, field) in FIELDS.items()}
    # AWX ends a private key with a line feed
    wanted["gpufleet_passport_key_path"] += "\n"
    assert told == {**wanted, "gpufleet_scheduler_conf": typed(conf)["conf"]}
    by_name = {name: typed(kind, empty=empty)[field] for name, (kind, field) in ENVIRONMENT.items()}
    assert {name: environment[name] for name in ENVIRONMENT} == by_name
    for name, (kind, field) in FILES.items():
        assert Path(environment[name]).read_text(encoding="utf-8") == typed(kind, empty=empty)[field]


def test_each_field_of_each_credential_is_read_by_something() -> None:
    asked = {(kind, field["id"]) for kind, one in TYPES.items() for field in one["inputs"]["fields"]}
    assert asked == {*FIELDS.values(), *CONF.values(), *ENVIRONMENT.values(), *FILES.values()}


def test_a_job_without_credentials_has_none_of_it(project: Path) -> None:
    told = read(project, {})
    assert {name: value for name, value in told.items() if value not in ("", [""])} == {}


def test_the_clouds_that_a_person_has_pasted_are_those_of_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    auth = {"auth_url": "https://keystone.example.com:5000/v3", "application_credential_id": "a"}
    login = {**auth, "application_credential_secret": "s"}
    pasted = yaml.safe_dump({"clouds": {"site": {"auth_type": "v3applicationcredential", "auth": login}}}).strip()
    for name, value in injectors.environment(TYPES["clouds"], {"clouds": pasted}, tmp_path).items():
        monkeypatch.setenv(name, value)
    assert load_cloud()("site").config.get_auth_args() == login
    assert [one.stat().st_mode & 0o777 for one in tmp_path.iterdir()] == [0o600], "it has a secret"


@pytest.fixture
def pair() -> Iterator[tuple[str, str]]:
    """As a person pastes them: the last line feed is not selected."""
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    yield private.decode().strip(), public.decode().strip()


def test_the_key_that_a_person_has_pasted_signs_and_is_accepted(tmp_path: Path, pair: tuple[str, str]) -> None:
    private, public = pair
    environment = injectors.environment(TYPES["passport_key"], {"private": private, "public": public}, tmp_path)
    path = Path(environment["GPUFLEET_PASSPORT_KEY_PATH"])
    assert path.read_text(encoding="utf-8") == private + "\n" and path.stat().st_mode & 0o777 == 0o600
    known = [environment["GPUFLEET_PASSPORT_PUBLIC_KEY_PATH"]]
    dsse.check_known(dsse.private_key(str(path)), known, str(path))
