# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""xCAT by its web service: the same scenarios as by its commands, and what is its own."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    AuthFailed,
    ConfigError,
    FleetError,
    Refused,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.xcat import cli, record, web
from calls import Killed, Line, await_all, deployed, lead, ready, watch_all
from xcat_commands.web import PASSWORD, USER


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


def test_who_boots_by_uefi_is_set_up_and_booted_by_its_bmc(xcatws: Any) -> None:
    """It has no word for ``rsetboot -u``; what a BMC is told is none of its requests."""
    options = {**ready(xcatws), "image": xcatws.image(), "deploy_id": "7"}
    line = Line()
    begun = lead(options, "deployed", line=line)
    assert begun["pending"] and begun["step"] == "boot" and xcatws.is_ordered(options["name"], "gold-1")
    assert line.orders == ["deployed"] and [hard for _what, hard, _hosts in line.writes] == [True] * 3
    assert not [one for one in xcatws.proxy.writes if one.path.endswith(("/nextboot", "/power"))]
    again = lead(options, "deployed")
    assert again["step"] == "boot" and not again["changed"]
    xcatws.boot(options["name"])
    verdict = watch_all(xcatws, "deployed", options, booted=True)["verdicts"][options["name"]]
    assert verdict["ok"] and not verdict["boots"]
    assert not lead(options, "deployed")["pending"]


@pytest.mark.parametrize("at", [1, 2])
def test_an_order_that_was_killed_between_its_writes_is_completed(xcatws: Any, at: int) -> None:
    options = {**ready(xcatws), "image": xcatws.image(), "deploy_id": "7"}
    with pytest.raises(Killed):
        lead(options, "deployed", line=Line(die_at=at))
    line = Line()
    assert lead(options, "deployed", line=line)["step"] == "boot" and xcatws.deployments() == 1
    assert len(line.writes) == 3 - at, "what stands already is not done again"


@pytest.mark.parametrize("said", [{}, {"password_in_logs": "true"}])
def test_a_password_that_xcat_may_log_is_not_sent_unless_the_site_takes_that(xcatws: Any, said: Any) -> None:
    options = xcatws.new()
    for check_mode in (True, False):
        with pytest.raises(ConfigError, match="password_in_logs: true"):
            lead({**options, "driver": said}, "enrolled", check_mode=check_mode)
    lead(options, "enrolled")
    with pytest.raises(ConfigError, match="commands.log") as caught:
        lead({**options, "bmc_password": "an0ther", "driver": said}, "enrolled", update_password="always")
    assert "an0ther" not in str(caught.value)
    bodies = [one.body for one in xcatws.proxy.writes if not one.path.endswith("/tokens")]
    assert len(bodies) == 1 and not any(b"an0ther" in one for one in bodies)
    assert not lead({**options, "driver": said}, "enrolled")["changed"], "nothing is to be written"


def test_what_is_taken_and_not_done_is_found_by_reading(xcatws: Any) -> None:
    """Without ``site.master`` it answers 200 with nothing, as it does to what was done."""
    options = deployed(xcatws)
    xcatws.management.has_master = False
    with pytest.raises(Refused, match="it is unknown"):
        lead(options, "released")
    assert xcatws.power(options["name"]) == "on" and xcatws.record(options["name"])["provmethod"] == "gold-1"
    xcatws.management.has_master = True
    lead(options, "released")
    assert xcatws.power(options["name"]) == "off" and "provmethod" not in xcatws.record(options["name"])


def test_one_node_that_fails_hides_no_other(xcatws: Any) -> None:
    batch = [{**ready(xcatws), "image": xcatws.image()} for _number in range(3)]
    xcatws.management.unpacked.add(batch[1]["name"])
    verdicts = await_all(xcatws, "deployed", *batch)["verdicts"]
    assert [verdicts[one["name"]]["ok"] for one in batch] == [True, False, True], verdicts
    assert "No packed image" in verdicts[batch[1]["name"]]["reason"]


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
