# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The PCIe link under load: dcgmi is told what the SKU has, and a link that it did not look at is no pass."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Optional

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.gate import dcgm_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made

PROFILE: dict[str, Any] = yaml.safe_load((made.PROFILES / "h100-sxm-8.yaml").read_text(encoding="utf-8"))
SKIPPED = "Skipping PCI-E link check for GPU 3 in pstate 8"
LOW = "GPU 3 is running at PCI link generation 3, which is below the minimum allowed link generation of 5"
NARROW = "GPU 3 is running at PCI link width 8X, which is below the minimum allowed link width of 16"
PINNED = "pcie.h2d_d2h_single_pinned"
#: What dcgmi is told of an H100.
FLOORS = ";".join(
    f"{PINNED.replace('pinned', part)}.{floor}"
    for part in ("pinned", "unpinned")
    for floor in ("min_pci_generation=5", "min_pci_width=16")
)


def machine(folder: Path, *, generation: int = 5, width: int = 16, version: str = "4.6.0") -> str:
    """A dcgmi whose GPU 3 has such a link. As DCGM's own, it compares it with the floors that it is given."""
    healthy = made.dcgm4()
    for name, low in (("generation", LOW), ("width", NARROW)):
        document = made.failing(healthy, "pcie", 3, made.fault(low, 45 if name == "generation" else 46, 4))
        (folder / name).write_text(made.text(document), encoding="utf-8")
    floor = f'[ "${{one#*=}}" -gt %s ] && cat {folder}/%s && exit 226'
    body = (
        "for word; do case $word in pcie.*) IFS=';'; for one in $word; do case $one in\n"
        f"  {PINNED}.min_pci_generation=*) {floor % (generation, 'generation')};;\n"
        f"  {PINNED}.min_pci_width=*) {floor % (width, 'width')};;\n"
        "esac; done;; esac; done"
    )
    return made.dcgmi(folder, made.text(healthy), version=version, body=body)


def gate(folder: Path, tool: str, profile: Optional[Mapping[str, Any]] = None, **how: Any) -> dict[str, Any]:
    params = {"dcgmi": tool, "profile": profile or PROFILE, "level": 2, "timeout": 60, "localise_timeout": 0}
    return dcgm_gate({**params, "pci_path": made.pci(folder), **how}, Context()).data


@pytest.mark.parametrize("version", ["4.6.0", "3.3.9"])
@pytest.mark.parametrize(
    ("link", "words"),
    [
        ({"generation": 1}, "GPU 3: PCIe generation is too low"),
        ({"generation": 3}, "GPU 3: PCIe generation is too low"),
        ({"generation": 4}, "GPU 3: PCIe generation is too low"),
        ({"width": 8}, "GPU 3: PCIe link is too narrow"),
    ],
)
def test_a_link_below_that_of_the_sku_fails_under_load(
    tmp_path: Path, link: dict[str, int], words: str, version: str
) -> None:
    result = gate(tmp_path, machine(tmp_path, version=version, **link))
    assert (result["verdict"], result["remedy"]) == ("fail", "reseat"), result["msg"]
    assert words in result["msg"]


def test_a_link_as_the_sku_has_passes(tmp_path: Path) -> None:
    result = gate(tmp_path, machine(tmp_path))
    assert result["verdict"] == "pass", result["msg"]
    assert result["argv"][1:9] == ["diag", "-r", "2", "-j", "-p", FLOORS, "-n", "gpu:8"]


def _noted(*notes: str) -> dict[str, Any]:
    document = made.dcgm4()
    made.result_of(document, "pcie", 3)["info"] = list(notes)
    return document


def test_a_link_that_no_part_of_the_test_looked_at_is_no_pass(tmp_path: Path) -> None:
    blind = made.dcgmi(tmp_path, made.text(_noted(SKIPPED, "GPU 3 bandwidth: 55 GB/s", SKIPPED)))
    result = gate(tmp_path, blind)
    assert (result["verdict"], result["remedy"]) == ("inconclusive", "retest")
    assert "GPU 3: DCGM did not look at its PCIe link" in result["msg"]
    assert gate(tmp_path, blind, made.profile())["verdict"] == "pass", "where nobody wants to know it"
    for notes in (("GPU 3 bandwidth: 55 GB/s", SKIPPED), (SKIPPED, SKIPPED.replace("GPU 3", "GPU 4"))):
        once = made.dcgmi(tmp_path, made.text(_noted(*notes)))
        assert gate(tmp_path, once)["verdict"] == "pass", "one part looked"


@pytest.mark.parametrize(
    ("how", "profile"),
    [({"level": 1}, PROFILE), ({"tests": ["memory"]}, PROFILE), ({"level": 2}, made.profile())],
    ids=["level-1", "another-test", "no-figures"],
)
def test_dcgmi_is_told_nothing_of_a_link_that_it_does_not_load(
    tmp_path: Path, how: dict[str, Any], profile: dict[str, Any]
) -> None:
    gate(tmp_path, machine(tmp_path), profile, **how)
    assert "-p" not in (tmp_path / "dcgmi.calls").read_text(encoding="utf-8").split()


def test_each_gpu_asked_alone_is_held_against_the_same(tmp_path: Path) -> None:
    every = made.dcgm4()
    for gpu in range(8):
        every = made.failing(every, "pcie", gpu, made.fault(LOW.replace("3", str(gpu), 1), 45, 4))
    result = gate(tmp_path, made.dcgmi(tmp_path, made.text(every), rc=226), localise_timeout=60)
    alone = [call for call in (tmp_path / "dcgmi.calls").read_text(encoding="utf-8").splitlines() if "-i gpu:" in call]
    assert result["verdict"] == "fail" and len(alone) == 8 and all(f"-p {FLOORS}" in call for call in alone)
