# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What actions fill in of the ledger and of the controller's files, on which their verbs refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.action import ledger_event, node_passport, provisioner_wait
from ansible_collections.gpufleet.baremetal.plugins.module_utils._image import declaration
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Event, Result
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._door import VerbAction
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._in_force import profile_of
from ansible_collections.gpufleet.baremetal.tests.unit.plugins.doors import Door
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from passports import ASKED, BMC, KEY, MACHINE, PUBLIC, verdict

SKU = "h100-sxm-8"
PROFILE = {"sku": SKU, "digest": profile_of({"sku": SKU}).digest}
GOLD = {"name": "gold", "version": "1", "url": "http://127.0.0.1:9/gold"}


def serial(host: str) -> str:
    return f"GF0{host[-3:]}"


def tell(folder: Path, kind: str, name: str, data: Any = None, *, host: str = "gpu001", run: str = "other") -> int:
    with Ledger(f"sqlite:///{folder}/ledger.sqlite") as ledger:
        node = ledger.identify(host, aliases=[("serial", serial(host))])
        looked = ledger.moment().as_data() if kind == "verdict" else {}
        return ledger.append(run, [(node, Event(kind, name, {**(data or {}), **looked}))])[0]


def act(folder: Path, base: type[VerbAction], **args: Any) -> dict[str, Any]:
    return Door(folder, base.verb, base=base, name=base.NAME, own_spec=base.SPEC, args=args).run()


# -- provisioner_wait --------------------------------------------------------------------------------------------------

HOSTS = ("gpu001", "gpu002", "gpu003", "gpu004")


def watched(folder: Path, **args: Any) -> tuple[str, dict[str, Any]]:
    """This run, and which host of the batch has an image that it verified."""
    asked: dict[str, Any] = {}

    def watch(params: Any, ctx: Context) -> Result:
        asked.update(params)
        return Result(data={"verdicts": {node["host"]: {"ok": True} for node in params["nodes"]}})

    hosts = {
        host: {"gpufleet_serial": serial(host), "gpufleet_image": GOLD, "gpufleet_provisioner": "maas"}
        for host in HOSTS
    }
    shared = {"hostvars": hosts, "ansible_play_hosts": list(HOSTS), "ansible_play_batch": list(HOSTS)}
    base = provisioner_wait.ActionModule
    given = {"until": "deployed", "provisioner_url": "http://127.0.0.1:9", "provisioner_api_key": "a:b:c", **args}
    found = Door(
        folder, watch, base=base, name=base.NAME, own_spec=base.SPEC, args=given, **hosts["gpu001"], **shared
    ).run()
    assert not found.get("failed"), found
    assert [node for node in asked["nodes"] if node.get("refused")] == []
    return str(asked["run_id"]), {node["host"]: node["image_verified"] for node in asked["nodes"]}


def test_v9_a_batch_deploys_only_where_this_run_has_verified_the_image(tmp_path: Path) -> None:
    run, shown = watched(tmp_path)
    assert shown == dict.fromkeys(HOSTS, False)
    passed = {"verdict": "pass", "image": {"declared": declaration(GOLD)}}
    tell(tmp_path, "verdict", "image_artifact", passed, run=run)
    tell(tmp_path, "verdict", "image_artifact", passed, host="gpu002")
    tell(tmp_path, "verdict", "image_artifact", {**passed, "verdict": "inconclusive"}, host="gpu003", run=run)
    assert watched(tmp_path)[1] == {**dict.fromkeys(HOSTS, False), "gpu001": True}
    # Whoever gives a reason answers for it: nothing is judged, and the verb asks for nothing.
    assert watched(tmp_path, force_reason="a test")[1] == dict.fromkeys(HOSTS)


# -- node_passport -----------------------------------------------------------------------------------------------------


def issue(folder: Path, sku: str, **args: Any) -> dict[str, Any]:
    key = folder / "key.pem"
    key.write_bytes(KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    key.chmod(0o600)
    return act(
        folder, node_passport.ActionModule,
        state="issued", sku=sku, key_path=str(key), public_keys=[PUBLIC], identity=MACHINE, bmc_identity=BMC,
        **args,
    )  # fmt: skip


def passing(folder: Path) -> None:
    """Everything that a passport of this SKU asks for."""
    for name in ("image_verify", "kernel_log_gate", "dcgm_gate"):
        asked = ASKED[name] if name == "image_verify" else {**ASKED[name], "profile": PROFILE["digest"]}
        more = {} if name == "image_verify" else {"profile": PROFILE}
        tell(folder, "verdict", name, verdict(1, name, **more, asked=asked)["data"])


def test_v1_no_passport_is_issued_where_nobody_knows_the_profile_in_force(tmp_path: Path) -> None:
    """Without it any profile would do: one in which the node asks itself for nothing."""
    passing(tmp_path)
    found = issue(tmp_path, "h100-sxm-9000")
    assert found["failed"] and found["error"]["kind"] == "config", found
    assert "which profile is in force is not known" in found["msg"] and "h100-sxm-9000" in found["msg"]
    found = issue(tmp_path, SKU)
    assert not found.get("failed") and found["valid"] and found["changed"], found


# -- ledger_event ------------------------------------------------------------------------------------------------------


def failed(folder: Path, gate: str) -> int:
    return tell(folder, "verdict", gate, verdict(1, gate, "fail", profile=PROFILE, remedy="reboot")["data"])


def state(folder: Path, **args: Any) -> dict[str, Any]:
    return act(folder, ledger_event.ActionModule, **args)


@pytest.mark.parametrize("how", [{"state": "admitted"}, {"kind": "state", "name": "admitted"}])
def test_v1_however_it_is_said_a_node_with_a_failure_is_not_admitted(tmp_path: Path, how: dict[str, str]) -> None:
    tell(tmp_path, "state", "validating")
    passing(tmp_path)
    assert issue(tmp_path, SKU)["valid"]
    number = failed(tmp_path, "dcgm_gate")
    found = state(tmp_path, **how)
    assert found["failed"] and found["error"]["kind"] == "failure_stands", found
    assert f"dcgm_gate (event {number})" in found["msg"]
    lifted = state(tmp_path, kind="lift", name="dcgm_gate", reason="a loose cable", lifted_by="me")
    assert lifted["lifted"] == [number], lifted
    assert not state(tmp_path, **how).get("failed")


def test_v1_a_lift_of_one_gate_takes_no_failure_of_another(tmp_path: Path) -> None:
    log = failed(tmp_path, "kernel_log_gate")
    found = state(tmp_path, kind="lift", name="dcgm_gate", reason="a loose cable", lifted_by="me")
    assert not found["changed"] and found["lifted"] == [] and found["events"] == [], found
    diagnosis = failed(tmp_path, "dcgm_gate")
    for gate, number in (("dcgm_gate", diagnosis), ("kernel_log_gate", log)):
        found = state(tmp_path, kind="lift", name=gate, reason="a loose cable", lifted_by="me")
        assert found["changed"] and found["lifted"] == [number], found
        assert found["events"][0]["data"]["failures"] == [number]


def test_v9_a_lift_names_each_failure_whatever_the_passport_rests_on(tmp_path: Path) -> None:
    """An old failure does not say what it was asked. By the policy of this passport its pass of level 2 answers it."""
    old = verdict(1, "dcgm_gate", "fail", profile=PROFILE)["data"]
    number = tell(tmp_path, "verdict", "dcgm_gate", {key: value for key, value in old.items() if key != "asked"})
    passing(tmp_path)
    weak = {**ASKED["dcgm_gate"], "level": 2, "profile": PROFILE["digest"]}
    tell(tmp_path, "verdict", "dcgm_gate", verdict(1, "dcgm_gate", profile=PROFILE, asked=weak)["data"])
    issued = issue(tmp_path, SKU, policy={"gates": {"dcgm_gate": {"level": 2}}})
    assert issued.get("valid"), issued
    found = state(tmp_path, kind="lift", name="dcgm_gate", reason="a loose cable", lifted_by="me")
    assert found["lifted"] == [number], found
