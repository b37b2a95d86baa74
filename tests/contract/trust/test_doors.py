# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Both doors of image_verify, node_passport and ledger_event, through ansible-playbook, with a ledger."""

from __future__ import annotations

import base64
import json
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust import dsse
from contract.trust.trust_site import ARTIFACT, CHECKOUT, NODE, Site, passport

#: Each test starts ansible-playbook, some of them several times.
pytestmark = pytest.mark.slow

# -- image_verify ------------------------------------------------------------------------------------------------------


def test_artifact_and_node(site: Site) -> None:
    artifact, node = (told["result"] for told in site.play(ARTIFACT, NODE))
    assert artifact["verdict"] == "pass", artifact["msg"]
    assert node["verdict"] == "pass", node["msg"]
    assert {check["id"] for check in node["checks"]} >= {"signature", "manifest", "image", "driver", "clock"}
    assert node["identity"]["serial"] == "GF0001" and not node["changed"]
    assert site.events() == [("verdict", "image_artifact"), ("verdict", "image_verify")]


def test_check_mode_judges_and_records_nothing(site: Site) -> None:
    artifact, node = (told["result"] for told in site.play(ARTIFACT, NODE, check=True))
    assert artifact["verdict"] == node["verdict"] == "pass"
    assert site.events() == []


def test_a_refusal_is_recorded_too(site: Site, machine: Any) -> None:
    machine.nvidia_smi(driver="535.104.05")
    [told] = site.play(NODE)
    assert told["outcome"] == "failed" and told["result"]["verdict"] == "fail"
    assert "wrong driver: 535.104.05 runs, the signed manifest says 590.48.01" in told["result"]["msg"]
    assert told["result"]["remedy"] == "remediate_config"
    assert site.events() == [("verdict", "image_verify")]


def test_a_wrong_signer_never_reaches_the_node(site: Site, image: Any, machine: Any) -> None:
    image.publish(signer="stranger")
    (machine.folder / "nvidia-smi").unlink()
    result = site.result(NODE)
    assert result["verdict"] == "fail" and [item["id"] for item in result["findings"]] == ["wrong_signer"]
    assert result["failed"]


def test_a_task_cannot_say_what_to_expect(site: Site) -> None:
    task = {"gpufleet.baremetal.image_verify": {"mode": "node", "expect": {"manifest_sha256": "x"}}}
    assert "expect is not for a task to set" in site.result(task)["msg"]


def test_the_sites_own_affairs_do_not_travel(site: Site) -> None:
    """Neither the ledger nor the image's addresses are told to a node."""
    site.play(NODE)
    shipped = [line for line in site.said.splitlines() if "module_args" in line]
    assert not any("sqlite" in line or "SHA256SUMS.asc" in line for line in shipped)


def test_a_jump_host_verifies_by_itself(site: Site) -> None:
    result = site.result({**ARTIFACT, "delegate_to": "jump"})
    assert "verdict" in result, result
    assert result["verdict"] == "pass", result["msg"]
    assert site.events() == [("verdict", "image_artifact")]


# -- node_passport -----------------------------------------------------------------------------------------------------


def test_the_life_of_a_passport(site: Site, tmp_path: Path) -> None:
    copy = tmp_path / "gpu001.passport.json"
    refused, *_rest = site.play(passport("issued"))
    assert "no verdict since the node was imaged" in refused["result"]["msg"]
    site.play(NODE)
    site.gates("dcgm_gate", "kernel_log_gate")
    dry, first, again, verified = (
        told["result"]
        for told in site.play(
            {**passport("issued"), "check_mode": True},
            passport("issued", path=str(copy)),
            passport("issued"),
            passport("verified"),
        )
    )
    assert dry["changed"] and "envelope" not in dry, dry
    assert first["changed"] and first["valid"], first
    assert not again["changed"] and again["passport"]["digest"] == first["passport"]["digest"]
    assert verified["valid"] and verified["machine_checked"]
    assert ("passport", "issued") in site.events()
    alone = site.result(passport("verified", path=str(copy)), limit="gpu002")
    assert alone["valid"] and alone["machine_checked"] is False and alone["profile_checked"] is True
    out, none = tmp_path / "out", site.result(passport("exported", path=f"{tmp_path}/out/"), limit="gpu002")
    assert none["failed"] and "no passport of this node" in none["msg"] and not out.exists()
    exported = site.result(passport("exported", path=f"{out}/"))
    assert exported["changed"] and exported["valid"] and exported["path"] == f"{out}/gpu001.passport.json"
    assert json.loads((out / "gpu001.passport.json").read_text()) == first["envelope"]
    once_more = site.result(passport("exported", path=f"{out}/"))  # the folder is there, as of another node's
    assert not once_more["changed"] and once_more["path"] == exported["path"], once_more


def test_a_swapped_gpu_ends_it(admitted: Site, machine: Any) -> None:
    machine.gpus[3] = "GPU-99999999-0000-4000-8000-000000000000"
    machine.nvidia_smi()
    result = admitted.result(passport("verified"))
    assert result["failed"] and "only this machine has GPU-99999999" in result["msg"]
    soft = admitted.result(passport("verified", fail=False))
    assert soft["valid"] is False and not soft["failed"] and soft["reasons"]


def test_another_machine_ends_it(admitted: Site, machine: Any) -> None:
    (machine.folder / "dmi/product_serial").write_text("GF0777\n")
    assert "this machine has GF0777" in admitted.result(passport("verified"))["msg"]


def test_another_nodes_passport(admitted: Site, tmp_path: Path) -> None:
    envelope = admitted.result(passport("issued"))["envelope"]
    path = tmp_path / "borrowed.json"
    path.write_text(json.dumps(envelope))
    options = {"path": str(path), "identity": {"serial": "GF0002", "system_uuid": "", "gpu_uuids": []}}
    told = admitted.result(passport("verified", **options), limit="gpu002")
    assert "the passport is one of serial GF0001, this machine has GF0002" in told["msg"]


def test_imaging_and_quarantine_end_it(admitted: Site) -> None:
    state = "gpufleet.baremetal.ledger_event"
    _event, refused = admitted.play({state: {"state": "quarantined", "reason": "x"}}, passport("verified"))
    assert "quarantined after its passport was issued" in refused["result"]["msg"]
    _event, refused, issue = admitted.play({state: {"state": "imaging"}}, passport("verified"), passport("issued"))
    assert "imaged after its passport was issued" in refused["result"]["msg"]
    assert "gate dcgm_gate: no verdict since the node was imaged" in issue["result"]["msg"]


def test_a_gate_that_fails_later_ends_it(admitted: Site) -> None:
    admitted.gates("kernel_log_gate", verdict="fail")
    assert "kernel_log_gate failed after" in admitted.result(passport("verified"))["msg"]


def test_a_passphrase_is_told_to_nobody(site: Site) -> None:
    locked, secret = site.folder / "locked.pem", "hunter2-of-the-key"
    argv = ["openssl", "pkey", "-in", str(site.key), "-aes256", "-passout", f"pass:{secret}", "-out", str(locked)]
    subprocess.run(argv, check=True, capture_output=True)
    locked.chmod(0o600)
    options = {"key_path": str(locked), "key_passphrase": secret}
    wrong = passport("issued", **{**options, "key_passphrase": secret + "x"})
    gates = site.looks("dcgm_gate", "kernel_log_gate")
    _node, _gates, issued, refused = site.play(NODE, gates, passport("issued", **options), wrong)
    assert issued["result"]["valid"] and "cannot be opened" in refused["result"]["msg"]
    assert secret not in site.said
    assert secret.encode() not in (site.folder / "ledger.sqlite").read_bytes()


def test_evidence_is_nobodys_to_write(site: Site) -> None:
    name = "gpufleet.baremetal.ledger_event"
    kinds = ("evidence", "verdict", "maintenance", "hold", "passport")
    forged, known, *others = site.play(
        passport("issued", evidence={"verdicts": [{}]}),
        {name: {"state": "enrolled", "known": {"evidence": {"name": "drained"}}}},
        *({name: {"kind": kind, "name": "drained"}} for kind in kinds),
    )
    assert "not for a task to set" in forged["result"]["msg"] and "not for a task to set" in known["result"]["msg"]
    assert len(others) == len(kinds) and all("must be one of" in told["result"]["msg"] for told in others)
    assert site.events() == []


def test_u7_without_this_collection(admitted: Site, tmp_path: Path) -> None:
    """The two recipes of docs/how-to/verify-a-passport.md, each as a user saves and runs it."""
    envelope = admitted.result(passport("issued"))["envelope"]
    page = (CHECKOUT / "docs/how-to/verify-a-passport.md").read_text(encoding="utf-8")
    for fence, runner in (("sh", "sh"), ("python", sys.executable)):
        recipe = tmp_path / f"verify.{fence}"
        recipe.write_text(page.partition(f"```{fence}\n")[2].partition("```")[0])
        argv = [runner, str(recipe), str(tmp_path / "p.json"), str(admitted.public)]
        told = {name: _ends(argv, tmp_path / "p.json", made) for name, made in _passports(admitted, envelope).items()}
        good, rotated = told.pop("good"), told.pop("of two keys")
        assert good.returncode == rotated.returncode == 0, good.stderr + rotated.stderr
        assert "chassis-serial:GF0001" in good.stdout and good.stdout.count("chassis-serial:GF0001") == 1
        assert {name: bool(ended.returncode) for name, ended in told.items()} == dict.fromkeys(told, True)
        assert not any("chassis-serial" in ended.stdout for ended in told.values())
        told = {
            name: _ends(argv, tmp_path / "p.json", made) for name, made in _of_two_minds(admitted, envelope).items()
        }
        assert {name: bool(ended.returncode) for name, ended in told.items()} == dict.fromkeys(told, True)
        assert not any("chassis-serial" in ended.stdout for ended in told.values())


def _ends(argv: list[str], path: Path, content: Any) -> subprocess.CompletedProcess[str]:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return subprocess.run(argv, capture_output=True, text=True, cwd=path.parent, check=False)


def _passports(site: Site, envelope: Mapping[str, Any]) -> dict[str, Any]:
    """A passport, one that a second key signed before, and all sorts that are none."""
    payload = base64.b64decode(envelope["payload"])
    other = base64.b64encode(payload.replace(b"GF0001", b"GF0002")).decode()
    [signature] = envelope["signatures"]
    strange = {"keyid": "0" * 64, "sig": base64.b64encode(b"x" * 64).decode()}
    return {
        "good": envelope,
        "of two keys": {**envelope, "signatures": [strange, signature]},
        "another machine's": {**envelope, "payload": other},
        "another type's": {**envelope, "payloadType": envelope["payloadType"] + "x"},
        "a stranger's": {**envelope, "signatures": [strange]},
        "nobody's": {**envelope, "signatures": []},
        "cut": {**envelope, "payload": envelope["payload"][:-8]},
    }


def _signed(site: Site, kind: str, payload: bytes) -> dict[str, Any]:
    """Whatever a holder of the key may have signed, with the encoding of its own type."""
    made = dsse.private_key(str(site.key), "").sign(dsse.pae(kind, payload))
    told = {"payloadType": kind, "payload": base64.b64encode(payload).decode()}
    return {**told, "signatures": [{"sig": base64.b64encode(made).decode()}]}


def _of_two_minds(site: Site, envelope: Mapping[str, Any]) -> dict[str, Any]:
    """Files in which a careless reader finds what was signed, and the next one another machine's statement."""
    kind, payload, [signature] = envelope["payloadType"], envelope["payload"], envelope["signatures"]
    other = _passports(site, envelope)["another machine's"]["payload"]
    doubled = base64.b64decode(payload).replace(b"{", b'{"subject":[],', 1)
    return {
        "two lines of type": {**envelope, "payloadType": f"{kind}\n{payload}", "payload": other},
        "all in the type": {
            "payloadType": f"{kind}\n{payload}\n{signature['sig']}", "payload": other, "signatures": [],
        },
        "two lines of payload": {**envelope, "payload": f"{payload}\n{other}"},
        "a line's end": {**envelope, "payload": payload + "\n"},
        "a broken line": {**envelope, "payload": payload[:8] + "\n" + payload[8:]},
        "junk between": {**envelope, "payload": payload[:8] + "!\x1b" + payload[8:]},
        "a broken signature": {**envelope, "signatures": [{"sig": signature["sig"][:8] + "\n" + signature["sig"][8:]}]},
        "two payloads": f'{{"payload": "{other}", {json.dumps(envelope)[1:]}',
        "another type, signed": _signed(site, "text/plain", base64.b64decode(payload)),
        "two subjects, signed": _signed(site, kind, doubled),
    }  # fmt: skip


# -- ledger_event, and the modules by themselves -----------------------------------------------------------------------


def test_states_through_the_playbook(site: Site) -> None:
    name = "gpufleet.baremetal.ledger_event"
    dry, enrolled, imaging, again, wrong = site.play(
        {name: {"state": "enrolled"}, "check_mode": True},
        {name: {"state": "enrolled"}},
        {name: {"state": "imaging"}},
        {name: {"state": "imaging"}},
        {name: {"state": "admitted"}},
    )
    assert dry["result"]["changed"] and dry["result"]["event_id"] == 0
    assert enrolled["result"]["diff"] == {"before": {"state": "discovered"}, "after": {"state": "enrolled"}}
    assert again["result"]["event_id"] > imaging["result"]["event_id"] > 0
    assert again["result"]["at"] >= imaging["result"]["at"] > 1e9
    assert wrong["outcome"] == "failed" and "imaging cannot become admitted" in wrong["result"]["msg"]
    assert site.events() == [("state", "enrolled"), ("state", "imaging"), ("state", "imaging")]


def test_an_attempt_counts(site: Site) -> None:
    site.play({"gpufleet.baremetal.ledger_event": {"kind": "attempt", "name": "reboot", "reason": "xid 79"}})
    rows = list(sqlite3.connect(site.folder / "ledger.sqlite").execute("SELECT remedy, finding FROM attempts"))
    assert rows == [("reboot", "xid 79")]


@pytest.mark.parametrize(
    "name,options,told",
    [
        ("ledger_event", {"name": "x"}, "only the controller has the ledger"),
        ("ledger_event", {"state": "enrolled", "known": {"hold": None}}, "only the controller has the ledger"),
        ("node_passport", {"state": "issued", "key_path": "/nonexistent"}, "only the controller has"),
        ("image_verify", {"mode": "node"}, "nothing says what this node must run"),
    ],
)
def test_a_module_by_itself_says_what_it_lacks(
    name: str, options: dict[str, Any], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    import importlib

    module = importlib.import_module(f"ansible_collections.gpufleet.baremetal.plugins.modules.{name}")
    with patch_module_args(options), pytest.raises(SystemExit) as ended:
        module.main()
    answer = json.loads(capsys.readouterr().out)
    assert ended.value.code == 1 and answer["failed"] and told in answer["msg"]
