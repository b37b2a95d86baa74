# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parts of the rack's machines that need neither root nor a running rack."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from recorded import demanded

sys.path.insert(0, str(Path(__file__).parent))
from machines_lab import BOOT_ENTRY, CHECKOUT, MACHINES, artifact

sys.path.insert(0, str(MACHINES / "standins"))

import console
import dcgmi_tool
import disk
import fault
import fault_table
import gpu_state
import ipmi_bmc
import ipxe
import network
import rackconf
import records
import smi_tool

BASE = "http://10.79.0.1:8080"
MAC = "52:54:00:79:00:01"


@pytest.fixture
def node(tmp_path: Path) -> rackconf.Node:
    """A node whose folders are the test's."""
    bmc = rackconf.Bmc("ipmi", "127.79.0.12", 623)
    made = rackconf.Node("lab009", 9, "10.79.0.19", MAC, "GFLAB0009", "5ac00000-0000-4000-8079-000000000009",
                         "h100-sxm-8", bmc, tmp_path)  # fmt: skip
    for folder in (made.hardware, made.tools / "bin", made.fault_file.parent, made.disk):
        folder.mkdir(parents=True)
    return made


@pytest.fixture
def gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A node's tool folder, with a manifest; returns the state file."""
    manifest = {"driver": "580.105.08", "cuda": "13.0", "fabric_manager": "580.105.08"}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    (tmp_path / "serial").write_text("GFLAB0009\n")
    (tmp_path / "boot_id").write_text("this-boot\n")
    monkeypatch.setattr(gpu_state, "HOME", tmp_path)
    monkeypatch.setattr(gpu_state, "MANIFEST", tmp_path / "manifest.json")
    monkeypatch.setattr(gpu_state, "SERIAL", tmp_path / "serial")
    monkeypatch.setattr(gpu_state, "BOOT_ID", tmp_path / "boot_id")
    monkeypatch.setattr(dcgmi_tool, "HEALTH_MARK", tmp_path / "health")
    return tmp_path / "state.json"


def inject(state: Path, **faults: dict[str, Any]) -> None:
    """Write the state file."""
    state.write_text(json.dumps({"schema": 1, "faults": faults}))


def run_script(text: str, files: dict[str, bytes]) -> tuple[ipxe.Boot, list[str]]:
    """Run a boot script over these files."""
    said: list[str] = []

    def fetch(url: str) -> bytes:
        if url not in files:
            raise OSError("HTTP 404")
        return files[url]

    return ipxe.Script(text, MAC, fetch, said.append, lambda delay: None).run(), said


FILES = {f"{BASE}/kernel": b"k", f"{BASE}/image": b"i"}


def test_boot_script_in_ramdisk_mode_loads_kernel_and_image() -> None:
    boot, _said = run_script(BOOT_ENTRY.format(base=BASE, image="image", label="boot_ramdisk"), FILES)
    assert (boot.action, boot.kernel_url, boot.images) == ("image", f"{BASE}/kernel", [(f"{BASE}/image", b"i")])
    assert boot.arguments == "root=/dev/ram0 text lab=1 initrd=ramdisk"


def test_boot_script_options_before_the_url_are_no_url() -> None:
    boot, _said = run_script(f"#!ipxe\nkernel --timeout 60000 {BASE}/kernel a=${{mac}} ||\nboot\n", FILES)
    assert (boot.kernel_url, boot.arguments) == (f"{BASE}/kernel", f"a={MAC}")


def test_boot_script_for_the_disk_and_for_power_off() -> None:
    entry = BOOT_ENTRY.format(base=BASE, image="image", label="boot_whole_disk")
    assert run_script(entry, FILES)[0].action == "disk"
    assert run_script("#!ipxe\niseq 3 3 && goto out ||\nboot\n:out\npoweroff\n", FILES)[0].action == "poweroff"
    assert run_script("#!ipxe\niseq 3 4 && goto out ||\nexit\n:out\npoweroff\n", FILES)[0].action == "disk"


@pytest.mark.parametrize(
    "text",
    [
        BOOT_ENTRY.format(base=BASE, image="gone", label="boot_ramdisk"),
        BOOT_ENTRY.format(base=BASE, image="image", label="deploy"),
        "#!ipxe\n:again\ngoto again\n",
        "#!ipxe\nfrobnicate\n",
        "#!ipxe\nkernel http://10.79.0.1:8080/gone\nboot\n",
        "set i:int32 0\n",
    ],
)
def test_boot_script_that_cannot_be_carried_out_ends_with_an_error(text: str) -> None:
    with pytest.raises(ipxe.ScriptError):
        run_script(text, FILES)


ENTRY = f"#!ipxe\nkernel {BASE}/kernel a=${{mac}} of=${{set}}\ninitrd {BASE}/image\nboot\n".encode()
CHAINED = {**FILES, f"{BASE}/entry": ENTRY, f"{BASE}/away": b"#!ipxe\nexit 1\n", f"{BASE}/none": b"<h1>404</h1>"}


def test_a_boot_script_leads_to_another_which_knows_what_it_has_set() -> None:
    text = f"#!ipxe\nset set {BASE}\nchain --autofree ${{set}}/entry || exit 1\n"
    boot, _said = run_script(text, CHAINED)
    assert (boot.action, boot.arguments) == ("image", f"a={MAC} of={BASE}")
    assert boot.images == [(f"{BASE}/image", b"i")]


@pytest.mark.parametrize("file", ["away", "none", "gone"])
def test_a_boot_script_goes_on_where_another_leaves_or_is_none(file: str) -> None:
    boot, _said = run_script(f"#!ipxe\nchain {BASE}/{file} || chain {BASE}/entry\n", CHAINED)
    assert boot.action == "image"
    assert run_script(f"#!ipxe\nchain {BASE}/{file} || exit 1\n", CHAINED)[0].action == "disk"


def test_boot_scripts_that_lead_round_in_a_circle_end() -> None:
    with pytest.raises(ipxe.ScriptError):
        run_script(f"#!ipxe\nchain {BASE}/me\n", {f"{BASE}/me": f"#!ipxe\nchain {BASE}/me\n".encode()})


def test_what_is_loaded_after_the_image_is_unpacked_over_it(node: rackconf.Node) -> None:
    disk.install(node, artifact("1"), "first", artifact("2", **{"etc/overlay": "x"}))
    assert json.loads((node.disk / "upper/etc/gpufleet/manifest.json").read_text())["version"] == "2"
    assert (node.disk / "upper/etc/overlay").exists()
    with pytest.raises(disk.NotAnImage):
        disk.install(node, artifact("3"), "third", b"nothing")
    assert json.loads((node.disk / "upper/etc/gpufleet/manifest.json").read_text())["version"] == "2"


def test_an_image_that_cannot_be_unpacked_leaves_the_disk_alone(node: rackconf.Node) -> None:
    disk.install(node, artifact("1"), "first")
    for broken in (b"nothing", artifact("2")[:-20], artifact("2", **{"../evil": "x"}), artifact("2", **{"/evil": "x"})):
        with pytest.raises(disk.NotAnImage):
            disk.install(node, broken, "second")
        assert disk.bootable(node)
        assert json.loads((node.disk / "upper/etc/gpufleet/manifest.json").read_text())["version"] == "1"
    disk.install(node, artifact("3"), "third")
    assert json.loads((node.disk / "upper/etc/gpufleet/manifest.json").read_text())["version"] == "3"


def test_fru_carries_the_serial_and_sums_to_zero(node: rackconf.Node) -> None:
    data = ipmi_bmc.fru_data(node)
    assert sum(data[:8]) % 256 == 0
    for start in data[2:5]:
        area = data[start * 8 : start * 8 + data[start * 8 + 1] * 8]
        assert sum(area) % 256 == 0
    assert data.count(b"GFLAB0009") == 3  # chassis, board (with its suffix), product


def test_kernel_log_records_are_numbered_and_stamped(node: rackconf.Node) -> None:
    console.kernel_say(node, ["first", "second"], 1.5)
    console.kernel_say(node, ["third"], 2.0, console.KERNEL_ERROR)
    lines = console.kernel_log(node).read_text().splitlines()
    assert lines == ["6,0,1500000,-;first", "6,1,1500001,-;second", "3,2,2000000,-;third"]


def test_faults_are_written_so_that_a_reader_never_sees_half(node: rackconf.Node) -> None:
    fault.change(node, "xid79", {"gpu": "5"})
    first = os.stat(node.fault_file).st_ino
    assert rackconf.faults_of(node)["xid79"]["gpu"] == 5
    fault.change(node, "bmc_slow", {"seconds": "0.5"})
    assert set(rackconf.faults_of(node)) == {"xid79", "bmc_slow"}
    fault.change(node, "-xid79", {})
    assert set(rackconf.faults_of(node)) == {"bmc_slow"}
    fault.change(node, "none", {})
    assert rackconf.faults_of(node) == {}
    assert os.stat(node.fault_file).st_ino == first, "the file is mounted in the node and has to stay the same one"


def test_unknown_faults_and_parameters_are_refused(node: rackconf.Node) -> None:
    for name, values in (("bogus", {}), ("-bogus", {}), ("xid79", {"card": "1"})):
        with pytest.raises(fault.Unknown):
            fault.change(node, name, values)


def test_a_tool_is_taken_away_and_comes_back(node: rackconf.Node) -> None:
    fault.change(node, "dcgm_missing", {})
    assert not (node.tools / "bin/dcgmi").exists() and (node.tools / "bin/nvidia-smi").exists()
    fault.change(node, "none", {})
    assert os.access(node.tools / "bin/dcgmi", os.X_OK)


def test_every_fault_is_listed() -> None:
    words = [sys.executable, str(MACHINES / "fault.py"), "--list"]
    listed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert {line.split()[0] for line in listed.splitlines()} == {"none", *fault_table.FAULTS}


def test_the_gpus_of_the_rack_and_of_its_tools_sit_on_the_same_buses() -> None:
    assert network.GPU_BUSES == gpu_state.BUSES


def test_a_record_names_one_process_and_no_successor() -> None:
    child = subprocess.Popen(["sleep", "60"])
    entry = records.record(child.pid)
    assert records.alive(entry)
    assert not records.alive({**entry, "start": entry["start"] + 1})
    assert records.stop({**entry, "start": entry["start"] + 1}) is False
    assert child.poll() is None
    assert records.stop(entry, signal.SIGTERM) is True
    child.wait(timeout=5)
    assert records.stop(entry) is False


def _diag(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    status = dcgmi_tool.main(["diag", "-j", *words])
    return status, json.loads(capsys.readouterr().out)


def _statuses(document: dict[str, Any]) -> dict[tuple[str, int], str]:
    tests = [test for category in document["DCGM Diagnostic"]["test_categories"] for test in category["tests"]]
    return {(test["name"], item["entity_id"]): item["status"] for test in tests for item in test["results"]}


def test_healthy_diagnostic(gpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inject(gpus)
    status, document = _diag(capsys, "-r", "2", "-n", "gpu:8", "-i", "gpu:*")
    assert status == 0
    names = ("software", "pcie", "memory")
    assert _statuses(document) == {(name, number): "Pass" for name in names for number in range(8)}
    assert document["metadata"] == {"version": "4.6.0", "Driver Version Detected": "580.105.08"}
    serials = {item["serial_num"] for item in document["entity_groups"][0]["entities"]}
    assert len(serials) == 8


def test_diagnostic_with_a_gpu_gone(gpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inject(gpus, gpu_missing={"gpu": 5})
    status, document = _diag(capsys, "-r", "1")
    assert (status, len(_statuses(document))) == (0, 7)
    status, document = _diag(capsys, "-r", "1", "-n", "gpu:8")
    summary = document["DCGM Diagnostic"]["test_categories"][0]["tests"][0]["test_summary"]
    assert (status, summary["status"], summary["warnings"][0]["error_id"]) == (226, "Fail", 20)


def test_diagnostic_with_one_failing_gpu(gpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inject(gpus, dcgm_fail_entity={"gpu": 6})
    status, document = _diag(capsys, "-r", "memory")
    assert status == 205
    assert {key for key, value in _statuses(document).items() if value == "Fail"} == {("memory", 6)}
    inject(gpus, dcgm_exit0_failing={"gpu": 2})
    status, document = _diag(capsys, "-r", "1")
    assert status == 0
    assert {key for key, value in _statuses(document).items() if value == "Fail"} == {("software", 2)}
    inject(gpus, dcgm_all_skip={})
    status, document = _diag(capsys, "-r", "3")
    assert status == 0 and set(_statuses(document).values()) == {"Skip"}


def test_c4_what_nvidia_smi_tells_of_a_broken_gpu_the_diagnostic_finds(
    gpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = {"row_remap_failure": ("1", "software", 80, 226), "ecc_uncorrected": ("2", "memory", 4, 205)}
    for name, (level, test, number, exit_status) in wanted.items():
        inject(gpus, **{name: {"gpu": 1, "count": 3}})
        status, document = _diag(capsys, "-r", level)
        assert status == exit_status, name
        assert {key for key, value in _statuses(document).items() if value == "Fail"} == {(test, 1)}
        tests = [item for part in document["DCGM Diagnostic"]["test_categories"] for item in part["tests"]]
        summary = next(item["test_summary"] for item in tests if item["name"] == test)
        assert [warning["error_id"] for warning in summary["warnings"]] == [number]


def test_diagnostic_refuses_what_it_does_not_know(gpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inject(gpus)
    assert dcgmi_tool.main(["diag", "-r", "no_such_test", "-j"]) == 255
    with pytest.raises(SystemExit) as stopped:
        dcgmi_tool.main(["diag", "--no-such-option"])
    assert stopped.value.code == 255
    assert dcgmi_tool.main(["bogus"]) == 255


def test_no_driver_without_an_image(gpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inject(gpus)
    gpu_state.MANIFEST.unlink()
    assert smi_tool.main(["-L"]) == 9
    capsys.readouterr()
    status, document = _diag(capsys, "-r", "1")
    assert status != 0 and "runtime_error" in document["DCGM Diagnostic"]


def test_health_has_to_be_switched_on_first(gpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inject(gpus, xid79={"gpu": 3, "boot_id": "this-boot"})
    assert dcgmi_tool.main(["health", "-c", "-j"]) == 253
    assert dcgmi_tool.main(["health", "-s", "a"]) == 0
    capsys.readouterr()
    assert dcgmi_tool.main(["health", "-c", "-j"]) == 0
    assert json.loads(capsys.readouterr().out)["body"]["Overall Health"]["value"] == "Failure"


def test_documents_keep_to_the_vendors_schema(gpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded = demanded("gates")
    schema = json.loads((recorded / "dcgm-diag/SCHEMA_dcgm4_diag_schema.json").read_text())
    broken = ("dcgm_fail_entity", "gpu_missing", "row_remap_failure", "ecc_uncorrected")
    for faults in ({}, {"dcgm_all_skip": {}}, *({name: {"gpu": 1}} for name in broken)):
        inject(gpus, **faults)
        for level in ("1", "2", "3", "4"):
            jsonschema.validate(_diag(capsys, "-r", level)[1], schema)


def _query(capsys: pytest.CaptureFixture[str], fields: str, form: str = "csv") -> list[list[str]]:
    assert smi_tool.main([f"--query-gpu={fields}", f"--format={form}"]) == 0
    return list(csv.reader(io.StringIO(capsys.readouterr().out), skipinitialspace=True))


def test_query_has_a_header_with_units_and_a_row_a_gpu(gpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inject(gpus, row_remap_failure={"gpu": 1}, ecc_uncorrected={"gpu": 4, "count": 3})
    fields = "index,memory.total,driver_version,remapped_rows.failure,ecc.errors.uncorrected.volatile.dram"
    rows = _query(capsys, fields)
    assert rows[0] == [
        "index", "memory.total [MiB]", "driver_version", "remapped_rows.failure",
        "ecc.errors.uncorrected.volatile.dram",
    ]  # fmt: skip
    assert rows[2] == ["1", "81559 MiB", "580.105.08", "Yes", "0"]
    assert rows[5][3:] == ["No", "3"]
    assert _query(capsys, "index,memory.total", "csv,noheader,nounits")[0] == ["0", "81559"]


def test_query_refuses_an_unknown_field_and_a_missing_format(gpus: Path) -> None:
    inject(gpus)
    assert smi_tool.main(["--query-gpu=no.such.field", "--format=csv"]) == 2
    assert smi_tool.main(["--query-gpu=index"]) == 2


def test_a_lost_gpu_fails_the_tool_for_all_until_the_next_boot(gpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inject(gpus, xid79={"gpu": 3, "boot_id": "this-boot"})
    assert smi_tool.main([]) == 15
    inject(gpus, xid79={"gpu": 3, "boot_id": "an-earlier-boot"})
    capsys.readouterr()
    assert smi_tool.main(["-L"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 7


def test_the_fields_are_those_of_the_real_tool(gpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded = demanded("gates")
    text = (recorded / "nvidia-smi/h100_590_query_gpu_idle.csv").read_text()
    header = next(csv.reader(io.StringIO(text), skipinitialspace=True))
    units = {name.split(" [")[0]: name for name in header}
    inject(gpus)
    aliases = {"gpu_name", "gpu_serial", "gpu_uuid", "gpu_bus_id"}  # the tool's help text gives both names
    known = sorted((set(smi_tool.FIELDS) | set(smi_tool._own(0, [0]))) - aliases)
    shown = _query(capsys, ",".join(known))[0]
    assert [units.get(name, f"missing in the real tool: {name}") for name in known] == shown


def test_the_plain_table_has_the_real_tools_width(gpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inject(gpus)
    assert smi_tool.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {len(line) for line in lines if line.startswith(("+", "|"))} == {91}


def test_nothing_of_the_machines_names_this_checkout() -> None:
    for path in MACHINES.rglob("*"):
        if path.is_file() and path.suffix in (".py", ""):
            assert str(CHECKOUT) not in path.read_text()
