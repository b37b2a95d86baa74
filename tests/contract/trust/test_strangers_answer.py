# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""image_verify against a machine that answers what it likes, through ansible-playbook: no word of it is recorded, and
nothing that it does keeps an earlier pass the newest verdict."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

import pytest
from contract.trust.trust_site import ARTIFACT, NODE, Site, passport

pytestmark = pytest.mark.slow

CLOCK = {"id": "clock", "entity": "node", "measured": 0, "wanted": 2, "unit": "s", "source": "s", "verdict": "pass"}
VERDICT: dict[str, Any] = {
    "schema": 1,
    "gate": "image_verify",
    "verdict": "pass",
    "checks": [CLOCK],
    "findings": [],
    "remedy": "none",
    "tool": {"name": "image_verify", "version": "1"},
    "argv": [],
    "started": "2026-01-01T00:00:00Z",
    "ended": "2026-01-01T00:00:00Z",
    "evidence_digest": "sha256:" + "0" * 64,
    "profile": {"sku": "", "digest": ""},
}


def event(name: str) -> dict[str, Any]:
    return {"kind": "verdict", "name": name, "node": "", "data": {**VERDICT, "gate": name}}


def interpreter(site: Site, script: str) -> dict[str, Any]:
    """Instead of Python, this runs where the module was sent."""
    path = site.folder / f"python3.{len(list(site.folder.iterdir()))}"
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return {"vars": {"ansible_python_interpreter": str(path)}}


def says(site: Site, told: str) -> dict[str, Any]:
    return interpreter(site, f"cat <<'END'\n{told}\nEND")


def verdicts(site: Site) -> list[tuple[str, str]]:
    with sqlite3.connect(site.folder / "ledger.sqlite") as ledger:
        found = ledger.execute("SELECT name, json_extract(data, '$.verdict') FROM events ORDER BY id")
        return [(str(name), str(word)) for name, word in found]


#: What leads image_verify to a machine in a folder.
OPTIONS = [f"{name}_path" for name in ("manifest", "driver_version", "boot_id", "uptime", "dmi")]
OPTIONS += ["nvidia_smi", "fabric_manager"]
DEEP = "[" * 700 + "]" * 700
ROW = json.dumps({**CLOCK, "id": "image", "verdict": "fail", "measured": "DEEP"}).replace('"DEEP"', DEEP)
WRONG = json.dumps({**VERDICT, "verdict": "fail", "checks": ["ROW"]}).replace('"ROW"', ROW)


#: What a node answers, and the controller's finding.
ANSWERS = (
    (json.dumps({"changed": False, "events": [event("image_verify"), event("image_artifact")]}), "crashed"),
    (json.dumps({"changed": False, "msg": "I do not say"}), "crashed"),
    (f'{{"changed": false, "msg": {DEEP}, "rc": {DEEP}}}', "crashed"),
    (WRONG, "forged"),
    (f'{{"verdict": {DEEP}}}', "forged"),
    (json.dumps({**VERDICT, "events": [event("image_verify"), event("dcgm_gate")]}), "forged"),
    (json.dumps({**VERDICT, "events": [{**event("image_verify"), "kind": "A" * 3_000_000}]}), "forged"),
    ("no JSON", "crashed"),
    ('\x1b[2Jat a login\n{"changed": false}\n\x1b]0;title\x07' + "Z" * 9000, "crashed"),
)


def test_v2_a_node_writes_no_verdict_of_its_own(site: Site) -> None:
    first, *answers = site.play(NODE, *({**NODE, **says(site, told)} for told, _finding in ANSWERS))
    assert first["result"]["verdict"] == "pass"
    for answer, (told, finding) in zip(answers, ANSWERS, strict=True):
        assert answer["outcome"] == "failed" and answer["result"]["verdict"] == "inconclusive", told
        assert [one["id"] for one in answer["result"]["findings"]] == [finding], told
        assert len(json.dumps(answer["result"])) < 30_000, told[:1000]
    assert r"x1b]0;title\\x07ZZZ" in site.said, "what stands beside an answer is told, spelled out"
    assert "u001b" not in site.said and "Z" * 600 not in site.said
    assert verdicts(site) == [("image_verify", "pass"), *[("image_verify", "inconclusive")] * len(ANSWERS)]


def test_v2_no_passport_rests_on_what_a_node_wrote(site: Site) -> None:
    site.play({**NODE, **says(site, json.dumps({"changed": False, "events": [event("image_verify")]}))})
    site.gates("dcgm_gate", "kernel_log_gate")
    result = site.result(passport("issued"))
    assert result["failed"] and "gate image_verify: inconclusive" in result["msg"]


def test_v2_a_node_that_does_not_answer_in_time_does_not_keep_its_pass(site: Site) -> None:
    site.play(NODE)
    [answer] = site.play({**NODE, "timeout": 3, **interpreter(site, "exec sleep 60")})
    assert answer["outcome"] == "failed"
    assert verdicts(site) == [("image_verify", "pass"), ("image_verify", "inconclusive")]


def test_v2_an_option_that_cannot_be_read_is_refused_before_anything_is_shipped(site: Site) -> None:
    shipped = site.folder / "shipped"
    task = {"gpufleet.baremetal.image_verify": {"mode": "node", "booted_after": "yesterday"}}
    result = site.result({**task, **interpreter(site, f"touch {shipped}")})
    assert result["failed"] and "a point in time cannot be read" in result["msg"]
    assert not shipped.exists() and site.events() == []


def test_v2_a_jump_host_tells_of_the_artifact_alone(site: Site) -> None:
    artifact = {**VERDICT, "gate": "image_artifact"}
    worse = [{**artifact, "checks": [{**CLOCK, **told}]} for told in ({"verdict": "fail"}, {"measured": {}})]
    answers = (
        {"failed": True, "msg": "gpg is missing", "events": [event("image_artifact")]},
        {**artifact, "events": [event("image_verify")]},
        {**artifact, "verdict": "fail", "failed": True, "events": [event("image_artifact")]},
        {**artifact, "events": [event("image_artifact"), event("image_verify")]},
        *({**said, "events": [{**event("image_artifact"), "data": said}]} for said in worse),
    )
    told = site.play(*({**ARTIFACT, "delegate_to": "jump", **says(site, json.dumps(answer))} for answer in answers))
    assert [one["outcome"] for one in told] == ["failed"] * len(answers)
    assert site.events() == []


def test_v2_a_module_that_could_not_be_asked_is_not_waved_through(site: Site) -> None:
    told = {"failed": True, "msg": "an option is wrong", "error": {"kind": "config", "what": "an option is wrong"}}
    task = {"gpufleet.baremetal.image_verify": {**NODE["gpufleet.baremetal.image_verify"], "fail_on": "never"}}
    result = site.result({**NODE, **task, **says(site, json.dumps(told))})
    assert result["failed"] and result["error"]["kind"] == "config", result


def test_v2_no_machine_is_judged_in_the_name_of_another(site: Site) -> None:
    """Through delegation the image of one machine, and the gates that ran there, were the other's."""
    paths = {"args": "{{ hostvars['gpu002'].node_paths }}"}
    shipped = site.folder / "shipped"
    touch = interpreter(site, f"touch {shipped}")
    gates = [{f"gpufleet.baremetal.{name}": {}} for name in ("dcgm_gate", "kernel_log_gate")]
    tasks = [{**NODE, **paths}, *gates]
    told = site.play(
        *({**task, **touch, "delegate_to": to} for task in tasks for to in ("gpu002", "localhost")),
        limit="gpu001,gpu002",
    )
    assert len(told) == 12
    for one in told:
        assert one["outcome"] == "failed" and "cannot be delegated" in one["result"]["msg"], one
        assert one["result"]["error"]["kind"] == "config", one
    assert not shipped.exists() and site.events() == []


def test_v2_the_machine_that_answers_is_held_against_the_bmc(site: Site) -> None:
    paths = "{{ node_paths | combine({'bmc_identity': hostvars[of].bmc}) }}"
    asked = [{**NODE, "args": paths, "vars": {"of": of}} for of in ("gpu001", "gpu002")]
    own, other = site.play(*asked)
    assert own["result"]["verdict"] == "pass", own
    assert other["outcome"] == "failed" and "GF0002" in other["result"]["msg"], other


def test_v2_a_gate_goes_by_what_the_bmc_said_in_this_run(site: Site) -> None:
    """Also for a machine that tells nothing of itself, and against one that tells what the inventory says."""
    paths = "{{ node_paths | combine({'bmc_identity': hostvars[of].bmc}) }}"
    options = {"dmi_path": "{{ dmi | default('/nonexistent') }}", "dcgmi": "/nonexistent", "fail_on": "never"}
    gate = {"gpufleet.baremetal.dcgm_gate": options}
    kinds = []
    for of, where in (("gpu001", {}), ("gpu002", {"dmi": "{{ node_paths.dmi_path }}"})):
        _look, found = site.play({**NODE, "args": paths, "vars": {"of": of}}, {**gate, "vars": where})
        kinds.append(found["result"].get("error", {}).get("kind", ""))
    alone, here = site.play(gate, {**gate, "vars": {"dmi": "{{ node_paths.dmi_path }}"}})
    kinds += [one["result"].get("error", {}).get("kind", "") for one in (alone, here)]
    assert kinds == ["", "wrong_machine", "config", ""]


def test_v2_the_baseline_holds_the_machine_against_the_bmc_that_it_is_told(site: Site) -> None:
    paths = {name: f"{{{{ node_paths.{name} }}}}" for name in OPTIONS}
    role = {"ansible.builtin.import_role": {"name": "gpufleet.baremetal.baseline"}}
    given = ({"baseline_bmc_identity": f"{{{{ hostvars.{of}.bmc }}}}"} for of in ("gpu001", "gpu002"))
    defaults = {"gpufleet.baremetal.image_verify": paths}
    told = site.play(*({"block": [{**role, "vars": one}], "module_defaults": defaults} for one in given))
    own, other = [one for one in told if "error" in one["result"] or "verdict" in one["result"]]
    assert own["outcome"] == "ok" and "machine" in [one["id"] for one in own["result"]["checks"]], own
    assert other["outcome"] == "failed" and other["result"]["error"]["kind"] == "wrong_machine", other


def test_v2_another_machines_answer_is_no_verdict_on_this_node(site: Site) -> None:
    """A wrong ansible_host: what is measured there, a failure as well, is told of nobody, and quarantines nobody."""
    paths = "{{ node_paths | combine({'bmc_identity': hostvars['gpu002'].bmc}) }}"
    other = site.result({**NODE, "args": paths, "vars": {}})
    assert other["failed"] and "verdict" not in other, other
    assert other["error"]["kind"] == "wrong_machine" and "ansible_host" in other["error"]["do"], other
    assert verdicts(site) == [("image_verify", "inconclusive")]


def looked(site: Site, serial: str, digits: str, **options: Any) -> dict[str, Any]:
    """A look at gpu001's BMC through a jump host that answers what it likes."""
    identity = {"serial": serial, "uuid": ""}
    more = {"power": "on", "boot": None, "capabilities": {}, "address": "https://bmc1", "tls_fingerprint": digits * 32}
    login = {"bmc_address": "bmc1", "bmc_username": "u", "bmc_password": "p", "bmc_tls_fingerprint": "first"}
    told = says(site, json.dumps({"changed": False, "identity": identity, **more}))
    return {"gpufleet.baremetal.bmc_info": {**login, "macs": False, **options}, "delegate_to": "jump", **told}


def test_v2_a_jump_host_replaces_no_certificate(site: Site) -> None:
    """Neither the one that was seen first, nor the one that a person named."""
    named = looked(site, "GF0001", "cc", bmc_tls_fingerprint="dd" * 32)
    told = site.play(looked(site, "GF0001", "aa"), looked(site, "GF0001", "bb"), named, looked(site, "GF0001", "aa"))
    assert [one["outcome"] for one in told] == ["ok", "failed", "failed", "ok"], told
    for one, wanted, seen in ((told[1], "aa", "bb"), (told[2], "dd", "cc")):
        error = one["result"]["error"]
        assert error["kind"] == "certificate" and wanted * 32 in error["wanted"] and seen * 32 in error["seen"], error
    assert site.events() == [("note", "bmc_certificate")]


def test_r4_a_uuid_that_bmc_and_neighbour_both_tell_makes_it_no_node_of_ours(site: Site) -> None:
    """Boards of one series were delivered with one UUID; the ledger knows whose serial it is that answers."""
    told = {"serial": "{{ hostvars.gpu002.bmc.serial }}", "uuid": "{{ hostvars.gpu001.bmc.uuid }}"}
    paths = "{{ hostvars.gpu001.node_paths | combine({'bmc_identity': told}) }}"
    series = {**NODE, "args": paths, "vars": {"told": told}}
    assert site.result(series, limit="gpu002")["verdict"] == "pass", "nobody knows whose serial that is"
    assert site.result(NODE)["verdict"] == "pass"
    found = site.result(series, limit="gpu002")
    assert found["failed"] and found["error"]["kind"] == "wrong_machine" and "has for gpu001" in found["msg"], found
    assert verdicts(site)[-1] == ("image_verify", "inconclusive")
