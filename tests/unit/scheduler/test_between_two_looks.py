# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Between two looks a scheduler falls silent, or a node changes: nothing is written by what was seen before."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Union

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import EvidenceMissing, Unreachable
from ansible_collections.gpufleet.baremetal.plugins.module_utils._quarantine import quarantines
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler import node as verb
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.boots import LastLook
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import (
    Hold,
    NodeView,
    Refusal,
    Scheduler,
    Work,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.registry import DRIVERS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.wait import scheduler_wait
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Result

TOKEN = "gpufleet:r1:reimage"
HELD = NodeView("gpu001", state="drained", reason=TOKEN, holds=(Hold(TOKEN),), answers=True)
BUSY = replace(HELD, state="draining", work=(Work("job-1"),))
IDLE = NodeView("gpu001", state="idle", answers=True)


class Evicting(Scheduler):
    """``looks``: what each look shows, the last one from then on; an exception is raised. Says what it was sent."""

    NAME = "evicting"
    EVICTS = True
    looks: ClassVar[list[Any]]
    said: ClassVar[list[str]] = []
    #: What time it is there, how far ahead of here; None where it does not tell.
    ahead: ClassVar[Union[float, None]] = None

    def clock(self) -> str:
        return "" if self.ahead is None else ago(-self.ahead)

    def check(self, name: str) -> None:
        pass

    def states(self, names: Sequence[str]) -> dict[str, NodeView]:
        look = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        self.said.append("silent" if isinstance(look, Exception) else look.version or look.state)
        if isinstance(look, Exception):
            raise look
        return dict.fromkeys(names, look)

    def known(self) -> dict[str, tuple[str, ...]]:
        return {}

    def hold_request(self, view: NodeView, token: str, kind: str) -> str:
        raise AssertionError("nothing is to be held here")

    def hold(self, view: NodeView, token: str, kind: str) -> None:
        raise AssertionError("nothing is to be held here")

    def resume_request(self, view: NodeView) -> str:
        return f"resume {view.version}"

    def resume(self, view: NodeView) -> None:
        self.said.append(f"resumed {view.version}")
        self.looks[:] = [replace(IDLE, version="after", booted=view.booted)]

    def evict_request(self, view: NodeView) -> str:
        return "evict" if view.work else ""

    def evict(self, view: NodeView) -> Sequence[Refusal]:
        self.said.append("evicted")
        return ()


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DRIVERS, Evicting.NAME, Evicting)


def call(do: Any, looks: Sequence[Any], probe: Any = None, **more: Any) -> Result:
    Evicting.looks, Evicting.said = list(looks), []
    params = {"scheduler": "evicting", "known_token": "", "known_runs": ["r1"], "run_id": "r1", "interval": 0.01}
    found: Result = do({**params, "timeout": 20, **more}, Context(node="gpu001", boot_probe=probe))
    return found


def test_t1_nothing_is_evicted_by_what_was_seen_before_the_scheduler_fell_silent() -> None:
    """Meanwhile the node may have become a stranger's, and its work with it."""
    silent = Unreachable("down")
    looks = [BUSY, silent, silent, silent, HELD]
    nodes = [{"host": "gpu001", "known_runs": ["r1"]}]
    found = call(scheduler_wait, looks, until="drained", nodes=nodes, completing_timeout=60)
    assert found.data["verdicts"]["gpu001"]["ok"], found.data
    assert Evicting.said == ["draining", "evicted", "silent", "silent", "silent", "drained"]


def test_t1_a_resume_is_sent_by_the_last_look_at_the_node() -> None:
    """A driver compares the version of what was judged: that of before the wait for the agent is stale."""
    before = replace(HELD, version="v1", answers=False)
    looks = [before, before, replace(before, version="v2", answers=True)]
    result = call(verb.scheduler_node, looks, state="resumed", scheduler_node="gpu001", why="reimage")
    assert result.changed and "resumed v2" in Evicting.said and "resumed v1" not in Evicting.said


@pytest.mark.parametrize("zone", [-7200, 0, 3600])
def test_r5_when_a_node_booted_is_told_by_our_clock_or_not_at_all(monkeypatch: pytest.MonkeyPatch, zone: float) -> None:
    def told(booted: str, called: str = "gpu001") -> float:
        looks = [replace(IDLE, booted=booted)]
        given = {"state": "present", "scheduler_node": "gpu001", "called": called}
        return float(call(verb.scheduler_node, looks, **given).data["booted_at"])

    monkeypatch.setattr(Evicting, "ahead", zone)
    assert abs(told(ago(4000 - zone)) - (time.time() - 4000)) < 30
    assert told("boot-1") == told("") == told(ago(4000), called="") == 0
    monkeypatch.setattr(Evicting, "ahead", None)
    assert told(ago(4000)) == 0


#: A boot as the scheduler tells it, or how many seconds it is ago when the test runs.
Told = Union[int, str]


def rebooting(before: Told, now: Told) -> list[NodeView]:
    """By the scheduler, the node is rebooting at the first look of the resume, and back at the second."""
    silent = replace(HELD, version="v1", answers=False, booted=in_words(before))
    return [silent, silent, replace(HELD, version="v2", booted=in_words(now))]


def in_words(boot: Told) -> str:
    return boot if isinstance(boot, str) else ago(boot)


def ago(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() - seconds))


#: As the scheduler tells the boot at the resume and the one that is there then, with a last look 300 s ago.
OTHER_BOOTS: list[tuple[Told, Told]] = [
    (4000, 20),
    (4000, 270),  # soon after the look
    (20, 20),  # the scheduler has heard of it already
    ("", 20),
    ("", -5),  # the scheduler's clock is a little ahead of ours
    ("boot-1", "boot-2"),
    (-9000, -12000),  # its clock says nothing of our look
]
SAME_BOOT: list[tuple[Told, Told]] = [
    (4000, 4000),
    (4000, 3997),  # reckoned anew from the uptime when the agent was started again
    (90000, 1000),  # the agent had told only of the system before the imaging
    ("", 1000),
    ("", 320),
]
#: Where nothing of that can be held against the time of the look.
NOT_TOLD: list[tuple[Told, Told]] = [
    ("", ""),
    (4000, ""),
    ("boot-1", "boot-1"),
    (-9000, -9002),
]


@pytest.fixture
def one_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seconds count here: none pass while the test runs."""
    at = time.time()
    monkeypatch.setattr(time, "time", lambda: at)


@pytest.mark.usefixtures("one_moment")
@pytest.mark.parametrize("boots", OTHER_BOOTS)
def test_c6_a_node_that_boots_after_the_last_look_stays_held(boots: tuple[Told, Told]) -> None:
    with pytest.raises(EvidenceMissing, match="no gate has seen this boot") as refused:
        call(verb.scheduler_node, rebooting(*boots), state="resumed", scheduler_node="gpu001", looked_ago=300.0)
    assert not any(said.startswith("resumed") for said in Evicting.said)
    assert "revalidate" in refused.value.do and not quarantines(refused.value.as_result())


@pytest.mark.usefixtures("one_moment")
@pytest.mark.parametrize("boots", SAME_BOOT)
def test_c6_an_agent_that_was_away_is_no_other_boot(boots: tuple[Told, Told]) -> None:
    found = call(verb.scheduler_node, rebooting(*boots), state="resumed", scheduler_node="gpu001", looked_ago=300.0)
    assert found.changed and "resumed v2" in Evicting.said


#: West of here, east of here; and one whose clock is slow.
ZONES = [-18000, 18000, -3000]


def there(boot: Told, zone: float) -> Told:
    """The same boot, as a scheduler in that zone tells it."""
    return boot if isinstance(boot, str) else boot - zone


@pytest.mark.usefixtures("one_moment")
@pytest.mark.parametrize("zone", ZONES)
def test_m5_a_boot_is_judged_by_the_schedulers_own_clock(monkeypatch: pytest.MonkeyPatch, zone: float) -> None:
    monkeypatch.setattr(Evicting, "ahead", zone)
    given = {"state": "resumed", "scheduler_node": "gpu001", "looked_ago": 300.0}
    for before, now in OTHER_BOOTS[:4]:
        with pytest.raises(EvidenceMissing, match="no gate has seen this boot"):
            call(verb.scheduler_node, rebooting(there(before, zone), there(now, zone)), **given)
    for before, now in SAME_BOOT[:4]:
        assert call(verb.scheduler_node, rebooting(there(before, zone), there(now, zone)), **given).changed


def asked_node(*answers: str) -> Callable[[], dict[str, str] | None]:
    """The node's own word for its boot, each time that it is asked; it does not answer to an empty one."""
    left = list(answers)

    def probe() -> dict[str, str] | None:
        Evicting.said.append("asked the node")
        boot = left.pop(0)
        return {"boot_id": boot, "cmdline": "", "uptime": "1"} if boot else None

    return probe


NO_TIMES = {"state": "resumed", "scheduler_node": "gpu001", "looked_ago": 300.0, "looked_boot": "b1"}


@pytest.mark.parametrize("boots", NOT_TOLD)
def test_c6_where_no_scheduler_tells_the_boot_the_node_itself_is_asked_right_before_its_resume(
    boots: tuple[Told, Told],
) -> None:
    found = call(verb.scheduler_node, rebooting(*boots), asked_node("b1", "b1"), **NO_TIMES)
    at = Evicting.said.index("resumed v2")
    assert found.changed and [said for said in Evicting.said if said == "asked the node"] == ["asked the node"] * 2
    assert Evicting.said[at - 1] == "asked the node"


@pytest.mark.parametrize("boots", NOT_TOLD)
@pytest.mark.parametrize(
    ("probe", "told", "do"),
    [
        (lambda: asked_node("b2"), "no gate has seen this boot", "revalidate"),
        (lambda: asked_node(""), "nobody tells whether the node was booted", "the way to the node"),
        (lambda: None, "nobody tells whether the node was booted", "without delegate_to"),
    ],
    ids=["another", "silent", "no way"],
)
def test_c6_where_neither_scheduler_nor_node_tells_the_boot_it_stays_held(
    boots: tuple[Told, Told], probe: Any, told: str, do: str
) -> None:
    with pytest.raises(EvidenceMissing, match=told) as refused:
        call(verb.scheduler_node, rebooting(*boots), probe(), **NO_TIMES)
    assert not any(said.startswith("resumed") for said in Evicting.said)
    assert do in refused.value.do and not quarantines(refused.value.as_result())


def test_c6_who_tells_the_time_of_a_boot_is_believed_without_the_node() -> None:
    call(verb.scheduler_node, rebooting(4000, 4000), asked_node(), **NO_TIMES)
    assert "asked the node" not in Evicting.said
    call(verb.scheduler_node, rebooting("", ""), asked_node(), **{**NO_TIMES, "looked_ago": None})
    assert "resumed v2" in Evicting.said and "asked the node" not in Evicting.said, "no look is asked for"


class Rebooting(Evicting):
    """It boots right after its hold was lifted."""

    NAME = "rebooting"
    zone: ClassVar[float] = 0
    boot: ClassVar[str] = "b1"

    def resume(self, view: NodeView) -> None:
        Rebooting.boot = "b2"
        self.looks[:] = [replace(IDLE, answers=False), replace(IDLE, booted=ago(-self.zone))]

    def hold_request(self, view: NodeView, token: str, kind: str) -> str:
        return f"hold {token}"

    def hold(self, view: NodeView, token: str, kind: str) -> None:
        self.said.append(f"held {token} {kind}")
        self.looks[:] = [replace(HELD, holds=(Hold(token),))]


@pytest.mark.parametrize("zone", [0, *ZONES])
def test_c6_a_node_that_boots_right_after_the_resume_is_held_again(
    monkeypatch: pytest.MonkeyPatch, zone: float
) -> None:
    """Whatever the scheduler's clock, of which it tells nothing here: its agent answered on either boot. The node says
    so itself, and where it cannot be asked the scheduler's word is enough."""
    monkeypatch.setitem(DRIVERS, Rebooting.NAME, Rebooting)
    monkeypatch.setattr(Rebooting, "zone", zone)
    given = {
        "state": "resumed",
        "scheduler": "rebooting",
        "scheduler_node": "gpu001",
        "looked_ago": 300.0,
        "looked_boot": "b1",
    }

    def node() -> dict[str, str] | None:
        return {"boot_id": Rebooting.boot, "cmdline": "", "uptime": "1"}

    for probe in (node, None) if zone == 0 else (node,):
        monkeypatch.setattr(Rebooting, "boot", "b1")
        looks = [replace(HELD, booted=ago(4000 - zone))]
        with pytest.raises(EvidenceMissing, match="no gate has seen this boot"):
            call(verb.scheduler_node, looks, probe, **given)
        assert Evicting.said[-2:] == ["held gpufleet:r1:booted since the last look work", "drained"], Evicting.said


@pytest.mark.parametrize("late", [33, -33], ids=["before", "now"])
def test_c6_a_registration_that_lay_before_a_stopped_controller_is_no_other_boot(late: int) -> None:
    """Slurm reckons when a boot began from when the node's word reaches it: a controller that was stopped for half a
    minute tells it half a minute too late, at the next registration no more. The node says that it is the same boot."""
    views = replace(HELD, booted=ago(400)), replace(IDLE, booted=ago(400 - late))

    def node(boot: str, uptime: str) -> Callable[[], dict[str, str]]:
        return lambda: {"boot_id": boot, "cmdline": "", "uptime": uptime}

    LastLook(300.0, boot_id="b1", probe=node("b1", "400")).check(*views)
    # Another boot, no answer, no uptime; and one that runs for a day, which is two machines under one name.
    for probe in (node("b2", "400"), asked_node(""), node("b1", ""), node("b1", "86400"), None):
        with pytest.raises(EvidenceMissing, match="no gate has seen this boot"):
            LastLook(300.0, boot_id="b1", probe=probe).check(*views)
    # Nor the other way round, one that the scheduler saw boot a day before the one that answers.
    with pytest.raises(EvidenceMissing, match="no gate has seen this boot"):
        LastLook(300.0, boot_id="b1", probe=node("b1", "400")).check(views[0], replace(IDLE, booted=ago(90000)))
