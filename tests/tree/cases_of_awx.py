# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Trees in which the tables of the role awx do not fit the playbooks, for test_rules_can_fail.py."""

from __future__ import annotations

from typing import Any

import yaml
from ansible_collections.gpufleet.baremetal.tests.tree import awx, awx_page

_WHY = {"type": "text", "variable": "drain_why", "required": True, "min": 3, "max": 160}
_TENANT = {"type": "text", "variable": awx.FOR_TENANT, "required": False, "min": 0, "max": 60}
_NODES = {"one": {"run": "drain", "extra_data": {"drain_why": "x"}, "success": ["two"]}, "two": {"run": "readmit"}}
SOUND: dict[str, Any] = {
    "awx_templates": {
        "drain": {"title": "drain", "survey": [_WHY, _TENANT], "left_out": {"drain_to": "why"}},
        "readmit": {"title": "readmit", "sliced": True, "survey": [_TENANT]},
    },
    "awx_no_templates": {"rack": "why"},
    "awx_workflows": {"both": {"title": "both", "description": "Both", "nodes": _NODES}},
    "awx_own_schedules": {},
    "awx_credential_types": {},
}
_PLAYBOOKS = {
    "playbooks/drain.yml": "---\n# One stage.\n- name: A\n  vars: {drain_why: x, drain_to: y}\n",
    "playbooks/readmit.yml": "---\n# Goes on. May be\n# sliced.\n- name: A\n",
    "playbooks/rack.yml": "---\n- name: A\n",
    **{
        f"{awx.PROJECT}/{name}.yml": f"---\n- ansible.builtin.import_playbook: gpufleet.baremetal.{name}\n"
        for name in ("drain", "readmit")
    },
}


def tree(*path: str, value: Any = None, **files: str) -> dict[str, str]:
    """The sound tables, but for what stands at this path; and what other files say."""
    data = yaml.safe_load(yaml.safe_dump(SOUND))
    below = data
    for name in path[:-1]:
        below = below[int(name) if isinstance(below, list) else name]
    if path:
        below[path[-1]] = value
    return {**_PLAYBOOKS, f"{awx.DATA}/all.yml": yaml.safe_dump(data), **files}


_REPORT = "- name: B\n  tasks: [{name: C, gpufleet.baremetal.fleet_status: {report: true}}]\n"


def telling(*tasks: str) -> dict[str, str]:
    """readmit tells, does this, and reports."""
    said = "".join(f"    - {task}\n" for task in tasks)
    playbook = f"---\n# May be\n# sliced.\n- name: A\n  tasks:\n{said}{_REPORT if tasks else ''}"
    return {**tree("awx_templates", "readmit", "tells", value=True), "playbooks/readmit.yml": playbook}


def _scheduled(**what: str) -> dict[str, str]:
    """A schedule of this, which needs a limit."""
    [(table, name)] = what.items()
    schedule = {"daily": {table.removeprefix("awx_").removesuffix("s"): name, "extra_data": {"drain_why": "each day"}}}
    data = {
        **SOUND,
        "awx_own_schedules": schedule,
        table: {**SOUND[table], name: {**SOUND[table][name], "needs_limit": True}},
    }
    return {**tree(), f"{awx.DATA}/all.yml": yaml.safe_dump(data)}


_FAIL = "name: D, ansible.builtin.fail: {msg: x}"
_DRAIN, _BOTH = ("awx_templates", "drain"), ("awx_workflows", "both")
_NODE, _QUESTION = (*_BOTH, "nodes", "one"), (*_DRAIN, "survey", "0")
_TWO = {"two": {"run": "readmit", "limit": "a"}}
_CANARY = {"title": "canary", "description": "Canary", "ask_limit": False, "nodes": _TWO}
_OTHER = {"type": "text", "variable": "drain_when", "required": False, "min": 0, "max": 9}
_BROKEN = (
    (tree("awx_no_templates", value={}), "rack: neither a template"),
    (tree("awx_no_templates", "drain", value="why"), "drain: a template, and a reason"),
    (tree("awx_no_templates", "lost", value="why"), "lost: there is no such playbook"),
    (tree("awx_workflows", "drain", value=SOUND["awx_workflows"]["both"]), "drain is a template and a workflow"),
    (tree("awx_own_schedules", value={"both": {"workflow": "both"}}), "both is a workflow and a schedule"),
    (tree("awx_credential_types", value={"drain": {"injectors": {}}}), "drain is a credential type and a template"),
    (tree("awx_single", value={"readmit": {"title": "x"}}), "readmit is one of its kind and a template"),
    (tree(*_DRAIN, "sliced", value=True), "template drain: sliced is True"),
    (tree("awx_templates", "readmit", "sliced", value=False), "template readmit: sliced is False"),
    (tree(*_DRAIN, "survey", value=[_WHY, _OTHER]), "drain_when is no option"),
    (tree(*_DRAIN, "survey", value=[_WHY]), f"drain: {awx.FOR_TENANT} is neither asked for nor left out"),
    (tree(*_DRAIN, "left_out", value={}), "drain_to is neither asked for nor left out"),
    (tree(*_DRAIN, "left_out", value={"drain_to": "x", "drain_why": "x"}), "drain_why is asked for and left out"),
    (tree(*_DRAIN, "survey", value=[{**_WHY, "max": 4000}]), "max is over"),
    (tree(*_QUESTION, "required", value=False), "an empty answer"),
    (tree(*_QUESTION, "type", value="multiplechoice"), "no choices"),
    (tree(*_DRAIN, "survey", value=[{**_WHY, "type": "integer", "required": False}]), "no default"),
    (tree(*_DRAIN, "survey", value=[{"type": "text", "variable": "drain_why", "required": True}]), "no min"),
    (telling(), "has no report"),
    (telling(f"{{{_FAIL}}}"), "'D' keeps its report"),
    (telling(f"{{name: E, block: [{{{_FAIL}}}]}}"), "'D' keeps its report"),
    (telling(f"{{name: E, block: [{{name: F}}], rescue: [{{{_FAIL}}}]}}"), "'D' keeps its report"),
    (tree(*_NODE, "success", value=["three"]), "three, which is no node"),
    (tree(*_NODE, "failure", value=["two"]), "its failure would be forgotten: two"),
    (tree(*_NODE, "always", value=["two"]), "its failure would be forgotten: two"),
    (tree(*_NODE, "limit", value="a"), "would replace"),
    (tree(*_NODE, "run", value="lost"), "lost, which is no template"),
    (tree(*_DRAIN, "ask_limit", value=False), "on the whole fleet"),
    (tree(*_DRAIN, "needs_limit", value=True), "on no limit"),
    (tree(*_BOTH, "needs_limit", value=True), "runs readmit, which is sliced"),
    (tree(*_BOTH, value=_CANARY), "runs readmit, which is sliced"),
    (tree(*_NODE, "extra_data", value={}), "gives no drain_why"),
    (tree(*_NODE, "extra_data", value={"drain_why": "x", "drain_to": "x"}), "gives drain_to"),
    (tree("awx_own_schedules", value={"daily": {"template": "lost"}}), "schedule daily: runs nothing"),
    (tree("awx_own_schedules", value={"daily": {"template": "drain"}}), "schedule daily: gives no drain_why"),
    (_scheduled(awx_templates="drain"), "schedule daily: runs what needs a limit"),
    (_scheduled(awx_workflows="both"), "schedule daily: runs what needs a limit"),
    (tree("awx_credential_types", value={"a": {"injectors": {"extra_vars": {}}}}), "injects extra_vars"),
    (tree(**{f"{awx.PROJECT}/rack.yml": "---\n[]\n"}), "no template runs it"),
    (tree(**{f"{awx.PROJECT}/drain.yml": "---\n- ansible.builtin.import_playbook: a.b.drain\n"}), "imports not just"),
    ({name: said for name, said in tree().items() if name != f"{awx.PROJECT}/drain.yml"}, "no drain.yml"),
)
CASES = (
    *((awx.templates_that_do_not_fit, broken, word, tree()) for broken, word in _BROKEN),
    *(
        (awx.templates_that_do_not_fit, telling(f"{{{_FAIL}}}"), "'D' keeps its report", telling(sound))
        for sound in (f"{{{_FAIL}, run_once: true}}", f"{{name: E, block: [{{{_FAIL}}}], rescue: [{{name: F}}]}}")
    ),
    (awx_page.awx_page_that_differs, {**tree(), awx_page.PAGE: "old"}, awx_page.HINT, {"README.md": "no role awx"}),
)
