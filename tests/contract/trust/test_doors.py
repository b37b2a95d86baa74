# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Both doors of image_verify, node_passport and ledger_event, through ansible-playbook, with a ledger."""

from __future__ import annotations

import base64
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils.testing import patch_module_args
from suite import playbook
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._in_force import profile_of

CHECKOUT = Path(__file__).resolve().parents[3]
PLAYBOOK = Path(sys.executable).with_name("ansible-playbook")
VERDICT = {
    "schema": 1,
    "verdict": "pass",
    "checks": [
        {"id": "x", "entity": "node", "measured": 1, "wanted": 1, "unit": "", "source": "s", "verdict": "pass"},
    ],
    "findings": [],
    "tool": {"name": "x", "version": "1"},
    "argv": [],
    "started": "2026-01-01T00:00:00Z",
    "ended": "2026-01-01T00:00:00Z",
    "evidence_digest": "sha256:" + "c" * 64,
}
SKU = "h100-sxm-8"
PROFILE = profile_of({"sku": SKU}).digest
#: What the roles ask of both gates.
QUESTION = {"level": 3, "tests": ["memory", "software"], "window": "imaging", "profile": PROFILE}
#: Writes gates' verdicts as the gates do: only verbs can, and there is no GPU here.
GATES = """
import json, sys
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
url, serial, verdict, *names = sys.argv[1:]
with Ledger(url) as ledger:
    node = ledger.identify("x", aliases=[("serial", serial)])
    looked = {**json.loads(verdict), "after_event": ledger.newest()}
    ledger.append("gates", [(node, Event("verdict", name, {**looked, "gate": name})) for name in names])
"""


class Site:
    """A controller with a ledger and a passport key; nodes gpu001 and gpu002 are machines in folders."""

    def __init__(self, folder: Path, temporary: Path, image: Any, machines: Mapping[str, Any]) -> None:
        self.folder = folder
        self.temporary = temporary
        self.url = f"sqlite:///{folder}/ledger.sqlite"
        self.key, self.public = folder / "key.pem", folder / "key.pub"
        for argv in (
            ["openssl", "genpkey", "-algorithm", "ed25519", "-out", str(self.key)],
            ["openssl", "pkey", "-in", str(self.key), "-pubout", "-out", str(self.public)],
        ):
            subprocess.run(argv, check=True, capture_output=True)
        hosts = {
            name: {
                "gpufleet_serial": machine.serial,
                "node_paths": machine.options(),
                "bmc": {"serial": machine.serial, "uuid": machine.uuid.upper()},
            }
            for name, machine in machines.items()
        }
        inventory = {
            "all": {
                "hosts": {**hosts, "jump": {"ansible_connection": "elsewhere"}},
                "vars": {
                    "ansible_connection": "local",
                    "ansible_python_interpreter": sys.executable,
                    "gpufleet_ledger_url": self.url,
                    "gpufleet_image": image.declared(),
                    "gpufleet_sku": SKU,
                    "gpufleet_passport_key_path": str(self.key),
                    "gpufleet_passport_public_keys": [str(self.public)],
                },
            }
        }
        (folder / "hosts.yml").write_text(yaml.safe_dump(inventory), encoding="utf-8")

    def play(self, *tasks: Mapping[str, Any], limit: str = "gpu001", check: bool = False) -> list[dict[str, Any]]:
        named = [{"name": f"task {number}", "ignore_errors": True, **task} for number, task in enumerate(tasks)]
        book = [{"name": "test", "hosts": "all", "gather_facts": False, "tasks": named}]
        (self.folder / "play.yml").write_text(yaml.safe_dump(book), encoding="utf-8")
        here = Path(__file__)
        env = {
            **os.environ,
            "ANSIBLE_COLLECTIONS_PATH": str(CHECKOUT / "build" / "collections"),
            "ANSIBLE_STDOUT_CALLBACK": "trust_json",
            "ANSIBLE_CALLBACK_PLUGINS": str(here.with_name("callback")),
            "ANSIBLE_CONNECTION_PLUGINS": str(here.with_name("connection")),
            "ANSIBLE_LOCAL_TEMP": str(self.temporary / "home"),
            "PYTHONPATH": os.pathsep.join(sys.path),
            "TMPDIR": str(self.temporary),
            "REQUESTS_CA_BUNDLE": "/nonexistent",
        }
        argv = ["-i", str(self.folder / "hosts.yml"), "--limit", limit, str(self.folder / "play.yml")]
        done = playbook.run([*argv, "--diff", "-vvv", *(["--check"] if check else [])], env=env)
        self.said = done.stdout + done.stderr
        results = [json.loads(line[7:]) for line in done.stdout.splitlines() if line.startswith("RESULT ")]
        assert len(results) >= len(tasks), self.said[-4000:]
        return results

    def result(self, task: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        [told] = self.play(task, **more)
        return {**told["result"], "failed": told["outcome"] == "failed"}

    def events(self) -> list[tuple[str, str]]:
        path = self.folder / "ledger.sqlite"
        if not path.exists():
            return []
        return list(sqlite3.connect(path).execute("SELECT kind, name FROM events ORDER BY id"))

    def gates(self, *names: str, serial: str = "GF0001", verdict: str = "pass", **asked: Any) -> None:
        judged = {"profile": {"sku": SKU, "digest": PROFILE}, "asked": {**QUESTION, **asked}}
        text = json.dumps({**VERDICT, "verdict": verdict, **judged})
        subprocess.run(
            [sys.executable, "-c", GATES, self.url, serial, text, *names],
            check=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )


#: Each test starts ansible-playbook, some of them several times.
pytestmark = pytest.mark.slow

ARTIFACT: dict[str, Any] = {"gpufleet.baremetal.image_verify": {"mode": "artifact"}}
NODE: dict[str, Any] = {"gpufleet.baremetal.image_verify": {"mode": "node"}, "args": "{{ node_paths }}"}
ASKED = {"nvidia_smi": "{{ node_paths.nvidia_smi }}", "dmi_path": "{{ node_paths.dmi_path }}"}


def passport(state: str, **options: Any) -> dict[str, Any]:
    given = {"state": state, "bmc_identity": "{{ bmc }}", **ASKED, **options}
    return {"gpufleet.baremetal.node_passport": {key: value for key, value in given.items() if value is not None}}


@pytest.fixture
def site(tmp_path: Path, image: Any, machine: Any) -> Iterator[Site]:
    second = type(machine)(tmp_path / "node2", 2)
    folder = tmp_path / "site"
    folder.mkdir()
    # ansible-core keeps a socket there, whose path may have 107 bytes; pytest's own folders are longer than that.
    temporary = Path(tempfile.mkdtemp(prefix="gf-", dir="/tmp"))
    yield Site(folder, temporary, image, {"gpu001": machine, "gpu002": second})
    shutil.rmtree(temporary, ignore_errors=True)


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
    assert alone["valid"] and alone["machine_checked"] is False
    out, none = tmp_path / "out", site.result(passport("exported", path=f"{tmp_path}/out/"), limit="gpu002")
    assert none["failed"] and "no passport of this node" in none["msg"] and not out.exists()
    exported = site.result(passport("exported", path=f"{out}/"))
    assert exported["changed"] and exported["valid"] and exported["path"] == f"{out}/gpu001.passport.json"
    assert json.loads((out / "gpu001.passport.json").read_text()) == first["envelope"]


@pytest.fixture
def admitted(site: Site) -> Site:
    site.gates("dcgm_gate", "kernel_log_gate")
    _node, issued = site.play(NODE, passport("issued"))
    assert issued["result"].get("valid"), issued["result"]
    return site


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


def test_v1_a_weaker_look_brings_no_node_back(admitted: Site) -> None:
    """Diagnosed at level 3 and failed; level 1 passes then, which is the default of the module."""
    event, sworn = "gpufleet.baremetal.ledger_event", {"kind": "lift", "name": "dcgm_gate"}
    admitted.gates("dcgm_gate", verdict="fail")
    admitted.gates("dcgm_gate", level=1, tests=["software"])
    kept, issued, nameless, dry, lifted, again = (
        told["result"]
        for told in admitted.play(
            passport("verified"),
            passport("issued"),
            {event: sworn},
            {event: {**sworn, "reason": "no chilled water, ticket 4711"}, "check_mode": True},
            {event: {**sworn, "reason": "no chilled water, ticket 4711", "lifted_by": "a.person"}},
            {event: {**sworn, "reason": "twice"}},
        )
    )
    assert "dcgm_gate failed after the passport was issued" in kept["msg"]
    assert "stands until the same or a stronger question passes" in issued["msg"]
    assert "nothing in reason" in nameless["msg"], nameless
    assert dry["changed"] and len(dry["lifted"]) == 1 and lifted["lifted"] == dry["lifted"], dry
    assert not again["changed"] and again["lifted"] == [] and admitted.events().count(("lift", "dcgm_gate")) == 1
    verified, exported = (
        told["result"] for told in admitted.play(passport("verified"), passport("issued", valid_for=2592000 - 60))
    )
    assert verified["valid"], verified
    statement = json.loads(base64.b64decode(exported["envelope"]["payload"]))
    assert [gate["asked"]["level"] for gate in statement["predicate"]["gates"] if gate["gate"] == "dcgm_gate"] == [3]


def test_v1_a_failure_that_stands_keeps_a_node_from_being_admitted(admitted: Site) -> None:
    event = "gpufleet.baremetal.ledger_event"
    states = [{event: {"state": state}} for state in ("enrolled", "imaging", "validating")]
    admitted.play(*states, NODE)
    admitted.gates("dcgm_gate", "kernel_log_gate")
    assert admitted.result(passport("issued"))["valid"]
    admitted.gates("dcgm_gate", verdict="fail")
    refused = admitted.result({event: {"state": "admitted"}})
    assert refused["failed"] and "no failure stands: dcgm_gate" in refused["msg"]
    admitted.gates("dcgm_gate")
    assert admitted.result({event: {"state": "admitted"}})["changed"]


def test_v1_a_policy_file_is_asked_at_each_end(admitted: Site) -> None:
    path = admitted.folder / "policy.yml"
    path.write_text("schema: 1\ngates:\n  dcgm_gate:\n    level: 4\n", encoding="utf-8")
    strict = {"policy_file": str(path)}
    kept, issued = (
        told["result"] for told in admitted.play(passport("verified", **strict), passport("issued", **strict))
    )
    assert "the gate dcgm_gate answers too little: level 3, wanted 4" in kept["msg"]
    assert "dcgm_gate: pass, which proves too little: level 3, wanted 4" in issued["msg"]
    path.write_text("schema: 1\ngates:\n  dcgm_gate:\n    levle: 4\n", encoding="utf-8")
    broken = admitted.result(passport("verified", **strict))
    assert "policy.yml:3: gates.dcgm_gate" in broken["msg"] and "levle" in broken["msg"]
    both = admitted.result(passport("verified", **strict, policy={}))
    assert "mutually exclusive" in both["msg"]


def test_a_passphrase_is_told_to_nobody(site: Site) -> None:
    locked, secret = site.folder / "locked.pem", "hunter2-of-the-key"
    argv = ["openssl", "pkey", "-in", str(site.key), "-aes256", "-passout", f"pass:{secret}", "-out", str(locked)]
    subprocess.run(argv, check=True, capture_output=True)
    locked.chmod(0o600)
    site.gates("dcgm_gate", "kernel_log_gate")
    options = {"key_path": str(locked), "key_passphrase": secret}
    wrong = passport("issued", **{**options, "key_passphrase": secret + "x"})
    _node, issued, refused = site.play(NODE, passport("issued", **options), wrong)
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


def _ends(argv: list[str], path: Path, content: Any) -> subprocess.CompletedProcess[str]:
    path.write_text(json.dumps(content))
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
