# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gate_profile: a profile is made of what good nodes show, passes them, and none is made of any other."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer, ConfigError, NotProven
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import model, profiles
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.cells import OF_LINKS, RULES
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.fields import FIELDS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.known_good import TELL
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.model import Question, make
from ansible_collections.gpufleet.baremetal.tests.unit.gate import (
    burning,
    cables,
    nodes,
    nvbw,
    nvme,
    paired,
    smi,
    stress,
    trained,
)
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made

DAY = "2026-11-26"
BMC = {
    "bmc": {
        "cpu_sockets": 2,
        "cpu_threads": 224,
        "cpu_model": "Xeon Platinum 8480CL",
        "memory_gib": 2016.0,
        "gpu_count": 8,
    }
}


def asked(**more: Any) -> Question:
    return Question(sku="new-8", title="A new model", date=DAY, **more)


def profile_of(*looks: dict[str, Any], **more: Any) -> dict[str, Any]:
    found = make(asked(**more), {look["node"]: look for look in looks}).profile
    profiles.check(found, made.PROFILE_SCHEMA)
    return found


def refused(*looks: dict[str, Any], **more: Any) -> str:
    with pytest.raises(NotProven) as caught:
        make(asked(**more), {look["node"]: look for look in looks})
    return str(caught.value)


def cells(profile: dict[str, Any]) -> set[str]:
    return {row["name"] for row in profile["gpu_state"]["cells"]}


def test_a_profile_says_what_the_nodes_show_and_whose_word_each_number_is() -> None:
    found = profile_of(nodes.look("a1", hardware=BMC), nodes.look("a2", hardware=BMC))
    gpu = {name: entry["value"] for name, entry in found["gpu"].items()}
    figures = {"memory": 81559, "nvlink_links": 18, "nvlink_speed": 26.562, "pcie_generation": 5, "pcie_width": 16}
    assert gpu == {"count": 8, "device_ids": ["2330"], **figures, "power": 700}
    assert found["gpu"]["power"] == {
        "value": 700,
        "unit": "W",
        "source": "nvidia-smi, driver 580.105.08, on a1, a2",
        "date": DAY,
        "conditions": "measured on 2 nodes of this site; the limit that was set",
    }
    assert cells(found) == {*smi.CELLS, "repairs"} - {"ecc_aggregate"}
    assert {cell: entry["value"] for cell, entry in found["hardware"].items()} == {**BMC["bmc"], "memory_gib": 2016}
    assert found["hardware"]["cpu_model"]["source"] == "hardware_verify, bmc, on a1, a2"
    assert "dcgm" not in found and "gpu_bandwidth" not in found


def test_each_cell_has_the_values_that_tell_it() -> None:
    assert set(TELL) == set(RULES) - set(OF_LINKS)
    assert {name for names in TELL.values() for name in names} <= set(FIELDS)


def test_what_a_model_does_not_tell_is_no_cell_and_the_reason_is_told() -> None:
    """A card without NVLink, fabric and MIG, as an L40S is."""
    absent = dict.fromkeys([path for path in smi.HEALTHY if path.startswith(("fabric/", "mig_mode/"))], "N/A")
    look = nodes.look(text=nodes.document(absent), state="", errors="", ends={2: {"rc": 3}})
    found = make(asked(), {"a1": look})
    assert {"mig", "fabric", "fabric_cluster", "nvlink", "nvlink_errors", "retired_pages"} <= set(found.left_out)
    assert cells(found.profile) | set(found.left_out) == set(RULES)
    assert not {"nvlink_links", "nvlink_speed"} & set(found.profile["gpu"])


def test_a_cluster_of_the_fabric_is_demanded_where_there_is_one() -> None:
    cluster = {"fabric/clusterUuid": "9f86d081-884c-4d65-9a2f-eaa0c55ad015"}
    assert "fabric_cluster" in cells(profile_of(nodes.look(text=nodes.document(cluster))))


XML = smi.xml
UNC = "remapped_rows__remapped_row_"
BROKEN: list[tuple[dict[str, Any], str]] = [
    ({"text": XML({"ecc_errors__volatile__dram_uncorrectable": "2"})}, "2 uncorrected errors in DRAM"),
    ({"text": XML({f"{UNC}failure": "Yes"})}, "GPU 3 (0000:13:00): a row remap failed"),
    ({"text": XML({f"{UNC}pending": "Yes"})}, "a row remap waits for a reset"),
    ({"text": XML({"ecc_mode__current_ecc": "Disabled"})}, "ECC is off"),
    ({"text": XML({"mig_mode__current_mig": "Enabled"})}, "MIG is on"),
    ({"text": XML({"persistence_mode": "Disabled"})}, "persistence mode is off"),
    ({"text": XML({"fabric__state": "In Progress"})}, "still joining the fabric"),
    ({"text": XML({"fb_memory_usage__total": "40960 MiB"})}, "40960 MiB of memory, wanted 81559"),
    ({"text": XML({"gpu_power_readings__current_power_limit": "500.00 W"})}, "its power limit is 500 W, wanted 700"),
    ({"text": XML({"pci__pci_gpu_link_info__link_widths__current_link_width": "8x"})}, "8 PCIe lanes while idle"),
    ({"text": XML({"fb_memory_usage__total": "ERR!"})}, "reads ERR!"),
    ({"text": XML({"ecc_errors__volatile__dram_uncorrectable": "N/A"})}, "does not tell the number of uncorrected"),
    ({"text": XML({"pci__pci_device_id": "233110DE"})}, "device 2331 is not a GPU"),
    ({"text": XML(gpus=7)}, "the kernel knows 8 GPUs of the device 2330, and nvidia-smi 7"),
    ({"text": XML().replace("<attached_gpus>8", "<attached_gpus>9")}, "says that there are 9"),
    ({"text": XML().replace("580.105.08", "")}, "does not tell the driver's version"),
    ({"state": smi.state(down=2)}, "17 of 18 NVLinks are up: link 5 is down"),
    ({"state": smi.state().replace("26.562", "<x>")}, "of its NVLinks it is said"),
    ({"state": "GPU 0: H100 (UUID: x)\n NVML: all links are inActive\n"}, "none of its NVLinks is up"),
    ({"state": "driver mismatch\n"}, "driver mismatch"),
    ({"errors": smi.errors(replays=4)}, "4 replay errors"),
    ({"ends": {0: {"rc": None, "ended": "missing"}}, "text": " "}, "nvidia-smi is not installed"),
    ({"text": " "}, "it printed nothing"),
    ({"text": XML()[:4000]}, "its XML was cut"),
    ({"ends": {0: {"rc": 14}}}, "an InfoROM is corrupted"),
    ({"ends": {0: {"rc": 15}}, "text": "Unable to determine the device handle for GPU 0\n"}, "fallen off the bus"),
    ({"ends": {1: {"rc": None, "ended": "timeout"}}}, "still running"),
    ({"ends": {2: {"rc": -9}}}, "signal 9"),
    ({"hardware": {"bmc": {"gpu_count": 9}}}, "gpu_count: 9 (bmc), 8 (nvidia-smi)"),
    ({"hardware": {"bmc": {"cpu_sockets": 2}, "its inspection": {"cpu_sockets": 1}}}, "cpu_sockets: 2 (bmc), 1 (its"),
    ({"on_bus": []}, "the kernel knows 0 GPUs"),
]  # fmt: skip


@pytest.mark.parametrize(("how", "word"), BROKEN, ids=[word for _how, word in BROKEN])
def test_no_profile_is_made_of_a_node_with_a_finding_and_the_good_ones_beside_it_do_not_help(
    how: Any, word: str
) -> None:
    told = refused(nodes.look("good"), nodes.look("bad", **how))
    assert "bad: " in told and word in told and "good: " not in told


def test_gpus_that_are_all_of_another_maker_are_none() -> None:
    text = nodes.document({"pci/pci_device_id": "74A11002"})
    assert "no device of NVIDIA" in refused(nodes.look(text=text, on_bus=["74a1"] * 8))


@pytest.mark.parametrize(
    "told", [{}, {"runs": 4}, {"runs": []}, {"runs": [{}] * 3}, {"runs": [{"argv": [], "rc": 0}] * 3}]
)
def test_what_is_no_look_makes_no_profile(told: Any) -> None:
    with pytest.raises(BadAnswer, match="a1: the look is none of gate_profile"):
        make(asked(), {"a1": told})


def test_the_words_of_others_count_against_a_node() -> None:
    assert "a1: it is quarantined" in refused(nodes.look(), against={"a1": ["it is quarantined"]})
    assert "a1: 8 GPUs, and 10 were ordered" in refused(nodes.look(), ordered={"a1": 10})
    slow = {"gpu_bandwidth_gate": {"a1": nodes.bandwidth(100, verdict="fail")}}
    assert "a1: its newest verdict is no pass: gpu_bandwidth_gate: fail. it is slow" in refused(
        nodes.look(), measured=slow
    )
    few = {"gpu_bandwidth_gate": {"a1": nodes.bandwidth(100, gpus=4)}}
    assert "on 4 GPUs, and it shows 8" in refused(nodes.look(), measured=few)


H200 = nodes.document({"pci/pci_device_id": "233510DE"})
DIFFER: list[tuple[dict[str, Any], str]] = [
    ({"gpus": 4}, "gpu.count: 8 (a1), 4 (a2)"),
    ({"text": H200, "on_bus": ["2335"] * 8}, "gpu.device_ids: 2330 (a1), 2335 (a2)"),
    ({"text": nodes.document({"gpu_power_readings/current_power_limit": "600.00 W"})}, "gpu.power: 700 (a1), 600 (a2)"),
    ({"text": nodes.document({"fb_memory_usage/total": "40960 MiB"})}, "gpu.memory: 81559 (a1), 40960 (a2)"),
    ({"state": smi.state(speed="50 GB/s")}, "gpu.nvlink_speed: 26.562 (a1), 50 (a2)"),
    ({"state": "", "errors": ""}, "gpu_state.cells.nvlink: told (a1), not told (a2)"),
    ({"hardware": {"bmc": {**BMC["bmc"], "memory_gib": 1024.0}}}, "hardware.memory_gib: 2016 (a1), 1024 (a2)"),
    ({"hardware": {}}, "hardware.cpu_sockets: 2 (a1), not told (a2)"),
]  # fmt: skip


@pytest.mark.parametrize(("how", "word"), DIFFER, ids=[word for _how, word in DIFFER])
def test_nodes_that_differ_are_an_error_of_node_field_and_both_values(how: dict[str, Any], word: str) -> None:
    hardware = {**BMC, "bmc": {**BMC["bmc"], "gpu_count": None}}
    how = {"hardware": hardware, **how}
    assert word in refused(nodes.look("a1", hardware=hardware), nodes.look("a2", **how))


def test_nodes_may_differ_in_what_drivers_reserve_and_in_what_is_left_out() -> None:
    less = nodes.document({"fb_memory_usage/total": "81079 MiB"}, driver="570.86.15")
    capped = {"gpu_power_readings/current_power_limit": "600.00 W"}
    found = profile_of(nodes.look("a1"), nodes.look("a2", less))
    assert found["gpu"]["memory"]["value"] == 81079
    assert found["gpu"]["memory"]["source"] == "nvidia-smi, driver 570.86.15 and 580.105.08, on a1, a2"
    both = [nodes.look("a1"), nodes.look("a2", nodes.document(capped))]
    assert "power" not in profile_of(*both, leave_out=["power"])["gpu"]
    with pytest.raises(ConfigError, match="no look tells powr"):
        make(asked(leave_out=["powr"]), {"a1": both[0]})


PARTLY = ("mig_mode/pending_mig", "ecc_mode/pending_ecc", "gpu_power_readings/average_power_draw", "fabric/status")


@pytest.mark.parametrize("gone", PARTLY)
def test_a_cell_that_is_told_in_part_is_in_the_way_until_a_person_leaves_it_out(gone: str) -> None:
    """To leave it out in silence would make a weaker profile of a driver's whim."""
    look = nodes.look(text=nodes.document({gone: "N/A"}))
    cell = {"ecc_mode": "ecc_mode", "mig_mode": "mig", "fabric": "fabric"}.get(gone.partition("/")[0], "power")
    assert "nvidia-smi does not tell" in refused(look)
    found = make(asked(leave_out=[cell]), {"a1": look})
    assert cell not in cells(found.profile) and found.left_out[cell] == "left out by leave_out"


def test_a_profile_that_asks_for_nothing_is_none() -> None:
    assert "not told, or not as it must be: cells of node" in refused(nodes.look(), leave_out=list(RULES))


def test_what_is_left_out_still_tells_of_broken_hardware() -> None:
    bad = nodes.look(text=smi.xml({f"{UNC}failure": "Yes"}))
    assert "a row remap failed" in refused(bad, leave_out=["row_remap"])
    without = nodes.look(state="GPU 0: L40S (UUID: x)\n NVML: all links are inActive\n", ends={2: {"rc": 3}})
    assert "nvlink" not in cells(profile_of(without, leave_out=[*OF_LINKS]))


# -- floors ------------------------------------------------------------------------------------------------------------


def test_floors_lie_under_the_slowest_of_the_nodes_and_say_of_which_measurement() -> None:
    measured = {
        "gpu_bandwidth_gate": {"a1": nodes.bandwidth(380.0), "a2": nodes.bandwidth(371.2)},
        "collective_gate": {"a2": nodes.collective(476.1)},
    }
    both = [nodes.look("a1"), nodes.look("a2")]
    found = profile_of(*both, measured=measured)
    assert found["gpu_bandwidth"]["cases"] == [
        {
            "name": nvbw.PEERS,
            "between": "gpus",
            "minimum": 352.64,
            "source": "nvbandwidth v0.8, driver 580.105.08, on a1, a2",
            "date": "2026-11-24",
            "conditions": "measured on 2 nodes of this site; 5 % under 371.2 GB/s, the slowest",
        }
    ]
    [test] = found["collective"]["tests"]
    row = {key: test[key] for key in ("name", "program", "algorithm", "from_gib", "to_gib", "minimum")}
    assert list(row.values()) == ["all_reduce", "all_reduce_perf", "default", 8, 16, 452.29]
    assert test["source"].endswith("on a2") and "1 node of this site" in test["conditions"]
    assert profile_of(*both, measured=measured, margin=0)["gpu_bandwidth"]["cases"][0]["minimum"] == 371.2
    for margin in (-1, 100):
        with pytest.raises(ConfigError, match="0 to 99 per cent"):
            make(asked(margin=margin), {"a1": both[0]})


def test_two_measurements_of_one_name_are_not_compared() -> None:
    other = nodes.collective(400.0, sizes="1 to 16 GiB")
    measured = {"collective_gate": {"a1": nodes.collective(476.1), "a2": other}}
    told = refused(nodes.look("a1"), nodes.look("a2"), measured=measured)
    assert "collective.all_reduce.from_gib: 8 (a1), 1 (a2)" in told
    nothing = {"gpu_bandwidth_gate": {"a1": nodes.bandwidth(0.0)}}
    assert "measured nothing" in refused(nodes.look("a1"), measured=nothing)


def test_a_verdict_that_cannot_be_read_is_no_floor_and_is_told() -> None:
    gone = {**nodes.bandwidth(380.0), "checks": [{"id": "bandwidth.x"}]}
    found = make(asked(measured={"gpu_bandwidth_gate": {"a1": gone}}), {"a1": nodes.look()})
    assert "gpu_bandwidth" not in found.profile and "of a1 cannot be read" in found.warnings[0]
    old = {"gpu_bandwidth_gate": {"a1": nodes.bandwidth(380.0, verdict="inconclusive")}}
    assert "gpu_bandwidth" not in profile_of(nodes.look(), measured=old)


# -- what no look tells ------------------------------------------------------------------------------------------------


def test_what_no_look_tells_comes_from_the_profile_that_is_there_or_from_another_sku() -> None:
    like = {**smi.profile(), "gpu_bandwidth": nvbw.profile()["gpu_bandwidth"]}
    of_like = profile_of(nodes.look(), like=like)
    assert of_like["dcgm"] == like["dcgm"] and "gpu_bandwidth" not in of_like
    limits = [row for row in of_like["gpu_state"]["cells"] if row["name"] == "ecc_aggregate"]
    assert limits == [{"name": "ecc_aggregate", "limit": 4, **smi.ABOUT}]
    firmware = {"bios": {"value": "1.1", **smi.ABOUT}}
    sheet = {**like["gpu"], "memory_bandwidth": {"value": 3.35, "unit": "TB/s", **smi.ABOUT}}
    soak = {"interval_seconds": 60, "gap_seconds": 600, "interruptions": 0, **smi.ABOUT}
    kept = {**like, "firmware": firmware, "gpu": sheet, "soak": soak}
    measured = {"gpu_bandwidth_gate": {"a1": nodes.bandwidth(380.0)}}
    found = profile_of(nodes.look(), kept=kept, measured=measured)
    assert found["soak"] == soak and list(found)[-1] == "dcgm"
    new = {"of_a_new_gate": {"rows": [soak]}}  # whose section the schema has got, and no list of ours
    again = make(Question(sku="new-8", title="A new model", date="2026-11-29", kept=new), {"a1": nodes.look()}).profile
    assert again["of_a_new_gate"] == new["of_a_new_gate"]
    assert found["firmware"] == firmware and found["gpu"]["memory_bandwidth"]["value"] == 3.35
    floors = {row["name"]: row["minimum"] for row in found["gpu_bandwidth"]["cases"]}
    assert floors == {nvbw.PEERS: 361, nvbw.HOST: 48}
    sram = {"ecc_errors__aggregate__sram_uncorrectable_parity": "5"}
    assert "5 uncorrected errors in SRAM" in refused(nodes.look(text=smi.xml(sram)), like=like)


def test_the_same_on_another_day_is_no_change_and_another_number_is_one() -> None:
    before = profile_of(nodes.look())
    again = make(Question(sku="new-8", title="A new model", date="2027-01-01"), {"b9": nodes.look("b9")}).profile
    assert before != again and model.changes(before, again) == []
    other = json.loads(json.dumps(again))
    other["gpu"]["power"]["value"] = 600
    other["gpu_state"]["cells"].pop(0)
    told = model.changes(other, before)
    assert "gpu.power.value: 600 (the file), 700 (these nodes)" in told and len(told) == 2


def test_a_profile_that_would_not_pass_its_own_node_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is wrong with this code, no file is written that keeps good nodes out."""
    wrong = model.LOOKS.sections

    def sections(*how: Any) -> dict[str, Any]:
        found = wrong(*how)
        found["gpu"]["power"]["value"] = 900
        return found

    monkeypatch.setattr(model, "LOOKS", dataclasses.replace(model.LOOKS, sections=sections))
    assert "would not pass by the profile" in refused(nodes.look())


def test_the_drives_that_a_person_wrote_down_stay() -> None:
    sections = {**nvme.profile(nvme.speed()), **stress.profile(stress.load()), **cables.profile(), **burning.profile()}
    sections["training"] = trained.profile()["training"]
    for name in ("storage", "cpu_memory", "network", "gpu_burn", "training"):
        kept = {**profile_of(nodes.look()), name: sections[name]}
        assert profile_of(nodes.look(), kept=kept)[name] == kept[name]
        assert name not in profile_of(nodes.look(), like=kept), "another model has other parts"


def test_collectives_of_several_nodes_are_kept_beside_the_floors_that_were_measured() -> None:
    fabric = paired.profile(fabric=(paired.RING,))["collective"]
    measured = {"collective_gate": {"a1": nodes.collective(480.0)}}
    found = profile_of(nodes.look(), kept={**profile_of(nodes.look()), "collective": fabric}, measured=measured)
    assert found["collective"]["fabric"] == [paired.RING] and found["collective"]["tests"]
