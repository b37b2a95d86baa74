# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A passport is of one deployment, which was seen to arrive, and of one boot, which is the one that is given work."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Changed
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust import dsse
from passports import BMC, BOOT, KEY, MACHINE, evidence, issue, reasons, run, settings, stored, verdict


def test_c1_no_passport_of_a_deployment_that_nobody_saw_arrive(key: str) -> None:
    """For which nobody is called faulty. A later look keeps what an earlier one has seen."""
    given = {"key_path": key, "state": "issued", "bmc_identity": BMC}
    nothing = evidence(deploy_id="another")
    assert settings(evidence=nothing, **given).startswith(
        "deployment: no look has proven that another reached the node"
    )
    untold = settings(evidence=evidence(deploy_id=""), **given)
    assert untold.startswith("deployment: nothing tells by which one the node was imaged (event 10)")
    seen = evidence()["verdicts"]
    look = verdict(15, "image_verify")
    look["data"]["checks"] = [one for one in look["data"]["checks"] if one["id"] != "deployment"]
    later = {"verdicts": [look, *seen[1:]], "history": [*seen, look], "last_event": 15}
    issued = issue(key, evidence=evidence(**later))
    told = dsse.verify(issued["envelope"], {dsse.keyid(KEY.public_key()): KEY.public_key()})[0]["predicate"][
        "deployment"
    ]
    assert told == {"id": evidence()["deploy_id"], "proof": "kernel command line", "event": 12}
    before = {**later, "history": [{**seen[0], "id": 9}, *seen[1:], look]}
    assert "no look has proven" in settings(evidence=evidence(**before), **given)


def test_c1_a_passport_of_another_deployment_admits_nothing(key: str) -> None:
    kept = stored(issue(key))
    assert "deployment: it is of 7f0c" in reasons(evidence=evidence(stored=kept, deploy_id="another"))
    assert run(evidence=evidence(stored=kept, imaged=None, deploy_id=""))["valid"], "imaged by nobody that we know"


def test_c6_a_passport_is_of_one_boot(key: str) -> None:
    """A node that was merely booted is not called faulty; its gates have to see that boot."""
    result = issue(key)
    assert result["passport"]["boot_id"] == BOOT
    looks = {"evidence": evidence(stored=stored(result)), "same_boot": True}
    [look] = run(**looks)["events"]
    assert (look["kind"], look["name"], look["data"]["passport"]) == ("look", "last", result["passport"]["digest"])
    for now in ("b0000000-0000-4000-8000-000000000002", ""):
        assert reasons(Changed, identity={**MACHINE, "boot_id": now}, **looks).startswith(
            f"boot: its gates looked at the boot {BOOT}"
        )
    fewer = {**MACHINE, "boot_id": "another", "gpu_uuids": MACHINE["gpu_uuids"][1:]}
    assert "GPUs" in reasons(identity=fewer, **looks), "what is lost is the node's"
    assert run(evidence=looks["evidence"], identity={**MACHINE, "boot_id": "another"})["events"] == []


def test_c6_no_passport_of_a_boot_that_nobody_told(key: str) -> None:
    looked = verdict(12, "image_verify", identity={**MACHINE, "boot_id": ""})
    found = evidence(verdicts=[looked, *evidence()["verdicts"][1:]])
    assert "boot: the node did not tell" in reasons(state="issued", key_path=key, bmc_identity=BMC, evidence=found)


def booted(number: int, **more: Any) -> dict[str, Any]:
    """What image_verify tells after a reboot."""
    return verdict(number, "image_verify", identity={**MACHINE, "boot_id": "another", "gpu_problem": ""}, **more)


def test_c6_no_passport_names_a_boot_that_a_gate_has_not_seen(key: str) -> None:
    """The last look compares with the boot that the passport names, which image_verify alone has told."""
    given = {"key_path": key, "state": "issued", "bmc_identity": BMC}
    first, log, dcgm = evidence()["verdicts"]
    look = booted(15)
    told = reasons(Changed, evidence=evidence(verdicts=[log, dcgm, look], history=[first, log, dcgm, look]), **given)
    for gate in ("kernel_log_gate (event 13)", "dcgm_gate (event 14)"):
        assert f"boot: the look of {gate} began before image_verify saw the boot another" in told
    again = [verdict(16, "kernel_log_gate", profile=log["data"]["profile"]), dcgm, look]
    told = reasons(Changed, evidence=evidence(verdicts=again, history=[first, log, dcgm, look, again[0]]), **given)
    assert "dcgm_gate" in told and "kernel_log_gate" not in told
    # A look that lasts for hours saw the boot in which it began.
    begun = verdict(17, "dcgm_gate", profile=dcgm["data"]["profile"], after_event=14)
    history = [first, log, dcgm, look, again[0], begun]
    told = reasons(Changed, evidence=evidence(verdicts=[look, again[0], begun], history=history), **given)
    assert "dcgm_gate (event 17)" in told
    # To verify the image of this boot once more is no reboot.
    seen = [log, dcgm, verdict(15, "image_verify")]
    assert issue(key, evidence=evidence(verdicts=seen, history=[first, *seen]))["passport"]["boot_id"] == BOOT


def test_c6_a_gate_that_nobody_asks_for_is_left_out_where_it_saw_another_boot(key: str) -> None:
    first, log, dcgm = evidence()["verdicts"]
    optional, artifact = verdict(11, "nccl_gate"), verdict(11, "image_artifact")
    for more, kept in ((optional, False), (verdict(15, "nccl_gate"), True)):
        seen = [artifact, first, log, dcgm, more]
        gates = issue(key, evidence=evidence(verdicts=seen, history=seen))["passport"]["gates"]
        assert ("nccl_gate" in gates) is kept and "image_artifact" in gates


def test_c6_a_node_that_was_booted_is_not_called_faulty_for_a_setting(key: str) -> None:
    """Which is told, and the node left as it is: both are no word against it."""
    looks = {"evidence": {**evidence(stored=stored(issue(key))), "profile_problem": "no profile"}, "same_boot": True}
    both = settings(identity={**MACHINE, "boot_id": "another"}, **looks)
    assert "policy: no profile" in both and "boot: its gates looked at the boot" in both
    fewer = {**MACHINE, "boot_id": "another", "gpu_uuids": MACHINE["gpu_uuids"][1:]}
    assert "GPUs" in reasons(identity=fewer, **looks), "what is lost is the node's"
