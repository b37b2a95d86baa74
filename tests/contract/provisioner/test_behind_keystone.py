# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real Ironic behind a real Keystone: scenarios of the contract, and what only logins with roles and tokens have.

Who is no Keystone, or a broken one, is in test_keystone.py.
"""

from __future__ import annotations

import json
import time
import types
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _away as away
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _moved as moves
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    AuthFailed,
    ConfigError,
    EvidenceMissing,
    NotOurs,
    Refused,
    Unreachable,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import registry
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.info import info
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import of_task
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.plugins.module_utils._wait import wait_until
from calls import lead, ready, watch_all
from contract.proxy import DROP
from keystone_server import CACHED, RENEWED
from keystone_site import LESSEE, OWNER, STRANGER
from test_contract import (  # noqa: F401  # asked here of an Ironic that asks who somebody is
    test_a_second_run_writes_nothing,
    test_from_nothing_to_ready,
    test_released_and_released_again,
)
from test_contract_faults import (  # noqa: F401
    test_a_batch_whose_write_loses_its_answer_is_deployed_once,
    test_a_wrong_login_is_tried_once_and_shown_nowhere,
    test_t1_a_state_that_only_a_person_can_end_is_no_wait,
)


@pytest.fixture
def site(keystone_site: Any) -> Iterator[Any]:
    with keystone_site.in_good_health() as chosen:
        yield chosen


def as_login(site: Any, login: str) -> Any:
    """For the watcher."""
    return types.SimpleNamespace(connection=lambda: site.of(login), interval=site.interval)


# -- roles -------------------------------------------------------------------------------------------------------


def test_a_reader_reads_and_each_write_is_refused_with_the_right_to_ask_for(site: Any) -> None:
    options = {**site.available("reader"), "image": site.image()}
    assert not lead(options, "enrolled")["changed"], "nothing is to be done, and it may see that"
    assert watch_all(as_login(site, "reader"), "ready", options)["verdicts"][options["name"]]["ok"]
    moved = {**options, "driver": {**site.extras, "driver_info": {"note": "moved"}}}
    traits = {**options, "driver": {**site.extras, "traits": ["CUSTOM_H100"]}}
    refused = (
        ("deployed", options, "baremetal:node:update_instance_info"),
        ("inspected", options, "baremetal:node:set_provision_state"),
        ("maintenance", options, "baremetal:node:set_maintenance"),
        ("powered_on", options, "baremetal:node:set_power_state"),
        ("enrolled", moved, "baremetal:node:update"),
        ("enrolled", traits, "baremetal:node:traits:set"),
        ("enrolled", {**site.new(), **site.of("reader")}, "baremetal:node:create"),
    )
    before = site.ask("GET", f"/nodes/{options['name']}")
    for state, asked, right in refused:
        with pytest.raises(Refused) as told:
            lead(asked, state)
        assert right in told.value.seen and "a role that Ironic's policy grants" in told.value.do, (state, told.value)
    assert site.ask("GET", f"/nodes/{options['name']}") == before


def test_a_lessee_has_its_node_deployed_and_leaves_what_it_is_not_shown_to_the_owner(site: Any) -> None:
    options = ready(site)
    site.lease(options["name"])
    with pytest.raises(NotOurs, match=f"lessee is {site.projects[LESSEE]}"):
        lead(options, "deployed", image=site.image())
    leased = {**options, **site.of("lessee"), "image": site.image()}
    with pytest.raises(NotOurs, match=f"owner is {site.projects[OWNER]}"):
        lead(leased, "deployed")
    leased["driver"] = {**site.extras, "owners": [site.projects[OWNER]], "driver_info": {"note": "the owner's"}}
    assert not lead(leased, "enrolled")["changed"], "its BMC is the owner's affair"
    assert lead(leased, "deployed")["changed"]
    told = watch_all(as_login(site, "lessee"), "deployed", leased, driver=leased["driver"])
    watched = told["verdicts"][options["name"]]
    assert watched["ok"], watched["reason"]
    assert not lead(leased, "deployed")["changed"]
    with pytest.raises(Refused, match="baremetal:node:update:driver_info"):
        lead(leased, "enrolled", update_password="always")


def test_s4_what_a_lessee_writes_into_its_node_takes_no_other_nodes_verdict_away(site: Any) -> None:
    """Half a character, as JSON can say it and no encoding has it. Ironic lets a lessee write that."""
    ours, theirs = ready(site), ready(site)
    site.lease(theirs["name"])
    for key in ("kernel", "ramdisk_kernel_arguments", "gpufleet_deploy"):
        with registry.connected(site.of("lessee"), Context(node=theirs["name"])) as tenant:
            patch = [{"op": "add", "path": f"/instance_info/{key}", "value": "\ud800"}]
            tenant.api.write("PATCH", f"/nodes/{theirs['name']}", body=patch, saying="", host=theirs["name"])
        verdicts = watch_all(site, "ready", ours, theirs)["verdicts"]
        assert verdicts[ours["name"]]["ok"] and set(verdicts) == {ours["name"], theirs["name"]}, verdicts
        json.dumps(verdicts, ensure_ascii=False).encode()
        with registry.connected(site.connection(), Context(node=ours["name"])) as driver:
            wanted = [of_task(one, driver.name, driver.image_needs, one["name"]) for one in (ours, theirs)]
            found = driver.find_many(wanted)
        assert found[ours["name"]].native == "available" and found[theirs["name"]].foreign.startswith("lessee is")


def test_a_failure_of_which_a_lessee_is_not_shown_why_is_no_word_on_its_node(site: Any) -> None:
    """An image server that is away would quarantine it."""
    options = ready(site)
    site.lease(options["name"])
    extras = {**site.extras, "owners": [site.projects[OWNER]]}
    leased = {**options, **site.of("lessee"), "driver": extras, "image": site.image()}
    words = site.fails_to_deploy(leased, "Failed to download image http://images/gold: connection refused")
    told = watch_all(as_login(site, "lessee"), "deployed", leased, driver=extras)["verdicts"][options["name"]]
    assert told["kind"] == Unreachable.kind and "does not show this login why it failed" in told["reason"], told
    assert not told["ok"] and words not in told["reason"]


def test_a_record_whose_bmc_a_lessee_is_not_shown_is_not_given_our_serial(site: Any) -> None:
    """From then on it would agree with us by our own word, and be imaged, whichever machine it is."""
    options, other = site.new(), f"leased-{site.new()['name']}"
    told = {"driver": "fake-hardware", "driver_info": {"redfish_address": "https://bmc-of-another"}}
    uuid = site.ask("POST", "/nodes", {"name": other, "owner": site.projects[OWNER], **told})["uuid"]
    site.set_state(other, "available", None)
    site.lease(other)
    extras = {**site.extras, "owners": [site.projects[OWNER]]}
    leased = {**options, **site.of("lessee"), "provisioner_id": other, "driver": extras, "image": site.image()}
    for state in ("enrolled", "ready", "deployed", "maintenance"):
        with pytest.raises(EvidenceMissing, match="nothing shows that this record of ironic is the one of this"):
            lead(leased, state)
    assert site.proxy.writes == [] and site.ask("GET", f"/nodes/{other}")["extra"] == {}
    site.ask("POST", "/ports", {"address": options["boot_mac"], "node_uuid": uuid})
    assert lead(leased, "enrolled")["changed"], "a port that it is shown agrees"
    assert site.ask("GET", f"/nodes/{other}")["extra"] == {"gpufleet_serial": options["serial"]}


def test_a_node_of_another_project_is_no_unknown_one(site: Any) -> None:
    theirs = site.available("stranger")
    hidden = f"a login of the project {site.projects[STRANGER]} may not be shown the nodes of other ones"
    with pytest.raises(Refused, match=hidden):
        lead(theirs, "released")
    assert hidden in watch_all(as_login(site, "stranger"), "released", theirs)["verdicts"][theirs["name"]]["reason"]
    nodes = [{"host": theirs["name"]}]
    told = info({**site.of("stranger"), "nodes": nodes}, Context()).data["verdicts"][theirs["name"]]
    assert (told["ok"], told["state"], told["reason"]) == (False, "unknown", hidden)
    for state in ("quarantined", "readmitted"):  # nobody can tell whether a mark stands there
        with pytest.raises(Refused, match="does not show this login the node") as told:
            lead(theirs, state)
        assert hidden in told.value.seen
    with pytest.raises(NotOurs, match="the name .* is that of a node which is not shown"):
        lead(theirs, "enrolled")
    assert site.native(theirs["name"]) == "available"


def test_a_node_that_a_login_is_not_shown_has_not_left(site: Any) -> None:
    """It may be at work, and the one that it goes to would be let at it."""
    theirs = site.available("stranger")
    site.set_state(theirs["name"], "active", None)
    there = {"provisioner": "maas", "provisioner_url": "http://maas:5240/MAAS"}
    ends = {"from": moves.place_of(theirs), "to": moves.place_of(there)}
    left = {"id": 1, "name": moves.LEFT, "run_id": "r0", "data": ends}
    for check in (False, True):
        with pytest.raises(Refused, match="does not show this login the node"):
            lead(theirs, "left", check=check, moved_to=there, known_move=left, run_id="r1")
    site.ask("PUT", f"/nodes/{theirs['name']}/states/provision", {"target": "deleted"})
    site.until(theirs["name"], "available")
    site.ask("DELETE", f"/nodes/{theirs['name']}")
    ends["from"] = moves.place_of(site.of("system"))
    [event] = lead({**theirs, **site.of("system")}, "left", moved_to=there, known_move=left, run_id="r1")["events"]
    assert event["name"] == moves.LEFT and "no record" in event["data"]["boots"], "who is shown all knows"


def test_a_machine_that_may_be_a_node_of_others_is_not_entered_without_its_boot_mac(site: Any) -> None:
    """Ironic takes a second node with the same BMC, and would clean the machine under whoever has it."""
    theirs, options = site.available("stranger")["name"], {**site.new(), **site.of("stranger")}
    told = {"op": "add", "path": "/driver_info/redfish_address", "value": options["bmc_address"]}
    site.ask("PATCH", f"/nodes/{theirs}", [told])
    site.set_state(theirs, "active", None)
    site.faults.forget()
    for state, check in (("enrolled", True), ("enrolled", False), ("ready", False)):
        with pytest.raises(ConfigError, match="without its boot MAC nothing tells whether this machine is a node"):
            lead({**options, "boot_mac": "", "driver": {"driver": "redfish"}}, state, check=check)
    assert site.faults.writes == []
    assert lead({**options, "driver": {"driver": "redfish"}}, "enrolled")["changed"], "with a port that nobody has"


def test_a_node_whose_mac_is_that_of_one_of_another_project_is_not_entered_by_halves(site: Any) -> None:
    """Its record has the login of a BMC, perhaps of that very machine: the next run would lead on with it."""
    mac = site.available("stranger")["boot_mac"]
    for login in ("landlord", "stranger"):  # it may delete what it has entered, and may not
        options = {**site.new(), **site.of(login), "boot_mac": mac}
        with pytest.raises(NotOurs, match="gpufleet_boot_mac is that of a node which is not shown") as told:
            lead(options, "enrolled")
        left = [one for one in site.ask("GET", "/nodes")["nodes"] if one["name"] == options["name"]]
        if login == "landlord":
            assert left == [] and "delete the node" not in told.value.do
        else:
            assert f"delete the node {left[0]['uuid']} ({options['name']})" in told.value.do
            assert "baremetal:node:delete" in told.value.do and "or correct the inventory" in told.value.do


def test_a_login_of_the_whole_system_takes_the_nodes_of_the_owners_that_it_names(site: Any) -> None:
    options = site.available("system")
    with pytest.raises(NotOurs, match=f"owner is {site.projects[OWNER]}"):
        lead(options, "maintenance")
    options["driver"] = {**site.extras, "owners": [site.projects[OWNER]]}
    assert lead(options, "maintenance")["changed"] and lead(options, "serviceable")["changed"]


def test_what_ironic_lists_to_the_whole_system_alone_keeps_no_other_login_from_looking_ahead(site: Any) -> None:
    """Ironic 39.0 answers with 500 where a right is not for a project's logins."""
    options = {**site.available("manager"), "image": site.image("1", "whole-disk")}
    for login, told in (("manager", []), ("system", ["Ironic has the deploy interface anaconda not enabled"])):
        mine = {**options, **site.of(login), "driver": {**site.extras, "deploy_interface": "anaconda"}}
        with registry.connected(mine, Context(node=options["name"])) as driver:
            wanted = of_task(mine, driver.name, driver.image_needs, options["name"])
            found = [str(exc.what) for _host, exc in driver.prerequisites([(wanted, driver.find(wanted))])]
        assert [one for one in found if "anaconda" in one] == [f"{one} for fake-hardware" for one in told], found


# -- tokens ------------------------------------------------------------------------------------------------------


@pytest.fixture
def amid(site: Any) -> Iterator[Any]:
    """A node, and a driver that has been told of it already by a login whose token is as new as that."""
    options = site.available("manager")
    with registry.connected(options, Context(node=options["name"])) as driver:
        wanted = of_task(options, driver.name, driver.image_needs, options["name"])
        assert driver.find(wanted).native == "available"
        site.keystone.proxy.forget()
        yield lambda: driver.find(wanted).native


def logins(site: Any) -> int:
    """Of the manager alone: Ironic itself has one too."""
    return sum(b'"manager"' in one.body for one in site.keystone.proxy.asked if one.path.endswith("/tokens"))


def test_a_token_that_ends_amid_the_work_is_renewed(site: Any, amid: Any) -> None:
    assert amid() == "available" and logins(site) == 0
    time.sleep(RENEWED + 0.5)
    assert amid() == "available" and logins(site) == 1


def test_a_token_that_was_revoked_is_renewed_once(site: Any, amid: Any) -> None:
    with site.disabled("manager"):
        pass
    time.sleep(CACHED + 0.5)
    before = refused(site)
    assert amid() == "available" and logins(site) == 1
    assert refused(site) == before + 1, "else it was renewed for its age alone"


def refused(site: Any) -> int:
    """How often Ironic took no token."""
    return sum(code == 401 for _asked, code in site.proxy.answered)


def test_a_login_that_ends_amid_the_work_is_refused_by_keystone_by_its_name(site: Any, amid: Any) -> None:
    with site.disabled("manager"):
        time.sleep(CACHED + 0.5)
        with pytest.raises(AuthFailed, match="Keystone refused the login") as told:
            amid()
    assert told.value.address == site.keystone.url and "clouds.yaml" in told.value.do and logins(site) == 1


def test_a_keystone_that_goes_away_when_a_token_ends_is_waited_for_and_named(
    site: Any, amid: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    time.sleep(RENEWED + 0.5)
    site.keystone.proxy.fault = lambda asked: DROP
    with pytest.raises(Unreachable, match="Keystone") as told:
        amid()
    assert told.value.address == site.keystone.url
    site.keystone.proxy.forget()
    options, left = site.available("manager"), iter(range(3))
    site.keystone.proxy.fault = lambda asked: DROP if next(left, None) is not None else None
    monkeypatch.setattr(away, "AWAY_SECONDS", 60.0)
    assert lead(options, "maintenance")["changed"] and next(left, None) is None


def test_an_ironic_that_cannot_ask_keystone_is_waited_for(site: Any, amid: Any) -> None:
    """A token that it has not seen yet it can say nothing of."""
    site.keystone.proxy.fault = lambda asked: DROP
    told = wait_until(lambda: _refusal(amid), bool, timeout=30, interval=0.3, wanted="an outage")
    assert isinstance(told, Unreachable) and told.address != site.keystone.url, "a later one is of Keystone itself"
    site.keystone.proxy.forget()
    assert amid() == "available"


def _refusal(ask: Any) -> Any:
    try:
        ask()
    except Exception as exc:
        return exc
    return None
