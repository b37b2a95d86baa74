# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The turn of a command on a login host: who waits for it there, and who elsewhere after its answer was lost."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Optional

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _there as there
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Changed, NotOurs, Unreachable
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import turns as rows
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.holder import this_run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.lifeline import LedgerLifeline
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import command as commands
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import login_host
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import turn as turns
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.registry import connected
from ansible_collections.gpufleet.baremetal.plugins.module_utils._together import Peers
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, asked_beside
from ansible_collections.gpufleet.baremetal.plugins.module_utils._wait import wait_until
from bcm_commands.site import BcmSite
from calls import Line, lead, ready
from suite.skips import not_applicable
from test_login_host import over_there, ssh, way, whole, words, xcat  # noqa: F401  # the same host, by the same sshd
from xcat_commands.site import XcatSite

pytestmark = pytest.mark.slow


class TakenBack(Line):
    """From the second time on it is somebody else's."""

    def before_write(self, what: str, *, destructive: bool, nodes: tuple[str, ...] = ()) -> Optional[str]:
        if self.writes:
            raise NotOurs("a tenant has it by now", node=nodes[0])
        return super().before_write(what, destructive=destructive, nodes=nodes)


@contextmanager
def kept_waiting(xcat: Any, driver: Any) -> Iterator[None]:  # noqa: F811
    """In a turn whose next command finds that somebody writes over there, for some seconds."""
    local = {key: value for key, value in xcat.connection().items() if key != login_host.OPTION}
    with connected(local, Context()) as theirs, ExitStack() as at_home, turns.turn(driver, driver.ctx):
        driver.login_host.found(())
        at_home.enter_context(turns.turn(theirs, theirs.ctx))
        threading.Timer(3.0, at_home.close).start()
        yield


@pytest.mark.parametrize("line", [Line(), TakenBack()], ids=["still", "taken back"])
def test_what_was_kept_waiting_over_there_asks_again_before_it_is_sent(
    xcat: Any,  # noqa: F811
    tmp_path: Path,
    line: Line,
) -> None:
    ctx, argv = Context(node="gpu001", lifeline=line), ["touch", str(tmp_path / "sent")]
    with connected(xcat.connection(), ctx) as driver, kept_waiting(xcat, driver):
        assert ctx.may_write("nodeset gpu001 osimage", nodes=("gpu001",))
        if isinstance(line, TakenBack):
            with pytest.raises(NotOurs, match="a tenant has it by now"):
                commands.run(driver, argv)
        else:
            assert commands.run(driver, argv).code == 0 and len(line.writes) > 1
    assert (tmp_path / "sent").exists() != isinstance(line, TakenBack)


class AtWork(Line):
    """Another controller, of another ledger, has a command at work there right after the look that follows upon leave
    for the nth write."""

    def __init__(self, site: Any, over: Any, nth: int, do: Callable[[], None]) -> None:
        super().__init__()
        self._way, self._nth, self._do = over, nth, do
        local = {key: value for key, value in site.connection().items() if key != login_host.OPTION}
        self._theirs = connected(local, Context())
        self._look = "foreach" if site.name == "bcm" else "lsdef"

    def before_write(self, what: str, *, destructive: bool, nodes: tuple[str, ...] = ()) -> Optional[str]:
        told = super().before_write(what, destructive=destructive, nodes=nodes)
        if len(self.writes) == self._nth:
            self._way.then = self._looked
        return told

    def _looked(self, command: str) -> None:
        if self._look not in command:
            return
        self._way.then = lambda command: None
        at_home = ExitStack()
        driver = at_home.enter_context(self._theirs)
        at_home.enter_context(turns.turn(driver, driver.ctx))
        self._do()
        threading.Timer(3.0, at_home.close).start()


def held(site: Any, name: str) -> None:
    """As another run of ours does it."""
    word = "userdefined1" if site.name == "bcm" else "usercomment"
    site.record(name)[word] = f"{site.record(name).get(word, '')} gpufleet-hold=gpufleet:keep:other:Anna".strip()


def other_image(site: Any, name: str) -> None:
    if site.name == "bcm":
        site.record(name).update(softwareimage="gold-2", nextinstallmode="FULL")
    else:
        site.management.run(["nodeset", name, "osimage=gold-2"])


@pytest.fixture(params=[XcatSite, BcmSite], ids=["xcat", "bcm"])
def site(request: Any, started: Any, way: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:  # noqa: F811
    with started(request.param).in_good_health() as chosen:
        over_there(chosen, monkeypatch)
        yield chosen


@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("do", [held, other_image])
def test_what_another_controller_did_after_our_look_stays(
    site: Any,
    way: Any,  # noqa: F811
    do: Callable[[Any, str], None],
    nth: int,
) -> None:
    if site.name == "bcm" and nth > 1:
        not_applicable("one commit is the whole order")
    options = {**ready(site), "image": site.image(), "deploy_id": "d-1"}
    name = options["name"]
    site.faults.forget()
    with pytest.raises(Changed, match="since it was judged"):
        lead(options, "deployed", line=AtWork(site, way, nth, lambda: do(site, name)))
    sent = [call.what.split(" ")[0] for call in site.faults.writes]
    assert sent == ["chdef"] * (nth - 1) and site.deployments() == 0
    record = site.record(name)
    if do is held:
        assert "gpufleet:keep:other:Anna" in str(record)
    else:
        assert record.get("provmethod") == "gold-2" or record.get("softwareimage") == "gold-2", record


def test_who_was_at_work_on_other_nodes_alone_stops_nothing(site: Any, way: Any) -> None:  # noqa: F811
    options = {**ready(site), "image": site.image(), "deploy_id": "d-1"}
    line = AtWork(site, way, 1, lambda: None)
    assert lead(options, "deployed", line=line)["ordered"] == "deployed"
    assert site.is_ordered(options["name"], "gold-1")


def test_what_an_earlier_turn_was_allowed_is_not_asked_for_again(xcat: Any) -> None:  # noqa: F811
    """It was sent. Its proof may have ended since, and would keep from the node what needs none."""
    ctx = Context(node="gpu001", lifeline=(line := Line()))
    with connected(xcat.connection(), ctx) as driver:
        with turns.turn(driver, ctx):
            assert ctx.may_write("rpower gpu001 boot", nodes=("gpu001",), destructive=True)
        with kept_waiting(xcat, driver):
            assert ctx.may_write("chdef gpu001 ip=10.8.0.1", nodes=("gpu001",))
            assert commands.run(driver, ["true"]).code == 0
    asked = [what.split()[0] for what, _hard, _nodes in line.writes]
    assert asked[0] == "rpower" and asked.count("chdef") == len(asked) - 1 > 1, asked


class Away(Line):
    """Whom the run asks whether it may go on is away for a while."""

    away = False

    @asked_beside()
    def beat(self) -> None:
        if self.away:
            raise Unreachable("the ledger is away")


def test_after_a_command_that_was_never_sent_its_turn_goes_on(xcat: Any) -> None:  # noqa: F811
    """Whatever became of the one before it."""
    ctx = Context(node="gpu001", lifeline=(line := Away()))
    with connected(xcat.connection(), ctx) as driver, turns.turn(driver, ctx):
        assert commands.run(driver, ["true"]).code == 0
        line.away = True
        with pytest.raises(Unreachable, match="ledger is away"):
            commands.run(driver, ["true"])
        line.away = False
        assert commands.run(driver, ["true"]).code == 0


def test_a_command_of_a_turn_waits_for_none_that_only_read(xcat: Any, way: Any, tmp_path: Path) -> None:  # noqa: F811
    """As many of them as may go there at once, of BMCs that do not answer."""
    peers, end, codes = Peers(), tmp_path / "end", []
    wait = ["sh", "-c", 'while [ ! -e "$1" ]; do sleep 0.1; done', "sh", str(end)]

    def read(_number: int) -> None:
        with connected(xcat.connection(), Context(peers=peers)) as driver:
            codes.append(commands.run(driver, wait, timeout=20).code)

    readers = [threading.Thread(target=read, args=(number,)) for number in range(login_host._AT_ONCE)]
    for one in readers:
        one.start()
    wait_until(
        lambda: sum(str(end) in whole(reads) for _line, reads in way.asked),
        lambda count: count == len(readers),
        timeout=20,
        interval=0.05,
        wanted="all of them at work",
    )
    ctx = Context(node="gpu001", peers=peers)
    with connected(xcat.connection(), ctx) as driver, turns.turn(driver, ctx):
        assert commands.run(driver, ["touch", str(end)]).code == 0
    for one in readers:
        one.join(30)
    assert codes == [0] * len(readers), codes


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(f"sqlite:///{tmp_path}/ledger.sqlite") as found:
        yield found


def task(ledger: Ledger) -> Context:
    node, run = ledger.identify("gpu001", aliases=[("serial", "S1")]), this_run(os.getpid())
    names: dict[str, Any] = {"verb": "provisioner_node", "intent": {}, "default_node": "gpu001"}
    line = LedgerLifeline(lambda: ledger, run, identify=lambda _name: node, **names)
    return Context(node="gpu001", lifeline=line)


def is_awaited(ledger: Ledger) -> bool:
    """By a controller on another machine."""
    [row] = ledger._rows("SELECT * FROM turns")
    elsewhere = replace(this_run(os.getpid()), host="other#1", run_id="their-run")
    return bool(rows.take(ledger, row["peer"], elsewhere)[1])


def test_after_an_answer_that_nobody_heard_other_controllers_wait(xcat: Any, ledger: Ledger) -> None:  # noqa: F811
    ctx = task(ledger)
    with connected(xcat.connection(), ctx) as driver:
        with turns.turn(driver, ctx, ["gpu001"]), pytest.raises(Unreachable, match="did not end"):
            commands.run(driver, ["sleep", "60"], timeout=1)
        [row] = ledger._rows("SELECT * FROM turns")
        assert row["expires"] - ledger.now() > 240 and is_awaited(ledger)
        with turns.turn(driver, ctx, ["gpu001"]):  # here the lock over there tells
            assert commands.run(driver, ["true"]).code == 0
        assert not is_awaited(ledger)


@pytest.mark.parametrize("how", ["comes late", "cannot be asked first"])
def test_after_what_was_not_sent_nobody_waits(
    xcat: Any,  # noqa: F811
    way: Any,  # noqa: F811
    ledger: Ledger,
    monkeypatch: pytest.MonkeyPatch,
    how: str,
) -> None:
    ctx = task(ledger)
    with connected(xcat.connection(), ctx) as driver:
        if how == "comes late":
            driver.login_host.found(())
            monkeypatch.setattr(there, "WAY_SECONDS", -5.0)
        else:
            way.away = "ssh: connect to host mn1 port 22: No route to host"
        with turns.turn(driver, ctx, ["gpu001"]), pytest.raises(Unreachable, match="too late|cannot be reached"):
            commands.run(driver, ["true"])
    assert not is_awaited(ledger)
