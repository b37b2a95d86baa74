# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a module's documentation says of its options, fragments included, is what its argument spec takes."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Image
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.specs import IMAGE_OPTIONS

PLUGINS = "ansible_collections.gpufleet.baremetal.plugins"
ROOT = Path(__file__).resolve().parents[3]
MODULES = sorted(path.stem for path in (ROOT / "plugins" / "modules").glob("[a-z]*.py"))
#: Facts of an option that are told twice, and what each is where nothing is said.
FACTS = {"type": "str", "elements": None, "choices": None, "default": None, "required": False}


def documented(module: str) -> dict[str, Any]:
    own = yaml.safe_load(importlib.import_module(f"{PLUGINS}.modules.{module}").DOCUMENTATION)
    options: dict[str, Any] = {}
    for full_name in own.get("extends_documentation_fragment", []):
        fragment = importlib.import_module(f"{PLUGINS}.doc_fragments.{full_name.rpartition('.')[2]}")
        said = yaml.safe_load(fragment.ModuleDocFragment.DOCUMENTATION)
        options.update({name: dict(option) for name, option in (said.get("options") or {}).items()})
    for name, option in (own.get("options") or {}).items():
        # Ansible merges option by option: what a fragment says and the module does not, stays.
        options[name] = {**options.get(name, {}), **option}
    return options


def differences(said: Mapping[str, Any], taken: Mapping[str, Any], where: str) -> Iterator[str]:
    yield from (f"{where}.{name} is documented, and not taken" for name in sorted(set(said) - set(taken)))
    yield from (f"{where}.{name} is taken, and not documented" for name in sorted(set(taken) - set(said)))
    for name in sorted(set(said) & set(taken)):
        for fact, otherwise in FACTS.items():
            told, meant = said[name].get(fact, otherwise), taken[name].get(fact, otherwise)
            empty = fact == "default" and not told and not meant
            if told != meant and not empty:
                yield f"{where}.{name}: {fact} is documented as {told!r}, and is {meant!r}"
        yield from differences(said[name].get("suboptions") or {}, taken[name].get("options") or {}, f"{where}.{name}")


@pytest.mark.parametrize("module", MODULES)
def test_the_documentation_is_the_spec(module: str) -> None:
    action = importlib.import_module(f"{PLUGINS}.action.{module}").ActionModule
    assert list(differences(documented(module), action.SPEC, module)) == []


def test_a_difference_is_told() -> None:
    said = {"a": {"type": "str"}, "b": {"choices": ["x"]}, "c": {}}
    taken = {"a": {"type": "list"}, "b": {"choices": ["x", "y"]}, "d": {}}
    told = list(differences(said, taken, "m"))
    assert len(told) == 4 and "m.a: type is documented as 'str', and is 'list'" in told


def test_every_key_of_an_image_that_a_provisioner_reads_may_be_given_to_the_verbs_that_verify_it() -> None:
    read = {field.name for field in fields(Image)} - {"deploy_id"}
    assert read <= set(IMAGE_OPTIONS), "day 0 hands one and the same gpufleet_image to all of them"


def test_v7_both_gates_say_the_same_of_whose_failure_it_is() -> None:
    told = [
        yaml.safe_load(importlib.import_module(f"{PLUGINS}.modules.{gate}").RETURN)["kind"]
        for gate in ("dcgm_gate", "kernel_log_gate")
    ]
    assert told[0] == told[1]
