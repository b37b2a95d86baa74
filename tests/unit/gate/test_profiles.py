# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""SKU profiles: where they are looked for, and what is wrong with a bad one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import profiles
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.gate import dcgm_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.section import section_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.tests import wanted_tests
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.section import demanded
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log.gate import kernel_log_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import wanted_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made
from ansible_collections.gpufleet.baremetal.tests.unit.gate import nvbw

OURS = sorted(path.stem for path in made.PROFILES.glob("*.yaml"))
#: AMD's has a test of its own (test_gpu_state_amd.py).
NVIDIAS = [sku for sku in OURS if not sku.startswith("mi")]


def load(sku: str, *folders: Path) -> profiles.Profile:
    return profiles.load(
        sku, profiles.search_path([str(folder) for folder in folders], made.PROFILES), made.PROFILE_SCHEMA
    )


def write(folder: Path, content: Any, name: str = "test-sku.yaml") -> Path:
    text = content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False)
    (folder / name).write_text(text, encoding="utf-8")
    return folder


def test_the_profiles_that_we_ship() -> None:
    assert [
        *("a100-sxm-80-8", "b200-8", "b300-8", "gb200-4", "gb300-4"),
        *("h100-sxm-8", "h200-sxm-8", "l40s-8", "mi300x-8"),
    ] == OURS


@pytest.mark.parametrize("sku", NVIDIAS)
def test_each_is_valid_and_holds_the_gpus_of_its_name(sku: str) -> None:
    profile = load(sku)
    wanted = wanted_of(profile.data)
    assert wanted.gpu_count == int(sku.rsplit("-", 1)[1])
    assert wanted.digest == profile.digest
    assert [test.name for test in wanted_tests(wanted, 1, [], (4, 6, 0))] == ["software"]
    assert {"memory", "pcie"} <= {test.name for test in wanted_tests(wanted, 2, [], (4, 6, 0))}
    assert "firmware" not in profile.data
    newest = {cell.name for cell in demanded(wanted, None)}
    assert {"ecc_volatile", "row_remap", "row_remap_banks", "recovery", "clocks", "memory"} <= newest
    of_old = {cell.name for cell in demanded(wanted, (535, 54, 3))} | {"nvlink_errors"}
    assert newest - of_old == {"sram_threshold", "recovery"}


@pytest.mark.parametrize("sku", NVIDIAS)
def test_every_number_says_where_it_comes_from(sku: str) -> None:
    def walk(value: Any) -> None:
        if isinstance(value, dict):
            if "value" in value or "level" in value:
                assert value["source"] and value["date"] and value["conditions"]
            for item in value.values():
                walk(item)
        elif isinstance(value, list):
            for item in value:
                walk(item)

    walk(load(sku).data)


def test_tests_of_a_level_depend_on_the_version() -> None:
    wanted = wanted_of(load("h100-sxm-8").data)
    assert "nvbandwidth" in {test.name for test in wanted_tests(wanted, 3, [], (4, 6, 0))}
    assert "nvbandwidth" not in {test.name for test in wanted_tests(wanted, 3, [], (3, 3, 9))}
    assert "nvbandwidth" in {test.name for test in wanted_tests(wanted, 3, [], None)}, (
        "an unknown version is held to everything"
    )
    asked = wanted_tests(wanted, 1, ["Memory Bandwidth", "eud"], None)
    assert [test.name for test in asked] == ["memory_bandwidth", "eud"]


def test_the_site_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = made.profile()
    own["sku"] = "h100-sxm-8"
    write(tmp_path, own, "h100-sxm-8.yml")
    assert load("h100-sxm-8", tmp_path).path == str(tmp_path / "h100-sxm-8.yml")
    monkeypatch.setenv("GPUFLEET_PROFILE_PATH", f"/nonexistent:{tmp_path}")
    assert load("h100-sxm-8").path == str(tmp_path / "h100-sxm-8.yml")


def test_an_unknown_sku_names_the_file_to_write(tmp_path: Path) -> None:
    with pytest.raises(profiles.ProfileMissing) as caught:
        load("x9", tmp_path)
    assert str(tmp_path / "x9.yaml") in str(caught.value)
    with pytest.raises(profiles.ProfileMissing, match="Do: write x9.yaml in a folder of your own"):
        load("x9")
    with pytest.raises(
        profiles.ProfileMissing, match=r"did you mean h100-sxm-8\? Else write h100-sxm8.yaml in a folder"
    ):
        load("h100-sxm8")


@pytest.mark.parametrize("sku", ["../../etc/passwd", "", "H100", "a/b", "a\n"])
def test_a_sku_is_no_path(sku: str) -> None:
    with pytest.raises(ConfigError, match="no name of a profile"):
        load(sku)


def _without(*path: str) -> dict[str, Any]:
    profile = made.profile()
    inner: Any = profile
    for step in path[:-1]:
        inner = inner[step]
    del inner[path[-1]]
    return profile


@pytest.mark.parametrize(
    ("content", "line", "words"),
    [
        ("schema: 1\nsku: [", 2, "no valid YAML"),
        ("schema: 1\nsku: a\x00b\n", 1, "no valid YAML: special characters are not allowed"),
        ("schema: 1\nday: 2026-13-01\n", 1, "no valid YAML: month must be in 1..12"),
        ("- a list\n", 1, "a profile is a mapping"),
        ("", 1, "a profile is a mapping"),
        ("schema: 1\nsku: test-sku\nsku: other\n", 3, "stands twice"),
        (_without("gpu", "count", "source"), 5, "'source' is a required property"),
        (_without("dcgm", "tests"), 16, "'tests' is a required property"),
        (_without("gpu"), 1, "'gpu' is a required property"),
    ],
)
def test_an_error_names_file_and_line(tmp_path: Path, content: Any, line: int, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load("test-sku", write(tmp_path, content))
    assert f"{tmp_path}/test-sku.yaml:{line}: " in str(caught.value)
    assert words in str(caught.value)


def test_what_is_merged_into_a_mapping_gives_way_to_its_own_keys(tmp_path: Path) -> None:
    """A profile says the same source and date at each number. A key that stands there twice is one too many."""
    plain = yaml.safe_dump(made.profile(), sort_keys=False)
    said = "source: written for tests\n    date: '2026-11-20'\n    conditions: none at all\n"
    number, models = f"  count:\n    value: 8\n    {said}", f"  device_ids:\n    value:\n    - '2330'\n    {said}"
    assert number in plain and models in plain
    merged = plain.replace(number, number.replace("count:", "count: &seen")).replace(
        models, "  device_ids:\n    <<: *seen\n    value:\n    - '2330'\n"
    )
    assert load("test-sku", write(tmp_path, merged)).data == made.profile()
    with pytest.raises(ConfigError, match="the key value stands twice"):
        load("test-sku", write(tmp_path, merged.replace("    <<: *seen\n", "    <<: *seen\n    value: []\n")))


def test_a_misspelt_key_is_an_error(tmp_path: Path) -> None:
    profile = made.profile()
    profile["gpu"]["cuont"] = profile["gpu"]["count"]
    with pytest.raises(ConfigError, match="cuont"):
        load("test-sku", write(tmp_path, profile))


UNITS = {"memory": "MiB", "memory_bandwidth": "TB/s", "nvlink_links": "links", "nvlink_speed": "GB/s", "power": "W"}
UNITS |= {"pcie_generation": "generation", "pcie_width": "lanes"}


@pytest.mark.parametrize("name", UNITS)
def test_a_figure_in_another_unit_is_another_figure(name: str) -> None:
    """80 GiB beside 80 MiB: the gates compare numbers."""
    about = {"source": "a data sheet", "date": "2026-11-20", "conditions": "none at all"}
    profile = made.profile()
    for unit in (UNITS[name], "GiB", UNITS[name].lower() + "s", ""):
        profile["gpu"][name] = {"value": 80, "unit": unit, **about}
        if unit == UNITS[name]:
            profiles.check(profile, made.PROFILE_SCHEMA)
            continue
        with pytest.raises(ConfigError, match=f"gpu.{name}.unit: '{UNITS[name]}' was expected"):
            profiles.check(profile, made.PROFILE_SCHEMA)


def test_a_test_that_dcgm_and_a_case_that_nvbandwidth_does_not_have_are_errors() -> None:
    """Each would cost hours, and then quarantine every node of the SKU."""
    profile = {**made.profile(), "gpu_bandwidth": nvbw.profile()["gpu_bandwidth"]}
    profiles.check(profile, made.PROFILE_SCHEMA)
    for section, rows, name in (("dcgm", "tests", "target_power"), ("gpu_bandwidth", "cases", "host_to_device_ce")):
        broken = json.loads(json.dumps(profile))
        broken[section][rows][-1]["name"] = name
        with pytest.raises(ConfigError, match=rf"{section}.{rows}.\d.name: '{name}' is not one of"):
            profiles.check(broken, made.PROFILE_SCHEMA)


def test_one_test_of_dcgm_under_two_names_is_an_error() -> None:
    """The last one would count, and may ask for less."""
    profile = made.profile()
    [row] = [row for row in profile["dcgm"]["tests"] if row["name"] == "memory"]
    profile["dcgm"]["tests"].append({**row, "name": "gpu_memory", "level": 4})
    with pytest.raises(ConfigError, match="two rows are of one test, whatever they call it: memory"):
        section_of(wanted_of(profile))


@pytest.mark.parametrize("day", ["2126-01-01", "2026-13-01", "2026-02-30"])
def test_a_day_that_is_none_or_yet_to_come_is_an_error_with_its_line(tmp_path: Path, day: str) -> None:
    profile = made.profile()
    profile["gpu"]["count"]["date"] = day
    with pytest.raises(ConfigError, match=rf"test-sku.yaml:\d+: gpu.count.date is no day until today.*{day}"):
        load("test-sku", write(tmp_path, profile))


def test_a_key_that_is_missing_makes_those_beside_it_no_unexpected_ones(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load("test-sku", write(tmp_path, _without("gpu", "count", "source")))
    assert "'source' is a required property" in str(caught.value) and "nevaluated" not in str(caught.value)
    profile = made.profile()
    profile["gpu"]["count"]["souce"] = profile["gpu"]["count"].pop("source")
    with pytest.raises(ConfigError, match="'souce'"):
        load("test-sku", write(tmp_path, profile))


def test_imex_means_nothing_where_nodes_share_no_nvlink() -> None:
    ignoring = {sku for sku in NVIDIAS if 122 in section_of(wanted_of(load(sku).data)).ignored_errors}
    assert ignoring == {"a100-sxm-80-8", "b200-8", "b300-8", "h100-sxm-8", "h200-sxm-8"}


@pytest.mark.parametrize("sku", NVIDIAS)
def test_each_shipped_one_tells_its_power_and_holds_a_node_to_it(sku: str) -> None:
    wanted = wanted_of(load(sku).data)
    assert "power" in {cell.name for cell in demanded(wanted, None)} and wanted.profile["gpu"]["power"]["value"] > 0


def test_a_number_as_text_is_an_error(tmp_path: Path) -> None:
    profile = made.profile()
    profile["gpu"]["count"]["value"] = "8"
    with pytest.raises(ConfigError, match="gpu.count.value"):
        load("test-sku", write(tmp_path, profile))


def test_a_broken_profile_of_the_site_does_not_fall_back_to_ours(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="h100-sxm-8.yaml:1"):
        load("h100-sxm-8", write(tmp_path, "oops", "h100-sxm-8.yaml"))


def test_a_profile_of_another_sku_under_this_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the profile is of test-sku"):
        load("other", write(tmp_path, made.profile(), "other.yaml"))


def test_dates_may_stand_without_quotes(tmp_path: Path) -> None:
    text = yaml.safe_dump(made.profile(), sort_keys=False).replace("'2026-11-20'", "2026-11-20")
    assert load("test-sku", write(tmp_path, text)).data["gpu"]["count"]["date"] == "2026-11-20"


@pytest.mark.parametrize(
    "profile",
    [None, {}, [], "h100", {"schema": 1}, {"schema": 2}, _without("gpu", "count")]
    + [made.profile(0), made.profile(-1)],
)
def test_the_node_takes_no_half_profile(profile: Any) -> None:
    with pytest.raises(ConfigError):
        wanted_of(profile)


@pytest.mark.parametrize(
    "profile",
    [_without("dcgm"), {**made.profile(), "dcgm": []}, {**made.profile(), "dcgm": {"tests": [{"name": "memory"}]}}],
)
def test_v7_each_gate_demands_its_own_section_of_the_profile_alone(profile: Any, tmp_path: Path) -> None:
    """A SKU on which another gate says what DCGM cannot needs no section of DCGM."""
    with pytest.raises(ConfigError, match="section dcgm|cannot be read"):
        section_of(wanted_of(profile))
    asked = dcgm_gate({"profile": profile, "dcgmi": "/nonexistent"}, Context()).data
    assert (asked["verdict"], asked["findings"][0]["id"]) == ("inconclusive", "profile")
    (tmp_path / "kmsg").write_text("6,0,0,-;Linux version 6.8\n")
    log = {"source": "file", "path": str(tmp_path / "kmsg"), "kmsg_path": str(tmp_path / "kmsg")}
    other = kernel_log_gate({"profile": profile, **log}, Context()).data
    assert "profile" not in {finding["id"] for finding in other["findings"]} and other["profile"]["sku"] == "test-sku"


def test_v7_a_profile_without_dcgm_is_a_profile() -> None:
    profiles.check(_without("dcgm"), made.PROFILE_SCHEMA)


def test_a_profile_in_the_task_is_checked_too() -> None:
    profiles.check(made.profile(), made.PROFILE_SCHEMA)
    with pytest.raises(ConfigError, match="'gpu' is a required property"):
        profiles.check(_without("gpu"), made.PROFILE_SCHEMA)


def test_the_schemas_are_schemas() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    for path in (made.PROFILE_SCHEMA, made.VERDICT_SCHEMA):
        jsonschema.Draft202012Validator.check_schema(json.loads(path.read_text(encoding="utf-8")))


class Remembered(dict[str, Any]):
    """What was checked before, and how often something new was."""

    def put(self, digest: str, data: Any) -> None:
        self[digest] = {**data, "told": "by whoever checked it before"}


def test_what_was_checked_before_is_taken_as_it_was_found_until_file_or_schema_change(tmp_path: Path) -> None:
    kept, schema = Remembered(), tmp_path / "schema.json"
    text = (made.PROFILES / "h100-sxm-8.yaml").read_text(encoding="utf-8")
    schema.write_bytes(made.PROFILE_SCHEMA.read_bytes())
    folders = [write(tmp_path, text, "h100-sxm-8.yaml")]

    def read() -> dict[str, Any]:
        return profiles.load("h100-sxm-8", folders, schema, kept).data

    first = read()
    assert first == load("h100-sxm-8").data and read() == {**first, "told": "by whoever checked it before"}
    write(tmp_path, text + "\n# a word more\n", "h100-sxm-8.yaml")
    assert read() == first, "it has changed, and is read again"
    write(tmp_path, text + "\nodd: 1\n", "h100-sxm-8.yaml")
    for _again in range(2):
        with pytest.raises(ConfigError, match="odd"):
            read()
    assert len(kept) == 2, "what is wrong is found again each time"
    write(tmp_path, text, "h100-sxm-8.yaml")
    schema.write_text(json.dumps({"properties": {"sku": {"type": "integer"}}}), encoding="utf-8")
    with pytest.raises(ConfigError, match="not of type 'integer'"):
        read()
