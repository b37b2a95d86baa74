# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes that awx_setup has made do what the tables say, whatever a person or an earlier release has left there."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from awx_server.server import AwxServer
from contract.awx.awx_site import (
    MARK,
    MODULES,
    NODES,
    TABLES,
    changed,
    nodes,
    of_workflows,
    setup,
    wrote,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not MODULES.is_dir(), reason="no awx.awx: make setup-awx fetches it"),
]
FLOWS = {key: TABLES["awx_workflows"][key] for key in ("recycle", "maintenance_off")}
SOME = of_workflows(FLOWS)
RECYCLE, OFF = "GPU recycle a node", "GPU maintenance off"
WHY = {"drain_why": "a fan"}


def launched(awx: AwxServer) -> tuple[int, Any]:
    """What a recycle of one node begins with, before anybody is asked."""
    number = awx.named("workflow_job_templates", RECYCLE)["id"]
    said = {"limit": "gpu001", "extra_vars": WHY}
    code, told = awx.answer("POST", f"/api/v2/workflow_job_templates/{number}/launch/", {}, said)
    wrote(awx)
    return code, [(one["name"], one["limit"]) for one in told["jobs"]] if code == 201 else told


def without(one: dict[str, Any]) -> dict[str, Any]:
    """What a node runs and is told, without its numbers."""
    return {name: value for name, value in one.items() if name not in ("id", "unified_job_template")}


def renamed() -> dict[str, Any]:
    """The tables of a release in which the stage reimage is called image."""
    flows = copy.deepcopy(FLOWS)
    said = flows["recycle"]["nodes"]
    before = list(said.items())
    said.clear()
    said.update({"image" if name == "reimage" else name: one for name, one in before})
    said["look"]["success"] = ["image"]
    return {**SOME, "awx_workflows": flows}


TOLD = [
    ("day2", {"extra_data": {"day2_recycle_drift": "true"}}),
    ("day2", {"limit": "all"}),
    ("day2", {"job_type": "check"}),
    ("broken_off", {"all_parents_must_converge": True}),
]


def test_what_a_node_was_told_beyond_the_tables_is_taken_from_it(awx: AwxServer) -> None:
    """AWX hands it on to the job: maintenance off would bring an image that was denied, or run on all nodes."""
    was = {name: without(one) for name, one in nodes(awx, OFF).items()}
    for name, said in TOLD:
        awx.store.update(NODES, nodes(awx, OFF)[name]["id"], said)
    assert changed(setup(awx, "--check", **SOME)) > 0 and wrote(awx) == []
    assert changed(setup(awx, **SOME)) > 0
    assert {name: without(one) for name, one in nodes(awx, OFF).items()} == was
    touched = {path.split("/")[4] for _method, path in wrote(awx) if "/workflow_job_templates/" in path}
    assert touched == {str(awx.named("workflow_job_templates", OFF)["id"])}
    assert changed(setup(awx, **SOME)) == 0 and wrote(awx) == []


def test_a_node_that_the_tables_have_no_more_goes_before_it_can_begin(awx: AwxServer) -> None:
    """It would have been led to by nobody, and begun with the workflow: an image before the question to a person."""
    flow, run = awx.named("workflow_job_templates", RECYCLE)["id"], awx.named("job_templates", "GPU drain")["id"]
    theirs = {"workflow_job_template": flow, "identifier": "reimage soon", "unified_job_template": run}
    awx.store.join(NODES, awx.store.create(NODES, theirs)["id"], "success_nodes", nodes(awx, RECYCLE)["readmit"]["id"])
    assert changed(setup(awx, "--check", **renamed())) > 0 and wrote(awx) == []
    old = nodes(awx, RECYCLE)["reimage"]["id"]
    awx.refuses = f"{NODES}/{old}"
    assert setup(awx, **renamed()).returncode
    code, told = launched(awx)
    assert code == 400 and "awx_unfinished" in str(told), told
    awx.refuses = ""
    assert changed(setup(awx, **renamed())) > 0
    assert {"image", "reimage soon"} <= {*nodes(awx, RECYCLE)} and "reimage" not in nodes(awx, RECYCLE)
    awx.store.remove(NODES, nodes(awx, RECYCLE)["reimage soon"]["id"])
    assert launched(awx) == (201, [("GPU drain", "gpu001")])
    assert changed(setup(awx, **renamed())) == 0 and wrote(awx) == []


def test_a_persons_node_behind_one_that_would_go_is_told_before_anything_is_changed(awx: AwxServer) -> None:
    flow, run = awx.named("workflow_job_templates", RECYCLE)["id"], awx.named("job_templates", "GPU drain")["id"]
    theirs = {"workflow_job_template": flow, "identifier": "smoke", "unified_job_template": run}
    awx.store.join(NODES, nodes(awx, RECYCLE)["reimage"]["id"], "always_nodes", awx.store.create(NODES, theirs)["id"])
    done = setup(awx, **renamed())
    assert done.returncode and "not made here, smoke running GPU drain" in " ".join(done.stdout.split()), done.stdout
    assert wrote(awx) == []


def test_nodes_of_a_release_that_marked_none_are_made_anew(awx: AwxServer) -> None:
    for one in nodes(awx, RECYCLE).values():
        one["identifier"] = one["identifier"].removesuffix(MARK)
    assert changed(setup(awx, **SOME)) > 0
    found = sorted(one["identifier"] for one in nodes(awx, RECYCLE).values())
    assert found == sorted(f"{name}{MARK}" for name in FLOWS["recycle"]["nodes"])
    assert launched(awx) == (201, [("GPU drain", "gpu001")])


def test_a_question_that_a_person_has_made_a_job_of_is_asked_again(awx: AwxServer) -> None:
    """The module would call the job's template like the question, and change nothing else."""
    reimage = awx.named("job_templates", "GPU reimage")["id"]
    awx.store.update(NODES, nodes(awx, RECYCLE)["look"]["id"], {"unified_job_template": reimage})
    assert launched(awx)[1][-1][0] != "GPU drain"
    assert changed(setup(awx, **SOME)) > 0
    assert awx.store.find("job_templates", reimage)["name"] == "GPU reimage"
    assert launched(awx) == (201, [("GPU drain", "gpu001")])
