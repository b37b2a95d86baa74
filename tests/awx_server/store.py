# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The objects of one AWX: made, changed, joined and removed by its rules."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from awx_server import rules
from awx_server.kinds import FIELDS, LISTS, NEXT, UNIFIED, UNIQUE, WITH, Field

Object = dict[str, Any]
_SINGULAR = {"inventories": "inventory"}
#: What a run of each kind is called.
_RUNS_AS = {
    "job_templates": "job",
    "workflow_job_templates": "workflow_job",
    "projects": "project_update",
    "inventory_sources": "inventory_update",
    "workflow_approval_templates": "workflow_approval",
}
#: What makes a file of YAML a playbook.
_PLAYBOOK = re.compile(r"^\s*-?\s*(?:hosts|(?:ansible\.builtin\.)?import_playbook):", re.MULTILINE)


class Refused(Exception):
    """code: 400 where what is said is wrong, 403 where it may not be done."""

    def __init__(self, told: Mapping[str, Any], code: int = 400) -> None:
        super().__init__(told)
        self.told, self.code = dict(told), code


class Store:
    """repositories: what a project's address leads to."""

    def __init__(self, repositories: Mapping[str, Path]) -> None:
        self.repositories = dict(repositories)
        self.kept: dict[str, dict[int, Object]] = {kind: {} for kind in FIELDS}
        self.joined: dict[tuple[str, int, str], list[int]] = {}
        #: What files a revision of a project has.
        self.revisions: dict[str, dict[str, bytes]] = {}
        self._ids = itertools.count(1)

    # -- reading -----------------------------------------------------------------------------------------------

    def find(self, kind: str, number: int) -> Object:
        for one in UNIFIED if kind == "unified_job_templates" else (kind,):
            if number in self.kept[one]:
                return self.kept[one][number]
        raise Refused({"detail": "Not found."}, 404)

    def all(self, kind: str) -> Iterator[Object]:
        for one in UNIFIED if kind == "unified_job_templates" else (kind,):
            yield from self.kept[one].values()

    def list_of(self, kind: str, number: int, name: str) -> list[int]:
        return self.joined.setdefault((kind, number, name), [])

    def whole(self, kind: str, found: Object) -> Object:
        """As the API shows it."""
        kind = next(one for one in FIELDS if found["id"] in self.kept[one]) if kind == "unified_job_templates" else kind
        url = f"/api/v2/{kind}/{found['id']}/"
        summary: dict[str, Any] = {"current_update": {"id": found["id"]}} if kind == "projects" else {}
        related = {name: f"{url}{name}/" for name in (*LISTS.get(kind, ()), "survey_spec")}
        if found.get("unified_job_template"):
            runs = self.find("unified_job_templates", found["unified_job_template"])
            related["unified_job_template"] = self.whole("unified_job_templates", runs)["url"]
            summary["unified_job_template"] = {name: runs[name] for name in ("id", "name", "description")}
            of = next(one for one in UNIFIED if found["unified_job_template"] in self.kept[one])
            summary["unified_job_template"]["unified_job_type"] = _RUNS_AS[of]
        shown = {name: value for name, value in found.items() if name not in ("survey_spec", "playbooks", "read")}
        if kind == "workflow_job_template_nodes":
            shown.update({way: list(self.list_of(kind, found["id"], way)) for way in NEXT})
        if kind in ("job_templates", "workflow_job_templates"):
            related["launch"] = f"{url}launch/"
        if kind == "projects":
            related["update"] = f"{url}update/"
        if found.get("organization"):
            summary["organization"] = {"name": self.find("organizations", found["organization"])["name"]}
        return {
            **shown,
            "type": _SINGULAR.get(kind, kind[:-1]),
            "url": url,
            "related": related,
            "summary_fields": summary,
        }

    # -- writing -----------------------------------------------------------------------------------------------

    def create(self, kind: str, said: Mapping[str, Any]) -> Object:
        made = {name: field.default for name, field in FIELDS[kind].items()}
        lacking = [name for name, field in FIELDS[kind].items() if field.required and said.get(name) in (None, "")]
        if lacking:
            raise Refused({name: ["This field is required."] for name in lacking})
        made["id"] = next(self._ids)
        if kind == "inventories":
            made["pending_deletion"] = False
        self._change(kind, made, said)
        self.kept[kind][made["id"]] = made
        return made

    def update(self, kind: str, number: int, said: Mapping[str, Any]) -> Object:
        was = self.find(kind, number)
        after = dict(was)
        if kind == "credential_types" and self._in_use(number) and said.get("inputs", was["inputs"]) != was["inputs"]:
            raise Refused(
                {"detail": "Modifications to inputs are not allowed for credential types that are in use"}, 403
            )
        self._change(kind, after, said)
        self.kept[kind][number] = after
        return after

    def read_anew(self, number: int) -> Object:
        """What was pushed to a project's repository since its last update is found by the next one."""
        project = self.find("projects", number)
        self._of_projects(project)
        return project

    def read_source(self, number: int) -> None:
        """An inventory's update is of the revision that its project's last one has found, whatever was pushed since.

        Source: awx/main/tasks/jobs.py (RunProjectUpdate.build_extra_vars_file, for a sync that another job begins).
        """
        source = self.find("inventory_sources", number)
        files = self.revisions[self.find("projects", source["source_project"])["scm_revision"]]
        source["read"] = files.get(source["source_path"], b"").decode("utf-8")

    def remove(self, kind: str, number: int) -> None:
        if kind == "credential_types" and self._in_use(number):
            raise Refused({"detail": "Credential types that are in use cannot be deleted"}, 403)
        for other, field in WITH.get(kind, ()):
            for one in [one["id"] for one in self.kept[other].values() if one[field] == number]:
                self.remove(other, one)
        gone = self.kept[kind].pop(number)
        # A node whose template is gone stays, and runs nothing.
        for node in self.kept["workflow_job_template_nodes"].values() if kind in UNIFIED else ():
            if node["unified_job_template"] == number:
                node["unified_job_template"] = None
        # A question to a person is of its node alone.
        self.kept["workflow_approval_templates"].pop(gone.get("unified_job_template"), None)
        for numbers in self.joined.values():
            numbers[:] = [one for one in numbers if one != number]

    def _in_use(self, number: int) -> bool:
        return any(one["credential_type"] == number for one in self.kept["credentials"].values())

    def _change(self, kind: str, record: Object, said: Mapping[str, Any]) -> None:
        """What is no field is passed over, as Django's serializers do."""
        faults = {}
        for name in FIELDS[kind].keys() & said.keys():
            fault = self._unfit(FIELDS[kind][name], said[name])
            if fault:
                faults[name] = [fault]
            record[name] = said[name]
        if faults:
            raise Refused(faults)
        getattr(self, f"_of_{kind}", lambda _record: None)(record)
        if kind in UNIQUE:
            self._alone(kind, record)

    def _unfit(self, field: Field, value: Any) -> str:
        if value is None or (value == "" and field.to):
            return "" if field.null else "This field may not be null."
        if type(value) not in field.form:
            return f"{value!r} is not a valid {field.form[0].__name__}."
        if field.choices and value not in field.choices:
            return f'"{value}" is not a valid choice.'
        if field.to and all(one["id"] != value for one in self.all(field.to)):
            return f'Invalid pk "{value}" - object does not exist.'
        return ""

    def _alone(self, kind: str, record: Object) -> None:
        names = UNIQUE[kind]
        same = [one for one in self.kept[kind].values() if all(one[name] == record[name] for name in names)]
        if any(one["id"] != record["id"] for one in same):
            raise Refused({"__all__": [f"{kind} with this {' and '.join(names)} already exists."]})

    # -- what a kind demands besides ---------------------------------------------------------------------------

    def _of_credential_types(self, record: Object) -> None:
        _refuse(rules.credential_type(record))

    def _of_projects(self, record: Object) -> None:
        """Its update, which in AWX is a job of its own. What lies in the repository is its revision until the next."""
        folder = self.repositories.get(record["scm_url"])
        there = sorted(folder.rglob("*")) if folder else []
        files = {one.relative_to(folder).as_posix(): one.read_bytes() for one in there if folder and one.is_file()}
        record["status"] = "successful" if folder else "failed"
        record["scm_revision"] = hashlib.sha256(repr(files).encode()).hexdigest()[:40] if folder else ""
        self.revisions[record["scm_revision"]] = files
        record["playbooks"] = [
            name for name, said in files.items() if name.endswith(".yml") and _PLAYBOOK.search(said.decode("utf-8"))
        ]

    def _of_inventory_sources(self, record: Object) -> None:
        if record["source"] == "scm" and not record["source_project"]:
            raise Refused({"source_project": ["Project required for scm type sources."]})
        if not isinstance(record["source_vars"], str):
            raise Refused({"source_vars": ["Must be text."]})

    def _of_notification_templates(self, record: Object) -> None:
        _refuse(rules.notification(record))

    def _of_job_templates(self, record: Object) -> None:
        project = self.kept["projects"].get(record["project"] or 0)
        # It belongs to whom its project belongs to, whatever was said.
        record["organization"] = project["organization"] if project else None
        if project and record["playbook"] not in project["playbooks"]:
            raise Refused({"playbook": ["Playbook not found for project."]})
        if not project:
            raise Refused({"project": ["Job Templates must have a project assigned."]})

    def _of_schedules(self, record: Object) -> None:
        _refuse(rules.schedule(record))
        runs = self.find("unified_job_templates", record["unified_job_template"])
        _refuse(rules.prompts(record, runs, needed=True))

    def _of_workflow_job_template_nodes(self, record: Object) -> None:
        record["identifier"] = record["identifier"] or f"node-{record['id']}"
        if record["unified_job_template"]:
            runs = self.find("unified_job_templates", record["unified_job_template"])
            # What a survey demands may also be answered by the workflow's own.
            _refuse(rules.prompts(record, runs, needed=False))

    # -- lists of others ---------------------------------------------------------------------------------------

    def join(self, kind: str, number: int, name: str, other: int) -> None:
        found = self.find(LISTS[kind][name], other)
        if name == "credentials":
            mine = [self.find("credentials", one)["credential_type"] for one in self.list_of(kind, number, name)]
            if found["credential_type"] in mine:
                raise Refused({"error": "Cannot assign multiple credentials of one type."})
        if name in NEXT:
            self._leads_on(number, found)
            if any(other in self.list_of(kind, number, way) for way in NEXT if way != name):
                raise Refused({"Error": "Relationship not allowed."})
        self.list_of(kind, number, name).append(other)

    def _leads_on(self, number: int, after: Object) -> None:
        kind = "workflow_job_template_nodes"
        if self.kept[kind][number]["workflow_job_template"] != after["workflow_job_template"]:
            raise Refused({"Error": "Nodes of two workflows."})
        seen, todo = set(), [after["id"]]
        while todo:
            one = todo.pop()
            if one == number:
                raise Refused({"Error": "Cycle detected."})
            seen.add(one)
            todo += [next_ for name in NEXT for next_ in self.list_of(kind, one, name) if next_ not in seen]


def _refuse(fault: rules.Fault) -> None:
    if fault:
        raise Refused(fault)
