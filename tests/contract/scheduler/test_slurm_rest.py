# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What slurmrestd does that Slurm's commands do not: its versions, its tokens, and its lies."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    AuthFailed,
    BadAnswer,
    Changed,
    ConfigError,
    Refused,
    Unreachable,
    Unsupported,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import WORK
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.node import scheduler_node
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.place import Place
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.driver import Slurm
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from contract.scheduler import slurm_cluster, slurm_rest
from contract.scheduler.schedulers import SlurmRestSite
from contract.scheduler.verbs import OPTIONS, RUN, TOKEN
from suite import services


@pytest.fixture
@services.real
def rest(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return SlurmRestSite(request, tmp_path)


@pytest.fixture
@services.real
def real(slurm: Any, tmp_path: Path) -> Iterator[dict[str, str]]:
    if not slurm.tokens:
        pytest.skip("needs the Debian packages slurmrestd and slurm-wlm-jwt-plugin")
    server = slurm_rest.Real(slurm)
    options = {
        "scheduler_url": server.url,
        "scheduler_token_path": slurm_rest.token_file(tmp_path, slurm.scontrol("token", "lifespan=600")),
        "scheduler_slurm_user": "root",
    }
    try:
        slurm.wait_for(lambda: _answers(options), "slurmrestd answers")
        yield options
    finally:
        server.close()


def _answers(options: dict[str, str]) -> bool:
    try:
        return bool(Slurm(options).known())
    except Unreachable:
        return False


# -- Debian's own ------------------------------------------------------------------------------------------------


def test_the_real_one_tells_what_the_commands_tell(slurm: Any, real: dict[str, str]) -> None:
    slurm.update("gpu002", "State=DRAIN", "Reason=fan 3: rpm=0")
    job = slurm.job("gpu001")
    names = [*slurm_cluster.NODES, slurm_cluster.DEAD, slurm_cluster.SECLUDED, "gpu999"]
    by_rest = Slurm(real).states(names)
    by_command = Slurm({"scheduler_conf": str(slurm.conf)}).states(names)
    for name in names:
        one, other = by_rest[name], by_command[name]
        assert (one.state, one.native, one.reason, one.set_by) == (
            other.state,
            other.native,
            other.reason,
            other.set_by,
        )
        assert (one.booted, one.answers, one.jobs, one.holds) == (other.booted, other.answers, other.jobs, other.holds)
    assert by_rest["gpu001"].jobs == [job] and by_rest["gpu999"].absent
    assert set(Slurm(real).known()) == set(names) - {"gpu999"}
    assert abs(time.mktime(time.strptime(Slurm(real).clock(), "%Y-%m-%dT%H:%M:%S")) - time.time()) < 60


def test_the_real_one_tells_a_reservation_for_maintenance(slurm: Any, real: dict[str, str]) -> None:
    what = ("Users=root", "Nodes=gpu003", "StartTime=now", "Duration=60", "Flags=MAINT,IGNORE_JOBS")
    slurm.scontrol("create", "reservation", "ReservationName=m1", *what)
    try:
        (held,) = Slurm(real).states(["gpu003"])["gpu003"].holds
        assert (held.text, held.author, held.form) == ("m1", "root", "maintenance reservation")
    finally:
        slurm.scontrol("delete", "ReservationName=m1")


def test_the_real_one_changes_no_node_and_says_what_does(slurm: Any, real: dict[str, str]) -> None:
    driver = Slurm(real)
    (why,) = driver.prerequisites()
    assert isinstance(why, Unsupported) and "v0.0.39" in why.wanted and why.seen == "v0.0.38"
    with pytest.raises(Unsupported):
        driver.hold(driver.states(["gpu001"])["gpu001"], TOKEN, WORK)
    assert slurm.state("gpu001") == "IDLE"


def test_the_real_one_refuses_a_token_of_another_key(slurm: Any, real: dict[str, str], tmp_path: Path) -> None:
    good = slurm_rest.token(slurm)
    bad = good[:-6] + ("AAAAAA" if good[-6:] != "AAAAAA" else "BBBBBB")
    with pytest.raises(Unreachable, match="refused the token"):  # 22.05 says no more than -1
        Slurm({**real, "scheduler_token_path": slurm_rest.token_file(tmp_path / "bad", bad)}).states(["gpu001"])


# -- tokens ------------------------------------------------------------------------------------------------------


def test_a_token_that_has_ended_is_not_sent_and_never_shown(rest: Any, tmp_path: Path) -> None:
    over = slurm_rest.token(rest.slurm, -5)
    options = {**rest.connection, "scheduler_token_path": slurm_rest.token_file(tmp_path / "over", over)}
    rest.faults.forget()
    with pytest.raises(AuthFailed, match="has ended") as caught:
        Slurm(options).states(["gpu001"])
    assert not rest.faults.calls and over not in json.dumps(caught.value.as_result())


def test_a_token_is_read_again_before_it_ends(rest: Any) -> None:
    path = rest.reached["scheduler_token_path"]
    slurm_rest.token_file(Path(path).parent, slurm_rest.token(rest.slurm, 3))
    driver = rest.open()
    assert driver.states(["gpu001"])["gpu001"].in_service
    slurm_rest.token_file(Path(path).parent, slurm_rest.token(rest.slurm))
    time.sleep(3.5)
    assert driver.states(["gpu001"])["gpu001"].in_service


def test_a_token_that_is_refused_is_read_again_once(rest: Any) -> None:
    path, good = rest.reached["scheduler_token_path"], slurm_rest.token(rest.slurm)
    slurm_rest.token_file(Path(path).parent, good[:-6] + "AAAAAA")
    driver = rest.open()
    with pytest.raises(AuthFailed, match="511"):
        driver.states(["gpu001"])
    slurm_rest.token_file(Path(path).parent, good)
    assert driver.states(["gpu001"])["gpu001"].in_service


def test_without_a_token_scontrol_makes_one(rest: Any) -> None:
    if not rest.slurm.tokens:
        pytest.skip("needs the Debian packages slurmrestd and slurm-wlm-jwt-plugin")
    options = {**rest.connection, "scheduler_token_path": "", "scheduler_conf": str(rest.slurm.conf)}
    assert Slurm(options).states(["gpu001"])["gpu001"].in_service


def test_a_token_goes_nowhere_in_clear(rest: Any) -> None:
    with pytest.raises(ConfigError, match="in clear"):
        Slurm({**rest.connection, "scheduler_url": "http://192.0.2.1:6820"})


def test_who_may_not_see_all_is_told_of_no_absence(rest: Any, tmp_path: Path) -> None:
    mine = slurm_rest.token_file(tmp_path / "nobody", slurm_rest.token(rest.slurm, user="nobody"))
    driver = Slurm({**rest.connection, "scheduler_token_path": mine})
    assert driver.states(["gpu001"])["gpu001"].in_service
    with pytest.raises(Refused, match="cannot be told"):
        driver.states(["gpu999"])
    assert [type(one) for one in driver.prerequisites()] == [Refused]


def test_who_slurm_user_is_is_not_guessed_where_it_says_who_sees_all(rest: Any, tmp_path: Path) -> None:
    mine = slurm_rest.token_file(tmp_path / "slurm", slurm_rest.token(rest.slurm, user="slurm"))
    asked = {**rest.connection, "scheduler_token_path": mine}
    with pytest.raises(Refused, match="cannot be told"):
        Slurm({**asked, "scheduler_slurm_user": ""}).states(["gpu999"])
    assert Slurm({**asked, "scheduler_slurm_user": "slurm"}).states(["gpu999"])["gpu999"].absent


# -- versions and lies -------------------------------------------------------------------------------------------


def test_a_version_that_nobody_here_knows_is_no_answer(rest: Any) -> None:
    rest.rest.version = "v0.0.99"
    with pytest.raises(Unsupported) as caught:
        rest.open().states(["gpu001"])
    assert caught.value.seen == "v0.0.99"


def test_the_highest_version_that_both_know_is_spoken(rest: Any) -> None:
    rest.rest.version, rest.rest.also = "v0.0.42", ("v0.0.40", "v0.0.99", "v0.0.9")
    rest.faults.forget()
    assert rest.open().states(["gpu001"])["gpu001"].in_service
    assert {one.what.split("/")[2] for one in rest.faults.reads} == {"v3", "v0.0.42"}


def test_an_unknown_node_is_absent_by_the_whole_table_alone(rest: Any) -> None:
    assert rest.open().states(["gpu999"])["gpu999"].absent
    rest.rest.bent["nodes"] = lambda content: {**content, "errors": [{"error_number": 0, "error": "No error"}]}
    with pytest.raises(BadAnswer):
        rest.open().states(["gpu999"])


@pytest.mark.parametrize(
    "bend",
    [
        pytest.param(lambda node: node.update(state=["IDLE", "FLYING"]), id="a flag that nobody knows"),
        pytest.param(lambda node: node.update(state=["IDLE", "DRAIN", "FLYING"]), id="the same on a drained one"),
    ],
)
def test_a_flag_that_nobody_knows_settles_nothing(rest: Any, bend: Any) -> None:
    _bend_node(rest, bend)
    assert rest.open().states(["gpu001"])["gpu001"].state != "drained"


@pytest.mark.parametrize(
    "bend",
    [
        pytest.param(lambda node: node.update(state=["FLYING"]), id="base"),
        pytest.param(lambda node: node.update(state=[]), id="no state"),
        pytest.param(lambda node: node.update(state=7), id="a number"),
        pytest.param(lambda node: node.update(boot_time={"number": 5}), id="time"),
        pytest.param(lambda node: node.update(reason=["x"]), id="reason"),
        pytest.param(lambda node: node.pop("reason"), id="no reason"),
        pytest.param(lambda node: node.pop("name"), id="no name"),
    ],
)
def test_a_shape_that_nobody_knows_is_no_answer(rest: Any, bend: Any) -> None:
    _bend_node(rest, bend)
    with pytest.raises(BadAnswer):
        rest.open().states(["gpu001"])


def _bend_node(rest: Any, bend: Any) -> None:
    def bent(content: Any) -> Any:
        for node in content["nodes"]:
            bend(node)
        return content

    rest.rest.bent.update(node=bent, nodes=bent)


def test_a_node_that_cannot_be_read_spoils_no_other(rest: Any) -> None:
    def bent(content: Any) -> Any:
        content["nodes"][0]["state"] = ["FLYING"]
        return content

    rest.rest.bent["nodes"] = bent
    views = rest.open().states(["gpu001", "gpu002"])
    assert views["gpu001"].state == "unknown" and views["gpu001"].unread and views["gpu002"].in_service


def test_r5_the_cluster_is_what_the_newest_answer_tells(rest: Any) -> None:
    driver = rest.open()
    known = f"{rest.reached['scheduler_url']} on {socket.gethostname()}"
    assert driver.states(["gpu001"])["gpu001"].place == Place("slurm gpufleet-test", scheduler_at=known)

    def called(name: Any) -> Any:
        return lambda content: {**content, "meta": {"slurm": {"cluster": name}}}

    for name, cluster in (("other", "slurm other"), ("", ""), (None, "")):
        rest.rest.bent.update(node=called(name), nodes=called(name), reservations=called(name), jobs=called(name))
        assert driver.states(["gpu001"])["gpu001"].place == Place(cluster, scheduler_at=known)
    for strange in ("a b", "x" * 129, "slurm\x1b[2J", "a\nb"):
        rest.rest.bent.update(node=called(strange), nodes=called(strange))
        with pytest.raises(BadAnswer, match="a name of its cluster that is none"):
            driver.states(["gpu001"])


def test_a_job_in_a_state_that_nobody_knows_is_work(rest: Any) -> None:
    job = rest.start("gpu001")
    rest.slurm.update("gpu001", "State=DRAIN", "Reason=x")

    def bent(content: Any) -> Any:
        (mine,) = [one for one in content["jobs"] if str(one["job_id"]) == job]
        return {**content, "jobs": [{**mine, "job_state": ["DANCING"]}]}

    rest.rest.bent["jobs"] = bent
    assert rest.open().states(["gpu001"])["gpu001"].jobs == [job]


def test_200_with_errors_is_no_hold(rest: Any) -> None:
    driver = rest.open()
    view = driver.states(["gpu001"])["gpu001"]
    rest.rest.bent["node"] = lambda content: {**content, "errors": [{"error_number": 9000, "error": "odd"}]}
    with pytest.raises((BadAnswer, Refused, Changed)):
        driver.hold(view, TOKEN, WORK)


def test_a_field_that_slurmrestd_leaves_out_is_an_error(rest: Any) -> None:
    driver = rest.open()
    view = driver.states(["gpu001"])["gpu001"]
    warning = {"description": 'Ignoring unknown field "reason"', "source": "#/reason/"}
    rest.rest.bent["node"] = lambda content: {**content, "warnings": [warning]}
    with pytest.raises(BadAnswer, match="left out"):
        driver.hold(view, TOKEN, WORK)


def test_a_hold_is_one_write_of_one_node(rest: Any) -> None:
    driver = rest.open()
    view = driver.states(["gpu001"])["gpu001"]
    rest.faults.forget()
    driver.hold(view, TOKEN, WORK)
    (write,) = rest.faults.writes
    assert write.what == "POST /slurm/v0.0.44/node/gpu001"
    assert json.loads(write.body) == {"state": ["DRAIN"], "reason": TOKEN}
    assert rest.texts("gpu001") == [TOKEN]
    rest.hold("gpu002", "alice's")
    with pytest.raises(Changed):
        driver.hold(replace(view, name="gpu002"), TOKEN, WORK)
    assert rest.texts("gpu002") == ["alice's"]


def test_that_nobody_looked_at_the_topology_is_told(rest: Any) -> None:
    """A node that it lacks would stand idle for good; by the commands it is refused."""
    options = {**OPTIONS, **rest.connection, "scheduler_node": "gpu001", "known_runs": [RUN]}
    scheduler_node({**options, "state": "held"}, Context(node="gpu001"))
    ctx = Context(node="gpu001")
    assert scheduler_node({**options, "state": "resumed", "known_token": TOKEN}, ctx).changed
    assert any("nobody looked" in line and "slurmrestd tells no topology" in line for line in ctx.warnings)
