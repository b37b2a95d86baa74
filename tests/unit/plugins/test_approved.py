# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether this run has verified the image that it is about to deploy, where others verify images beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._image import declaration
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._approved import approved

GOLD = {"name": "gold", "version": "1", "url": "http://127.0.0.1:9/gold"}
SILVER = {**GOLD, "name": "silver"}


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(f"sqlite:///{tmp_path}/ledger.sqlite") as opened:
        yield opened


def looked(ledger: Ledger, run: str, verdict: str, image: dict[str, str]) -> bool:
    """The run's look; returns whether run ours may deploy the golden image now."""
    node = ledger.identify("n1", aliases=[("serial", "S1")])
    data = {"verdict": verdict, "image": {"declared": declaration(image)}}
    ledger.append(run, [(node, Event("verdict", "image_artifact", data))])
    return approved(ledger, "ours", {"n1": node}, {"n1": GOLD})["n1"]


def test_v9_another_runs_pass_takes_no_approval_away_and_gives_none(ledger: Ledger) -> None:
    assert not looked(ledger, "other", "pass", GOLD)
    assert looked(ledger, "ours", "pass", GOLD)
    assert looked(ledger, "other", "pass", SILVER) and looked(ledger, "other", "pass", GOLD)


@pytest.mark.parametrize("verdict", ["fail", "inconclusive"])
@pytest.mark.parametrize("run", ["ours", "other"])
def test_v9_what_was_found_wrong_since_refuses_whoever_found_it(ledger: Ledger, run: str, verdict: str) -> None:
    assert looked(ledger, "ours", "pass", GOLD)
    assert not looked(ledger, run, verdict, GOLD)
    assert not looked(ledger, "other", "pass", GOLD), "another run's pass is not ours"
    assert looked(ledger, "ours", "pass", GOLD)
    assert not looked(ledger, "ours", "pass", SILVER)


def test_x7_of_the_verdicts_of_a_node_only_those_on_its_image_are_read(
    ledger: Ledger, texts_read: Callable[[Ledger, Callable[[], object]], int]
) -> None:
    assert looked(ledger, "ours", "pass", GOLD) and looked(ledger, "other", "pass", GOLD)
    node = ledger.identify("n1", aliases=[("serial", "S1")])

    def asked() -> bool:
        return approved(ledger, "ours", {"n1": node}, {"n1": GOLD})["n1"]

    before = texts_read(ledger, asked)
    ledger.append("other", [(node, Event("verdict", "dcgm_gate", {"verdict": "fail"}))] * 9)
    assert texts_read(ledger, asked) == before and asked()
