# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A play on a controller without xCAT, by the connection that the inventory has to the management node: a real sshd."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from calls import lead
from sites import BMC_PASSWORD
from xcat_commands.site import COMMANDS, XcatSite

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "jump_host"))

import jump

pytestmark = pytest.mark.slow

#: Runs over there alone, and notes which words of commands anybody on the machine can read meanwhile.
ONLY_THERE = """#!/bin/sh
[ -n "$SSH_CONNECTION" ] || {{ echo "${{0##*/}} was run on the controller" >&2; exit 99; }}
cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' >> {folder}/words
exec {real} "$@"
"""


@pytest.fixture(scope="module")
def ssh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    yield from jump.served(tmp_path_factory.mktemp("login") / "ssh")


class Play(jump.Site):
    """The host ``jump`` is the management node; a host ``dead`` is one on which nobody listens."""

    def __init__(self, folder: Path, ssh: dict[str, Any], xcat: XcatSite) -> None:
        self.there = folder / "opt" / "xcat"
        self.options = xcat.new()
        for place, names in COMMANDS.items():
            (self.there / place).mkdir(parents=True)
            for name in names:
                real = Path(xcat.connection()["provisioner_url"]) / place / name
                (self.there / place / name).write_text(ONLY_THERE.format(folder=folder, real=real), encoding="utf-8")
                (self.there / place / name).chmod(0o755)
        bmc = {key: self.options[key] for key in ("bmc_protocol", "bmc_address", "bmc_username", "bmc_password")}
        own = {
            **{key: value for key, value in bmc.items() if value}, "boot_mac": self.options["boot_mac"],
            "serial": self.options["serial"], "provisioner": "xcat", "provisioner_url": str(self.there),
            "provisioner_login_host": "jump", "provisioner_id": self.options["name"],
        }  # fmt: skip
        super().__init__(folder, ssh, Path(sys.executable), **{f"gpufleet_{key}": value for key, value in own.items()})

    def shown(self) -> str:
        """All that the run has printed, written into its ledger, or left behind, but for the inventory."""
        kept = [path for path in self.folder.rglob("*") if path.is_file() and path.name != "hosts.yml"]
        return self.output + "".join(path.read_bytes().decode("utf-8", "replace") for path in kept)


@pytest.fixture
def play(started: Any, ssh: dict[str, Any], tmp_path: Path) -> Iterator[Play]:
    with started(XcatSite).in_good_health() as xcat:
        (tmp_path / "site").mkdir()
        yield Play(tmp_path / "site", ssh, xcat)


def task(state: str, **options: Any) -> dict[str, Any]:
    extras = {"driver": dict(XcatSite.extras)}
    return {"gpufleet.baremetal.provisioner_node": {"state": state, **extras, **options}}


def test_a_node_is_entered_over_that_connection_and_its_password_is_seen_nowhere(play: Play, started: Any) -> None:
    xcat = started(XcatSite)
    info = {"gpufleet.baremetal.provisioner_info": {"driver": dict(XcatSite.extras)}}
    entered, again, anew, told, noted = play.run(
        task("ready"), task("ready"), task("enrolled", update_password="always"), info,
        task("annotated", annotations={"rack": "it's $(r12)"}), here=True,
    )  # fmt: skip
    assert entered["changed"] and not entered.get("failed"), entered
    assert not again["changed"] and not anew.get("failed") and noted["changed"], (again, anew, noted)
    assert not told.get("failed") and '"ready"' in json.dumps(told), told
    record = xcat.record(play.options["name"])
    assert record["bmcpassword"] == BMC_PASSWORD and "rack=it%27s%20%24%28r12%29" in record["usercomment"]
    assert any(BMC_PASSWORD.encode() in call.body for call in xcat.faults.calls), "it went there"
    words = (play.folder / "words").read_text(encoding="utf-8", errors="replace")
    assert "mkdef" in words and BMC_PASSWORD not in words
    assert BMC_PASSWORD not in play.shown()


def test_a_check_writes_nothing_over_there(play: Play, started: Any) -> None:
    [told] = play.run(task("ready"), here=True, check=True)
    assert told["changed"] and not started(XcatSite).faults.writes


def test_a_task_for_all_goes_there_as_often_as_one_for_one_node(play: Play, started: Any) -> None:
    """A look whether that host is there, one for its clock and the command, and one for all records."""
    xcat = started(XcatSite)
    nodes = [play.options, *(xcat.new() for _number in range(7))]
    for options in nodes:
        lead(options, "ready")
        own = {key: options[key] for key in ("boot_mac", "serial", "bmc_address")}
        variables = {f"gpufleet_{key}": value for key, value in {**own, "provisioner_id": options["name"]}.items()}
        play.others[options["name"]] = {**play.node, **variables, "its_driver": dict(XcatSite.extras)}
    play.node = play.others.pop(play.options["name"])
    batch = {"batch": True, "state": "enrolled", "each": {"driver": "its_driver"}}
    [told] = play.run({"gpufleet.baremetal.provisioner_node": batch, "run_once": True}, here=True, check=True)
    assert len(told["verdicts"]) == 8 and all(one["ok"] for one in told["verdicts"].values()), told
    assert play.output.count("SSH: EXEC") == 3, play.output[-3000:]


def test_hosts_that_are_wrong_or_dead_are_told_and_a_task_that_is_delegated_refused(play: Play, started: Any) -> None:
    wrong, sent = play.run(
        task("ready", provisioner_login_host="mn9"),
        {**task("ready", force_reason="nobody has it yet"), "delegate_to": "jump"},
        here=True,
    )
    assert "the inventory has no host mn9" in wrong["msg"] and "gpufleet_provisioner_login_host" in wrong["msg"]
    assert "awx_slices: 1" in wrong["msg"], "a slice of AWX has a part of the inventory alone"
    assert sent["failed"] and "nobody here knows the way" in sent["msg"] and "delegate_to" in sent["msg"], sent
    play.jump["ansible_port"] = 1
    [dead] = play.run(task("ready"), here=True)
    assert dead["failed"] and "cannot be reached" in dead["msg"] and "refused" in dead["msg"], dead
    assert started(XcatSite).faults.calls == []
