# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with a document is told by its own name: each guard stands for itself, also behind another one."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.document import read
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made

WHOLE: dict[str, Any] = made.dcgm4()
TEXT = made.text(WHOLE)


def doubled() -> str:
    """A test that stands there twice, the second time under another category."""
    document = copy.deepcopy(WHOLE)
    categories = document["DCGM Diagnostic"]["test_categories"]
    categories.append({"category": "Again", "tests": [copy.deepcopy(categories[0]["tests"][0])]})
    return made.text(document)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (TEXT.rstrip()[:-1], "cut off or is no valid JSON"),
        (TEXT + '\n{"DCGM Diagnostic": {"test_categories": [', "cut off or is no valid JSON"),
        (made.text({"outer": WHOLE}), "wrapped in another document"),
        (made.text({"iterations": [WHOLE]}), "wrapped in another document"),
        (TEXT + "\n" + TEXT, "several diagnoses"),
        (doubled(), "stands there twice"),
        ("", "the output holds no diagnosis"),
        ("Error: unable to establish a connection", "the output holds no diagnosis"),
        ('{"version": "4.2.3"}', "the output holds no diagnosis"),
    ],
)
def test_v5_each_fault_of_a_document_has_its_own_name(text: str, told: str) -> None:
    assert read(TEXT).problems == []
    problems = read(text).problems
    assert any(told in problem for problem in problems), problems
