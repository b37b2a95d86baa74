# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever a profile is made of: its schema takes it, its own nodes pass, and one with a GPU less fails."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import NotProven
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import hardware, profiles
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_bandwidth.section import floors_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state import links
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.document import read
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.judge import Look, judge
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.section import demanded, parse_version
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.model import Question, make
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import wanted_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._hardware import Hardware
from ansible_collections.gpufleet.baremetal.plugins.module_utils._process import Run
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _profile_file as files
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made
from ansible_collections.gpufleet.baremetal.tests.unit.gate import nodes, nvbw, smi
from ansible_collections.gpufleet.baremetal.tests.unit.mutated import tried
from hypothesis import given
from hypothesis import strategies as st

#: What a model may not tell at all, each by the beginning of its paths.
GROUPS = (
    "mig_mode/",
    "fabric/",
    "ecc_mode/",
    "ecc_errors/",
    "remapped_rows/",
    "gpu_recovery_action",
    "persistence_mode",
)
GROUPS += (
    "ecc_errors/aggregate/sram_threshold_exceeded",
    "gpu_power_readings/",
    "pci/pci_gpu_link_info/",
    "fb_memory_usage/",
)
WORDS = st.sampled_from(["N/A", "Not Supported", "[N/A]", None])
Told = dict[str, Optional[str]]


@st.composite
def models(draw: st.DrawFn) -> tuple[Told, int, bool]:
    """What all GPUs of a model tell, how many a node has, and whether they have NVLinks."""
    values: Told = {
        "pci/pci_device_id": f"{draw(st.integers(1, 0xFFFE)):04X}10DE",
        "fb_memory_usage/total": f"{draw(st.integers(1024, 400_000))} MiB",
        "gpu_power_readings/current_power_limit": f"{draw(st.integers(5000, 200_000)) / 100:.2f} W",
        "pci/pci_gpu_link_info/pcie_gen/max_link_gen": str(draw(st.integers(3, 7))),
        "pci/pci_gpu_link_info/pcie_gen/current_link_gen": "1",
    }
    width = draw(st.sampled_from([4, 8, 16]))
    for name in ("max_link_width", "current_link_width"):
        values[f"pci/pci_gpu_link_info/link_widths/{name}"] = f"{width}x"
    for group in draw(st.sets(st.sampled_from(GROUPS))):
        word = draw(WORDS)
        values.update({path: word for path in smi.HEALTHY if path.startswith(group)})
    return values, draw(st.integers(2, 9)), draw(st.booleans())


def look(node: str, values: Told, gpus: int, linked: bool, less: int = 0) -> dict[str, Any]:
    """less: GPUs that the node lacks."""
    there = gpus - less
    state, errors = (smi.state(there), smi.errors(there)) if linked else ("", "")
    device = str(values["pci/pci_device_id"])[:4].lower()
    text = nodes.document(values, there)
    return nodes.look(node, text, gpus=there, state=state, errors=errors, on_bus=[device] * there)


def judged(profile: dict[str, Any], told: dict[str, Any]) -> str:
    """As gpu_state_gate does: it asks for what the profile demands, and for nothing else."""
    gpus, state, errors = (
        Run(tuple(one["argv"]), one["rc"], one["stdout"].encode(), b"", one["ended"], 0.1) for one in told["runs"]
    )
    seen, wanted = read(gpus.text), wanted_of(profile)
    names = {cell.name for cell in demanded(wanted, parse_version(seen.said("driver")))}
    tables = [
        links.read(run.text) if cell in names else None for cell, run in (("nvlink", state), ("nvlink_errors", errors))
    ]
    return judge(Look(seen, [gpus], *tables), wanted).verdict


@tried(20)
@given(models(), st.lists(st.floats(0, 0.015), min_size=1, max_size=4))
def test_the_nodes_of_a_profile_pass_by_it_and_a_node_with_a_gpu_fewer_fails(
    model: tuple[Told, int, bool], reserved: list[float]
) -> None:
    values, gpus, linked = model
    size = values["fb_memory_usage/total"]
    looks = {}
    for at, part in enumerate(reserved):
        mine = {**values}
        if size and size.endswith(" MiB") and size[0].isdigit():
            mine["fb_memory_usage/total"] = f"{int(float(size.split()[0]) * (1 - part))} MiB"
        looks[f"n{at}"] = look(f"n{at}", mine, gpus, linked)
    profile = make(Question("new", "A model", "2026-11-26"), looks).profile
    profiles.check(profile, made.PROFILE_SCHEMA)
    assert {judged(profile, one) for one in looks.values()} == {"pass"}
    assert judged(profile, look("less", values, gpus, linked, less=1)) == "fail"
    with tempfile.TemporaryDirectory() as folder:
        path = files.file_of(Path(folder), "new")
        files.write(path, files.text_of(profile, looks, "2026-11-26"), profile)
        assert profiles.read(path, "new", made.PROFILE_SCHEMA).data == profile


@tried(20)
@given(st.lists(st.floats(0.5, 20_000), min_size=1, max_size=5), st.floats(0, 90))
def test_each_node_reaches_the_floors_that_were_made_of_it(slowest: list[float], margin: float) -> None:
    looks = {f"n{at}": nodes.look(f"n{at}") for at in range(len(slowest))}
    found = {f"n{at}": nodes.bandwidth(value) for at, value in enumerate(slowest)}
    measured = {"gpu_bandwidth_gate": found, "collective_gate": {"n0": nodes.collective(slowest[0])}}
    try:
        profile = make(Question("new", "A model", "2026-11-26", margin=margin, measured=measured), looks).profile
    except NotProven as exc:  # a floor of nothing is none
        assert min(slowest) * (100 - margin) < 1 and "measured nothing" in str(exc)
        return
    profiles.check(profile, made.PROFILE_SCHEMA)
    [floor] = floors_of(wanted_of(profile))
    assert floor.name == nvbw.PEERS and min(slowest) * (1 - margin / 100) - 0.02 <= floor.minimum <= min(slowest)


PARTS = st.fixed_dictionaries(
    {},
    optional={
        "cpu_sockets": st.integers(1, 8),
        "cpu_threads": st.integers(1, 2048),
        "cpu_model": st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=40),
        "memory_gib": st.floats(8, 1e6),
        "nic_count": st.integers(1, 64),
        "drive_count": st.integers(1, 64),
    },
)


@tried(20)
@given(PARTS)
def test_whatever_a_bmc_tells_of_a_machine_passes_that_machine(parts: dict[str, Any]) -> None:
    looks = {"a1": nodes.look("a1", hardware={"bmc": parts})}
    profile = make(Question("new", "A model", "2026-11-26"), looks).profile
    profiles.check(profile, made.PROFILE_SCHEMA)
    told = {"bmc": Hardware(**{**parts, "cpu_model": (parts.get("cpu_model") or "").strip() or None})}
    sheet = hardware.judge(hardware.wishes({}, profile), told, agrees={"bmc": ["serial"]})
    assert sheet.verdict == "pass", sheet.findings
