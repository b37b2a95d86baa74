# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines of trust that fail closed beside others that do so as well: each is held by itself."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._quarantine import quarantines
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.image import combined, no_nodes_fault
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.judgement import Judgement, result_of


class Surprise:
    def __str__(self) -> str:
        raise RuntimeError("nobody thought of this")


class Surprising(dict[str, Any]):
    def __getitem__(self, key: str) -> Any:
        raise RuntimeError("nobody thought of this")


RANK = ("pass", "inconclusive", "fail")


def judged(*words: str) -> Judgement:
    judgement = Judgement("image_verify")
    for number, word in enumerate(words):
        judgement.require((f"c{number}", "node"))
        judgement.check(f"c{number}", entity="node", measured=1, wanted=1, source="s", verdict=word)
    return judgement


@pytest.mark.parametrize(
    ("ids", "kind", "words"),
    [
        (["unreachable"], "unreachable", "the server of the image hpc 1.4"),
        (["unreachable", "unreachable"], "unreachable", "the server of the image hpc 1.4"),
        (["unreachable", "digest_mismatch"], "artifact", "the image hpc 1.4 itself"),
        (["digest_mismatch"], "artifact", "the image hpc 1.4 itself"),
    ],
)
def test_c7_an_image_that_is_wrong_is_told_as_that_also_beside_a_file_that_could_not_be_read(
    ids: list[str], kind: str, words: str
) -> None:
    """Waiting for its server mends a wrong digest no more than a silent server is the image's fault."""
    judgement = Judgement("image_artifact")
    for number, name in enumerate(ids):
        word, cell = ("inconclusive" if name == "unreachable" else "fail"), f"c{number}"
        judgement.require((cell, "image"))
        judgement.check(cell, entity="image", measured=1, wanted=2, source="s", verdict=word, finding=name)
    told = no_nodes_fault(result_of(judgement, fail_on="never", more={}).data, {"name": "hpc", "version": "1.4"})
    assert told["kind"] == kind and told["msg"].startswith(words) and "no verdict about the node" in told["msg"], told


@pytest.mark.parametrize("words", list(itertools.product(RANK, repeat=2)))
def test_t1_the_worst_check_decides(words: tuple[str, ...]) -> None:
    assert judged(*words).verdict == max(words, key=RANK.index)


@pytest.mark.parametrize(
    ("word", "fail_on", "failed"),
    [("fail", "inconclusive", True), ("inconclusive", "inconclusive", True), ("inconclusive", "fail", False)]
    + [("fail", "fail", True), ("fail", "never", False), ("pass", "inconclusive", False)],
)
def test_t1_a_verdict_stops_its_node_and_is_recorded_all_the_same(word: str, fail_on: str, failed: bool) -> None:
    result = result_of(judged(word), fail_on=fail_on, more={})
    assert bool(result.data.get("failed")) is failed
    assert [(event.kind, event.data["verdict"]) for event in result.events] == [("verdict", word)]


EXPECT: dict[str, Any] = {
    "name": "hpc",
    "manifest_sha256": "a" * 64,
    "manifest": {"kernel": "6.8.0", "driver": "570.86.15", "cuda": "12.8.1", "fabric_manager": ""},
}
OPTIONS: dict[str, Any] = {
    "manifest_path": "/etc/gpufleet/image.json",
    "not_boot_id": "boot-1",
    "booted_after": "1000",
    "max_clock_skew": 2.0,
    "fail_on": "inconclusive",
}
MEASURED: dict[tuple[str, str], Any] = {
    ("image", "/etc/gpufleet/image.json"): "a" * 64,
    ("kernel", "node"): "6.8.0",
    ("driver", "node"): "570.86.15",
    ("cuda", "node"): "12.8",
    ("boot_id", "node"): "boot-2",
    ("booted", "node"): 1010.0,
}


def node(word: str = "pass", **changed: Any) -> dict[str, Any]:
    """The answer of a node on which all is right, or whose driver is not."""
    judgement = Judgement("image_verify")
    for (name, entity), measured in {**MEASURED}.items():
        verdict = word if name == "driver" else "pass"
        judgement.require((name, entity))
        judgement.check(name, entity=entity, measured=measured, wanted="?", source="node", verdict=verdict)
    return {**judgement.as_dict(), "identity": {"serial": "GF0001"}, **changed}


def whole(answer: dict[str, Any], told: str = "") -> str:
    result = combined(judged("pass"), EXPECT, answer, OPTIONS, offset=(0.0, 0.1))
    assert bool(result.data.get("failed")) is (result.data["verdict"] != "pass")
    assert told in result.data["msg"]
    return str(result.data["verdict"])


@pytest.mark.parametrize("word", ["pass", "fail"])
def test_v2_what_was_measured_on_another_machine_is_not_the_nodes(word: str) -> None:
    """Neither a failure nor a pass: what is known is that another machine answers."""
    asked = {**OPTIONS, "bmc_identity": {"serial": "GF0002"}}
    result = combined(judged("pass"), EXPECT, node(word), asked, offset=(0.0, 0.1))
    assert result.data["verdict"] == "inconclusive"
    assert [check["verdict"] for check in result.data["checks"] if check["id"] == "machine"] == ["inconclusive"]
    assert not any(
        check["id"] in ("driver", "image") for check in result.data["checks"] if check["measured"] is not None
    )
    assert [finding["id"] for finding in result.data["findings"]][:1] == ["other_machine"]


@pytest.mark.parametrize(
    ("changed", "kind"),
    [
        ({"identity": {}}, "config"),
        ({"identity": {"serial": "To be filled by O.E.M."}}, "config"),
        ({"identity": {}, "word": "inconclusive"}, "config"),
        ({"identity": {}, "word": "fail"}, None),
        ({"identity": {"serial": "GF0001"}, "word": "inconclusive"}, None),
        ({"identity": {}, "verdict": "fail"}, None),
    ],
)
def test_u5_a_node_that_was_not_asked_as_root_is_not_called_faulty(changed: dict[str, Any], kind: str | None) -> None:
    """One missing ansible_become, and no node can tell who it is. What it did read, and is wrong, is its own; and who
    answers what was not asked has told nothing."""
    given = dict(changed)
    answer = node(given.pop("word", "pass"), **given)
    asked = {**OPTIONS, "bmc_identity": {"serial": "GF0001"}}
    told = combined(judged("pass"), EXPECT, answer, asked, offset=(0.0, 0.1)).data
    assert told["failed"] and told.get("kind") == kind, told
    assert quarantines(told) is (kind is None) and ("ansible_become" in told["msg"]) is (kind is not None)


def test_v2_of_a_whole_answer_each_cell_is_needed_and_judged_here() -> None:
    assert whole(node()) == "pass"
    for name, _entity in MEASURED:
        fewer = [check for check in node()["checks"] if check["id"] != name]
        assert whole(node(checks=fewer), f"it tells 0 times of {name}") == "inconclusive"
        twice = [*node()["checks"], *(check for check in node()["checks"] if check["id"] == name)]
        assert whole(node(checks=twice), f"it tells 2 times of {name}") == "inconclusive"
        for other in ("", None, 0, "boot-1", True, float("nan"), ["a" * 64], {"a": 1}):
            lied = [{**check, "measured": other} if check["id"] == name else check for check in node()["checks"]]
            assert whole(node(checks=lied)) == "inconclusive", (name, other)


@pytest.mark.parametrize(
    "answer",
    [
        {"verdict": "fail", "checks": []},
        {"verdict": "pass", "checks": []},
        {"verdict": "fail"},
        {"verdict": "good"},
        {"checks": "all of them"},
        {"checks": None},
        {"checks": [{"id": "image", "verdict": "pass"}]},
        {"findings": [{"id": "x"}]},
        {"findings": 7},
        {"argv": None},
        {"argv": 5},
        {"argv": [["x"]]},
        {"identity": "x"},
        {"identity": {"gpu_uuids": 5}},
        {"identity": {"gpu_uuids": [{}]}},
        {"findings": [{"id": [], "entity": {}, "text": None, "remedy": "none"}]},
        {"findings": [{"id": "x", "entity": "node", "text": "x", "remedy": ["none"]}]},
        {
            "checks": [
                {**dict.fromkeys(("id", "entity", "measured", "wanted", "unit", "source"), "x"), "verdict": ["pass"]}
            ]
        },
        {"evidence_digest": "\ud800"},
        {"evidence_digest": Surprise()},
        {"evidence_digest": None},
    ],
)
def test_v2_what_is_no_answer_is_no_pass(answer: dict[str, Any]) -> None:
    assert whole(node(**answer)) == ("pass" if answer == {"argv": None} else "inconclusive")


def test_an_answer_that_breaks_what_reads_it_is_a_verdict_all_the_same() -> None:
    """Without one, an earlier pass would stay the newest."""
    result = combined(judged("pass"), EXPECT, node(identity=Surprising(serial="x")), OPTIONS, offset=(0.0, 0.1))
    assert result.data["verdict"] == "inconclusive" and result.data["failed"] and result.events
    assert [one["id"] for one in result.data["findings"]] == ["forged"]


@pytest.mark.parametrize(
    ("told", "word"), [("12.8", "pass"), ("12.8.1", "pass"), ("12", "inconclusive"), ("1", "inconclusive")]
)
def test_the_driver_tells_major_and_minor_of_cuda(told: str, word: str) -> None:
    checks = [{**check, "measured": told} if check["id"] == "cuda" else check for check in node()["checks"]]
    assert whole(node(checks=checks)) == word


def row(name: str, **told: Any) -> dict[str, Any]:
    return {
        "id": name,
        "entity": "node",
        "measured": 0,
        "wanted": 1,
        "unit": "",
        "source": "s",
        "verdict": "pass",
        **told,
    }


@pytest.mark.parametrize("word", ["pass", "fail"])
def test_v2_a_cell_that_nobody_asked_for_is_in_no_verdict(word: str) -> None:
    """Whoever reads the passport would take it for one of the controller's."""
    more = row("attestation", measured="quote verified", verdict=word)
    result = combined(judged("pass"), EXPECT, node(checks=[*node()["checks"], more]), OPTIONS, offset=(0.0, 0.1))
    assert result.data["verdict"] == "inconclusive" and result.data["failed"]
    [event] = result.events
    assert "attestation" not in {check["id"] for check in event.data["checks"]}
    assert {"signature", "quote verified"}.isdisjoint(str(check["measured"]) for check in event.data["checks"])


def test_v2_what_was_wanted_and_by_whom_is_said_by_the_controller() -> None:
    lied = [{**check, "wanted": "anything", "source": "a quote, verified", "unit": "x"} for check in node()["checks"]]
    result = combined(judged("pass"), EXPECT, node(checks=lied), OPTIONS, offset=(0.0, 0.1))
    assert result.data["verdict"] == "pass"
    cells = {check["id"]: check for check in result.events[0].data["checks"]}
    assert {cells[name]["wanted"] for name, _entity in MEASURED}.isdisjoint({"anything", "?"})
    assert {cells[name]["source"] for name, _entity in MEASURED}.isdisjoint({"a quote, verified", "node"})
    assert {cells[name]["unit"] for name, _entity in MEASURED} == {""}
    assert (cells["driver"]["wanted"], cells["kernel"]["source"]) == ("570.86.15", "uname")
    assert cells["image"]["wanted"] == "a" * 64 and cells["image"]["source"].startswith("SHA256SUMS signed by")


def test_v2_a_pass_finds_nothing() -> None:
    quote = {"id": "attestation", "entity": "node", "text": "quote verified", "remedy": "none"}
    result = combined(judged("pass"), EXPECT, node(findings=[quote]), OPTIONS, offset=(0.0, 0.1))
    assert result.data["verdict"] == "inconclusive"
    assert "quote verified" not in str(result.events)


@pytest.mark.parametrize("word", ["unreachable", "aborted", "crashed", "forged", "other_machine"])
def test_v2_what_only_the_controller_can_find_no_node_finds(word: str) -> None:
    """From such a finding follows whether it is imaged anew, or called another machine."""
    answer = node("fail")
    told = [{**one, "id": word, "text": "by the node itself"} for one in answer["findings"]]
    result = combined(judged("pass"), EXPECT, {**answer, "findings": told}, OPTIONS, offset=(0.0, 0.1))
    assert {one["id"] for one in result.data["findings"]} == {"forged"} and told
    assert "by the node itself" not in str(result.events)


NESTED: Any = []
for _level in range(5000):
    NESTED = [NESTED]


@pytest.mark.parametrize(
    "measured", [NESTED, [["x"]], {"a": 1}, "x" * 100_000, "a\0b", "\ud800", 1e300, float("inf"), 10**30, ["x"] * 6000]
)
def test_v2_a_cell_holds_a_plain_value_of_a_verdicts_size(measured: Any) -> None:
    """Also one that does not pass: what breaks the ledger would keep a failure out of it."""
    checks = [{**one, "measured": measured} if one["id"] == "driver" else one for one in node("fail")["checks"]]
    result = combined(judged("pass"), EXPECT, node("fail", checks=checks), OPTIONS, offset=(0.0, 0.1))
    assert result.data["verdict"] == "inconclusive" and [one["id"] for one in result.data["findings"]] == ["forged"]
    assert len(str(result.events)) < 10_000


@pytest.mark.parametrize(
    "answer",
    [
        {"identity": {"serial": NESTED}},
        {"identity": {"serial": "GF0001", "attested": "yes"}},
        {"identity": {"gpu_problem": "x" * 100_000}},
        {"argv": ["x" * 100_000]},
        {"argv": ["x" * 19_000] * 30},
        {"identity": {"gpu_uuids": ["x" * 19_000] * 30}},
        {"checks": [*node()["checks"], *(row("x", source="x" * 19_000) for _at in range(30))]},
        {"verdict": NESTED},
        {"verdict": {"a": NESTED}},
    ],
)
def test_v2_what_stands_beside_the_cells_is_held_against_limits_too(answer: dict[str, Any]) -> None:
    assert whole(node(**answer), "has not the shape of a verdict") == "inconclusive"


@pytest.mark.parametrize(
    ("controller", "on_node", "offset", "whole"),
    [
        ("pass", "pass", (0.0, 0.1), "pass"),
        ("fail", "pass", (0.0, 0.1), "fail"),
        ("pass", "fail", (0.0, 0.1), "fail"),
        ("pass", "inconclusive", (0.0, 0.1), "inconclusive"),
        ("pass", "pass", (60.0, 60.1), "fail"),
        ("pass", "pass", None, "inconclusive"),
    ],
)
def test_t1_signature_node_and_clock_are_one_verdict(controller: str, on_node: str, offset: Any, whole: str) -> None:
    result = combined(judged(controller), EXPECT, node(on_node), OPTIONS, offset=offset)
    assert result.data["verdict"] == whole
    assert bool(result.data.get("failed")) is (whole != "pass")


def test_v1_the_question_of_the_whole_is_what_the_task_declared_and_every_cell() -> None:
    """By it a later look is compared; what the node names as its question is its own word."""
    declared = {"name": "hpc", "version": "1.4", "sha256": "d" * 64}
    options = {**OPTIONS, "image": {**declared, "url": "http://127.0.0.1:9/hpc", "named": None}}
    answer = node(asked={"tests": [], "image": {"name": "other"}})
    [event] = combined(judged("pass"), EXPECT, answer, options, offset=(0.0, 0.1)).events
    cells = sorted({"c0", "clock", *(name for name, _entity in MEASURED)})
    assert event.data["asked"] == {"tests": cells, "image": declared}


@pytest.mark.parametrize(
    ("measured", "wanted", "word"), [(1, 1, "pass"), (1, 2, "fail"), ("", "x", "fail"), ("x", "", "fail")]
)
def test_t1_only_what_is_equal_is_the_same(measured: Any, wanted: Any, word: str) -> None:
    judgement = Judgement("image_verify")
    judgement.require(("c", "node"))
    assert judgement.same("c", entity="node", measured=measured, wanted=wanted, source="s") == word
    assert judgement.verdict == word and bool(judgement.sheet.findings) is (word != "pass")


THIS = {"serial": "GF0001", "uuid": "5AC00000-0000-4000-8000-000000000001"}


@pytest.mark.parametrize(
    ("bmc", "identity", "word"),
    [
        (THIS, {"serial": "GF0001"}, "pass"),
        (THIS, {"serial": "gf0001"}, "pass"),
        (THIS, {"serial": "GF0002"}, "inconclusive"),
        (THIS, {"serial": "GF0001", "system_uuid": "9ac00000-0000-4000-8000-000000000099"}, "inconclusive"),
        (THIS, {}, "inconclusive"),
        (THIS, {"serial": ["GF0001"]}, "inconclusive"),
        ({"serial": ""}, {"serial": "GF0001"}, "inconclusive"),
        ({}, {"serial": "GF0002"}, "pass"),
        (None, {"serial": "GF0002"}, "pass"),
    ],
)
def test_v2_the_machine_that_answers_is_the_one_of_the_bmc(bmc: Any, identity: dict[str, Any], word: str) -> None:
    options = {**OPTIONS, "bmc_identity": bmc}
    result = combined(judged("pass"), EXPECT, node(identity=identity), options, offset=(0.0, 0.1))
    assert result.data["verdict"] == word
    assert ("machine" in result.events[0].data["asked"]["tests"]) is bool(bmc)
