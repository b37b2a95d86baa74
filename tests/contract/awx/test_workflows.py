# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each workflow of the role awx, as AWX goes through it: whichever stage fails, it has failed, and somebody is told.

The jobs that close it are the playbook ``status`` itself, over nodes that stand as the test says.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.tests.contract.node.test_fleet_status import Fleet
from ansible_collections.gpufleet.baremetal.tests.tree.awx import NEXT, data_of
from awx_server.jobs import Jobs, ended_well
from awx_server.store import Object, Store

ROOT = Path(__file__).resolve().parents[3]
DATA = data_of(ROOT)
WORKFLOWS: dict[str, Any] = DATA["awx_workflows"]
NODES = "workflow_job_template_nodes"
FLEET = "inventory/fleet.yml"
#: What a person answers to a question, and how a job may end.
WELL, BADLY = "successful", ("failed", "error", "canceled")
#: Of the workflows, how the nodes of each stand once all has gone well.
STANDS = {name: "kept" if name == "maintenance_on" else "admitted" for name in WORKFLOWS}


class Controller:
    """A store with a workflow and what it runs, made from the role's tables without its modules."""

    def __init__(self, key: str, folder: Path) -> None:
        (folder / "playbooks").mkdir()
        for name in {one.get("playbook", key) for key, one in DATA["awx_templates"].items()}:
            (folder / "playbooks" / f"{name}.yml").write_text("- hosts: all\n", encoding="utf-8")
        self.store = Store({"git": folder})
        self.jobs = Jobs(self.store)
        organization = {"organization": self._made("organizations", name="A")}
        self.runs = {"project": self._made("projects", name="P", scm_type="git", scm_url="git", **organization)}
        inventory = self._made("inventories", name="I", **organization)
        source = {"inventory": inventory, "source": "scm", "source_project": self.runs["project"], "source_path": FLEET}
        self.runs["source"] = self._made("inventory_sources", name="S", source_vars="", **source)
        self.store.read_source(self.runs["source"])
        self.told = self._made(
            "notification_templates", name="N", **organization, notification_type="slack",
            notification_configuration={"token": "t", "channels": []},
        )  # fmt: skip
        for name, one in DATA["awx_templates"].items():
            self.runs[name] = self._template(name, one)
        table = WORKFLOWS[key]
        survey = {"survey_enabled": "survey" in table, "ask_limit_on_launch": table.get("ask_limit", True)}
        self.workflow = self._made("workflow_job_templates", name=key, **organization, **survey)
        self.store.find("workflow_job_templates", self.workflow)["survey_spec"] = {"spec": table.get("survey", [])}
        self.store.join("workflow_job_templates", self.workflow, "notification_templates_error", self.told)
        self.answers = {one["variable"]: "x" * one["min"] for one in table.get("survey", []) if one["required"]}
        self._nodes(table["nodes"])

    def _made(self, kind: str, **said: Any) -> int:
        return int(self.store.create(kind, said)["id"])

    def _template(self, key: str, one: dict[str, Any]) -> int:
        said = {"project": self.runs["project"], "playbook": f"playbooks/{one.get('playbook', key)}.yml"}
        asks = {"ask_limit_on_launch": one.get("ask_limit", True), "survey_enabled": "survey" in one}
        number = self._made("job_templates", name=key, **said, **asks)
        self.store.find("job_templates", number)["survey_spec"] = {"spec": one.get("survey", [])}
        if one.get("tells"):
            self.store.join("job_templates", number, "notification_templates_error", self.told)
        return number

    def _nodes(self, table: dict[str, Any]) -> None:
        made = {}
        for name, one in table.items():
            asks = {"name": one["approval"], "timeout": one["timeout"]} if "approval" in one else {}
            runs = (
                self._made("workflow_approval_templates", **asks)
                if asks
                else self.runs[one.get("run", one.get("sync"))]
            )
            said = {"extra_data": one.get("extra_data", {}), "limit": one.get("limit")}
            whole = {"workflow_job_template": self.workflow, "unified_job_template": runs, "identifier": name, **said}
            made[name] = self._made(NODES, **whole)
        for name, one in table.items():
            for way, others in ((way, one.get(way, [])) for way in NEXT):
                for other in others:
                    self.store.join(NODES, made[name], f"{way}_nodes", made[other])

    def launch(self, ends: Callable[[str, Object], str]) -> str:
        self.jobs.ends = ends
        return str(self.jobs.launch_workflow(self.workflow, {"extra_vars": self.answers})[1]["status"])

    def knows(self) -> str:
        """What the inventory was read from."""
        return str(self.store.find("inventory_sources", self.runs["source"])["read"])


@pytest.fixture(scope="module")
def status_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Object, str], str]:
    """How the playbook ends for such a job, where all its nodes stand so. Each is run once."""
    folder = tmp_path_factory.mktemp("fleet")
    fleet = Fleet(folder)
    fleet.settings["ANSIBLE_STDOUT_CALLBACK"] = "default"
    token = "gpufleet:r2+keep:disk swap"
    with Ledger(fleet.url) as ledger:
        node = ledger.identify("kept", aliases=[("serial", "S-kept")])
        told = [Event("state", "admitted"), Event("hold", "taken", {"hold_token": token}), Event("state", "draining")]
        ledger.append("r2", [(node, one) for one in told])
    fleet.hosts["kept"] = {"gpufleet_serial": "S-kept"}
    known: dict[tuple[str, str], str] = {}

    def ended(job: Object, stands: str) -> str:
        asked = json.dumps(job["extra_vars"], sort_keys=True)
        if (asked, stands) not in known:
            try:
                fleet.book("gpufleet.baremetal.status", "--limit", stands, "-e", asked)
                known[asked, stands] = WELL
            except AssertionError:
                known[asked, stands] = "failed"
        return known[asked, stands]

    return ended


@pytest.fixture(params=WORKFLOWS)
def controller(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Controller]]:
    yield request.param, Controller(request.param, tmp_path)


def test_all_well_it_has_succeeded_and_nobody_is_told(
    controller: tuple[str, Controller], status_of: Callable[[Object, str], str]
) -> None:
    key, awx = controller

    def ends(node: str, job: Object) -> str:
        return status_of(job, STANDS[key]) if job.get("name") == "status" else WELL

    assert awx.launch(ends) == WELL
    assert awx.jobs.told == [] and awx.jobs.launched[-1]["name"] == "status"


@pytest.mark.parametrize("badly", BADLY)
def test_whichever_of_its_nodes_fails_it_has_failed_and_somebody_is_told(
    controller: tuple[str, Controller], status_of: Callable[[Object, str], str], badly: str
) -> None:
    """Also where its nodes stand as they should, as after an image that nobody consents to."""
    key, awx = controller
    reached = [name for name in WORKFLOWS[key]["nodes"] if name != "broken_off"]
    for failing in reached:
        awx.jobs.told.clear()
        ran: list[str] = []

        def ends(node: str, job: Object, failing: str = failing, ran: list[str] = ran) -> str:
            ran.append(node)
            if node == failing:
                return badly
            return status_of(job, STANDS[key]) if job.get("name") == "status" else WELL

        assert awx.launch(ends) == "failed", failing
        assert (key, "failed") in awx.jobs.told and ran[-1] in (failing, "broken_off"), (failing, ran)
        # Of a stage that has touched nodes people see where these stand.
        assert "run" not in WORKFLOWS[key]["nodes"][failing] or awx.jobs.launched[-1]["name"] == "status", failing


@pytest.mark.parametrize(
    ("key", "stands"),
    [
        ("bring_up", "quarantined"), ("bring_up", "never-seen"), ("recycle", "quarantined"), ("recycle", "kept"),
        ("rollout", "quarantined"), ("maintenance_on", "admitted"), ("maintenance_off", "kept"),
    ],
)  # fmt: skip
def test_a_node_that_stands_otherwise_than_was_wanted_is_a_failure_though_each_stage_went_well(
    tmp_path: Path, status_of: Callable[[Object, str], str], key: str, stands: str
) -> None:
    awx = Controller(key, tmp_path)
    assert awx.launch(lambda _node, job: status_of(job, stands) if job.get("name") == "status" else WELL) == "failed"
    assert awx.jobs.told == [(key, "failed")]


@pytest.fixture
def committed(tmp_path: Path) -> Callable[[str], None]:
    (tmp_path / "inventory").mkdir()

    def commit(said: str) -> None:
        (tmp_path / FLEET).write_text(said, encoding="utf-8")

    commit("the new image\n")
    return commit


@pytest.mark.parametrize("key", ["bring_up", "read_in", "rollout"])
def test_what_was_committed_since_is_what_its_jobs_know(
    tmp_path: Path, committed: Callable[[str], None], key: str
) -> None:
    """The rows of a new rack; and after a denial the old image, or recycles would go on with the denied one."""
    awx = Controller(key, tmp_path)
    assert awx.knows() == "the new image\n"
    committed("the old image\n")
    known: dict[str, str] = {}

    def ends(node: str, job: Object) -> str:
        if job["type"] == "job":
            known[node] = awx.knows()
        return WELL

    assert awx.launch(ends) == WELL
    assert known and set(known.values()) == {"the old image\n"}


@pytest.mark.parametrize(
    "key", sorted({one["workflow"] for one in DATA["awx_own_schedules"].values() if "workflow" in one})
)
def test_what_runs_by_itself_reads_in_no_image_that_nobody_has_said_to_read(
    tmp_path: Path, committed: Callable[[str], None], key: str
) -> None:
    awx = Controller(key, tmp_path)
    committed("an image for next week's roll-out\n")
    assert awx.launch(lambda _node, _job: WELL) == WELL and awx.knows() == "the new image\n"


@pytest.mark.parametrize("stands", ["kept", "retired", "never-seen"])
def test_a_roll_out_over_the_fleet_is_no_failure_for_what_it_was_never_to_touch(
    tmp_path: Path, status_of: Callable[[Object, str], str], stands: str
) -> None:
    awx = Controller("rollout", tmp_path)
    assert awx.launch(lambda _node, job: status_of(job, stands) if job.get("name") == "status" else WELL) == WELL


def test_a_question_that_nobody_has_answered_keeps_a_workflow_from_its_end(tmp_path: Path) -> None:
    awx = Controller("recycle", tmp_path)
    assert awx.launch(ended_well) == "running" and awx.jobs.told == []
    assert [job["name"] for job in awx.jobs.launched] == ["drain"]


def test_the_server_calls_a_failure_handled_where_something_follows_it_as_awx_does(tmp_path: Path) -> None:
    """So the workflows of an earlier release ended well, whatever had become of a stage."""
    awx = Controller("look_around", tmp_path)
    look = next(one for one in awx.store.all(NODES) if one["identifier"] == "look")
    broken_off = next(one for one in awx.store.all(NODES) if one["identifier"] == "broken_off")
    assert awx.launch(lambda node, _job: "failed" if node == "look" else WELL) == WELL
    awx.store.list_of(NODES, look["id"], "failure_nodes").remove(broken_off["id"])
    awx.store.remove(NODES, broken_off["id"])
    assert awx.launch(lambda node, _job: "failed" if node == "look" else WELL) == "failed"


def test_each_status_that_a_workflow_asks_for_is_one_of_the_playbooks() -> None:
    [play] = yaml.safe_load((ROOT / "playbooks" / "status.yml").read_text(encoding="utf-8"))
    refuses = next(task for task in play["tasks"] if "ansible.builtin.assert" in task)
    [question] = [one for one in DATA["awx_templates"]["status"]["survey"] if one["variable"] == "status_fail_on"]
    assert str(question["choices"]) in refuses["ansible.builtin.assert"]["that"]
