# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a provisioner does with a machine besides deploying it: inspection, tests, cleaning, servicing, rescue. The same
for every driver that can, and refused by every other one before anything is asked."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    BadAnswer,
    EvidenceMissing,
    NotOurs,
    Unreachable,
    Unsupported,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import names
from calls import Line, await_all, declined, deployed, lead, ready

pytestmark = pytest.mark.many_runs


#: In this order one node has all of them in its life; deployed before the first of the second half.
_BEFORE, _AFTER = ("inspected", "tested", "cleaned"), ("serviced", "rescued", "unrescued")


def _settled(site: Any, options: dict[str, Any], **more: Any) -> dict[str, Any]:
    verdict: dict[str, Any] = await_all(site, "settled", options, **more)["verdicts"][options["name"]]
    return verdict


def _led(site: Any, options: dict[str, Any], state: str) -> None:
    """The way that it would have gone without the work."""
    lead(options, state)
    verdict = await_all(site, state, options)["verdicts"][options["name"]]
    assert verdict["ok"], verdict


def _done(site: Any, options: dict[str, Any], work: str) -> None:
    words, more = site.work[work]
    site.faults.forget()
    predicted = lead(options, work, check=True, **more)
    assert predicted["changed"] and predicted["pending"] and site.faults.writes == []
    with pytest.raises(EvidenceMissing):
        lead(options, work, line=Line(refuse=(options["name"],)), **more)
    assert site.faults.writes == [], "nor what goes before it"
    line = Line()
    begun = lead(options, work, line=line, **more)
    assert begun["changed"] and begun["step"] == predicted["step"] and begun["ordered"] == "" and line.orders == []
    assert any(words in what for what, _hard, _nodes in line.writes), line.writes
    assert all(hard for _what, hard, _nodes in line.writes), line.writes
    verdict = _settled(site, options)
    assert verdict["ok"], verdict
    lasts = work in ("rescued", "unrescued")
    assert lead(options, work, check=True, **more)["changed"] != lasts, "asked for once more, it is done once more"
    assert "R3scue" not in json.dumps([begun, line.writes, verdict], default=str)


def test_work_is_begun_each_time_that_it_is_asked_for_and_the_node_goes_on(site: Any) -> None:
    works = site.driver.works
    assert set(site.work) == set(works) <= {*_BEFORE, *_AFTER, "aborted"}, "each has its scenario"
    for work in sorted(set(names.WORKS) - set(works)):
        with pytest.raises(Unsupported, match=f"cannot do what is asked for: state {work}"):
            lead(site.new(), work)
        assert site.faults.calls == []
    if not works:
        return
    options = {**ready(site), "image": site.image()}
    for work in [one for one in _BEFORE if one in works]:
        _done(site, options, work)
        _led(site, options, "ready")
    _led(site, options, "deployed")
    for work in [one for one in _AFTER if one in works]:
        _done(site, options, work)
        if work == "rescued":
            with pytest.raises(NotOurs, match="needs a person"):
                lead(options, "released")
    assert not lead(options, "deployed")["changed"], "none of it is a deployment"


def test_work_on_what_is_somebody_elses_is_refused(site: Any) -> None:
    if not site.driver.works:
        return  # refused above
    options = ready(site)
    site.marks[1](options["name"])
    for work in site.driver.works:
        with pytest.raises(NotOurs):
            lead(options, work, **site.work[work][1])
    assert site.faults.writes == []


def test_work_whose_answer_is_lost_is_found_under_way_or_done_anew(site: Any) -> None:
    works = [one for one in ("cleaned", "tested") if one in site.driver.works]
    options = ready(site) if works else {}
    for work in works:
        site.faults.lose_answer()
        with pytest.raises((Unreachable, BadAnswer)):
            lead(options, work, **site.work[work][1])
        lead(options, work, **site.work[work][1])
        assert _settled(site, options)["ok"], work


def test_to_wait_for_the_end_of_work_takes_a_driver_that_does_some(site: Any) -> None:
    if site.driver.works:
        failed, goal, words = site.stumbles()
        assert not await_all(site, goal, failed)["verdicts"][failed["name"]]["ok"]
        site.faults.forget()
        verdict = _settled(site, failed)
        assert site.faults.writes == [] and verdict["ok"] == (verdict["state"] != "failed"), (verdict, words)
        return
    with pytest.raises(Unsupported, match="until settled"):
        await_all(site, "settled", site.new())
    assert site.faults.calls == []


def test_marks_are_written_wherever_the_node_stands(site: Any) -> None:
    """Where it cannot be now, that is told, and nothing is sent."""
    for options in (ready(site), deployed(site)):
        site.faults.forget()
        if declined(site, "annotates", lambda options=options: lead(options, "annotated", annotations={"rack": "r1"})):
            return
        assert lead(options, "annotated", annotations={"rack": "r1"}, check=True)["step"] == ""
        assert site.faults.writes == []
        told = lead(options, "annotated", annotations={"rack": "r1"})
        assert told["changed"] != bool(told["deferred"])
        assert bool(site.faults.writes) == told["changed"]
        assert not lead(options, "annotated", annotations={"rack": "r1"})["changed"]
        site.marks[1](options["name"])
        with pytest.raises(NotOurs):
            lead(options, "annotated", annotations={"rack": "r2"})
