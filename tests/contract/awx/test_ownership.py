# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What awx_setup made, and what somebody else has under the same names: that is neither changed nor removed."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from awx_server.server import AwxServer
from contract.awx.awx_site import GIT, MODULES, NODES, ROOT, TABLES, changed, setup, wrote

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not MODULES.is_dir(), reason="no awx.awx: make setup-awx fetches it"),
]
MARK = "[gpufleet.baremetal]"
RULE = "DTSTART:20260101T030000Z RRULE:FREQ=DAILY;INTERVAL=1"
#: A part of what a site has, of each kind.
SOME: dict[str, Any] = {
    "awx_templates": {name: TABLES["awx_templates"][name] for name in ("drain", "status")},
    "awx_own_schedules": {
        "nightly": {
            "title": "nightly",
            "description": "Each night",
            "template": "status",
            "enabled": True,
            "at": "20260101T030000",
            "rule": "FREQ=DAILY;INTERVAL=1",
        }
    },
    "awx_workflows": {"read_in": TABLES["awx_workflows"]["read_in"]},
    **dict.fromkeys(("awx_names", "awx_schedules", "awx_extra_vars"), {}),
    "awx_credentials": [],
}
KINDS = ("credential_types", "execution_environments", "projects", "notification_templates", "inventories")
KINDS = (*KINDS, "inventory_sources", "job_templates", "workflow_job_templates", "schedules")


def test_all_that_is_made_has_the_mark(made: AwxServer) -> None:
    assert {kind: {MARK in one["description"] for one in made.store.all(kind)} for kind in KINDS} == dict.fromkeys(
        KINDS, {True}
    )


def test_what_needs_a_limit_tells_its_playbook(made: AwxServer) -> None:
    told = {one["name"]: json.loads(one["extra_vars"] or "{}") for one in made.store.all("job_templates")}
    assert told == {"GPU drain": TABLES["awx_limited"], "GPU status": {}}


@pytest.mark.parametrize("kind", ["credential_types", "projects", "job_templates"])
@pytest.mark.parametrize("state", ["present", "absent"])
def test_what_is_called_so_and_is_somebody_elses_is_neither_changed_nor_removed(
    awx: AwxServer, kind: str, state: str
) -> None:
    theirs = next(iter(awx.store.all(kind)))
    theirs["description"] = "of the storage people"
    told = setup(awx, awx_state=state, **SOME)
    said = " ".join(told.stdout.split())
    assert told.returncode and f"{kind}: {theirs['name']}: there is one of that name" in said, said
    assert wrote(awx) == [] and theirs["description"] == "of the storage people"


@pytest.mark.parametrize("state", ["present", "absent"])
def test_what_has_no_description_is_a_persons_whatever_kind_it_is_of(awx: AwxServer, state: str) -> None:
    """AWX gives none by itself, so it says nothing of who made a thing."""
    names = {kind: next(iter(awx.store.all(kind)))["name"] for kind in KINDS}
    for kind in KINDS:
        awx.named(kind, names[kind])["description"] = ""
    told = setup(awx, awx_state=state, **SOME)
    said = " ".join(told.stdout.split())
    assert told.returncode and wrote(awx) == [], said
    assert [kind for kind in KINDS if f"{kind}: {names[kind]}: there is one of that name" not in said] == []
    assert f"write {MARK} into its description" in said


def test_what_a_person_has_marked_is_taken_over(awx: AwxServer) -> None:
    project = awx.named("projects", "GPU project")
    project["description"], project["scm_branch"] = f"of the storage people {MARK}", "main"
    assert changed(setup(awx, **SOME)) == 1 and awx.named("projects", "GPU project")["scm_branch"] == ""


def test_an_answer_that_a_person_gave_to_a_schedule_is_taken_back(awx: AwxServer) -> None:
    nightly = awx.named("schedules", "GPU nightly")["id"]
    awx.store.update("schedules", nightly, {"extra_data": {"status_fail_on": "always"}})
    assert changed(setup(awx, **SOME)) == 1 and awx.named("schedules", "GPU nightly")["extra_data"] == {}


def test_a_schedule_of_that_name_that_launches_another_template_stays(awx: AwxServer) -> None:
    run = awx.store.create("job_templates", {"name": "theirs", **_of(awx)})["id"]
    awx.store.create("schedules", {"name": "GPU nightly", "rrule": RULE, "unified_job_template": run})
    assert changed(setup(awx, awx_state="absent", **SOME)) > 0
    left = [(one["name"], one["unified_job_template"]) for one in awx.store.all("schedules")]
    assert left == [("GPU nightly", run)]


@pytest.mark.parametrize("ours_is_newer", [True, False])
@pytest.mark.parametrize("state", ["present", "absent"])
def test_a_schedule_of_that_name_that_launches_a_template_of_ours_is_told_apart_by_its_mark(
    awx: AwxServer, state: str, ours_is_newer: bool
) -> None:
    ours = awx.named("schedules", "GPU nightly")
    said = {"name": "GPU nightly", "rrule": RULE, "description": "theirs", "extra_data": {"drain_why": "a fan"}}
    drain = awx.named("job_templates", "GPU drain")["id"]
    theirs = awx.store.create("schedules", {**said, "unified_job_template": drain})["id"]
    if ours_is_newer:
        kept = awx.store.kept["schedules"]
        kept[ours["id"]] = kept.pop(ours["id"])
    done = setup(awx, awx_state=state, **SOME)
    assert done.returncode and "schedules: GPU nightly: there is one of that name" in " ".join(done.stdout.split())
    assert wrote(awx) == [] and {*awx.store.kept["schedules"]} == {theirs, ours["id"]}


def _foreign(awx: AwxServer) -> None:
    """Another organization has something of each name that another thing points to."""
    theirs = {"organization": awx.store.create("organizations", {"name": "Storage people"})["id"]}
    awx.store.repositories[GIT] = ROOT / "extensions" / "awx" / "project"
    git = {"scm_type": "git", "scm_url": GIT}
    project = awx.store.create("projects", {"name": "GPU project", **git, **theirs})["id"]
    inventory = awx.store.create("inventories", {"name": "GPU fleet", **theirs})["id"]
    source = {"inventory": inventory, "source": "scm", "source_project": project, "source_path": "inventory/fleet.yml"}
    awx.store.create("inventory_sources", {"name": "GPU fleet source", **source})
    slack = {"notification_type": "slack", "notification_configuration": {"token": "t", "channels": []}}
    awx.store.create("notification_templates", {"name": "GPU notification", **slack, **theirs})
    for name in ("drain", "status"):
        run = {"project": project, "playbook": f"playbooks/{name}.yml"}
        awx.store.create("job_templates", {"name": f"GPU {name}", **run})
    for name in ("GPU read in what was committed", "GPU drain"):
        awx.store.create("workflow_job_templates", {"name": name, **theirs})


@pytest.mark.parametrize("older", [True, False])
def test_what_another_organization_calls_so_is_neither_taken_nor_in_the_way(made: AwxServer, older: bool) -> None:
    awx = AwxServer({GIT: ROOT / "extensions" / "awx" / "project"})
    if older:
        _foreign(awx)
        assert changed(setup(awx, **SOME)) > 0
    else:
        awx.store, awx.jobs = copy.deepcopy(made.store), made.jobs
        _foreign(awx)
    wrote(awx)
    assert changed(setup(awx, **SOME)) == 0 and wrote(awx) == []
    ours = next(one["id"] for one in awx.store.all("organizations") if one["name"] == "Accelerators")
    of = {kind: {one["id"] for one in awx.store.all(kind) if one.get("organization") == ours} for kind in KINDS}
    flows = [one for one in awx.store.all("workflow_job_templates") if one["organization"] == ours]
    templates = [one for one in awx.store.all("job_templates") if one["organization"] == ours]
    assert {one["inventory"] for one in (*templates, *flows)} == of["inventories"]
    told = [awx.store.list_of("workflow_job_templates", one["id"], "notification_templates_error") for one in flows]
    assert [set(one) for one in told] == [of["notification_templates"]]
    nodes = [one for one in awx.store.all(NODES) if one["workflow_job_template"] in of["workflow_job_templates"]]
    sources = {one["id"] for one in awx.store.all("inventory_sources") if one["inventory"] in of["inventories"]}
    assert {one["unified_job_template"] for one in nodes} <= of["projects"] | of["job_templates"] | sources
    assert changed(setup(awx, awx_state="absent", **SOME)) > 0
    # Types belong to no organization, and another one has a project of that name.
    left = {kind: len(list(awx.store.all(kind))) for kind in KINDS}
    assert left == {
        **dict.fromkeys(KINDS, 1),
        "credential_types": left["credential_types"],
        "execution_environments": 0,
        "schedules": 0,
        "job_templates": 2,
        "workflow_job_templates": 2,
    }
    awx.close()


def test_what_a_schedule_launches_has_no_namesake_in_the_organization(awx: AwxServer) -> None:
    organization = awx.named("organizations", "Accelerators")["id"]
    awx.store.create("workflow_job_templates", {"name": "GPU status", "organization": organization})
    done = setup(awx, **SOME)
    said = "GPU status: a schedule here launches what is called so, and Accelerators has job_template, workflow_job"
    assert done.returncode and said in " ".join(done.stdout.split()), done.stdout
    assert wrote(awx) == []


def test_what_was_made_under_another_name_is_told_and_stays_as_a_copy_would(awx: AwxServer) -> None:
    """A copy that a person has made has the description of what it was copied from."""
    names = {**SOME, "awx_names": {"nightly": "Each night", "drain": "Empty"}}
    for done in (setup(awx, "--check", **names), setup(awx, **names), setup(awx, awx_state="absent", **names)):
        said = " ".join(done.stdout.split())
        assert changed(done) > 0 and said.count("left as it is") == 2, said
        assert "schedules: GPU nightly: left as it is" in said and "job_templates: GPU drain: left as it is" in said
    assert [one["name"] for one in awx.store.all("job_templates")] == ["GPU drain"]
    assert not any(one["description"] for one in awx.store.all("inventories"))


def test_two_organizations_write_no_file_of_one_name(awx: AwxServer) -> None:
    """Both have one folder mounted into their jobs, as whoever says nothing else has."""
    writing = ("passport_files", "ledger_backup", "ledger_archive", "report", "evidence")
    run = {**SOME, "awx_templates": {name: TABLES["awx_templates"][name] for name in writing}}
    run.update(dict.fromkeys(("awx_own_schedules", "awx_workflows"), {}))
    for prefix, organization in (("GPU", "Accelerators"), ("gpu", "Storage people/Ulm 2"), ("dots", "..")):
        assert changed(setup(awx, awx_prefix=prefix, awx_organization=organization, **run)) > 0
    told = [json.loads(one["extra_vars"] or "{}") for one in awx.store.all("job_templates")]
    files = [str(path) for variables in told for path in variables.values() if str(path).startswith("/srv")]
    assert len(files) == len(set(files)) == 3 * 7
    assert {path.split("/")[3] for path in files} == {"Accelerators", "Storage_people_Ulm_2", "_"}


#: What a site names a credential in, and what it is then joined to.
CREDENTIALS = {"awx_project_credential": "projects", "awx_source_credential": "inventory_sources"}
CREDENTIALS = {
    **CREDENTIALS,
    "awx_environment_credential": "execution_environments",
    "awx_credentials": "job_templates",
}


def _credentials(awx: AwxServer, *organizations: str) -> list[int]:
    """One called BMCs in each of these, or a person's own; each of a type of its own."""
    made = []
    for number, name in enumerate(organizations):
        kind = awx.store.create("credential_types", {"name": f"type {number}", "kind": "cloud"})["id"]
        found = [one["id"] for one in awx.store.all("organizations") if one["name"] == name]
        if name and not found:
            found = [awx.store.create("organizations", {"name": name})["id"]]
        said = {"name": "BMCs", "credential_type": kind, "organization": found[0] if name else None}
        made.append(awx.store.create("credentials", said)["id"])
    return made


def _named(*variables: str) -> dict[str, Any]:
    return {**SOME, **{one: ["BMCs"] if one == "awx_credentials" else "BMCs" for one in variables}}


@pytest.mark.parametrize(
    ("variable", "of", "many"),
    [
        *((one, ["Storage people"], "none") for one in CREDENTIALS),
        ("awx_credentials", [""], "none"),
        ("awx_credentials", ["Accelerators", "Accelerators"], "2"),
    ],
)
def test_a_credential_that_is_not_the_organizations_own_one_is_given_to_no_job(
    awx: AwxServer, variable: str, of: list[str], many: str
) -> None:
    _credentials(awx, *of)
    done = setup(awx, **_named(variable))
    said = f"Accelerators has to have exactly one credential BMCs, and has {many}."
    assert done.returncode and said in " ".join(done.stdout.split()), done.stdout
    assert wrote(awx) == []


def test_of_credentials_of_one_name_the_organizations_own_is_taken(awx: AwxServer) -> None:
    _theirs, ours, _somebodys = _credentials(awx, "Storage people", "Accelerators", "")
    assert changed(setup(awx, **_named(*CREDENTIALS))) > 0
    for kind in CREDENTIALS.values():
        given = [
            awx.store.list_of(kind, one["id"], "credentials") if kind == "job_templates" else [one["credential"]]
            for one in awx.store.all(kind)
        ]
        assert given and given == [[ours]] * len(given), kind
    wrote(awx)
    assert changed(setup(awx, **_named(*CREDENTIALS))) == 0 and wrote(awx) == []


def _of(awx: AwxServer) -> dict[str, Any]:
    """In the same organization."""
    organization = awx.named("organizations", "Accelerators")["id"]
    project = {"name": "theirs", "organization": organization, "scm_type": "git", "scm_url": GIT}
    awx.store.repositories[GIT] = ROOT / "extensions" / "awx" / "project"
    return {"project": awx.store.create("projects", project)["id"], "playbook": "playbooks/status.yml"}


@pytest.mark.parametrize("prefix", ["", " "])
def test_without_a_prefix_nothing_is_asked_of_the_controller(awx: AwxServer, prefix: str) -> None:
    done = setup(awx, awx_prefix=prefix, **SOME)
    assert done.returncode and "awx_prefix empty" in " ".join(done.stdout.split()) and not awx.asked


URLS = ["https://bot:hunter2@git.example.com/fleet.git", "https://bot:hunter2/x@git.example.com/fleet.git"]
URLS += ["https://git.example.com/fleet.git?private_token=hunter2"]


@pytest.mark.parametrize("url", URLS)
def test_a_token_in_the_address_of_the_project_is_not_shown(awx: AwxServer, url: str) -> None:
    done = setup(awx, "-vvv", awx_project_url=url, awx_files="files", **SOME)
    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode and "awx_project_url is set, awx_environment_image" in said and "hunter2" not in said


@pytest.mark.parametrize("url", URLS)
def test_a_token_in_the_address_is_not_shown_either_where_awx_cannot_read_it(awx: AwxServer, url: str) -> None:
    done = setup(awx, "-vvv", awx_project_url=url, **SOME)
    assert done.returncode and awx.named("projects", "GPU project")["scm_url"] == url
    assert "hunter2" not in done.stdout + done.stderr
