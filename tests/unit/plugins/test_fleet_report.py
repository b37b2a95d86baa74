# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A report, through the action: what stands on the page, in the data and in the metrics, and who may read them."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.action.fleet_report import ActionModule as Report
from ansible_collections.gpufleet.baremetal.plugins.action.fleet_status import ActionModule as Status
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import measured, metrics, timeline
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.report import REPORT, SPEC
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event, Result
from ansible_collections.gpufleet.baremetal.plugins.module_utils._waves.over_time import OUTCOMES
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._dossier import places
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._report_page import lasted
from ansible_collections.gpufleet.baremetal.tests.unit.plugins.doors import Door
from suite import exposition

BOTH = {"through": 1, "failed": 1}
PASSWORD = "s3cret-of-the-ledger"
#: What a node may say of itself.
HOSTILE = "</script><script>alert(1)</script><img src=http://198.51.100.7/x onerror=alert(2)> {{ 7654321 * 3 }}"
IMAGE = "gpu-golden 2026.11.2"
HOSTS = {"gpu001": "S1", "gpu002": "S2", "gpu003": "S3"}


def lived(folder: Path) -> None:
    cell = {"id": "pcie.width", "entity": "GPU 0", "wanted": 16, "unit": "lanes", "verdict": "pass"}
    with Ledger(f"sqlite:///{folder}/ledger.sqlite") as ledger:
        good, bad = (ledger.identify(host, aliases=[("serial", HOSTS[host])]) for host in ("gpu001", "gpu002"))
        ledger.append("r1", [(node, Event("wave", "planned", {"wave": 1, "of": 1})) for node in (good, bad)])
        ledger.append("r1", [(good, Event("wave", "begun", {"canary": True, "size": 1, "image": IMAGE}))])
        ledger.append("r1", [(bad, Event("wave", "begun", {"canary": False, "size": 1, "image": IMAGE}))])
        for node in (good, bad):
            ledger.append("r1", [(node, Event("state", "imaging", {"from": "enrolled"}))])
        for width in (16, "8"):
            ledger.append("r1", [(bad, Event("verdict", "x_gate", {"checks": [{**cell, "measured": width}]}))])
        ledger.append("r2", [(good, Event("state", "admitted", {"from": "imaging"}))])
        ledger.append("r2", [(bad, Event("state", "quarantined", {"from": "imaging", "reason": HOSTILE}))])
        # Another run did not know it for a secret
        ledger.append("r2", [(bad, Event("note", "stopped", {"reason": f"the BMC says {PASSWORD}"}))])
        broken = {"reason": HOSTILE, "broken_off": True, "images": [IMAGE], "nodes": 3}
        ledger.append("r3", [(good, Event("wave", "halted", broken))])
        ledger.append("ann", [(bad, Event("wave", "paused", {"by": "ann", "reason": HOSTILE}))])
        envelope = {"payload": "no passport", "payloadType": "x"}
        ledger.save_passport("r2", good, issued=1.0, expires=2e9, digest="sha256:0", envelope=envelope)


def report(
    folder: Path,
    *,
    check_mode: bool = False,
    lives: Callable[[Path], None] = lived,
    hosts: Mapping[str, str] = HOSTS,
    base: type[Status] = Report,
    own_spec: Mapping[str, Any] = REPORT,
    **args: Any,
) -> dict[str, Any]:
    lives(folder)
    made = Door(
        folder,
        lambda params, ctx: Result(),
        base=base,
        name=base.NAME,
        own_spec=own_spec,
        check_mode=check_mode,
        args={"ask_scheduler": False, "hosts": list(hosts), **args},
        hostvars={host: {"gpufleet_serial": serial} for host, serial in hosts.items()},
        gpufleet_serial=hosts["gpu001"],
    )
    return made.run()


class Page(HTMLParser):
    """The elements of a page, with what they load, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.loads: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.loads += [str(value) for name, value in attrs if name in ("src", "href", "style") or name.startswith("on")]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_page_tells_the_fleet_and_runs_nothing_that_a_node_said(tmp_path: Path) -> None:
    result = report(tmp_path, path=f"{tmp_path}/new/report.html")
    assert result["changed"] and result["states"] == {"admitted": 1, "quarantined": 1, "discovered": 1}, result
    file = tmp_path / "new" / "report.html"
    page = Page(file.read_text(encoding="utf-8"))
    assert page.tags.count("script") == 1 and "img" not in page.tags
    assert page.loads and all(value.startswith("#") for value in page.loads), page.loads
    text = " ".join(page.text.split())
    assert HOSTILE in text and "22962963" not in text
    for told in (
        "Fleet: 3 nodes",
        "r2",
        "imaging",
        "--limit gpu002",
        "2033-05-18T03:33:20Z",
        "never seen",
        f"roll-out of {IMAGE} is broken off",
    ):
        assert told in text, told
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_who_needs_somebody_is_told_in_detail_first(tmp_path: Path) -> None:
    report(tmp_path, data_path=f"{tmp_path}/r.json", details=1)
    told = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))
    assert list(told["pages"]) == ["gpu002"]
    (row,) = told["pages"]["gpu002"]["measured"]
    assert [one["value"] for one in row["values"]] == [16.0, 8.0] and (row["unit"], row["wanted"]) == ("lanes", 16)
    assert [(run["run"], run["nodes"], run["states"]) for run in told["runs"]] == [
        ("r2", 2, {"admitted": 1, "quarantined": 1}),
        ("r1", 2, {"imaging": 2}),
    ]
    assert [(one["stage"], one["count"]) for one in told["stages"]] == [("imaging", 2)]
    assert [one["host"] for one in told["expiring"]] == ["gpu001"] and told["nodes"]["gpu003"]["state"] == "discovered"
    assert stat.S_IMODE((tmp_path / "r.json").stat().st_mode) == 0o600


def test_waves_are_told_with_how_each_node_came_out_of_its_own(tmp_path: Path) -> None:
    result = report(tmp_path, data_path=f"{tmp_path}/r.json", metrics_path=f"{tmp_path}/r.prom")
    told = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))["waves"]
    assert told["now"] == result["waves"] and told["now"]["outcomes"] == {**dict.fromkeys(OUTCOMES, 0), **BOTH}
    [run] = told["runs"]
    assert [(wave["folded"], wave["outcomes"], wave["canary"]) for wave in run["waves"]] == [
        ("gpu001", {"through": 1}, True),
        ("gpu002", {"failed": 1}, False),
    ]
    assert run["waves"][1]["hosts"]["gpu002"]["state"] == "quarantined" and run["not_begun"] == []
    assert [(mark["what"], mark["nodes"]) for mark in told["marks"]] == [("paused", 1), ("halted", 3)]
    assert told["now"]["paused"] == ["gpu002"] and list(told["now"]["images"]) == [IMAGE]
    samples = (tmp_path / "r.prom").read_text(encoding="utf-8").splitlines()
    assert f'gpufleet_rollout_broken_off{{image="{IMAGE}"}} 1' in samples and "gpufleet_nodes_paused 1" in samples


def test_what_a_node_exporter_reads_is_readable_and_names_no_reason(tmp_path: Path) -> None:
    report(tmp_path, metrics_path=f"{tmp_path}/gpufleet.prom")
    file = tmp_path / "gpufleet.prom"
    text = file.read_text(encoding="utf-8")
    assert stat.S_IMODE(file.stat().st_mode) == 0o644 and "alert" not in text and text.endswith("\n")
    found = exposition.parsed(text)
    assert all(one.kind == "gauge" and one.help.endswith(".") and one.samples for one in found.values())
    assert found["gpufleet_node_state"].samples[("node", "gpu002"), ("state", "quarantined")] == 1
    assert found["gpufleet_nodes"].samples[(("state", "drained"),)] == 0  # a state that nobody is in does not go
    assert found["gpufleet_passport_expires_timestamp_seconds"].samples == {(("node", "gpu001"),): 2e9}


@pytest.mark.parametrize("host", ['a"b\\c\nd', "\\", "\\n", '"} 1\n# x', "gpu\r1", "\u2028 ü"])
def test_a_host_of_any_name_is_one_label(host: str) -> None:
    one = {"state": "admitted", "stopped": "", "attempts": 0, "passport_due": False, "passport_expires": ""}
    found = exposition.parsed(metrics.text({host: one}, 1.0))
    assert found["gpufleet_node_stopped"].samples == {(("node", host),): 0}


@pytest.mark.parametrize(
    "wrong",
    [
        "a 1", "a{b=c} 1\n", 'a{b="c} 1\n', 'a{b="c\\d"} 1\n', 'a{b="c"d="e"} 1\n', 'a{b="1",b="2"} 1\n', "a one\n",
        "1a 1\n", "a 1\na 1\n", "a 1\nb 1\na{c=\"d\"} 1\n", "a 1\n# TYPE a gauge\n", "# TYPE a thing\na 1\n", "a 1\n\n",
        "# HELP a b\n# HELP a b\na 1\n", "a  1\n", "a-b 1\n",
    ],
)  # fmt: skip
def test_a_text_that_a_scraper_refuses_would_be_seen(wrong: str) -> None:
    with pytest.raises(ValueError):
        exposition.parsed(wrong)


def test_the_passports_that_end_first_are_told_first_and_of_those_in_service_alone(tmp_path: Path) -> None:
    hosts = {f"gpu{number:03}": f"S{number}" for number in range(1, 31)}
    ends = {host: 1.9e9 + (number * 7919) % 30 * 86400 for number, host in enumerate(hosts)}

    def lives(folder: Path) -> None:
        with Ledger(f"sqlite:///{folder}/ledger.sqlite") as ledger:
            for number, (host, serial) in enumerate(hosts.items()):
                node = ledger.identify(host, aliases=[("serial", serial)])
                state = "quarantined" if number % 10 == 9 else "admitted"
                ledger.append("r1", [(node, Event("state", state, {"from": "validating"}))])
                if number:  # the first has none, which is the next to see to
                    told = {"payload": "no passport", "payloadType": "x"}
                    ledger.save_passport("r1", node, issued=1.0, expires=ends[host], digest="sha256:0", envelope=told)

    report(tmp_path, lives=lives, hosts=hosts, data_path=f"{tmp_path}/r.json")
    told = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))["expiring"]
    served = [host for number, host in enumerate(hosts) if number % 10 != 9 and number]
    assert [one["host"] for one in told] == ["gpu001", *sorted(served, key=ends.__getitem__)][:20]
    times = [one["expires"] for one in told]
    assert times[0] == "none" and times[1:] == sorted(times[1:]) and len(set(times)) == 20


def test_a_secret_that_this_run_knows_stands_in_no_file(tmp_path: Path) -> None:
    files = {name: f"{tmp_path}/{name}" for name in ("path", "data_path", "metrics_path")}
    result = report(tmp_path, title=f"https://ann:{PASSWORD}@hall.example", **files)
    assert not result.get("failed") and PASSWORD not in json.dumps(result), result
    for file in files.values():
        assert PASSWORD not in Path(file).read_text(encoding="utf-8"), file
    assert "the BMC says" in Path(files["path"]).read_text(encoding="utf-8")


def test_check_mode_writes_no_file(tmp_path: Path) -> None:
    result = report(tmp_path, check_mode=True, path=f"{tmp_path}/r.html")
    assert result["changed"] and result["written"] == [f"{tmp_path}/r.html"] and not (tmp_path / "r.html").exists()


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_what_everybody_is_to_read_lies_where_everybody_comes(tmp_path: Path, umask: int) -> None:
    """Also where the page, which is its owner's alone, lies in the same new folder."""
    before = os.umask(umask)
    try:
        named = {"path": "new/below/r.html", "data_path": "own/r.json", "metrics_path": "new/below/r.prom"}
        told = report(tmp_path, **{name: f"{tmp_path}/{path}" for name, path in named.items()})
    finally:
        os.umask(before)
    assert told["written"] == [f"{tmp_path}/{path}" for path in named.values()], told
    modes = {"new": 0o755, "new/below": 0o755, "new/below/r.prom": 0o644, "new/below/r.html": 0o600, "own": 0o700}
    assert {name: stat.S_IMODE((tmp_path / name).stat().st_mode) for name in modes} == modes


@pytest.mark.parametrize("check_mode", [True, False])
@pytest.mark.parametrize("second", ["r.html", "../own/r.html", "link/r.html"])
def test_two_files_are_not_one(tmp_path: Path, second: str, check_mode: bool) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "link").symlink_to(own)
    told = report(tmp_path, check_mode=check_mode, data_path=f"{own}/r.html", metrics_path=f"{own}/{second}")
    assert told["failed"] and "two files of the report are one" in told["msg"], told
    assert not (own / "r.html").exists() and "data_path: " in told["msg"] and second in told["msg"]


@pytest.mark.parametrize("check_mode", [True, False])
@pytest.mark.parametrize("name", ["path", "data_path", "metrics_path"])
def test_what_is_no_file_stays_and_nothing_is_written(tmp_path: Path, name: str, check_mode: bool) -> None:
    files = {one: f"{tmp_path}/{one}" for one in ("path", "data_path", "metrics_path")}
    os.mkfifo(files[name])
    result = report(tmp_path, check_mode=check_mode, **files)
    assert result["failed"] and "the report would take the place of a FIFO" in result["msg"], result["msg"]
    assert [one for one in files.values() if os.path.lexists(one)] == [files[name]] and Path(files[name]).is_fifo()


@pytest.mark.parametrize("check_mode", [True, False])
def test_the_file_of_a_status_takes_the_place_of_nothing_else(tmp_path: Path, check_mode: bool) -> None:
    file = tmp_path / "told.json"
    file.symlink_to(tmp_path / "kept.json")
    result = report(tmp_path, check_mode=check_mode, base=Status, own_spec=SPEC, path=str(file))
    assert result["failed"] and "would take the place of a link" in result["msg"], result["msg"]
    assert file.is_symlink() and not (tmp_path / "kept.json").exists()


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ({}, "path, data_path, metrics_path"),
        ({"path": "r.html", "days": 0}, "days from 1 on"),
        ({"path": "/proc/nowhere/r.html"}, "cannot be written"),
    ],
)
def test_what_cannot_be_done_is_told(tmp_path: Path, args: dict[str, Any], told: str) -> None:
    result = report(tmp_path, **args)
    assert result["failed"] and told in result["msg"], result["msg"]


def test_a_stage_that_a_killed_run_left_and_the_next_went_on_with_is_one() -> None:
    turns = [
        {"node_id": "a", "run_id": run, "at": at, "name": name}
        for run, at, name in (("r1", 0, "imaging"), ("r2", 50, "imaging"), ("r2", 60, "validating"), ("r2", 61, "x"))
    ]
    (imaging, validating) = timeline.stages(turns, {"a": "gpu001"})
    assert (imaging["slowest"], imaging["count"], imaging["host"]) == (60.0, 1, "gpu001")
    assert validating["stage"] == "validating" and validating["median"] == 1.0


def test_nine_in_ten_came_through_within_the_time_that_is_told() -> None:
    turns = []
    for at in range(1, 11):
        turns += [{"node_id": str(at), "run_id": "r", "at": 0, "name": "imaging"}]
        turns += [{"node_id": str(at), "run_id": "r", "at": at, "name": "admitted"}]
    (stage,) = timeline.stages(turns, {str(at): f"n{at}" for at in range(1, 11)})
    assert (stage["median"], stage["most"], stage["slowest"], stage["host"]) == (5.5, 9.0, 10.0, "n10")


@pytest.mark.parametrize("told", [True, None, "", "N/A", "nan", "inf", [1], {"a": 1}, "1e999"])
def test_what_is_no_number_has_no_course_over_time(told: Any) -> None:
    assert measured.number(told) is None


def test_lines_and_times_are_drawn_and_said_as_people_read_them() -> None:
    assert places([{"value": 1}]) == "0.0,22.0 120.0,22.0"
    assert places([{"value": 1}, {"value": 3}]) == "0.0,22.0 120.0,2.0"
    assert [lasted(at) for at in (0.4, 119, 720, 11_100)] == ["0 s", "119 s", "12 min", "3 h 05 min"]
