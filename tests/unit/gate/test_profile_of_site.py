# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A few numbers of a site's own over a whole profile: what comes of both, and what is wrong with a bad file."""

from __future__ import annotations

import copy
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.action import gpu_state_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import profiles
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import json_digest
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made
from ansible_collections.gpufleet.baremetal.tests.unit.plugins import test_gate_profile as of_nodes
from ansible_collections.gpufleet.baremetal.tests.unit.plugins.test_asked_by_the_controller import Site
from contract.docs.blocks import blocks

SKU = "h100-sxm-8"
SHIPPED: dict[str, Any] = yaml.safe_load((made.PROFILES / f"{SKU}.yaml").read_text(encoding="utf-8"))
PAGE = made.CHECKOUT / "docs" / "reference" / "profiles.md"
OURS = {"source": "hall 3", "date": "2026-11-20"}
#: As a person writes it behind a number, each on a line of its own.
SAID = "source: hall 3, date: 2026-11-20"


def load(*folders: Path, sku: str = SKU, kept: Any = None, schema: Path = made.PROFILE_SCHEMA) -> profiles.Profile:
    own = schema.parent.parent / "profiles"
    return profiles.load(sku, profiles.search_path([str(folder) for folder in folders], own), schema, kept)


def write(folder: Path, text: str, name: str = f"{SKU}.site.yaml") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    return folder


def row(data: dict[str, Any], section: str, rows: str, name: str) -> dict[str, Any]:
    [found] = [one for one in data[section][rows] if name in (one.get("name"), one.get("id"))]
    return dict(found)


def wrong(folder: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        load(folder)
    return str(caught.value)


def on_the_page() -> str:
    [text] = re.findall(r"```yaml\n(---\n# h100-sxm-8\.site\.yaml\n.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    return str(text)


@pytest.mark.skipif(not PAGE.is_file(), reason="this copy has no docs")
def test_the_example_of_the_page_lies_over_the_shipped_profile_and_a_gate_says_what_it_weakens(tmp_path: Path) -> None:
    found = load(write(tmp_path, on_the_page()))
    assert found.path == str(tmp_path / f"{SKU}.site.yaml") and found.digest == json_digest(found.data)
    power = found.data["gpu"]["power"]
    assert (power["value"], power["unit"], power["date"]) == (650, "W", "2026-11-20") and "700" not in power["source"]
    assert row(found.data, "gpu_state", "cells", "ecc_aggregate")["limit"] == 2
    names = [one["name"] for one in SHIPPED["gpu_state"]["cells"] if one["name"] != "mig"]
    assert [one["name"] for one in found.data["gpu_state"]["cells"]] == names
    assert "ignore_errors" not in found.data["dcgm"] and found.data["dcgm"]["tests"] == SHIPPED["dcgm"]["tests"]
    assert found.data["firmware"]["bios"]["value"] == "2.4.4"
    for untouched in ("collective", "gpu_bandwidth", "schema", "sku", "title"):
        assert found.data[untouched] == SHIPPED[untouched]
    site, broke = Site(tmp_path), {"msg": "it broke", "failed": True}
    args = {"fail_on": "never", "profile_path": [str(tmp_path)]}
    judged = site.run(gpu_state_gate.ActionModule, broke, args, gpufleet_sku=SKU)
    assert judged["profile"]["digest"] == found.digest
    assert judged["weakened"] == [
        {"what": "gpu.power", "from": 700, "to": 650, "source": power["source"]},
        {"what": "gpu_state.cells.mig", "from": "demanded", "to": "left out", "source": found.path},
    ]


def test_the_part_for_amd_lies_over_the_profile_of_that_model(tmp_path: Path) -> None:
    [part] = [one.text for one in blocks("docs/how-to/judge-amd-nodes.md") if one.text.startswith("collective:")]
    found = load(write(tmp_path, part, "mi300x-8.site.yaml"), sku="mi300x-8")
    test = row(found.data, "collective", "tests", "all_reduce")
    assert (test["minimum"], test["library"], test["source"]) == (100, "rccl", "eight nodes of rack 12")


def test_rows_are_merged_by_name_or_id_and_other_values_are_replaced(tmp_path: Path) -> None:
    text = f"""\
gpu:
  device_ids: {{value: ["2330", "2339"], {SAID}}}
gpu_state:
  cells:
    - {{name: sram_threshold, since: null, {SAID}}}
    - {{name: retired_pages, {SAID}, conditions: none at all}}
dcgm:
  ignore_errors:
    - {{id: 122, conditions: on one rack, {SAID}}}
    - {{id: 121, {SAID}, conditions: none at all}}
"""
    data = load(write(tmp_path, text)).data
    wanted = copy.deepcopy(SHIPPED)
    wanted["gpu"]["device_ids"].update(OURS, value=["2330", "2339"])
    [cell] = [one for one in wanted["gpu_state"]["cells"] if one["name"] == "sram_threshold"]
    cell.update(OURS)
    del cell["since"]
    wanted["gpu_state"]["cells"].append({"name": "retired_pages", **OURS, "conditions": "none at all"})
    wanted["dcgm"]["ignore_errors"][0].update(OURS, conditions="on one rack")
    wanted["dcgm"]["ignore_errors"].append({"id": 121, **OURS, "conditions": "none at all"})
    assert data == wanted


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("gpu:\n  power:\n    value: 650\n", 2, "gpu.power: it says another thing than the profile below it, and not"),
        ("gpu:\n  power:\n    value: 650\n    source: hall 3\n", 2, "not its own date"),
        ("gpu:\n  power:\n    value: 650\n    date: 2026-11-20\n", 2, "not its own source"),
        ("gpu:\n  power:\n    source: hall 3\n", 2, "not its own date"),
        ("gpu:\n  power: {conditions: in winter alone}\n", 2, "not its own source"),
        ("gpu:\n  power: {value: 650, date: 2026-11-20, source: null}\n", 2, "not its own source"),
        ("gpu_state:\n  cells:\n    - name: sram_threshold\n      since: null\n", 3, "cells.sram_threshold: it says"),
        ("gpu_state:\n  cells:\n    - name: ecc_aggregate\n      limit: 9\n", 3, "gpu_state.cells.ecc_aggregate: it"),
        ("gpu_state:\n  cells:\n    - {name: nothing, absent: true}\n", 3, "cells.nothing: there is none that could"),
        ("gpu_state:\n  cells:\n    - {name: mig, absent: false}\n", 3, "cells.mig: a row is taken away by its name"),
        ("gpu_state:\n  cells:\n    - {name: mig, absent: true, limit: 1}\n", 3, "absent: true, and says no more"),
        (
            f"dcgm:\n  ignore_errors:\n    - {{id: 122, {SAID}}}\n    - {{id: 122, absent: true}}\n",
            3, "dcgm.ignore_errors.122: two rows are called so",
        ),
        ("gpu:\n  powre: null\n", 2, "gpu.powre: there is none that could be taken away"),
        ("gpu:\n  power: null\n  count: null\n", 1, "gpu: 'count' is a required property"),
        ("title: ours\ngpu: null\n", 1, "profile: 'gpu' is a required property"),
        (f"gpu:\n  power:\n    unit: kW\n    {SAID.replace(', ', chr(10) + '    ')}\n", 3, "gpu.power.unit: 'W' was"),
        ("gpu:\n  power: 650\n", 2, "gpu.power: 650 is not of type 'object'"),
        (
            f"gpu_state:\n  cells:\n    - {{name: memory, {SAID}}}\n    - name: ecc_aggregate\n      limit: x\n"
            "      source: hall 3\n      date: 2026-11-20\n", 5, "gpu_state.cells.ecc_aggregate.limit: 'x' is not",
        ),
        (f"gpu_state:\n  cells:\n    - {{name: retired_pages, {SAID}}}\n", 3, "cells.retired_pages: 'conditions' is"),
        ("gpu_state:\n  cells:\n    - {limit: 3}\n", 3, "gpu_state.cells.0: 'name' is a required property"),
        ("gpu:\n  power: {value: 650, source: hall 3, date: '2126-01-01'}\n", 2, "gpu.power.date is no day until"),
        ("schema: 1\nsku: h200-sxm-8\n", 2, "the profile is of h200-sxm-8"),
        ("schema: 2\n", 1, "schema: 1 was expected"),
        ("odd: 1\n", 1, "'odd'"),
        ("gpu:\n  power: {value: 1}\n  power: {value: 2}\n", 3, "the key power stands twice"),
        ("- a list\n", 1, "a profile is a mapping"),
        ("# nothing\n", 1, "a profile is a mapping"),
        ("schema: 1\nsku: [", 2, "no valid YAML"),
        ("gpu:\n  power: {value: 650, source: hall 3, date: 2026-02-30}\n", 1, "no valid YAML: day is out of range"),
    ],
)  # fmt: skip
def test_what_is_wrong_names_the_sites_file_its_line_and_the_place(
    tmp_path: Path, text: str, line: int, words: str
) -> None:
    told = wrong(write(tmp_path, text))
    assert f"{tmp_path}/{SKU}.site.yaml:{line}: " in told and words in told, told


def test_a_part_with_a_source_of_its_own_leaves_what_is_around_it_as_it_was(tmp_path: Path) -> None:
    """The section soak has a source, and each of its limits."""
    about = {"source": "written for tests", "date": "2026-11-20", "conditions": "none at all"}
    limit = {"name": "power", "statistic": "max", "most": 710, **about}
    soak = {"interval_seconds": 5, "gap_seconds": 60, "interruptions": 1, "limits": [limit], **about}
    whole = {**made.profile(), "sku": SKU, "soak": soak}
    write(tmp_path, yaml.safe_dump(whole), f"{SKU}.yaml")
    found = load(write(tmp_path, f"soak:\n  limits:\n    - {{name: power, most: 705, {SAID}}}\n")).data
    assert found == {**whole, "soak": {**soak, "limits": [{**limit, **OURS, "most": 705}]}}
    assert "soak: it says another" in wrong(write(tmp_path, "soak:\n  limits:\n    - {name: power, absent: true}\n"))
    assert "soak: it says another" in wrong(write(tmp_path, "soak: {gap_seconds: 90}\n"))
    second = {**limit, "statistic": "min"}
    write(tmp_path, yaml.safe_dump({**whole, "soak": {**soak, "limits": [limit, second]}}), f"{SKU}.yaml")
    told = wrong(write(tmp_path, f"soak:\n  limits:\n    - {{name: power, most: 705, {SAID}}}\n"))
    assert f"{SKU}.site.yaml:3: soak.limits.power: two rows are called so" in told


def test_it_lies_over_a_whole_profile_of_the_sites_in_whatever_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = {**made.profile(4), "sku": SKU}
    first, second = tmp_path / "first", tmp_path / "second"
    write(first, yaml.safe_dump(own), f"{SKU}.yml")
    write(second, "title: over it\n", f"{SKU}.site.yml")
    found = load(first, second)
    assert found.data == {**own, "title": "over it"} and found.path == str(second / f"{SKU}.site.yml")
    monkeypatch.setenv("GPUFLEET_PROFILE_PATH", str(second))
    assert load(first) == found and load().data == {**SHIPPED, "title": "over it"}
    write(first, "title: the first one\n")
    assert load(first).data["title"] == "the first one"


def test_none_is_taken_from_the_folder_that_an_update_replaces_and_an_update_reaches_what_is_below(
    tmp_path: Path,
) -> None:
    collection, ours = tmp_path / "files", tmp_path / "ours"
    shutil.copytree(made.GATE_FILES, collection)
    schema = collection / "schemas" / made.PROFILE_SCHEMA.name
    write(collection / "profiles", "title: of nobody\n")
    assert load(schema=schema).data == SHIPPED and load(collection / "profiles", schema=schema).data == SHIPPED
    (tmp_path / "link").symlink_to(collection / "profiles")
    assert load(tmp_path / "link", schema=schema).data == SHIPPED
    write(ours, f"gpu:\n  power: {{value: 650, {SAID}}}\n")
    newer = copy.deepcopy(SHIPPED)
    newer["gpu"]["memory"]["value"] = 81000
    write(collection / "profiles", yaml.safe_dump(newer), f"{SKU}.yaml")
    found = load(ours, schema=schema).data["gpu"]
    assert (found["memory"]["value"], found["power"]["value"]) == (81000, 650)


def test_one_that_cannot_be_read_does_not_fall_back_to_ours(tmp_path: Path) -> None:
    place = tmp_path / f"{SKU}.site.yaml"
    place.symlink_to(tmp_path / "gone")
    assert "a profile cannot be read" in wrong(tmp_path) and str(place) in wrong(tmp_path)
    place.unlink()
    place.mkdir()
    assert "a profile cannot be read" in wrong(tmp_path)


def test_its_name_is_no_sku(tmp_path: Path) -> None:
    write(tmp_path, "title: ours\n")
    with pytest.raises(ConfigError, match="'h100-sxm-8.site' is no name of a profile"):
        load(tmp_path, sku=f"{SKU}.site")
    with pytest.raises(profiles.ProfileMissing, match=r"did you mean h100-sxm-8\? Else"):
        load(tmp_path, sku=f"{SKU}.sit")
    write(tmp_path, "title: ours\n", "new-8.site.yaml")
    with pytest.raises(profiles.ProfileMissing) as caught:
        load(tmp_path, sku="new-8")
    assert "did you mean" not in str(caught.value)
    assert f"{tmp_path}/new-8.site.yaml is no whole profile, and lies over one" in str(caught.value)


class Remembered(dict[str, Any]):
    """What was found right before."""

    put = dict.__setitem__

    def mark(self) -> None:
        """What is taken from here says so."""
        self.update({digest: {**data, "title": "as it was found"} for digest, data in self.items() if _ours(data)})


def _ours(data: dict[str, Any]) -> bool:
    return data["title"] == "ours"


def test_what_was_merged_before_is_taken_until_either_file_or_the_schema_changes(tmp_path: Path) -> None:
    kept, collection = Remembered(), tmp_path / "files"
    shutil.copytree(made.GATE_FILES, collection)
    schema = collection / "schemas" / made.PROFILE_SCHEMA.name
    ours = write(tmp_path / "ours", "title: ours\n")

    def read() -> dict[str, Any]:
        return load(ours, schema=schema, kept=kept).data

    def taken() -> bool:
        kept.mark()
        return bool(read()["title"] == "as it was found")

    assert read() == {**SHIPPED, "title": "ours"} and taken()
    write(ours, "title: ours\n# a word more\n")
    assert read()["title"] == "ours" and taken(), "it has changed, and is merged again"
    newer = copy.deepcopy(SHIPPED)
    newer["gpu"]["memory"]["value"] = 81000
    write(collection / "profiles", yaml.safe_dump(newer), f"{SKU}.yaml")
    assert read() == {**newer, "title": "ours"} and taken(), "what lies below it has changed"
    write(ours, "odd: 1\n")
    for _again in range(2):
        with pytest.raises(ConfigError, match="odd"):
            read()
    write(ours, "title: ours\n# a word more\n")
    schema.write_text(json.dumps({"properties": {"title": {"pattern": "NVIDIA|found"}}}), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"site.yaml:1: title: 'ours' does not match"):
        read()


def test_one_beside_the_profiles_is_no_profile_to_gate_profile_and_is_told_where_it_lies_over_what_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = of_nodes.Site(tmp_path)
    write(site.profiles, "title: ours\n")
    monkeypatch.setenv("GPUFLEET_PROFILE_PATH", str(site.profiles))
    assert not any(".site.yaml" in line for line in site.make(check_mode=True)["warnings"]), "another SKU's"
    over = site.profiles / "new-8.site.yaml"
    over.write_text("title: over what is made\n", encoding="utf-8")
    for dry in (True, False):
        done = site.make(check_mode=dry)
        assert done["changed"] and done["profile"]["title"] == "A new model", done
        assert any(f"the gates use it with what {over} says over it" in line for line in done["warnings"])
    assert load(site.profiles, sku="new-8").data == {**done["profile"], "title": "over what is made"}
    assert "SKU 'new-8.site' is no name" in site.make(sku="new-8.site")["msg"]


def test_gpus_that_a_site_adds_to_a_profile_are_known_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = of_nodes.Site(tmp_path)
    monkeypatch.setenv("GPUFLEET_PROFILE_PATH", str(site.profiles))
    write(site.profiles, f"gpu:\n  device_ids: {{value: ['2330', '29bc'], {SAID}}}\n")
    refused = site.make()
    assert refused["failed"] and f"{SKU} ({site.profiles}/{SKU}.site.yaml)" in refused["error"]["seen"]
    write(site.profiles, "gpu:\n  device_ids: {value: ['29bc']}\n")
    assert f"{SKU}.site.yaml:2: gpu.device_ids" in site.make()["msg"], "nobody knows what a broken one is about"
