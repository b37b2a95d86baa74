# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Power that is switched through the provisioner: the same for every driver that does, and refused by every other one
before anything is asked."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    Changed,
    DeadlineExceeded,
    EvidenceMissing,
    NotOurs,
    Refused,
    Unsupported,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import names, power
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.node import node
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from calls import Killed, Line, Waits, await_all, deployed, lead
from contract.faults import HttpFaults
from suite.skips import not_applicable


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(power, "INTERVAL", 0.05)


def _on(site: Any) -> dict[str, Any]:
    """A deployed node that is on, with nothing going on."""
    if not site.driver.switches:
        not_applicable("its provisioner switches no power")
    options = deployed(site)
    lead(options, "powered_on")
    _rests(site, options)
    assert site.power(options["name"]) == "on"
    return options


def _rests(site: Any, options: dict[str, Any]) -> None:
    """It has booted, as far as its provisioner is told."""
    verdict = await_all(site, "deployed", options)["verdicts"][options["name"]]
    assert verdict["ok"], verdict
    site.faults.forget()


def test_who_switches_no_power_says_so_before_anything_is_asked(site: Any) -> None:
    if site.driver.switches:
        return  # that it does is tested below
    for state in names.POWERS:
        with pytest.raises(Unsupported, match=f"cannot do what is asked for: state {state}"):
            lead(site.new(), state)
    assert site.faults.calls == []


def test_a_node_that_became_somebody_elses_while_leave_was_waited_for_stays_on(site: Any) -> None:
    options = _on(site)
    line = Waits(1, lambda: site.marks[1](options["name"]))
    with pytest.raises(Changed, match="somebody has taken"):
        lead(options, "powered_off", line=line)
    assert site.power(options["name"]) == "on" and site.faults.writes == []


def test_power_goes_off_and_on_and_is_seen_to(site: Any) -> None:
    options = _on(site)
    name, line = options["name"], Line()
    foreseen = lead(options, "powered_off", check=True)
    assert foreseen["changed"] and foreseen["power"] == "off" and site.faults.writes == []
    with pytest.raises(EvidenceMissing):
        lead(options, "powered_off", line=Line(refuse=(name,)))
    assert site.faults.writes == [] and site.power(name) == "on", "without proof that it is drained it runs on"
    done = lead(options, "powered_off", line=line)
    assert done["changed"] and done["power"] == site.power(name) == "off"
    assert (done["before"]["power"], done["after"]["power"]) == ("on", "off")
    assert [hard for _what, hard, _nodes in line.writes] == [True] and line.orders == [] and done["ordered"] == ""
    site.faults.forget()
    assert not lead(options, "powered_off")["changed"] and site.faults.writes == []
    back = lead(options, "powered_on", line=Line(refuse=(name,)))
    assert back["changed"] and back["power"] == site.power(name) == "on", "one that is off does no work"


def test_a_restart_is_off_and_on_and_is_gone_on_with(site: Any) -> None:
    options = _on(site)
    line = Line()
    assert lead(options, "restarted", check=True)["changed"] and site.faults.writes == []
    assert lead(options, "restarted", line=line)["power"] == "on"
    assert [hard for _what, hard, _nodes in line.writes] == [True, False], line.writes
    _rests(site, options)
    with pytest.raises(Killed):
        lead(options, "restarted", line=Line(die_at=1))
    assert site.power(options["name"]) == "off"
    again = Line()
    assert lead(options, "restarted", line=again)["changed"] and site.power(options["name"]) == "on"
    assert [hard for _what, hard, _nodes in again.writes] == [False], "it is off already"
    _rests(site, options)
    ctx = Context(node=options["name"], begun="on")
    assert node({**options, "state": "restarted"}, ctx).data["power"] == "on"
    assert site.faults.writes == [], "an earlier part of this call has switched it on: it is not restarted twice"


def test_what_is_somebody_elses_keeps_its_power(site: Any) -> None:
    options = _on(site)
    site.marks[0](options["name"])
    for state in names.POWERS:
        with pytest.raises(NotOurs):
            lead(options, state)
    assert site.faults.writes == [] and site.power(options["name"]) == "on"


def test_a_request_that_is_taken_and_does_nothing_is_no_success(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    options = _on(site)
    monkeypatch.setattr(power, "TIMEOUT", 0.3)
    if isinstance(site.faults, HttpFaults):
        site.proxy.fault = lambda asked: (202, {}, b"") if asked.is_write else None
    else:
        site.faults.strike_writes("silence", 1)
    with pytest.raises((DeadlineExceeded, Refused)) as told:
        lead(options, "powered_off")
    assert len(site.faults.writes) == 1 and site.power(options["name"]) == "on" and "on" in told.value.seen
