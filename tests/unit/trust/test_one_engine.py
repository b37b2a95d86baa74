# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What trust judges comes out of the same engine as what gates judge: one shape, one table, one runner."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import event as ledger_event
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.holder import this_run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.remedies import BUDGETS, REIMAGE
from ansible_collections.gpufleet.baremetal.plugins.module_utils._proc import start_in
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.judgement import Judgement, result_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.node import run_tool
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import REMEDIES, canonical, json_digest

SCHEMA = json.loads(
    (Path(__file__).parents[3] / "roles" / "gate" / "files" / "schemas" / "verdict.schema.json").read_text()
)
IMAGE = {"mode": "node", "image": {"name": "hpc"}, "identity": {"serial": "GF0001"}}


def judged(word: str) -> Judgement:
    judgement = Judgement("image_verify")
    judgement.require(("kernel", "node"), ("driver", "node"))
    for name, verdict in (("kernel", "pass"), ("driver", word)):
        judgement.check(name, entity="node", measured="1", wanted="2", source="s", verdict=verdict)
    return judgement


@pytest.mark.parametrize("word", ["pass", "inconclusive", "fail"])
def test_v7_what_trust_says_fits_the_schema_of_all_verdicts(word: str) -> None:
    result = result_of(judged(word), fail_on="never", more=IMAGE)
    [event] = result.events
    jsonschema.Draft202012Validator(SCHEMA).validate(event.data)
    assert event.data["verdict"] == word and (event.data["remedy"] == "none") is (word == "pass")


def test_v7_a_cell_that_trust_was_told_to_see_and_did_not_is_no_pass() -> None:
    judgement = judged("pass")
    judgement.require(("cuda", "node"))
    told = judgement.as_dict()
    assert (judgement.verdict, told["remedy"]) == ("inconclusive", "retest")
    assert "cuda of node" in told["findings"][0]["text"]
    assert Judgement("image_verify").verdict == "inconclusive", "nothing was looked at"


def test_v7_a_second_look_makes_no_cell_better() -> None:
    judgement = judged("fail")
    judgement.check("driver", entity="node", measured="2", wanted="2", source="s", verdict="pass")
    assert judgement.verdict == "fail"


def test_v7_remedies_are_one_table() -> None:
    choices = tuple(ledger_event.SPEC["remedy"]["choices"])
    assert choices == (*REMEDIES, REIMAGE), "what no finding asks for is due where a stage failed without one"
    assert set(choices) == set(BUDGETS)
    assert SCHEMA["$defs"]["remedy"]["enum"] == list(REMEDIES)


def test_v7_one_spelling_of_json_for_all_digests() -> None:
    one, other = {"b": "\u00e9\ud800", "a": [1, None]}, {"a": [1, None], "b": "\u00e9\ud800"}
    assert canonical(one) == canonical(other) and json_digest(one) == json_digest(other)
    assert json_digest(one) != json_digest({**one, "a": [1]})


def test_v7_a_tool_of_trust_is_bounded_in_time_and_in_words(tmp_path: Path) -> None:
    """It ends with what it started, and may not fill the memory."""
    child = tmp_path / "child"
    began = time.monotonic()
    with pytest.raises(BadAnswer, match="did not end within"):
        run_tool(["/bin/sh", "-c", f"sleep 60 & echo $! > {child}; wait"], 1.0)
    with pytest.raises(BadAnswer, match="printed without an end"):
        run_tool(["/bin/sh", "-c", "exec cat /dev/zero"], 30.0)
    with pytest.raises(BadAnswer, match="is not installed"):
        run_tool([str(tmp_path / "nothing")], 1.0)
    assert time.monotonic() - began < 25.0
    stat = Path(f"/proc/{child.read_text().strip()}/stat")
    assert not stat.exists() or start_in(stat.read_text()) == 0


STAT = "7 (a (b) c) {state} " + " ".join(str(number) for number in range(4, 23))


@pytest.mark.parametrize(("state", "start"), [("S", 22), ("Z", 0), ("X", 0)])
def test_v7_one_way_to_read_when_a_process_began(state: str, start: Any) -> None:
    assert start_in(STAT.format(state=state)) == start
    assert start_in("7 (a) S 1") == 0 and start_in("") == 0
    assert this_run(1).pid == 1
