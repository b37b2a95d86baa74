# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A batch that another machine sends on writes there what the ledger here has given leave for, and for seconds."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible_collections.gpufleet.baremetal.plugins.action import provisioner_wait
from ansible_collections.gpufleet.baremetal.plugins.module_utils._leave import clock
from ansible_collections.gpufleet.baremetal.plugins.module_utils._wait import wait_until
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _slices as slices
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _term as term
from contract.permit.rig import FORK, Controller
from contract.permit.wiper import FOLDER, NAME, wipes

TESTS = Path(__file__).resolve().parents[2]
Make = Callable[..., Controller]


class Elsewhere(provisioner_wait.ActionModule):
    """Its module is a process of its own, as on a jump host; what each was given stays to be looked at.

    ``meanwhile``: called before the slice of that number is sent. ``broken``: does the module fail now? ``held``: files
    that each module keeps open for as long as it lives.
    """

    SPEC: ClassVar[Any] = {**provisioner_wait.ActionModule.SPEC, "provisioner": {"type": "str"}}
    folder: Path
    meanwhile: ClassVar[dict[int, Callable[[], None]]] = {}
    broken: ClassVar[Callable[[], bool]]
    held: ClassVar[tuple[int, ...]] = ()

    def _goes_elsewhere(self) -> bool:
        return True

    def _execute_module(self, *_args: Any, **options: Any) -> dict[str, Any]:
        given = self.folder / f"slice-{len(list(self.folder.glob('slice-*')))}.json"
        args = {key: value for key, value in options["module_args"].items() if value is not None}
        (self.folder / "next").write_text(json.dumps(args), encoding="utf-8")
        (self.folder / "next").rename(given)  # whole, whenever this is killed
        self.meanwhile.get(int(given.stem[6:]), lambda: None)()
        if type(self).broken():
            return {"failed": True, "msg": "no Python there", "error": {"kind": "config"}}
        return shipped(self.folder, args, self.held)


def shipped(folder: Path, args: dict[str, Any], held: tuple[int, ...] = ()) -> dict[str, Any]:
    """What the module over there says."""
    env = {**os.environ, "PYTHONPATH": f"{TESTS}:{os.environ['PYTHONPATH']}", FOLDER: str(folder)}
    done = subprocess.run(
        [sys.executable, "-m", "contract.permit.wiper"],
        input=json.dumps({"ANSIBLE_MODULE_ARGS": {**args, "_ansible_no_log": False}}),
        env={**env, "_ANSIBLE_PROFILE": "legacy"}, capture_output=True, text=True, timeout=300, check=False,
        start_new_session=True, pass_fds=held,
    )  # fmt: skip
    assert done.stdout, done.stderr
    return dict(json.loads(done.stdout))


@pytest.fixture
def fleet(controller: Make, tmp_path: Path) -> Callable[..., Controller]:
    """Hosts that are held and drained, each of which is to be wiped so many times."""

    def make(*hosts: str, count: int = 2) -> Controller:
        site = controller(*hosts)
        Elsewhere.folder, Elsewhere.meanwhile, Elsewhere.broken = tmp_path / "there", {}, bool
        Elsewhere.folder.mkdir()
        (Elsewhere.folder / "wipes").write_text(str(count), encoding="ascii")
        for own in site.hosts.values():
            own["gpufleet_provisioner"] = NAME
        return site

    return make


def wait(site: Controller, **more: Any) -> dict[str, Any]:
    options = {"until": "ready", "timeout": 300.0, "interval": 0.05, **more}
    return site.run("provisioner_wait", action=Elsewhere, **options)


def sent() -> list[dict[str, Any]]:
    """The slices, in their order."""
    files = sorted(Elsewhere.folder.glob("slice-*"), key=lambda path: int(path.stem[6:]))
    return [json.loads(path.read_text(encoding="utf-8")) for path in files]


def wiped(*hosts: str) -> list[int]:
    return [len(wipes(Elsewhere.folder, host)) for host in hosts]


def test_j3_only_what_is_drained_is_wiped_from_there_and_all_of_it_on_one_question(
    fleet: Callable[..., Controller],
) -> None:
    """A machine in service is refused alone; what proves the others is too old, and asked for once for both."""
    site = fleet("gpu001", "gpu002", "gpu003")
    for host in ("gpu001", "gpu003"):
        site.hold(host)
    site.later(600)
    looks = len(site.asked("scontrol", "--all"))
    done = wait(site)
    told = {host: (one["ok"], one["kind"]) for host, one in done["verdicts"].items()}
    assert told == {"gpu001": (True, ""), "gpu002": (False, "evidence_missing"), "gpu003": (True, "")}, done
    assert wiped("gpu001", "gpu002", "gpu003") == [2, 0, 2] and done["steps"] == {
        "gpu001": ["wipe"] * 2,
        "gpu003": ["wipe"] * 2,
    }
    assert done["changed"] and done["evidence"].startswith("event:") and done["summary"] == "2/3 ready, 1 not"
    asked = [call for call in site.asked("scontrol", "--all")[looks:] if "node" in call]
    assert len(asked) == 1, asked
    assert sent()[0]["slice"].keys() == {"sent", "ordered", "elapsed", "timeout", "last"}, (
        "nothing may be written at first"
    )
    assert site.events("intent", "gpu001")[-1] == "provisioner_wait" and "gpu002" not in site.events("intent", "gpu002")


def test_j3_where_all_of_a_slice_are_refused_each_has_its_own_reason(fleet: Callable[..., Controller]) -> None:
    """One serves, one runs a job, one is another run's by now; nobody is left, and the wait is over."""
    site = fleet("gpu001", "gpu002", "gpu003")
    site.hold("gpu002")
    site.hold("gpu003")
    site.later(600)
    site.jobs([{"id": "4711", "node": "gpu002"}])
    Elsewhere.meanwhile = {0: lambda: site.taken("gpu003")}
    done = wait(site)
    assert not done.get("failed") and not done["changed"] and done["steps"] == {}, done
    kinds = {host: one["kind"] for host, one in done["verdicts"].items()}
    assert kinds == {"gpu001": "evidence_missing", "gpu002": "evidence_missing", "gpu003": "not_ours"}, done
    reasons = {host: one["reason"] for host, one in done["verdicts"].items()}
    assert "no such event" in reasons["gpu001"] and "jobs 4711" in reasons["gpu002"], reasons
    assert "another run works on it" in reasons["gpu003"], reasons
    assert all(reason.startswith(host) for host, reason in reasons.items()) and done["summary"] == "0/3 ready, 3 not"
    assert wiped(*site.hosts) == [0, 0, 0] and len(sent()) == 1


def silent_scheduler(site: Controller, *hosts: str) -> Path:
    """That of these hosts is one of its own, and answers nobody for as long as this file is there."""
    conf = site.folder / "other.conf"
    for name in (conf, conf.with_suffix(".silent")):
        name.write_text("", encoding="ascii")
    for host in hosts:
        site.hosts[host]["gpufleet_scheduler_conf"] = str(conf)
    script = site.folder / "bin" / "scontrol"
    told = "slurm_load_node error: Unable to contact slurm controller (connect failure)"
    silent = (
        f'if [ "$SLURM_CONF" = {conf} ] && [ -e {conf.with_suffix(".silent")} ]; then echo "{told}" >&2; exit 1; fi'
    )
    script.write_text(script.read_text(encoding="utf-8").replace("exec", f"{silent}\nexec", 1), encoding="utf-8")
    return conf.with_suffix(".silent")


def test_j3_hosts_whose_scheduler_is_silent_keep_no_others_waiting(fleet: Callable[..., Controller]) -> None:
    site = fleet("gpu001", "gpu002", count=1)
    for host in site.hosts:
        site.hold(host)
    site.later(600)
    silent = silent_scheduler(site, "gpu001")
    Elsewhere.meanwhile = dict.fromkeys(range(1000), lambda: wiped("gpu002")[0] and silent.unlink(missing_ok=True))
    done = wait(site)["verdicts"]
    assert all(one["ok"] for one in done.values()) and wiped("gpu001", "gpu002") == [1, 1], done


def test_j3_where_all_of_a_slice_have_no_leave_to_the_end_it_is_told_why(fleet: Callable[..., Controller]) -> None:
    site = fleet("gpu001", "gpu002")
    for host in site.hosts:
        site.hold(host)
    site.later(600)
    silent_scheduler(site, *site.hosts)
    done = wait(site, timeout=0.1)["verdicts"]
    assert {one["kind"] for one in done.values()} == {"unreachable"} and wiped(*site.hosts) == [0, 0], done
    assert all("contact slurm controller" in one["reason"] and "0.1 s" in one["reason"] for one in done.values()), done


def test_j3_a_proof_that_is_too_old_before_a_slice_ends_is_renewed_before_it_begins(
    fleet: Callable[..., Controller],
) -> None:
    """Somebody has given one of them back meanwhile, and its leave would have outlived what it rests on."""
    site = fleet("gpu001", "gpu002", count=1)
    for host in site.hosts:
        site.hold(host)
    site.later(45)
    site.node("gpu001", state="IDLE", reason="", by="")
    done = wait(site)["verdicts"]
    assert {host: (one["ok"], one["kind"]) for host, one in done.items()} == {
        "gpu001": (False, "evidence_missing"), "gpu002": (True, ""),
    }, done  # fmt: skip
    assert wiped("gpu001", "gpu002") == [0, 1]


def test_j3_a_proof_that_is_taken_back_between_two_slices_ends_the_wipes(
    fleet: Callable[..., Controller], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slices, "SLICE_SECONDS", 3.0)
    site = fleet("gpu001", count=10_000)
    site.hold()
    told: list[int] = []

    def resumed() -> None:
        """Once something was wiped, however slow this machine is."""
        if not told and wiped("gpu001")[0]:
            told.append(len(sent()))
            site.tells("gpu001", "evidence", "in_service")
            (Elsewhere.folder / "told").write_text(str(told[0]), encoding="ascii")

    Elsewhere.meanwhile = dict.fromkeys(range(1000), resumed)
    done = wait(site)["verdicts"]["gpu001"]
    assert (done["ok"], done["kind"]) == (False, "evidence_missing") and "in_service" in done["reason"], done
    assert len(sent()) - int((Elsewhere.folder / "told").read_text(encoding="ascii")) <= 2


def test_j3_a_lease_that_is_lost_between_two_slices_closes_that_host_alone(fleet: Callable[..., Controller]) -> None:
    site = fleet("gpu001", "gpu002", count=1)
    site.hold("gpu001")
    site.hold("gpu002")
    Elsewhere.meanwhile = {0: lambda: site.taken("gpu001")}
    site.later(20)
    done = wait(site)["verdicts"]
    assert {host: (one["ok"], one["kind"]) for host, one in done.items()} == {
        "gpu001": (False, "not_ours"), "gpu002": (True, ""),
    }, done  # fmt: skip
    assert wiped("gpu001", "gpu002") == [0, 1]


def test_j3_a_jump_host_that_is_away_for_a_moment_ends_no_wait(fleet: Callable[..., Controller]) -> None:
    site = fleet("gpu001", count=1)
    site.hold()

    def away() -> None:
        raise AnsibleConnectionFailure("no route to host")

    Elsewhere.meanwhile = {1: away}
    assert wait(site)["verdicts"]["gpu001"]["ok"] and wiped("gpu001") == [1]


@pytest.mark.parametrize("fails", [False, True])
def test_j7_what_was_refused_in_one_slice_is_told_whatever_the_others_say(
    fleet: Callable[..., Controller], monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    """The other host is wiped twice, once a slice; or the way there ends."""
    monkeypatch.setattr(slices, "SLICE_SECONDS", 2.0)
    site = fleet("gpu001", "gpu002", count=100 if fails else 2)
    for host in site.hosts:
        site.hold(host)
    (Elsewhere.folder / "refuses-gpu001").touch()
    Elsewhere.broken = lambda: fails and wiped("gpu002") != [0]
    done = wait(site, interval=60)
    assert bool(done.get("failed")) is fails, done
    assert fails or {host: one["kind"] for host, one in done["verdicts"].items()} == {"gpu001": "refused", "gpu002": ""}
    assert wiped("gpu001") == [0] and wiped("gpu002") != [0]
    [told] = [json.loads(one) for one in site.data("outcome") if '"refused"' in one]
    assert told["kind"] == "refused" and "by nobody" in told["error"]


def test_j3_what_is_left_of_a_killed_run_writes_nothing_past_its_slice(
    fleet: Callable[..., Controller], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would wipe the node for ever."""
    monkeypatch.setattr(slices, "SLICE_SECONDS", 3.0)
    site = fleet("gpu001", count=10_000)
    all_over, held = os.pipe()
    monkeypatch.setattr(Elsewhere, "held", (held,))
    run = FORK.Process(target=lambda: (site.hold(), wait(site)))  # the controller, whose worker is its child
    run.start()
    os.close(held)
    wait_until(lambda: len({pid for pid, _at in wipes(Elsewhere.folder, "gpu001")}), lambda found: found > 1,
               timeout=180.0, interval=0.02, wanted="a second slice that writes")  # fmt: skip
    worker = int(subprocess.check_output(["ps", "--ppid", str(run.pid), "-o", "pid="], text=True).split()[0])
    for pid in (run.pid, worker):
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
    run.join(30)
    assert select.select([all_over], [], [], 180.0)[0], "what is left, with or without a wipe, has not ended"
    os.close(all_over)
    until, last = float(sent()[-1]["slice"]["until"]), max(at for _pid, at in wipes(Elsewhere.folder, "gpu001"))
    assert last < until
    wait_until(lambda: clock()["uptime"], lambda now: now > until,
               timeout=180.0, interval=0.05, wanted="the end of its leave")  # fmt: skip
    before = wiped("gpu001")
    late = shipped(Elsewhere.folder, sent()[-1])  # as a module that was held up on its way
    assert late["slice"]["due"] == {"gpu001": True} and wiped("gpu001") == before


def test_j3_a_slow_way_is_given_longer_leave(fleet: Callable[..., Controller], monkeypatch: pytest.MonkeyPatch) -> None:
    """No module has begun to work within so short a leave."""
    monkeypatch.setattr(slices, "SLICE_SECONDS", 0.02)
    site = fleet("gpu001", count=1)
    site.hold()
    assert wait(site)["verdicts"]["gpu001"]["ok"] and wiped("gpu001") == [1]


def test_j3_a_way_that_takes_longer_than_leave_may_last_is_told(
    fleet: Callable[..., Controller], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slices, "SLICE_SECONDS", 0.02)
    monkeypatch.setattr(term, "MOST_SECONDS", 0.04)
    site = fleet("gpu001", count=1)
    site.hold()
    done = wait(site)["verdicts"]["gpu001"]
    assert (done["ok"], done["kind"]) == (False, "unreachable") and "the way there takes" in done["reason"], done
    assert wiped("gpu001") == [0] and len(sent()) <= 4


def test_j3_leave_of_another_boot_is_none(fleet: Callable[..., Controller]) -> None:
    fleet("gpu001")
    node = {"host": "gpu001", "serial": "S-gpu001"}
    given = {"boot": clock()["boot"], "until": clock()["uptime"] + 60, "writes": ["gpu001"], "destroys": ["gpu001"]}
    args = {"provisioner": NAME, "until": "ready", "timeout": 5.0, "interval": 0.05, "nodes": [node]}
    assert shipped(Elsewhere.folder, {**args, "slice": {**given, "boot": "another"}})["slice"]["due"]
    assert shipped(Elsewhere.folder, {**args, "slice": {**given, "destroys": []}})["slice"]["due"]
    assert wiped("gpu001") == [0]
    assert shipped(Elsewhere.folder, {**args, "slice": given})["verdicts"]["gpu001"]["ok"] and wiped("gpu001") == [2]
