# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A skip must not pass for a success.

On a developer's machine a test that lacks a program is skipped, and pytest says so. In CI (``CI=true``) the set-up has
installed everything that a test needs, so there a skip is a failure, except for the reasons below.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator
from typing import Any, NoReturn

import pytest
import recorded

#: Reasons for which a test may be skipped in CI, and why.
ALLOWED = {
    # A case of a table of cases that says nothing about this one; see not_applicable().
    r"^does not apply: ": "there is nothing to be tested",
    # Not every checkout has the outputs of real machines beside it.
    f"^{recorded.ABSENT}$": "no set-up provides them",
    # With PAIR= one ansible-core is left out; where it is wanted, its set-up is a step that fails.
    r"^no core 2\.": "a person has left this ansible-core out",
}


def in_ci() -> bool:
    return os.environ.get("CI", "").lower() in ("true", "1")


def not_applicable(why: str) -> NoReturn:
    """Skip a case that says nothing here, on any machine."""
    pytest.skip(f"does not apply: {why}")


def allowed(reason: str) -> bool:
    if reason == recorded.ABSENT and os.environ.get(recorded.VARIABLE):
        return False
    return any(re.search(pattern, reason) for pattern in ALLOWED)


def reason_of(report: Any) -> str:
    told = report.longrepr
    return str(told[2] if isinstance(told, tuple) else told).removeprefix("Skipped: ")


def judge(report: Any) -> None:
    """Make a failure of a skip that CI does not allow. An expected failure is none, though pytest counts it as one."""
    if not report.skipped or hasattr(report, "wasxfail") or allowed(reason_of(report)):
        return
    report.outcome = "failed"
    report.longrepr = (
        f"skipped in CI: {reason_of(report)}\n"
        "The set-up must provide what a test needs (requirements/system.txt); tests/suite/skips.py lists the reasons "
        "that hold all the same."
    )


class NoSilence:
    """The plugin; it is registered in CI only."""

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, Any, None]:
        outcome = yield
        judge(outcome.get_result())

    @pytest.hookimpl(hookwrapper=True)
    def pytest_make_collect_report(self) -> Generator[None, Any, None]:
        outcome = yield
        judge(outcome.get_result())
