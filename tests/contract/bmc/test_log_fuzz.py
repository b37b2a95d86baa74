# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Mutates what BMCs answer of their logs: an error of ours comes out, or entries that were told, and no write."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.ipmi import link as ipmi_link
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.ipmi.driver import IpmiBmc
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.log import log
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from ansible_collections.gpufleet.baremetal.tests.unit.mutated import tried
from fake_bmc.ipmi_memory import Session
from fake_bmc.logs import MANAGER, SYSTEM, Logs, OneLog, events
from fake_bmc.redfish_server import FakeBmc
from fake_bmc.sel_memory import CLOCK, ENTRY, INFO
from hypothesis import given
from hypothesis import strategies as st

from .conftest import Ctx
from .test_fuzz import IN_TEXT, IN_TREE, Mutating, hasty, params

assert hasty, "the fixture holds here as well"
#: Which answer is mutated, and how: the machine takes the first five or so, its logs those after it.
MUTATIONS = st.lists(st.tuples(st.integers(0, 16), st.one_of(IN_TREE, IN_TEXT)), min_size=1, max_size=3)
SEVERITIES = {"ok", "warning", "critical", "unknown"}


@pytest.fixture(scope="module", params=["paged", "linked", "by_number"])
def teller(request: pytest.FixtureRequest) -> Iterator[FakeBmc]:
    how = {"paged": {"page": 4}, "linked": {"linked": True}, "by_number": {"page": 4, "top_skip": True}}[request.param]
    with FakeBmc("plain") as bmc:
        others = (OneLog(f"{SYSTEM}/LogServices/IML", events(2)), OneLog(f"{MANAGER}/LogServices/Journal", events(9)))
        bmc.logs = Logs(OneLog(f"{MANAGER}/LogServices/SEL", events(11), **how), *others)
        if request.param == "by_number":
            bmc.logs.root["ProtocolFeaturesSupported"] = {"TopSkipQuery": True}
        yield bmc


@tried(25)
@given(mutations=MUTATIONS, most=st.integers(1, 12))
def test_what_a_log_says_was_told(teller: FakeBmc, mutations: list[Any], most: int) -> None:
    said = Mutating(teller, mutations)
    teller.mangle = said
    try:
        found = log(params(teller, timeout=0.5, most=most), Ctx()).data
    except FleetError as exc:
        assert exc.what
        return
    finally:
        assert not teller.writes and not any("Journal/Entries" in path for path, _data in said.sent)
    answers = b"".join(data for _path, data in said.sent).decode("utf-8", "replace")
    assert len(found["entries"]) <= most and json.loads(json.dumps(found)) == found
    for one in found["entries"]:
        assert one["severity"] in SEVERITIES and one["id"] in answers
        assert len(one["message"]) <= 1000 and all(isinstance(word, str) for word in one["native"].values())


def test_what_was_not_mutated_is_told_whole(teller: FakeBmc) -> None:
    teller.mangle = None
    found = log(params(teller, timeout=5.0, most=12), Ctx()).data
    assert [one["id"] for one in found["entries"]] == [str(number) for number in range(11, 0, -1)]
    assert found["unread"] == [] and found["total"] == 11


@pytest.mark.skipif(bool(ipmi_link.LIBRARY_PROBLEM), reason=f"needs pyghmi: {ipmi_link.LIBRARY_PROBLEM}")
@tried(60)
@given(
    answers=st.lists(
        st.tuples(st.sampled_from([0, 0, 0, 0, 0xC1, 0xCB, 0xD4, 0xFF]), st.binary(max_size=24)), min_size=1
    ),
    most=st.integers(1, 6),
)
def test_ipmi_answers_of_any_length_are_errors_or_records_that_were_told(
    answers: list[tuple[int, bytes]], most: int
) -> None:
    turns, told = iter([*answers, *answers]), []

    def reply(_data: tuple[int, ...]) -> tuple[int, bytes]:
        code, data = next(turns, (0xC1, b""))
        told.append(data[2:18].hex())
        return code, data

    with IpmiBmc({"bmc_address": "bmc", "bmc_username": "u", "bmc_password": "p", "timeout": 0.2}, Ctx()) as bmc:
        bmc.machine.link._session = Session({INFO: reply, ENTRY: reply, CLOCK: reply})
        try:
            found = bmc.events.newest(most)
        except FleetError as exc:
            assert exc.what
            return
    assert len(found.entries) <= most and len(told) <= 2 * len(answers) + 20
    assert all(one.native["record"] in told and one.severity in SEVERITIES for one in found.entries)
