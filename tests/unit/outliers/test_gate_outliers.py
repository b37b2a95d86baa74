# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gate_outliers through its action: a gate of one host, and a look at a whole fleet that bars nobody."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible import constants as C
from ansible_collections.gpufleet.baremetal.plugins.action.gate_outliers import ActionModule
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.report import status
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.story import story
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.summary import standing
from ansible_collections.gpufleet.baremetal.plugins.module_utils._outliers.specs import SPEC
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust import policy as policies
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.grounds import grounds
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event, Result
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _figures
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._history import evidence
from ansible_collections.gpufleet.baremetal.tests.unit.plugins.doors import Door
from measured_fleet import EVEN, add, even, speeds, state

POLICY_SCHEMA = Path(__file__).parents[3] / "roles" / "passport" / "files" / "schemas" / "policy.schema.json"


@pytest.fixture(autouse=True)
def of_this_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run").mkdir()
    monkeypatch.setattr(C, "DEFAULT_LOCAL_TMP", str(tmp_path / "run"))


class Fleet:
    """gpu001 and so on in a ledger, of which gpu010 is slow."""

    def __init__(self, folder: Path, values: tuple[float, ...] = (*EVEN[:9], 50.0)) -> None:
        self.folder = folder
        with self.ledger() as ledger:
            self.ids = even(ledger, values)

    def ledger(self) -> Ledger:
        return Ledger(f"sqlite:///{self.folder}/ledger.sqlite")

    def door(self, host: str = "gpu001", check_mode: bool = False, **args: Any) -> Door:
        hosts = {name: {"gpufleet_serial": f"S-{name}"} for name in (*self.ids, "fresh")}
        door = Door(
            self.folder, lambda params, ctx: Result(), base=ActionModule, name="gate_outliers", own_spec=SPEC,
            args=args, hostvars=hosts, check_mode=check_mode,
            ansible_play_hosts_all=list(self.ids), ansible_play_batch=[host],
        )  # fmt: skip
        door.variables.update({"inventory_hostname": host, "gpufleet_serial": f"S-{host}"})
        return door

    def run(self, host: str = "gpu001", check_mode: bool = False, **args: Any) -> dict[str, Any]:
        return self.door(host, check_mode, **args).run()

    def batch(self, **args: Any) -> dict[str, Any]:
        result = self.run(batch=True, **args)
        assert not result.get("failed"), result
        return result

    def told(self, kind: str) -> list[tuple[str, str]]:
        """Who, and which verdict."""
        names = {node: name for name, node in self.ids.items()}
        with self.ledger() as ledger:
            events = [event for event in ledger.of_all(kind) if event["name"] == "gate_outliers"]
        return [(names[event["node_id"]], event["data"]["verdict"]) for event in events]

    def add(self, host: str, *events: Event) -> None:
        with self.ledger() as ledger:
            add(ledger, host, *events)


def test_an_outlier_fails_its_host_and_its_verdict_stands_as_that_of_any_gate(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    slow, fine = fleet.run("gpu010"), fleet.run("gpu001")
    assert slow["failed"] and slow["verdict"] == "fail" and "-5.6% from the median" in slow["msg"]
    assert not fine.get("failed") and fine["verdict"] == "pass" and not fine["changed"]
    assert fleet.told("verdict") == [("gpu010", "fail"), ("gpu001", "pass")]
    asked = {"tests": ["gpu_bandwidth.bandwidth.host_to_device_memcpy_ce"]}
    with fleet.ledger() as ledger:
        last = ledger.of_all("verdict")[-1]
    assert last["data"]["asked"] == asked and 0 < last["data"]["after_event"] < last["id"] - 1


@pytest.mark.parametrize(
    ("values", "fail_on", "failed"),
    [
        (EVEN[:3], "fail", False), (EVEN[:3], "inconclusive", True), (EVEN[:3], "never", False),
        ((*EVEN[:9], 50.0), "never", False), (EVEN, "inconclusive", False),
    ],
)  # fmt: skip
def test_which_verdict_fails_the_host_the_task_says(
    tmp_path: Path, values: tuple[float, ...], fail_on: str, failed: bool
) -> None:
    fleet = Fleet(tmp_path, values)
    host = list(fleet.ids)[-1]
    assert fleet.run(host, fail_on=fail_on).get("failed", False) is failed
    assert len(fleet.told("verdict")) == 1, "it is recorded in any case"


def test_a_pass_over_what_was_measured_before_an_imaging_is_none_of_after_it(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, EVEN)
    assert fleet.run("gpu001")["verdict"] == "pass"
    fleet.add("gpu001", Event("state", "imaging"))
    result = fleet.run("gpu001")
    assert result["verdict"] == "inconclusive"
    fleet.add("gpu001", state("GPU-gpu001"), speeds(53.0))
    assert fleet.run("gpu001")["verdict"] == "pass"
    with fleet.ledger() as ledger:
        verdicts = evidence(ledger, fleet.ids["gpu001"])["verdicts"]
    (verdict,) = [one for one in verdicts if one["name"] == "gate_outliers"]
    assert verdict["data"]["verdict"] == "pass"


def test_a_dry_run_judges_and_writes_and_fails_nothing(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    result = fleet.run("gpu010", check_mode=True)
    assert result["verdict"] == "fail" and not result.get("failed")
    assert fleet.run(check_mode=True, batch=True)["counts"] == {"fail": 1, "pass": 9, "inconclusive": 0}
    assert fleet.told("verdict") == [] and fleet.told("measure") == []


def test_a_look_at_the_fleet_tells_each_host_and_bars_none(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    result = fleet.batch()
    assert result["counts"] == {"fail": 1, "pass": 9, "inconclusive": 0}
    slow, fine = result["verdicts"]["gpu010"], result["verdicts"]["gpu001"]
    assert (slow["ok"], slow["verdict"], slow["kind"], len(slow["checks"])) == (False, "fail", "", 1)
    assert (fine["ok"], fine["checks"], fine["passed"]) == (True, [], 1)
    assert fleet.told("verdict") == [] and fleet.told("measure") == [("gpu010", "fail")]
    with fleet.ledger() as ledger:
        found = evidence(ledger, fleet.ids["gpu010"])
    assert all(event["name"] != "gate_outliers" for event in found["history"])


def test_an_outlier_is_told_once_until_it_is_measured_again_and_its_end_is_told(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    fleet.batch()
    fleet.batch()
    assert fleet.told("measure") == [("gpu010", "fail")]
    fleet.add("gpu010", speeds(50.1))
    fleet.batch()
    assert fleet.told("measure") == [("gpu010", "fail")] * 2
    fleet.add("gpu010", speeds(None))
    fleet.batch()
    assert fleet.told("measure") == [("gpu010", "fail")] * 2, "what is not known ends nothing"
    fleet.add("gpu010", speeds(53.0))
    fleet.batch()
    fleet.batch()
    assert fleet.told("measure") == [("gpu010", "fail"), ("gpu010", "fail"), ("gpu010", "pass")]


def test_people_see_outliers_first_and_hosts_of_one_cause_in_one_row(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    fleet.ids.update(fresh="")
    result = fleet.batch(title="Hall 2")
    text = "\n".join(result["lines"])
    assert result["lines"][0].startswith("Hall 2: 11 nodes: 1 slower, 9 like their peers, 1 not to be judged")
    assert text.index("gpu010") < text.index("fresh") and "gpu001" not in text and "remedy: retest" in text
    (tmp_path / "few").mkdir()
    assert "gpu[001-005]" in "\n".join(Fleet(tmp_path / "few", EVEN[:5]).batch()["lines"])


def test_the_hosts_of_a_batch_share_one_look_and_whoever_was_measured_since_has_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet, looks = Fleet(tmp_path), []
    from ansible_collections.gpufleet.baremetal.plugins.action import gate_outliers as action

    read = _figures.all_measured
    monkeypatch.setattr(action, "all_measured", lambda *asked: looks.append(1) or read(*asked))
    doors = [fleet.door(host) for host in ("gpu009", "gpu010", "gpu008")]
    for door in doors:
        door.task._uuid = "one-task"
        door.variables["ansible_play_batch"] = ["gpu008", "gpu009", "gpu010"]
    assert [door.run()["verdict"] for door in doors[:2]] == ["pass", "fail"] and len(looks) == 1
    fleet.add("gpu008", speeds(40.0))
    assert doors[2].run()["verdict"] == "fail" and len(looks) == 2
    assert fleet.told("verdict") == [("gpu009", "pass"), ("gpu010", "fail"), ("gpu008", "fail")]


@pytest.mark.parametrize(
    ("args", "word"),
    [
        ({"peers": 7}, "peers from 8 on"), ({"days": 0}, "days from 1 on"), ({"hosts": ["gpu001"]}, "batch: true"),
        ({"batch": True, "hosts": ["nobody"]}, "no such host"),
    ],
)  # fmt: skip
def test_what_would_judge_by_too_few_is_refused(tmp_path: Path, args: dict[str, Any], word: str) -> None:
    result = Fleet(tmp_path).run(**args)
    assert result["failed"] and word in json.dumps(result)


def test_what_is_older_than_asked_is_no_figure(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    with fleet.ledger() as ledger:
        assert len(_figures.all_measured(ledger, 0.0)) == 10
        assert _figures.all_measured(ledger, ledger.now() + 1) == {}


def test_a_fleet_is_read_in_parts_and_of_each_node_the_newest_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_figures, "_AT_ONCE", 3)
    fleet = Fleet(tmp_path)
    fleet.add("gpu001", *(speeds(50.0 + number / 10) for number in range(20)))
    with fleet.ledger() as ledger:
        found = _figures.all_measured(ledger, 0.0)
    (figures,) = found[fleet.ids["gpu001"]].figures.values()
    assert len(found) == 10 and len(figures) == 12 and figures[-1].value == 51.9


def test_status_tells_of_an_outlier_until_it_is_measured_again_or_imaged(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)

    def told() -> str:
        with fleet.ledger() as ledger:
            one = status(ledger, {"gpu010": fleet.ids["gpu010"]})["gpu010"]
        assert (bool(one["outlier"]) and one["outlier"] in standing(one)) is bool(one["outlier"])
        return str(one["outlier"])

    fleet.add("gpu010", Event("state", "admitted"))
    assert told() == ""
    fleet.batch()
    assert told().startswith(
        "GPU 0: 50 GB/s in gpu_bandwidth.bandwidth.host_to_device_memcpy_ce, -5.6% from the median"
    )
    fleet.add("gpu010", speeds(53.0))
    assert fleet.run("gpu010")["verdict"] == "pass" and told() == ""
    fleet.add("gpu010", speeds(50.0))
    assert fleet.run("gpu010")["verdict"] == "fail" and told()
    fleet.add("gpu010", Event("state", "imaging"), Event("state", "admitted"))
    assert told() == ""


def test_a_story_tells_a_look_at_the_fleet_in_words(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    fleet.batch()
    with fleet.ledger() as ledger:
        (text,) = [one["text"] for one in story(ledger, fleet.ids["gpu010"], last=0, all_kinds=True)["events"]][-1:]
    assert text.startswith("measure gate_outliers: gate_outliers: fail. GPU 0: 50 GB/s in")


def test_a_passport_may_demand_it_and_too_few_peers_give_none(tmp_path: Path) -> None:
    asked = {**policies.DEFAULTS, "required_gates": ["gate_outliers"], "gates": {}}
    policies.check({"required_gates": ["gate_outliers"]}, POLICY_SCHEMA)
    for folder, values, reasons in (("many", EVEN, []), ("few", EVEN[:3], ["gate gate_outliers: inconclusive"])):
        (tmp_path / folder).mkdir()
        fleet = Fleet(tmp_path / folder, values)
        fleet.run("gpu001")
        with fleet.ledger() as ledger:
            found = grounds(evidence(ledger, fleet.ids["gpu001"]), asked)
        assert found.reasons == reasons and found.aged == []
