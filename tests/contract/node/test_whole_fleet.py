# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A whole fleet on one screen, and one node's story, through the playbooks as a person runs them."""

from __future__ import annotations

import json
import re
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.tests.contract.node.test_fleet_status import LONG, UNKNOWN, Fleet
from contract.docs.blocks import blocks

pytestmark = pytest.mark.slow

NEW = [f"new{number:03}" for number in range(1, 201)]
#: Of a run that goes on, a few show that it does; one that ends does so once for all.
FEW = "quarantined,lost1,new001"
LOST = [f"lost{number}" for number in range(1, 9)]


needs_jq = pytest.mark.skipif(shutil.which("jq") is None, reason="needs the Debian package jq")


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    """Two hundred new nodes, eight with one fault in a slot of their own, two whose ledger nobody reads, and others."""
    made = Fleet(tmp_path)
    made.settings["ANSIBLE_STDOUT_CALLBACK"] = "default"
    made.hosts.update({name: {"gpufleet_serial": f"S-{name}"} for name in (*NEW, *LOST)})
    with Ledger(made.url) as ledger:
        for at, name in enumerate(LOST):
            node = ledger.identify(name, aliases=[("serial", f"S-{name}")])
            reason = LONG.replace(":1b:", f":{at:02x}:")
            ledger.append("r2", [(node, Event("state", "quarantined", {"reason": reason, "remedy": "power_cycle"}))])
    for name in ("served", "released"):
        made.hosts[name]["gpufleet_ledger_url"] = "nonsense"
    return made


@needs_jq
def test_u4_two_hundred_nodes_are_a_few_rows_and_a_file(fleet: Fleet) -> None:
    before, said = fleet.count(), ("gpufleet.baremetal.status", "-e", "status_write_to=told/status.json")
    output = fleet.book(*said, ok=False)
    shown = output.partition("Status: ")[2].partition("TASK [")[0]
    assert len(shown) < 6000 and len(output) < 10_000 and max(map(len, shown.splitlines())) <= 80, output
    for text in ("new[001-200]", "lost[1-8]", "(and 8 more): Xid 79, the GPU has fallen off", "remedy: power_cycle"):
        assert text in shown or text in " ".join(shown.split()), (text, shown)
    assert "gpufleet.baremetal.day0_bringup" in shown and "~new(" in shown
    assert re.search(r"Nobody can tell where 2 nodes stand: released,served\. Why, each row", " ".join(output.split()))
    file = fleet.folder / "told" / "status.json"
    told = json.loads(file.read_text(encoding="utf-8"))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert told["not_told"] == ["released", "served"] and told["states"]["quarantined"] == 1 + len(LOST)
    assert set(told["nodes"]) == set(fleet.hosts) == {host for group in told["groups"] for host in group["hosts"]}
    [asks] = [one.commands for one in blocks("docs/how-to/see-the-fleet.md") if "\njq " in one.commands]
    shown = subprocess.run(
        ["sh", "-ec", asks.splitlines()[1]], cwd=file.parent, capture_output=True, text=True, timeout=60, check=True
    ).stdout.splitlines()
    held = [group for group in told["groups"] if group["state"] == "quarantined"]
    assert shown == [f"{group['count']} {group['cause']}" for group in held] and len(shown) > 0
    new = next(group for group in told["groups"] if NEW[0] in group["hosts"])
    assert new["hosts"] == [*sorted([*NEW, UNKNOWN], key=lambda host: (host != UNKNOWN, host))]
    assert fleet.count() == before


@pytest.mark.parametrize(
    ("fail_on", "who", "word"),
    [
        ("held", ["lost*"], "8 nodes of 8 are held out of service: lost1, lost2,"),
        ("not_admitted", ["admitted", "retired"], "1 nodes of 2 are not admitted: retired."),
        ("not_kept", ["admitted"], "1 nodes of 1 are kept by no person: admitted."),
        ("always", ["admitted"], "What this job closes was broken off"),
        ("perhaps", ["admitted"], "status_fail_on is perhaps. Say unknown,"),
        ("held", ["admitted", "retired", "new001"], ""),
        ("not_admitted", ["admitted"], ""),
    ],
)
def test_status_fails_for_what_a_job_that_closes_others_says(
    fleet: Fleet, fail_on: str, who: list[str], word: str
) -> None:
    said = ("--limit", ":".join(who), "-e", f"status_fail_on={fail_on}")
    told = fleet.book("gpufleet.baremetal.status", *said, ok=not word)
    assert word in " ".join(told.split()), told


def test_u4_the_story_of_a_node_is_told_also_where_its_machine_is_gone(fleet: Fleet) -> None:
    before = fleet.count()
    output = fleet.book("gpufleet.baremetal.history", "--limit", "quarantined,admitted", "-e", "history_last=2")
    text = " ".join(output.split())
    assert f"quarantined: {LONG}; remedy: power_cycle (r2)" in text and "hold taken: xid79 (r2)" in text
    assert "the last 2 events; there are earlier ones" in text and "image_verify pass" in text
    del fleet.hosts["retired"]
    told = {"import_playbook": "gpufleet.baremetal.history", "vars": {"history_of": "s-RETIRED"}}
    (fleet.folder / "both.yml").write_text(yaml.safe_dump([told, {"import_playbook": "gpufleet.baremetal.history"}]))
    output = " ".join(fleet.book("both.yml", ok=False).split())
    assert output.count("retired: sold (r1)") == 1 and f"These are {len(fleet.hosts)} nodes" in output
    assert fleet.count() == before


def test_the_report_of_a_fleet_is_written_and_says_of_whom_nobody_can_tell(fleet: Fleet) -> None:
    before = fleet.count()
    said = ("gpufleet.baremetal.report", "-e", "report_data=told/report.json", "-e", "report_page=told/report.html")
    output = " ".join(fleet.book(*said, "-e", "report_details=3", ok=False).split())
    assert "Nobody can tell where 2 nodes stand, released among them. Why, the report says" in output
    told = json.loads((fleet.folder / "told" / "report.json").read_text(encoding="utf-8"))
    assert set(told["nodes"]) == set(fleet.hosts) and len(told["pages"]) == 3 and told["runs"]
    page = (fleet.folder / "told" / "report.html").read_text(encoding="utf-8")
    assert f"Fleet: {len(fleet.hosts)} nodes" in page and "new[001-200]" in page
    assert fleet.count() == before


def test_w8_under_a_controller_the_next_step_is_a_template_and_counts_are_artifacts(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"AWX_HOST": "https://awx.example", "JOB_ID": "812"}.items():
        monkeypatch.setenv(name, value)
    fleet.shared["gpufleet_awx_templates"] = {"day2_recycle": "GPU fleet: day 2"}
    fleet.settings["ANSIBLE_SHOW_CUSTOM_STATS"] = "true"
    output = fleet.book("gpufleet.baremetal.status", "-e", "status_write_to=status.json", ok=False)
    shown = output.partition("Status: ")[2].partition("TASK [")[0]
    words = " ".join(shown.split())
    assert "ansible-playbook" not in shown and max(map(len, shown.splitlines())) <= 80, shown
    assert 'launch the template "GPU fleet: day 2" with limit lost1,lost2' in words
    assert "launch the template that runs gpufleet.baremetal.day0_bringup with limit" in words
    counted = json.loads(output.partition("CUSTOM STATS:")[2].partition("RUN: ")[2])
    told = json.loads((fleet.folder / "status.json").read_text(encoding="utf-8"))
    stopped = sum(1 for node in told["nodes"].values() if node["stopped"])
    wanted = {"nodes": len(fleet.hosts), "states": told["states"], "stopped": stopped}
    hosts = counted["gpufleet_status"].pop("hosts")
    assert counted == {"gpufleet_status": wanted} and stopped >= 2
    held = [name for name, node in told["nodes"].items() if node["state"] == "quarantined"]
    assert hosts["quarantined"] == sorted(held)[:10] and "admitted" not in hosts and "discovered" not in hosts
    lost = next(group for group in told["groups"] if LOST[0] in group["hosts"])
    assert lost["next"] == f'launch the template "GPU fleet: day 2" with limit {",".join([*LOST, "quarantined"])}'
    assert told["nodes"][LOST[0]]["next"] == 'launch the template "GPU fleet: day 2" with limit lost1'


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("day2_recycle_al=true", "day2_recycle_all"),
        ("gpufleet_skus=a", "gpufleet_sku"),
        ("site_skus=a", ""),
        ("gpufleet_tenent=alice", "gpufleet_tenant"),
        ("day2_recycle_all=false", ""),
    ],
)
def test_u8_what_is_given_to_one_run_and_misspelt_ends_it(fleet: Fleet, said: str, meant: str) -> None:
    before = fleet.count()
    some = () if meant else ("--limit", FEW)
    output = " ".join(fleet.book("gpufleet.baremetal.day2_recycle", "-e", said, *some, ok=False).split())
    assert (f"did you mean {meant}? Correct the name" in output) == bool(meant), output
    assert ("Status: " in output or "Day 2: " in output) != bool(meant), output
    assert not meant or fleet.count() == before


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (["-e", "deploy_timeout=soon"], "deploy_timeout"),
        (["-e", "gate_dcgm_level=high"], "gate_dcgm_level"),
        (["-e", "drain_interval={{ nobody_set_that }}"], "drain_interval cannot be read"),
        (["-e", "passports_days=9"], ""),
    ],
)
def test_u9_what_a_role_does_not_take_ends_the_run_once_for_all_hosts(fleet: Fleet, said: list[str], told: str) -> None:
    """Before the first write, and not in a task of each host's own."""
    before = fleet.count()
    some = () if told else ("--limit", FEW)
    output = " ".join(fleet.book("gpufleet.baremetal.day2_recycle", *said, *some, ok=False).split())
    ended = "what roles are given is not what they take" in output
    assert ended == bool(told) and told in output, output[:2000]
    assert not told or (fleet.count() == before and "PLAY [Report]" not in output)


@pytest.mark.parametrize(
    ("book", "said", "what"),
    [
        ("status", {"status_write_to": "job/told.json"}, "what is told"),
        ("report", {"report_page": "job/page.html"}, "the report"),
        ("report", {"report_page": "", "report_metrics": "job/gpu.prom"}, "the report"),
        ("evidence", {"evidence_folder": "job"}, "the evidence"),
        ("ledger", {"ledger": "backup", "ledger_path": "job/ledger.sqlite"}, "the backup"),
        ("ledger", {"ledger": "archive", "ledger_path": "job/archive.sqlite"}, "the archive"),
    ],
)
def test_a_job_of_a_controller_writes_no_file_that_is_gone_with_it(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, book: str, said: dict[str, str], what: str
) -> None:
    (fleet.folder / "job").mkdir()
    whole = {name: value.replace("job", str(fleet.folder / "job")) for name, value in said.items()}
    monkeypatch.setenv("AWX_HOST", "https://awx.example")
    monkeypatch.setenv("AWX_PRIVATE_DATA_DIR", str(fleet.folder / "job"))
    monkeypatch.delenv("GPUFLEET_LEDGER_MAY_BE_LOST")
    told = fleet.book(f"gpufleet.baremetal.{book}", "--limit", "admitted", "-e", json.dumps(whole), ok=False)
    output = " ".join(told.split())
    assert f"{what} would lie in a job of an automation controller" in output, output
    assert list((fleet.folder / "job").iterdir()) == []
