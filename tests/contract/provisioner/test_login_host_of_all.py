# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A batch over a login host: what is asked of all nodes goes there in one command, and not in one of each node."""

from __future__ import annotations

from typing import Any, Callable

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    BadAnswer,
    ConfigError,
    Fenced,
    Unreachable,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.registry import connected
from ansible_collections.gpufleet.baremetal.plugins.module_utils._together import Peers
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.plugins.module_utils._wait import wait_until
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._crew import Crew
from bcm_commands.site import BcmSite
from calls import Line, await_all, of_all
from test_login_host import (  # noqa: F401  # the same host, by the same sshd
    Way,
    over_there,
    site,
    ssh,
    way,
    whole,
    words,
    xcat,
)
from xcat_commands.site import XcatSite

pytestmark = pytest.mark.slow
MANY = 8


def asked(way: Way, word: str = "") -> int:  # noqa: F811
    """How many commands went there since the last time, or how many with this word."""
    found = [one for line, reads in way.asked if word in (one := line + (whole(reads) if reads else ""))]
    way.asked.clear()
    return len(found)


LOOK = "date +%s; u="


def test_what_all_nodes_are_asked_for_goes_there_as_often_as_for_one(site: Any, way: Way) -> None:  # noqa: F811
    """In check mode, where nobody waits for a turn: of nodes that it does not know, and of those that it does."""
    alone, *batch = (site.new() for _number in range(1 + MANY))
    for begin in (lambda: None, lambda: of_all([alone, *batch], "ready")):
        begin()
        asked(way)
        [one] = of_all([alone], "enrolled", check=True).values()
        for_one = asked(way)
        told = of_all(batch, "enrolled", check=True)
        assert asked(way) == for_one, (site.name, way.asked)
        assert all(told[host]["changed"] == one["changed"] for host in told), told
        assert {told[one["name"]]["provisioner_id"] for one in batch} <= {"", *told}


def test_where_the_commands_are_is_looked_for_once_and_each_node_is_written_to_in_a_turn_of_its_own(
    site: Any,  # noqa: F811
    way: Way,  # noqa: F811
) -> None:
    alone, *batch = ({**site.new(), "image": site.image()} for _number in range(1 + MANY))
    for state in ("ready", "deployed"):
        site.faults.forget()
        asked(way)
        of_all([alone], state)
        writes, looks = len(site.faults.writes), asked(way, LOOK)
        told = of_all(batch, state)
        assert not [one for one in told.values() if isinstance(one, Exception)], told
        assert asked(way, LOOK) == looks and len(site.faults.writes) == (1 + MANY) * writes
        await_all(site, state, alone, *batch)


def test_a_host_that_is_away_is_told_to_each_in_its_own_name(site: Any, way: Way) -> None:  # noqa: F811
    way.away = "ssh: connect to host mn1 port 22: No route to host"
    told = of_all([site.new() for _number in range(3)], "enrolled", check=True)
    assert all(isinstance(one, Unreachable) and one.node == host for host, one in told.items()), told


def of_its_record(site: Any, spoilt: str, other: str) -> None:  # noqa: F811
    """A line of another, where that is read of both; as an API may set it."""
    if site.name == "xcat":
        site.record(spoilt)["usercomment"] = f"my own\n{spoilt}: provmethod=gold-2"
    else:
        site.record(spoilt)["userdefined1"] += f"\n{other}\nFULL\n{spoilt}"


def of_its_group(site: Any, spoilt: str, _other: str) -> None:  # noqa: F811
    site.record(spoilt)["groups"] = "all,rack13"
    site.management.groups["rack13"] = {"netboot": "xnba\nor not"}


SPOILT = {"xcat record": (XcatSite, of_its_record), "xcat group": (XcatSite, of_its_group)}
SPOILT["bcm record"] = (BcmSite, of_its_record)


@pytest.mark.parametrize(("kind", "spoil"), SPOILT.values(), ids=SPOILT)
def test_what_cannot_be_read_of_one_node_is_its_own_trouble(
    started: Any,
    way: Way,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    kind: Any,
    spoil: Callable[[Any, str, str], None],
) -> None:
    with started(kind).in_good_health() as site:  # noqa: F811
        over_there(site, monkeypatch)
        batch = [{**site.new(), "image": site.image()} for _number in range(4)]
        of_all(batch, "ready")
        spoilt, *others = (one["name"] for one in batch)
        before = dict(site.record(spoilt))
        spoil(site, spoilt, others[0])
        told = of_all(batch, "deployed", check=True)
        site.record(spoilt).clear()
        site.record(spoilt).update(before)
        if kind is XcatSite:
            site.management.groups.clear()
    assert isinstance(told[spoilt], (BadAnswer, ConfigError)) and told[spoilt].node == spoilt, told[spoilt]
    assert not [told[other] for other in others if isinstance(told[other], Exception)], told


class Lost(Line):
    def beat(self) -> None:
        raise Fenced("another run works on it", node="gpu001")


@pytest.mark.parametrize("of_one", [True, False], ids=["of each", "of all"])
def test_a_lease_that_was_lost_is_the_end_of_its_own_host(xcat: Any, way: Way, of_one: bool) -> None:  # noqa: F811
    """It came first, and its driver is the one that would ask for all."""
    names, peers, told = xcat.many(5), Peers(), {}
    loses = names[0]

    def serve(host: str) -> None:
        if host != loses:
            wait_until(lambda: peers.rounds._waiting, bool, timeout=20, interval=0.01, wanted="it has asked")
        ctx = Context(node=host, lifeline=Lost() if host == loses else Line(), peers=peers)
        with connected(xcat.connection(), ctx) as driver:
            try:
                told[host] = driver.cli.nodes([host] if of_one else [])
            except Fenced as exc:
                told[host] = exc

    asked(way)
    Crew(serve, peers.rounds).serve(names, len(names), lambda: None)
    assert isinstance(told.pop(loses), Fenced) and set(told) == set(names[1:]), told
    assert all(host in found for host, found in told.items()), told
    assert asked(way, "lsdef") <= 2, "the others ask together again; and where the command is was looked for"


def test_whether_the_management_node_is_elsewhere_is_asked_once(
    xcat: Any,  # noqa: F811
    way: Way,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,  # noqa: F811
) -> None:
    way.before = f"export PATH={xcat._folder / 'system'}:$PATH; "
    monkeypatch.setattr(xcat.management, "has_nmap", True)
    extras = {**xcat.extras, "name_services": ["hosts"]}
    batch = [{**xcat.new(), "driver": {**extras, "ip": f"10.8.5.{number}"}} for number in range(1, 4)]
    told = of_all(batch, "ready")
    assert not [one for one in told.values() if isinstance(one, Exception)], told
    assert asked(way, "printenv XCATHOST") == 1
