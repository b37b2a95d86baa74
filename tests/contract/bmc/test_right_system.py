# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever a BMC says of its systems, no other one than the machine's own is written to, or told of as the machine."""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.info import info
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    BadAnswer,
    ConfigError,
    FleetError,
    WrongMachine,
)
from fake_bmc.sessions import UUID

from .conftest import Ctx, RedfishRig
from .test_redfish import Make, boot, change

OWN, NEIGHBOUR = b"/redfish/v1/Systems/Node0", b"/redfish/v1/Systems/Node1"


def misled(rig: RedfishRig, old: bytes, new: bytes) -> None:
    """From here on the BMC says this in place of that."""
    rig.bmc.mangle = lambda status, headers, data: (status, headers, data.replace(old, new))


def written(rig: RedfishRig) -> set[str]:
    return {path.split("/")[4] for _method, path, _body in rig.bmc.writes}


@pytest.mark.parametrize("more", [{"serial": "SN0001"}, {"bmc_system_id": "Node0"}, {"bmc_system_id": OWN.decode()}])
def test_b4_a_system_that_calls_itself_another_is_the_one_that_was_read(fake: Make, more: dict[str, str]) -> None:
    rig = fake("blades")
    misled(rig, b'"@odata.id": "' + OWN + b'", "Id"', b'"@odata.id": "' + NEIGHBOUR + b'", "Id"')
    change(rig, "on", **more)
    assert boot(rig, **more)["proof"] == "readback"
    assert written(rig) == {"Node0"} and rig.bmc.machine.override["target"] == "Pxe"


def test_b4_no_write_leaves_the_machines_system(fake: Make) -> None:
    rig = fake("blades")
    stands = {"BootSourceOverrideEnabled": "Once", "BootSourceOverrideTarget": "Pxe"}
    rig.bmc.vendor["others"] = {"Node1": {"Actions": True, "SerialNumber": "OTHER", "Boot": stands}}
    misled(rig, OWN + b"/Actions", NEIGHBOUR + b"/Actions")
    with pytest.raises(BadAnswer, match="no part of the machine's system"):
        change(rig, "on", serial="SN0001")
    assert rig.writes() == 0
    elsewhere = b', "@Redfish.Settings": {"SettingsObject": {"@odata.id": "' + NEIGHBOUR + b'"}}'
    misled(rig, b'"Id": "Node0"', b'"Id": "Node0"' + elsewhere)
    assert boot(rig, serial="SN0001")["proof"] == "readback"
    assert written(rig) == {"Node0"} and rig.bmc.machine.override["target"] == "Pxe"


def test_b4_a_machine_of_another_serial_is_shown_and_not_touched(fake: Make) -> None:
    rig = fake("plain")
    rig.params["system_uuid"] = ""
    for more in ({}, {"bmc_system_id": "1"}):
        with pytest.raises(WrongMachine, match="SN0002.*SN0001"):
            change(rig, "force_off", serial="SN0002", **more)
        with pytest.raises(WrongMachine, match="SN0002.*SN0001"):
            boot(rig, serial="SN0002", **more)
    assert rig.writes() == 0
    seen = info({**rig.params, "serial": "SN0002", "timeout": 5.0}, Ctx()).data
    assert seen["identity"]["serial"] == "SN0001" and seen["machine"]["contradicts"] == ["serial"]
    assert change(rig, "on", serial=" sn0001 ")["changed"]
    rig.bmc.vendor["system"] = {**rig.bmc.vendor["system"], "SerialNumber": "To be filled by O.E.M."}
    change(rig, "force_off", serial="SN0002", system_uuid=UUID)
    assert change(rig, "on", serial="SN0002")["changed"], "silence contradicts nothing"


def test_n4_a_service_tag_is_the_machines_serial_and_a_models_number_is_not(fake: Make) -> None:
    rig = fake("plain")
    rig.params["system_uuid"] = ""
    plain = rig.bmc.vendor["system"]
    rig.bmc.vendor["system"] = {**plain, "Manufacturer": "Dell Inc.", "SerialNumber": "CN7016", "SKU": "6XYZ003"}
    assert change(rig, "on", serial="6xyz003")["changed"] and boot(rig, serial="CN7016")["proof"] == "readback"
    before = rig.writes()
    with pytest.raises(WrongMachine, match="6XYZ004.*6XYZ003 or CN7016"):
        change(rig, "force_off", serial="6XYZ004")
    rig.bmc.vendor["system"] = {**plain, "Manufacturer": "HPE", "SKU": "P52345-B21"}
    with pytest.raises(WrongMachine, match="P52345-B21"):
        change(rig, "force_off", serial="P52345-B21")
    assert rig.writes() == before


@pytest.mark.parametrize(
    ("says", "error"),
    [(b"<html>", ConfigError), (b"{}", WrongMachine), (b'{"error": {"code": "Base.1.8.InternalError"}}', WrongMachine)],
)
def test_b4_a_neighbour_is_not_the_machine_when_that_one_falls_silent(
    fake: Make, says: bytes, error: type[Exception]
) -> None:
    rig = fake("blades")
    rig.params["system_uuid"] = ""
    rig.bmc.faults["raw"] = {OWN.decode(): says}
    for act in (lambda: change(rig, "on", serial="SN0001"), lambda: boot(rig, serial="SN0001")):
        with pytest.raises(error, match="OTHER"):
            act()
    if error is ConfigError:
        for more in ({"boot_mac": "52:54:00:00:00:01"}, {}):
            with pytest.raises(ConfigError, match="without an answer: Node0"):
                change(rig, "on", **more)
    assert rig.writes() == 0


@pytest.mark.parametrize("status", [404, 500, 200], ids=["gone", "broken", "garbage"])
@pytest.mark.parametrize("more", [{"serial": "OTHER"}, {}], ids=["named", "unnamed"])
def test_r1_the_one_that_is_left_is_not_the_machine_whose_system_cannot_be_read(
    fake: Make, status: int, more: dict[str, str]
) -> None:
    rig = fake("blades")
    rig.params["system_uuid"] = ""
    rig.force("On")

    def silent(told: int, headers: dict[str, str], data: bytes) -> tuple[int, dict[str, str], bytes]:
        return (status, headers, b"<html>") if b'"Id": "Node1"' in data else (told, headers, data)

    rig.bmc.mangle = silent
    for act in (lambda: change(rig, "force_off", timeout=3.0, **more), lambda: boot(rig, timeout=3.0, **more)):
        with pytest.raises(FleetError) as caught:
            act()
        assert "without an answer: Node1" in str(caught.value) or caught.value.kind in ("unreachable", "bad_answer")
    assert rig.writes() == 0 and rig.power() == "On"
