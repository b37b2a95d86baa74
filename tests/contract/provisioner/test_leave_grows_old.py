# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Leave to write is fresh when the write is sent, however long the look takes that comes between the two."""

from __future__ import annotations

import time
from typing import Any, Optional

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _verb as verb
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import NotOurs
from calls import Line, await_all, lead, ready

OLD, LOOK = 0.5, 2.0


@pytest.fixture(autouse=True)
def grows_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verb, "OLD_SECONDS", OLD)


class Aging(Line):
    """How old the newest leave is at each write. The first look that comes after leave for one takes long.

    :param taken: by then, which host is somebody else's.
    """

    def __init__(self, taken: str = "") -> None:
        super().__init__()
        self.ages: list[float] = []
        self._given, self._due, self._known, self._taken, self._looked = 0.0, False, set(), taken, False

    def before_write(self, what: str, *, destructive: bool, nodes: tuple[str, ...] = ()) -> Optional[str]:
        if self._looked and self._taken in nodes:
            raise NotOurs("a tenant has it by now", node=self._taken)
        told = super().before_write(what, destructive=destructive, nodes=nodes)
        self._given, self._due = time.monotonic(), what not in self._known
        self._known.add(what)
        return told

    def called(self, is_write: bool) -> None:
        if is_write:
            self.ages.append(time.monotonic() - self._given)
        elif self._due:
            self._due, self._looked = False, True
            time.sleep(LOOK)


def slowed(site: Any, monkeypatch: pytest.MonkeyPatch, line: Aging) -> None:
    if site.name == "warewulf":
        site.proxy.fault = lambda asked: line.called(asked.is_write)
        return
    there = site.head if site.name == "bcm" else site.management
    real = there.run

    def run(argv: Any, stdin: str = "") -> Any:
        line.called(site.faults.is_write(list(argv)))
        return real(argv, stdin)

    monkeypatch.setattr(there, "run", run, raising=False)


@pytest.mark.parametrize("name", ["xcat", "bcm", "warewulf"])
def test_no_leave_grows_old_behind_the_look_that_follows_it(
    name: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = request.getfixturevalue(f"{name}_site")
    options = {**ready(site), "image": site.image(), "deploy_id": "d-1"}
    line = Aging()
    slowed(site, monkeypatch, line)
    lead(options, "maintenance", line=line)
    lead(options, "serviceable", line=line)
    lead(options, "deployed", line=line)
    if site.driver.switches:
        lead(options, "powered_on", line=line)
    assert len(line.ages) > 2 and max(line.ages) < LOOK - OLD, line.ages


@pytest.mark.parametrize("name", ["xcat", "bcm"])
def test_whoever_is_taken_during_that_look_is_out_of_the_write_alone(
    name: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = request.getfixturevalue(f"{name}_site")
    batch = [{**ready(site), "image": site.image()} for _number in range(3)]
    taken = batch[1]["name"]
    line = Aging(taken)
    slowed(site, monkeypatch, line)
    verdicts = await_all(site, "deployed", *batch, line=line)["verdicts"]
    assert [verdicts[one["name"]]["ok"] for one in batch] == [True, False, True], verdicts
    assert "a tenant has it by now" in verdicts[taken]["reason"] and site.deployments() == 2
