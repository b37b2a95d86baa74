# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook awx_setup, run with the modules of awx.awx against a server that refuses what AWX refuses.

One first run serves all that look at what it made. What is removed is a copy's.
"""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from awx_server.server import AwxServer
from suite import playbook

ROOT = Path(__file__).resolve().parents[3]
#: `make setup` puts it there.
MODULES = ROOT / "build" / "awx" / "collections"
GIT = "https://git.example.com/gpu/fleet.git"
SITE: dict[str, Any] = {
    "awx_organization": "Accelerators",
    "awx_prefix": "GPU",
    "awx_names": {"day2_recycle": "Recycle GPU nodes", "bring_up": "New rack"},
    "awx_project_url": GIT,
    "awx_environment_image": "registry.example.com/gpu/gpufleet-ee:0.1.0",
    "awx_credentials": ["BMCs of Ulm"],
    "awx_slices": 4,
    "awx_timezone": "Europe/Berlin",
    "awx_schedules": {"nightly_look": {"rule": "FREQ=DAILY;INTERVAL=2"}},
    "awx_notification": {
        "type": "webhook",
        "configuration": {"url": "https://hooks.example.com/gpu", "http_method": "POST", "headers": {}},
    },
}

NODES = "workflow_job_template_nodes"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not MODULES.is_dir(), reason="no awx.awx: make setup-awx fetches it"),
]


@pytest.fixture(scope="module")
def awx() -> Iterator[AwxServer]:
    server = AwxServer({GIT: ROOT / "extensions" / "awx" / "project"})
    yield server
    server.close()


def setup(awx: AwxServer, *more: str, **site: Any) -> subprocess.CompletedProcess[str]:
    """Of what is secret there is the token alone, and that is in the environment."""
    settings = {
        "CONTROLLER_HOST": awx.url,
        "CONTROLLER_OAUTH_TOKEN": awx.token,
        "ANSIBLE_COLLECTIONS_PATH": f"{ROOT / 'build' / 'collections'}:{MODULES}",
        "ANSIBLE_LOCALHOST_WARNING": "false",
        "ANSIBLE_INVENTORY_UNPARSED_WARNING": "false",
    }
    argv = ["gpufleet.baremetal.awx_setup", "-e", json.dumps({**SITE, **site}), *more]
    return playbook.run(argv, {**os.environ, **settings}, timeout=600)


def changed(done: subprocess.CompletedProcess[str]) -> int:
    assert done.returncode == 0, done.stdout + done.stderr
    return int(re.findall(r"changed=(\d+)", done.stdout)[-1])


def wrote(awx: AwxServer) -> list[tuple[str, str]]:
    """Since the last look."""
    found = list(awx.writes)
    awx.writes.clear()
    return found


def nodes(awx: AwxServer, workflow: str) -> dict[str, Mapping[str, Any]]:
    number = awx.named("workflow_job_templates", workflow)["id"]
    all_of_them = awx.store.all("workflow_job_template_nodes")
    return {one["identifier"]: one for one in all_of_them if one["workflow_job_template"] == number}


def test_check_mode_on_an_empty_controller_foretells_and_writes_nothing(awx: AwxServer) -> None:
    done = setup(awx, "--check")
    assert changed(done) > 0 and wrote(awx) == []
    made = "GPU preflight, GPU day 0, Recycle GPU nodes, GPU day 2 in waves, GPU image in waves"
    assert f"job_templates: {made}" in done.stdout, done.stdout
    assert "schedules: GPU nightly look, GPU weekly revalidation" in done.stdout, done.stdout


@pytest.fixture(scope="module")
def made(awx: AwxServer) -> AwxServer:
    """After a first run, on a controller where people have made credentials of their own."""
    kind = awx.store.create("credential_types", {"name": "theirs", "kind": "cloud"})
    awx.store.create("credentials", {"name": "BMCs of Ulm", "credential_type": kind["id"]})
    done = setup(awx, "-vvv")
    assert changed(done) > 0 and wrote(awx)
    # The address of a webhook is as good as a password.
    assert "hooks.example.com" not in done.stdout + done.stderr
    return awx


@pytest.fixture
def another(made: AwxServer) -> Iterator[AwxServer]:
    """A controller that has the same."""
    server = AwxServer({})
    server.store = copy.deepcopy(made.store)
    yield server
    server.close()


def test_the_first_run_makes_all_of_it(made: AwxServer) -> None:
    assert made.unheard == set()
    counts = {
        kind: len(list(made.store.all(kind))) for kind in ("job_templates", "workflow_job_templates", "schedules")
    }
    assert counts == {"job_templates": 19, "workflow_job_templates": 6, "schedules": 2}


def test_a_template_asks_what_its_playbook_takes_and_nothing_else(made: AwxServer) -> None:
    day2 = made.named("job_templates", "Recycle GPU nodes")
    assert day2["playbook"] == "playbooks/day2_recycle.yml" and day2["job_slice_count"] == 4
    assert day2["ask_limit_on_launch"] and not day2["ask_variables_on_launch"]
    asked = [one["variable"] for one in day2["survey_spec"]["spec"]]
    assert asked == ["day2_recycle_all", "day2_recycle_look_timeout", "gpufleet_for_tenant"]
    told = json.loads(day2["extra_vars"])["gpufleet_awx_templates"]
    assert told["day2_recycle"] == "Recycle GPU nodes" and told["drain"] == "GPU drain" and "look" not in told
    assert len(made.store.list_of("job_templates", day2["id"], "credentials")) == 1
    drain = made.named("job_templates", "GPU drain")
    assert drain["limit"] == "NAME-THE-NODES" and drain["job_slice_count"] == 1
    look = made.named("job_templates", "GPU look")
    assert look["job_type"] == "check" and not look["ask_job_type_on_launch"]
    assert not made.named("job_templates", "GPU import servers")["ask_limit_on_launch"]


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
    assert not made.named("workflow_job_templates", "GPU roll out an image")["ask_limit_on_launch"]

    def after(name: str, how: str) -> list[str]:
        numbers = made.store.list_of("workflow_job_template_nodes", found[name]["id"], how)
        return [one for one, node in found.items() if node["id"] in numbers]

    ways = [after(name, "success_nodes") for name in ("project", "inventory", "canary", "approval")]
    assert ways == [["inventory"], ["canary"], ["approval"], ["fleet"]]
    assert after("approval", "failure_nodes") == ["status"] and after("fleet", "always_nodes") == ["status"]
    approval = made.store.find("unified_job_templates", found["approval"]["unified_job_template"])
    assert approval["timeout"] == 604800 and approval["name"].endswith("Go on with the fleet?")


def test_schedules_are_the_sites_and_what_takes_nodes_out_of_service_waits_for_a_person(made: AwxServer) -> None:
    nightly, weekly = (made.named("schedules", f"GPU {name}") for name in ("nightly look", "weekly revalidation"))
    assert nightly["rrule"] == "DTSTART;TZID=Europe/Berlin:20260101T030000 RRULE:FREQ=DAILY;INTERVAL=2"
    assert nightly["enabled"] and not weekly["enabled"]
    assert weekly["extra_data"]["passports_renew"] == "true"


def test_who_is_told_is_told_of_failures_and_of_approvals(made: AwxServer) -> None:
    told = made.named("notification_templates", "GPU notification")["id"]
    day0, status = (made.named("job_templates", name)["id"] for name in ("GPU day 0", "GPU status"))
    assert made.store.list_of("job_templates", day0, "notification_templates_error") == [told]
    assert made.store.list_of("job_templates", status, "notification_templates_error") == []
    rollout = made.named("workflow_job_templates", "GPU roll out an image")["id"]
    assert made.store.list_of("workflow_job_templates", rollout, "notification_templates_approvals") == [told]


def part(made: AwxServer) -> dict[str, Any]:
    """The tables of one workflow and of what it runs: of the others a run would say the same, a minute later."""
    tables = yaml.safe_load((ROOT / "roles" / "awx" / "vars" / "main" / "jobs.yml").read_text(encoding="utf-8"))
    recycle = tables["awx_workflows"]["recycle"]
    run = {one["run"] for one in recycle["nodes"].values() if "run" in one}
    return {
        "awx_workflows": {"recycle": recycle},
        "awx_templates": {name: tables["awx_templates"][name] for name in sorted(run)},
        "awx_extra_vars": json.loads(made.named("job_templates", "GPU drain")["extra_vars"]),
        **dict.fromkeys(("awx_own_schedules", "awx_schedules", "awx_names"), {}),
    }


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


@pytest.mark.parametrize(
    ("site", "word"),
    [
        ({"awx_names": {"day3": "x"}}, "Unknown in awx_names: day3"),
        ({"awx_schedules": {"weekly": {}}}, "in awx_schedules: weekly"),
        ({"awx_names": {"look": "GPU status"}}, "Called alike: GPU status"),
        ({"awx_project_url": ""}, "awx_project_url is not set"),
        ({"awx_slices": "many"}, "awx_slices"),
        ({"awx_state": "gone"}, "awx_state"),
    ],
)
def test_a_mistake_is_told_before_the_controller_is_asked(awx: AwxServer, site: dict[str, Any], word: str) -> None:
    asked = len(awx.asked)
    done = setup(awx, **site)
    assert done.returncode and word in " ".join((done.stdout + done.stderr).split()), done.stdout
    assert len(awx.asked) == asked
