# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook awx_setup, run with the modules of awx.awx against a server that refuses what AWX refuses.

One first run serves all that look at what it made. What is removed is a copy's.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from awx_server.jobs import Jobs
from awx_server.server import AwxServer
from contract.awx import awx_site
from contract.awx.awx_site import GIT, MODULES, NODES, ROOT, SITE, TABLES, changed, nodes, part, setup, wrote

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not MODULES.is_dir(), reason="no awx.awx: make setup-awx fetches it"),
]


@pytest.fixture(scope="module")
def awx() -> Iterator[AwxServer]:
    server = AwxServer({GIT: ROOT / "extensions" / "awx" / "project"})
    yield server
    server.close()


def test_check_mode_on_an_empty_controller_foretells_and_writes_nothing(awx: AwxServer) -> None:
    done = setup(awx, "--check", ansible_python_interpreter="{{ ansible_playbook_python }}", awx_credentials=[])
    assert changed(done) > 0 and wrote(awx) == []
    made = "GPU preflight, GPU day 0, Recycle GPU nodes, GPU day 2 in waves, GPU day 2 of named nodes"
    made += ", GPU day 0 of named nodes, GPU image in waves"
    assert f"job_templates: {made}" in done.stdout, done.stdout
    assert "schedules: GPU nightly look, GPU weekly revalidation, GPU hourly verification" in done.stdout, done.stdout


@pytest.fixture(scope="module")
def made(awx: AwxServer) -> AwxServer:
    """After a first run, on a controller where people have made credentials of their own."""
    kind = awx.store.create("credential_types", {"name": "theirs", "kind": "cloud"})
    ours = awx.store.create("organizations", {"name": "Accelerators"})["id"]
    awx.store.create("credentials", {"name": "BMCs of Ulm", "credential_type": kind["id"], "organization": ours})
    done = setup(awx, "-vvv")
    assert changed(done) > 0 and wrote(awx)
    # The address of a webhook is as good as a password.
    assert "hooks.example.com" not in done.stdout + done.stderr
    return awx


@pytest.fixture
def another(made: AwxServer) -> Iterator[AwxServer]:
    """A controller that has the same."""
    with awx_site.copied(made) as server:
        yield server


def test_the_first_run_makes_all_of_it(made: AwxServer) -> None:
    assert made.unheard == set()
    kinds = ("job_templates", "workflow_job_templates", "schedules")
    assert [len(list(made.store.all(kind))) for kind in kinds] == [30, 7, 3]


def test_what_two_runs_would_each_have_to_themselves_runs_one_at_a_time(made: AwxServer) -> None:
    """A renewal that the next Sunday meets counts its losses by itself, and takes as many nodes again."""
    names = {SITE["awx_names"].get(key, f"GPU {one['title']}"): key for key, one in TABLES["awx_templates"].items()}
    alone = {names[one["name"]] for one in made.store.all("job_templates") if not one["allow_simultaneous"]}
    once = "recycle_in_waves image_in_waves passports verify_idle topology ledger ledger_backup ledger_archive"
    assert alone == {*once.split(), "import_servers"}


def test_a_template_asks_what_its_playbook_takes_and_nothing_else(made: AwxServer) -> None:
    day2 = made.named("job_templates", "Recycle GPU nodes")
    assert day2["playbook"] == "playbooks/day2_recycle.yml" and day2["job_slice_count"] == 4
    assert day2["ask_limit_on_launch"] and not day2["ask_variables_on_launch"]
    asked = [one["variable"] for one in day2["survey_spec"]["spec"]]
    assert asked == ["day2_recycle_all", "day2_recycle_drift", "day2_recycle_look_timeout", "gpufleet_for_tenant"]
    told = json.loads(day2["extra_vars"])["gpufleet_awx_templates"]
    assert told["day2_recycle"] == "GPU day 2 of named nodes" and told["drain"] == "GPU drain" and "look" not in told
    for one in ("day2_recycle", "day0_bringup"):  # whose limit may be one node, of which most slices have none
        its = made.named("job_templates", told[one])
        assert its["job_slice_count"] == 1 and its["ask_limit_on_launch"]
        assert its["playbook"] == f"playbooks/{one}.yml"
        assert "gpufleet_for_tenant" in {question["variable"] for question in its["survey_spec"]["spec"]}
    assert len(made.store.list_of("job_templates", day2["id"], "credentials")) == 1
    for name in ("GPU drain", "GPU readmit", "Recycle GPU nodes"):
        assert made.named("job_templates", name)["limit"] == "NAME-THE-NODES", name
    # A slice counts the losses of its own renewals alone.
    assert [made.named("job_templates", f"GPU {name}")["job_slice_count"] for name in ("drain", "passports")] == [1, 1]
    look = made.named("job_templates", "GPU look")
    assert look["job_type"] == "check" and not look["ask_job_type_on_launch"]
    assert not made.named("job_templates", "GPU import servers")["ask_limit_on_launch"]


@pytest.mark.parametrize("name", ["GPU day 2 of named nodes", "GPU look at named nodes"])
def test_what_an_alert_launches_is_told_to_leave_another_image_to_the_roll_out(made: AwxServer, name: str) -> None:
    """A rulebook answers no question: each has the answer that it is made with."""
    asked = {one["variable"]: one.get("default") for one in made.named("job_templates", name)["survey_spec"]["spec"]}
    assert asked["day2_recycle_drift"] == "false" and asked.get("day2_recycle_all", "false") == "false"


def test_the_inventory_is_read_from_a_file_and_fails_where_it_cannot_be_read(made: AwxServer) -> None:
    source = made.named("inventory_sources", "GPU fleet source")
    assert source["source_path"] == "inventory/fleet.yml" and source["overwrite"]
    variables = json.loads(source["source_vars"])
    assert variables["ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED"] == "true"
    assert variables["ANSIBLE_INVENTORY_IGNORE"].endswith(",.csv")
    # W6: the inventory plugin lies where the project's requirements are installed, or in the image.
    assert variables["ANSIBLE_COLLECTIONS_PATH"] == "/runner/requirements_collections:/usr/share/ansible/collections"
    # What an image rolls out is what a person has read in, not what lies in the repository.
    assert not source["update_on_launch"] and not made.named("projects", "GPU project")["scm_update_on_launch"]


def test_an_image_goes_to_the_canaries_then_to_a_person_then_to_the_fleet(made: AwxServer) -> None:
    found = nodes(made, "GPU roll out an image")
    assert found["canary"]["limit"] == "canary" and not found["fleet"]["limit"]
    canaries = made.store.find("unified_job_templates", found["canary"]["unified_job_template"])
    assert canaries["job_slice_count"] == 1, "a slice without a canary would fail, and nobody be asked"
    rollout = made.named("workflow_job_templates", "GPU roll out an image")
    assert not rollout["ask_limit_on_launch"]
    # What is approved is one image: no second one is read in meanwhile, and each job is told its version and digest.
    assert not rollout["allow_simultaneous"]
    assert made.named("workflow_job_templates", "GPU recycle a node")["allow_simultaneous"]
    asked = {one["variable"]: one["required"] for one in rollout["survey_spec"]["spec"]}
    assert asked == {"rollout_version": True, "rollout_digest": True}

    def after(name: str, how: str) -> list[str]:
        numbers = made.store.list_of("workflow_job_template_nodes", found[name]["id"], how)
        return [one for one, node in found.items() if node["id"] in numbers]

    ways = [after(name, "success_nodes") for name in ("project", "inventory", "canary", "approval")]
    assert ways == [["inventory"], ["canary"], ["approval"], ["fleet"]]
    failed = [after(name, "failure_nodes") for name in ("canary", "approval", "fleet")]
    assert failed == [["broken_off"]] * 3 and after("fleet", "success_nodes") == ["status"]
    approval = made.store.find("unified_job_templates", found["approval"]["unified_job_template"])
    # A canary that a person keeps is left alone, and its job has not failed.
    assert approval["name"].startswith("The canaries' job has ended without a failure.")
    assert approval["timeout"] == 604800


NO_LIMIT = "NAME-THE-NODES"
#: What would be an accident on a whole fleet.
NEED_ONE = {
    "job_templates": {"drain", "reimage", "burn_in", "maintenance", "day0_named", "recycle_named", "look_named"},
    "workflow_job_templates": {"bring_up", "recycle", "maintenance_on", "maintenance_off"},
}


@pytest.mark.parametrize("kind", NEED_ONE)
def test_each_asks_for_a_limit_and_what_needs_one_begins_with_no_host(made: AwxServer, kind: str) -> None:
    table = TABLES["awx_workflows" if kind.startswith("workflow") else "awx_templates"]
    found = {key: made.named(kind, SITE["awx_names"].get(key, f"GPU {one['title']}")) for key, one in table.items()}
    assert {key: one["ask_limit_on_launch"] for key, one in found.items()} == {
        key: key not in ("import_servers", "report", "rollout") for key in table
    }
    needing = {key for key, one in found.items() if one["limit"] == NO_LIMIT}
    assert needing >= NEED_ONE[kind] and needing == {key for key, one in table.items() if one.get("needs_limit")}
    # An empty limit of a workflow would replace that of its canaries.
    assert {key for key, one in found.items() if one["limit"] is None} <= {"rollout"}


ROLLOUT, CANARY = "GPU roll out an image", "GPU day 2 of named nodes"
VERSION = {"extra_vars": {"rollout_version": "2026.11.2", "rollout_digest": "0123456789ab"}}


def launched(awx: AwxServer, workflow: str, **said: Any) -> list[tuple[str, str]]:
    number = awx.named("workflow_job_templates", workflow)["id"]
    _code, told = awx.answer("POST", f"/api/v2/workflow_job_templates/{number}/launch/", {}, said)
    return [(one["name"], one["limit"]) for one in told["jobs"]]


def test_a_workflow_runs_where_its_limit_says_and_a_roll_out_begins_with_the_canaries(made: AwxServer) -> None:
    for said in ({}, {"limit": ""}, {"limit": "all"}):
        assert launched(made, ROLLOUT, **said, **VERSION) == [(CANARY, "canary")]
    assert launched(made, "New rack", limit="r7") == [("GPU day 0 of named nodes", "r7"), ("GPU status", "r7")]
    assert {limit for _name, limit in launched(made, "New rack")} == {NO_LIMIT}
    why = {"extra_vars": {"drain_why": "a fan"}}
    assert launched(made, "GPU recycle a node", **why) == [("GPU drain", NO_LIMIT)]
    wrote(made)


def test_day_2_in_waves_has_its_waves_whatever_becomes_of_its_survey(made: AwxServer) -> None:
    waves = made.named("job_templates", "GPU day 2 in waves")
    assert json.loads(waves["extra_vars"])["day2_recycle_waves"] is True
    assert "day2_recycle_waves" not in made.named("job_templates", "Recycle GPU nodes")["extra_vars"]


def test_a_set_up_that_is_broken_off_leaves_no_roll_out_that_can_be_launched(another: AwxServer) -> None:
    """And one whose limit would replace that of the canaries is made anew."""
    another.named("workflow_job_templates", ROLLOUT)["limit"] = ""
    assert launched(another, ROLLOUT, **VERSION) == [(CANARY, "")]
    some = part(another, "rollout")
    another.refuses = "create_approval_template"
    assert setup(another, **some).returncode
    assert "fleet" in nodes(another, ROLLOUT) and another.named("workflow_job_templates", ROLLOUT)["survey_enabled"]
    number = another.named("workflow_job_templates", ROLLOUT)["id"]
    for answer in ("", "a", "ab", "yes, do it"):
        said = {"extra_vars": {"awx_unfinished": answer} if answer else {}}
        code, told = another.answer("POST", f"/api/v2/workflow_job_templates/{number}/launch/", {}, said)
        assert code == 400 and "awx_unfinished" in str(told)
    another.refuses = ""
    assert changed(setup(another, **some)) > 0
    assert another.named("workflow_job_templates", ROLLOUT)["limit"] is None
    assert launched(another, ROLLOUT, **VERSION) == [(CANARY, "canary")]
    wrote(another)
    assert changed(setup(another, **some)) == 0 and wrote(another) == []


def test_schedules_are_the_sites_and_what_takes_nodes_out_of_service_waits_for_a_person(made: AwxServer) -> None:
    nightly, weekly = (made.named("schedules", f"GPU {name}") for name in ("nightly look", "weekly revalidation"))
    assert nightly["rrule"] == "DTSTART;TZID=Europe/Berlin:20260101T030000 RRULE:FREQ=DAILY;INTERVAL=2"
    assert nightly["enabled"] and not weekly["enabled"]
    assert weekly["extra_data"]["passports_renew"] == "true"
    hourly = made.named("schedules", "GPU hourly verification")
    assert not hourly["enabled"] and hourly["extra_data"] == {"verify_idle_queue": "spare", "verify_idle_minutes": 50}


def test_what_writes_files_writes_them_below_the_folder_that_the_site_has_mounted(made: AwxServer) -> None:
    told = {one["name"]: json.loads(one["extra_vars"]) for one in made.store.all("job_templates")}
    folder = "/srv/gpufleet/Accelerators/"
    below = {
        (name, variable)
        for name, variables in told.items()
        for variable, value in variables.items()
        if str(value).startswith(folder)
    }
    backup = told["GPU ledger backup"]["ledger_path"]
    assert backup == f"{folder}gpufleet-ledger-{{{{ awx_job_id }}}}.sqlite", "a backup is never written over"
    assert below == {
        ("GPU passport files", "passports_write_to"),
        ("GPU ledger backup", "ledger_path"),
        ("GPU ledger archive", "ledger_path"),
        ("GPU report", "report_page"),
        ("GPU report", "report_data"),
        ("GPU report", "report_metrics"),
        ("GPU evidence", "evidence_folder"),
    }


def test_who_is_told_is_told_of_failures_and_of_approvals(made: AwxServer) -> None:
    told = made.named("notification_templates", "GPU notification")["id"]
    day0, status = (made.named("job_templates", name)["id"] for name in ("GPU day 0", "GPU status"))
    assert made.store.list_of("job_templates", day0, "notification_templates_error") == [told]
    assert made.store.list_of("job_templates", status, "notification_templates_error") == []
    rollout = made.named("workflow_job_templates", "GPU roll out an image")["id"]
    assert made.store.list_of("workflow_job_templates", rollout, "notification_templates_approvals") == [told]


def test_a_second_run_puts_back_what_a_person_changed_and_changes_nothing_else(made: AwxServer) -> None:
    drain, found = made.named("job_templates", "GPU drain"), nodes(made, "GPU recycle a node")
    drain["survey_spec"]["spec"][0]["max"] = 4000
    drain["ask_variables_on_launch"] = True
    made.store.list_of("workflow_job_template_nodes", found["drain"]["id"], "success_nodes").clear()
    some = part(made)
    assert changed(setup(made, "--check", **some)) > 0 and wrote(made) == []
    assert changed(setup(made)) == 2, "the template and the node, and none of all the others"
    drain = made.named("job_templates", "GPU drain")
    assert not drain["ask_variables_on_launch"] and drain["survey_spec"]["spec"][0]["max"] == 160
    after = made.store.list_of("workflow_job_template_nodes", found["drain"]["id"], "success_nodes")
    assert after == [found["look"]["id"]]
    places = {tuple(path.split("/")[3:5]) for _method, path in wrote(made)}
    put_back = {("job_templates", str(drain["id"])), ("workflow_job_template_nodes", str(found["drain"]["id"]))}
    assert places == put_back
    assert changed(setup(made, **some)) == 0 and wrote(made) == []


def test_a_workflow_of_an_earlier_release_is_led_on_anew(another: AwxServer, made: AwxServer) -> None:
    """There status followed whatever had become of a stage, so that none was a failure to AWX."""
    found, store = nodes(another, "GPU recycle a node"), another.store
    store.remove(NODES, found["broken_off"]["id"])
    for way, followers in (("success", []), ("failure", []), ("always", [found["status"]["id"]])):
        store.list_of(NODES, found["readmit"]["id"], f"{way}_nodes")[:] = followers
    some = part(made)
    assert changed(setup(another, **some)) > 0
    found = nodes(another, "GPU recycle a node")
    ways = [store.list_of(NODES, found["readmit"]["id"], f"{way}_nodes") for way in ("success", "failure", "always")]
    assert ways == [[found["status"]["id"]], [found["broken_off"]["id"]], []]
    assert found["broken_off"]["extra_data"] == {"status_fail_on": "always"}
    wrote(another)
    assert changed(setup(another, **some)) == 0 and wrote(another) == []


@pytest.fixture
def newer(another: AwxServer, tmp_path: Path) -> AwxServer:
    """A controller on which a template is wanted whose playbook AWX has not found in the project."""
    drain = another.named("job_templates", "GPU drain")
    another.store.remove("job_templates", drain["id"])
    another.named("projects", "GPU project")["playbooks"].remove("playbooks/drain.yml")
    another.store.repositories[GIT] = tmp_path
    return another


def one_template(made: AwxServer) -> dict[str, Any]:
    some = part(made)
    return {**some, "awx_workflows": {}, "awx_templates": {"drain": some["awx_templates"]["drain"]}}


def test_the_project_is_read_anew_where_it_lacks_a_playbook_and_at_no_other_time(
    newer: AwxServer, made: AwxServer
) -> None:
    some = one_template(made)
    newer.store.repositories[GIT] = ROOT / "extensions" / "awx" / "project"
    assert changed(setup(newer, **some)) > 0 and newer.named("job_templates", "GPU drain")
    updates = [path for _method, path in wrote(newer) if path.endswith("/update/")]
    assert len(updates) == 1
    assert changed(setup(newer, **some)) == 0 and wrote(newer) == []


def test_a_playbook_that_nobody_has_pushed_is_told_before_any_template_is_made(
    newer: AwxServer, made: AwxServer
) -> None:
    done = setup(newer, **one_template(made))
    told = " ".join((done.stdout + done.stderr).split())
    assert done.returncode and "GPU project has no playbooks/drain.yml" in told, told
    assert [path.split("/")[3] for _method, path in wrote(newer)] == ["projects"]


def test_absent_removes_its_own_and_leaves_the_sites(another: AwxServer) -> None:
    used = another.named("credential_types", "GPU ledger login")["id"]
    another.store.create("credentials", {"name": "PostgreSQL", "credential_type": used})
    before = {kind: sorted(one["name"] for one in another.store.all(kind)) for kind in ("organizations", "credentials")}
    foretold = changed(setup(another, "--check", awx_state="absent"))
    assert foretold > 0 and wrote(another) == []
    # Who is told no more is not told for who else was.
    assert changed(setup(another, awx_state="absent", awx_notification={})) == foretold
    left = {
        kind: sorted(one["name"] for one in another.store.all(kind)) for kind in another.store.kept if kind != NODES
    }
    types = ["GPU ledger login", "theirs"]
    assert {kind: names for kind, names in left.items() if names} == {**before, "credential_types": types}
    assert not another.store.kept[NODES]
    wrote(another)
    assert changed(setup(another, awx_state="absent")) == 0 and wrote(another) == []


def test_an_inventory_that_goes_in_the_background_is_waited_for(another: AwxServer, made: AwxServer) -> None:
    """Else what is made anew would be given the one that goes, and lose it with its hosts a moment later."""
    first, another.lag = another.named("inventories", "GPU fleet")["id"], 6
    assert changed(setup(another, awx_state="absent")) > 0
    assert [one["id"] for one in another.store.all("inventories")] == []
    another.store, another.jobs = copy.deepcopy(made.store), Jobs(made.store)
    # One that an earlier run has removed, and did not wait for.
    assert another.answer("DELETE", f"/api/v2/inventories/{first}/", {}, {})[0] == 202
    assert another.answer("DELETE", f"/api/v2/inventories/{first}/", {}, {})[0] == 400
    assert changed(setup(another, **part(made))) > 0
    assert another.named("inventories", "GPU fleet")["id"] != first
    another._going.clear()
    another.lag = 10**6
    another.answer("DELETE", f"/api/v2/inventories/{another.named('inventories', 'GPU fleet')['id']}/", {}, {})
    done = setup(another, awx_state="absent", awx_gone_tries=2)
    assert done.returncode and "After 2 s AWX has not removed the inventory GPU fleet" in " ".join(done.stdout.split())


def test_what_is_another_organizations_is_neither_taken_nor_removed(another: AwxServer) -> None:
    """Of the same names, as whoever says no prefix has."""
    wrote(another)
    done = setup(another, awx_organization="Others", awx_state="absent")
    assert done.returncode and "There is no organization Others" in " ".join(done.stdout.split()), done.stdout
    others = another.store.create("organizations", {"name": "Others"})["id"]
    assert changed(setup(another, awx_organization="Others", awx_state="absent")) == 0
    done = setup(another, awx_organization="Others")
    assert done.returncode and "GPU environment does not belong to Others" in " ".join(done.stdout.split()), done.stdout
    assert wrote(another) == []
    project = {"name": "GPU project", "organization": others, "scm_type": "git", "scm_url": GIT}
    theirs = {"project": another.store.create("projects", project)["id"], "playbook": "playbooks/status.yml"}
    run = another.store.create("job_templates", {"name": "GPU status", **theirs})["id"]
    rule = {"rrule": "DTSTART:20260101T030000Z RRULE:FREQ=DAILY;INTERVAL=1", "unified_job_template": run}
    another.store.create("schedules", {"name": "GPU nightly look", **rule})
    types = len(another.store.kept["credential_types"])
    assert changed(setup(another, awx_state="absent")) > 0
    left = [one["name"] for kind in ("projects", "job_templates", "schedules") for one in another.store.all(kind)]
    assert left == ["GPU project", "GPU status", "GPU nightly look"]
    assert len(another.store.kept["credential_types"]) == types
