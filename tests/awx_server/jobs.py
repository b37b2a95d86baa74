# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs and workflows: what was launched, and with what. None runs; a test says how each ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Optional

from awx_server import rules
from awx_server.kinds import NEXT
from awx_server.store import Object, Refused, Store
from awx_server.workflows import ENDED_BADLY, PENDING, SUCCESSFUL, Node, Workflow

_NODES = "workflow_job_template_nodes"
#: What a launch may say, and which question of the template has to be open for it.
_PROMPTS = {"limit": "limit", "extra_vars": "variables", "inventory": "inventory", "job_type": "job_type"}


def _handed_on(node: Object, limit: Optional[str]) -> dict[str, Any]:
    """What the workflow says replaces what its node says, and an empty text says something."""
    said = node["limit"] if limit is None else limit
    return {} if said is None else {"limit": said}


def _answered(template: Object, given: Mapping[str, Any]) -> dict[str, Any]:
    """What a survey asks may be answered where nothing else may be said."""
    spec = template.get("survey_spec") or {} if template["survey_enabled"] else {}
    asked = {one["variable"] for one in spec.get("spec", ())}
    answers = {name: value for name, value in given.items() if name in asked}
    return {"extra_vars": answers} if answers else {}


def ended_well(_identifier: str, job: Object) -> str:
    """Nobody has answered a question yet."""
    return PENDING if job["type"] == "workflow_approval" else SUCCESSFUL


class Jobs:
    """launched: the oldest first. told: of whose end, and which, somebody was told."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.launched: list[Object] = []
        self.told: list[tuple[str, str]] = []
        #: How what a node of a workflow runs ends, by the node's identifier and the job.
        self.ends: Callable[[str, Object], str] = ended_well

    def launch(self, number: int, said: Mapping[str, Any]) -> tuple[int, Object]:
        """What a template does not ask is passed over, and told: so a limit is lost, and the job runs all the same."""
        template = self._store.find("job_templates", number)
        heard = {
            name: said[name] for name, asked in _PROMPTS.items() if name in said and template[f"ask_{asked}_on_launch"]
        }
        if "extra_vars" in said and "extra_vars" not in heard:
            heard.update(_answered(template, said["extra_vars"]))
        job = {
            "id": len(self.launched) + 1,
            "type": "job",
            "name": template["name"],
            "playbook": template["playbook"],
            "job_type": heard.get("job_type", template["job_type"]),
            "limit": heard.get("limit", template["limit"]),
            "extra_vars": heard.get("extra_vars", {}),
            "status": "running",
            "created": "2026-11-29T00:00:00Z",
            "artifacts": {},
        }
        job["url"] = f"/api/v2/jobs/{job['id']}/"
        self.launched.append(job)
        return 201, {**job, "job": job["id"], "ignored_fields": {name: said[name] for name in set(said) - set(heard)}}

    def launch_workflow(self, number: int, said: Mapping[str, Any]) -> tuple[int, Object]:
        """As far as its first question to a person that ``ends`` does not answer."""
        template = self._store.find("workflow_job_templates", number)
        survey = template.get("survey_spec") or {} if template["survey_enabled"] else {}
        wrong = list(rules.answers(survey, said.get("extra_vars", {}), needed=True))
        if wrong:
            raise Refused({"variables_needed_to_start": wrong})
        limit = said.get("limit") if template["ask_limit_on_launch"] else None
        limit = template["limit"] if limit is None else limit
        begun: list[Object] = []

        def start(node: Object) -> Object:
            begun.append(self._begin(node, limit, said.get("extra_vars", {})))
            return begun[-1]

        nodes = {
            one["id"]: self._node(one) for one in self._store.all(_NODES) if one["workflow_job_template"] == number
        }
        status = Workflow(nodes, start).go_on()
        self._tell("workflow_job_templates", template, status)
        jobs = [one for one in begun if one["type"] == "job"]
        return 201, {"workflow_job": number, "jobs": jobs, "status": status}

    def _node(self, made: Object) -> Node:
        return Node(made, {way: list(self._store.list_of(_NODES, made["id"], way)) for way in NEXT})

    def _begin(self, node: Object, limit: Optional[str], given: Mapping[str, Any]) -> Object:
        """What a node runs: a job, the update of a project or an inventory, or a question to a person."""
        run = node["unified_job_template"]
        if run in self._store.kept["job_templates"]:
            # What is answered to a workflow each of its jobs is told.
            heard = {"extra_vars": {**node["extra_data"], **given}}
            self.launch(run, {**heard, **_handed_on(node, limit)})
            job = self.launched[-1]
        else:
            asks = run in self._store.kept["workflow_approval_templates"]
            job = {"type": "workflow_approval" if asks else "update", "status": "running"}
        job["status"] = self.ends(node["identifier"], job)
        if job["type"] == "update" and job["status"] == SUCCESSFUL:
            (self._store.read_anew if run in self._store.kept["projects"] else self._store.read_source)(run)
        if job["type"] == "job":
            self._tell("job_templates", self._store.find("job_templates", run), job["status"])
        return job

    def _tell(self, kind: str, template: Object, status: str) -> None:
        """Who is to be told of an end like this."""
        event = {SUCCESSFUL: "success", **dict.fromkeys(ENDED_BADLY, "error")}.get(status)
        for _one in self._store.list_of(kind, template["id"], f"notification_templates_{event}") if event else ():
            self.told.append((template["name"], status))

    def page(self, rest: list[str], query: Mapping[str, str]) -> tuple[int, Any]:
        wanted = set(query["id__in"].split(",")) if "id__in" in query else None
        found = [job for job in self.launched if wanted is None or str(job["id"]) in wanted]
        if rest:
            found = [job for job in self.launched if str(job["id"]) == rest[0]]
            if not found:
                raise Refused({"detail": "Not found."}, 404)
            return 200, found[0]
        return 200, {"count": len(found), "next": None, "previous": None, "results": found}
