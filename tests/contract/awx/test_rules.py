# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tables of the role awx by the rules of AWX, without Ansible; and that these rules refuse what AWX refuses."""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import names as bmcs
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.summary import artifact
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import names as provisioners
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler import names as schedulers
from ansible_collections.gpufleet.baremetal.plugins.module_utils._waves.shown import artifact as waves
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _ssh_options as ssh_options
from ansible_collections.gpufleet.baremetal.tests.tree.awx import data_of
from ansible_collections.gpufleet.baremetal.tests.tree.listing import loaded
from awx_server import rules
from awx_server.store import Refused, Store
from jinja2.sandbox import ImmutableSandboxedEnvironment

ROOT = Path(__file__).resolve().parents[3]
PROJECT = ROOT / "extensions" / "awx" / "project"
DATA = data_of(ROOT)
SURVEYS = {
    key: {"name": "", "description": "", "spec": one["survey"]}
    for part in ("awx_templates", "awx_workflows")
    for key, one in DATA[part].items()
    if "survey" in one
}
_ENVIRONMENT = re.compile(r"ansible\.builtin\.env', '(\w+)'")


@pytest.mark.parametrize("key", DATA["awx_credential_types"])
def test_a_credential_type_is_one_that_awx_takes(key: str) -> None:
    one = DATA["awx_credential_types"][key]
    Store({}).create("credential_types", {**one, "name": key, "kind": "cloud"})
    assert "extra_vars" not in one["injectors"]


@pytest.mark.parametrize("key", DATA["awx_workflows"])
def test_who_follows_a_node_stands_behind_it(key: str) -> None:
    """They are made from the last one to the first, each with what follows it."""
    order = list(DATA["awx_workflows"][key]["nodes"])
    for place, node in enumerate(DATA["awx_workflows"][key]["nodes"].values()):
        followers = [one for way in ("success", "failure", "always") for one in node.get(way, [])]
        assert set(followers) <= set(order[place + 1 :]), node


def test_a_roll_outs_canaries_alone_are_recycled_for_another_image_unless_a_person_says_so() -> None:
    """What was denied, or broken off, is declared still: no other job brings it to the fleet by the way."""
    asked: dict[str, Any] = {}
    for key, one in DATA["awx_templates"].items():
        if one.get("playbook", key) == "day2_recycle" and one.get("job_type") != "check":
            [asked[key]] = [it for it in one["survey"] if it["variable"] == "day2_recycle_drift"]
    assert set(asked) == {"day2_recycle", "recycle_in_waves", "recycle_named"}
    assert {(it["default"], tuple(it["choices"])) for it in asked.values()} == {("false", ("false", "true"))}
    told = {
        (workflow, name)
        for workflow, of in DATA["awx_workflows"].items()
        for name, node in of["nodes"].items()
        if "day2_recycle_drift" in node.get("extra_data", {})
    }
    assert told == {("rollout", "canary")}


def test_what_a_workflow_runs_on_named_nodes_no_slice_takes_apart() -> None:
    """With fewer hosts of the limit than slices, a slice has none and fails, and the workflow with it."""
    for key, of in DATA["awx_workflows"].items():
        ran = {node["run"] for node in of["nodes"].values() if "run" in node}
        sliced = {one for one in ran if DATA["awx_templates"][one].get("sliced")}
        assert not sliced or key == "look_around", (key, sliced)


def test_what_is_of_named_nodes_needs_a_limit() -> None:
    """One that was emptied is of the whole inventory."""
    asked = {key: one.get("needs_limit") for key, one in DATA["awx_templates"].items() if "named nodes" in one["title"]}
    assert asked == dict.fromkeys(("recycle_named", "day0_named", "look_named"), True)


def test_what_the_projects_inventory_reads_is_what_the_credentials_give() -> None:
    given = {name for one in DATA["awx_credential_types"].values() for name in one["injectors"]["env"]}
    said = (PROJECT / "inventory/group_vars/all.yml").read_text(encoding="utf-8")
    asked = set(_ENVIRONMENT.findall(said))
    # libpq and openstacksdk read their own, and the API key is of a MAAS.
    assert asked == given - {"PGPASSWORD", "OS_CLIENT_CONFIG_FILE", "GPUFLEET_PROVISIONER_API_KEY"}


@pytest.mark.parametrize("port", [bmcs, provisioners, schedulers], ids=lambda port: port.OPTION)
def test_each_secret_of_a_port_is_given_by_a_credential_type(port: Any) -> None:
    given = {name for one in DATA["awx_credential_types"].values() for name in one["injectors"]["env"]}
    secret = {name for name, option in port.OPTIONS.items() if option.get("no_log")}
    # A second key of BMCs over IPMI, which few have: such a site adds a type of its own.
    assert {f"GPUFLEET_{name.upper()}" for name in secret - {"bmc_ipmi_kg"}} <= given


def test_a_job_checks_host_keys_whatever_awx_tells_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """AWX's own setting for all jobs, and the project's variables, which it has as text."""
    monkeypatch.setenv("ANSIBLE_HOST_KEY_CHECKING", "False")
    variables = loaded(PROJECT / "inventory/group_vars/all.yml")
    assert ssh_options.options("gpu001", {}.get)["host_key_checking"] is False
    told = ssh_options.options("gpu001", variables.get)
    assert told["host_key_checking"] is True
    [file] = re.findall(r"GlobalKnownHostsFile=/runner/project/(\S+)", told["ssh_common_args"])
    assert (PROJECT / file).is_file()


def test_what_the_examples_say_of_sources_that_do_not_answer_is_what_a_controller_is_told() -> None:
    said = (ROOT / "inventory/README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"ANSIBLE_INVENTORY_\w+", said)) <= set(DATA["awx_source_vars"])


@pytest.mark.parametrize("key", SURVEYS)
def test_a_survey_is_one_that_awx_takes_and_its_own_answers_fit(key: str) -> None:
    spec = copy.deepcopy(SURVEYS[key])
    assert rules.survey(spec) is None
    given = {one["variable"]: one["default"] for one in spec["spec"] if "default" in one}
    assert list(rules.answers(spec, given, needed=False)) == []


@pytest.mark.parametrize("key", SURVEYS)
def test_an_answer_beyond_the_bounds_of_a_question_is_refused(key: str) -> None:
    for question in SURVEYS[key]["spec"]:
        beyond = {"text": "x" * 401, "integer": 10**9, "multiplechoice": "perhaps"}[question["type"]]
        assert list(rules.answers(SURVEYS[key], {question["variable"]: beyond}, needed=False)), question


def refused(kind: str, said: dict[str, Any], store: Store) -> Refused:
    with pytest.raises(Refused) as told:
        store.create(kind, said)
    return told.value


#: What a credential type must not be, and a word of why.
TYPES = [
    ({"inputs": {"fields": [{"id": "a"}]}}, "'label' is a required property"),
    ({"inputs": {"fields": [{"id": "1a", "label": "A"}]}}, "invalid variable name"),
    ({"inputs": {"fields": [{"id": "a", "label": "A", "hidden": True}]}}, "unexpected"),
    ({"inputs": {"fields": [{"id": "a", "label": "A"}] * 2}}, "must be unique"),
    ({"injectors": {"env": {"ANSIBLE_CONFIG": "x"}}}, "not allowed"),
    ({"injectors": {"env": {"A": "{{ lost }}"}}}, "undefined field"),
    ({"injectors": {"env": {"A": "{{ tower.filename.ca }}"}}}, "undefined field"),
    ({"injectors": {"file": {"template": "x", "template.ca": "y"}}}, "multi-file"),
    ({"kind": "ssh"}, "not a valid choice"),
]


@pytest.mark.parametrize(("said", "word"), TYPES)
def test_the_server_refuses_a_credential_type_as_awx_does(said: dict[str, Any], word: str) -> None:
    assert word in str(refused("credential_types", {"name": "a", "kind": "cloud", **said}, Store({})).told)


QUESTION = {"type": "text", "question_name": "Why", "variable": "why", "required": True}
QUESTIONS = [
    ({"type": "list"}, "not one of"),
    ({"required": "yes"}, "expected to be bool"),
    ({"type": "integer", "default": "4"}, "expected to be integer"),
    ({"min": "3"}, "expected to be integer"),
    ({"type": "multiplechoice"}, "must specify choices"),
    ({"type": "multiplechoice", "choices": ["a"], "default": "b"}, "answered from the choices"),
    ({"type": "multiplechoice", "choices": [True]}, "expected to be strings"),
]


@pytest.mark.parametrize(("said", "word"), QUESTIONS)
def test_the_server_refuses_a_question_as_awx_does(said: dict[str, Any], word: str) -> None:
    spec = {"name": "", "description": "", "spec": [{**QUESTION, **said}]}
    assert word in (rules.survey(spec) or {})["error"]
    assert "duplicated" in (rules.survey({**spec, "spec": [QUESTION, QUESTION]}) or {})["error"]


RULES = [
    ("RRULE:FREQ=DAILY;INTERVAL=1", "Valid DTSTART required"),
    ("DTSTART:20260101T030000 RRULE:FREQ=DAILY;INTERVAL=1", "naive"),
    ("DTSTART;TZID=UTC:20260101T030000 RRULE:FREQ=DAILY", "INTERVAL required"),
    ("DTSTART;TZID=UTC:20260101T030000 RRULE:FREQ=OFTEN;INTERVAL=1", "parsing failed"),
    ("DTSTART;TZID=UTC:20260101T030000", "One or more rule"),
]


@pytest.mark.parametrize(("said", "word"), RULES)
def test_the_server_refuses_a_rule_of_a_schedule_as_awx_does(said: str, word: str) -> None:
    assert word in str(rules.schedule({"rrule": said}))


TOLD = {"name": "day 2", "id": 7, "limit": "r1", "status": "failed", "url": "https://awx.example.com/7"}
LEFT = {**artifact("Day 2", {"gpu003": {"state": "quarantined", "stopped": ""}})["data"]}
LEFT.update(waves("the canary gpu003 is not in service again", broken_off=True)["data"])


@pytest.mark.parametrize(("artifacts", "left"), [({"artifacts": LEFT}, LEFT), ({}, {})], ids=["a job", "a workflow"])
def test_people_are_told_who_is_in_quarantine_and_why_no_further_wave_was_begun(
    artifacts: dict[str, Any], left: dict[str, Any]
) -> None:
    """As AWX renders it, to whom what it does not know is nothing."""
    [said] = DATA["awx_messages"].values()
    known = {"job": {**{name: value for name, value in TOLD.items() if name != "url"}, **artifacts}, "url": TOLD["url"]}
    message, body = (ImmutableSandboxedEnvironment().from_string(str(said[name])).render(known) for name in said)
    assert json.loads(body) == {
        "job": "day 2",
        **{name: TOLD[name] for name in ("id", "limit", "status", "url")},
        "artifacts": left,
    }
    assert message.startswith("day 2 (r1) failed: ") and ("gpu003" in message) is bool(left)
    record = {"notification_type": "webhook", "messages": {"error": {name: str(text) for name, text in said.items()}}}
    assert rules.notification({**record, "notification_configuration": WEBHOOK}) is None


@pytest.mark.parametrize("body", ["{{ job.lost }}", "no json", "[1]"])
def test_the_server_refuses_a_body_as_awx_does(body: str) -> None:
    record = {"notification_type": "webhook", "notification_configuration": WEBHOOK}
    assert rules.notification({**record, "messages": {"error": {"body": body}}})


WEBHOOK = {"url": "https://hooks.example.com/gpu", "http_method": "POST", "headers": {}}


def template(store: Store, **said: Any) -> dict[str, Any]:
    organization = store.create("organizations", {"name": "A"})["id"]
    project = store.create("projects", {"name": "P", "organization": organization, "scm_type": "git", "scm_url": "git"})
    return store.create("job_templates", {"name": "T", "project": project["id"], "playbook": "a.yml", **said})


def test_the_server_takes_a_playbook_that_the_project_has_and_what_the_template_asks_for(tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_text("- ansible.builtin.import_playbook: a.b.c\n", encoding="utf-8")
    (tmp_path / "b.yml").write_text("- name: no play\n", encoding="utf-8")
    with pytest.raises(Refused, match="Playbook not found"):
        template(Store({"git": tmp_path}), playbook="b.yml")
    store = Store({"git": tmp_path})
    made = template(store)
    schedule = {
        "name": "S",
        "unified_job_template": made["id"],
        "rrule": "DTSTART:20260101T030000Z RRULE:FREQ=DAILY;INTERVAL=1",
    }
    assert "prompt on launch" in str(refused("schedules", {**schedule, "limit": "a"}, store).told)
    assert "not allowed on launch" in str(refused("schedules", {**schedule, "extra_data": {"x": 1}}, store).told)
    assert store.create("schedules", schedule)["enabled"]
    assert "already exists" in str(refused("schedules", schedule, store).told)


def as_awx_reads(project: Path, source: str, home: Path) -> dict[str, Any]:
    """The inventory of this source, by the variables that the role gives it; nothing is warned of."""
    variables = {**os.environ, **DATA["awx_source_vars"], "ANSIBLE_HOME": str(home)}
    # Where the collection lies here
    variables["ANSIBLE_COLLECTIONS_PATH"] = str(ROOT / "build" / "collections")
    program = str(Path(sys.executable).with_name("ansible-inventory"))
    argv = [program, "-i", source, "--list"]
    done = subprocess.run(argv, cwd=project, env=variables, capture_output=True, text=True, check=True, timeout=120)
    assert "WARNING" not in done.stderr, done.stderr
    return dict(json.loads(done.stdout))


def test_a_login_host_comes_by_a_second_file_where_the_source_is_the_folder(tmp_path: Path) -> None:
    """As the page tells. Hosts and their variables are the same."""
    shutil.copytree(PROJECT, tmp_path / "project")
    hosts = {"gpufleet_services": {"hosts": {"mn1": {"ansible_host": "10.20.0.1"}}}}
    (tmp_path / "project/inventory/services.yml").write_text(yaml.safe_dump(hosts), encoding="utf-8")
    found = as_awx_reads(tmp_path / "project", "inventory", tmp_path)
    assert found["gpufleet_services"]["hosts"] == ["mn1"]
    alone = as_awx_reads(PROJECT, "inventory/fleet.yml", tmp_path)["_meta"]["hostvars"]
    variables = found["_meta"]["hostvars"]
    assert variables.pop("mn1")["ansible_host"] == "10.20.0.1" and variables == alone


def test_the_projects_inventory_is_read_as_awx_reads_it_and_names_the_canaries(tmp_path: Path) -> None:
    """From the file, with the variables of the source."""
    found = as_awx_reads(PROJECT, "inventory/fleet.yml", tmp_path)
    assert found["canary"]["hosts"] == ["gpu001"]
    hosts = found["_meta"]["hostvars"]
    assert set(hosts) == {"gpu001", "gpu002", "gpu003"}
    # A password that a row of the list names would be read in the place of what the credential gives.
    assert all("'GPUFLEET_BMC_PASSWORD'" in str(one["gpufleet_bmc_password"]) for one in hosts.values())
    # AWX keeps variables as they stand, and its jobs read a list of its own, in a folder of its own.
    for one in hosts.values():
        assert not re.search(r"inventory_(dir|file)|playbook_dir|role_path", json.dumps(one))
        assert one["gpufleet_image"]["keyring"] == "/runner/project/images.gpg"


def test_each_playbook_of_the_project_is_one_that_awx_finds() -> None:
    found = Store({"git": PROJECT})
    organization = found.create("organizations", {"name": "A"})["id"]
    project = found.create("projects", {"name": "P", "organization": organization, "scm_type": "git", "scm_url": "git"})
    files = sorted((PROJECT / "playbooks").iterdir())
    assert [Path(one).name for one in project["playbooks"]] == [file.name for file in files]
    assert all(loaded(file)[0]["name"] for file in files)
