# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the role awx makes of a controller, held against the playbooks that it is for.

A question whose answer no playbook reads would be asked in vain, and a playbook without a template is one that nobody
there can run.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.baremetal.tests.tree.listing import loaded, text, under
from ansible_collections.gpufleet.baremetal.tests.tree.names import options_of_playbooks
from ansible_collections.gpufleet.baremetal.tests.tree.parts import COLLECTION

Data = Mapping[str, Any]
DATA, PROJECT = "roles/awx/vars/main", "extensions/awx/project/playbooks"
#: What a next step may name for one node; and what each of them says of a tenant's.
OF_A_NODE = frozenset({
    *("adopt", "day0_bringup", "day2_recycle", "drain", "maintenance"),
    *("passports", "readmit", "reimage", "revalidate"),
})  # fmt: skip
FOR_TENANT = "gpufleet_for_tenant"
#: Of these reports say what is to be launched for a node, a tenant's as well.
OF_NAMED_NODES = ("day0_named", "recycle_named")
NEXT = ("success", "failure", "always")
#: What has a name by its key, and in which table that stands: the later one would have the name.
KEYED = {
    "one of its kind": "awx_single",
    "a credential type": "awx_credential_types",
    "a template": "awx_templates",
    "a workflow": "awx_workflows",
    "a schedule": "awx_own_schedules",
}
#: What closes a workflow of which a stage has failed, and what makes it fail as well.
CLOSES, BROKEN_OFF = "status", {"status_fail_on": "always"}
_SLICED, _IMPORT = "May be sliced", "ansible.builtin.import_playbook"
_LONGEST = 400
_STATUS, _FAILS = f"{COLLECTION}.fleet_status", {"ansible.builtin.fail", "ansible.builtin.assert"}


def data_of(root: Path) -> dict[str, Any]:
    """All that the role's tables say."""
    found: dict[str, Any] = {}
    for path in under(root, DATA, suffix=".yml"):
        found.update(loaded(path) or {})
    return found


def templates_that_do_not_fit(root: Path) -> list[str]:
    """What is made is of the playbooks as they are."""
    data = data_of(root)
    if not data:
        return []
    faults = [*of_playbooks(root, data), *of_surveys(root, data), *of_workflows(data), *of_schedules(data)]
    return [*faults, *of_keys(data), *of_reports(root, data), *of_credentials(data), *of_the_project(root, data)]


def plays(key: str, template: Data) -> str:
    return str(template.get("playbook", key))


def of_playbooks(root: Path, data: Data) -> Iterator[str]:
    """Each has a template or a reason why not, and is sliced where its own head says that it may be, or the template
    says why it is ``whole``."""
    there = {path.stem: path for path in under(root, "playbooks", suffix=".yml") if path.parent == root / "playbooks"}
    run = {plays(*one) for one in data["awx_templates"].items()}
    left = set(data["awx_no_templates"])
    yield from (
        f"{name}: neither a template nor a reason why there is none" for name in sorted(set(there) - run - left)
    )
    yield from (f"{name}: a template, and a reason why there is none" for name in sorted(run & left))
    yield from (f"{name}: there is no such playbook" for name in sorted((run | left) - set(there)))
    for key, template in data["awx_templates"].items():
        path = there.get(plays(key, template))
        said = " ".join(text(path).split("\n- name:")[0].replace("#", " ").split()) if path else ""
        if not template.get("whole") and (_SLICED in said) != template.get("sliced", False):
            yield f"template {key}: sliced is {template.get('sliced', False)}, and its playbook says otherwise"


def of_surveys(root: Path, data: Data) -> Iterator[str]:
    """Each option of a playbook is asked for or left out with a reason, and nothing else is asked for."""
    options = options_of_playbooks(root)
    for key, template in data["awx_templates"].items():
        known = set(options.get(plays(key, template), ()))
        for_some = not template.get("whole") or key in OF_NAMED_NODES
        names_tenant = plays(key, template) in OF_A_NODE and for_some and key != "look"
        known |= {FOR_TENANT} if names_tenant else set()
        asked = [*template.get("extra_vars", ()), *(question["variable"] for question in template.get("survey", ()))]
        left = set(template.get("left_out", ()))
        yield from (f"template {key}: {one} is no option of its playbook" for one in sorted({*asked, *left} - known))
        yield from (
            f"template {key}: {one} is neither asked for nor left out" for one in sorted(known - left - {*asked})
        )
        yield from (f"template {key}: {one} is asked for and left out" for one in sorted(left & {*asked}))
    for key, one in (*data["awx_templates"].items(), *data["awx_workflows"].items()):
        for question in one.get("survey", ()):
            yield from (f"{key}, {question['variable']}: {fault}" for fault in bare(question))


def bare(question: Data) -> Iterator[str]:
    """A question without bounds is checked by nobody before the job runs."""
    kind = question["type"]
    if kind in ("text", "integer"):
        yield from (f"no {word}" for word in ("min", "max") if word not in question)
    if kind == "text" and not question["required"] and question.get("min"):
        yield "an empty answer to a text that may be left out is shorter than its min, which AWX refuses"
    if kind == "text" and question.get("max", 0) > _LONGEST:
        yield f"max is over {_LONGEST}"
    if kind == "multiplechoice" and not question.get("choices"):
        yield "no choices"
    if kind == "integer" and "default" not in question and not question["required"]:
        yield "no default: the form has no empty number"


def of_reports(root: Path, data: Data) -> Iterator[str]:
    """Who is told of a failure is told the artifact of its report, so there is one, also where every node has failed:
    Ansible begins no further play then. So no play before the report fails a host, but one that fails all of them."""
    for key, template in data["awx_templates"].items():
        if not template.get("tells"):
            continue
        said = _plays_of(root, plays(key, template))
        reports = [at for at, play in enumerate(said) if any(map(_report, play.get("tasks") or ()))]
        if not reports:
            yield f"template {key} tells, and its playbook has no report of fleet_status"
        ends = [task for play in said[: reports[-1] if reports else 0] for task in _failing(play.get("tasks") or ())]
        yield from (f"template {key} tells, and {task['name']!r} keeps its report from a lone node" for task in ends)


def _plays_of(root: Path, name: str) -> list[Data]:
    """With those of the playbooks that it imports."""
    path = root / "playbooks" / f"{name}.yml"
    found: list[Data] = []
    for play in (loaded(path) or []) if path.is_file() else []:
        found += _plays_of(root, Path(play[_IMPORT]).stem) if _IMPORT in play else [play]
    return found


def _report(task: Data) -> bool:
    return bool((task.get(_STATUS) or {}).get("report"))


def _failing(tasks: Sequence[Data]) -> Iterator[Data]:
    """Tasks that fail the one host that they are about, and that no rescue takes up."""
    for task in tasks:
        if "block" in task:
            yield from _failing(task.get("rescue", ()) if task.get("rescue") else task["block"])
        elif _FAILS & set(task) and not task.get("run_once"):
            yield task


def of_keys(data: Data) -> Iterator[str]:
    """One key is one name: two things of the same key would be called alike, as the second."""
    for (one, here), (other, there) in itertools.combinations(KEYED.items(), 2):
        twice = sorted(set(data.get(here, ())) & set(data.get(there, ())))
        yield from (f"{key} is {one} and {other}: both would have the name of the second" for key in twice)


def of_workflows(data: Data) -> Iterator[str]:
    for key, workflow in data["awx_workflows"].items():
        for name, node in workflow["nodes"].items():
            yield from (f"workflow {key}, {name}: {fault}" for fault in of_a_node(data, workflow, node))


def forgotten(workflow: Data, node: Data) -> Iterator[str]:
    """AWX calls no workflow failed for a failure that something follows, so what follows one has to fail itself."""
    for one in (*node.get("failure", ()), *node.get("always", ())):
        follower = workflow["nodes"].get(one, {})
        fails = follower.get("run") == CLOSES and follower.get("extra_data") == BROKEN_OFF
        if not fails or any(follower.get(word) for word in NEXT):
            yield f"its failure would be forgotten: {one} goes on after it, and ends not as {CLOSES} with {BROKEN_OFF}"


def of_a_node(data: Data, workflow: Data, node: Data) -> Iterator[str]:
    yield from forgotten(workflow, node)
    strange = {one for word in NEXT for one in node.get(word, ())} - set(workflow["nodes"])
    yield from (f"is followed by {one}, which is no node" for one in sorted(strange))
    if "limit" in node and workflow.get("ask_limit", True):
        yield "has a limit, which the one of the workflow would replace"
    if "run" not in node:
        return
    template = data["awx_templates"].get(node["run"])
    if template is None:
        yield f"runs {node['run']}, which is no template"
        return
    if not template.get("ask_limit", True):
        yield f"runs {node['run']}, which asks for no limit: it would run on the whole fleet"
    if template.get("needs_limit") and not workflow.get("needs_limit") and "limit" not in node:
        yield f"runs {node['run']} on no limit, which the workflow does not demand"
    if template.get("sliced") and ("limit" in node or workflow.get("needs_limit")):
        yield f"runs {node['run']}, which is sliced, on a limit: a slice without a host of it fails"
    yield from unanswered(template, node.get("extra_data", {}), workflow.get("survey", ()))


def unanswered(template: Data, given: Data, survey: Any = ()) -> Iterator[str]:
    """What is given has to be asked for, and what has to be answered has to be given."""
    asked = {question["variable"]: question for question in template.get("survey", ())}
    yield from (f"gives {one}, for which nothing asks" for one in sorted(set(given) - set(asked)))
    answered = {*given, *(question["variable"] for question in survey if question["required"])}
    needed = {name for name, question in asked.items() if question["required"]}
    yield from (f"gives no {one}" for one in sorted(needed - answered))


def of_schedules(data: Data) -> Iterator[str]:
    for key, schedule in data["awx_own_schedules"].items():
        run = data["awx_templates"].get(schedule.get("template"), data["awx_workflows"].get(schedule.get("workflow")))
        if run is None:
            yield f"schedule {key}: runs nothing that there is"
        else:
            if run.get("needs_limit"):
                yield f"schedule {key}: runs what needs a limit, and gives none: it would run on no host"
            yield from (f"schedule {key}: {fault}" for fault in unanswered(run, schedule.get("extra_data", {})))


def of_credentials(data: Data) -> Iterator[str]:
    """A secret is in the environment or in a file. Extra variables are shown to whoever may look at the job."""
    for key, kind in data["awx_credential_types"].items():
        yield from (f"credential type {key}: injects {one}" for one in sorted(set(kind["injectors"]) - {"env", "file"}))


def of_the_project(root: Path, data: Data) -> Iterator[str]:
    """The repository that a site begins with has each playbook by the name that the templates say."""
    wanted = {plays(*one) for one in data["awx_templates"].items()}
    there = {path.stem: loaded(path) for path in under(root, PROJECT, suffix=".yml")}
    yield from (f"{PROJECT}: no {one}.yml" for one in sorted(wanted - set(there)))
    yield from (f"{PROJECT}/{one}.yml: no template runs it" for one in sorted(set(there) - wanted))
    for one in sorted(wanted & set(there)):
        if [play.get(_IMPORT) for play in there[one]] != [f"{COLLECTION}.{one}"]:
            yield f"{PROJECT}/{one}.yml: imports not just {COLLECTION}.{one}"
