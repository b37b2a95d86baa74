# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How logs of trainings are read, and what a profile may say of one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import profiles
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.training.document import read
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.training.formats import LAYOUTS, NAMES
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.training.section import training_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import wanted_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import sentence
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made
from ansible_collections.gpufleet.baremetal.tests.unit.gate import trained
from ansible_collections.gpufleet.baremetal.tests.unit.gate.trained import (
    FORMATS,
    LOSSES,
    STEPS,
    cell,
    judged,
    row,
    said,
)

# -- formats -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_each_format_is_read(name: str) -> None:
    asked, text = FORMATS[name]
    assert judged(text(), asked)["verdict"] == "pass", sentence(judged(text(), asked), shown=9)
    assert cell(judged(text(), asked), "step_time")["measured"] == 5
    assert said(judged(text(ms=9.0), asked))[:2] == ("fail", "field_diag")
    for wrong in ("nan", float("inf")):
        losses = [*LOSSES[:5], wrong, *LOSSES[6:]]
        assert said(judged(text(losses=losses), asked))[:2] == ("fail", "field_diag"), (name, wrong)
    assert said(judged(text(losses=LOSSES[:-1]), asked))[0] == "inconclusive"
    cut = text().partition("`")[0].rstrip()
    cut = cut.rpartition("\r")[0] if name == "nemo_bar" else cut  # its last line is drawn twice
    assert judged(cut[: cut.rindex(str(LOSSES[-1])[:2]) + 1], asked)["verdict"] == "inconclusive", (
        "cut in its last line"
    )


def test_a_cut_line_that_does_not_say_so_itself_is_none() -> None:
    """``5.25`` cut after its first digits is a number, too."""
    for name in ("nemo", "pattern"):
        asked, text = FORMATS[name]
        whole = text().partition("`")[0].rstrip("\n")
        assert "its last line is cut" in said(judged(whole, asked))[2], name
    asked, text = FORMATS["json"]
    assert judged(text().rstrip("\n"), asked)["verdict"] == "pass", "an object that is closed is whole"


def test_a_bar_may_be_drawn_again_and_tell_nothing_else() -> None:
    asked, text = FORMATS["nemo_bar"]
    other = text().replace(f"reduced_train_loss={LOSSES[4]}", "reduced_train_loss=3.0", 1)
    assert other != text() and "told twice" in said(judged(other, asked))[2]


@pytest.mark.parametrize(
    "wrong",
    [
        '{"step": 7, "step": 7, "m": {"t": 0.005, "loss": 9}, "tps": 1}',
        '{"step": 7, "m": {"t": 0.005, "loss": 9}}',
        '{"step": 7, "m": {"t": true, "loss": 9}, "tps": 1}',
        '{"step": 7.5, "m": {"t": 0.005, "loss": 9}, "tps": 1}',
        '{"step": 7, "m": {"t": 0.005}, "tps": 1}',
        '{"step": 7, "m": ' + "[" * 2000,
        '{"step": 7, "m": {"t": 0.005, "loss": 9}, "tps": 1',
        '{"step": 1e999, "m": {"t": 0.005, "loss": 9}, "tps": 1}',
    ],
)
def test_a_json_line_of_a_step_is_read_as_it_stands_or_not_at_all(wrong: str) -> None:
    asked, text = FORMATS["json"]
    lines = text().splitlines()
    lines[lines.index(next(one for one in lines if '"step": 7' in one))] = wrong
    found = judged("\n".join([*lines, ""]), asked)
    assert said(found)[0] == "inconclusive" and "cannot be read" in said(found)[2], sentence(found, shown=9)


def test_a_launchers_prefix_is_none_of_the_line() -> None:
    for name in ("megatron", "json"):
        asked, text = FORMATS[name]
        for prefix in ("[default0]:", "gpu001: ", "0: "):
            assert judged("".join(prefix + one for one in text().splitlines(keepends=True)), asked)["verdict"] == "pass"


def test_an_expression_that_takes_for_ever_is_ended() -> None:
    """It is the site's, and the line whoever's who trains."""
    asked = row(format="pattern", time_unit="ms", pattern=r"(?P<step>(?:\d+)+)x(?P<time>\d)(?P<loss>\d)")
    one = training_of(wanted_of(trained.profile(asked)))
    seen = read("1" * 4000 + "\n", one, patience=0.3)
    assert seen.problems == ["the pattern of the profile takes more than 0.3 s"] and not seen.steps
    assert read("1x23\n", one, patience=5.0).steps[0].ms == 2, "and the next one has its time"


def test_each_layout_says_where_it_is_from() -> None:
    assert all(one.source and one.end for one in LAYOUTS.values())
    schema = json.loads(made.PROFILE_SCHEMA.read_text(encoding="utf-8"))["$defs"]["training"]
    assert schema["properties"]["format"]["enum"] == list(NAMES)


# -- what a profile says -----------------------------------------------------------------------------------------------

JSON, PATTERN = FORMATS["json"][0], FORMATS["pattern"][0]


@pytest.mark.parametrize("asked", [one for one, _text in FORMATS.values()])
def test_what_a_profile_may_say(asked: dict[str, Any]) -> None:
    full = {"nodes": 2, "p99_to_median": 1.2, "drift_percent": 0, "skipped": 2, "floors": {"tokens": 1}, "interval": 2}
    for one in (asked, {**asked, **full, "start_mark": "run {run}", "end_mark": "done"}):
        profiles.check(trained.profile(one), made.PROFILE_SCHEMA)
        assert training_of(wanted_of(trained.profile(one))).name == trained.NAME


@pytest.mark.parametrize(
    "asked",
    [
        row(format="other"),
        row(steps=2, warm_up=0),
        row(warm_up=-1),
        row(warm_up=None),
        row(step_ms=0),
        row(p99_to_median=0.9),
        row(drift_percent=-1),
        row(skipped=-1),
        row(floors={"loss": 1}),
        row(floors={"tflops": 0}),
        row(reference=[{"step": 1, "loss": 9.0}]),
        row(tolerance_percent=2),
        row(reference=[{"step": 1, "loss": 0}], tolerance_percent=2),
        row(name="gpt_run"),
        row(pattern="x"),
        row(time_unit="s"),
        {**JSON, "time_unit": "hours"},
        {**JSON, "keys": {"step": "s", "time": "t"}},
        {**JSON, "keys": {**JSON["keys"], "lr": "lr"}},
        {key: value for key, value in JSON.items() if key != "keys"},
        {key: value for key, value in PATTERN.items() if key != "pattern"},
        {key: value for key, value in PATTERN.items() if key != "time_unit"},
        {**PATTERN, "pattern": "(?P<step>x)(?P<time>x)(?P<loss>x)" + "a" * 500},
    ],
)
def test_what_a_profile_may_not_say(asked: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        training_of(wanted_of(trained.profile(asked)))
    with pytest.raises(ConfigError):
        profiles.check(trained.profile(asked), made.PROFILE_SCHEMA)


@pytest.mark.parametrize(
    "asked",
    [
        row(warm_up=STEPS - 2),
        row(step_ms=float("nan")),
        row(reference=[{"step": 13, "loss": 9.0}], tolerance_percent=2),
        {**PATTERN, "pattern": "(?P<step>"},
        {**PATTERN, "pattern": r"(?P<step>\d+) (?P<time>\S+)"},
    ],
)
def test_what_a_schema_cannot_see_is_refused_all_the_same(asked: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="the SKU profile cannot be read"):
        training_of(wanted_of(trained.profile(asked)))


def test_which_training_is_named_where_there_are_several() -> None:
    wanted = wanted_of(trained.profile(row(), row(name="moe")))
    assert training_of(wanted, "moe").name == "moe"
    for name, word in (("", "several trainings"), ("none", "no floor for none")):
        with pytest.raises(ConfigError, match=word):
            training_of(wanted, name)
    with pytest.raises(ConfigError, match="no section training"):
        training_of(wanted_of(made.profile()))
    with pytest.raises(ConfigError):
        training_of(wanted_of(trained.profile(row(), row())))
