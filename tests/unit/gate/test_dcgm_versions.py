# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which release's tests a diagnosis owes: the newer one's of dcgmi and of the host engine that ran them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Optional

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.claimed import lacking, question
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.gate import dcgm_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.options import (
    parse_version,
    printed_version,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made

PROFILE: dict[str, Any] = yaml.safe_load((made.PROFILES / "h100-sxm-8.yaml").read_text(encoding="utf-8"))
ROWS = [row for row in PROFILE["dcgm"]["tests"] if row["level"] <= 3]
ALL = [row["name"] for row in ROWS]
#: What a release ran before it had these tests.
OLD = [row["name"] for row in ROWS if "since" not in row]


def gate(folder: Path, tests: list[str], printed: str, document: Optional[str]) -> dict[str, Any]:
    diagnosis = made.dcgm4(tests)
    diagnosis["metadata"]["version"] = document
    (folder / "version").write_text(printed, encoding="utf-8")
    tool = made.dcgmi(folder, made.text(diagnosis))
    script = Path(tool).read_text(encoding="utf-8").replace('echo "dcgmi  version: 4.6.0"', f"cat {folder}/version")
    params = {"dcgmi": made.program(folder / "dcgmi", script), "profile": PROFILE, "level": 3, "timeout": 60}
    return dcgm_gate({**params, "localise_timeout": 0, "pci_path": made.pci(folder)}, Context()).data


def test_some_tests_are_newer_than_others() -> None:
    assert set(OLD) < set(ALL)


@pytest.mark.parametrize(
    ("printed", "document"),
    [
        ("\ndcgmi  version: 4.4.2\n", "4.6.0"),
        ("\ndcgmi  version: 4.6.0\n", "4.4.2"),
        ("found libcuda 1.2.3\ndcgmi  version: 4.6.0\n", "4.6.0"),
        ("found libcuda 1.2.3\n", "4.6.0"),
        ("found libcuda 1.2.3\n", None),
    ],
    ids=["old-client", "old-engine", "noise", "noise-alone", "unknown"],
)
def test_a_release_that_lacks_a_test_is_no_reason_to_leave_it_out(
    tmp_path: Path, printed: str, document: Optional[str]
) -> None:
    result = gate(tmp_path, OLD, printed, document)
    assert result["verdict"] == "inconclusive", result["msg"]
    assert "dcgm.nvbandwidth" in {row["id"] for row in result["checks"] if row["verdict"] == "inconclusive"}


def test_two_releases_are_told_and_pass_with_each_test_of_the_newer_one(tmp_path: Path) -> None:
    for printed, document in (("4.4.2", "4.6.0"), ("4.6.0", "4.4.2")):
        result = gate(tmp_path, ALL, f"\ndcgmi  version: {printed}\n", document)
        assert result["verdict"] == "pass", result["msg"]
        assert f"dcgmi is of {printed}, and the diagnosis of {document}" in result["msg"]
        assert result["tool"]["version"] == "4.6.0" and lacking(result, question(PROFILE, 3, [])) == ""
    old = gate(tmp_path, OLD, "\ndcgmi  version: 4.4.2\n", "4.4.2")
    assert (old["verdict"], old["findings"]) == ("pass", [])


def test_a_version_begins_what_a_document_says_of_it_and_follows_the_word_in_print() -> None:
    assert parse_version("4.6.0") == printed_version("x\n/usr/bin/dcgmi  version: 4.6.0\n\n") == (4, 6, 0)
    assert parse_version("libcuda 1.2.3") is parse_version("") is printed_version("libcuda 1.2.3") is None
