# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A batch over a login host: what is asked of all nodes goes there in one command, and not in one of each node."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, Unreachable
from calls import await_all, of_all
from test_login_host import Way, site, ssh, way, whole, words, xcat  # noqa: F401  # the same host, by the same sshd

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


def test_a_record_that_cannot_be_read_is_the_trouble_of_its_own_node(xcat: Any, way: Way) -> None:  # noqa: F811
    batch = [xcat.new() for _number in range(3)]
    of_all(batch, "ready")
    spoilt, *others = (one["name"] for one in batch)
    record = xcat.record(spoilt)
    record["usercomment"] = f"my own\n{spoilt}: provmethod=gold-2"
    told = of_all(batch, "enrolled", check=True)
    del record["usercomment"]
    assert isinstance(told[spoilt], ConfigError) and told[spoilt].node == spoilt, told[spoilt]
    assert not [told[other] for other in others if isinstance(told[other], Exception)]


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
