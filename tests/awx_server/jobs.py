# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs: what was launched, and with what. None runs; a test says how one ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

from awx_server import rules
from awx_server.kinds import NEXT
from awx_server.store import Object, Refused, Store

_NODES = "workflow_job_template_nodes"
#: What a launch may say, and which question of the template has to be open for it.
_PROMPTS = {"limit": "limit", "extra_vars": "variables", "inventory": "inventory", "job_type": "job_type"}


def _handed_on(node: Object, limit: Optional[str]) -> dict[str, Any]:
    """What the workflow says replaces what its node says, and an empty text says something."""
    said = node["limit"] if limit is None else limit
    return {} if said is None else {"limit": said}


class Jobs:
    """launched: the oldest first."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.launched: list[Object] = []

    def launch(self, number: int, said: Mapping[str, Any]) -> tuple[int, Object]:
        """What a template does not ask is passed over, and told: so a limit is lost, and the job runs all the same."""
        template = self._store.find("job_templates", number)
        heard = {
            name: said[name] for name, asked in _PROMPTS.items() if name in said and template[f"ask_{asked}_on_launch"]
        }
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
        """As though each job ended well, and nobody had answered a question yet."""
        workflow = self._store.find("workflow_job_templates", number)
        survey = workflow.get("survey_spec") or {} if workflow["survey_enabled"] else {}
        wrong = list(rules.answers(survey, said.get("extra_vars", {}), needed=True))
        if wrong:
            raise Refused({"variables_needed_to_start": wrong})
        limit = said.get("limit") if workflow["ask_limit_on_launch"] else None
        limit = workflow["limit"] if limit is None else limit
        mine = [one for one in self._store.all(_NODES) if one["workflow_job_template"] == number]
        led_to = {one for node in mine for one in self._after(node, *NEXT)}
        todo, jobs = [node for node in mine if node["id"] not in led_to], []
        while todo:
            node = todo.pop(0)
            run = node["unified_job_template"]
            if run in self._store.kept["job_templates"]:
                jobs.append(self.launch(run, _handed_on(node, limit))[1])
            if run not in self._store.kept["workflow_approval_templates"]:
                todo += [self._store.find(_NODES, one) for one in self._after(node, "success_nodes", "always_nodes")]
        return 201, {"workflow_job": number, "jobs": jobs}

    def _after(self, node: Object, *ways: str) -> list[int]:
        return [one for way in ways for one in self._store.list_of(_NODES, node["id"], way)]

    def page(self, rest: list[str], query: Mapping[str, str]) -> tuple[int, Any]:
        wanted = set(query["id__in"].split(",")) if "id__in" in query else None
        found = [job for job in self.launched if wanted is None or str(job["id"]) in wanted]
        if rest:
            found = [job for job in self.launched if str(job["id"]) == rest[0]]
            if not found:
                raise Refused({"detail": "Not found."}, 404)
            return 200, found[0]
        return 200, {"count": len(found), "next": None, "previous": None, "results": found}
