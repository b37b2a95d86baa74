# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ironic prints a step that it cannot do whole; what that was given is shown to nobody, whoever asks."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.ironic.driver import IronicDriver
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.ironic.words import (
    NOT_SHOWN,
    reason,
    without_arguments,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from hypothesis import given
from hypothesis import strategies as st
from unit.provisioner.test_ironic_each_line import Server

SECRET = "Hunter2-Bios"
STEP = {"step": "apply", "interface": "bios", "args": {"settings": [{"name": "SetupPassword", "value": SECRET}]}}
#: As a real Ironic 39.0 says it of a step that its node has not.
ERROR = f"Failed to prepare node u-1 for cleaning: node does not support this clean step: {STEP}"


@pytest.mark.parametrize("deployed_by", ["", "gpufleet:r1:day2"])
def test_what_a_step_is_given_is_in_nothing_that_is_told_of_its_node(deployed_by: str) -> None:
    driver = IronicDriver({"provisioner_url": "http://127.0.0.1:9"}, Context())
    raw = {"uuid": "u-1", "provision_state": "clean failed", "last_error": ERROR, "maintenance": True}
    for told in (ERROR, deployed_by, f"of old: {ERROR}"):
        node = driver.state_of({**raw, "maintenance_reason": told, "fault": "clean failure"})
        assert "does not support this clean step" in node.last_error
        assert SECRET not in f"{node} {node.last_error} {node.hold} {node.foreign}"
    assert "clean step" in node.foreign, "whose text it is stays told"


def test_nor_in_what_is_told_of_its_power() -> None:
    error = f"{ERROR}\n" + "and so on " * 200
    raw = {"uuid": "u-1", "provision_state": "active", "power_state": "error", "last_error": error}
    server = Server(lambda *_asked: (200, raw))
    try:
        conductor = IronicDriver({"provisioner_url": server.url}, Context())
        told = conductor.power_of(conductor.state_of(raw))
    finally:
        server.close()
    assert told.startswith("error: ") and "clean step" in told and SECRET not in told and "\n" not in told
    assert len(told) < 1000


def test_nor_in_what_is_told_of_a_refusal() -> None:
    for body in ({"error_message": {"faultstring": ERROR}}, {"error_message": json.dumps({"faultstring": ERROR})}):
        answer = SimpleNamespace(status_code=400, text=json.dumps(body), json=lambda body=body: body)
        assert "does not support" in reason(answer) and SECRET not in reason(answer)


WORDS = st.text(st.characters(exclude_characters="{}"), max_size=12)
GIVEN = st.recursive(
    st.text("{}'\"\\a\n", max_size=8) | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("{}'\"a", max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(WORDS, st.dictionaries(st.just("args"), GIVEN, min_size=1), WORDS, st.booleans(), st.data())
def test_what_stands_in_braces_is_left_out_and_nothing_else(
    before: str, step: dict[str, Any], after: str, as_json: bool, data: st.DataObject
) -> None:
    written = json.dumps(step) if as_json else repr(step)
    assert without_arguments(f"{before}{written}{after}") == f"{before}{NOT_SHOWN}{after}"
    assert without_arguments(before) == before
    cut = written[: data.draw(st.integers(1, len(written)))]
    assert without_arguments(before + cut) == before + NOT_SHOWN, "also of a text that was cut"
    twice = without_arguments(f"{before}{written}{after}{written}")
    assert twice == f"{before}{NOT_SHOWN}{after}{NOT_SHOWN}"
