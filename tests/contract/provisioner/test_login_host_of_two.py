# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One task over two login hosts, as of a site with two clusters: nothing that one has told is taken for the other's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _ways as ways
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Refused
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import command as commands
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import login_host
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import turn as turns
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.registry import connected
from ansible_collections.gpufleet.baremetal.plugins.module_utils._together import Peers
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._crew import Crew
from calls import of_all
from test_login_host import HOST, Way, ssh, way, words, xcat  # noqa: F401  # the same host, by the same sshd
from xcat_commands.site import XcatSite

pytestmark = pytest.mark.slow
OTHER = "mn2"


@pytest.fixture
def both(way: Way, tmp_path: Path) -> dict[str, Way]:  # noqa: F811
    """The ways to two hosts, each with a folder of its own for locks."""
    found = {host: Way(way.argv) for host in (HOST, OTHER)}
    for host, one in found.items():
        (tmp_path / host).mkdir()
        one.before = f"export TMPDIR={tmp_path / host}; "
    ways.led_by(lambda host: found[host].ask if host in found else None)
    return found


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Any]:
    """Another xCAT."""
    (tmp_path / "xcat").mkdir()
    site = XcatSite(tmp_path / "xcat")
    yield site
    site.close()


def here_in(driver: Any) -> Any:
    return driver.cli.nodes(["gpu001"])


def all_in(driver: Any) -> Any:
    return driver.cli.nodes([])


@pytest.mark.parametrize(("ask", "known"), [(here_in, False), (here_in, True), (all_in, False)])
def test_nodes_of_one_name_are_each_its_own_management_nodes(
    xcat: Any,  # noqa: F811
    both: dict[str, Way],
    other: Any,
    ask: Callable[[Any], Any],
    known: bool,
) -> None:
    """Asked at the same time. Where one has none of that name, the other's is not it."""
    cards = {HOST: "52:54:00:00:00:01", OTHER: "52:54:00:00:00:02" if ask is all_in or known else ""}
    sites, peers, told = {HOST: xcat, OTHER: other}, Peers(), {}
    for host, site in sites.items():
        if cards[host]:
            site.management.nodes["gpu001"] = {"groups": "all", "mgt": "ipmi", "mac": cards[host]}

    def serve(host: str) -> None:
        params = {**sites[host].connection(), login_host.OPTION: host}
        with connected(params, Context(node=host, peers=peers)) as driver:
            told[host] = {name: one["mac"] for name, one in ask(driver).items() if name == "gpu001"}

    Crew(serve, peers.rounds).serve(list(sites), len(sites), lambda: None)
    del xcat.management.nodes["gpu001"]
    assert told == {host: {"gpu001": card} if card else {} for host, card in cards.items()}


def test_each_tells_itself_whether_it_is_the_management_node(
    xcat: Any,  # noqa: F811
    both: dict[str, Way],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a client of xCAT the resolver is another one than the management node's, which knows the names."""
    for host, one in both.items():
        server = "mn.example.com" if host == OTHER else ""
        one.before += f"export PATH={xcat._folder / 'system'}:$PATH XCATHOST={server}; "
    monkeypatch.setattr(xcat.management, "has_nmap", True)
    monkeypatch.setattr(xcat.management, "has_domain", False)
    batch = []
    for number, host in enumerate(both, start=1):
        extras = {**xcat.extras, "name_services": ["hosts"], "ip": f"10.8.6.{number}"}
        batch.append({**xcat.new(), login_host.OPTION: host, "driver": extras})
    told = of_all(batch, "ready", at_once=1)  # what the first has heard is known by then
    for one in batch:
        answer = told[one["name"]]
        assert isinstance(answer, Refused) == (one[login_host.OPTION] == HOST), answer
        assert "getent ahosts" in str(answer) if isinstance(answer, Refused) else answer["changed"], answer


def test_a_command_of_a_turn_has_its_lock_where_it_runs(xcat: Any, both: dict[str, Way], tmp_path: Path) -> None:  # noqa: F811
    peers, locks = Peers(), {}
    for host in both:
        ctx = Context(node="gpu001", peers=peers)
        with connected({**xcat.connection(), login_host.OPTION: host}, ctx) as driver, turns.turn(driver, ctx):
            assert commands.run(driver, ["true"]).code == 0
        locks[host] = [one.name for one in tmp_path.glob(f"{host}/{login_host.FOLDER}-*/*.lock")]
    assert len(locks[HOST]) == len(locks[OTHER]) == 1, locks
