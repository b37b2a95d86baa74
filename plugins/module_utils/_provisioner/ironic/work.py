# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is sent with an order to Ironic: its own steps, a runbook, the password of a rescue. PRIVATE to the collection.

Steps are Ironic's own words (interface, step, args), which only its node knows: what it does not know it refuses, and
starts nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import require
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import said
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.ironic import tables
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Wanted

RUNBOOK, DEPLOY_STEPS = "runbook", "deploy_steps"
#: step -> key of the option ``driver`` with its steps, and of the request.
_STEPS: Mapping[str, str] = {tables.CLEAN: "clean_steps", tables.SERVICE: "service_steps"}
DISABLE = "disable_ramdisk"
#: What the option ``driver`` may say of work.
KEYS = frozenset({RUNBOOK, DEPLOY_STEPS, DISABLE, *_STEPS.values()})
#: Each of them says what is to be done where.
_OWED = ("interface", "step")
#: Its steps write the image.
WRITES = "deploy"


def order(step: str, wanted: Wanted) -> tuple[dict[str, Any], str]:
    """What goes with this order, and which API version that takes.

    :raises ConfigError: where nothing says what is to be done, or two things do.
    """
    if step == tables.RESCUE:
        require({"rescue_password": wanted.rescue_password}, "rescue_password", node=wanted.host)
        return {"rescue_password": wanted.rescue_password}, tables.MICROVERSION
    if step not in _STEPS:
        return {}, tables.MICROVERSION
    key, runbook = _STEPS[step], str(wanted.extras.get(RUNBOOK) or "")
    steps = _checked(key, wanted)
    if bool(steps) == bool(runbook):
        raise ConfigError(
            "Ironic is told twice what to do" if steps else "Ironic is not told what to do",
            node=wanted.host,
            wanted=f"either {key}, a list of steps, or {RUNBOOK}, its name, in the option driver",
            seen="both" if steps else "neither",
        )
    plain = tables.SERVICE_VERSION if step == tables.SERVICE else tables.MICROVERSION
    disabled = {DISABLE: said.flag(wanted.extras[DISABLE])} if step == tables.CLEAN and DISABLE in wanted.extras else {}
    if runbook:
        return {RUNBOOK: runbook}, tables.RUNBOOK_VERSION
    return {key: steps, **disabled}, plain


def deploy_steps(wanted: Wanted) -> dict[str, Any]:
    """Steps of the site's own that go with a deployment, beside those of its deploy templates."""
    steps = _checked(DEPLOY_STEPS, wanted)
    return {DEPLOY_STEPS: steps} if steps else {}


def told(body: Mapping[str, Any]) -> list[str]:
    """The same in words: what a step is given may be a secret."""
    return [_words(key, value) for key, value in body.items()]


def _words(key: str, value: Any) -> str:
    if isinstance(value, list):
        return f"{key}={','.join(f'{one[_OWED[0]]}.{one[_OWED[1]]}' for one in value)}"
    return f"{key}={value}" if key == RUNBOOK else key


def writes_an_image(extras: Mapping[str, Any]) -> str:
    """Steps of the interface that writes the image put something of their own beside it, or in its place."""
    steps = [one for one in extras.get(DEPLOY_STEPS) or () if isinstance(one, Mapping)]
    own = [str(one.get(_OWED[1])) for one in steps if one.get(_OWED[0]) == WRITES]
    return f"driver.{DEPLOY_STEPS} has steps that write it: {', '.join(own)}" if own else ""


def _checked(key: str, wanted: Wanted) -> list[dict[str, Any]]:
    steps = wanted.extras.get(key) or []
    listed = isinstance(steps, list) and all(isinstance(one, Mapping) for one in steps)
    if not listed or any(not one.get(part) for one in steps for part in _OWED):
        raise ConfigError(
            f"{key} of the option driver is no list of steps",
            node=wanted.host,
            wanted="a list of mappings, each with interface and step, and with args where the step takes some",
        )
    return [dict(one) for one in steps]
