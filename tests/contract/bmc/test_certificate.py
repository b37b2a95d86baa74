# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one certificate that a BMC may show: fixed by its fingerprint, or when it is seen first."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import ssl
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.info import info
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, TrustError, Unreachable
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._transport import is_here
from fake_bmc.tls import Authority

from .conftest import Ctx
from .test_macs import SYSTEM, lists, with_cards
from .test_playbook import Make, Play
from .test_redfish import change

NODE: dict[str, Any] = {"macs": False, "timeout": 5.0}


def shown(rig: Any) -> str:
    pem = ssl.get_server_certificate(("127.0.0.1", rig.bmc.port))
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem)).hexdigest()


def colons(text: str) -> str:
    return ":".join(text[at : at + 2] for at in range(0, 64, 2)).upper()


@pytest.mark.parametrize("spelled", [str, colons, lambda text: f"SHA256:{text}"], ids=["bare", "colons", "named"])
def test_b6_the_certificate_that_is_fixed_needs_no_authority(fake: Make, spelled: Any) -> None:
    rig = fake("plain")
    assert change(rig, "on", bmc_ca_path=None, bmc_tls_fingerprint=spelled(shown(rig)))["changed"]


@pytest.mark.parametrize("more", [{}, {"bmc_ca_path": None}, {"bmc_verify_tls": False}])
def test_b6_another_certificate_gets_no_login_and_both_are_named(fake: Make, more: dict[str, Any]) -> None:
    rig, other = fake("plain"), "0" * 64
    with pytest.raises(TrustError) as caught:
        change(rig, "on", bmc_tls_fingerprint=other, **more)
    assert other in caught.value.wanted and shown(rig) in caught.value.seen and "bmc_info" in caught.value.do
    assert not rig.bmc.paths


def test_b6_an_authority_that_is_named_is_asked_all_the_same(fake: Make, tmp_path: Path) -> None:
    rig, other = fake("plain"), Authority(tmp_path / "other")
    with pytest.raises(Unreachable, match="no trusted TLS"):
        change(rig, "on", bmc_ca_path=str(other.path), bmc_tls_fingerprint=shown(rig))
    assert not rig.bmc.paths


@pytest.mark.parametrize("given", ["00:11", "z" * 64, "0" * 63, "0" * 65, "second"])
def test_b6_a_fingerprint_that_is_none(fake: Make, given: str) -> None:
    rig = fake("plain")
    with pytest.raises(ConfigError, match="SHA-256"):
        change(rig, "on", bmc_tls_fingerprint=given)
    assert not rig.bmc.paths


@pytest.mark.parametrize("auth", ["basic", "session"])
@pytest.mark.parametrize("given", ["0" * 64, "first"])
def test_v2_where_a_certificate_is_fixed_nothing_goes_out_without_tls(fake: Make, given: str, auth: str) -> None:
    rig = fake("plain", tls=False)
    for address in (rig.params["bmc_address"], rig.params["bmc_address"].replace("http:", "HTTP:")):
        pinned = {**rig.params, "bmc_address": address, "bmc_tls_fingerprint": given, "bmc_auth": auth}
        with pytest.raises(ConfigError, match="past TLS") as caught:
            info({**pinned, **NODE}, Ctx())
        assert "https://" in caught.value.wanted and caught.value.address.startswith("http://")
    assert not rig.bmc.paths
    assert info({**pinned, **NODE, "bmc_tls_fingerprint": None}, Ctx()).data["power"] == "off" and rig.bmc.paths


@pytest.mark.parametrize("address", ["http://192.0.2.7", "HTTP://192.0.2.7:8000", "http://bmc.example"])
def test_v2_where_certificates_are_verified_no_address_takes_the_login_past_tls(fake: Make, address: str) -> None:
    """It comes from an inventory, a list or a provisioner, and nobody there could verify anything."""
    rig = fake("plain", tls=False)
    for verified in ({}, {"bmc_verify_tls": True}, {"bmc_ca_path": str(Path(__file__))}):
        with pytest.raises(ConfigError, match="past TLS") as caught:
            info(
                {**rig.params, **NODE, "bmc_verify_tls": None, "bmc_ca_path": None, "bmc_address": address, **verified},
                Ctx(),
            )
        assert "gpufleet_bmc_verify_tls: false" in caught.value.do
    with pytest.raises(Unreachable):  # the site has said that it may, and nobody is there
        info({**rig.params, **NODE, "bmc_verify_tls": False, "bmc_address": "http://127.0.0.9:9", "timeout": 1}, Ctx())


@pytest.mark.parametrize("address", ["https://192.0.2.7\\@127.0.0.1", "http://127.0.0.1\\.example"])
def test_v2_an_address_that_two_libraries_read_differently_is_none(fake: Make, address: str) -> None:
    rig = fake("plain")
    with pytest.raises(ConfigError, match="cannot be used"):
        info({**rig.params, **NODE, "bmc_address": address}, Ctx())
    assert not is_here(address)


def test_b6_bmc_info_tells_the_certificate(fake: Make) -> None:
    rig = fake("plain")
    assert info({**rig.params, **NODE}, Ctx()).data["tls_fingerprint"] == shown(rig)
    plain = fake("plain", tls=False)
    assert info({**plain.params, **NODE}, Ctx()).data["tls_fingerprint"] == ""


ROLE = [{"ansible.builtin.import_role": {"name": "gpufleet.baremetal.oob_ready"}}]
FIRST = {"gpufleet_bmc_tls_fingerprint": "first"}


def is_now(rig: Any, **system: str) -> None:
    """What the machine behind this BMC calls itself."""
    rig.bmc.vendor = {**rig.bmc.vendor, "system": {**rig.bmc.vendor["system"], **system}}


def fixed(play: Play) -> list[str]:
    """The certificates that the ledger has, in the order in which they were fixed."""
    with sqlite3.connect(play.ledger) as ledger:
        found = list(ledger.execute("SELECT data FROM events WHERE name = 'bmc_certificate' ORDER BY id"))
    return [json.loads(row[0])["sha256"] for row in found]


@pytest.mark.slow
def test_v2_the_certificate_of_another_machines_bmc_is_not_fixed(tmp_path: Path, fake: Make) -> None:
    rig, other = fake("plain"), fake("plain")
    play = Play(tmp_path, rig)
    play.host.pop("gpufleet_bmc_ca_path")
    wrong = {**FIRST, "gpufleet_bmc_address": other.bmc.url}
    its, ours = "5ac00000-0000-4000-8000-0000000000ff", "5AC00000-0000-4000-8000-000000000001"
    for system, told in (
        ({"SerialNumber": "SN-OF-ANOTHER", "UUID": its}, "SN-OF-ANOTHER"),
        ({"SerialNumber": "SN0001", "UUID": its}, its),
        ({"SerialNumber": "To be filled by O.E.M.", "UUID": ""}, "serial (none), system_uuid (none)"),
    ):
        is_now(other, **system)
        assert play.ansible(ROLE, **wrong, gpufleet_system_uuid=ours).returncode == 2
        assert "not proven to be this node's" in play.output and told in play.output
    # A person who names the certificate vouches for it, but not against what the BMC says.
    named = {**wrong, "gpufleet_bmc_tls_fingerprint": shown(other)}
    is_now(other, SerialNumber="SN-OF-ANOTHER")
    assert play.ansible(ROLE, **named).returncode == 2 and "SN-OF-ANOTHER" in play.output
    assert fixed(play) == []
    assert play.ansible(ROLE, **FIRST, gpufleet_system_uuid=ours).returncode == 0, play.output
    assert fixed(play) == [shown(rig)]


def serials(play: Play) -> list[tuple[str, str]]:
    """Which serial is which node's in the ledger."""
    with sqlite3.connect(play.ledger) as ledger:
        return sorted(ledger.execute("SELECT value, node_id FROM aliases WHERE kind = 'serial'"))


KNOWN = {"gpufleet.baremetal.ledger_event": {"kind": "note", "name": "x", "reason": "known"}}


@pytest.mark.slow
@pytest.mark.parametrize("by", ["mac", "id"])
def test_v2_a_node_whose_serial_only_the_ledger_knows_is_not_taken_for_another(
    tmp_path: Path, fake: Make, by: str
) -> None:
    rig, other = fake("plain"), fake("plain")
    play = Play(tmp_path, rig)
    play.host.pop("gpufleet_bmc_ca_path")
    assert play.ansible([KNOWN]).returncode == 0, play.output
    [(serial, node)] = serials(play)
    play.host.pop("gpufleet_serial")
    if by == "id":
        play.host.pop("gpufleet_boot_mac")
        play.host["gpufleet_node_id"] = node
    act: list[Any] = [*ROLE, {"gpufleet.baremetal.redfish_power": {"state": "on"}}]
    wrong, named = {"gpufleet_bmc_address": other.bmc.url}, {"gpufleet_bmc_tls_fingerprint": shown(other)}
    for told in ("SN-OF-ANOTHER", ""):
        is_now(other, SerialNumber=told, UUID="")
        assert play.ansible(act, **wrong, **FIRST).returncode == 2
        assert "not proven to be this node's" in play.output and "serial SN0001" in play.output
    is_now(other, SerialNumber="SN-OF-ANOTHER")
    assert play.ansible(act, **wrong, **named).returncode == 2 and "identity=replaced" in play.output
    # Where no certificate is fixed at all, the ledger itself takes no second serial.
    assert play.ansible(act, **wrong, gpufleet_bmc_verify_tls=False).returncode == 2
    words = "knows this node by another serial" if by == "id" else "nothing shows that 52:54:00:00:00:01 is this"
    assert words in " ".join(play.output.split()), play.output
    assert fixed(play) == [] and serials(play) == [(serial, node)] and other.writes() == 0
    assert play.ansible(act, **FIRST).returncode == 0, play.output
    assert fixed(play) == [shown(rig)] and serials(play) == [(serial, node)] and rig.writes() == 1


@pytest.mark.slow
@pytest.mark.parametrize("named", [False, True], ids=["mac", "serial"])
def test_v2_a_chassis_that_was_replaced_has_its_own_record_once_the_old_one_is_retired(
    tmp_path: Path, fake: Make, named: bool
) -> None:
    """Network card and address go on; serial and BMC are new."""
    rig, new = fake("plain"), fake("plain")
    play = Play(tmp_path, rig)
    play.host.pop("gpufleet_bmc_ca_path")
    look = [*ROLE, KNOWN]
    assert play.ansible(look, **FIRST).returncode == 0, play.output
    is_now(new, SerialNumber="SN-NEW", UUID="5ac00000-0000-4000-8000-0000000000ff")
    with_cards(new, EthernetInterfaces=lists(new, SYSTEM, "52:54:00:00:00:01"))
    play.host.update(gpufleet_bmc_address=new.bmc.url, gpufleet_bmc_tls_fingerprint=shown(new))
    play.host.pop("gpufleet_serial")
    play.host.update({"gpufleet_serial": "SN-NEW"} if named else {})
    assert play.ansible(look).returncode == 2 and "identity=replaced" in play.output
    retire = {"gpufleet.baremetal.ledger_event": {"state": "retired", "reason": "chassis replaced"}}
    assert play.ansible([retire], ("-e", "gpufleet_serial=")).returncode == 0, play.output
    assert play.ansible(look).returncode == 0, play.output
    assert play.ansible([*look, {"gpufleet.baremetal.redfish_power": {"state": "on"}}], **FIRST).returncode == 0
    (old_serial, old), (new_serial, its) = sorted(serials(play), reverse=True)
    assert (old_serial, new_serial) == ("SN0001", "SN-NEW") and old != its
    assert fixed(play) == [shown(rig), shown(new)] and new.writes() == 1


@pytest.mark.slow
@pytest.mark.parametrize("whose", ["other1", "node1"])
def test_v2_what_a_bmc_says_changes_no_certificate_of_a_node(tmp_path: Path, fake: Make, whose: str) -> None:
    """The inventory says nothing of the host, and its BMC tells the serial of a node that the ledger knows."""
    rig, other = fake("plain"), fake("plain")
    play = Play(tmp_path, rig)
    for name in ("gpufleet_bmc_ca_path", "gpufleet_serial", "gpufleet_boot_mac"):
        play.host.pop(name)
    with Ledger(play.host["gpufleet_ledger_url"]) as ledger:
        ledger.identify(whose, aliases=[("serial", "SN0001")])
    named = {"gpufleet_bmc_address": other.bmc.url, "gpufleet_bmc_tls_fingerprint": shown(other)}
    before = []
    if whose == "node1":  # only another host's node is kept from a first certificate
        assert play.ansible(ROLE, **FIRST).returncode == 0, play.output
        before = [shown(rig)]
    for more in (named, {**named, **FIRST}):
        assert play.ansible(ROLE, **more).returncode == 2
        if more is named or not before:
            assert f"ledger knows as {whose}" in play.output and "name gpufleet_serial" in play.output
        assert fixed(play) == before
    # Whoever knows which machine it is says so.
    assert play.ansible(ROLE, **named, gpufleet_serial="SN0001").returncode == 0, play.output
    assert fixed(play) == [*before, shown(other)]


@pytest.mark.slow
@pytest.mark.parametrize("known_by", [{}, {"gpufleet_boot_mac": "52:54:00:00:00:01"}], ids=["bmc", "mac"])
def test_v2_a_node_that_is_known_by_its_bmc_can_have_a_certificate(
    tmp_path: Path, fake: Make, known_by: dict[str, str]
) -> None:
    rig, other = fake("plain"), fake("plain")
    play = Play(tmp_path, rig)
    for name in ("gpufleet_bmc_ca_path", "gpufleet_serial", "gpufleet_boot_mac"):
        play.host.pop(name)
    play.host.update(known_by)
    with_cards(rig, EthernetInterfaces=lists(rig, SYSTEM, "52:54:00:00:00:01"))
    switch = {"gpufleet.baremetal.redfish_power": {"state": "on"}}
    assert play.ansible([switch], **FIRST).returncode == 2 and "is not fixed yet" in play.output
    assert play.ansible([*ROLE, switch], **FIRST).returncode == 0, play.output
    assert fixed(play) == [shown(rig)]
    assert play.ansible(ROLE, **FIRST).returncode == 0, play.output
    assert play.ansible(ROLE, gpufleet_bmc_tls_fingerprint=shown(rig)).returncode == 0, play.output
    # Whoever shows another certificate and the same serial is not taken for a BMC that is seen first.
    assert play.ansible(ROLE, **FIRST, gpufleet_bmc_address=other.bmc.url).returncode == 2
    assert shown(rig) in play.output and shown(other) in play.output
    assert fixed(play) == [shown(rig)]
    # One of which neither side says who it is has nobody's certificate.
    is_now(rig, SerialNumber="")
    if not known_by:
        assert play.ansible(ROLE, **FIRST).returncode == 2 and "nothing tells which machine this is" in play.output


@pytest.mark.slow
@pytest.mark.parametrize("spelling", ["first", "First", " first"])
def test_b6_what_is_seen_first_is_fixed_in_the_ledger(tmp_path: Path, fake: Make, spelling: str) -> None:
    rig, other = fake("plain"), fake("plain")
    play = Play(tmp_path, rig)
    play.host.pop("gpufleet_bmc_ca_path", None)
    look = [{"gpufleet.baremetal.bmc_info": {"macs": False}}]
    switch = [{"gpufleet.baremetal.redfish_power": {"state": "on"}}]
    first = {"gpufleet_bmc_tls_fingerprint": spelling}
    # Nothing is written to a BMC whose certificate nobody has looked at.
    assert play.ansible(switch, **first).returncode == 2 and "is not fixed yet" in play.output
    assert play.ansible(look, **first).returncode == 0, play.output
    assert play.ansible(switch, **first).returncode == 0, play.output
    # Another certificate at the same address, as a BMC that was replaced, or somebody in between.
    changed = {**first, "gpufleet_bmc_address": other.bmc.url}
    assert shown(other) != shown(rig)
    assert play.ansible(look, **changed).returncode == 2
    assert shown(rig) in play.output and shown(other) in play.output
    assert not other.bmc.paths
    # A person who knows of it names the new one, once.
    assert play.ansible(look, **{**changed, "gpufleet_bmc_tls_fingerprint": shown(other)}).returncode == 0, play.output
    assert play.ansible(switch, **changed).returncode == 0, play.output
    assert play.ansible(look, **first).returncode == 2
