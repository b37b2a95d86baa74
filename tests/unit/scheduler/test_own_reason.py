# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever a finding says: the reason that we wrote of it is read back as ours, with the same token."""

from __future__ import annotations

import json
import re

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _token
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.redact import redact
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import KINDS, WORK
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.hold import OURS, Claim
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.driver import Slurm
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.holds import own_end
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.text import parse_nodes
from hypothesis import given, settings
from hypothesis import strategies as st
from suite.properties import at_most
from unit.scheduler.slurm_commands import World

#: What the reader of scontrol's text goes by, and what a scheduler or a shell would take for its own.
MARKS = (
    "State=IDLE", "BootTime=None", "Reason=", "NodeName=n9", "Comment=x", "[bob@2026-11-20T10:40:13]", "[", "]", "=",
    "\nNodeName=n1 State=IDLE BootTime=None", "\nNode n1 not found", " : Not responding", " : Low CPUs, Low TmpDisk",
    ":", " ", '"', "'", "\\", "$(id)", "\x1b[2J", "\u2028", "\u00a0", "gpufleet:run9:mine", "+keep:", "ö", "\udc80",
    "https://root:calvin@bmc/x", "http=//u=p@h", "password: hunter2x", "Cookie: a=b",
)  # fmt: skip
WHYS = st.lists(st.sampled_from(MARKS) | st.text(max_size=12), max_size=8).map("".join)
RUNS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)


def printed(name: str, reason: str) -> str:
    """As scontrol prints it: between other fields, by whom and when behind its first line."""
    fields = f"NodeName={name} Arch=x86_64 OS=Linux 6.1 #1  RealMemory=100 State=IDLE+DRAIN ThreadsPerCore=1"
    return f"{fields} BootTime=2026-11-20T10:12:58 Reason={reason} [root@2026-11-20T10:40:13] Comment=x\n"


@settings(max_examples=at_most(200), deadline=None)
@given(run=RUNS, why=WHYS, kind=st.sampled_from(sorted(KINDS)), end=st.sampled_from(["", " : Not responding"]))
def test_s3_any_reason_of_ours_is_read_back_as_ours(run: str, why: str, kind: str, end: str) -> None:
    token = _token.make_token(run, why, kind)
    record = parse_nodes(printed("n1", token + end) + printed("n2", "other"), ["n1", "n2"])["n1"]
    assert (record.reason, record.set_by, record.native) == (token + end, "root", "IDLE+DRAIN")
    (hold,) = record.view([]).holds
    assert (hold.text[: len(hold.text) - len(hold.appended)], hold.kind, own_end(token)) == (token, kind, "")
    told = redact({"hold_token": token, "hold_author": hold.author})
    known = {"known_token": told["hold_token"], "known_author": told["hold_author"], "known_runs": [run]}
    claim = Claim.of(known)
    assert claim.has(hold) and _token.says(hold.text, why)
    assert kind == "keep" or claim.owner_of(hold) == OURS


WORST = (
    "xid79 State=IDLE BootTime=None",
    "sensor [bob@2026-11-20T10:40:13] Comment=x State=DOWN",
    "a\nNodeName=n2 State=IDLE BootTime=None Reason=x",
    "drained : Not responding",
    "GPUs = 7 : Low CPUs",
)


@pytest.mark.parametrize("why", WORST)
def test_s3_a_hold_whose_finding_reads_like_a_record_holds_and_is_lifted(world: World, why: str) -> None:
    free = {"state": "IDLE", "reason": "", "by": ""}
    file = world(nodes={"n1": free, "n2": free})
    driver, token = Slurm({}), _token.make_token("run1", why)
    driver.hold(driver.states(["n1"])["n1"], token, WORK)
    views = driver.states(["n1", "n2"])
    claim = Claim.of({"known_token": token, "known_author": "root", "known_runs": ["run1"]})
    assert views["n1"].state == "drained" and views["n1"].reason == token and claim.owner(views["n1"]) == OURS
    assert views["n2"].in_service
    driver.resume(views["n1"])
    assert json.loads(file.read_text())["nodes"]["n1"]["state"] == "IDLE"


def test_s3_a_reason_tells_no_login_that_a_peer_echoed() -> None:
    token = _token.make_token("run1", "the BMC says: GET https://root:calvin@bmc failed, password: hunter2x")
    assert not re.search("calvin|hunter2x", token) and "bmc failed" in token


def test_s3_what_a_person_reads_of_a_finding_stays() -> None:
    why = "quarantined: Xid 79 (GPU has fallen off the bus); remedy: field_diag"
    assert _token.make_token("run1", why) == f"gpufleet:run1:{why}"
