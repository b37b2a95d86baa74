# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tables: complete, of known words, and sourced."""

from __future__ import annotations

import csv
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import xids
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.cries import CRIES
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm import errors as dcgm_errors
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm import exits as dcgm_exits
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm import options as dcgm_options
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log import lines as klog_lines
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log import sxids
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.storage import errors as storage_errors
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import REMEDIES
from recorded import demanded


def _csv(name: str) -> list[dict[str, str]]:
    with open(demanded("gates", name) / name, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_every_remedy_is_of_the_vocabulary_and_every_row_has_a_source() -> None:
    rows: list[Any] = [*dcgm_errors.ERRORS.values(), *xids.XIDS.values(), *sxids.SXIDS.values()]
    assert {row.remedy for row in rows} <= set(REMEDIES)
    assert {row.remedy for row in dcgm_exits.EXITS.values()} <= set(REMEDIES)
    drives = [*storage_errors.OF_THE_DRIVE.values(), *storage_errors.WARNINGS.values(), storage_errors.UNKNOWN_WARNING]
    assert {row.remedy for row in drives} <= set(REMEDIES) - {"none"} and all(row.source for row in drives)
    assert {row.remedy for row in CRIES} <= set(REMEDIES) - {"none"} and all(row.source for row in CRIES)
    assert {row[3] for row in klog_lines.MESSAGES} <= set(REMEDIES)
    assert set(xids.RECOVERY.values()) <= set(REMEDIES)
    assert all(row.source and row.words for row in rows)
    assert all(row.source and row.words for row in dcgm_exits.EXITS.values())


def test_no_dcgm_error_is_without_a_remedy() -> None:
    assert "none" not in {row.remedy for row in dcgm_errors.ERRORS.values()}


def test_dcgm_table_has_every_known_error() -> None:
    known = {int(row["code"]) for row in _csv("dcgm_error_codes.csv") if "SENTINEL" not in row["name"]}
    assert known == set(dcgm_errors.ERRORS)


def test_a_failed_row_remap_is_an_rma_whatever_the_severity_says() -> None:
    for version, severity in (("3.3.9", 2), ("4.5.3", 2), ("4.6.0", 6)):
        assert dcgm_errors.look_up(80, severity=severity, version=version).remedy == "rma"


@pytest.mark.parametrize("error_id", [20, 46])
def test_what_dcgm_calls_configuration_and_is_seating(error_id: int) -> None:
    assert dcgm_errors.look_up(error_id, severity=5, version="4.6.0").remedy == "reseat"


def test_the_scale_of_severities_depends_on_the_version() -> None:
    assert dcgm_errors.look_up(999, severity=1, version="2.4.7").remedy == "field_diag"  # 2.x: isolate
    assert dcgm_errors.look_up(999, severity=1, version="4.6.0").remedy == "retest"  # since 3.0: monitor
    assert dcgm_errors.look_up(999, severity=6, version="4.6.0").remedy == "reset_gpu"
    assert dcgm_errors.look_up(999, severity=None, version="").remedy == "field_diag"


def test_xid_table_agrees_with_the_catalogue() -> None:
    """Where the catalogue says reset or restart, no row says less."""
    at_least = {"RESET_GPU": "reset_gpu", "RESTART_BM": "reboot", "RESTART_VM": "reboot", "CHECK_MECHANICALS": "reseat"}
    rank = {name: at for at, name in enumerate(REMEDIES)}
    for row in _csv("xid_catalog.csv"):
        number = int(row["code"])
        wanted = at_least.get(row["immediate"], "none")
        if row["immediate"].startswith("CONTACT_SUPPORT"):
            wanted = "field_diag"
        assert rank[xids.look_up(number).remedy] >= rank[wanted], number


def test_an_unknown_xid_is_for_a_person() -> None:
    assert xids.look_up(4711).remedy == "field_diag"
    assert sxids.look_up(99999).remedy == "field_diag"
    assert sxids.look_up(99999).fatal


def test_sxid_table_has_every_known_one() -> None:
    for row in _csv("sxid_catalog.csv"):
        known = sxids.SXIDS[int(row["sxid"])]
        assert known.fatal == (row["gpud_event_type"] == "Fatal"), row


@pytest.mark.parametrize(
    ("version", "only", "expected"),
    [
        ((2, 4, 7), None, ["dcgmi", "diag", "-r", "2", "-j"]),
        ((3, 1, 8), None, ["dcgmi", "diag", "-r", "2", "-j"]),
        ((3, 3, 9), None, ["dcgmi", "diag", "-r", "2", "-j", "-n", "gpu:8"]),
        ((4, 6, 0), None, ["dcgmi", "diag", "-r", "2", "-j", "-n", "gpu:8", "--ignoreErrorCodes", "*:122"]),
        ((4, 6, 0), 3, ["dcgmi", "diag", "-r", "2", "-j", "-i", "gpu:3"]),
        (None, None, ["dcgmi", "diag", "-r", "2", "-j"]),
    ],
)
def test_no_option_that_this_version_lacks(version: object, only: object, expected: list[str]) -> None:
    assert dcgm_options.argv("dcgmi", "2", version, gpus=8, only=only, ignore=[122]) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "test"),
    [
        ("GPU Memory", "memory"),
        ("PCIe", "pcie"),
        ("Blacklist", "denylist"),
        ("Page Retirement/Row Remap", "page_retirement"),
        ("Permissions and OS-related Blocks", "permissions"),
        ("Environmental Variables", "environment"),
        ("Targeted Stress", "targeted_stress"),
        ("nvbandwidth", "nvbandwidth"),
    ],
)
def test_one_name_a_test(name: str, test: str) -> None:
    assert dcgm_options.canonical(name) == test


def test_the_end_of_dcgmi() -> None:
    assert dcgm_exits.meaning(0).kind == dcgm_exits.OK
    assert dcgm_exits.meaning(-9).kind == dcgm_exits.KILLED
    assert dcgm_exits.meaning(77).kind == dcgm_exits.UNKNOWN
    assert dcgm_exits.meaning(205).kind == dcgm_exits.HARDWARE
