# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The MAC addresses of a machine, wherever its BMC tells them, and collections of several pages."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.info import info
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish import link
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import AuthFailed, BadAnswer

from .conftest import Ctx
from .test_redfish import Make, change

SYSTEM = "/redfish/v1/Systems/1"
CHASSIS = "/redfish/v1/Chassis/1"


def ref(uri: str) -> dict[str, str]:
    return {"@odata.id": uri}


def serve(rig: Any, docs: dict[str, Any]) -> None:
    """These documents beside those that it has."""
    rig.bmc.faults.setdefault("raw", {}).update({uri: json.dumps(doc).encode() for uri, doc in docs.items()})


def with_cards(rig: Any, **links: Any) -> None:
    rig.bmc.vendor["system"] = {**rig.bmc.vendor["system"], **links}


def members(*uris: str) -> dict[str, Any]:
    return {"Members": [ref(uri) for uri in uris]}


def lists(rig: Any, system: str, *macs: str) -> dict[str, Any]:
    """The link to its ports, which it shows then."""
    ports = f"{system}/EthernetInterfaces"
    own = {f"{ports}/{number}": {"PermanentMACAddress": mac} for number, mac in enumerate(macs, 1)}
    serve(rig, {ports: members(*own), **own})
    return ref(ports)


def asked(rig: Any, **more: Any) -> dict[str, Any]:
    return info({**rig.params, "timeout": 5.0, **more}, Ctx()).data


def macs(rig: Any) -> dict[str, list[str]]:
    found = asked(rig)
    assert found["macs_unread"] == []
    return {one["mac"]: one["sources"] for one in found["macs"]}


def test_b6_macs_of_all_places_with_the_source_of_each(fake: Make) -> None:
    rig = fake("plain")
    with_cards(
        rig,
        EthernetInterfaces=ref(f"{SYSTEM}/EthernetInterfaces"),
        Boot={"BootOptions": ref(f"{SYSTEM}/BootOptions")},
        NetworkInterfaces=ref(f"{SYSTEM}/NetworkInterfaces"),
        Links={"Chassis": [ref(CHASSIS)]},
    )
    rig.bmc.vendor["boot_in"] = "/Settings"
    adapter = f"{CHASSIS}/NetworkAdapters/A"
    serve(
        rig,
        {
            f"{SYSTEM}/EthernetInterfaces": members(f"{SYSTEM}/EthernetInterfaces/1"),
            f"{SYSTEM}/EthernetInterfaces/1": {
                "PermanentMACAddress": "B8-3F-D2-90-97-C4",
                "MACAddress": "B8:3F:D2:90:97:C5",
            },
            f"{SYSTEM}/BootOptions": members(f"{SYSTEM}/BootOptions/1", f"{SYSTEM}/BootOptions/2"),
            f"{SYSTEM}/BootOptions/1": {"UefiDevicePath": "PciRoot(0x8)/MAC(B83FD29097C4,0x1)/IPv4(0.0.0.0)"},
            f"{SYSTEM}/BootOptions/2": {"DisplayName": "UEFI HTTPv4 (MAC:D0F405439504)"},
            f"{SYSTEM}/NetworkInterfaces": members(f"{SYSTEM}/NetworkInterfaces/A"),
            f"{SYSTEM}/NetworkInterfaces/A": {"Links": {"NetworkAdapter": ref(adapter)}},
            CHASSIS: {"NetworkAdapters": ref(f"{CHASSIS}/NetworkAdapters")},
            f"{CHASSIS}/NetworkAdapters": members(adapter),
            adapter: {name: ref(f"{adapter}/{name}") for name in ("NetworkDeviceFunctions", "Ports")},
            f"{adapter}/NetworkDeviceFunctions": members(f"{adapter}/Function"),
            f"{adapter}/Function": {"Ethernet": {"MACAddress": "b8:3f:d2:90:97:c4"}},
            f"{adapter}/Ports": members(f"{adapter}/Ports/1"),
            f"{adapter}/Ports/1": {"Ethernet": {"AssociatedMACAddresses": ["00:62:0b:4c:28:4e", None]}},
        },
    )
    assert macs(rig) == {
        "00:62:0b:4c:28:4e": [f"{adapter}/Ports/1#/Ethernet/AssociatedMACAddresses"],
        "b8:3f:d2:90:97:c4": [
            f"{SYSTEM}/EthernetInterfaces/1#/PermanentMACAddress",
            f"{SYSTEM}/BootOptions/1#/UefiDevicePath",
            f"{adapter}/Function#/Ethernet/MACAddress",
        ],
        "b8:3f:d2:90:97:c5": [f"{SYSTEM}/EthernetInterfaces/1#/MACAddress"],
        "d0:f4:05:43:95:04": [f"{SYSTEM}/BootOptions/2#/DisplayName"],
    }


def test_b6_a_card_of_an_older_service_tells_its_ports_elsewhere(fake: Make) -> None:
    rig = fake("plain")
    with_cards(rig, Links={"Chassis": [ref(CHASSIS)]})
    adapter = f"{CHASSIS}/NetworkAdapters/A"
    serve(
        rig,
        {
            CHASSIS: {"NetworkAdapters": ref(f"{CHASSIS}/NetworkAdapters")},
            f"{CHASSIS}/NetworkAdapters": members(adapter),
            adapter: {"NetworkPorts": ref(f"{adapter}/NetworkPorts")},
            f"{adapter}/NetworkPorts": members(f"{adapter}/NetworkPorts/1"),
            f"{adapter}/NetworkPorts/1": {"AssociatedNetworkAddresses": ["B8:3F:D2:90:97:C4", ""]},
        },
    )
    place = f"{adapter}/NetworkPorts/1#/AssociatedNetworkAddresses"
    assert macs(rig) == {"b8:3f:d2:90:97:c4": [place]}


@pytest.mark.parametrize(
    "told",
    [
        *("00:00:00:00:00:00", "FF:FF:FF:FF:FF:FF", "01:00:5e:00:00:01", "", "N/A", "b8:3f:d2:90:97", "0x1A2B3C"),
        *(None, 17, {}),
    ],
)
def test_b6_what_is_no_single_cards_mac_is_none(fake: Make, told: Any) -> None:
    rig = fake("plain")
    with_cards(rig, EthernetInterfaces=ref(f"{SYSTEM}/EthernetInterfaces"))
    serve(
        rig,
        {
            f"{SYSTEM}/EthernetInterfaces": members(f"{SYSTEM}/EthernetInterfaces/1"),
            f"{SYSTEM}/EthernetInterfaces/1": {"MACAddress": told},
        },
    )
    assert macs(rig) == {}


def test_b6_a_mac_of_the_bmcs_own_network_to_the_host_is_marked(fake: Make) -> None:
    rig = fake("plain")
    with_cards(rig, EthernetInterfaces=ref(f"{SYSTEM}/EthernetInterfaces"))
    serve(
        rig,
        {
            f"{SYSTEM}/EthernetInterfaces": members(f"{SYSTEM}/EthernetInterfaces/1"),
            f"{SYSTEM}/EthernetInterfaces/1": {"MACAddress": "EE:A3:AB:6B:53:03"},
        },
    )
    (found,) = asked(rig)["macs"]
    assert found["mac"] == "ee:a3:ab:6b:53:03" and found["locally_administered"] is True


def test_b6_a_place_that_cannot_be_read_is_told_and_hides_no_other(fake: Make) -> None:
    rig = fake("plain")
    with_cards(rig, EthernetInterfaces=ref(f"{SYSTEM}/EthernetInterfaces"))
    ports = [f"{SYSTEM}/EthernetInterfaces/{number}" for number in (1, 2, 3)]
    serve(rig, {f"{SYSTEM}/EthernetInterfaces": members(*ports), ports[2]: {"MACAddress": "b8:3f:d2:90:97:c4"}})
    rig.bmc.faults["raw"][ports[1]] = b"<html>log in</html>"
    found = asked(rig)
    assert [one["mac"] for one in found["macs"]] == ["b8:3f:d2:90:97:c4"]
    assert [line.partition(": ")[0] for line in found["macs_unread"]] == ports[:2]


def test_v2_places_that_answer_slowly_hold_a_task_no_longer_than_its_time(
    fake: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = fake("plain")
    monkeypatch.setattr(link, "READ_SECONDS", 0.3)
    ports = [f"/redfish/v1/nic/{number}" for number in range(20)]
    with_cards(rig, EthernetInterfaces=ref("/redfish/v1/nic"))
    serve(rig, {"/redfish/v1/nic": members(*ports)})

    def slow(status: int, headers: dict[str, str], data: bytes) -> Any:
        time.sleep(0.5 if rig.bmc.paths[-1].split()[1] in ports else 0.0)
        return status, headers, data

    rig.bmc.mangle = slow
    unread = asked(rig, timeout=1.0)["macs_unread"]
    tried = sum(path.split()[1] in ports for path in rig.bmc.paths)
    assert len(unread) == len(ports) and "too slowly" in unread[-1]
    assert tried < len(ports) / 2, "each of them would be waited for"


def test_b6_a_login_that_is_refused_on_the_way_is_no_missing_place(fake: Make) -> None:
    rig = fake("plain")
    with_cards(rig, EthernetInterfaces=ref(f"{SYSTEM}/EthernetInterfaces"))
    rig.bmc.faults["forgets_login_at"] = f"{SYSTEM}/EthernetInterfaces"
    with pytest.raises(AuthFailed):
        asked(rig)


def test_b6_macs_are_not_asked_for_where_they_are_not_wanted(fake: Make) -> None:
    rig = fake("plain")
    with_cards(rig, EthernetInterfaces=ref(f"{SYSTEM}/EthernetInterfaces"))
    assert "macs" not in asked(rig, macs=False)
    assert not [path for path in rig.bmc.paths if "EthernetInterfaces" in path]


# -- pages -------------------------------------------------------------------------------------------------------------


def test_b6_the_machine_stands_on_another_page(fake: Make) -> None:
    rig = fake("dgx")
    first, second = "/redfish/v1/Systems", "/redfish/v1/Systems?$skip=1"
    serve(
        rig,
        {
            first: {**members(f"{first}/HGX_Baseboard_0"), "Members@odata.nextLink": second},
            second: members(f"{first}/DGX"),
        },
    )
    assert change(rig, "on")["changed"]
    change(rig, "force_off", bmc_system_id="DGX")
    assert {path.split("/")[4] for _method, path, _body in rig.bmc.writes} == {"DGX"}


@pytest.mark.parametrize("following", ["/redfish/v1/Systems", "/redfish/v1/Systems?$skip=1"])
def test_b6_pages_in_a_circle_end(fake: Make, following: str) -> None:
    rig = fake("plain")
    page = {**members(SYSTEM), "Members@odata.nextLink": following}
    serve(rig, {"/redfish/v1/Systems": page, "/redfish/v1/Systems?$skip=1": page})
    with pytest.raises(BadAnswer, match="no end"):
        change(rig, "on")
    assert rig.writes() == 0
