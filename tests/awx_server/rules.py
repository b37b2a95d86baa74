# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What AWX refuses of surveys, credential types, schedules, prompts and messages, in its own order."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any, Optional

from dateutil import rrule
from jinja2 import StrictUndefined, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from awx_server.kinds import NOTIFY

Record = Mapping[str, Any]
Fault = Optional[dict[str, Any]]

_TEXTS = {"text": str, "textarea": str, "password": str, "multiplechoice": str, "multiselect": str}
QUESTIONS: dict[str, type] = {**_TEXTS, "integer": int, "float": float}
_NAME, _FILE = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*"), re.compile(r"template(?:\.[a-zA-Z_][a-zA-Z0-9_]*)?")
_OF_A_FIELD = {"type", "format", "choices", "id", "label", "help_text", "multiline", "secret", "default"}
#: A job's environment that is the controller's own.
_TAKEN = {"VIRTUAL_ENV", "PATH", "PYTHONPATH", "JOB_ID", "INVENTORY_ID", "AWX_HOST", "PROJECT_REVISION", "CACHE"}
_UNEXPECTED = "Additional properties are not allowed ('{}' was unexpected)"
_EVENTS = ("started", "success", "error", "workflow_approval")


# -- surveys ---------------------------------------------------------------------------------------------------


def survey(spec: Any) -> Fault:
    for name, form in (("name", str), ("description", str), ("spec", list)):
        if not isinstance(spec.get(name), form):
            return {"error": f"Field '{name}' is missing from survey spec."}
    if not spec["spec"]:
        return {"error": "'spec' doesn't contain any items."}
    asked: set[str] = set()
    for number, question in enumerate(spec["spec"]):
        fault = _question(number, question) or _choices(number, question)
        if not fault and question["variable"] in asked:
            fault = f"'variable' '{question['variable']}' duplicated in survey question {number}."
        if fault:
            return {"error": fault}
        asked.add(question["variable"])
    return None


def _question(number: int, question: Any) -> str:
    for name, form in (("type", str), ("question_name", str), ("variable", str), ("required", bool)):
        if name not in question:
            return f"'{name}' missing from survey question {number}"
        if not isinstance(question[name], form):
            return f"'{name}' in survey question {number} expected to be {form.__name__}."
    if question["type"] not in QUESTIONS:
        return f"'{question['type']}' in survey question {number} is not one of the allowed question types."
    default = question.get("default", "")
    if default != "" and not isinstance(default, QUESTIONS[question["type"]]):
        return f"Default value {default} in survey question {number} expected to be {question['type']}."
    for name in ("min", "max"):
        if not isinstance(question.get(name, 0), int):
            return f"The {name} limit in survey question {number} expected to be integer."
    return ""


def _choices(number: int, question: Record) -> str:
    if question["type"] not in ("multiplechoice", "multiselect"):
        return ""
    if "choices" not in question:
        return f"Survey question {number} of type {question['type']} must specify choices."
    if any(not isinstance(one, str) for one in question["choices"]):
        return f"Choices of survey question {number} expected to be strings."
    defaults = question.get("default", "").splitlines()
    if len(defaults) > 1 and question["type"] == "multiplechoice":
        return "Multiple Choice (Single Select) can only have one default value."
    if any(one not in question["choices"] for one in defaults):
        return "Default choice must be answered from the choices listed."
    return ""


def answers(spec: Record, given: Record, *, needed: bool) -> Iterator[str]:
    """What is wrong with the answers to a survey. needed: a question that has to be answered was not."""
    for question in spec.get("spec", ()):
        name = question["variable"]
        if name in given:
            yield from _answer(question, given[name])
        elif needed and question["required"]:
            yield f"'{name}' value missing"


def _answer(question: Record, value: Any) -> Iterator[str]:
    name, form = question["variable"], QUESTIONS[question["type"]]
    if type(value) is not form:
        yield f"Value {value} for '{name}' expected to be {form.__name__}."
        return
    if question["type"] == "multiplechoice" and value not in question["choices"]:
        yield f"Value {value} for '{name}' expected to be one of {question['choices']}."
        return
    size = len(value) if isinstance(value, str) else value
    if size < question.get("min", size):
        yield f"'{name}' value {value} is too small (must be at least {question['min']})."
    if size > question.get("max", size):
        yield f"'{name}' value {value} is too large (must be no more than {question['max']})."


# -- credential types ------------------------------------------------------------------------------------------


def credential_type(record: Record) -> Fault:
    fault = next(_inputs(record["inputs"]), "")
    if fault:
        return {"inputs": [fault]}
    fault = next(_injectors(record["inputs"], record["injectors"]), "")
    return {"injectors": [fault]} if fault else None


def _inputs(inputs: Record) -> Iterator[str]:
    yield from (
        f"Additional properties are not allowed ('{one}' was unexpected)"
        for one in set(inputs) - {"fields", "required"}
    )
    seen: set[str] = set()
    for field in inputs.get("fields", ()):
        name = field.get("id", "")
        yield from (f"'{one}' is a required property" for one in ("id", "label") if not field.get(one))
        yield from (_UNEXPECTED.format(one) for one in set(field) - _OF_A_FIELD)
        if not _NAME.fullmatch(name):
            yield f"{name} is an invalid variable name"
        if name == "tower":
            yield '"tower" is a reserved field name'
        if name in seen:
            yield f"field IDs must be unique ({name})"
        if field.get("type", "string") not in ("string", "boolean"):
            yield f"'{field['type']}' is not one of ['string', 'boolean']"
        if field.get("type") == "boolean":
            yield from (
                f"{one} not allowed for boolean type ({name})"
                for one in ("choices", "multiline", "secret")
                if one in field
            )
        seen.add(name)


def _injectors(inputs: Record, injectors: Record) -> Iterator[str]:
    yield from (f"'{one}' was unexpected" for one in set(injectors) - {"env", "file", "extra_vars"})
    files = list(injectors.get("file", ()))
    yield from (f"'{one}' does not match any of the regexes" for one in files if not _FILE.fullmatch(one))
    if "template" in files and len(files) > 1:
        yield "Must use multi-file syntax when injecting multiple files"
    for name, value in injectors.get("env", {}).items():
        if not _NAME.fullmatch(name) or not value.isascii():
            yield f"'{name}' does not match any of the regexes"
        if name.startswith("ANSIBLE_") or name in _TAKEN:
            yield f"Environment variable {name} is not allowed to be used in credentials."
    known: dict[str, Any] = {field["id"]: "EXAMPLE" for field in inputs.get("fields", ())}
    named = {one.partition(".")[2]: "EXAMPLE_FILENAME" for one in files}
    known["tower"] = SimpleNamespace(filename="EXAMPLE_FILENAME" if "" in named else SimpleNamespace(**named))
    for part in injectors.values():
        for name, template in part.items():
            fault = unfit(template, known)
            if fault:
                yield f"{name} uses an undefined field ({fault})"


def unfit(template: str, known: Record) -> str:
    try:
        ImmutableSandboxedEnvironment(undefined=StrictUndefined).from_string(template).render(known)
    except TemplateError as error:
        return str(error)
    return ""


# -- schedules, prompts, notifications -------------------------------------------------------------------------


def schedule(record: Record) -> Fault:
    text = record["rrule"]
    faults = []
    if len(re.findall(r"DTSTART(?:;[^:]+)?:\d+T\d+Z?", text)) != 1:
        faults.append("Valid DTSTART required in rrule. Value should start with: DTSTART:YYYYMMDDTHHMMSSZ")
    if re.search(r"DTSTART:\d+T\d+ ", text):
        faults.append("DTSTART cannot be a naive datetime.")
    rules = re.findall(r"RULE:\S*", text)
    faults += [] if rules else ["One or more rule required in rrule."]
    for one in rules:
        faults += [] if "INTERVAL" in one else [f"INTERVAL required in rrule: {one}"]
        faults += [f"SECONDLY is not supported: {one}"] if "SECONDLY" in one else []
        faults += [f"BYDAY with numeric prefix not supported: {one}"] if re.search(r"BYDAY=\d+[A-Z]{2}", one) else []
    try:
        rrule.rrulestr(text.replace(" ", "\n"))
    except (ValueError, KeyError, IndexError) as error:
        faults.append(f"rrule parsing failed validation: {error}")
    return {"rrule": faults} if faults else None


def prompts(record: Record, runs: Record, *, needed: bool) -> Fault:
    """Does what it runs take what is said with it?"""
    faults: dict[str, Any] = {}
    for name in ("limit", "job_type", "diff_mode", "inventory"):
        said = record[name]
        if said not in (None, "") and said != runs.get(name) and not runs.get(f"ask_{name}_on_launch"):
            faults[name] = ["Field is not configured to prompt on launch."]
    spec = runs.get("survey_spec") or {} if runs.get("survey_enabled") else {}
    given = record["extra_data"]
    asked = {question["variable"] for question in spec.get("spec", ())}
    strange = sorted(set(given) - asked)
    if strange and not runs.get("ask_variables_on_launch"):
        faults["extra_data"] = [f"Variables {', '.join(strange)} are not allowed on launch."]
    wrong = list(answers(spec, given, needed=needed))
    if wrong:
        faults["variables_needed_to_start"] = wrong
    return faults or None


def notification(record: Record) -> Fault:
    has, kind = set(record["notification_configuration"]), record["notification_type"]
    demanded, besides = NOTIFY[kind]
    if demanded - has:
        return {"__all__": [f"Missing required fields for Notification Configuration: {sorted(demanded - has)}."]}
    if has - demanded - besides:
        return {"__all__": [f"{sorted(has - demanded - besides)} are unexpected for {kind}."]}
    for event, said in (record["messages"] or {}).items():
        if event not in _EVENTS:
            return {"messages": [f"Event '{event}' invalid, must be one of {_EVENTS}"]}
        text = (said or {}).get("message") or ""
        fault = unfit(text, _TOLD) or ("Messages cannot contain newlines" if "\n" in text else "")
        fault = fault or _body(record, (said or {}).get("body") or "")
        if fault:
            return {"messages": [f"Unable to render message '{text}': {fault}"]}
    return None


def _body(record: Record, text: str) -> str:
    fault = unfit(text, _TOLD)
    if fault or not text or record.get("notification_type") != "webhook":
        return fault
    try:
        told = json.loads(ImmutableSandboxedEnvironment().from_string(text).render(_TOLD))
    except ValueError:
        return "Webhook body should be a json dictionary"
    return (
        ""
        if isinstance(told, dict)
        else f"Webhook body should be a json dictionary. Found type '{type(told).__name__}'"
    )


_JOB = ("id", "name", "status", "limit", "artifacts", "playbook", "job_type", "started", "finished", "elapsed")
_TOLD = {
    "job": dict.fromkeys(_JOB, "a word"),
    "job_friendly_name": "Job",
    "url": "https://awx.example.com",
    "job_metadata": "{}",
}
