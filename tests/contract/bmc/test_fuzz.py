# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Mutates what BMCs answer: an error of ours comes out or a result, and a result claims what the BMC has said.

What a claim needs is said here a second time, in the plainest way, out of the answers as they left the server. `make
fuzz` runs this for long.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import boot as boot_verb
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import settle
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.boot import pxe_boot
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.info import info
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.ipmi import link as ipmi_link
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.ipmi.driver import IpmiBmc
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.power import power
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish import link as redfish_link
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish import machine as redfish
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from ansible_collections.gpufleet.baremetal.tests.unit.mutated import in_document, tried
from fake_bmc.ipmi_memory import Session
from fake_bmc.redfish_server import PASSWORD, USER, FakeBmc
from hypothesis import given
from hypothesis import strategies as st

from .conftest import POWER, PXE, Ctx
from .test_macs import members, ref

SYSTEM, NEIGHBOUR = "/redfish/v1/Systems/1", "/redfish/v1/Systems/Node1"
#: The other system's place for resets, and its settings.
ITS_RESET = f"{NEIGHBOUR}/Actions/ComputerSystem.Reset"
SERIAL, OTHER = "SN0001", "OTHER"
#: Makers with different documents: settings beside the system, an ActionInfo, whole requests, a maker's own part; two
#: machines in one chassis; a machine beside a baseboard of GPUs.
MAKERS = ("plain", "idrac10", "supermicro", "lenovo", "bluefield", "blades", "dgx")
#: What stands beside the machine of the last two, and says the opposite of it.
BESIDE = {"blades": "Node1", "dgx": "HGX_Baseboard_0"}
Part = st.floats(min_value=0, max_value=1, exclude_max=True)
VALUES = st.sampled_from(
    [None, "", 0, 1, -1.5, True, [], {}, "On", "Off", "Once", "Pxe", "/", "//", "/redfish/v1/", "http://[",
     "\u0000", [[]], {"@odata.id": None}, {"@odata.id": 7}, {"@odata.id": "http://["}, [None], [{"@odata.id": SYSTEM}],
     "x" * 5000, "b8:3f:d2:90:97:c4", 10**400, NEIGHBOUR, ITS_RESET, OTHER, {"@odata.id": NEIGHBOUR},
     {"SettingsObject": {"@odata.id": NEIGHBOUR}}, [{"@odata.id": NEIGHBOUR}]]
)  # fmt: skip
IN_TREE = st.tuples(st.sampled_from(["drop", "set", "wrap", "twice"]), Part, VALUES)
IN_TEXT = st.tuples(
    st.sampled_from(["cut", "behead", "double", "other", "status", "location", "etag", "retry"]),
    Part,
    st.sampled_from(
        [b"", b"null", b"<html>", b"deep", b"\xff", b'{"error": {"@Message.ExtendedInfo": [null, 7]}}'],
    ),
)
#: Which answer of a run is mutated, and how.
MUTATIONS = st.lists(st.tuples(st.integers(0, 12), st.one_of(IN_TREE, IN_TEXT)), min_size=1, max_size=3)
STATUSES = (100, 199, 204, 206, 301, 307, 400, 404, 409, 412, 418, 428, 500, 599, 202, 201)


def in_tree(data: bytes, kind: str, part: float, value: Any) -> bytes:
    try:
        return json.dumps(in_document(data, kind, part, value)).encode()
    except (ValueError, IndexError, RecursionError):
        return data


def in_text(data: bytes, kind: str, part: float, other: bytes) -> bytes:
    at = int(part * len(data))
    other = b"[" * 100_000 if other == b"deep" else other
    return {"cut": data[:at], "behead": data[at:], "double": data + data, "other": other}.get(kind, data)


def in_head(status: int, headers: dict[str, str], kind: str, part: float) -> tuple[int, dict[str, str]]:
    odd = ("", "nonsense", "/redfish/v1/Tasks/99", "http://elsewhere.example/x", "http://[", "//", "-1", "1e999", "nan")
    value = odd[int(part * len(odd))]
    name = {"location": "Location", "etag": "ETag", "retry": "Retry-After"}.get(kind)
    if kind == "status":
        return STATUSES[int(part * len(STATUSES))], headers
    return status, {**headers, name: value} if name else headers


class Mutating:
    """Changes the answers of a server by a list of mutations, and keeps what was sent, and for which path."""

    def __init__(self, bmc: FakeBmc, mutations: list[Any]) -> None:
        self.bmc = bmc
        self.left = dict(mutations)
        self.turn = 0
        self.sent: list[tuple[str, bytes]] = []

    def __call__(self, status: int, headers: dict[str, str], data: bytes) -> tuple[int, dict[str, str], bytes]:
        mutation = self.left.get(self.turn)
        self.turn += 1
        if mutation is not None and len(mutation) == 3 and mutation[0] in ("drop", "set", "wrap", "twice"):
            data = in_tree(data, *mutation)
        elif mutation is not None:
            data = in_text(data, *mutation)
            status, headers = in_head(status, headers, mutation[0], mutation[1])
        self.sent.append((self.bmc.paths[-1].partition(" ")[2], data))
        return status, headers, data

    def said(self, *path: str, of: str = "") -> list[Any]:
        """What stood at this place in each document that was sent, in order; of one system, where it is named."""
        found = []
        for place, data in self.sent:
            if of and not part_of(place, of):
                continue
            try:
                doc = json.loads(data)
            except (ValueError, RecursionError):
                continue
            for key in path:
                doc = doc.get(key) if isinstance(doc, dict) else None
            if doc is not None:
                found.append(doc)
        return found


@pytest.fixture(autouse=True)
def hasty(quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settle, "PACE", ((float("inf"), 0.005),))
    for module, name, value in (
        (redfish_link, "PATIENCE_BROKEN", 0.02), (redfish_link, "PATIENCE_BUSY", 0.02),
        (redfish_link, "RETRY_SECONDS", 0.01), (redfish_link, "READ_SECONDS", 2.0),
        (redfish, "_AGAIN_SECONDS", 0.01), (redfish, "_SETTLE_SECONDS", 0.01),
        (boot_verb, "_READBACK_SECONDS", 0.05), (boot_verb, "_READBACK_PACE", 0.01),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, value)


def part_of(path: str, base: str) -> bool:
    return path == base or path.startswith(f"{base}/")


def own(bmc: FakeBmc) -> str:
    """The machine's own system."""
    return f"/redfish/v1/Systems/{next(iter(bmc.vendor['systems']))}"


def card(bmc: FakeBmc) -> None:
    place = f"{own(bmc)}/EthernetInterfaces"
    bmc.vendor["system"] = {**bmc.vendor["system"], "EthernetInterfaces": ref(place)}
    docs: dict[str, Any] = {place: members(f"{place}/1"), f"{place}/1": {"MACAddress": "B8:3F:D2:90:97:C4"}}
    bmc.faults["raw"] = {uri: json.dumps(doc).encode() for uri, doc in docs.items()}


def neighbour(bmc: FakeBmc, name: str, machine_on: bool) -> None:
    """Another system, with all that a machine has, which says the opposite of ours and that its override stands."""
    boot = {"BootSourceOverrideEnabled": "Once", "BootSourceOverrideTarget": "Pxe", "BootSourceOverrideMode": "UEFI"}
    told = {"Actions": True, "SerialNumber": OTHER, "SystemType": "Physical", "Boot": boot}
    bmc.vendor["others"] = {name: {**told, "PowerState": "Off" if machine_on else "On"}}


def params(bmc: FakeBmc, **more: Any) -> dict[str, Any]:
    login = {"bmc_address": bmc.url, "bmc_username": USER, "bmc_password": PASSWORD}
    return {**login, **({"serial": SERIAL} if bmc.vendor["others"] else {}), **more}


def ours_alone(bmc: FakeBmc, said: Mutating, method: str) -> bool:
    """Only the machine's own system was written to, so. False where the BMC gave the other one no name, or our own."""
    strange = [doc for place, data in said.sent for doc in _systems(place, data) if not part_of(place, own(bmc))]
    if any(doc.get("SerialNumber") != OTHER for doc in strange):
        return False
    for sent, path, body in bmc.writes:
        assert sent == method and part_of(path, own(bmc)), (sent, path, body)
    return True


def _systems(place: str, data: bytes) -> Iterator[dict[str, Any]]:
    """The document of a system, if this is one."""
    try:
        doc = json.loads(data)
    except (ValueError, RecursionError):
        return
    if place.startswith("/redfish/v1/Systems/") and isinstance(doc, dict) and "error" not in doc:
        yield doc


@pytest.fixture(scope="module", params=MAKERS)
def maker(request: pytest.FixtureRequest) -> Iterator[FakeBmc]:
    with FakeBmc(request.param) as bmc:
        card(bmc)
        if request.param in BESIDE:
            neighbour(bmc, BESIDE[request.param], machine_on=True)
        yield bmc


def fresh(bmc: FakeBmc, mutations: list[Any], machine_on: bool) -> Mutating:
    """The machine as it was, and its answers mutated from here on."""
    machine = bmc.machine
    machine.reset("On" if machine_on else "ForceOff")
    machine.arrive()
    machine.override.update({"enabled": "Disabled", "target": "None", "mode": "UEFI", "uri": ""})
    for name in bmc.vendor["others"]:
        neighbour(bmc, name, machine_on)
    bmc.writes.clear()
    mutating = Mutating(bmc, mutations)
    bmc.mangle = mutating
    return mutating


#: Each example is a whole run over HTTP: of a short look there are fewer.
LIKE = tried(12)


#: What a request for a network boot may hold.
ASKED = {f"BootSourceOverride{name}" for name in ("Enabled", "Target", "Mode")}


@LIKE
@given(mutations=MUTATIONS)
def test_what_a_bmc_tells_of_itself_is_what_it_said(maker: FakeBmc, mutations: list[Any]) -> None:
    said = fresh(maker, mutations, machine_on=True)
    try:
        found = info(params(maker, timeout=0.3), Ctx()).data
    except FleetError as exc:
        assert exc.what
        return
    json.dumps(found)
    text = b" ".join(data for _place, data in said.sent).decode("utf-8", "replace")
    strings = re.sub(r"[^0-9a-z]", "", text.lower())
    for name in ("serial", "uuid", "manufacturer", "model"):
        value = found["identity"][name]
        assert re.sub(r"[^0-9a-z]", "", value.lower()) in strings, (name, value)
    assert {one["mac"] for one in found["macs"]} <= {"b8:3f:d2:90:97:c4"}
    if found["power"] in ("on", "off"):
        assert found["power"].capitalize() in said.said("PowerState")


@LIKE
@given(mutations=MUTATIONS, state=st.sampled_from(["on", "force_off", "cycle", "reset", "graceful"]), on=st.booleans())
def test_a_power_that_is_claimed_was_told(maker: FakeBmc, mutations: list[Any], state: str, on: bool) -> None:
    said = fresh(maker, mutations, machine_on=on)
    try:
        result = power(params(maker, **{**POWER, "timeout": 0.3, "graceful_timeout": 0.1, "state": state}), Ctx())
    except FleetError as exc:
        assert exc.what
        return
    finally:
        known = ours_alone(maker, said, "POST")
    goal = "On" if state in ("on", "cycle", "reset") else "Off"
    assert result.after == {"power": goal.lower()}
    of = own(maker) if known else ""
    assert said.said("PowerState", of=of)[-1] == goal
    if result.changed and result.data["proof"] == "readback":
        assert said.said("PowerState", of=of)[-2:] == [goal, goal]
    assert all({"ResetType"} == set(body) for _method, _path, body in maker.writes)
    assert {body["ResetType"] for _method, _path, body in maker.writes} <= set(maker.vendor["resets"])


@LIKE
@given(mutations=MUTATIONS, on=st.booleans())
def test_a_boot_override_that_is_claimed_was_told(maker: FakeBmc, mutations: list[Any], on: bool) -> None:
    said = fresh(maker, mutations, machine_on=on)
    try:
        result = pxe_boot(params(maker, **{**PXE, "timeout": 0.3, "force_reason": "whoever it says it is"}), Ctx())
    except FleetError as exc:
        assert exc.what
        return
    finally:
        known = ours_alone(maker, said, "PATCH")
    assert all(set(body) == {"Boot"} and set(body["Boot"]) <= ASKED for _method, _path, body in maker.writes)
    if result.data["proof"] != "readback":
        return
    told = said.said("Boot", of=own(maker) if known else "")
    shown = [boot for boot in told if isinstance(boot, dict) and boot.get("BootSourceOverrideTarget")][-1]
    assert shown["BootSourceOverrideEnabled"] == "Once"
    assert shown["BootSourceOverrideTarget"] in ("Pxe", "UefiBootNext")
    if shown["BootSourceOverrideTarget"] == "UefiBootNext":
        assert maker.writes, "nobody but us may be behind another name"


# -- IPMI ------------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(bool(ipmi_link.LIBRARY_PROBLEM), reason=f"needs pyghmi: {ipmi_link.LIBRARY_PROBLEM}")
@tried(20)
@given(
    answers=st.lists(
        st.tuples(st.sampled_from([0, 0, 0, 0x80, 0xC1, 0xCC, 0xD4, 0xD5, 0xFF]), st.binary(max_size=24)), min_size=1
    )
)
def test_ipmi_answers_of_any_length_are_errors_or_claims_that_were_told(answers: list[tuple[int, bytes]]) -> None:
    turns, told = iter([*answers, *answers]), {"status": [], "boot": []}  # type: ignore[var-annotated]

    def reply(name: str) -> Any:
        def one(_data: tuple[int, ...]) -> tuple[int, bytes]:
            code, data = next(turns, (0xC1, b""))
            told[name].append((code, data))
            return code, data

        return one

    session = Session({(0x00, 0x01): reply("status"), (0x00, 0x09): reply("boot")})
    given_params = {"bmc_address": "bmc", "bmc_username": "u", "bmc_password": "p", "timeout": 0.2}
    with IpmiBmc(given_params, Ctx()) as bmc:
        bmc.machine.link._session = session
        try:
            state, override = bmc.power.state(), bmc.boot.override()
        except FleetError as exc:
            assert exc.what
            return
    assert (told["status"][-1][1][0] & 1 == 1) is (state == "on")
    flags = told["boot"][-1][1]
    assert (override.enabled == "disabled") is not bool(flags[2] & 0x80) and flags[1] & 0x7F == 5
    assert (override.target == "pxe") is (flags[3] & 0x3C == 0x04)
