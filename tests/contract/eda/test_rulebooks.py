# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The shipped rulebooks in a real ansible-rulebook: what is launched at the controller, and what is not.

One process has all three, as its start is most of what they cost. The trigger is one of a real slurmctld.
"""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from awx_server.server import AwxServer
from contract.eda.alertmanager import Alertmanager
from contract.eda.alertmanager import missing as no_alertmanager
from contract.eda.rulebook import DCGM_TOKEN, TOKEN, Rulebook, controller, missing, rulesets, schema, until
from contract.scheduler.slurm_cluster import Cluster
from contract.scheduler.slurm_cluster import missing as no_slurm
from suite import services

ROOT = Path(__file__).resolve().parents[3]
SENDER = ROOT / "extensions" / "eda" / "senders" / "gpufleet_tell.py"
#: Slurm has the first five; no two monitors speak of one node, of which the second would launch nothing.
HOSTS = [f"gpu{number:03}" for number in range(1, 17)]
OURS, THEIRS = {"cluster": "ulm"}, {"cluster": "bonn"}
RECYCLE, LOOK = "gpufleet day 2 of named nodes", "gpufleet look at named nodes"

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(missing()), reason=missing())]


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ledger]:
    with Ledger(f"sqlite:///{tmp_path_factory.mktemp('ledger')}/ledger.sqlite") as opened:
        ids = [opened.identify(host, aliases=[("serial", f"SN-{host}")]) for host in HOSTS]
        opened.append("setup", [(node, Event("state", "admitted", {})) for node in ids])
        yield opened


@pytest.fixture(scope="module")
def awx() -> Iterator[AwxServer]:
    server = controller()
    yield server
    server.close()


@pytest.fixture(scope="module")
@services.real
def rulebook(tmp_path_factory: pytest.TempPathFactory, ledger: Ledger, awx: AwxServer) -> Iterator[Rulebook]:
    running = Rulebook(tmp_path_factory.mktemp("eda"), awx, ledger.url, gpufleet_most="4", gpufleet_labels=OURS)
    try:
        running.await_open()
        yield running
    finally:
        running.close()


def launched(awx: AwxServer) -> list[tuple[str, str]]:
    return [(job["name"], job["limit"]) for job in awx.jobs.launched]


def firing(
    node: str, cause: str = "GpuXid", severity: str = "critical", whose: Mapping[str, str] = OURS
) -> Mapping[str, Any]:
    labels = {"alertname": cause, "severity": severity, "Hostname": node, **whose}
    return {"status": "firing", "labels": labels, "annotations": {"summary": "{{ lookup('pipe', 'id') }}"}}


def test_each_rulebook_is_one_by_the_schema_of_the_tool() -> None:
    for told in rulesets().values():
        jsonschema.validate(told, schema())


def test_a_node_and_a_cause_launch_one_job_however_often_they_are_said(rulebook: Rulebook, awx: AwxServer) -> None:
    before = len(awx.jobs.launched)
    message = {"alerts": [firing("gpu011"), firing("gpu011"), firing("gpu012", "GpuHot", "warning"), firing("head")]}
    code, told = rulebook.tell("alertmanager", message)
    assert code == 200 and [bool(one["refused"]) for one in told["answers"]] == [False, True, False, True]
    assert rulebook.tell("alertmanager", message)[0] == 200
    until(lambda: len(awx.jobs.launched) >= before + 2, lambda: rulebook.told)
    # A job of hours keeps no other node waiting, and neither has ended.
    assert sorted(launched(awx)[before:]) == [(RECYCLE, "gpu011"), (LOOK, "gpu012")]
    assert not any(job["extra_vars"] for job in awx.jobs.launched), "a stranger's words go into no job"


def test_what_another_fleet_calls_alike_launches_nothing(rulebook: Rulebook, ledger: Ledger) -> None:
    before = len(ledger.of_all("alert"))
    code, told = rulebook.tell("alertmanager", {"alerts": [firing("gpu006", whose=THEIRS), firing("gpu006", whose={})]})
    assert code == 200 and all("it is of another fleet" in one["refused"] for one in told["answers"]), told
    assert len(ledger.of_all("alert")) == before


def test_a_health_event_of_nvsentinel_is_one(rulebook: Rulebook, awx: AwxServer) -> None:
    health = {"nodeName": "gpu013", "checkName": "SysLogsXIDError", "errorCode": ["79"], "isFatal": True}
    event = {"type": "com.nvidia.nvsentinel.health.v1", "data": {"healthEvent": health}}
    before = len(awx.jobs.launched)
    assert rulebook.tell("nvsentinel", event)[0] == rulebook.tell("nvsentinel", event)[0] == 200
    until(lambda: len(awx.jobs.launched) > before, lambda: rulebook.told)
    assert launched(awx)[before:] == [(RECYCLE, "gpu013")]


@pytest.mark.skipif(bool(no_alertmanager()), reason=no_alertmanager())
def test_a_real_alertmanager_with_the_receiver_of_the_page_launches_once(
    rulebook: Rulebook, awx: AwxServer, tmp_path: Path
) -> None:
    before = len(awx.jobs.launched)
    with Alertmanager(tmp_path, rulebook) as running:
        for node, cluster in (("gpu016", "ulm"), ("gpu016", "ulm"), ("gpu009", "bonn")):
            running.fires(alertname="GpuXid", severity="critical", Hostname=node, cluster=cluster)
        until(lambda: len(awx.jobs.launched) > before, lambda: rulebook.told + running.told)
        # What it has told it has told of with our answer, or it would come again.
        until(lambda: running.sent() >= 1, lambda: running.told)
        assert running.failed() == 0, running.told
    assert launched(awx)[before:] == [(RECYCLE, "gpu016")]


def tell(
    rulebook: Rulebook, folder: Path, *words: str, stdin: str = "", **more: str
) -> subprocess.CompletedProcess[str]:
    config = folder / "tell.conf"
    config.write_text(
        f"# of this cluster\nURL={rulebook.url('slurm')}\nTOKEN_PATH={rulebook.token}\nCA_PATH={rulebook.ca}\n",
        encoding="utf-8",
    )
    env = {**os.environ, "GPUFLEET_TELL_CONFIG": str(config), **more}
    return subprocess.run(
        [sys.executable, str(SENDER), *words],
        input=stdin,
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_watches_of_dcgm_are_sent_by_the_node(rulebook: Rulebook, tmp_path: Path) -> None:
    body = '{"body": {"Overall Health": {"value": "Healthy"}}}'
    url = rulebook.url("dcgm")
    to = {"GPUFLEET_TELL_URL": url, "GPUFLEET_TELL_TOKEN_PATH": str(rulebook.dcgm_token)}
    done = tell(rulebook, tmp_path, "dcgm", stdin=body, **to)
    assert done.returncode == 0 and '"answers": []' in done.stdout, done.stderr
    assert tell(rulebook, tmp_path, "dcgm", stdin="{}", **to).returncode != 0
    unset = tell(rulebook, tmp_path, "dcgm", stdin="Error: no watches are set\n", **to)
    assert unset.returncode != 0 and "is a watch set" in unset.stderr and "Traceback" not in unset.stderr


#: A machine of another name, as far as whoever runs in it can see.
NAMED = "import os, socket, sys; socket.sethostname(sys.argv[1]); os.execv(sys.argv[2], sys.argv[2:])"


@pytest.mark.needs_root
@pytest.mark.parametrize(
    ("node", "overall", "wanted"), [("gpu014", "Failure", RECYCLE), ("gpu015", "Warning", LOOK)], ids=["bad", "warns"]
)
def test_a_node_whose_watches_tell_of_something_launches_for_itself(
    rulebook: Rulebook, awx: AwxServer, tmp_path: Path, node: str, overall: str, wanted: str
) -> None:
    """By the sender, on a machine of that name, from what dcgmi prints."""
    errors = {"NVLINK": {"value": overall, "overflow": ["link 7 is down"]}}
    gpus = {"4": {"value": overall, "children": {"Errors": {"children": errors}}}}
    printed = {"header": ["Health Monitor Report"], "body": {"Overall Health": {"value": overall}, "GPU": {}}}
    printed["body"]["GPU"] = {"children": gpus}
    env = {"GPUFLEET_TELL_URL": rulebook.url("dcgm"), "GPUFLEET_TELL_TOKEN_PATH": str(rulebook.dcgm_token)}
    argv = ["unshare", "--uts", sys.executable, "-c", NAMED, f"{node}.hall2.example", sys.executable, str(SENDER)]
    before = len(awx.jobs.launched)
    for _time in ("first", "again, as a timer does"):
        done = subprocess.run(
            [*argv, "dcgm"],
            input=json.dumps(printed),
            env={**os.environ, **env},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    assert '"refused": "' in done.stdout, done.stdout
    until(lambda: len(awx.jobs.launched) > before, lambda: rulebook.told)
    assert launched(awx)[before:] == [(wanted, node)]


#: By the option of strigger: a node, what happens to it there, and what is launched.
TRIGGERS = {
    "down": ("gpu004", [["State=DOWN", "Reason=fell"]], RECYCLE),
    "drained": ("gpu002", [["State=DRAIN", "Reason=riser of bob"]], LOOK),
    "up": ("gpu003", [["State=DOWN", "Reason=blinks"], ["State=RESUME"]], LOOK),
}


@pytest.mark.needs_root
@pytest.mark.skipif(bool(no_slurm()), reason=no_slurm())
def test_each_trigger_of_slurm_launches_what_is_due_for_the_node_that_it_names(
    rulebook: Rulebook, awx: AwxServer, tmp_path: Path
) -> None:
    """Over TLS, by the sender, which slurmctld starts."""
    cluster = Cluster(tmp_path)
    program = tmp_path / "tell"
    settings = f"GPUFLEET_TELL_URL={rulebook.url('slurm')} GPUFLEET_TELL_TOKEN_PATH={rulebook.token}"
    settings += f" GPUFLEET_TELL_CA_PATH={rulebook.ca} SLURM_CONF={cluster.conf}"
    program.write_text(f'#!/bin/sh\n{settings} exec {sys.executable} {SENDER} "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    before = len(awx.jobs.launched)
    cluster.start()
    try:
        for event, (node, changes, wanted) in TRIGGERS.items():
            cluster.run("strigger", "--set", f"--node={node}", f"--{event}", f"--program={program} slurm {event}")
            number = len(awx.jobs.launched)
            for change in changes:
                cluster.update(node, *change)
            until(lambda number=number: len(awx.jobs.launched) > number, lambda: rulebook.told)
            assert launched(awx)[number:] == [(wanted, node)], event
        # That of a node that fails is fired by no `scontrol update State=FAIL` of Slurm 22.05, with a job or without.
        number = len(awx.jobs.launched)
        done = subprocess.run([str(program), "slurm", "fail", "gpu001"], capture_output=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        until(lambda: len(awx.jobs.launched) > number, lambda: rulebook.told)
        assert launched(awx)[number:] == [(RECYCLE, "gpu001")]
    finally:
        cluster.stop()
    assert len(awx.jobs.launched) == before + len(TRIGGERS) + 1


@pytest.mark.parametrize(
    ("kind", "token", "code"),
    [
        ("alertmanager", "another-token-of-nobody", 401),
        ("alertmanager", "", 401),
        ("alertmanager", "\xff", 401),
        ("slurm", TOKEN, 404),
        ("", TOKEN, 404),
    ],
)
def test_whoever_has_no_business_here_is_turned_away(rulebook: Rulebook, kind: str, token: str, code: int) -> None:
    assert rulebook.tell(kind, {"alerts": [firing("gpu005")]}, token=token, at="alertmanager")[0] == code


def test_who_speaks_for_the_watches_speaks_for_nobody_else(rulebook: Rulebook) -> None:
    healthy = {"node": "gpu005", "health": {"body": {"Overall Health": {"value": "Healthy"}}}}
    assert rulebook.tell("dcgm", healthy, token=DCGM_TOKEN)[0] == 200
    assert rulebook.tell("dcgm", healthy, token=TOKEN)[0] == 401
    assert rulebook.tell("nvsentinel", [], token=DCGM_TOKEN)[0] == 401


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"{", 400),
        (b"[]", 400),
        (b"[" * 20000, 400),
        (b'"' + b"x" * 2**20 + b'"', 413),
        (b'{"alerts": [7]}', 400),
    ],
)
def test_what_is_no_message_is_told_so(rulebook: Rulebook, raw: bytes, code: int) -> None:
    assert rulebook.send("alertmanager", raw)[0] == code


def test_nothing_is_taken_over_an_open_line_where_there_is_a_certificate(rulebook: Rulebook) -> None:
    with pytest.raises(OSError):
        rulebook.tell("slurm", {"event": "down", "nodes": ["gpu005"]}, scheme="http")
    with pytest.raises(OSError):
        rulebook.tell("slurm", {"event": "down", "nodes": ["gpu005"]}, context=ssl.create_default_context())


def test_what_takes_a_rack_down_recycles_no_rack(rulebook: Rulebook, awx: AwxServer, ledger: Ledger) -> None:
    alerts = {"alerts": [firing(host, "NodeDown") for host in HOSTS]}
    code, told = rulebook.tell("alertmanager", alerts)
    assert code == 200 and any("in common" in one["refused"] for one in told["answers"])
    data = [(row["node_id"], row["data"]) for row in ledger.of_all("alert")]
    taken = {node for node, told in data if (told["do"], told["source"]) == ("recycle", "alertmanager")}
    assert len(taken) == 4


def test_while_the_ledger_is_away_the_monitor_is_told_to_come_again(rulebook: Rulebook, ledger: Ledger) -> None:
    """The last of them: what follows would find no ledger."""
    path = Path(ledger.url.removeprefix("sqlite:///"))
    path.rename(path.with_suffix(".away"))
    try:
        code, told = rulebook.tell("alertmanager", {"alerts": [firing("gpu008", "GpuLost")]})
        assert not path.exists(), "none is made"
    finally:
        path.with_suffix(".away").rename(path)
    assert code == 503 and "no ledger" in told["msg"]
