# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Soaks that go on by themselves: killed, rebooted, ended, asked for more, on a disk that is full; real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import scope
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.registry import ASKED, LACKING, OWN
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.registry import SOAK_GATE as soak_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.soak.claimed import question
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.soak.kept import Store
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.soak.progress import Progress
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.watch import command, gate_wait
from ansible_collections.gpufleet.baremetal.plugins.module_utils._proc import process_start, uptime
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Lifeline
from ansible_collections.gpufleet.baremetal.tests.unit.gate import burning, smi, soaked
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made

LONG = 5.0
#: One round passes, and the next one never ends.
SECOND_HANGS = '[ $(wc -l < "{folder}/burns") = 1 ] || sleep 600'


def until(condition: Callable[[], Any], seconds: float = 60.0) -> Any:
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return found


class Node:
    """A machine with one soak."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[int] = []
        self.jobs = folder / "jobs"
        self.store = Store(str(self.jobs), "soak-1")

    def params(self, **options: Any) -> dict[str, Any]:
        how = {
            name: options.pop(name)
            for name in ("body", "burn", "look", "log", "interruptions", "uptime")
            if name in options
        }
        # How often gpu-burn was started, and as which process.
        how["body"] = f'echo $$ >> "{self.folder}/burns"\n{how.get("body", "")}'
        own = {"detached": True, "job": "soak-1", "state_dir": str(self.jobs), "timeout": None}
        return {**soaked.params(self.folder, **how), **own, **options}

    def start(self, **options: Any) -> dict[str, Any]:
        found = soak_gate(self.params(**options), Context()).data
        self.started.append(found["pid"])
        return found

    def reboot(self, name: str = "boot-2") -> None:
        (self.folder / "boot").write_text(f"{name}\n", encoding="ascii")

    def waited(self, started: dict[str, Any]) -> dict[str, Any]:
        """What the wait on the controller makes of it."""
        told = {**started, "host": "n1", "question": question(soaked.profile(), soaked.HOURS, ["burn"])}

        def look(nodes: Sequence[Mapping[str, Any]]) -> dict[str, tuple[str, str]]:
            [one] = nodes
            return {"n1": (subprocess.run(["sh", "-c", command(one)], capture_output=True, text=True).stdout, "")}

        params = {"nodes": [told], "look": look, "timeout": None, "interval": 0.2, "grace": 5.0, "gate": "soak_gate"}
        gates = {"lacking": LACKING["soak_gate"], "asked_of": ASKED["soak_gate"], "own": OWN["soak_gate"]}
        found: dict[str, Any] = gate_wait({**params, **gates}, Context()).data["verdicts"]["n1"]
        return found

    def seconds(self) -> float:
        progress = self.store.load()
        return progress.seconds if progress else 0.0

    def samples(self) -> int:
        progress = self.store.load()
        return progress.samples if progress else 0

    def verdict(self) -> dict[str, Any]:
        path = self.jobs / "soak-1.json"
        until(path.exists)
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["verdict"]
        return found

    def cell(self, id: str, entity: str = "node") -> Any:
        [row] = [row for row in self.verdict()["checks"] if (row["id"], row["entity"]) == (id, entity)]
        return row["measured"]

    def burns(self) -> list[int]:
        path = self.folder / "burns"
        return [int(line) for line in path.read_text(encoding="utf-8").split()] if path.exists() else []

    def idle(self) -> bool:
        return not any(map(process_start, self.burns()))


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    one = Node(tmp_path)
    yield one
    for pid in one.started:
        if process_start(pid):
            os.kill(pid, signal.SIGKILL)
    until(one.idle)


def test_a_killed_supervisor_leaves_no_load_and_its_soak_goes_on_where_it_was(node: Node) -> None:
    first = node.start(hours=LONG, body=SECOND_HANGS.format(folder=node.folder))
    until(lambda: node.seconds() > 0.3 and len(node.burns()) == 2)
    os.kill(first["pid"], signal.SIGKILL)
    until(node.idle)
    before = node.seconds()
    assert not (node.jobs / "soak-1.json").exists(), "a killed soak says nothing"
    again = node.start()
    assert not again["joined"] and again["pid"] != first["pid"]
    assert node.verdict()["verdict"] == "pass", node.verdict()["findings"]
    assert node.cell("interruptions") == 1 and node.cell("soaked") > before
    samples = sum(row["samples"] for row in node.store.load().rows)
    assert node.cell("samples") == samples and f"of {samples} samples" in node.cell("series")


def test_what_is_cut_off_too_often_is_no_pass_and_then_begins_anew(node: Node) -> None:
    first = node.start(hours=LONG, interruptions=0, body="sleep 600")
    until(lambda: node.samples() > 1 and node.burns())
    os.kill(first["pid"], signal.SIGKILL)
    until(node.idle)
    node.start(interruptions=0)
    verdict = node.verdict()
    assert verdict["verdict"] == "inconclusive" and verdict["remedy"] == "field_diag"
    assert "cut off 1 times" in str(verdict["findings"])
    assert len(node.burns()) == 1, "nothing was loaded for what cannot pass"
    assert not node.start(interruptions=0)["joined"]
    assert node.verdict()["verdict"] == "pass" and node.cell("interruptions") == 0


def test_a_reboot_is_counted_and_what_gpus_counted_meanwhile_fails(node: Node) -> None:
    first = node.start(hours=LONG)
    until(lambda: node.seconds() > 0.3)
    os.kill(first["pid"], signal.SIGKILL)
    until(node.idle)
    node.reboot()
    first_gpu, mark, others = soaked.document({"remapped_rows/remapped_row_unc": "2"}).partition("<aggregate>")
    dram = others.replace("<dram_uncorrectable>0", "<dram_uncorrectable>2", 1)
    node.start(look=f"{first_gpu}{mark}{dram}")
    verdict = node.verdict()
    assert verdict["verdict"] == "fail"
    assert "GPU 0: 2 uncorrected errors in DRAM while it was cut off" in str(verdict["findings"])
    assert "GPU 1: 2 rows remapped for uncorrected errors while it was cut off" in str(verdict["findings"])
    assert node.cell("interruptions") == 1
    assert [part["boot_id"] for part in node.store.load().parts] == ["boot-1", "boot-2"]
    assert node.start()["joined"] and node.verdict() == verdict, "to begin again is no way out of a failure"


@pytest.mark.parametrize(("heat", "word"), [("93 C", "fail"), ("61 C", "pass")])
def test_a_verdict_is_not_lost_when_the_node_boots_again(node: Node, heat: str, word: str) -> None:
    started = node.start(look=soaked.document({"temperature/gpu_temp": heat}))
    assert node.verdict()["verdict"] == word
    node.reboot()
    assert node.waited(started)["verdict"] == word
    again = node.start()
    assert again["joined"] and node.waited(again)["verdict"] == word


def test_what_a_shutdown_ended_is_told_as_rebooted_and_goes_on(node: Node) -> None:
    started = node.start(hours=LONG)
    until(node.burns)
    os.kill(started["pid"], signal.SIGTERM)
    assert "somebody has ended the soak" in str(node.verdict()["findings"])
    node.reboot()
    assert node.waited(started)["findings"][0]["id"] == "rebooted"


def test_a_finding_ends_the_soak_and_its_load_at_once(node: Node) -> None:
    node.start(hours=LONG, body="sleep 600")
    until(lambda: node.samples() > 2 and node.burns())
    smi.tool(node.folder, soaked.document({"ecc_errors/volatile/dram_uncorrectable": "7"}))
    # Long before a node that nobody sees would be given up.
    until((node.jobs / "soak-1.json").exists, seconds=20)
    verdict = node.verdict()
    assert (verdict["verdict"], verdict["remedy"]) == ("fail", "reset_gpu")
    assert "uncorrected errors in DRAM" in str(verdict["findings"])
    assert node.cell("temperature.max", "GPU 7") == 61.0, "what was measured until then is told"
    assert node.idle()


def test_it_is_ended_on_demand_and_goes_on_afterwards(node: Node) -> None:
    node.start(hours=LONG, body=SECOND_HANGS.format(folder=node.folder))
    until(lambda: node.seconds() > 0.3 and len(node.burns()) == 2)
    found = node.start(hours=LONG, stop=True)
    assert found["joined"] and node.idle()
    verdict = node.verdict()
    assert verdict["verdict"] == "inconclusive" and "somebody has ended the soak" in str(verdict["findings"])
    kept = node.seconds()
    assert kept > 0.3
    assert not node.start()["joined"]
    assert node.verdict()["verdict"] == "pass" and node.cell("interruptions") == 0 and node.cell("soaked") > kept


class Announced(Lifeline):
    def __init__(self) -> None:
        self.asked: list[tuple[str, bool]] = []

    def before_write(self, what: str, *, destructive: bool, nodes: tuple[str, ...] = ()) -> None:
        self.asked.append((what, destructive))


def test_it_is_announced_as_what_may_hit_running_work_and_its_end_is_not(node: Node) -> None:
    line = Announced()
    soak_gate({**node.params(), "detached": False}, Context(lifeline=line))
    node.jobs.mkdir(mode=0o700)
    soak_gate(node.params(stop=True, hours=2), Context(lifeline=line))
    assert line.asked == [("load the GPUs for 0.0002 hours", True), ("end the soak", False)]


def test_where_nothing_soaks_nothing_is_ended_and_what_soaks_by_another_name_is_named(node: Node) -> None:
    node.jobs.mkdir(mode=0o700)
    told = soak_gate(node.params(stop=True), Context()).data
    assert (told["verdict"], told["findings"][0]["id"]) == ("inconclusive", "no_soak")
    begun = node.start(hours=2)
    found = soak_gate({**node.params(stop=True, hours=2), "job": "soak-of-another-profile"}, Context()).data
    assert found["findings"][0]["id"] == "another_soak" and str(begun["job"]) in found["findings"][0]["text"]
    node.start(hours=2, stop=True)


def test_it_is_asked_for_more_hours_while_it_runs_and_after_it_has_passed_and_never_for_fewer(node: Node) -> None:
    first = node.start(hours=0.001)  # seconds, in which a busy machine asks for more
    assert node.start(hours=0.0012)["joined"]
    assert node.verdict()["verdict"] == "pass" and node.cell("soaked") >= 4.3
    with pytest.raises(ConfigError, match="more hours already"):
        node.start(hours=0.0004)
    more = node.start(hours=0.0018)
    assert not more["joined"] and more["pid"] != first["pid"]
    assert node.verdict()["verdict"] == "pass" and node.cell("soaked") >= 6.5 and node.cell("interruptions") == 0
    assert node.start(hours=0.0018)["joined"], "long enough is long enough"


def test_what_cannot_be_measured_ends_it_and_what_was_soaked_counts(node: Node) -> None:
    node.start(hours=LONG, burn=burning.output(), body=f'[ $(wc -l < "{node.folder}/burns") = 2 ] && exit 7')
    verdict = node.verdict()
    assert verdict["verdict"] == "inconclusive" and "exit status 7" in str(verdict["findings"])
    kept = node.seconds()
    node.start()
    assert node.verdict()["verdict"] == "pass" and node.cell("soaked") > kept > 0.5


def test_hours_in_which_the_load_hangs_or_dies_are_no_soak(node: Node) -> None:
    node.start(body="exec sleep 600", timeout=2, hours=LONG)
    assert node.verdict()["verdict"] == "inconclusive" and node.samples() > 1
    assert node.cell("soaked") == 0.0
    node.start(body="sleep 1; exit 1")
    assert node.verdict()["verdict"] == "inconclusive" and node.cell("soaked") == 0.0
    assert node.cell("interruptions") == 1
    node.start()
    assert node.cell("interruptions") == 2 and node.verdict()["verdict"] == "inconclusive"


def test_a_failure_is_on_the_disk_before_the_load_is_ended_and_stands_after_a_reboot(node: Node) -> None:
    first = node.start(hours=LONG, body="trap '' TERM; sleep 600", interruptions=9)
    until(lambda: node.samples() > 1 and node.burns())
    smi.tool(node.folder, soaked.document({"ecc_errors/volatile/dram_uncorrectable": "7"}))
    until(lambda: (node.store.load() or Progress()).failed)
    assert not (node.jobs / "soak-1.json").exists()
    os.kill(first["pid"], signal.SIGKILL)
    until(node.idle)
    node.reboot()
    node.start(interruptions=9)
    assert node.verdict()["verdict"] == "fail" and len(node.burns()) == 1
    assert "uncorrected errors in DRAM" in str(node.verdict()["findings"])


@pytest.mark.parametrize(("at", "word"), [(300.0, "pass"), (700.0, "fail")])
def test_what_the_kernel_said_since_the_soak_began_counts_and_nothing_before(node: Node, at: float, word: str) -> None:
    """The machine runs for 1000 s, and the soak, which was killed, began 500 s ago."""
    begun = Progress()
    begun.begin("boot-1", time.time() - 500, uptime() - 500)
    node.jobs.mkdir(mode=0o700)
    node.store.save(begun)
    said = "NVRM: Xid (PCI:0000:1b:00): 79, pid=1, GPU has fallen off the bus."
    node.start(log=soaked.QUIET + made.kmsg(said, start=at, seq=2))
    assert node.verdict()["verdict"] == word


def test_no_other_gpu_goes_on_with_the_soak_of_the_one_before(node: Node) -> None:
    first = node.start(hours=LONG, body="sleep 600")
    until(lambda: node.samples() > 1 and node.burns())
    os.kill(first["pid"], signal.SIGKILL)
    until(node.idle)
    [before] = [uuid for at, uuid in enumerate((node.store.load() or Progress()).uuids) if at == 3]
    node.start(look=soaked.document().replace(before, "GPU-ffffffff-0000-0000-0000-000000000003"))
    verdict = node.verdict()
    assert verdict["verdict"] == "inconclusive" and "other GPUs are there" in str(verdict["findings"])
    assert len(node.burns()) == 1, "nothing was loaded for it"


def test_a_limit_from_below_is_of_what_is_under_load(tmp_path: Path) -> None:
    """The first look, and those between two rounds, find the GPUs idle."""
    limit = {"name": "clock", "statistic": "min", "least": 1200, **soaked.ABOUT}
    mark = tmp_path / "loaded"
    # On a busy machine the load takes a moment to begin, and a look comes an interval after it was started. It takes
    # one to end as well: it loads until the process that runs the tool, the parent of its guard, has told its end.
    loaded = f"sed -n 's/^PPid:[^0-9]*//p' /proc/$PPID/status > {mark}"
    how = soaked.params(tmp_path, body=loaded, limits=[limit], interval_seconds=0.5)
    (tmp_path / "idle").write_text(soaked.document({"clocks/sm_clock": "345 MHz"}), encoding="utf-8")
    runs = f'kill -0 "$(cat {mark})" 2>/dev/null'
    idle = f'[ "$*" = "-q -x" ] && ! {runs} && echo seen >> {tmp_path}/seen && cat {tmp_path}/idle && exit 0'
    how["nvidia_smi"] = smi.tool(tmp_path, soaked.document(), body=idle)
    found = soak_gate({**how, "hours": 0.0005}, Context()).data
    assert found["verdict"] == "pass", found["findings"]
    assert {row["measured"] for row in found["checks"] if row["id"] == "clock.min"} == {1755.0}
    assert len((tmp_path / "seen").read_text(encoding="ascii").split()) > 1


def test_another_gate_finds_the_gpus_loaded_between_two_rounds_as_well(node: Node) -> None:
    node.start(hours=LONG)
    until(node.burns)
    beside = soak_gate(
        {**node.params(), "detached": False, "timeout": 5},
        Context(),
    )
    assert beside.data["findings"][0]["id"] == "busy"


FULL = """
import json, sys
from pathlib import Path
from ansible_collections.gpufleet.baremetal.tests.unit.gate.test_soak import Node
folder = Path(sys.argv[1])
node = Node(folder)
node.jobs = folder / "disk" / "jobs"
node.start(hours=0.0005)
try:
    with open(folder / "disk" / "filler", "ab", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)
except OSError:
    pass
print(json.dumps(node.verdict()))
"""


@pytest.mark.needs_root
def test_a_disk_that_is_full_takes_the_pass_and_no_verdict(tmp_path: Path) -> None:
    """The series cannot be kept, and the verdict that was given room from the start says so."""
    disk = tmp_path / "disk"
    disk.mkdir()
    script = f'mount -t tmpfs -o size=600k none {disk} && exec "$@"'
    argv = [
        "unshare",
        "--mount",
        "--map-root-user",
        "sh",
        "-c",
        script,
        "sh",
        sys.executable,
        "-c",
        FULL,
        str(tmp_path),
    ]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(argv, capture_output=True, text=True, timeout=180, check=False, env=env)
    assert done.returncode == 0, done.stderr
    verdict = json.loads(done.stdout)
    assert verdict["verdict"] == "inconclusive" and verdict["remedy"] == "remediate_config"
    assert "the series cannot be written on the node: No space left on device" in str(verdict["findings"])


def test_where_systemd_runs_the_soak_becomes_a_unit_of_its_own(tmp_path: Path) -> None:
    busctl = made.program(tmp_path / "busctl", f'printf "%s\\n" "$@" > {tmp_path}/asked\nexit ${{RC:-0}}')
    assert scope.enter("soak-1", "about", busctl=busctl, runtime=str(tmp_path / "none")) == ""
    assert not (tmp_path / "asked").exists()
    assert (
        scope.enter("soak-1", "about", busctl=busctl, runtime=str(tmp_path)) == f"gpufleet-soak-1-{os.getpid()}.scope"
    )
    asked = (tmp_path / "asked").read_text(encoding="utf-8").split("\n")
    assert asked[asked.index("PIDs") : asked.index("PIDs") + 4] == ["PIDs", "au", "1", str(os.getpid())]
    refuses = made.program(tmp_path / "refuses", "exit 1")
    assert scope.enter("soak-1", "about", busctl=refuses, runtime=str(tmp_path)) == ""
