# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One list says which failures quarantine a node, and every kind of error stands in it."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _errors as errors
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.certificate import another
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.event import FailureStands
from ansible_collections.gpufleet.baremetal.plugins.module_utils._quarantine import _KINDS, WHOSE, quarantines

PLUGINS = Path(__file__).resolve().parents[3] / "plugins"
PACKAGE = "ansible_collections.gpufleet.baremetal.plugins"


def classes(one: type[errors.FleetError]) -> Iterator[type[errors.FleetError]]:
    yield one
    for below in one.__subclasses__():
        yield from classes(below)


def test_every_kind_of_error_says_whose_failure_it_is_and_says_it_once() -> None:
    for path in (PLUGINS / "module_utils").rglob("*.py"):
        if re.search(r"^    kind = \"", path.read_text(encoding="utf-8"), re.M):
            importlib.import_module(".".join((PACKAGE, *path.relative_to(PLUGINS).with_suffix("").parts)))
    ours = {one.kind for one in classes(errors.FleetError) if one.__module__.startswith(PACKAGE)}
    assert len(ours) > 15 and ours <= set(WHOSE), sorted(ours - set(WHOSE))
    assert sum(map(len, _KINDS.values())) == len(WHOSE), "a kind stands in two lines"


@pytest.mark.parametrize(
    ("told", "due"),
    [
        (errors.TrustError("x").as_result(), True),
        (another("https://10.0.0.1", "aa" * 32, "bb" * 32).as_result(), False),
        (errors.NotProven("x").as_result(), True),
        (errors.DeadlineExceeded("x").as_result(), True),
        (errors.ConfigError("x").as_result(), False),
        (errors.Unreachable("x").as_result(), False),
        (errors.LeaseHeld("x").as_result(), False),
        (errors.EvidenceMissing("x").as_result(), False),
        (FailureStands("x").as_result(), True),
        ({"failed": True, "msg": "a task said so"}, False),
        ({"failed": True, "error": None}, False),
        ({"failed": True, "error": {"kind": ""}}, False),
        ({"failed": True, "error": {"kind": "of tomorrow"}}, False),
        ({"failed": True, "verdict": "inconclusive", "findings": []}, True),
        ({"failed": True, "verdict": "fail", "error": {"kind": "config"}}, True),
        ({"failed": True, "verdict": "fail", "kind": "unreachable"}, False),
        ({"failed": True, "assertion": "x.ok"}, True),
        ({"ok": False, "kind": "", "reason": "bad"}, True),
        ({"ok": False, "kind": "deadline"}, True),
        ({"ok": False, "kind": "not_ours"}, False),
        ({"ok": False, "kind": "of tomorrow"}, False),
    ],
)
def test_only_a_verdict_about_the_node_quarantines(told: dict[str, Any], due: bool) -> None:
    assert quarantines(told) is due
