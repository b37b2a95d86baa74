# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""xCAT: that no node has another one's card, BMC or address is asked of thousands, and for each new node."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import WrongMachine
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.registry import connected
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import of_task
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from calls import Killed, Line, deployed, is_ordered_for_no_other_machine, lead, moves_to_no_other_machine, ready


def test_a_batch_of_new_nodes_asks_for_all_cards_once(xcat_site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of thousands. What is asked right before each write is answered in a few lines."""
    site = xcat_site
    others = {
        f"old{at}": {"mac": f"02:11:{at >> 8:02x}:{at & 255:02x}:00:01", "bmc": f"10.9.{at}.1"} for at in range(200)
    }
    site.management.nodes.update(others)
    try:
        names = [site.new() for _number in range(4)]
        run = f"run of {names[0]['name']}"
        for options in names:
            lead(options, "enrolled", run_cache=run)
        lists = [call.what for call in site.faults.calls if call.what.startswith("lsdef -t node -i")]
        assert len(lists) == 1 and all(one["name"] in site.management.nodes for one in names)
        theirs = {**site.new(), "boot_mac": names[1]["boot_mac"].upper().replace(":", "-")}
        with pytest.raises(WrongMachine, match=f"MAC belongs to {names[1]['name']}"):
            lead(theirs, "enrolled", run_cache=run)
        monkeypatch.setattr("xcat_commands.management.selected", lambda record, where: not where)
        with pytest.raises(WrongMachine, match="BMC belongs to"):  # an answer without its witness is none
            lead(
                {**site.new(), "bmc_address": names[2]["bmc_address"]},
                "enrolled",
                run_cache=f"run of {names[0]['name']}",
            )
    finally:
        for name in others:
            del site.management.nodes[name]


def test_a_node_that_is_known_is_not_given_the_address_of_another_one_among_its_own(xcat_site: Any) -> None:
    site = xcat_site
    *others, options = (site.new() for _one in range(3))
    for last, one in zip((10, 12, 11), (*others, options), strict=True):
        lead({**one, "driver": {**site.extras, "ip": f"10.8.2.{last}"}}, "enrolled")
    with pytest.raises(WrongMachine, match="IP belongs to"):
        lead({**options, "driver": {**site.extras, "ip": "10.8.2.11,10.8.2.12"}}, "enrolled")
    assert site.record(options["name"])["ip"] == "10.8.2.11"


@pytest.mark.parametrize("address", ["10.8.0.17", "10.8.1.1,10.8.0.17"])
def test_a_node_is_not_given_the_address_of_another_one(xcat_site: Any, address: str) -> None:
    """As a variable of a group gives it to all of them."""
    site = xcat_site
    theirs, ours, new = ready(site), ready(site), site.new()
    site.record(theirs["name"])["ip"] = address
    site.faults.forget()
    for options in (ours, new):
        for check_mode in (True, False):
            with pytest.raises(WrongMachine, match=f"IP belongs to {theirs['name']}.*correct ip in enroll_driver"):
                lead({**options, "driver": {"ip": "10.8.0.17"}}, "enrolled", check_mode=check_mode)
    assert site.faults.writes == []
    site.record(theirs["name"])["ip"] = "10.8.0.170"
    assert lead({**ours, "driver": {"ip": "10.8.0.17"}}, "enrolled")["changed"]
    site.record(ours["name"])["ip"] = ""


@pytest.mark.parametrize(("attribute", "net"), [("ip", "fd00:8"), ("bmc", "fd00:9")])
def test_an_address_of_ipv6_that_another_node_got_meanwhile_is_known_however_it_is_spelled(
    xcat_site: Any, attribute: str, net: str
) -> None:
    """Since the list of this run was read; right before a write xCAT itself is asked."""
    site = xcat_site
    first, theirs, ours = (site.new() for _one in range(3))
    run = f"run of {first['name']}"
    lead({**first, "driver": {**site.extras, "ip": f"{net}::16"}}, "enrolled", run_cache=run)
    lead(theirs, "enrolled")
    site.record(theirs["name"])[attribute] = f"{net.upper()}:0::0017"
    told = {"bmc_address": f"https://[{net}::17]"} if attribute == "bmc" else {}
    told["driver"] = {**site.extras, **({"ip": f"{net}::17"} if attribute == "ip" else {})}
    with pytest.raises(WrongMachine, match=f"{attribute.upper()} belongs to {theirs['name']}"):
        lead({**ours, **told}, "enrolled", run_cache=run)
    assert ours["name"] not in site.management.nodes


def test_hosts_of_a_batch_that_are_given_one_address_are_told_before_the_first_write(xcat_site: Any) -> None:
    site = xcat_site
    nodes = [{**ready(site), "driver": {"ip": "10.8.0.18"}} for _number in range(2)]
    site.faults.forget()
    with connected(nodes[0], Context(check_mode=True, node=nodes[0]["name"])) as driver:
        batch = [(of_task(one, driver.name, (), one["name"]), None) for one in nodes]
        told = driver.prerequisites(batch)
        assert not [why for _host, why in driver.prerequisites(batch[:1]) if "as well" in str(why)]
    assert [host for host, why in told if "ip in enroll_driver is 10.8.0.18" in str(why)] == [
        one["name"] for one in nodes
    ]
    assert site.faults.writes == []


def set_up(site: Any) -> dict[str, Any]:
    """By a run that was killed before the machine was booted."""
    options = {**ready(site), "image": site.image()}
    with pytest.raises(Killed):
        lead(options, "deployed", line=Line(die_at=2))
    assert site.record(options["name"])["currstate"].startswith("netboot")
    return options


def ordered(site: Any) -> dict[str, Any]:
    options = {**ready(site), "image": site.image()}
    lead(options, "deployed")
    return options


@pytest.mark.parametrize("stands", [set_up, ordered, deployed])
def test_an_order_that_stands_moves_to_no_other_machine(xcat_site: Any, stands: Callable[[Any], Any]) -> None:
    """The serial of the record is our own word."""
    moves_to_no_other_machine(xcat_site, stands(xcat_site))


def test_a_node_at_rest_is_ordered_for_no_other_machine(xcat_site: Any) -> None:
    site = xcat_site

    def correct(name: str, card: str) -> None:
        subprocess.run(
            [f"{site.connection()['provisioner_url']}/bin/chdef", "-t", "node", name, f"mac={card}"],
            check=True,
            capture_output=True,
        )
        site.faults.forget()

    is_ordered_for_no_other_machine(site, correct)
