# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading what BMCs answer, without a BMC."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import contract as c
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.ipmi import quirks as ipmi_quirks
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.quirks import Quirk, matching
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish import answers, quirks, select
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish.driver import RedfishBmc
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish.link import Answer, Link
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    AuthFailed,
    BadAnswer,
    ConfigError,
    FleetError,
    Refused,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context

hypothesis = pytest.importorskip("hypothesis")
pytest.importorskip("sushy")
from hypothesis import strategies as st  # noqa: E402
from suite.properties import at_most  # noqa: E402

WORDS = [
    "Members", "@odata.id", "Systems", "Actions", "#ComputerSystem.Reset", "target", "Boot", "PowerState", "Id",
    "error", "@Message.ExtendedInfo", "MessageId", "Severity", "BootSourceOverrideTarget", "@Redfish.Settings",
    "SettingsObject", "BootSourceOverrideTarget@Redfish.AllowableValues", "@Redfish.ActionInfo", "/redfish/v1/",
    "/x", "On", "Pxe",
]  # fmt: skip
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=8)
    | st.sampled_from(WORDS)
)
JSON = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(WORDS) | st.text(max_size=4), inner, max_size=5)
    ),
    max_leaves=20,
)


def answer(status: int, body: Any, **headers: str) -> Answer:
    return Answer(status, headers, body if isinstance(body, bytes) else json.dumps(body).encode())


@hypothesis.given(body=JSON, status=st.sampled_from([200, 202, 400, 403, 404, 409, 500, 503]))
def test_any_body_is_read_without_a_traceback(body: Any, status: int) -> None:
    given = answer(status, body)
    for method in ("GET", "POST"):
        problem = answers.refusal(given, method, "https://bmc")
        assert problem is None or isinstance(problem, FleetError)
        assert method != "GET" or (problem is None) is (status < 400)
    assert answers.said(given).startswith(f"HTTP {status}")


@hypothesis.settings(max_examples=at_most(200), deadline=None, suppress_health_check=list(hypothesis.HealthCheck))
@hypothesis.given(documents=st.lists(JSON | st.binary(max_size=30), min_size=1, max_size=6))
def test_any_tree_is_walked_without_a_traceback(documents: list[Any]) -> None:
    """A BMC that answers anything at all to anything: every call ends in an error of ours, or in none."""
    turn = iter(range(10**6))
    params = {"bmc_address": "https://bmc", "bmc_username": "u", "bmc_password": "p", "timeout": 0.0}
    original = Link._request
    Link._request = lambda *rest: answer(200, documents[next(turn) % len(documents)])  # type: ignore[method-assign]
    try:
        for part, call in (
            ("power", "state"), ("boot", "override"), ("identify", "identity"), ("power", "offer"), ("boot", "offer"),
        ):  # fmt: skip
            bmc = RedfishBmc(params, Context())
            try:
                getattr(getattr(bmc, part), call)()
                bmc.boot.set_once(c.PXE, c.KEEP, "", destructive=False)
                bmc.power.set(c.POWER_ON, destructive=False)
            except FleetError:
                pass
    finally:
        Link._request = original  # type: ignore[method-assign]


def extended(*items: dict[str, Any]) -> dict[str, Any]:
    return {"error": {"code": "x", "message": "y", "@Message.ExtendedInfo": list(items)}}


@pytest.mark.parametrize(
    "status,body,kind",
    [
        (204, b"", None),
        (200, b"", None),
        (200, {"@Message.ExtendedInfo": [{"MessageId": "Base.1.8.Success", "Severity": "OK"}]}, None),
        (200, {"@Message.ExtendedInfo": [{"MessageId": "iLO.2.14.SystemResetRequired", "Severity": "Warning"}]}, None),
        (200, {"error": {"code": "iLO.0.10.ExtendedInfo", "message": "See", "@Message.ExtendedInfo": [
            {"MessageId": "Base.1.4.Success"}]}}, None),
        (200, extended({"MessageId": "Base.1.8.PropertyValueNotInList", "Severity": "Warning"}), Refused),
        (202, extended({"MessageId": "Base.1.8.GeneralError", "Severity": "Critical"}), Refused),
        (401, b"<html>", AuthFailed),
        (403, extended({"MessageId": "Base.1.8.PasswordChangeRequired"}), AuthFailed),
        (403, extended({"MessageId": "SMC.1.0.OemLicenseNotPassed"}), Refused),
        (503, b"<html>", c.NotNow),
        (503, extended({"MessageId": "SMC.1.0.OemLicenseNotPassed"}), Refused),
        (400, extended({"MessageId": "IDRAC.2.8.SWC0700"}), c.NotNow),
        (429, b"", c.NotNow),
    ],
)  # fmt: skip
def test_what_answers_to_a_write_stand_for(status: int, body: Any, kind: Any) -> None:
    problem = answers.refusal(answer(status, body), "PATCH", "https://bmc")
    assert (problem is None) if kind is None else problem.__class__ is kind


@pytest.mark.parametrize("given,seconds", [("3", 3.0), ("", 0.0), ("soon", 0.0), ("-4", 0.0), ("9999", 120.0)])
def test_retry_after(given: str, seconds: float) -> None:
    assert answers.retry_after(answer(503, b"", **{"Retry-After": given})) == seconds


def test_rows_match_on_all_they_name() -> None:
    rows = (
        Quirk("one", {"vendor": ("HPE",), "model": ("A", "B")}, "power_never", ("X",), "test"),
        Quirk("two", {"vendor": ("HPE",)}, "power_omit", ("Y",), "test"),
    )
    both = matching(rows, {"vendor": "HPE", "model": "A"})
    assert {key: row.name for key, row in both.items()} == {"power_never": "one", "power_omit": "two"}
    assert list(matching(rows, {"vendor": "HPE", "model": "A "})) == ["power_omit"]
    assert matching(rows, {"vendor": "hpe", "model": "A"}) == {}
    assert matching(rows, {"model": "A"}) == {}


def test_every_row_is_whole() -> None:
    known = {"boot_readback", "boot_request", "boot_omit", "boot_target_alias", "boot_target_unlisted", "boot_settings",
             "power_also", "power_names", "power_never", "power_on_again", "restart_counter",
             "start_stage"}  # fmt: skip
    rows = (*quirks.QUIRKS, *ipmi_quirks.QUIRKS)
    assert len({row.name for row in rows}) == len(rows)
    for row in rows:
        assert row.behaviour in known and row.match and row.source
        assert all(isinstance(values, tuple) and all(values) for values in row.match.values()), row.name
    assert {row.value for row in rows if row.behaviour == "boot_readback"} == {"blind"}


#: Its SerialNumber is the board's, and its SKU the machine's own.
DELL = {"Manufacturer": "Dell Inc.", "SerialNumber": "CN7016"}


def system(name: str, **more: Any) -> dict[str, Any]:
    action = {"#ComputerSystem.Reset": {"target": f"/Systems/{name}/reset"}}
    return {"@odata.id": f"/Systems/{name}", "Id": name, "Actions": action, "Bios": {"@odata.id": "/b"}, **more}


@pytest.mark.parametrize(
    "systems,given,chosen",
    [
        ([system("1")], {}, "1"),
        ([system("HGX_Baseboard_0"), system("DGX")], {}, "DGX"),
        ([system("board", Actions={}), system("host")], {}, "host"),
        ([system("card", SystemType="DPU"), system("host")], {}, "host"),
        ([system("a", Bios=None), system("b")], {}, "b"),
        ([system("a", SerialNumber="S1"), system("b", SerialNumber="S2 ")], {"serial": "S2"}, "b"),
        ([system("a", SKU="S2", **DELL), system("b", SKU="S3", **DELL)], {"serial": "s3"}, "b"),
        ([system("a"), system("b")], {"wanted": "b"}, "b"),
        ([system("a"), system("b", UUID="u-u")], {"wanted": "u-u"}, "b"),
        ([system("a"), system("b", EthernetInterfaces={"@odata.id": "/nics"})], {"mac": "AA-bb-00-00-00-01"}, "b"),
    ],
)
def test_which_system_is_the_machine(systems: list[dict[str, Any]], given: dict[str, str], chosen: str) -> None:
    documents = {str(doc["@odata.id"]): doc for doc in systems}
    documents["/Systems"] = {"Members": [{"@odata.id": uri} for uri in documents]}
    documents["/nics"] = {"Members": [{"@odata.id": "/nic"}]}
    documents["/nic"] = {"MACAddress": "aa:bb:00:00:00:01"}
    found = select.choose({"Systems": {"@odata.id": "/Systems"}}, documents.__getitem__, **given)
    assert found["Id"] == chosen


@pytest.mark.parametrize(
    ("given", "chosen"),
    [
        *(({}, ""), ({"serial": "S1"}, "a"), ({"serial": "S2"}, "")),
        *(({"mac": "aa:bb:00:00:00:01"}, "a"), ({"wanted": "a"}, "a")),
    ],
)
@pytest.mark.parametrize("silent", ["b", "HGX_Baseboard_0"])
def test_b4_a_system_that_does_not_answer_may_be_the_machine(given: dict[str, str], chosen: str, silent: str) -> None:
    """Then the last that is left is not the machine for want of another, unless it is known to be."""

    def read(uri: str) -> dict[str, Any]:
        if uri == f"/Systems/{silent}":
            raise BadAnswer("the BMC failed to answer")
        return documents[uri]

    documents = {
        "/Systems": {"Members": [{"@odata.id": f"/Systems/{name}"} for name in (silent, "a")]},
        "/Systems/a": system("a", SerialNumber="S1", EthernetInterfaces={"@odata.id": "/nics"}),
        "/nics": {"Members": [{"@odata.id": "/nic"}]},
        "/nic": {"MACAddress": "aa:bb:00:00:00:01"},
    }
    root = {"Systems": {"@odata.id": "/Systems"}}
    if chosen or silent.startswith("HGX_"):
        assert select.choose(root, read, **given)["Id"] == "a"
    else:
        with pytest.raises(ConfigError, match=r"a \(serial S1\), and without an answer: b"):
            select.choose(root, read, **given)


@pytest.mark.parametrize(
    ("uri", "inside"),
    [
        ("/redfish/v1/Systems/1", True), ("/redfish/v1/Systems/1/", True), ("/redfish/v1/systems/1/Settings", True),
        ("/redfish/v1/Systems/1/Actions/ComputerSystem.Reset", True), ("/redfish/v1/Systems/10", False),
        ("/redfish/v1/Systems", False), ("/redfish/v1/Systems/2/Settings", False), ("/", False), ("", False),
    ],
)  # fmt: skip
def test_b4_what_is_a_part_of_a_system(uri: str, inside: bool) -> None:
    assert select.within(uri, "/redfish/v1/Systems/1") is inside
    assert select.within(uri, "/redfish/v1/Systems/1/") is inside


def test_b6_pages_that_are_all_different_have_an_end() -> None:
    read: list[str] = []

    def page(uri: str) -> dict[str, Any]:
        read.append(uri)
        assert len(read) < 5_000, "it would go on for ever"
        return {"Members": [], "Members@odata.nextLink": f"/Systems?$skip={len(read)}"}

    with pytest.raises(BadAnswer, match="no end"):
        select.members_of(page, "/Systems")
    assert len(read) == 200


TWO = {"serial": ("S1", "S2"), "mac": ("aa:bb:00:00:00:01", "aa:bb:00:00:00:02")}


def chosen_of_two(**given: str) -> str:
    """Which of two machines behind one BMC; empty where somebody has to say."""
    documents: dict[str, Any] = {"/Systems": {"Members": [{"@odata.id": "/Systems/a"}, {"@odata.id": "/Systems/b"}]}}
    for name, serial, mac in zip("ab", *TWO.values()):
        nics = {"@odata.id": f"/nics/{name}"}
        documents[f"/Systems/{name}"] = system(name, SerialNumber=serial, EthernetInterfaces=nics)
        documents[f"/nics/{name}"] = {"Members": [{"@odata.id": f"/nic/{name}"}, {"@odata.id": "/nic/none"}]}
        documents[f"/nic/{name}"] = {"PermanentMACAddress": mac, "MACAddress": "02:00:00:00:00:0f"}
    documents["/nic/none"] = {"MACAddress": None}
    try:
        found = select.choose({"Systems": {"@odata.id": "/Systems"}}, documents.__getitem__, **given)
    except ConfigError as exc:
        assert "S1" in exc.seen and "S2" in exc.seen
        return ""
    return str(found["Id"])


@pytest.mark.parametrize(
    "given,chosen",
    [
        ({}, ""),
        ({"serial": "S1"}, "a"),
        ({"serial": " S2 "}, "b"),
        ({"serial": "s2"}, "b"),
        ({"serial": "S3"}, ""),
        ({"mac": "AABB00000002"}, "b"),
        ({"mac": "aa-bb-00-00-00-01"}, "a"),
        ({"mac": "aa:bb:00:00:00:03"}, ""),
        ({"mac": "02:00:00:00:00:0f"}, ""),
        ({"serial": "S1", "mac": "aa:bb:00:00:00:02"}, "a"),
        ({"serial": "S3", "mac": "aa:bb:00:00:00:02"}, "b"),
    ],
)
def test_t1_one_of_two_machines_is_told_by_serial_or_port(given: dict[str, str], chosen: str) -> None:
    assert chosen_of_two(**given) == chosen


@pytest.mark.parametrize(
    ("given", "chosen"),
    [
        ({}, ""),
        ({"serial": "HA19340017"}, ""),
        ({"serial": "ha19340017", "mac": "aa:bb:00:00:00:02"}, "Node1"),
        ({"mac": "aa:bb:00:00:00:01"}, "Node0"),
        ({"serial": "HA19340017", "mac": "aa:bb:00:00:00:03"}, ""),
        ({"serial": "HA19340017", "system_uuid": "5AC00000-0000-4000-8000-000000000002"}, "Node1"),
        ({"serial": "HA19340017", "system_uuid": "03000200-0400-0500-0006-000700080009"}, ""),
    ],
)
def test_r7_of_two_nodes_with_one_serial_the_uuid_or_the_port_decides(given: dict[str, str], chosen: str) -> None:
    """Both nodes of a blade tell the serial of the blade, as they were recorded (Cray EX425)."""
    documents: dict[str, Any] = {"/Systems": {"Members": [{"@odata.id": f"/Systems/Node{n}"} for n in (0, 1)]}}
    for number in (0, 1):
        own = f"5ac00000-0000-4000-8000-00000000000{number + 1}"
        board = "03000200-0400-0500-0006-000700080009"
        documents[f"/Systems/Node{number}"] = system(
            f"Node{number}", SerialNumber="HA19340017", UUID=board if given.get("system_uuid") == board else own,
            EthernetInterfaces={"@odata.id": f"/nics/{number}"},
        )  # fmt: skip
        documents[f"/nics/{number}"] = {"Members": [{"@odata.id": f"/nic/{number}"}]}
        documents[f"/nic/{number}"] = {"MACAddress": f"aa:bb:00:00:00:0{number + 1}"}
    try:
        found = select.choose({"Systems": {"@odata.id": "/Systems"}}, documents.__getitem__, **given)
    except ConfigError as exc:
        assert "Node0" in exc.seen and "Node1" in exc.seen and chosen == ""
        return
    assert found["Id"] == chosen
