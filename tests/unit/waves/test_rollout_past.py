# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the events of a node show of an image: only what was admitted on it has come through."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.plugins.module_utils._waves.begun import mended, recent, stand, took
from ansible_collections.gpufleet.baremetal.plugins.module_utils._waves.ended import (
    FAILED,
    THROUGH,
    UNTOUCHED,
    Ended,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._waves.rollout import (
    UNFINISHED,
    Past,
    demand,
    gone,
    image_of,
    of_late,
    remembered,
    with_earlier,
)

NEW = {"name": "gpu-golden", "version": "2"}
IMAGE = image_of(NEW)
WAVE = ("wave", "begun", {"image": IMAGE, "canary": True, "size": 1})
BACK = ("wave", "withdrawn", {"reason": "another run took their room"})
RESET = ("wave", "reset", {"images": [IMAGE]})
OTHER = ("wave", "reset", {"images": ["another 1"]})
STOPPED = ("note", "stopped", {"reason": "it does not answer"})
HELD = ("note", "stopped", {"reason": "held by bob", "kind": "not_ours"})
DRAINING, DRAINED, WIPING, VALIDATING, ADMITTED, QUARANTINED, RETIRED = (
    ("state", name, {})
    for name in ("draining", "drained", "wiping", "validating", "admitted", "quarantined", "retired")
)
ADOPTED = ("state", "admitted", {"adopted": True})
FORCED = ("state", "admitted", {"forced": "the spare part comes on Monday"})


def imaging(version: str) -> tuple[str, str, dict[str, Any]]:
    return "state", "imaging", {"image": "gpu-golden", "version": version}


#: Of each, the runs and what they wrote, the state that the ledger has in the end, and how it came out.
PASTS = {
    "admitted on it": ([("a", [WAVE, DRAINING, imaging("2"), ADMITTED])], "admitted", THROUGH),
    "whatever follows": (
        [("a", [WAVE, imaging("2"), ADMITTED]), ("b", [DRAINING, QUARANTINED])],
        "quarantined",
        THROUGH,
    ),
    "whatever its own run, or a later wave, meets": (
        [("a", [WAVE, imaging("2"), ADMITTED, QUARANTINED]), ("b", [WAVE, imaging("2"), QUARANTINED])],
        "quarantined",
        THROUGH,
    ),
    "its deployment was resumed": ([("a", [imaging("2")]), ("b", [WAVE, ADMITTED])], "admitted", THROUGH),
    "drained too slowly, and readmitted": ([("a", [WAVE, DRAINING, STOPPED]), ("p", [ADMITTED])], "admitted", FAILED),
    "brought back on the image of before": (
        [("a", [WAVE, imaging("2"), QUARANTINED]), ("p", [imaging("1"), ADMITTED])],
        "admitted",
        FAILED,
    ),
    "brought back on it": (
        [("a", [WAVE, imaging("2"), QUARANTINED]), ("p", [imaging("2"), ADMITTED])],
        "admitted",
        THROUGH,
    ),
    "failed, given away, and back in service": (
        [("a", [WAVE, imaging("2"), QUARANTINED, RETIRED]), ("p", [ADMITTED])],
        "admitted",
        FAILED,
    ),
    "failed, wiped, and back in service": (
        [("a", [WAVE, imaging("2"), QUARANTINED]), ("p", [WIPING, ADMITTED])],
        "admitted",
        FAILED,
    ),
    "failed, and adopted": (
        [("a", [WAVE, imaging("2"), QUARANTINED]), ("p", [ADOPTED])],
        "admitted",
        FAILED,
    ),
    "failed, and let in by force": ([("a", [WAVE, imaging("2"), QUARANTINED]), ("p", [FORCED])], "admitted", FAILED),
    "let in by force at once": ([("a", [WAVE, imaging("2"), FORCED])], "admitted", UNTOUCHED),
    "failed, let in by force, and readmitted by its gates": (
        [("a", [WAVE, imaging("2"), QUARANTINED]), ("p", [FORCED, DRAINING, DRAINED, VALIDATING, ADMITTED])],
        "admitted",
        THROUGH,
    ),
    "failed, adopted, and readmitted": (
        [("a", [WAVE, imaging("2"), QUARANTINED]), ("p", [ADOPTED, DRAINING, DRAINED, ADMITTED])],
        "admitted",
        FAILED,
    ),
    "nobody knows what it runs": ([("a", [WAVE, DRAINING, RETIRED]), ("p", [ADMITTED])], "admitted", UNTOUCHED),
    "failed, and a later wave was killed": (
        [("a", [WAVE, imaging("2"), QUARANTINED]), ("k", [WAVE, DRAINING])],
        "draining",
        FAILED,
    ),
    "failed, and a later wave was given back": (
        [("a", [WAVE, imaging("2"), QUARANTINED]), ("k", [WAVE, BACK])],
        "quarantined",
        FAILED,
    ),
    "failed, and a person said that it was mended": (
        [("a", [WAVE, imaging("2"), QUARANTINED]), ("p", [RESET])],
        "quarantined",
        None,
    ),
    "failed, and a person spoke of another image": (
        [("a", [WAVE, imaging("2"), QUARANTINED]), ("p", [OTHER])],
        "quarantined",
        FAILED,
    ),
    "of two runs one gave it back": (
        [("a", [WAVE]), ("b", [WAVE]), ("a", [BACK]), ("b", [DRAINING, QUARANTINED])],
        "quarantined",
        FAILED,
    ),
    "its own run could not drain it": ([("a", [WAVE, DRAINING, QUARANTINED])], "quarantined", FAILED),
    "killed while it was imaged, and others went on": (
        [("a", [WAVE, imaging("2")]), ("p", [QUARANTINED])],
        "quarantined",
        FAILED,
    ),
    "killed while it was imaged, and others came to its gates": (
        [("a", [WAVE, imaging("2")]), ("p", [VALIDATING, QUARANTINED])],
        "quarantined",
        FAILED,
    ),
    "killed while it was imaged, and others took it out": (
        [("a", [WAVE, imaging("2")]), ("p", [DRAINING, QUARANTINED])],
        "quarantined",
        UNFINISHED,
    ),
    "killed before it was drained, and it failed later": (
        [("a", [WAVE]), ("p", [QUARANTINED])],
        "quarantined",
        UNFINISHED,
    ),
    "killed before it was drained, and it failed with the image of before": (
        [("a", [WAVE]), ("p", [DRAINING, imaging("1"), VALIDATING, QUARANTINED])],
        "quarantined",
        UNFINISHED,
    ),
    "killed half-way": ([("a", [WAVE, DRAINING])], "draining", UNFINISHED),
    "killed half-way, and others stopped": ([("a", [WAVE, DRAINING]), ("b", [STOPPED])], "draining", UNFINISHED),
    "stopped before it was drained": ([("a", [WAVE, STOPPED])], "admitted", FAILED),
    "stopped by others before it was drained": ([("a", [WAVE]), ("b", [STOPPED])], "admitted", UNTOUCHED),
    "left to whoever holds it": ([("a", [WAVE, HELD])], "admitted", UNTOUCHED),
    "stopped before it was drained, and brought back on it": (
        [("a", [WAVE, STOPPED]), ("b", [imaging("2"), ADMITTED])],
        "admitted",
        THROUGH,
    ),
    "given back": ([("a", [WAVE, BACK])], "admitted", None),
    "a person said that it was mended while it was on its way": (
        [("a", [WAVE, DRAINING]), ("p", [RESET]), ("a", [imaging("2"), QUARANTINED])],
        "quarantined",
        FAILED,
    ),
    "a person said so before it was drained": (
        [("a", [WAVE]), ("p", [RESET]), ("a", [DRAINING, imaging("2"), QUARANTINED])],
        "quarantined",
        FAILED,
    ),
    "a person said so twice, the second time while it was on its way": (
        [
            ("a", [WAVE, imaging("2"), QUARANTINED]),
            ("p", [RESET]),
            ("b", [WAVE, DRAINING]),
            ("p", [RESET]),
            ("b", [imaging("2"), QUARANTINED]),
        ],
        "quarantined",
        FAILED,
    ),
    "a person said so when it was tried anew already": (
        [
            ("a", [WAVE, imaging("2"), QUARANTINED]),
            ("b", [WAVE, DRAINING]),
            ("p", [RESET]),
            ("b", [imaging("2"), ADMITTED]),
        ],
        "admitted",
        THROUGH,
    ),
    "and it came through": (
        [("a", [WAVE, DRAINING]), ("p", [RESET]), ("a", [imaging("2"), ADMITTED])],
        "admitted",
        THROUGH,
    ),
    "a person said that it was mended after it had come through": (
        [("a", [WAVE, imaging("2"), ADMITTED]), ("p", [RESET])],
        "admitted",
        None,
    ),
    "renewed meanwhile": ([("a", [WAVE]), ("p", [DRAINING, DRAINED, ADMITTED])], "admitted", UNTOUCHED),
    "of another image": ([("a", [("wave", "begun", {"image": "another 1"}), QUARANTINED])], "quarantined", None),
}


#: The same of waves for whatever image, as they are judged without a roll-out.
OTHERS = ("wave", "begun", {"image": "another 1"})
PLAIN = {
    "back": ([("a", [WAVE, DRAINING, imaging("1"), ADMITTED])], THROUGH),
    "failed, whatever it was for": ([("a", [OTHERS, DRAINING, QUARANTINED])], FAILED),
    "failed, and brought back": ([("a", [WAVE, QUARANTINED]), ("p", [imaging("1"), ADMITTED])], THROUGH),
    "came through once, and failed in the next wave": (
        [("a", [WAVE, ADMITTED]), ("b", [OTHERS, DRAINING, QUARANTINED])],
        FAILED,
    ),
    "came through once, and was stopped in the next wave": (
        [("a", [WAVE, ADMITTED]), ("b", [OTHERS, STOPPED])],
        FAILED,
    ),
    "came through, and failed later": ([("a", [WAVE, ADMITTED]), ("b", [DRAINING, QUARANTINED])], THROUGH),
    "given back": ([("a", [WAVE, BACK])], None),
    "mended": ([("a", [OTHERS, QUARANTINED]), ("p", [RESET])], None),
    "mended, of no image": ([("a", [OTHERS, QUARANTINED]), ("p", [("wave", "reset", {"images": []})])], None),
}


def past(folder: Path, runs: Iterable[tuple[str, list[tuple[str, str, dict[str, Any]]]]]) -> Any:
    with Ledger(f"sqlite:///{folder}/ledger.sqlite") as ledger:
        node = ledger.identify("gpu001", aliases=[("serial", "SN0001")])
        ledger.append(
            "before", [(node, Event("state", "imaging", imaging("1")[2])), (node, Event("state", "admitted"))]
        )
        for run, events in runs:
            ledger.append(run, [(node, Event(*event)) for event in events])
        return remembered(ledger, [node], IMAGE, mended(ledger, [node])).get(node)


@pytest.mark.parametrize("name", PASTS)
def test_what_an_image_has_shown_on_a_node(tmp_path: Path, name: str) -> None:
    runs, state, wanted = PASTS[name]
    found = past(tmp_path, runs)
    assert (found.came_out(state) if found else None) == wanted


@pytest.mark.parametrize("name", PLAIN)
def test_what_waves_without_a_roll_out_have_shown_on_a_node(tmp_path: Path, name: str) -> None:
    runs, wanted = PLAIN[name]
    with Ledger(f"sqlite:///{tmp_path}/ledger.sqlite") as ledger:
        node = ledger.identify("gpu001", aliases=[("serial", "SN0001")])
        ledger.append("before", [(node, Event("state", "admitted"))])
        for run, events in runs:
            ledger.append(run, [(node, Event(*event)) for event in events])

        def told(since: float, run: str = "me") -> str | None:
            found = of_late(ledger, [node], mended(ledger, [node]), run=run, since=since).get(node)
            return found.came_out() if found else None

        assert told(0.0) == wanted and told(ledger.now() + 9) is None
        assert told(ledger.now() + 9, run=runs[-1][0]) in (wanted, None), "what a run has begun itself is never too old"


def test_what_a_node_failed_by_is_of_the_last_time(tmp_path: Path) -> None:
    def failed(*ids: str) -> tuple[str, str, dict[str, Any]]:
        return "state", "quarantined", {"findings": list(ids)}

    runs = [("a", [WAVE, imaging("2"), failed("dcgm:80")]), ("b", [WAVE, imaging("2"), failed("xid:79", "link")])]
    assert past(tmp_path, runs).findings == ("xid:79", "link")


def test_a_roll_out_goes_on_at_the_size_of_the_newest_wave_that_came_through() -> None:
    waves = [{"id": number, "data": {"size": size}} for number, size in ((1, 1), (2, 4))]
    pasts = {"gpu001": Past(waves=waves, through=True), "gpu002": Past(waves=waves[:1], through=True)}
    assert with_earlier(Ended(), pasts, dict.fromkeys(pasts, {"state": "admitted"}), {}).size == 4


def lost(ledger: Ledger, *known: str) -> Any:
    return gone(ledger, known, IMAGE, mended(ledger, known))


def test_a_canary_that_failed_and_left_the_inventory_has_failed(tmp_path: Path) -> None:
    """Its row was taken out, and with it whoever could be asked: what a person says of the image counts for it too."""
    with Ledger(f"sqlite:///{tmp_path}/ledger.sqlite") as ledger:
        here, away, other = (
            ledger.identify(name, aliases=[("serial", name)]) for name in ("gpu001", "gpu002", "gpu003")
        )
        for event in (WAVE, imaging("2"), QUARANTINED):
            ledger.append("a", [(away, Event(*event))])
        ledger.append("a", [(other, Event("wave", "begun", {"image": "another 1"})), (other, Event(*QUARANTINED))])
        ((name, _past),) = lost(ledger, here).values()
        assert name == "gpu002 (not in the inventory)"
        own = Ended(through=("gpu001",))
        told = with_earlier(own, {}, {}, lost(ledger, here))
        assert (told.failed, told.canaries, told.through) == ((name,), (name,), ("gpu001",))
        assert lost(ledger, here, away) == {}, "it is asked as one of the inventory's then"
        ledger.append("p", [(here, Event(*OTHER))])
        assert lost(ledger, here)
        ledger.append("p", [(here, Event(*RESET))])
        assert lost(ledger, here) == {}
        for event in (WAVE, imaging("2"), ADMITTED):
            ledger.append("b", [(away, Event(*event))])
        assert with_earlier(own, {}, {}, lost(ledger, here)).through == ("gpu001", name)
        for event in (WAVE, DRAINING):
            ledger.append("c", [(other, Event(*event))])
        told = with_earlier(Ended(), {}, {}, lost(ledger, here, away))
        assert told == Ended(canaries=("gpu003 (not in the inventory)",)), "nobody goes on with it"


def test_a_wave_stands_until_its_own_run_gives_it_back(tmp_path: Path) -> None:
    """Two runs may have begun one with the same node."""
    with Ledger(f"sqlite:///{tmp_path}/ledger.sqlite") as ledger:
        node = ledger.identify("gpu001", aliases=[("serial", "SN0001")])

        def wave(run: str, name: str, **data: str) -> int:
            return ledger.append(run, [(node, Event("wave", name, data))])[0]

        def standing(run: str = "me", since: float = 0.0, before: int | None = None) -> list[str]:
            return [one["run_id"] for one in stand(recent(ledger, [node], run=run, since=since), before=before)]

        wave("theirs", "begun", image=IMAGE)
        mine = wave("me", "begun", image="another 1")
        assert standing() == ["theirs", "me"] and standing(before=mine) == ["theirs"]
        wave("me", "withdrawn")
        assert standing() == ["theirs"], "what I gave back hides nobody else's"
        ledger.append("p", [(node, Event(*DRAINING))])
        assert standing(since=ledger.now() + 9) == [] and standing("theirs", ledger.now() + 9) == ["theirs"]
        assert [one["run_id"] for one in took(ledger, [node], IMAGE)] == ["theirs"]


def test_the_border_between_name_and_version_is_none_of_their_blanks() -> None:
    assert image_of({"name": "gpu golden", "version": "1"}) != image_of({"name": "gpu", "version": "golden 1"})
    assert image_of({"name": "gpu-golden", "version": "2026.11.2"}).startswith("gpu-golden 2026.11.2 ")
    assert image_of({"name": "gpu-golden"}) == image_of("gpu-golden") == ""


def test_what_came_through_is_told_by_what_was_deployed_and_not_by_its_name() -> None:
    past = Past()
    for number, (kind, name, data) in enumerate((WAVE, DRAINING, imaging("2"), ADMITTED), 1):
        more = {"rollout_digest": "f" * 64} if name == "imaging" else {}
        past.see({"id": number, "run_id": "a", "kind": kind, "name": name, "data": {**data, **more}}, IMAGE)
    assert past.came_out() != THROUGH, "another kernel was tried, under this name and version"


def test_what_was_built_anew_under_the_same_version_is_another_image() -> None:
    first, second = (image_of({**NEW, "sha256": digit * 64}) for digit in "ab")
    assert len({first, second, IMAGE}) == 3


def test_a_roll_out_over_two_images_is_refused_and_names_the_hosts_of_each() -> None:
    demand({"gpu001": IMAGE, "gpu002": IMAGE})
    with pytest.raises(ConfigError) as refused:
        demand({"gpu001": IMAGE, "gpu002": IMAGE, "b200-1": "b200 1"})
    assert refused.value.seen == f"b200 1 (b200-1); {IMAGE} (gpu[001-002])"
