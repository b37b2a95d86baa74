# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A restart that the power state does not show: what else does, and what is done where nothing would."""

from __future__ import annotations

from typing import Any, Optional

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import DeadlineExceeded

from .conftest import Ctx
from .test_redfish import Make, change


def sent(rig: Any) -> list[str]:
    return [body["ResetType"] for _method, _path, body in rig.bmc.writes]


@pytest.mark.parametrize(
    ("name", "proof"), [("openbmc", "reset_time"), ("ilo", "start_stage"), ("lenovo", "reset_count")]
)
def test_b1_a_restart_without_an_off_shows_by_what_the_maker_tells(fake: Make, name: str, proof: str) -> None:
    rig = fake(name, power="On")
    rig.bmc.faults["no_edge"] = True
    result = change(rig, "reset")
    assert (result["proof"], result["verdict"], result["notes"]) == (proof, "pass", [])
    assert rig.writes() == 1 and len(rig.bmc.machine.boots) == 2


@pytest.mark.parametrize("name", ["openbmc", "ilo", "lenovo"])
def test_b1_a_restart_that_was_none_is_told_as_none(fake: Make, name: str) -> None:
    rig = fake(name, power="On")
    rig.bmc.faults["liar"] = True
    with pytest.raises(DeadlineExceeded, match="no sign of a restart"):
        change(rig, "reset", timeout=1.0)
    assert rig.writes() == 1


@pytest.mark.parametrize("name", ["plain", "supermicro", "gigabyte"])
def test_b1_where_nothing_would_show_a_restart_it_is_off_then_on(fake: Make, name: str) -> None:
    rig = fake(name, power="On", lag=0.05)
    rig.bmc.faults["no_edge"] = True
    result = change(rig, "reset")
    assert sent(rig) == ["ForceOff", "On"]
    assert result["proof"] == "readback" and "which can be seen" in result["notes"][0]


def test_b1_a_reset_time_that_was_never_set_shows_nothing(fake: Make) -> None:
    rig = fake("openbmc", power="On", lag=0.05)
    rig.bmc.machine.reset_time = "1970-01-01T00:00:00+00:00"
    change(rig, "reset")
    assert sent(rig) == ["ForceOff", "On"]


def test_b1_a_machine_that_still_starts_would_not_show_it_by_its_stage(fake: Make) -> None:
    rig = fake("ilo", power="On", lag=0.05)
    rig.bmc.vendor["oem"] = lambda machine: {"Hpe": {"PostState": "InPost"}}
    change(rig, "reset")
    assert sent(rig) == ["ForceOff", "On"]


def test_b1_a_null_power_state_is_no_restart(fake: Make) -> None:
    rig = fake("openbmc", power="On")
    rig.bmc.faults.update(liar=True, says=["On", None, "On", "On"])
    with pytest.raises(DeadlineExceeded, match="no sign of a restart"):
        change(rig, "reset", timeout=1.0)


def test_b1_a_changing_state_is_a_sign(fake: Make) -> None:
    rig = fake("openbmc", power="On")
    rig.bmc.faults.update(liar=True, says=["On", "PoweringOn", "On", "On"])
    assert change(rig, "reset")["proof"] == "readback"


def test_b1_the_nodes_own_boot_id_shows_it(fake: Make) -> None:
    rig = fake("plain", power="On")
    rig.bmc.faults["no_edge"] = True
    assert change(rig, "reset", ctx=Ctx(boot_probe=rig.probe))["proof"] == "boot"
    assert rig.writes() == 1


def node(rig: Any, *after: Optional[dict[str, str]]) -> Any:
    """The node's answer: as it was until something is written, then one of these after the other."""
    said, left = {"boot_id": "b1", "cmdline": "", "uptime": "9"}, list(after)
    return lambda: said if not rig.writes() else left.pop(0) if len(left) > 1 else left[0]


def test_b1_a_node_that_is_gone_and_not_back_is_inconclusive_and_no_failure(fake: Make) -> None:
    """Large machines take longer to start than the task has: the reset was done, and that much is said."""
    rig = fake("plain", power="On")
    rig.bmc.faults["no_edge"] = True
    result = change(rig, "reset", timeout=1.0, ctx=Ctx(boot_probe=node(rig, None)))
    assert (result["proof"], result["verdict"], result["changed"]) == ("none", "inconclusive", True)
    assert "is not proven" in result["notes"][0] and rig.writes() == 1


@pytest.mark.parametrize("said", [{"boot_id": "b1"}, {"boot_id": ""}])
def test_b1_a_node_that_answers_and_shows_no_new_boot_was_not_restarted(fake: Make, said: dict[str, str]) -> None:
    rig = fake("plain", power="On")
    rig.bmc.faults["no_edge"] = True
    with pytest.raises(DeadlineExceeded, match="no sign of a restart"):
        change(rig, "reset", timeout=1.0, ctx=Ctx(boot_probe=node(rig, said)))


def test_b1_a_lost_answer_and_a_node_that_is_gone_prove_nothing(fake: Make) -> None:
    rig = fake("plain", power="On")
    rig.bmc.faults.update(no_edge=True, drop_post=1)
    with pytest.raises(DeadlineExceeded, match="no sign of a restart"):
        change(rig, "reset", timeout=1.0, ctx=Ctx(boot_probe=node(rig, None)))
    assert rig.writes() == 1


def test_b1_check_mode_of_a_restart_sends_nothing(fake: Make) -> None:
    rig = fake("plain", power="On")
    assert change(rig, "reset", ctx=Ctx(check_mode=True))["after"] == {"power": "on"}
    assert rig.writes() == 0
