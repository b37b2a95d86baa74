# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The text of a hold: one line, of one run, at the beginning of what a peer keeps."""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._token import (
    has_form,
    known_runs,
    make_token,
    run_of,
    runs_of,
)


@pytest.mark.parametrize("why", ["a\nb", "a\r\nb", "a\x1b[31mb", "a\x00b", "a\tb", "a\x7fb"])
def test_t1_a_hold_is_one_line_of_plain_text(why: str) -> None:
    token = make_token("r1", why)
    assert token.isprintable() and run_of(token) == "r1"


@pytest.mark.parametrize("run", ["awx-1:2", "a b", "a\nb", "ctl-17-99"])
def test_t1_a_run_is_known_again_by_its_token(run: str) -> None:
    assert run_of(make_token(run, "work")) in runs_of([run])


@pytest.mark.parametrize("text", ["see gpufleet:r1:work", " gpufleet:r1:work", "GPUFLEET:r1:work", "gpufleet"])
def test_t1_a_token_stands_at_the_beginning(text: str) -> None:
    assert not has_form(text) and run_of(text) == ""


def test_t1_a_ledger_that_knows_no_run_is_not_the_same_as_no_ledger() -> None:
    assert known_runs({"known_runs": []}) == frozenset()
    assert known_runs({"known_runs": None}) is None and known_runs({}) is None
