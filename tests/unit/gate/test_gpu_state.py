# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpu_state_gate: what each value of nvidia-smi means, and that nothing which is missing or unreadable passes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Optional

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state import links
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.cells import RULES
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.document import number, read
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.judge import Look, judge
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.section import section_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import wanted_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._process import Run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import PASS, Sheet
from ansible_collections.gpufleet.baremetal.tests.unit.gate import smi

DONE = Run(("nvidia-smi", "-q", "-x"), 0, b"", b"", "exit", 0.1)
Before = Optional[list[dict[str, Any]]]


GPUS = 4


def xml(*broken: Mapping[str, Optional[str]], gpus: int = GPUS, **how: Any) -> str:
    return smi.xml(*broken, gpus=gpus, **how)


def look(text: str, *, before: Before = None, state: str = "", errors: str = "", boot: str = "b") -> Look:
    tables = (links.read(state) if state else STATE, links.read(errors) if errors else ERRORS)
    return Look(read(text), [DONE], *tables, before=before, boot_id=boot, uptime=1000.0)


PROFILE = smi.profile(count=GPUS)
UP, QUIET = smi.state(GPUS), smi.errors(GPUS)
STATE, ERRORS = links.read(UP), links.read(QUIET)


def judged(text: str, *cells: str, **how: Any) -> Sheet:
    return judge(look(text, **how), wanted_of(smi.profile(*cells, count=GPUS)))


def told(sheet: Sheet) -> tuple[str, str, str]:
    """The verdict, the first finding's text, and the remedy."""
    return sheet.verdict, sheet.findings[0].text if sheet.findings else "", sheet.remedy


def test_a_healthy_machine_passes_and_fills_each_cell() -> None:
    sheet = judged(xml())
    assert sheet.verdict == PASS, sheet.findings
    assert {check.id for check in sheet.rows()} == {"ended", "gpu_count", "driver", "uuid", "device_id", *smi.CELLS}


#: What no cell of the profile reads; it counts where it tells of broken hardware.
ASIDE = re.compile("product_name|gpu_idle|sw_power_cap|counters|repair|retired|cluster|fabric/health|utilization")
ABSENT = (None, "N/A", "[Not Supported]", "")


@pytest.mark.parametrize("gone", [*smi.HEALTHY, "uuid"])
def test_a_value_that_says_nothing_is_no_pass_where_its_cell_is_demanded(gone: str) -> None:
    for word in (*ABSENT, "[Unknown Error]", "ERR!", "4711 bananas"):
        found = judged(xml({gone: word})).verdict
        if ASIDE.search(gone):
            assert found == PASS or (gone == "fabric/health/summary" and word not in ABSENT), word
        else:
            assert found == ("fail" if (gone, word) == ("fabric/status", "4711 bananas") else "inconclusive"), word


# Paths of the elements, shortened.
ECC, PAGES = "ecc_errors__", "remapped_rows__remapped_row_"
CLOCKS, LINK = "clocks_event_reasons__clocks_event_reason_", "pci__pci_gpu_link_info__"
NONE_LEFT = "remapped_rows__row_remapper_histogram__row_remapper_histogram_none"
POWER = "gpu_power_readings__"
WHO = "GPU 3 (0000:13:00)"
WRONG = [
    ("ecc_mode__current_ecc", "Disabled", "fail", "ECC is off", "remediate_config"),
    ("ecc_mode__pending_ecc", "Disabled", "inconclusive", "ECC will be off", "remediate_config"),
    (f"{ECC}volatile__dram_uncorrectable", "2", "fail", "2 uncorrected errors in DRAM", "reset_gpu"),
    (f"{ECC}volatile__sram_uncorrectable_secded", "1", "fail", "1 uncorrected errors in SRAM", "reset_gpu"),
    (
        f"{ECC}aggregate__sram_uncorrectable_parity",
        "5",
        "fail",
        "5 uncorrected errors in SRAM in its life",
        "rma",
    ),
    (f"{ECC}aggregate__sram_threshold_exceeded", "Yes", "fail", "limit of errors in SRAM is exceeded", "rma"),
    (f"{ECC}unrepairable_memory", "Yes", "fail", "memory cannot be repaired", "rma"),
    (f"{ECC}channel_repair_pending", "Yes", "fail", "repair of a memory channel waits", "reset_gpu"),
    (f"{PAGES}failure", "Yes", "fail", "a row remap failed", "rma"),
    (f"{PAGES}failure", "1", "fail", "a row remap failed", "rma"),
    (f"{PAGES}pending", "Yes", "fail", "a row remap waits for a reset", "reset_gpu"),
    (
        NONE_LEFT,
        "1 bank(s)",
        "fail",
        "without a row",
        "field_diag",
    ),
    ("retired_pages__pending_retirement", "Yes", "fail", "waits for a reset to be retired", "reset_gpu"),
    ("gpu_recovery_action", "Reset", "fail", "the driver asks to reset it", "reset_gpu"),
    ("gpu_recovery_action", "Reboot", "fail", "the driver asks to reboot", "reboot"),
    ("gpu_recovery_action", "Dance", "inconclusive", "reads Dance", "retest"),
    (f"{CLOCKS}hw_slowdown", "Active", "fail", "slows it down", "field_diag"),
    (
        f"{CLOCKS}hw_power_brake_slowdown",
        "Active",
        "fail",
        "power brake",
        "field_diag",
    ),
    (f"{CLOCKS}sw_thermal_slowdown", "Active", "fail", "too hot", "field_diag"),
    ("fb_memory_usage__total", "40960 MiB", "fail", "40960 MiB of memory, wanted 81559", "field_diag"),
    ("mig_mode__current_mig", "Enabled", "fail", "MIG is on", "remediate_config"),
    ("mig_mode__pending_mig", "Enabled", "fail", "MIG will be on", "remediate_config"),
    ("persistence_mode", "Disabled", "inconclusive", "persistence mode is off", "remediate_config"),
    (
        f"{POWER}current_power_limit",
        "500.00 W",
        "fail",
        "power limit is 500 W, wanted 700",
        "remediate_config",
    ),
    (f"{POWER}average_power_draw", "ERR!", "inconclusive", "its power draw reads ERR!", "retest"),
    (f"{LINK}pcie_gen__max_link_gen", "4", "fail", "at most 4 PCIe generation, wanted 5", "reseat"),
    (f"{LINK}link_widths__max_link_width", "8x", "fail", "at most 8 PCIe lanes", "reseat"),
    (
        f"{LINK}link_widths__current_link_width",
        "8x",
        "inconclusive",
        "8 PCIe lanes while idle",
        "retest",
    ),
    ("fabric__state", "In Progress", "inconclusive", "still joining the fabric", "retest"),
    ("fabric__state", "Not Started", "fail", "Fabric Manager", "fabric"),
    ("fabric__status", "Insufficient Resources", "fail", "did not join the fabric: Insufficient Resources", "fabric"),
    ("fabric__health__summary", "Unhealthy", "fail", "the fabric is unhealthy", "fabric"),
    ("pci__pci_device_id", "232110DE", "inconclusive", "device 2321 is not a GPU of the profile", "remediate_config"),
    ("pci__pci_device_id", "23301002", "inconclusive", "is not a GPU of the profile", "remediate_config"),
    ("uuid", smi.uuid(2), "inconclusive", "its UUID is also another's", "retest"),
    (f"{ECC}volatile__dram_uncorrectable", "GPU is lost", "fail", "GPU is lost", "power_cycle"),
]


@pytest.mark.parametrize(("path", "value", "verdict", "text", "remedy"), WRONG)
def test_what_a_value_means(path: str, value: str, verdict: str, text: str, remedy: str) -> None:
    sheet = judged(xml({path: value}))
    assert sheet.verdict == verdict and sheet.remedy == remedy, told(sheet)
    assert any(text in finding.text and finding.text.startswith(WHO) for finding in sheet.findings)
    assert any(check.verdict == verdict and check.entity == "GPU 3" for check in sheet.rows())
    assert sheet.demanded() and not any(finding.entity == "GPU 1" for finding in sheet.findings)


FINE = [
    {f"{LINK}pcie_gen__current_link_gen": "1"},
    {f"{CLOCKS}sw_power_cap": "Active"},
    {f"{ECC}aggregate__dram_uncorrectable": "7", f"{PAGES}unc": "2"},
    {f"{ECC}aggregate__sram_uncorrectable_parity": "2", f"{ECC}aggregate__sram_uncorrectable_secded": "2"},
    {"remapped_rows__row_remapper_histogram__row_remapper_histogram_low": "3 bank(s)"},
    {"fb_memory_usage__total": "80994 MiB"},
    {f"{POWER}current_power_limit": "699.50 W"},
    {f"{PAGES}failure": "0", f"{PAGES}pending": "0"},
    {"fabric__health__summary": "Healthy"},
    {f"{ECC}volatile__sram_uncorrectable_parity": None, f"{ECC}volatile__sram_uncorrectable_secded": None,
     f"{ECC}volatile__sram_uncorrectable": "0"},
]  # fmt: skip


@pytest.mark.parametrize("changed", FINE, ids=lambda changed: next(iter(changed)).rsplit("__", 1)[-1])
def test_what_no_healthy_gpu_is_rejected_for(changed: dict[str, Optional[str]]) -> None:
    sheet = judged(xml(changed))
    assert sheet.verdict == PASS, told(sheet)


def test_a_link_below_its_generation_under_load_fails() -> None:
    slow = {f"{LINK}pcie_gen__current_link_gen": "1", "utilization__gpu_util": "97 %"}
    assert told(judged(xml(slow))) == (
        "fail",
        "GPU 3 (0000:13:00): 1 PCIe generation under load, wanted 5",
        "reseat",
    )
    narrow = {f"{LINK}link_widths__current_link_width": "8x", "utilization__gpu_util": "97 %"}
    assert judged(xml(narrow)).verdict == "fail"


def test_broken_hardware_counts_although_the_profile_does_not_ask_and_a_setting_does_not() -> None:
    assert judged(xml(), "memory").verdict == PASS
    for name, rule in RULES.items():
        assert rule.health == (name in HEALTH), name
    assert judged(xml({f"{PAGES}failure": "Yes"}), "memory").verdict == "fail"
    assert judged(xml({"mig_mode__current_mig": "Enabled"}), "memory").verdict == PASS
    assert judged(xml({f"{PAGES}failure": None}), "memory").verdict == PASS


HEALTH = frozenset(
    {
        *("ecc_volatile", "sram_threshold", "row_remap", "row_remap_banks", "retired_pages", "repairs", "recovery"),
        *("clocks", "ras", "xgmi", "bad_pages"),
    }
)


def test_gpus_before_ampere_retire_pages() -> None:
    pages = "retired_pages__multiple_single_bit_retirement__retired_count"
    old = {
        pages: "40",
        "retired_pages__double_bit_retirement__retired_count": "20",
        "retired_pages__pending_retirement": "No",
    }
    assert judged(xml(old), "memory").verdict == PASS
    assert judged(xml({**old, pages: "60"}), "memory").remedy == "rma"
    assert judged(xml(), "retired_pages").verdict == "inconclusive"


def test_what_a_driver_does_not_know_yet_is_demanded_from_the_next_one_on() -> None:
    profile = smi.profile("sram_threshold", "memory", count=GPUS)
    profile["gpu_state"]["cells"][0]["since"] = "550"
    silent = {f"{ECC}aggregate__sram_threshold_exceeded": None}
    for driver, verdict in (("535.54.03", PASS), ("550.90.07", "inconclusive"), ("12", "inconclusive")):
        document = xml(silent, driver=driver)
        assert judge(look(document), wanted_of(profile)).verdict == verdict, driver
    profile["gpu_state"]["cells"][0]["until"] = "560"
    assert judge(look(xml(silent, driver="560.28.03")), wanted_of(profile)).verdict == PASS
    del profile["gpu_state"]["cells"][1]
    none = judge(look(xml(silent, driver="535.54.03")), wanted_of(profile))
    assert none.verdict == "inconclusive" and "names no cell" in none.findings[0].text


def test_a_section_without_what_its_cells_need_is_none() -> None:
    for broken in ("figure", "limit", "name", "section"):
        profile = smi.profile()
        rows = profile["gpu_state"]["cells"]
        if broken == "figure":
            del profile["gpu"]["power"]
        elif broken == "limit":
            del next(row for row in rows if row["name"] == "ecc_aggregate")["limit"]
        elif broken == "name":
            rows[0]["name"] = "colour"
        else:
            del profile["gpu_state"]
        with pytest.raises(ConfigError):
            section_of(wanted_of(profile))


# -- documents ---------------------------------------------------------------------------------------------------------


def test_a_number_has_its_unit_and_nothing_else() -> None:
    assert number(["81559 MiB"], "MiB") == number(["81559"], "MiB") == 81559
    assert number(["1", "2"]) == 3
    for words in (["81559 KiB"], ["-1"], ["1e9"], ["0x10"], ["inf"], ["1", "N/A"], [], [""], ["1 2"], ["9" * 16]):
        assert number(words, "MiB") is None, words


@pytest.mark.parametrize(
    "text",
    [
        xml() + xml(),
        xml().replace("<nvidia_smi_log>", '<!DOCTYPE x [<!ENTITY a "b">]>\n<nvidia_smi_log>'),
        xml().replace("<attached_gpus>", "<!-- x --><attached_gpus>"),
        xml().replace("</gpu>", "", 1),
        "<gpu></gpu>" + xml(),
        xml().replace("<attached_gpus>4", "<attached_gpus>5"),
        xml().replace(f"<driver_version>{smi.DRIVER}", "<driver_version>N/A"),
    ],
    ids=["two", "entity", "comment", "unclosed", "more", "another-number", "no-driver"],
)
def test_a_document_that_nvidia_smi_does_not_write_is_no_pass(text: str) -> None:
    assert judged(text).verdict == "inconclusive"


def test_a_value_that_is_told_twice_is_told_by_neither() -> None:
    good = "<remapped_row_failure>No</remapped_row_failure>"
    for other in ("Yes", "N/A"):
        twice = xml().replace(good, f"<remapped_row_failure>{other}</remapped_row_failure>{good}", 1)
        assert judged(twice).verdict == "inconclusive", other


def test_the_table_and_the_text_of_other_calls_are_read_as_well() -> None:
    head = "uuid, pci.bus_id, memory.total [MiB], ecc.mode.current, driver_version, count"
    row = f"{smi.uuid(0)}, 00000000:10:00.0, 81559 MiB, [N/A], {smi.DRIVER}, 1"
    seen = read(f"{head}\n{row}\n")
    assert (seen.form, seen.said("driver"), seen.said("attached")) == ("csv", smi.DRIVER, "1")
    assert seen.gpus[0].said("memory") == ["81559 MiB"] and seen.gpus[0].said("ecc") == ["[N/A]"]
    assert read(f"{head}\n{row}, 7\n").problems
    text = (
        "==============NVSMI LOG==============\n\nDriver Version      : 580.1\nAttached GPUs   : 1\n"
        "GPU 00000000:10:00.0\n    Clocks Event Reasons\n        HW Slowdown      : Not Active\n"
        "            HW Thermal Slowdown  : Active\n        SW Thermal Slowdown : Not Active\n"
        "    Remapped Rows\n        Remapping Failure Occurred : Yes\n"
    )
    [gpu] = read(text).gpus
    said = [gpu.said(name) for name in ("hw_slowdown", "hw_thermal", "sw_thermal", "remap_failure")]
    assert said == [["Not Active"], ["Active"], ["Not Active"], ["Yes"]]


# -- NVLinks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "verdict", "text"),
    [
        (smi.state(GPUS, down=3), "fail", "17 of 18 NVLinks are up: link 5 is down"),
        (smi.state(GPUS, down=3).replace("<inactive>", "inActive"), "fail", "17 of 18"),
        (smi.state(GPUS, speed="13.281 GB/s"), "fail", "18 NVLinks run at 13.281 GB/s, wanted 26.562"),
        (smi.state(GPUS, speed="26562 MB/s"), PASS, ""),
        (smi.state(GPUS, speed="fast"), "inconclusive", "it is said"),
        (smi.state(3), "inconclusive", "does not tell of its NVLinks"),
        (UP.replace("GPU 2", "GPU 1"), "inconclusive", "does not tell of its NVLinks"),
        (UP.replace(smi.uuid(2), smi.uuid(1)), "inconclusive", "does not tell of its NVLinks"),
        ("Nvlink queries are not supported for Devices in MIG mode\n", "inconclusive", "MIG mode"),
        ("\n", "fail", "0 of 18 NVLinks are up"),
        (re.sub(r"\t Link.*\n", "", UP), "fail", "0 of 18 NVLinks are up"),
        (
            re.sub(r"\t Link.*\n", "\t Unable to retrieve NVLink information as all links are inActive\n", UP),
            "fail",
            "0 of 18 NVLinks are up",
        ),
        (UP.replace("Link 17", "Link 16"), "inconclusive", "it is said"),
        (UP.replace("Link 17:", "Link 17: 26.562 GB/s\n\t Link 18:"), "inconclusive", "19 NVLinks"),
    ],
)
def test_nvlinks_are_up_at_their_speed(state: str, verdict: str, text: str) -> None:
    sheet = judged(xml(), state=state)
    assert sheet.verdict == verdict, told(sheet)
    assert any(text in finding.text for finding in sheet.findings) or not text


@pytest.mark.parametrize(
    ("errors", "verdict"),
    [
        (smi.errors(GPUS, replays=1), "fail"),
        (QUIET.replace("CRC Errors: 0", "CRC Errors: 5"), PASS),
        (QUIET.replace("CRC Errors: 0", "CRC Errors: 60"), "fail"),
        (QUIET.replace("Replay Errors: 0", "Replay Errors: N/A"), "inconclusive"),
        (smi.errors(3), "inconclusive"),
        (re.sub(r"\t Link.*\n", "", QUIET), "inconclusive"),
        (re.sub(r"\t Link ([1-9]|1\d): .*\n", "", QUIET), "inconclusive"),
        (re.sub(r"\t Link 17: .*\n", "", QUIET), "inconclusive"),
        (QUIET[: QUIET.rindex("\t Link 17: CRC")], "inconclusive"),
        (re.sub(r"Link \d+: ", "", QUIET), "inconclusive"),
        (QUIET + "\t Link 17: Raw Errors Lane 0: 40000\n", PASS),
        (re.sub(r"\t Link \d+: (Recovery|CRC).*\n", "", QUIET), "inconclusive"),
        (re.sub(r"\t Link \d+: Replay.*\n", "", QUIET), "inconclusive"),
    ],
)
def test_what_nvlinks_counted(errors: str, verdict: str) -> None:
    assert judged(xml(), errors=errors).verdict == verdict
