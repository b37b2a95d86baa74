# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The job of an automation controller that a run is, and its next steps in the controller's words. PRIVATE.

AWX gives a job its number as ``JOB_ID``, a name that batch systems use as well: only beside the controller's own
address it is AWX's. Some of those addresses a person sets as well who makes templates there, and is no job.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

#: Where AWX has what it gives a job, on its own side: in the job's container that is `RUNNER`.
PRIVATE = "AWX_PRIVATE_DATA_DIR"
RUNNER = "/runner"
#: What AWX and its products set in jobs alone.
_OF_JOBS = ("AWX_HOST", PRIVATE)
_NUMBERS = ("AWX_JOB_ID", "TOWER_JOB_ID")
_CONTROLLER = (*_OF_JOBS, "TOWER_HOST", "CONTROLLER_HOST")
_WORD = r"""(?:'[^']*'|"[^"]*"|[^\s;)'"])+(?<![.,:])"""
#: A next step as our texts write it, alone or in a sentence.
_COMMAND = re.compile(rf"ansible-playbook (gpufleet\.baremetal\.(\w+)) -i INVENTORY((?: (?:--limit|-e) {_WORD})*)")


def number() -> str:
    """Of the job that this process belongs to; empty without a controller."""
    there = any(map(os.environ.get, _CONTROLLER))
    names = (*_NUMBERS, "JOB_ID") if there else _NUMBERS
    return next((os.environ[name] for name in names if os.environ.get(name)), "")


def is_one() -> bool:
    """Is this process of such a job, with a number or without one, as an ad hoc command and an update are?"""
    return bool(number()) or any(map(os.environ.get, _OF_JOBS))


def homes() -> list[str]:
    """The folders in which a job may have what its controller gave it, that of its container first."""
    return [RUNNER, *filter(None, [os.environ.get(PRIVATE)])]


def launched(text: str, templates: Mapping[str, Any]) -> str:
    """The same text, where each of our commands is told as the template that people launch.

    :param templates: the site's names of them, by playbook.
    """
    return _COMMAND.sub(lambda found: _launch(found[0], found[1], str(templates.get(found[2]) or ""), found[3]), text)


def launched_all(value: Any, templates: Mapping[str, Any]) -> Any:
    """All texts in what is to be told."""
    if isinstance(value, Mapping):
        return {key: launched_all(item, templates) for key, item in value.items()}
    if isinstance(value, list):
        return [launched_all(item, templates) for item in value]
    return launched(value, templates) if isinstance(value, str) else value


def _launch(command: str, playbook: str, template: str, words: str) -> str:
    """What is written like a command of ours and is none, as anybody may write it into a reason, stays as it is."""
    try:
        return _launched(playbook, template, shlex.split(words))
    except (RecursionError, ValueError):
        return command


def _launched(playbook: str, template: str, asked: Sequence[str]) -> str:
    given = list(zip(asked[::2], asked[1::2]))
    if any(option == "-e" and value.startswith("@") for option, value in given):
        raise ValueError("a file of variables is no answer to a template")
    limit = ",".join(value for option, value in given if option == "--limit")
    more: dict[str, Any] = {}
    for option, value in given:
        more.update(_variables(value) if option == "-e" else {})
    told = f'launch the template "{template}"' if template else f"launch the template that runs {playbook}"
    told += f" with limit {limit}" if limit else ""
    return f"{told} and extra variables {json.dumps(more)}" if more else told


def _variables(given: str) -> dict[str, Any]:
    """As ``-e`` takes them: JSON, or a name and a text."""
    if given.startswith("{"):
        found: dict[str, Any] = dict(json.loads(given))
        return found
    name, _equals, value = given.partition("=")
    return {name: value}
