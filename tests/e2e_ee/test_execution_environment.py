# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is in the execution environment is enough for day 0 and day 2.

One story, whose tests run in order; each reads the world past the collection's code.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import counts
import lab
import pytest
from job import COLLECTIONS, OURS, Done, Environment

FAULTY, FAULT = "gpu003", "xid79"
IDLE = {"state": "IDLE", "reason": ""}
OTHERS = [name for name in lab.NODES if name != FAULTY]
IMPORTS = Path(__file__).parents[1] / "contract" / "awx" / "import_plugins.py"


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return Environment(tmp_path_factory.mktemp("ee"))


def test_it_has_nothing_of_the_machine_that_it_is_played_on(environment: Environment) -> None:
    looks = f"""
import importlib.util, os, shutil
assert os.path.isdir({str(OURS)!r}) and shutil.which("scontrol") and shutil.which("gpgv") and shutil.which("ssh")
print([name for name in ("pytest", "ironic", "yamllint") if importlib.util.find_spec(name)],
      [name for name in ("make", "git", "slurmctld", "ipmitool") if shutil.which(name)],
      [name for name in ("plugins", "roles", "tests") if os.path.exists(os.path.join({str(lab.CHECKOUT)!r}, name))])
"""
    assert environment.run(["python", "-c", looks]) == (0, "[] [] []\n")


def test_its_packages_do_not_contradict_each_other(environment: Environment) -> None:
    code, told = environment.run(["python", "-m", "pip", "check"])
    assert code == 0, told


def test_each_plugin_is_imported_there(environment: Environment) -> None:
    code, told = environment.run(["python", "-c", IMPORTS.read_text(encoding="utf-8"), COLLECTIONS])
    assert code == 0 and "plugins and" in told, told


@pytest.fixture(scope="module")
def day0(environment: Environment) -> Done:
    lab.new_rack()
    return environment.job("day0_bringup")


def in_service(nodes: list[str], boots: int) -> None:
    assert {node: lab.node_state(node) for node in nodes} == dict.fromkeys(nodes, IDLE)
    assert {node: counts.network_boots(node) for node in nodes} == dict.fromkeys(nodes, boots)
    passports = counts.per_node("SELECT name FROM passports JOIN nodes USING (node_id)")
    assert {node: passports[node] for node in nodes} == dict.fromkeys(nodes, boots)
    assert {counts.events_of("state")[node][-1] for node in nodes} == {"admitted"}


def test_day0_takes_all_into_service(day0: Done) -> None:
    assert day0.rc == 0, day0.tail()
    in_service(list(lab.NODES), 1)
    assert sorted(lab.slurm("srun", "-N4", "hostname").split()) == list(lab.NODES)


def test_its_output_is_that_of_fleet_progress_and_it_leaves_its_counts(day0: Done) -> None:
    """Through the callback that the controller puts in the place of standard output's."""
    assert "Day 0: 4 nodes: 4 admitted" in day0.output and "PLAY RECAP" not in day0.output, day0.tail()
    assert day0.artifacts["gpufleet_day_0"] == {"nodes": 4, "states": {"admitted": 4}, "stopped": 0, "hosts": {}}


def test_day0_again_changes_nothing(environment: Environment, day0: Done) -> None:
    before = counts.counters()
    again = environment.job("day0_bringup")
    assert again.rc == 0 and again.stats["changed"] == {}, again.tail()
    assert counts.counters() == before


def test_day2_gives_all_their_image_anew(environment: Environment, day0: Done) -> None:
    done = environment.job("day2_recycle", day2_recycle_all="true")
    assert done.rc == 0, done.tail()
    in_service(list(lab.NODES), 2)


def test_day2_keeps_a_broken_node_out_and_says_which_template_to_launch(environment: Environment, day0: Done) -> None:
    lab.fault(FAULTY, FAULT)
    done = environment.job("day2_recycle")
    assert done.rc == 2, done.tail()
    left: dict[str, Any] = done.artifacts["gpufleet_day_2"]
    assert left["hosts"]["quarantined"] == [FAULTY] and left["states"] == {"admitted": 3, "quarantined": 1}
    assert 'launch the template "gpufleet day2_recycle" with limit gpu003' in " ".join(done.output.split())
    assert "DRAIN" in lab.node_state(FAULTY)["state"] and lab.node_state(FAULTY)["reason"].startswith("gpufleet:")
    in_service(OTHERS, 2)


def test_and_takes_it_back_when_it_is_mended(environment: Environment, day0: Done) -> None:
    lab.fault(FAULTY, "none")
    done = environment.job("day2_recycle")
    assert done.rc == 0, done.tail()
    assert {node: lab.node_state(node) for node in lab.NODES} == dict.fromkeys(lab.NODES, IDLE)
