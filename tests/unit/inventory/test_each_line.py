# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is text and what is a template, and which identifiers tell no machine."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.template import is_trusted_as_template, trust_as_template
from ansible_collections.gpufleet.baremetal.plugins.module_utils._serial import NO_UUIDS
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _inventory_record as record
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_trust import (
    Lookup,
    for_a_run,
    for_an_export,
)

TEXTS = ("plain", "{{ lookup('pipe', 'id') }}", "{% raw %}", "#jinja2: variable_start_string:'[['")


def strings(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for pair in value.items() for item in pair for text in strings(item)]
    if isinstance(value, list):
        return [text for item in value for text in strings(item)]
    return [value]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("wrap", [lambda t: t, lambda t: [t], lambda t: {"key": {t: t}}], ids=["text", "list", "dict"])
def test_t1_no_text_of_a_source_is_a_template(text: str, wrap: Any) -> None:
    """Whatever trust it has picked up on its way."""
    for given in (text, trust_as_template(text)):
        found = for_a_run(wrap(given))
        assert found == wrap(text)
        assert not any(is_trusted_as_template(one) for one in strings(found))


def test_t1_a_lookup_of_ours_is_a_template() -> None:
    found = for_a_run(Lookup("{{ lookup('ansible.builtin.env', 'X') }}"))
    assert is_trusted_as_template(found) and found == "{{ lookup('ansible.builtin.env', 'X') }}"


@pytest.mark.parametrize("text", TEXTS)
def test_t1_an_export_writes_plainly_what_no_reading_takes_for_a_template(text: str) -> None:
    assert is_trusted_as_template(for_an_export({"key": [text]})["key"][0]) is (text == "plain")


@pytest.mark.parametrize("text", [*sorted(NO_UUIDS), "55555555-5555-5555-5555-555555555555"])
def test_t1_a_uuid_that_is_on_many_boards_tells_none(text: str) -> None:
    assert record.uuid(text) == record.uuid(f" {text.upper()} ") == ""


@pytest.mark.parametrize("name", ["__ansible_type", "__ansible_unsafe", "__ansible_vault"])
def test_s2_no_source_gives_orders_to_what_reads_an_inventory_that_was_written_down(name: str) -> None:
    assert for_a_run([{name: "text", f"a{name}": 1}]) == [{f"source{name}": "text", f"a{name}": 1}]
