# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""host_verdict: a host fails by what a task for all says of it as it would by a task of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.action.host_verdict import ActionModule
from ansible_collections.gpufleet.baremetal.plugins.module_utils._own_verdict import SPEC
from ansible_collections.gpufleet.baremetal.plugins.module_utils._quarantine import quarantines
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Result
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._for_all import verdict
from unit.plugins.doors import Door

OWN: dict[str, dict[str, Any]] = {
    "a lease of another run": {
        "failed": True,
        "msg": "another run has it",
        "error": {"kind": "lease_held", "host": "a"},
    },
    "a stranger": {"failed": True, "msg": "it serves others", "error": {"kind": "not_adopted", "remedy": "none"}},
    "a gate": {
        "failed": True,
        "msg": "7 of 8",
        "verdict": "fail",
        "findings": [{"text": "x"}],
        "remedy": "reseat",
    },
    "a profile": {"failed": True, "msg": "no profile", "verdict": "inconclusive", "kind": "profile_missing"},
    "a dead machine": {"failed": True, "msg": "it did not come", "error": {"kind": "deadline"}},
    "no word": {"failed": True, "msg": "?"},
}
WATCHED: dict[str, dict[str, Any]] = {
    "the node": {"ok": False, "reason": "its deploy failed", "kind": "", "step": "deploy failed"},
    "a service": {"ok": False, "reason": "Ironic is away", "kind": "unreachable"},
}


def read(folder: Path, of: dict[str, str], run_once: bool = False, **told: Any) -> dict[str, Any]:
    more = {key: told.pop(key) for key in ("stops", "refusal") if key in told}
    own = {"gpufleet_serial": "S-1", **told}
    args = {"of": of, **more}
    door = Door(
        folder, lambda params, ctx: Result(changed=False), base=ActionModule, name="host_verdict", own_spec=SPEC,
        args=args, hostvars={"gpu001": own}, **own,
    )  # fmt: skip
    door.task.run_once = run_once
    result = door.run()
    assert door.events() == [], "it writes nothing down"
    return result


def all_say(one: dict[str, Any]) -> dict[str, Any]:
    return {"changed": True, "verdicts": {"gpu001": one, "gpu002": {"ok": True, "changed": True, "result": {}}}}


@pytest.mark.parametrize("what", OWN)
def test_what_failed_over_all_hosts_is_told_as_by_a_task_of_its_own(tmp_path: Path, what: str) -> None:
    own = OWN[what]
    found = read(tmp_path, {"hold": ""}, hold=all_say(verdict(own)))
    assert {key: found.get(key) for key in own} == own and "ok" not in found
    assert quarantines(found) == quarantines(own)


@pytest.mark.parametrize("whose", WATCHED)
def test_what_a_watcher_says_is_judged_by_its_own_words(tmp_path: Path, whose: str) -> None:
    told = WATCHED[whose]
    found = read(tmp_path, {"waited": "Not deployed"}, waited=all_say(told))
    assert found["failed"] and found["msg"] == f"Not deployed: {told['reason']}"
    assert quarantines(found) == quarantines(told) == (whose == "the node")
    spared = read(tmp_path, {"waited": "Not drained"}, stops=["waited"], waited=all_say(told))
    assert spared["msg"] == f"Not drained: {told['reason']}" and not quarantines(spared)


def test_where_nothing_could_be_told_of_anybody_its_kind_is_kept(tmp_path: Path) -> None:
    """Who was refused a lease alone knows nothing of the node, and notes nothing of it."""
    told = {"ok": False, "changed": False, "result": {}, "reason": "another run has it", "kind": "lease_held"}
    found = read(tmp_path, {"one": ""}, one=all_say(told))
    assert found["msg"] == "another run has it" and found["error"]["kind"] == "lease_held" and not quarantines(found)


NO_VERDICT: list[Any] = [
    {"verdicts": {"gpu002": {"ok": True}}}, {"verdicts": {}}, {"verdicts": {"gpu001": None}}, {"skipped": True}, None,
]  # fmt: skip


@pytest.mark.parametrize("told", NO_VERDICT)
def test_a_host_without_a_verdict_goes_no_further(tmp_path: Path, told: Any) -> None:
    found = read(tmp_path, {"held": ""}, **({"held": told} if told is not None else {}))
    assert found["failed"] and "says nothing of this node" in found["msg"] and not quarantines(found)


def test_the_first_that_is_not_good_is_told_and_a_refusal_where_all_are(tmp_path: Path) -> None:
    good, bad = verdict({"changed": True, "state": "drained"}), verdict(OWN["a gate"])
    found = read(tmp_path, {"one": "", "two": ""}, one=all_say(bad), two={"verdicts": {}}, refusal="no")
    assert found["msg"] == "7 of 8"
    found = read(tmp_path, {"one": ""}, one=all_say(good), refusal="it is another machine")
    assert found["failed"] and found["msg"] == "it is another machine" and not quarantines(found)
    found = read(tmp_path, {"one": "", "two": ""}, one=all_say(good), two={"changed": False, "state": "x"})
    assert found["changed"] and not found.get("failed")
    assert found["results"]["one"]["state"] == "drained" and found["results"]["two"]["state"] == "x"


def test_an_error_that_its_task_calls_no_failure_is_one_here(tmp_path: Path) -> None:
    found = read(
        tmp_path, {"resumed": ""}, resumed={"failed": False, "msg": "not read back", "error": {"kind": "lost_answer"}}
    )
    assert found["failed"] and found["msg"] == "not read back" and found["error"]["kind"] == "lost_answer"


def test_what_stands_in_the_ledger_already_is_not_written_again(tmp_path: Path) -> None:
    told = verdict({"changed": True, "events": [{"kind": "note", "name": "n", "data": {}}], "asked": ["PUT x"]})
    assert read(tmp_path, {"one": ""}, one=all_say(told))["results"]["one"] == {"changed": True, "failed": False}


def test_one_task_for_all_reads_nobodys_verdict(tmp_path: Path) -> None:
    found = read(tmp_path, {"one": ""}, run_once=True, one=all_say(verdict({})))
    assert found["failed"] and "leave run_once out" in found["msg"]
