# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes that a person has put into a workflow of awx_setup: none begins sooner than was meant, and none is lost."""

from __future__ import annotations

import pytest
from awx_server.kinds import NEXT
from awx_server.server import AwxServer
from contract.awx.awx_site import MODULES, NODES, TABLES, changed, nodes, of_workflows, setup, wrote

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not MODULES.is_dir(), reason="no awx.awx: make setup-awx fetches it"),
]
SOME = of_workflows({"rollout": TABLES["awx_workflows"]["rollout"]})
ROLLOUT, FLEET = "GPU roll out an image", "GPU image in waves"
VERSION = {"extra_vars": {"rollout_version": "2026.11.2", "rollout_digest": "0123456789ab"}}


def puts(awx: AwxServer, name: str, *after: str) -> None:
    """A person adds a node, as the editor of workflows does."""
    flow, run = awx.named("workflow_job_templates", ROLLOUT)["id"], awx.named("job_templates", FLEET)["id"]
    said = {"workflow_job_template": flow, "identifier": name, "unified_job_template": run}
    node = awx.store.create(NODES, said)["id"]
    for one in after:
        awx.store.join(NODES, nodes(awx, ROLLOUT)[one]["id"], "success_nodes", node)


def first(awx: AwxServer) -> list[str]:
    """The nodes that begin with the workflow."""
    found = nodes(awx, ROLLOUT)
    led_to = {other for one in found.values() for way in NEXT for other in awx.store.list_of(NODES, one["id"], way)}
    return [name for name, one in found.items() if one["id"] not in led_to]


def refused(awx: AwxServer, *more: str) -> str:
    done = setup(awx, *more, **SOME)
    assert done.returncode and wrote(awx) == [], done.stdout
    return " ".join(done.stdout.split())


@pytest.mark.parametrize("more", [(), ("--check",)])
def test_a_node_behind_one_of_ours_never_comes_to_begin_with_the_workflow(
    awx: AwxServer, more: tuple[str, ...]
) -> None:
    puts(awx, "second-fleet", "approval")
    puts(awx, "third-fleet", "second-fleet")
    was = first(awx)
    said = refused(awx, *more)
    assert (
        f"The workflow {ROLLOUT} has nodes that were not made here, second-fleet running {FLEET}. They follow" in said
    )
    assert "in a copy of the workflow" in said and "third-fleet" not in said
    assert first(awx) == was == ["project"]
    number = awx.named("workflow_job_templates", ROLLOUT)["id"]
    _code, told = awx.answer("POST", f"/api/v2/workflow_job_templates/{number}/launch/", {}, VERSION)
    assert [(one["name"], one["limit"]) for one in told["jobs"]] == [("GPU day 2 of named nodes", "canary")]


def test_a_node_that_another_of_the_persons_leads_to_stays_behind_it(awx: AwxServer) -> None:
    """What it followed of ours is taken from it, as all that a person changes there."""
    puts(awx, "window-is-open")
    puts(awx, "second-fleet", "window-is-open", "approval")
    assert changed(setup(awx, **SOME)) > 0
    assert first(awx) == ["project", "window-is-open"]
    wrote(awx)
    assert changed(setup(awx, **SOME)) == 0 and wrote(awx) == []


def test_a_workflow_that_would_be_made_anew_keeps_a_persons_node(awx: AwxServer) -> None:
    puts(awx, "window-is-open")
    awx.named("workflow_job_templates", ROLLOUT)["limit"] = ""
    assert "Because of its limit it would be made anew, without them" in refused(awx)
    assert "window-is-open" in nodes(awx, ROLLOUT)


def test_where_the_person_has_removed_it_the_next_run_goes_on(awx: AwxServer) -> None:
    puts(awx, "second-fleet", "approval")
    refused(awx)
    awx.store.remove(NODES, nodes(awx, ROLLOUT)["second-fleet"]["id"])
    assert changed(setup(awx, **SOME)) == 0 and wrote(awx) == []
