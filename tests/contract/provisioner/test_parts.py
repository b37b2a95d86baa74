# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What another machine sends a provisioner goes there under leave of the controller, which ends, and orders once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import calls
import pytest
import there
from ansible.errors import AnsibleConnectionFailure
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import DeadlineExceeded
from ansible_collections.gpufleet.baremetal.plugins.module_utils._image import declaration
from ansible_collections.gpufleet.baremetal.plugins.module_utils._leave import LeaveOfAll, clock
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.holder import this_run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._proc import process_start
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Event
from ansible_collections.gpufleet.baremetal.plugins.module_utils._wait import wait_until
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _shipping as shipping
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _term as term
from contract.permit.rig import FORK, Controller
from contract.proxy import LOSE
from suite.skips import not_applicable
from there import There, parts

#: A node whose agent has never registered.
UNUSED = {"state": "DOWN", "reason": "Not responding", "by": "slurm", "booted": "None"}
NOTE = {"gpufleet-rack": "r12"}


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """A controller over one node of a provisioner, which its scheduler knows and has drained under our hold."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    monkeypatch.setattr(shipping, "LEAST_SECONDS", 2.0)
    there.machine()
    There.folder = tmp_path / "there"
    There.folder.mkdir()

    def make(site: Any, options: dict[str, Any], held: bool = True) -> Fleet:
        fleet = Fleet(tmp_path, site, options)
        site.faults.forget()
        if held:
            fleet.hold(fleet.node_name)
        return fleet

    return make


class Fleet(Controller):
    """One host, ``node``, of a provisioner that other tests use as well."""

    def __init__(self, folder: Path, site: Any, options: dict[str, Any]) -> None:
        self.node_name = str(options["name"])
        bmcs: dict[str, Any] = {self.node_name: SimpleNamespace(url="https://127.0.0.9")}
        super().__init__(folder, bmcs, known=False)
        kept = {f"gpufleet_{key}": value for key, value in options.items() if key not in ("name", "driver")}
        self.hosts[self.node_name].update(kept)
        self.site, self.driver = site, options["driver"]
        self.node(self.node_name, **UNUSED)

    def leads(self, state: str, action: Any = There, **more: Any) -> dict[str, Any]:
        return self.run("provisioner_node", self.node_name, action=action, state=state, driver=self.driver, **more)

    def verified(self) -> dict[str, Any]:
        """This run's word for an image, which is returned."""
        image: dict[str, Any] = self.site.image()
        with self._node_of(self.node_name) as (ledger, node):
            told = {"verdict": "pass", "image": {"declared": declaration(image)}}
            ledger.append(this_run(os.getpid()).run_id, [(node, Event("verdict", "image_artifact", told))])
        return image

    def outlasts(self) -> None:
        """From now on each write lasts as long as the leave that it was sent under."""
        self.site.faults.slow(There.folder / "until")


def changes(fleet: Fleet) -> list[str]:
    return [call.what for call in fleet.site.faults.writes]


def marked(site: Any) -> dict[str, str]:
    return NOTE if site.driver.annotates else {}


# -- a slow provisioner ------------------------------------------------------------------------------------------------


def test_j3_a_verb_whose_leave_ends_goes_on_under_new_leave(site: Any, made: Callable[..., Fleet]) -> None:
    fleet = made(site, site.new())
    fleet.outlasts()
    done = fleet.leads("ready")
    wrote = changes(fleet)
    assert not done.get("failed") and done["changed"] and len(wrote) == len(set(wrote)) == len(done["asked"]), done
    assert len(parts(There.folder)) > len(wrote) and parts(There.folder)[0]["args"]["leave"] == {}
    assert fleet.events("intent", fleet.node_name)[-1] == "provisioner_node"
    [outcome] = [json.loads(one) for one in fleet.data("outcome", fleet.node_name) if "leave" not in one][-1:]
    assert outcome["asked"] == done["asked"], outcome
    assert calls.lead(fleet_options(fleet), "enrolled")["changed"] is False


def fleet_options(fleet: Fleet) -> dict[str, Any]:
    own = fleet.hosts[fleet.node_name]
    keys = ("boot_mac", "serial", "bmc_protocol", "bmc_address", "bmc_username", "bmc_password")
    told = {key: own[f"gpufleet_{key}"] for key in keys}
    return {**fleet.site.connection(), **told, "name": fleet.node_name, "driver": fleet.driver}


def test_j3_what_was_ordered_in_one_part_is_ordered_by_no_other(site: Any, made: Callable[..., Fleet]) -> None:
    """Even where it was asked for whatever stands there, and is over by the time that the next part looks. And what an
    earlier part has ordered is no stranger's deployment."""
    fleet = made(site, calls.ready(site))
    fleet.outlasts()
    own = {"deploy_id": "d-1"} if site.name == "ironic" else {}
    done = fleet.leads("deployed", image=fleet.verified(), redeploy=True, annotations=marked(site), **own)
    assert not done.get("failed") and done["step"] and done["changed"], done
    assert site.deployments() == 1 and done["deploy_id"] == own.get("deploy_id", ""), changes(fleet)
    assert len(parts(There.folder)) > 1 + bool(marked(site))
    assert {one["args"].get("deploy_id") for one in parts(There.folder)} == {own.get("deploy_id")}


def test_j3_a_maintenance_that_took_several_parts_is_told_once(maas_site: Any, made: Callable[..., Fleet]) -> None:
    with maas_site.in_good_health() as site:
        options = calls.deployed(site)
        fleet = made(site, options)
        fleet.tells(fleet.node_name, "state", "admitted")
        fleet.outlasts()
        held = fleet.leads("maintenance", why="reseat")
        assert held["maintenance"] and len(changes(fleet)) == 2 and len(parts(There.folder)) > 2, held
        assert fleet.events("maintenance", fleet.node_name) == ["held"]
        assert "evidence" not in held, "nothing of it could hit running work"


# -- what is left of a killed run --------------------------------------------------------------------------------------


def test_j3_what_is_left_of_a_killed_run_writes_nothing_past_its_leave(site: Any, made: Callable[..., Fleet]) -> None:
    """Its first write is under way."""
    two = site.driver.annotates and not site.driver.inspects  # whose way to ready is one write
    fleet = made(site, calls.ready(site) if two else site.new(), held=False)
    fleet.outlasts()

    def leads() -> None:
        fleet.hold(fleet.node_name)
        more = {"image": fleet.verified(), "annotations": NOTE} if two else {}
        fleet.leads("deployed" if two else "ready", **more)

    run = FORK.Process(target=leads)
    run.start()
    wait_until(lambda: changes(fleet), bool, timeout=60.0, interval=0.01, wanted="a write")
    worker = int(subprocess.check_output(["ps", "--ppid", str(run.pid), "-o", "pid="], text=True).split()[0])
    for pid in (run.pid, worker):
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
    run.join(30)
    orphans = [one["pid"] for one in parts(There.folder)]
    wait_until(lambda: any(map(process_start, orphans)), lambda lives: not lives,
               timeout=60.0, interval=0.05, wanted="the end of what is left")  # fmt: skip
    assert len(changes(fleet)) == 1
    late = there.sent(parts(There.folder)[-1]["args"])  # as a module that was held up on its way
    assert late["error"]["kind"] in ("permit_due", "not_adopted") and len(changes(fleet)) == 1, late


LOCKED: dict[str, Any] = {
    "ironic": (409, {}, b'{"error_message": "Node 1 is locked by host h1, please retry"}'),
    "maas": (409, {"Retry-After": "1"}, b"conflict"),
}


def test_j3_a_node_that_its_service_locks_for_a_moment_is_asked_for_again_under_new_leave(
    shipped: Any, made: Callable[..., Fleet]
) -> None:
    """Each time that it is asked is a write, which an orphan must not send."""
    if shipped.name not in LOCKED:
        not_applicable("it locks no node")
    fleet = made(shipped, shipped.new())
    last = [0]

    def locked(asked: Any) -> Any:
        """Until another part asks than the first one that did."""
        if not asked.is_write:
            return None
        last[0] = last[0] or len(parts(There.folder))
        return LOCKED[shipped.name] if len(parts(There.folder)) == last[0] else None

    shipped.proxy.fault = locked
    done = fleet.leads("enrolled")
    assert not done.get("failed") and done["asked"][0] == done["asked"][1], done


def test_j3_a_write_that_is_not_taken_has_its_time_once_whatever_the_parts() -> None:
    now = clock()
    given = {"boot": now["boot"], "until": now["uptime"] + 60, "tried": {"what": "POST x", "at": now["uptime"] - 50}}
    line = LeaveOfAll(given)
    sent: list[str] = []
    for what, once in (("POST x", True), ("POST y", False)):
        sent.clear()
        with pytest.raises(DeadlineExceeded):
            Context(lifeline=line).written(
                what, lambda: sent.append("x"), bool, timeout=0.05, interval=0.05, wanted="taken"
            )
        assert (len(sent) == 1) is once
    assert line.told([])["leave"]["tried"] is None


class Again(There):
    """Each part makes the same write and comes back, as over a peer that needs longer for it than leave lasts."""

    def _execute_module(self, *_args: Any, **_options: Any) -> dict[str, Any]:
        leave = {"clock": clock(), "hits": True}
        return {"failed": True, "msg": "due", "error": {"kind": "permit_due"}, "leave": leave, "asked": ["POST build"]}


def test_j3_parts_that_make_the_same_write_again_and_again_come_to_an_end(
    maas_site: Any, made: Callable[..., Fleet]
) -> None:
    with maas_site.in_good_health() as site:
        fleet = made(site, calls.ready(site))
        done = fleet.leads("deployed", Again, image=fleet.verified())
        assert done["failed"] and "writes nothing new" in done["msg"] and done["asked"], done


# -- an answer that does not come --------------------------------------------------------------------------------------


def ordering(asked: Any) -> bool:
    told = asked.path + asked.query + asked.body.decode()
    of_warewulf = "gpufleet-rests" in told and "ordered" in told  # its last write of several
    return asked.is_write and ("op=deploy" in told or '"target": "active"' in told or of_warewulf)


def test_j3_an_order_whose_answer_is_lost_is_not_given_again(shipped: Any, made: Callable[..., Fleet]) -> None:
    fleet = made(shipped, calls.ready(shipped))
    shipped.proxy.fault = lambda asked: LOSE if ordering(asked) else None
    done = fleet.leads("deployed", image=fleet.verified(), redeploy=True, annotations=NOTE)
    assert done["failed"] and done["error"]["kind"] == "unreachable" and done["changed"], done
    assert shipped.deployments() == 1


class Gone(There):
    """The way there ends once the order is given."""

    when: ClassVar[Callable[[], bool]]

    def _execute_module(self, *args: Any, **options: Any) -> dict[str, Any]:
        if type(self).when():
            raise AnsibleConnectionFailure("no route to host")
        return super()._execute_module(*args, **options)


def test_j7_an_order_that_was_given_before_the_way_there_ended_is_a_note_of_ours(
    imagectl_site: Any, made: Callable[..., Fleet]
) -> None:
    with imagectl_site.in_good_health() as site:
        fleet = made(site, calls.ready(site))
        fleet.outlasts()
        Gone.when = lambda: bool(site.deployments())
        done = fleet.leads("deployed", Gone, image=fleet.verified(), annotations=NOTE)
        assert done["failed"] and done["error"]["kind"] == "unreachable" and "no route" in done["msg"], done
        site.faults.forget()
        assert fleet.leads("released", there.action.ActionModule)["changed"]


# -- whose leave it is -------------------------------------------------------------------------------------------------


def test_j3_no_task_gives_itself_leave_and_check_mode_needs_none(maas_site: Any, made: Callable[..., Fleet]) -> None:
    with maas_site.in_good_health() as site:
        fleet = made(site, site.new())
        own = {"boot": clock()["boot"], "until": clock()["uptime"] + 600, "destroys": True}
        refused = fleet.leads("ready", leave=own)
        assert refused["error"]["kind"] == "config" and "leave" in refused["msg"] and changes(fleet) == []
        args = {**fleet_options(fleet), "state": "ready"}
        assert there.sent({**args, "_ansible_check_mode": True})["changed"] and changes(fleet) == []
        for given in ({}, {**own, "boot": "another"}, {**own, "until": 1.0}):
            assert there.sent({**args, "leave": given})["error"]["kind"] == "permit_due" and changes(fleet) == []
        soft = there.sent({**args, "leave": {**own, "destroys": False}})
        assert soft["error"]["kind"] == "permit_due" and soft["leave"]["hits"], soft
        assert not any("commission" in one for one in changes(fleet)) and len(changes(fleet)) == len(soft["asked"])


class Turncoat(There):
    """It names another boot each time, as several machines behind one name do."""

    def _execute_module(self, *_args: Any, **_options: Any) -> dict[str, Any]:
        told = {"clock": {"boot": os.urandom(4).hex(), "uptime": 1.0}, "late": None, "since": None, "hits": False}
        return {"failed": True, "msg": "due", "error": {"kind": "permit_due"}, "leave": told, "asked": []}


def test_j3_what_comes_back_for_leave_again_and_again_is_ended(maas_site: Any, made: Callable[..., Fleet]) -> None:
    with maas_site.in_good_health() as site:
        done = made(site, site.new()).leads("ready", Turncoat)
        assert done["error"]["kind"] == "unreachable" and "again and again" in done["msg"], done


def test_j3_a_way_that_takes_longer_than_leave_may_last_is_told(
    maas_site: Any, made: Callable[..., Fleet], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipping, "LEAST_SECONDS", 0.02)
    monkeypatch.setattr(term, "MOST_SECONDS", 0.04)
    with maas_site.in_good_health() as site:
        fleet = made(site, site.new())
        done = fleet.leads("enrolled")
        assert done["error"]["kind"] == "unreachable" and "the way there takes" in done["msg"], done
        assert changes(fleet) == [] and not done["changed"]
