# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Redfish as it stands on the wire: what is met once, what is sent once, what is read anew."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import contract as c
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish.driver import RedfishBmc
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    DeadlineExceeded,
    FleetError,
    Unreachable,
    Unsupported,
)
from fake_bmc.redfish_server import Answer

from .conftest import Ctx
from .test_redfish import Make, change


def test_t1_who_is_not_trusted_is_met_once(fake: Make) -> None:
    """A certificate gets no better by asking again."""
    rig = fake("plain")
    server = rig.bmc._server
    met: list[Any] = []
    accept = server.get_request

    def counted() -> Any:
        met.append(accept())
        return met[-1]

    server.get_request = counted  # type: ignore[method-assign]
    with pytest.raises(Unreachable, match="no trusted TLS"):
        change(rig, "on", bmc_ca_path=None)
    assert len(met) == 1


def test_t1_a_write_that_is_sent_elsewhere_is_not_made_there(fake: Make) -> None:
    """Who follows it would switch a machine that nobody has asked leave for."""
    rig = fake("plain")

    def elsewhere(name: str, body: Any) -> None:
        raise Answer(307, None, {"Location": f"/redfish/v1/Systems/{name}/Actions/ComputerSystem.Reset"})

    rig.bmc.reset = elsewhere  # type: ignore[method-assign]
    with pytest.raises(FleetError):
        change(rig, "on", timeout=0.5)
    assert rig.bmc.requests["POST"] == 1


@pytest.mark.parametrize("said", [None, "", "Hibernating"])
def test_t1_a_power_state_that_nobody_knows_is_neither_on_nor_off(fake: Make, said: Any) -> None:
    rig = fake("plain")
    rig.bmc.vendor["system"] = {**rig.bmc.vendor["system"], "PowerState": said}
    with pytest.raises(DeadlineExceeded, match="neither on nor off"):
        change(rig, "on", timeout=0.3)
    assert rig.writes() == 0


def test_t1_after_a_write_nothing_is_shown_that_was_seen_before_it(fake: Make) -> None:
    rig = fake("openbmc", power="On")
    with RedfishBmc({**rig.params, "timeout": 5.0}, Ctx()) as bmc:
        before = bmc.power.restart_marker()
        assert before and bmc.power.restart_marker() == before
        assert bmc.power.set(c.RESTART, destructive=True) == c.SENT
        assert bmc.power.restart_marker() not in ("", before)


@pytest.mark.parametrize(
    ("said", "state"),
    [("On", c.ON), ("Off", c.OFF), ("PoweringOn", c.CHANGING), ("PoweringOff", c.CHANGING), ("Paused", c.CHANGING)],
)
def test_t1_what_is_on_its_way_is_not_there(fake: Make, said: str, state: str) -> None:
    rig = fake("plain")
    rig.bmc.vendor["system"] = {**rig.bmc.vendor["system"], "PowerState": said}
    with RedfishBmc({**rig.params, "timeout": 5.0}, Ctx()) as bmc:
        assert bmc.power.state() == state


def test_t1_a_reset_that_is_not_listed_is_not_sent(fake: Make) -> None:
    rig = fake("cray", power="On")
    with RedfishBmc({**rig.params, "timeout": 5.0}, Ctx()) as bmc, pytest.raises(Unsupported, match="offers no reset"):
        bmc.power.set(c.RESTART, destructive=True)
    assert rig.writes() == 0
