# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who a node is as far as the controller knows, and whether the machine that answers is it."""

from __future__ import annotations

import os
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional

import pytest
from ansible_collections.gpufleet.baremetal.plugins.action import image_verify
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, WrongMachine
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust import dsse, statement
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.specs import IMAGE_VERIFY
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _machine
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._machine import Known
from ansible_collections.gpufleet.baremetal.tests.unit.plugins.doors import Door
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

THIS, OTHER = str(uuid.UUID(int=7)), str(uuid.UUID(int=9))
SWAPPED = str(uuid.UUID(bytes_le=uuid.UUID(THIS).bytes))


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(f"sqlite:///{tmp_path}/own.sqlite")


def looked(ledger: Ledger, run: str, verdict: Optional[str], finding: str = "") -> str:
    node = ledger.identify("gpu001", aliases=[("serial", "GF0001")])
    checks = [{"id": "manifest", "verdict": "pass"}, *([{"id": "machine", "verdict": verdict}] if verdict else [])]
    data = {"verdict": "fail", "checks": checks, "findings": [{"id": finding, "text": "x"}] if finding else []}
    ledger.append(run, [(node, Event("verdict", "image_verify", data))])
    return node


@pytest.mark.parametrize(
    ("verdict", "wanted"), [("pass", True), ("fail", False), ("inconclusive", False), (None, None)]
)
def test_v2_what_the_bmc_said_in_this_run_counts(
    ledger: Ledger, verdict: Optional[str], wanted: Optional[bool]
) -> None:
    assert _machine.proven(ledger, ledger.identify("n", aliases=[("serial", "x")]), "r1") is None
    node = looked(ledger, "r1", verdict)
    assert _machine.proven(ledger, node, "r1") is wanted and _machine.proven(ledger, node, "r2") is None
    looked(ledger, "r2", "pass")
    assert _machine.proven(ledger, node, "r1") is None


def passport(ledger: Ledger, node: str, serial: str, system_uuid: str) -> None:
    subject = {"serial": serial, "system_uuid": system_uuid, "gpu_uuids": []}
    made_of: dict[str, Any] = {"subject": statement.subject_of(subject), "predicate": {}}
    envelope = dsse.sign(made_of, Ed25519PrivateKey.generate())
    ledger.save_passport("r", node, issued=1.0, expires=2.0, digest="d", envelope=envelope)


def test_v2_a_node_is_known_by_inventory_ledger_and_passport(ledger: Ledger) -> None:
    node = ledger.identify("gpu001", aliases=[("mac", "52:54:00:00:00:01")])
    nothing = Known()
    assert _machine.known(ledger, node, {}) == nothing
    passport(ledger, node, "GF0001", THIS)
    assert _machine.known(ledger, node, {}) == Known(("GF0001",), (THIS,))
    assert _machine.known(ledger, node, {"serial": "GF0002"}) == Known(("GF0002",), (THIS,), remembered=True)
    assert _machine.known(ledger, node, {"system_uuid": OTHER}) == Known(("GF0001",), (OTHER,))
    ledger.save_passport("r", node, issued=1.0, expires=2.0, digest="d", envelope={"payload": 7})
    assert _machine.known(ledger, node, {}) == nothing
    named = ledger.identify("gpu002", aliases=[("serial", "GF0002"), ("system_uuid", OTHER)])
    assert _machine.known(ledger, named, {"serial": None}) == Known(("GF0002",), (OTHER,))


def test_n3_of_the_serials_that_a_ledger_has_each_is_the_nodes(ledger: Ledger) -> None:
    """Older ledgers have two."""
    node = ledger.identify("gpu001", aliases=[("serial", "CN7016"), ("serial", "6XYZ003")])
    ours = _machine.known(ledger, node, {})
    for serial in ("CN7016", "6xyz003"):
        _machine.demand("gpu001", ours, {"serial": serial, "system_uuid": ""})
    with pytest.raises(WrongMachine, match="serial 6XYZ003 or CN7016"):
        _machine.demand("gpu001", ours, {"serial": "GF0009", "system_uuid": ""})
    with pytest.raises(WrongMachine):  # the inventory has said which one
        said = _machine.known(ledger, node, {"serial": "6XYZ003"})
        _machine.demand("gpu001", said, {"serial": "CN7016", "system_uuid": ""})


def test_r4_the_sibling_in_a_chassis_of_one_serial_is_another_machine(ledger: Ledger) -> None:
    """The rows leave the serial out and name boot ports, as they have to: passports alone tell it, and the UUID."""
    node = ledger.identify("gpu001", aliases=[("mac", "52:54:00:00:00:01")])
    passport(ledger, node, "CH1", THIS)
    ours = _machine.known(ledger, node, {"serial": "", "system_uuid": ""})
    _machine.demand("gpu001", ours, {"serial": "CH1", "system_uuid": THIS})
    with pytest.raises(WrongMachine, match="another machine answers") as refused:
        _machine.demand("gpu001", ours, {"serial": "CH1", "system_uuid": OTHER})
    assert "--limit" in refused.value.do, "it is said of one node"


def test_r4_a_board_that_the_bmc_vouches_for_is_not_held_against_the_passport_of_before(ledger: Ledger) -> None:
    """In such a chassis the passport alone told its UUID; inventory and ledger count all the same."""
    node = ledger.identify("gpu001", aliases=[("mac", "52:54:00:00:00:01")])
    passport(ledger, node, "CH1", THIS)
    new = {"serial": "CH1", "system_uuid": OTHER}
    _machine.demand("gpu001", _machine.known(ledger, node, {}, signed=False), new, dry=True)
    for inventory in ({"serial": "CH2"}, {"system_uuid": THIS}):
        with pytest.raises(WrongMachine):
            _machine.demand("gpu001", _machine.known(ledger, node, inventory, signed=False), new, dry=True)


def test_n3_a_board_that_was_swapped_since_the_passport_makes_no_other_machine(ledger: Ledger) -> None:
    """Where its serial agrees. A UUID that somebody has set contradicts as ever."""
    node = ledger.identify("gpu001", aliases=[("serial", "GF0001")])
    passport(ledger, node, "GF0001", THIS)
    ours = _machine.known(ledger, node, {})
    _machine.demand("gpu001", ours, {"serial": "GF0001", "system_uuid": OTHER})
    set_by_hand = _machine.known(ledger, node, {"system_uuid": THIS})
    for mine, told in ((ours, "GF0002"), (ours, ""), (set_by_hand, "GF0001")):
        with pytest.raises(WrongMachine, match="playbook passports"):
            _machine.demand("gpu001", mine, {"serial": told, "system_uuid": OTHER})


@pytest.mark.parametrize(
    ("ours", "machine", "wrong"),
    [
        (("GF0001", ""), ("gf0001", ""), None),
        (("GF0001", THIS), ("GF0001", SWAPPED), None),
        (("", THIS), ("GF0009", THIS), None),
        (("GF0001", ""), ("GF0002", ""), WrongMachine),
        (("GF0001", THIS), ("GF0001", OTHER), WrongMachine),
        (("GF0001", THIS), ("GF0002", THIS), None),
        (("GF0001", ""), ("GF0002", THIS), WrongMachine),
        (("GF0001", ""), ("", THIS), ConfigError),
        (("", ""), ("GF0001", THIS), ConfigError),
        (("GF0001", THIS), ("", ""), ConfigError),
    ],
)
def test_v2_a_uuid_that_both_tell_decides_and_else_the_serial(
    ours: tuple[str, str], machine: tuple[str, str], wrong: Optional[type[Exception]]
) -> None:
    named = Known(*(((told,) if told else ()) for told in ours))
    answer = dict(zip(("serial", "system_uuid"), machine))
    if wrong is None:
        _machine.demand("gpu001", named, answer)
        return
    with pytest.raises(wrong) as refused:
        _machine.demand("gpu001", named, answer)
    assert ("gpufleet_serial" if any(machine) else "no gate can run") in str(refused.value)


def test_r4_a_machine_with_another_nodes_serial_is_that_node_whatever_its_uuid(ledger: Ledger) -> None:
    """Boards of one series may all have one UUID; nodes of one chassis may share a serial, and have one each."""
    node = ledger.identify("gpu001", aliases=[("serial", "GF0001"), ("mac", "52:54:00:00:00:01")])
    other = ledger.identify("gpu002", aliases=[("serial", "GF0002")])
    for serial in ("GF0001", "gf0001", "GF0003", ""):
        _machine.not_of_another(ledger, node, "gpu001", {"serial": serial, "system_uuid": THIS})
    for serial in ("GF0002", "gf0002"):
        with pytest.raises(WrongMachine, match="the ledger has for gpu002"):
            _machine.not_of_another(ledger, node, "gpu001", {"serial": serial, "system_uuid": THIS})
    passport(ledger, other, "GF0002", OTHER)
    _machine.not_of_another(ledger, node, "gpu001", {"serial": "GF0002", "system_uuid": THIS})
    for told in (OTHER, ""):
        with pytest.raises(WrongMachine):
            _machine.not_of_another(ledger, node, "gpu001", {"serial": "GF0002", "system_uuid": told})


@pytest.mark.parametrize("said", ["", "GF0001", "=gpufleet=\nGF0001\n", "=gpufleet=\n\n=gpufleet=\n\n"])
def test_v2_an_answer_that_is_none_tells_nothing(said: str) -> None:
    told = _machine.told(said)
    assert (told["serial"], told["system_uuid"]) == ("", "")
    assert told["kept"].startswith("it did not answer")
    whole = f"Welcome\r\n=gpufleet=\r\nGF0001\r\n\r\n=gpufleet=\r\n{THIS.upper()}\r\n\r\n=gpufleet=\r\n0\r\n"
    assert (_machine.told(whole)["serial"], _machine.told(whole)["system_uuid"]) == ("GF0001", THIS)
    assert _machine.told(whole)["kept"] == ""


def test_n5_who_may_not_read_the_serial_is_told_to_become_root() -> None:
    barred = "=gpufleet=\n\n=gpufleet=\n\n=gpufleet=\n1000\nproduct_serial\nproduct_uuid\n"
    for said, seen in (
        ((barred, ""), "user 1000 may not read product_serial and product_uuid"),
        (("", "sudo: a password is required\n"), "did not answer: sudo: a password is required"),
    ):
        with pytest.raises(ConfigError, match=seen) as refused:
            _machine.demand("gpu001", Known(("GF0001",)), _machine.told(*said))
        assert "as root: become" in str(refused.value) and "set gpufleet_serial" not in str(refused.value)
        _machine.demand("gpu001", Known(("GF0001",)), _machine.told(*said), dry=True)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """One that every user may look into; what pytest and TMPDIR offer may lie below a folder of ours alone."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_n5_the_question_says_which_files_are_there_and_kept_from_us(open_folder: Path) -> None:
    """Asked of a shell, as the user nobody where we are root."""
    folder = open_folder
    for name in ("product_serial", "product_uuid"):
        (folder / name).write_text("GF0001\n", encoding="utf-8")
    assert _machine.told(_asked(folder))["serial"] == "GF0001" and not _machine.told(_asked(folder))["kept"]
    (folder / "product_uuid").unlink()
    (folder / "product_serial").chmod(0)
    told = _machine.told(_asked(folder, user=65534))
    assert told["serial"] == "" and told["kept"].endswith("may not read product_serial"), told
    assert not _machine.told(_asked(folder / "nothing"))["kept"], "a machine without DMI"


def _asked(folder: Path, user: Optional[int] = None) -> str:
    as_user = {"user": user} if user and os.geteuid() == 0 else {}
    command = ["sh", "-c", _machine.question(str(folder))]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30, **as_user).stdout


@pytest.mark.parametrize(
    ("finding", "kind", "do"),
    [
        ("other_machine", WrongMachine, "correct ansible_host"),
        ("machine_unknown", ConfigError, "gpufleet_system_uuid"),
        ("", ConfigError, "become"),
    ],
)
def test_n5_what_the_bmc_could_not_tell_is_no_contradiction(
    ledger: Ledger, finding: str, kind: type[Exception], do: str
) -> None:
    node = looked(ledger, "r1", "inconclusive", finding)
    assert _machine.proven(ledger, node, "r1") is False
    found = _machine.refused(ledger, node, "gpu001")
    assert type(found) is kind and do in str(found)
    assert ("ansible_host" in str(found)) is (kind is WrongMachine)


def of_day2(
    folder: Path, serial: str, system_uuid: str, bmc: tuple[str, str] = ("", ""), **inventory: str
) -> dict[str, Any]:
    """The look before anything is taken from a node, of whose machine its BMC tells this serial and UUID."""
    dmi = folder / "dmi"
    dmi.mkdir()
    (dmi / "product_serial").write_text(serial, encoding="utf-8")
    (dmi / "product_uuid").write_text(system_uuid, encoding="utf-8")
    module, base = image_verify.ActionModule, {"name": "image_verify", "own_spec": IMAGE_VERIFY}
    args = {"mode": "machine", "dmi_path": str(dmi), "bmc_identity": dict(zip(("serial", "uuid"), bmc))}
    return Door(folder, module.verb, base=module, args=args, **base, **inventory).run()


def test_v2_without_a_word_of_the_bmc_the_inventory_says_which_machine_it_is(tmp_path: Path) -> None:
    told = of_day2(tmp_path, "GF0009", OTHER)
    assert told["failed"] and told["error"]["kind"] == WrongMachine.kind, told
    assert "another machine answers at this node's address" in told["msg"] and "GF0009" in told["msg"]


def test_v2_without_a_word_of_the_bmc_the_ledger_says_whose_serial_it_is(tmp_path: Path) -> None:
    """The UUID that a whole series of boards has agrees with the inventory."""
    with Ledger(f"sqlite:///{tmp_path}/ledger.sqlite") as known:
        known.identify("gpu002", aliases=[("serial", "GF0002")])
        known.identify("gpu001", aliases=[("serial", "GF0001")])
    told = of_day2(tmp_path, "GF0002", THIS, gpufleet_system_uuid=THIS)
    assert told["failed"] and told["error"]["kind"] == WrongMachine.kind, told
    assert "tells the serial of another node" in told["msg"] and "gpu002" in told["msg"]


def test_v2_without_a_word_of_the_bmc_the_nodes_own_machine_is_gone_on_with(tmp_path: Path) -> None:
    told = of_day2(tmp_path, "GF0001", THIS)
    assert not told.get("failed") and told["identity"]["serial"] == "GF0001", told


@pytest.mark.parametrize(("signed", "same"), [(THIS, True), (OTHER, False)], ids=["its own board", "another board"])
def test_r4_a_bmc_that_tells_the_boards_serial_and_its_node_the_chassiss_are_one_machine_by_their_uuid(
    tmp_path: Path, signed: str, same: bool
) -> None:
    """The row has what the BMC tells, the passport what the node told. Of another board it says nothing of this one."""
    with Ledger(f"sqlite:///{tmp_path}/ledger.sqlite") as known:
        passport(known, known.identify("gpu001", aliases=[("serial", "BOARD1")]), "CHASSIS1", signed)
    told = of_day2(tmp_path, "CHASSIS1", THIS, bmc=("BOARD1", THIS), gpufleet_serial="BOARD1")
    assert bool(told.get("failed")) is not same, told
