# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""xCAT by its web service: the same scenarios as by its commands, and what is its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import unquote

import pytest
import test_contract as of_any
import test_contract_faults as faults
import test_power
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    AuthFailed,
    ConfigError,
    FleetError,
    Refused,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.xcat import cli, record, web
from calls import await_all, deployed, lead, ready
from contract.faults import HttpFaults
from contract.proxy import Proxy
from sites import patched
from xcat_commands.site import XcatSite
from xcat_commands.web import PASSWORD, USER, Web


class XcatwsSite(XcatSite):
    many_calls = False
    secrets = (*XcatSite.secrets, PASSWORD)
    extras = {**XcatSite.extras, "uefi": False, "password_in_logs": True}  # noqa: RUF012

    def __init__(self, folder: Any) -> None:
        super().__init__(folder)
        self.service = Web(self.management)
        self.proxy = Proxy(self.service.url)
        self.faults: Any = HttpFaults(self.proxy)

    def close(self) -> None:
        super().close()
        self.proxy.close()
        self.service.shutdown()
        self.service.server_close()

    def connection(self) -> dict[str, Any]:
        login = {"provisioner_username": USER, "provisioner_password": PASSWORD}
        return {"provisioner": self.name, "provisioner_url": self.proxy.url, **login}

    def wrong_login(self) -> dict[str, Any]:
        return {"provisioner_password": "not-th1s-one"}

    def nowhere(self) -> dict[str, Any]:
        return {"provisioner_url": "http://127.0.0.1:9/xcatws"}

    def without(self, right: str) -> dict[str, Any]:
        self.service.denied.add(right)
        return {}

    def deployments(self) -> int:
        orders = [one for one in self.proxy.writes if one.path.endswith("/power") and b"boot" in one.body]
        return sum(len(unquote(one.path.split("/")[3]).split(",")) for one in orders)


@pytest.fixture(scope="module")
def made(started: Any) -> Any:
    return started(XcatwsSite)


@pytest.fixture
def xcatws(made: Any) -> Iterator[Any]:
    with made.in_good_health() as chosen, patched((web, "SHOWN_INTERVAL", 0.05), (test_power.power, "INTERVAL", 0.05)):
        yield chosen
    made.service.denied.clear()
    made.management.locked_out.clear()
    made.management.has_master = True


#: Of those for every driver. What is no matter of how xCAT is asked is tried by its commands.
SCENARIOS: tuple[Callable[[Any], None], ...] = (
    of_any.test_from_nothing_to_ready,
    of_any.test_a_second_run_writes_nothing,
    of_any.test_j7_an_order_is_told_as_one_and_nothing_that_goes_before_it,
    of_any.test_another_image_is_deployed_over_it,
    of_any.test_released_and_released_again,
    of_any.test_annotations,
    of_any.test_what_is_somebody_elses_is_left_alone,
    of_any.test_a_mac_that_another_node_has_is_no_new_node,
    of_any.test_a_node_that_nobody_enrolled,
    faults.test_a_wrong_login_is_tried_once_and_shown_nowhere,
    faults.test_nobody_listens,
    faults.test_an_outage_in_the_middle_of_a_wait_passes,
    faults.test_many_nodes_begin_a_step_together,
    faults.test_no_secret_leaves_the_driver,
    test_power.test_power_goes_off_and_on_and_is_seen_to,
)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.__name__.removeprefix("test_"))
def test_as_by_its_commands(xcatws: Any, scenario: Callable[[Any], None]) -> None:
    scenario(xcatws)


def test_a_right_that_is_missing_is_named(xcatws: Any) -> None:
    """It is 401 without a word, as a wrong login is."""
    options = {**deployed(xcatws), "image": xcatws.image("2"), "deploy_id": "7"}
    for right in xcatws.rights:
        with pytest.raises(AuthFailed, match=f"xCAT refused us {right}"):
            lead(options, "deployed", **xcatws.without(right))
        assert not xcatws.is_ordered(options["name"], "gold-2") and xcatws.power(options["name"]) == "on"
        xcatws.service.denied.clear()
    lead(options, "deployed")
    assert await_all(xcatws, "deployed", options)["verdicts"][options["name"]]["ok"]


def test_a_boot_by_uefi_is_refused_before_anything_is_written(xcatws: Any) -> None:
    options = ready(xcatws)
    given = {**options, "image": xcatws.image(), "driver": {**xcatws.extras, "uefi": True}}
    with pytest.raises(ConfigError, match="sets no boot by UEFI"):
        lead(given, "deployed")
    assert [one for one in xcatws.proxy.writes if not one.path.endswith("/tokens")] == []


@pytest.mark.parametrize("said", [{}, {"password_in_logs": "true"}])
def test_a_password_that_xcat_may_log_is_not_sent_unless_the_site_takes_that(xcatws: Any, said: Any) -> None:
    options = xcatws.new()
    for check_mode in (True, False):
        with pytest.raises(ConfigError, match="password_in_logs: true"):
            lead({**options, "driver": {"uefi": False, **said}}, "enrolled", check_mode=check_mode)
    lead(options, "enrolled")
    with pytest.raises(ConfigError, match="commands.log") as caught:
        lead({**options, "bmc_password": "an0ther", "driver": said}, "enrolled", update_password="always")
    assert "an0ther" not in str(caught.value)
    bodies = [one.body for one in xcatws.proxy.writes if not one.path.endswith("/tokens")]
    assert len(bodies) == 1 and not any(b"an0ther" in one for one in bodies)
    assert not lead({**options, "driver": said}, "enrolled")["changed"], "nothing is to be written"


def test_what_is_taken_and_not_done_is_found_by_reading(xcatws: Any) -> None:
    """Without ``site.master`` it answers 200 with nothing, as it does to what was done."""
    options = {**ready(xcatws), "image": xcatws.image()}
    xcatws.management.has_master = False
    with pytest.raises(Refused, match="rsetboot says nothing of it"):
        lead(options, "deployed")
    assert not xcatws.is_ordered(options["name"], "gold-1"), "it is taken back"


def test_one_node_that_fails_hides_no_other(xcatws: Any) -> None:
    batch = [{**ready(xcatws), "image": xcatws.image()} for _number in range(3)]
    xcatws.management.locked_out.add(batch[1]["name"])
    verdicts = await_all(xcatws, "deployed", *batch)["verdicts"]
    assert [verdicts[one["name"]]["ok"] for one in batch] == [True, False, True], verdicts
    assert "Incorrect password" in verdicts[batch[1]["name"]]["reason"]


@pytest.mark.parametrize("comment", ["mend\nthe fan", "mend\nserial=S-forged"])
def test_a_comment_with_lines_of_its_own_forges_no_record(xcatws: Any, comment: str) -> None:
    good, bad = ready(xcatws), ready(xcatws)
    xcatws.record(bad["name"])["usercomment"] = comment
    with pytest.raises(ConfigError):
        lead(bad, "enrolled")
    verdicts = await_all(xcatws, "ready", good, bad)["verdicts"]
    assert verdicts[good["name"]]["ok"] and not verdicts[bad["name"]]["ok"], verdicts


def test_a_login_is_asked_for_once_a_verb_and_stands_in_no_address(xcatws: Any) -> None:
    options = ready(xcatws)
    xcatws.faults.forget()
    lead(options, "enrolled")
    tokens = [one for one in xcatws.proxy.asked if one.path.endswith("/tokens")]
    assert len(tokens) == 1 and json.loads(tokens[0].body)["userName"] == USER
    assert not any(PASSWORD in one.path + one.query for one in xcatws.proxy.asked)


def test_an_error_about_who_was_not_asked_for_is_told_once(xcatws: Any) -> None:
    options = ready(xcatws)
    xcatws.faults.forget()
    body = json.dumps({"error": ["Could not find an object named 'ghost' of type 'node'."], "errorcode": "1"}).encode()
    xcatws.proxy.fault = lambda asked: (403, {}, body) if "/attrs/" in asked.path else None
    with pytest.raises(FleetError):
        lead(options, "enrolled")
    assert len(xcatws.proxy.asked) < 10


def test_names_are_as_many_as_one_address_takes() -> None:
    names = [f"node{number:05d}" for number in range(1000)]
    parts = list(web._parts(names))
    assert [one for part in parts for one in part] == names and len(parts) > 1
    assert all(len(",".join(part)) <= web.ADDRESS for part in parts) and cli.TIMEOUT > 0
    longest = f"GET /xcatws/nodes/{'n' * web.ADDRESS}/attrs/{','.join(record.ATTRIBUTES)} HTTP/1.1"
    assert len(longest) < 8190 - 300, "what Apache takes as it comes, with room for the beginning of a site's address"
