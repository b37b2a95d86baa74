# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""image_verify in node mode, as the module on the node sees it: what does not fit is named, what is missing is
inconclusive."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.artifact import expectations
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.image import image_verify
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.specs import IMAGE_VERIFY
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context

DEFAULTS = {name: option.get("default") for name, option in IMAGE_VERIFY.items()}


@pytest.fixture
def expect(image: Any) -> dict[str, Any]:
    judgement, found = expectations({**DEFAULTS, "image": image.declared()}, Context())
    assert judgement.verdict == "pass"
    return found


def verify(machine: Any, expect: Any, **params: Any) -> dict[str, Any]:
    ctx = Context(node="gpu001")
    given = {**DEFAULTS, **machine.options(), "mode": "node", "expect": expect, **params}
    return image_verify(given, ctx).as_dict(ctx)


def findings(result: dict[str, Any]) -> set[str]:
    return {item["id"] for item in result["findings"]}


def test_the_declared_image_runs(machine: Any, expect: Any) -> None:
    result = verify(machine, expect)
    assert result["verdict"] == "pass", result["msg"]
    assert {check["id"] for check in result["checks"]} == {"image", "kernel", "driver", "cuda", "fabric_manager"}
    assert result["identity"] == {
        "serial": machine.serial,
        "system_uuid": machine.uuid,
        "gpu_uuids": machine.gpus,
        "gpu_problem": "",
        "boot_id": "boot-2",
    }
    [event] = result["events"]
    assert (event["kind"], event["name"]) == ("verdict", "image_verify")
    assert event["data"]["image"]["manifest_sha256"] == expect["manifest_sha256"]


def test_another_image_runs(machine: Any, expect: Any) -> None:
    path = machine.folder / "manifest.json"
    path.write_text(path.read_text().replace('"1.4"', '"1.3"'))
    result = verify(machine, expect)
    assert result["verdict"] == "fail" and result["failed"] and findings(result) == {"other_image"}
    assert "runs another image: hpc 1.3, wanted hpc 1.4" in result["msg"]


def test_an_altered_manifest(machine: Any, expect: Any) -> None:
    path = machine.folder / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "driver": "535.0"}))
    assert findings(verify(machine, expect)) == {"tampered_manifest"}


@pytest.mark.parametrize("content", [None, b"", b"{}", b"\xff\xfe", b"x" * 2_000_000])
def test_no_manifest(machine: Any, expect: Any, content: bytes | None) -> None:
    path = machine.folder / "manifest.json"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    result = verify(machine, expect)
    assert result["verdict"] != "pass" and result["failed"]
    assert findings(result) <= {"no_manifest", "tampered_manifest"}


def test_t1_a_manifest_larger_than_any_is_not_read(machine: Any, expect: Any) -> None:
    with open(machine.folder / "manifest.json", "a", encoding="utf-8") as file:
        file.write(" " * (1024 * 1024))
    result = verify(machine, expect)
    assert result["verdict"] == "inconclusive" and findings(result) == {"no_manifest"}


def test_a_wrong_kernel(machine: Any, expect: Any) -> None:
    wanted = {**expect, "manifest": {**expect["manifest"], "kernel": "1.2.3"}}
    result = verify(machine, wanted)
    assert result["verdict"] == "fail" and findings(result) == {"wrong_kernel"}
    assert "wrong kernel" in result["msg"] and "1.2.3" in result["msg"]


def test_a_wrong_driver_and_cuda(machine: Any, expect: Any) -> None:
    machine.nvidia_smi(driver="535.104.05", cuda="12.2")
    result = verify(machine, expect)
    assert result["verdict"] == "fail" and findings(result) == {"wrong_driver", "wrong_cuda"}


@pytest.mark.parametrize(
    "text,verdict",
    [
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  590.48.01  Sat Oct  3 18:52:37 UTC 2026", "pass"),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  590.48.01  Release Build  (x@y)\nGCC 12.3", "pass"),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (x@y)", "fail"),
        ("something else", "inconclusive"),
    ],
)
def test_the_loaded_module_and_the_user_space_are_one(machine: Any, expect: Any, text: str, verdict: str) -> None:
    (machine.folder / "driver_version").write_text(text + "\n")
    assert verify(machine, expect)["verdict"] == verdict


@pytest.mark.parametrize(
    "behaviour",
    [
        "exit 9",
        'echo "Failed to initialize NVML: Driver/library version mismatch"; exit 18',
        'echo "Unable to determine the device handle for GPU0000:03:00.0: Unknown Error"; exit 255',
        "exit 0",
        "echo noise",
        "printf '590.48.01\\n535.1.1\\n'",
        "exec sleep 30",
    ],
)
def test_an_nvidia_smi_that_cannot_be_believed(machine: Any, expect: Any, behaviour: str) -> None:
    smi = machine.folder / "nvidia-smi"
    smi.write_text(f"#!/bin/sh\n{behaviour}\n")
    result = verify(machine, expect, timeout=1)
    assert result["verdict"] == "inconclusive" and result["failed"]
    assert findings(result) == {"driver_unknown", "cuda_unknown"}
    assert result["identity"]["gpu_problem"] and not result["identity"]["gpu_uuids"]


@pytest.mark.parametrize("name", ["nvidia-smi", "nv-fabricmanager"])
def test_t1_a_tool_that_fails_has_not_answered_whatever_it_printed(machine: Any, expect: Any, name: str) -> None:
    path = machine.folder / name
    path.write_text(path.read_text() + "\nexit 1\n")
    result = verify(machine, expect)
    wanted = {"fabric_manager_unknown"} if name == "nv-fabricmanager" else {"driver_unknown", "cuda_unknown"}
    assert result["verdict"] == "inconclusive" and findings(result) == wanted


def test_t1_a_driver_that_tells_half_of_its_version_is_another(machine: Any, expect: Any) -> None:
    """For CUDA half is all that the driver tells; of itself it tells the whole."""
    machine.nvidia_smi(driver="590.48")
    result = verify(machine, expect)
    assert result["verdict"] == "fail" and findings(result) == {"wrong_driver"}


@pytest.mark.parametrize(
    "name,finding",
    [("nv-fabricmanager", "fabric_manager_unknown"), ("nvidia-smi", "driver_unknown")],
)
def test_a_missing_tool(machine: Any, expect: Any, name: str, finding: str) -> None:
    (machine.folder / name).unlink()
    result = verify(machine, expect)
    assert result["verdict"] == "inconclusive" and finding in findings(result)
    assert "is not installed on the node" in result["msg"]


def test_a_machine_without_nvswitch(machine: Any, expect: Any) -> None:
    """Its signed manifest says so: it names no Fabric Manager."""
    (machine.folder / "nv-fabricmanager").unlink()
    wanted = {**expect, "manifest": {**expect["manifest"], "fabric_manager": ""}}
    assert verify(machine, wanted)["verdict"] == "pass"


@pytest.mark.parametrize("wanted,verdict", [("13.1", "pass"), ("13.1.2", "pass"), ("13.10", "fail"), ("13", "fail")])
def test_the_driver_tells_cuda_without_its_patch_level(machine: Any, expect: Any, wanted: str, verdict: str) -> None:
    declared = {**expect, "manifest": {**expect["manifest"], "cuda": wanted}}
    assert verify(machine, declared)["verdict"] == verdict


# -- booted after the deploy -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ago,verdict", [(3600.0, "pass"), (10.0, "fail")])
def test_a_node_must_have_been_booted_since(machine: Any, expect: Any, ago: float, verdict: str) -> None:
    deployed = time.time() - ago  # it has been up for 60 s
    result = verify(machine, expect, booted_after=str(deployed))
    assert result["verdict"] == verdict
    if verdict == "fail":
        assert findings(result) == {"not_rebooted"} and "before its deploy" in result["msg"]


def test_points_in_time(machine: Any, expect: Any) -> None:
    assert verify(machine, expect, booted_after="2026-01-31T08:00:00Z")["verdict"] == "pass"
    assert verify(machine, expect, booted_after="2996-01-31 08:00:00.5+00:00")["verdict"] == "fail"
    assert "booted" not in {check["id"] for check in verify(machine, expect, booted_after="0.0")["checks"]}
    # Without a zone it could be any hour: whose clock was it?
    for text in ("yesterday", "2026-01-31T08:00:00", "2026-01-31T08:00:00+01:00"):
        with pytest.raises(ConfigError, match="point in time"):
            verify(machine, expect, booted_after=text)


@pytest.mark.parametrize("before,verdict", [("boot-1", "pass"), ("boot-2", "fail")])
def test_another_boot_id(machine: Any, expect: Any, before: str, verdict: str) -> None:
    assert verify(machine, expect, not_boot_id=before)["verdict"] == verdict


def test_an_uptime_that_cannot_be_read(machine: Any, expect: Any) -> None:
    (machine.folder / "uptime").unlink()
    (machine.folder / "boot_id").unlink()
    result = verify(machine, expect, booted_after="1.0", not_boot_id="boot-1")
    assert result["verdict"] == "inconclusive" and findings(result) == {"boot_time_unknown", "boot_id_unknown"}


def test_without_expectations_nothing_is_judged(machine: Any) -> None:
    for nothing in (None, {}, {"manifest_sha256": "x"}, {"manifest": {"name": "hpc", "version": "1.4"}}):
        with pytest.raises(ConfigError, match="nothing says what this node must run"):
            verify(machine, nothing)


# -- what the controller expects ---------------------------------------------------------------------------------------


def test_what_is_not_signed_is_not_expected(image: Any) -> None:
    for wrong in ({"signature_url": None}, {"manifest_url": None}, {"checksums_url": None}):
        judgement, expect = expectations({**DEFAULTS, "image": image.declared(**wrong)}, Context())
        assert judgement.verdict == "inconclusive" and "manifest_sha256" not in expect


def test_a_tampered_manifest_is_not_expected(image: Any) -> None:
    (image.folder / "hpc-1.4.manifest.json").write_text("{}")
    judgement, expect = expectations({**DEFAULTS, "image": image.declared()}, Context())
    assert judgement.verdict == "fail" and "manifest" not in expect


@pytest.mark.parametrize("content", ["[]", "{}", '{"schema": 2}', '{"schema": 1, "name": "x"}', "noise"])
def test_a_signed_manifest_that_is_none(image: Any, content: str) -> None:
    (image.folder / "hpc-1.4.manifest.json").write_text(content)
    image.publish()
    judgement, _expect = expectations({**DEFAULTS, "image": image.declared()}, Context())
    assert judgement.verdict == "inconclusive"
