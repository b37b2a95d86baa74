# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The page on what the role awx makes, written from its tables.

`make awx-page` writes it; a rule of the tree asks whether it is what would be written.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from ansible_collections.gpufleet.baremetal.tests.tree.awx import NEXT, Data, data_of, plays
from ansible_collections.gpufleet.baremetal.tests.tree.listing import text

PAGE, HINT = "docs/reference/awx.md", "make awx-page writes it anew"
_HEAD = """# AWX

Written by `make awx-page` from the tables of the role `awx`. [How to use it with AWX](../how-to/use-with-awx.md) tells
how it is set up. Each name begins with `awx_prefix`, here `gpufleet`; `awx_names` gives another one by the key.

What there is one of: the execution environment (`environment`), the project (`project`), the inventory (`inventory`)
with its source (`source`), and who is told (`notification`, where `awx_notification` is set).
"""
_CREDENTIALS = """
## Credential types

What is secret reaches a job as a file or in its environment, never as an extra variable. A file is told by its path.

| key | name | what it asks for | what a job has in its environment |
|---|---|---|---|"""
_TEMPLATES = """
## Job templates

Each asks for the limit, but where it says otherwise, whether to run or to check, and whether to show differences.
Extra variables are asked for by the survey alone. `awx_slices` cuts those that may be sliced; the others stay one job.
A variable behind a playbook is always so; `awx_folder` is the folder of the organization below `awx_files`.
Of what runs one at a time a second one waits until the first has ended.
One that needs a limit begins with `NAME-THE-NODES`, which no host is called: whoever names none has changed nothing.

| key | name | playbook | sliced | what its survey asks |
|---|---|---|---|---|"""
_LEFT_OUT = """
What of its playbook's options a template's survey does not ask for, and why; another template's may ask for it:

| template | option | why |
|---|---|---|"""
_NO_TEMPLATE = """
Playbooks without a template, and why:

| playbook | why |
|---|---|"""
_WORKFLOWS = """
## Workflow templates

Each asks for a limit, but where it says otherwise; `NAME-THE-NODES` is as above."""
_SCHEDULES = """
## Schedules

In the time zone `awx_timezone`. `awx_schedules` changes each by its key.

| key | name | what it runs | when | enabled |
|---|---|---|---|---|"""


def page(root: Path) -> str:
    data = data_of(root)
    parts = (credentials(data), templates(data), left_out(data), workflows(data), schedules(data))
    return "\n".join([_HEAD.rstrip(), *(line for part in parts for line in part), ""])


def _called(one: Data) -> str:
    return f"gpufleet {one['title']}"


def credentials(data: Data) -> Iterator[str]:
    yield _CREDENTIALS
    for key, one in data["awx_credential_types"].items():
        fields = one["inputs"]["fields"]
        asked = ", ".join(field["label"] + (" (secret)" if field.get("secret") else "") for field in fields)
        variables = ", ".join(f"`{name}`" for name in one["injectors"]["env"])
        yield f"| `{key}` | {_called(one)} | {asked} | {variables} |"


def templates(data: Data) -> Iterator[str]:
    yield _TEMPLATES
    for key, one in data["awx_templates"].items():
        run = f"`{plays(key, one)}`" + (", check mode" if one.get("job_type") == "check" else "")
        run += "" if one.get("ask_limit", True) else ", no limit"
        run += ", needs a limit" if one.get("needs_limit") else ""
        run += ", one at a time" if one.get("alone") else ""
        run += "".join(f", `{name}={_plain(value)}`" for name, value in one.get("extra_vars", {}).items())
        asked = "; ".join(question_of(question) for question in one.get("survey", ()))
        yield f"| `{key}` | {_called(one)} | {run} | {'yes' if one.get('sliced') else ''} | {asked} |"


def _plain(value: object) -> str:
    """Of a template, the name of what the site sets, or the controller."""
    braces = re.compile(r"\{\{ (?:'\{\{ )?(\w+)(?: \}\}')? \}\}")
    return str(value).lower() if isinstance(value, bool) else braces.sub(r"\1", str(value))


def question_of(question: Data) -> str:
    bounds = ", ".join(question.get("choices", ())) or f"{question['min']} to {question['max']}"
    bounds += " characters" if question["type"] == "text" else ""
    default = question.get("default", "")
    more = f", default {default}" if default != "" else ""
    more += ", required" if question["required"] else ""
    return f"`{question['variable']}` ({bounds}{more})"


def left_out(data: Data) -> Iterator[str]:
    yield _LEFT_OUT
    by_reason: dict[tuple[str, str], list[str]] = {}
    for key, one in data["awx_templates"].items():
        for row in one.get("left_out", {}).items():
            by_reason.setdefault(row, []).append(f"`{key}`")
    yield from (f"| {', '.join(keys)} | `{name}` | {why} |" for (name, why), keys in by_reason.items())
    yield _NO_TEMPLATE
    yield from (f"| `{name}` | {why} |" for name, why in data["awx_no_templates"].items())


def workflows(data: Data) -> Iterator[str]:
    yield _WORKFLOWS
    for key, one in data["awx_workflows"].items():
        yield f"\n### {_called(one)}\n"
        limit = " It needs a limit." if one.get("needs_limit") else ""
        limit = limit if one.get("ask_limit", True) else " It asks for no limit."
        alone = " A second one waits until the first has ended." if one.get("alone") else ""
        yield f"`{key}`. {one['description']}." + limit + alone
        if one.get("survey"):
            yield f"It asks {'; '.join(question_of(question) for question in one['survey'])}."
        yield "\n| node | what it does | then |\n|---|---|---|"
        yield from (f"| {name} | {_does(data, node)} | {_then(node)} |" for name, node in one["nodes"].items())


def _does(data: Data, node: Data) -> str:
    if "approval" in node:
        return f"asks a person: {node['approval']} Denied after {node['timeout'] // 3600} hours"
    if "sync" in node:
        return f"updates the {'inventory' if node['sync'] == 'source' else node['sync']}"
    limit = re.sub(r"\{\{ (\w+) \}\}", r"`\1`", node.get("limit", ""))
    given = ", ".join(f"`{name}={_plain(value)}`" for name, value in node.get("extra_data", {}).items())
    more = [f"limit {limit}"] * bool(limit) + [given] * bool(given)
    return ", ".join([_called(data["awx_templates"][node["run"]]), *more])


def _then(node: Data) -> str:
    return "; ".join(f"{word}: {', '.join(node[word])}" for word in NEXT if node.get(word))


def schedules(data: Data) -> Iterator[str]:
    yield _SCHEDULES
    for key, one in data["awx_own_schedules"].items():
        run = data["awx_templates"].get(one.get("template")) or data["awx_workflows"][one["workflow"]]
        given = ", ".join(f"`{name}={_plain(value)}`" for name, value in one.get("extra_data", {}).items())
        when = f"`{one['rule']}`, at {one['at'][9:11]}:{one['at'][11:13]}"
        what = ", ".join([_called(run), *[given] * bool(given)])
        yield f"| `{key}` | {_called(one)} | {what} | {when} | {'yes' if one['enabled'] else 'no'} |"


def awx_page_that_differs(root: Path) -> list[str]:
    if not data_of(root):
        return []
    there = text(root / PAGE) if (root / PAGE).is_file() else ""
    return [] if there == page(root) else [f"{PAGE} is not what the tables say; {HINT}"]


if __name__ == "__main__":
    (Path(sys.argv[1]) / PAGE).write_text(page(Path(sys.argv[1])), encoding="utf-8")
